// SPDX-License-Identifier: GPL-2.0
/*
 * The qdiscs of the series as the rate group sees them: who asks what, in which
 * order. Functions that have a namesake in net/sched/sch_cake.c or sch_tbf.c do
 * what that does, without flows and AQM, and without what comes of them: ranks,
 * weights of tins, and light flows that are not part of a member's share. Those
 * are for the loads of make demo.
 */
#include "sim.h"

/* Of the rate, as with diffserv4; that of the first is not kept together */
static const u32 threshold_shift[SOURCES] = { 0, 4, 1, 2 };

int tbf_turn(struct member *m, u64 now, u64 *when)
{
	int i;

	if (!rate_group_may_send(&m->part, now, m->bytes) &&
	    rate_group_wait(&m->part, now, m->bytes, 0, when))
		return -1;
	for (i = 0; !m->q[i].n; i++)
		;

	return i;
}

int root_turn(struct member *m, u64 now, u64 *when)
{
	int i;

	*when = m->wait;
	if (time_after64(m->wait, now))
		return -1;
	for (i = 0; !m->q[i].n; i++)
		;

	return i;
}

static bool has_own_turns(const struct tin *b)
{
	return b->limit.rate;
}

/* By the schedule of tins; all: also those that have turns of their own */
static int cake_shaped_tin(const struct member *m, u64 clock, bool all)
{
	s64 best = S64_MAX;
	int i, tin = -1;

	for (i = 0; i < SOURCES; i++) {
		s64 wait = m->tin[i].next - clock;

		if (!m->q[i].n || (has_own_turns(&m->tin[i]) && !all))
			continue;
		if (wait <= 0 || wait <= best) {
			best = wait;
			tin = i;
		}
	}

	return tin;
}

/* Time that no threshold claims goes to the tin with the largest */
static int cake_surplus_tin(const struct member *m)
{
	int i, tin = -1;

	for (i = 0; i < SOURCES; i++)
		if (m->q[i].n && (tin < 0 || m->tin[i].rate > m->tin[tin].rate))
			tin = i;

	return tin;
}

static int cake_group_tin(const struct member *m, u64 now)
{
	u64 clock = rate_group_clock(&m->part, now);
	int tin = cake_shaped_tin(m, clock, false);

	return tin < 0 ? cake_surplus_tin(m) : tin;
}

static bool cake_group_waits(struct member *m, u64 now, u64 *when)
{
	u32 i, backlog = 0;
	int tin;

	m->part.rank = m->spec->rank ? m->spec->rank - 1 : RATE_GROUP_DEFAULT_RANK;
	for (i = 0; i < SOURCES; i++)
		if (!m->spec->tins || !has_own_turns(&m->tin[i]))
			backlog += m->q[i].bytes;
	if (!backlog && m->spec->tins) {
		tin = cake_surplus_tin(m);
		backlog = m->q[tin].bytes;
		m->part.rank = min(RATE_GROUP_DEFAULT_RANK - 1 +
				   fls64(m->part.rate / m->tin[tin].rate),
				   RATE_GROUP_RANKS - 1);
	}

	return rate_group_wait(&m->part, now, backlog, 0, when);
}

/* Return: whose packet may go ahead, -1 if none may. A lone packet need not be
 * that of the source that is returned.
 */
static int cake_go_ahead(struct member *m, u64 now, bool *refused)
{
	int i, general = m->spec->tins ? cake_group_tin(m, now) : -1;

	for (i = SOURCES - 1; m->packets == 1 && i >= 0; i--) {
		if (!m->q[i].n || m->bytes > m->mtu)
			continue;
		*refused = true;
		return rate_group_go_ahead(&m->part, now, m->bytes) ? i : -1;
	}

	for (i = SOURCES - 1; i >= 0; i--) {
		if (!m->q[i].n || !m->spec->src[i].sparse)
			continue;
		if (m->spec->tins && !has_own_turns(&m->tin[i]) && i != general)
			continue;
		*refused = true;
		if (rate_group_go_ahead(&m->part, now,
					cost_of(m->spec, head_len(m, i))))
			return i;
	}

	return -1;
}

static bool cake_tin_waits(struct tin *b, u32 backlog, u64 now, u64 *when)
{
	if (rate_group_may_send(&b->turn, now, backlog))
		return false;
	*when = b->turn.next_at;
	if (b->turn.left > 0)
		return true;

	if (!rate_group_may_send(&b->limit, now, backlog) &&
	    rate_group_wait(&b->limit, now, backlog, 0, when))
		return true;

	/* Later ranks may go next: all thresholds fit into the rate */
	return rate_group_wait(&b->turn, now, 0, b->limit.left ?: backlog,
			       when);
}

int cake_turn(struct member *m, u64 now, u64 *when)
{
	bool refused = false, own = false;
	u64 next = 0, at;
	int i;

	if (m->wait && time_after64(m->wait, now + m->part.slack))
		return -2;
	m->wait = 0;
	m->served = NULL;
	for (i = SOURCES - 1; i >= 0 && m->spec->tins; i--) {
		struct tin *b = &m->tin[i];

		if (!has_own_turns(b) || !m->q[i].n)
			continue;
		if (!cake_tin_waits(b, m->q[i].bytes, now, &at)) {
			m->served = b;
			return i;
		}
		if (!own || time_before64(at, next))
			next = at;
		own = true;
	}

	if (!rate_group_may_send(&m->part, now, m->bytes)) {
		i = cake_go_ahead(m, now, &refused);
		if (i >= 0)
			return i;
		if (cake_group_waits(m, now, when)) {
			if (own && time_before64(next, *when))
				*when = next;
			/* What was refused may go once others have sent */
			if (!refused)
				m->wait = *when;
			return -1;
		}
	}
	if (m->spec->tins)
		return cake_group_tin(m, now);
	for (i = SOURCES - 1; !m->q[i].n; i--)
		;

	return i;
}

static void charge(struct rate_group_member *m, u64 now, u32 cost)
{
	if (!rate_group_credit_pays(m, now, cost))
		rate_group_charge(m, now, cost);
}

void charge_packet(struct member *m, int i, u64 now, u32 cost)
{
	struct tin *b = &m->tin[i];
	u64 clock, dur;

	if (m->spec->root) {
		m->frac += cost * NSEC_PER_SEC;
		m->wait += m->frac / m->part.rate;
		m->frac %= m->part.rate;
		return;
	}
	if (m->spec->tbf || !m->spec->tins) {
		charge(&m->part, now, cost);
		return;
	}

	clock = rate_group_clock(&m->part, now);
	dur = b->rate ? ns_of(b->rate, cost) : 0;
	if (time_before64(b->next, clock))
		b->next += dur;
	else if (time_before64(b->next, clock + dur))
		b->next = clock + dur;
	if (!m->served) {
		charge(&m->part, now, cost);
		return;
	}
	rate_group_charge(&m->served->limit, now, cost);
	rate_group_charge(&m->served->turn, now, cost);
}

bool look_ahead(struct member *m, u64 now, u64 *when)
{
	int i;

	if (m->spec->root || m->spec->tbf || m->spec->tins || m->packets <= 1)
		return false;
	for (i = 0; i < SOURCES; i++)
		if (m->q[i].n && m->spec->src[i].sparse)
			return false;
	if (rate_group_may_send(&m->part, now, m->bytes) ||
	    !cake_group_waits(m, now, when))
		return false;
	m->wait = *when;
	return true;
}

static void cake_tin_changed(struct member *m, int i, u64 now)
{
	u64 clock = rate_group_clock(&m->part, now);
	struct tin *b = &m->tin[i];
	bool backlogged = m->q[i].n;

	if (backlogged == b->backlogged)
		return;
	b->backlogged = backlogged;
	if (backlogged && time_before64(b->next, clock))
		b->next = clock;
	if (!has_own_turns(b))
		return;
	if (backlogged) {
		rate_group_arrive(&b->limit, now);
		rate_group_arrive(&b->turn, now);
	} else {
		rate_group_idle(&b->limit, now);
		rate_group_idle(&b->turn, now);
	}
}

void backlog_changed(struct member *m, int i, u64 now)
{
	bool backlogged = m->packets;

	if (!m->part.rate)
		return;
	if (m->spec->root) {
		if (backlogged && !m->backlogged)
			m->wait = time_after64(now, m->wait) ? now : m->wait;
		m->backlogged = backlogged;
		return;
	}
	if (m->spec->tins)
		cake_tin_changed(m, i, now);
	if (backlogged == m->backlogged)
		return;
	m->backlogged = backlogged;
	if (backlogged) {
		rate_group_arrive(&m->part, now);
		return;
	}
	/* Sometimes the weight counts on */
	if (now & BIT(12))
		m->part.weight = 0;
	rate_group_idle(&m->part, now);
}

static void leave_tin(struct tin *b, u64 now)
{
	if (!b->limit.group)
		return;
	rate_group_leave(&b->limit, now);
	rate_group_leave(&b->turn, now);
	b->backlogged = false;
}

void leave_tins(struct member *m, u64 now)
{
	int i;

	for (i = 0; i < SOURCES; i++)
		leave_tin(&m->tin[i], now);
}

/* tins: a group for each but the first */
static void follow_thresholds(struct member *m, struct rate_group *g,
			      struct rate_group *tins, u64 now)
{
	u64 rate = m->part.rate;
	u32 i;

	for (i = 0; i < m->spec->tins; i++) {
		struct tin *b = &m->tin[i];

		b->rate = rate >> threshold_shift[i];
		if (!i)
			continue;
		if (b->rate < RATE_GROUP_MIN_RATE) {
			leave_tin(b, now);
			continue;
		}
		rate_group_set_rate(&tins[i], b->rate, now);
		if (!b->limit.group) {
			rate_group_join(&tins[i], &b->limit, true, now);
			rate_group_join(g, &b->turn, false, now);
		}
		b->limit.late_bytes = 64 * m->mtu;
		rate_group_update(&b->limit, now);
		rate_group_update(&b->turn, now);
		cake_tin_changed(m, i, now);
	}
}

/* The member has joined its group, or the rate has changed */
void follow_rate(struct member *m, struct rate_group *g,
		 struct rate_group *tins, u32 mtu, u64 now)
{
	m->mtu = mtu;
	m->part.burst = m->spec->burst;
	m->part.weight = m->spec->weight;
	rate_group_update(&m->part, now);
	m->wait = 0;
	if (!m->part.rate) {
		leave_tins(m, now);
		m->backlogged = false;
		return;
	}
	if (m->spec->tins)
		follow_thresholds(m, g, tins, now);
	/* All that its threshold, half of the rate at most, has to make up for */
	m->slot = max_t(u64, bytes_in(m->part.rate / 2, RATE_GROUP_MAX_LATE),
			64 * 9000);
	if (!m->packets)
		rate_group_idle(&m->part, now);
	m->backlogged = m->packets;
}

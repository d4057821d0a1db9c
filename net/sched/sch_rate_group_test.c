// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * KUnit tests for the rate group
 *
 * All time is virtual: packets arrive at members, members are called when they
 * asked to be (or late), and send if they may. Three meters watch:
 *
 * excess:	the backlog of a queue that takes all that is sent and drains at
 *		R, so its maximum is the largest excess in any window
 * shortage:	the mirror image, while there is a backlog
 * lag:		how far the group is behind one queue that serves all at R
 *
 * They count what frames cost, which is not what members ask for if there is
 * an overhead. The clock of a member is watched as well: it never goes back.
 *
 * Random numbers are those of a seed, which is part of failure messages.
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/prandom.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/timerqueue.h>
#include <net/sch_rate_group.h>

#define RGT_MTU		1514
#define RGT_GSO		(512 << 10)
#define RGT_NEVER	KTIME_MAX
#define RGT_RUNAWAY	BIT_ULL(22)	/* packets, more than any case needs */
#define RGT_GBIT	125000000ULL	/* bytes/s */

/* With everything that it takes to see the same again */
#define RGT_EXPECT(sim, a, op, b, what)					\
do {									\
	const struct rgt *_sim = (sim);					\
									\
	KUNIT_EXPECT_##op##_MSG(_sim->test, a, b,			\
				"%s: n %u rate %llu seed %llu", what,	\
				_sim->n, _sim->rate, _sim->seed);	\
} while (0)

/* What a member has to do; all numbers are the most that they may be */
struct rgt_load {
	u32	len[3];		/* bytes of a frame: one of these, */
	u32	min;		/* or, if there are none, anything from here */
	u32	max;		/* to here */
	s32	overhead;	/* bytes that each of them costs in addition, */
	bool	atm;		/* in cells of 53 bytes that carry 48 */
	u32	burst;		/* frames that arrive together */
	u64	pause;		/* until the next, ns */
	u32	late;		/* lateness of one call in four, ns */
	u32	stop;		/* no call after one burst in 16, ns */
	u32	drop;		/* bursts until all of the backlog is dropped */
	u32	take;		/* length of its slots, bytes; 0: as given */
	u32	credit;		/* what a new backlog may make up for, bytes */
	u32	patience;	/* what any backlog may make up for, bytes */
	bool	ahead;		/* asks to go ahead of its turn, */
	bool	single;		/* but never has more than one frame */
	bool	silent;		/* reserves, but never sends */
};

struct rgt_member {
	struct rate_group_member part;
	struct timerqueue_node	node;
	const struct rgt_load	*load;
	struct rnd_state	in;	/* of lengths, as frames arrive */
	struct rnd_state	out;	/* the same again, as they leave */
	u64			skew;	/* of its clock, ns */
	u64			clock;	/* which stands still, when last seen */
	u64			call;	/* when it wants to be called */
	u64			arrive;	/* when the next frames do */
	u64			stopped;	/* no call before that */
	u64			born;	/* since then a frame is at the head */
	u64			wait;	/* longest time that one was there */
	u64			sent;	/* bytes */
	u32			packets;
	u32			backlog;
	u32			cost;	/* of that, bytes */
	u32			len;	/* of the frame at the head */
	bool			full;	/* there always is more */
	bool			seen;	/* @clock is */
};

/* A meter holds bytes times NSEC_PER_SEC, so that it drains without rounding */
struct rgt_meter {
	u64			level;
	u64			max;
};

struct rgt {
	struct kunit		*test;
	struct rate_group	group;
	struct rgt_member	*member;
	struct timerqueue_head	queue;
	struct rnd_state	rnd;
	u64			seed;
	u64			start;		/* clock at time 0 */
	u64			now;		/* ns since then */
	u64			rate;
	u32			n;
	u32			busy;		/* members with a backlog */
	u64			cost;		/* of these backlogs */
	u64			sent;
	u64			packets;
	u64			calls;
	u64			moves;		/* of the tail */
	u64			ideal;		/* backlog of the one queue */
	struct rgt_meter	excess;
	struct rgt_meter	shortage;
	struct rgt_meter	lag;
	struct rgt_meter	ahead;		/* drains at a quarter of R, and
						 * counts what was asked for
						 */
};

static const struct rgt_load rgt_equal = { .min = 1514, .max = 1514 };
static const struct rgt_load rgt_any = { .min = 64, .max = 1514 };
static const struct rgt_load rgt_jumbo = { .len = { 300, 1514, 9000 } };
static const struct rgt_load rgt_gso = { .min = 1514, .max = RGT_GSO };

static u64 rgt_random(struct rgt *s, u64 below)
{
	return mul_u64_u32_shr(below, prandom_u32_state(&s->rnd), 32);
}

static u32 rgt_len(const struct rgt_load *load, struct rnd_state *rnd)
{
	u32 x = prandom_u32_state(rnd);

	if (load->len[0])
		return load->len[x % ARRAY_SIZE(load->len)];

	return load->min + x % (load->max - load->min + 1);
}

static u32 rgt_longest(const struct rgt_load *load)
{
	return max3(load->len[0], load->len[1], max(load->len[2], load->max));
}

/* What a frame takes of the rate; the group is told so when it was sent */
static u32 rgt_cost(const struct rgt_load *load, u32 len)
{
	len += load->overhead;

	return load->atm ? DIV_ROUND_UP(len, 48) * 53 : len;
}

/* The longest frame is the dearest, and then it may be longer than it says */
static u32 rgt_dearest(const struct rgt_load *load)
{
	u32 len = rgt_longest(load);

	return max(len, rgt_cost(load, len));
}

static u64 rgt_bytes(u64 rate, u64 ns)
{
	return mul_u64_u64_div_u64(rate, ns, NSEC_PER_SEC);
}

static u64 rgt_ns(const struct rgt *s, u64 bytes)
{
	return mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, s->rate);
}

static s64 rgt_tail(const struct rgt *s)
{
	return atomic64_read(&s->group.tail);
}

static u64 rgt_clock(const struct rgt *s, const struct rgt_member *m)
{
	return s->start + s->now + m->skew;
}

/* The clock by which a member keeps its schedules stands still, or goes on */
static void rgt_look(struct rgt *s, struct rgt_member *m)
{
	u64 clock = rate_group_clock(&m->part, rgt_clock(s, m));

	if (m->seen && m->part.group)
		RGT_EXPECT(s, (s64)(clock - m->clock), GE, 0, "back");
	m->clock = clock;
	m->seen = m->part.group;
}

static u64 rgt_max(const struct rgt_meter *meter)
{
	return div64_u64(meter->max + NSEC_PER_SEC - 1, NSEC_PER_SEC);
}

static void rgt_fill_meter(struct rgt_meter *meter, u64 by)
{
	meter->level += by;
	meter->max = max(meter->max, meter->level);
}

static void rgt_drain_meter(struct rgt_meter *meter, u64 by)
{
	meter->level -= min(meter->level, by);
}

static void rgt_advance(struct rgt *s, u64 to)
{
	u64 could, backlog = s->cost * NSEC_PER_SEC;

	/* No limit, or time enough to drain anything */
	if (!s->rate || check_mul_overflow(s->rate, to - s->now, &could))
		could = U64_MAX / 2;
	s->now = to;
	s->ideal -= min(s->ideal, could);
	rgt_drain_meter(&s->excess, could);
	rgt_drain_meter(&s->ahead, could / 4);
	if (s->busy && s->rate)
		rgt_fill_meter(&s->shortage, could);
	else
		s->shortage.level = 0;
	s->lag.level = 0;
	if (s->rate && backlog > s->ideal)
		rgt_fill_meter(&s->lag, backlog - s->ideal);
}

/* Return: what it costs */
static u32 rgt_sent(struct rgt *s, struct rgt_member *m)
{
	u32 cost = rgt_cost(m->load, m->len);
	u64 bytes = (u64)cost * NSEC_PER_SEC;

	m->wait = max(m->wait, s->now - m->born);
	m->born = s->now;
	m->sent += cost;
	s->sent += cost;
	s->packets++;
	if (s->rate)
		rgt_fill_meter(&s->excess, bytes);
	rgt_drain_meter(&s->shortage, bytes);
	if (!m->full) {
		s->cost -= cost;
		m->cost -= cost;
		m->backlog -= m->len;
		m->packets--;
	}
	if (m->packets)
		m->len = rgt_len(m->load, &m->out);
	else
		s->busy--;

	return cost;
}

/* Is it for the member to wait? Then it says until when. */
static bool rgt_wait(struct rgt *s, struct rgt_member *m, u64 now)
{
	struct rate_group_member *part = &m->part;
	u64 when;

	if (!part->rate || rate_group_may_send(part, now, m->backlog))
		return false;

	if (m->load->ahead &&
	    rate_group_ahead(part, now, m->len, m->packets == 1)) {
		rgt_fill_meter(&s->ahead, (u64)m->len * NSEC_PER_SEC);
		return false;
	}
	if (m->load->take && !rate_group_granted(part, m->backlog)) {
		if (!rate_group_take(part, now, min(m->load->take, m->backlog),
				     m->load->take < m->backlog, &when))
			return false;
	} else if (!rate_group_wait(part, now, m->backlog, &when)) {
		return false;
	}

	m->call = s->now + when - now;
	if (m->load->late && !rgt_random(s, 4))
		m->call += rgt_random(s, m->load->late);
	return true;
}

/* What a qdisc does in its ->dequeue(), which is called until it has to wait */
static void rgt_call(struct rgt *s, struct rgt_member *m)
{
	struct rate_group_member *part = &m->part;
	u64 now = rgt_clock(s, m);
	s64 tail = rgt_tail(s);
	bool wait;
	u32 cost;

	s->calls++;
	m->call = RGT_NEVER;
	rgt_look(s, m);
	while (m->packets && s->packets < RGT_RUNAWAY) {
		wait = rgt_wait(s, m, now);
		rgt_look(s, m);
		s->moves += rgt_tail(s) != tail;
		if (wait || m->load->silent)
			break;
		cost = rgt_sent(s, m);
		if (part->rate)
			rate_group_charge(part, now, cost);
		rgt_look(s, m);
		if (part->rate && !m->packets)
			rate_group_idle(part, now);
		rgt_look(s, m);
		tail = rgt_tail(s);
	}
}

static void rgt_queue(struct rgt *s, struct rgt_member *m)
{
	if (timerqueue_node_queued(&m->node))
		timerqueue_del(&s->queue, &m->node);
	m->node.expires = min(max(m->call, m->stopped), m->arrive);
	if (m->node.expires != RGT_NEVER)
		timerqueue_add(&s->queue, &m->node);
}

static void rgt_queue_arrival(struct rgt *s, struct rgt_member *m, u64 ns)
{
	m->arrive = s->now + ns;
	rgt_queue(s, m);
}

/* The backlog of a member vanishes */
static void rgt_drop(struct rgt *s, struct rgt_member *m)
{
	rgt_look(s, m);
	if (!m->packets)
		return;
	if (!m->full) {
		s->ideal -= min(s->ideal, (u64)m->cost * NSEC_PER_SEC);
		s->cost -= m->cost;
	}
	s->busy--;
	m->out = m->in;
	m->full = false;
	m->packets = 0;
	m->backlog = 0;
	m->cost = 0;
	m->call = RGT_NEVER;
	if (m->part.rate)
		rate_group_idle(&m->part, rgt_clock(s, m));
	rgt_look(s, m);
	rgt_queue(s, m);
}

static void rgt_begin(struct rgt *s, struct rgt_member *m)
{
	s->busy++;
	m->born = s->now;
	m->len = rgt_len(m->load, &m->out);
	if (m->part.rate)
		rate_group_arrive(&m->part, rgt_clock(s, m));
	rgt_look(s, m);
}

static void rgt_add(struct rgt *s, struct rgt_member *m, u32 packets)
{
	u32 len, cost;

	if (!m->packets)
		rgt_begin(s, m);
	m->call = s->now;
	m->packets += packets;
	while (packets--) {
		len = rgt_len(m->load, &m->in);
		cost = rgt_cost(m->load, len);
		m->backlog += len;
		m->cost += cost;
		s->cost += cost;
		s->ideal += (u64)cost * NSEC_PER_SEC;
	}
	rgt_queue(s, m);
}

/* From now on there always is more */
static void rgt_fill(struct rgt *s, struct rgt_member *m)
{
	rgt_drop(s, m);
	rgt_begin(s, m);
	m->call = s->now;
	m->packets = U32_MAX;
	m->backlog = 4 * RGT_GSO;
	m->full = true;
	rgt_queue(s, m);
}

static void rgt_fill_all(struct rgt *s)
{
	u32 i;

	for (i = 0; i < s->n; i++)
		rgt_fill(s, &s->member[i]);
}

static void rgt_arrive(struct rgt *s, struct rgt_member *m)
{
	const struct rgt_load *load = m->load;

	m->arrive = s->now + 1 + rgt_random(s, load->pause);
	if (m->full || (load->single && m->packets))
		return;
	rgt_add(s, m, 1 + rgt_random(s, load->burst));
	if (load->stop && !rgt_random(s, 16))
		m->stopped = s->now + rgt_random(s, load->stop);
	if (load->drop && !rgt_random(s, load->drop))
		rgt_drop(s, m);
}

static void rgt_run(struct rgt *s, u64 ns)
{
	struct timerqueue_node *node;
	u64 until = s->now + ns;
	struct rgt_member *m;

	while ((node = timerqueue_getnext(&s->queue)) &&
	       node->expires <= until && s->packets < RGT_RUNAWAY) {
		m = container_of(node, struct rgt_member, node);
		rgt_advance(s, node->expires);
		if (m->arrive <= s->now)
			rgt_arrive(s, m);
		if (m->call <= s->now && m->stopped <= s->now)
			rgt_call(s, m);
		rgt_queue(s, m);
	}
	RGT_EXPECT(s, s->packets, LT, RGT_RUNAWAY, "no end of packets");
	rgt_advance(s, until);
}

/* What was sent by each from now on */
static void rgt_run_anew(struct rgt *s, u64 ns)
{
	u32 i;

	for (i = 0; i < s->n; i++) {
		s->member[i].sent = 0;
		s->member[i].wait = 0;
	}
	s->sent = 0;
	s->packets = 0;
	s->calls = 0;
	s->moves = 0;
	rgt_run(s, ns);
}

/* @racing: a member that looks for something to send before it is updated */
static void rgt_set_rate(struct rgt *s, u64 rate, u32 mtu,
			 struct rgt_member *racing)
{
	struct rgt_member *m;

	rtnl_lock();
	rate_group_set_rate(&s->group, rate, mtu, s->start + s->now);
	s->rate = s->group.rate;
	if (racing)
		rgt_call(s, racing);
	for (m = s->member; m < s->member + s->n; m++) {
		rgt_look(s, m);
		if (!m->part.group)
			rate_group_join(&s->group, &m->part, rgt_clock(s, m));
		m->part.burst = m->load->credit;
		m->part.late = m->load->patience;
		rate_group_update(&m->part, rgt_clock(s, m));
		rgt_look(s, m);
		if (m->packets)
			m->call = s->now;
		rgt_queue(s, m);
	}
	if (!s->rate)
		RGT_EXPECT(s, atomic_read(&s->group.holders), EQ, 0, "holders");
	rtnl_unlock();
}

static struct rgt *rgt_new(struct kunit *test, u64 rate, u32 n,
			   const struct rgt_load *load, u64 start, u64 seed)
{
	struct rgt *s = test->priv;
	struct rgt_member *m;

	kvfree(s->member);
	memset(s, 0, sizeof(*s));
	s->test = test;
	s->seed = seed;
	s->start = start;
	s->member = kvcalloc(n, sizeof(*s->member), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s->member);
	s->n = n;
	timerqueue_init_head(&s->queue);
	prandom_seed_state(&s->rnd, seed);
	for (m = s->member; m < s->member + n; m++) {
		timerqueue_init(&m->node);
		m->load = load;
		m->call = RGT_NEVER;
		m->arrive = RGT_NEVER;
		prandom_seed_state(&m->in, seed << 16 ^ (m - s->member));
		m->out = m->in;
	}
	rgt_set_rate(s, rate, RGT_MTU, NULL);

	return s;
}

/* The slack, and the ns that each member and each frame of a slot may round */
static u64 rgt_slack(const struct rgt *s)
{
	const struct rgt_load *load = s->member->load;
	u32 least = rgt_cost(load, max(load->len[0], load->min));
	u32 frames = RATE_GROUP_QUANTUM / least + 1;

	return min(rgt_bytes(s->rate, RATE_GROUP_SLACK), RATE_GROUP_BURST) +
	       rgt_bytes(s->rate, s->n + frames) + 1;
}

static u64 rgt_horizon(const struct rgt *s)
{
	return max(rgt_bytes(s->rate, RATE_GROUP_HORIZON), 2 * RGT_MTU);
}

/* The most that may be sent on top of R in any window: slack, the frame that
 * is being sent, what goes ahead and what went ahead in the round before; for
 * each member a frame that is longer than what is left of its slot, and what it
 * has on its tab. For members that are late a slot, for those whose backlog
 * vanishes what they keep of one; in both cases others may have to make up for
 * unused time, within the horizon.
 *
 * The most that may be missing while somebody is not late is the mirror image,
 * as all that was too much is paid for. Slots that are not used are missing.
 */
static u64 rgt_bound(const struct rgt *s, bool excess)
{
	bool ahead = false, vain = false;
	const struct rgt_member *m;
	u64 bound = rgt_slack(s);
	u32 longest = 0;

	for (m = s->member; m < s->member + s->n; m++) {
		u32 len = rgt_dearest(m->load), slot;
		bool late = m->load->late || m->load->stop || m->load->silent;

		slot = max(s->group.quantum_max, min(len, RATE_GROUP_QUANTUM));
		longest = max(longest, len);
		ahead |= m->load->ahead;
		vain |= late || m->load->drop;
		if (m->load->min != RGT_MTU || len != RGT_MTU ||
		    m->load->overhead)
			bound += max(len, RATE_GROUP_SMALL);
		if (!m->full)
			bound += RATE_GROUP_TAB;
		if (late || (m->load->drop && !excess))
			bound += slot;
		else if (m->load->drop)
			bound += RGT_MTU;
	}
	if (vain && excess)
		bound += rgt_horizon(s);
	if (ahead)
		bound += 2 * RATE_GROUP_AHEAD;

	return bound + longest;
}

static void rgt_expect(struct rgt *s, u64 excess, u64 shortage)
{
	RGT_EXPECT(s, rgt_max(&s->excess), LE, excess, "too much");
	RGT_EXPECT(s, rgt_max(&s->shortage), LE, shortage, "too little");
}

/* Jain's index of what members have sent, in millionths */
static void rgt_expect_fair(struct rgt *s, u32 least)
{
	u64 sum = 0, squares = 0;
	u32 i;

	for (i = 0; i < s->n; i++) {
		u64 sent = s->member[i].sent >> 6;

		sum += sent;
		squares += sent * sent;
	}
	squares = max(div_u64(squares * s->n, 1000000), 1);
	RGT_EXPECT(s, mul_u64_u64_div_u64(sum, sum, squares), GE, least,
		   "not fair");
}

/* If the group was busy all the time, the tail says what was sent and what was
 * granted and is still to be sent, and nothing else.
 */
static void rgt_expect_exact(struct rgt *s, s64 bytes)
{
	s64 tail = rgt_tail(s);
	u32 i;

	for (i = 0; i < s->n; i++) {
		bytes += s->member[i].part.left - s->member[i].part.unpaid;
		tail -= s->member[i].part.lent;
	}
	tail -= s->start + rgt_ns(s, bytes);
	RGT_EXPECT(s, abs(tail), LE, s->n + 1, "tail is wrong");
}

/* Who was busy all the time has seen what it sent take the time that it takes
 * at R, and stood still otherwise.
 */
static void rgt_expect_clocks(struct rgt *s)
{
	struct rgt_member *m;
	s64 ns;

	for (m = s->member; m < s->member + s->n; m++) {
		rgt_look(s, m);
		ns = m->clock - s->start - rgt_ns(s, m->sent);
		RGT_EXPECT(s, abs(ns), LE,
			   rgt_ns(s, rgt_dearest(m->load)) + m->part.slack,
			   "clock");
	}
}

/* Cases */

/* A group of one is a shaper: exact, and as smooth as its packets and timers */
static void rgt_test_alone(struct kunit *test)
{
	static const struct rgt_load gso = { .min = RGT_GSO, .max = RGT_GSO };
	static const struct rgt_load *load[] = { &rgt_equal, &gso, &rgt_jumbo };
	static const u64 rates[] = {
		1000, 12500, 125000, RGT_GBIT / 10, RGT_GBIT, 10 * RGT_GBIT,
		100 * RGT_GBIT, 800 * RGT_GBIT,
	};
	u64 bound, ns;
	struct rgt *s;
	u32 i, j, len;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(load); i++) {
		j = i % ARRAY_SIZE(load);
		len = rgt_longest(load[j]);
		s = rgt_new(test, rates[i / ARRAY_SIZE(load)], 1, load[j], 1,
			    i);
		ns = clamp_t(u64, NSEC_PER_SEC, rgt_ns(s, 20ULL * len),
			     rgt_ns(s, 100000ULL * len));
		rgt_fill(s, s->member);
		rgt_run(s, ns);

		bound = len + rgt_slack(s);
		RGT_EXPECT(s, abs_diff(s->sent, rgt_bytes(s->rate, ns)), LE,
			   bound, "not exact");
		rgt_expect(s, bound, bound);
		/* What slack is for */
		if (s->rate >= 10 * RGT_GBIT && !j)
			RGT_EXPECT(s, s->calls * 4, LE, s->packets * 3,
				   "timers");
	}
}

/* One packet too much, or missing, for all together; and turns are taken */
static void rgt_saturated(struct kunit *test, u64 rate, u32 n, u64 start)
{
	struct rgt *s = rgt_new(test, rate, n, &rgt_equal, start, n);
	u64 bound, sent, round;
	u32 i, quantum;

	/* First one that has it all, then more, until all agree on a quantum */
	rgt_fill(s, s->member);
	rgt_run(s, 5 * NSEC_PER_MSEC);
	for (i = 1; i < n; i++)
		rgt_fill(s, &s->member[i]);
	rgt_run(s, 5 * NSEC_PER_MSEC + rgt_ns(s, 6 * RATE_GROUP_QUANTUM * n));
	sent = s->sent;
	quantum = s->group.quantum;
	rgt_run_anew(s, rgt_ns(s, 60 * quantum * n));

	bound = RGT_MTU + rgt_slack(s);
	rgt_expect(s, bound, bound);
	rgt_expect_fair(s, 999900);
	rgt_expect_exact(s, s->sent + sent);

	quantum = max(quantum, s->group.quantum);
	round = rgt_ns(s, quantum * n);
	for (i = 0; i < n; i++) {
		RGT_EXPECT(s, s->member[i].wait, LE,
			   round + 2 * s->member->part.slack + n, "no turn");
		if (n > 1)
			RGT_EXPECT(s, s->member[i].part.tab, EQ, 0, "tab");
	}

	/* Turns are as long as they may be, but not longer */
	if (quantum > RGT_MTU)
		RGT_EXPECT(s, round, LE, RATE_GROUP_ROUND * 3 / 2, "long");
	bound = div_u64(rgt_bytes(rate, RATE_GROUP_ROUND), n);
	bound = min(bound, s->group.quantum_max);
	RGT_EXPECT(s, s->moves * bound, LE, s->sent * 3, "short");
}

static void rgt_test_saturated(struct kunit *test)
{
	static const u32 n[] = { 1, 2, 7, 40, 256 };
	int i;

	for (i = 0; i < ARRAY_SIZE(n); i++) {
		rgt_saturated(test, RGT_GBIT / 10, n[i], 1);
		rgt_saturated(test, RGT_GBIT * 10, n[i], 1);
	}
}

/* The clock changes its sign, or wraps, in the middle of it all */
static void rgt_test_wrap(struct kunit *test)
{
	static const u32 n[] = { 1, 2, 7, 40, 256 };
	int i;

	for (i = 0; i < ARRAY_SIZE(n); i++) {
		rgt_saturated(test, RGT_GBIT, n[i],
			      S64_MAX - 10 * NSEC_PER_MSEC);
		rgt_saturated(test, RGT_GBIT, n[i],
			      U64_MAX - 10 * NSEC_PER_MSEC);
	}
	rgt_saturated(test, RGT_GBIT, 2, BIT_ULL(63) + NSEC_PER_SEC);
}

/* Members of different frames get the same in bytes; debts are paid. Among
 * packets that are longer than a quantum, the longer ones get somewhat less.
 */
static void rgt_test_fair(struct kunit *test)
{
	static const struct rgt_load small = { .min = 64, .max = 64 };
	static const struct rgt_load big = { .min = 9000, .max = 9000 };
	static const struct rgt_load huge = { .min = 65000, .max = 65000 };
	static const struct rgt_load more = {
		.min = 64, .max = 1514, .overhead = 44, .atm = true,
	};
	static const struct rgt_load less = {
		.min = 64, .max = 1514, .overhead = -60,
	};
	static const struct {
		const struct rgt_load	*one;
		const struct rgt_load	*others;
		u32			len;
		u32			least;
	} mix[] = {
		{ &rgt_any, &rgt_any, 2000, 999000 },
		{ &rgt_jumbo, &rgt_jumbo, 9000, 999000 },
		{ &rgt_gso, &rgt_equal, 60000, 999000 },
		{ &big, &rgt_equal, 9000, 999000 },
		{ &huge, &big, 65000, 998000 },
		{ &rgt_gso, &huge, 200000, 998000 },
		{ &small, &rgt_equal, 2000, 999000 },
		{ &more, &less, 2000, 999000 },
	};
	static const u64 rates[] = { RGT_GBIT / 10, RGT_GBIT, 10 * RGT_GBIT };
	struct rgt *s;
	u32 i, j, k;

	for (i = 0; i < ARRAY_SIZE(mix) * ARRAY_SIZE(rates); i++) {
		k = i / ARRAY_SIZE(rates);
		s = rgt_new(test, rates[i % ARRAY_SIZE(rates)], 8,
			    mix[k].others, 1, i);
		for (j = 0; j < s->n; j += 4)
			s->member[j].load = mix[k].one;
		rgt_fill_all(s);
		rgt_run(s, rgt_ns(s, 200ULL * s->n * mix[k].len));
		rgt_expect_fair(s, mix[k].least);
		rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));
		rgt_expect_exact(s, s->sent);
		rgt_expect_clocks(s);
	}
}

/* Anything at all, beside one queue that serves the same traffic */
static void rgt_random_schedule(struct kunit *test, u32 seed)
{
	static const struct rgt_load *lens[] = {
		&rgt_equal, &rgt_any, &rgt_jumbo, &rgt_gso
	};
	struct rgt_load load, on_time;
	bool late, full = seed & 16;
	struct rnd_state rnd;
	u32 i, n, avg, share;
	struct rgt *s;
	u64 rate;

	prandom_seed_state(&rnd, seed);
	n = 1 + prandom_u32_state(&rnd) % (seed & 32 ? 40 : 3);
	rate = (RGT_GBIT / 100) << (prandom_u32_state(&rnd) % 14);
	load = *lens[prandom_u32_state(&rnd) % ARRAY_SIZE(lens)];
	avg = rgt_longest(&load) * 2 / 3;
	load.burst = 1 + prandom_u32_state(&rnd) % 32;
	if (seed & 1)
		load.late = prandom_u32_state(&rnd) % (3 * NSEC_PER_MSEC);
	if (seed & 2)
		load.stop = prandom_u32_state(&rnd) % (10 * NSEC_PER_MSEC);
	if (seed & 4)
		load.drop = 2 + prandom_u32_state(&rnd) % 8;
	load.ahead = seed & 8;
	if (seed & 64)
		load.overhead = (s32)(prandom_u32_state(&rnd) % 200) - 50;
	load.atm = seed & 128;
	late = load.late || load.stop;

	/* Together they ask for 20 to 220 percent */
	s = rgt_new(test, rate, n, &load, 1, seed);
	share = 20 + prandom_u32_state(&rnd) % 200;
	load.pause = rgt_ns(s, avg * (load.burst + 1ULL) * n);
	load.pause = div_u64(load.pause * 100, share);
	for (i = 0; i < n; i++)
		rgt_queue_arrival(s, &s->member[i], rgt_random(s, load.pause));
	on_time = load;
	on_time.late = 0;
	on_time.stop = 0;
	on_time.drop = 0;
	if (full) {
		s->member->load = &on_time;
		rgt_fill(s, s->member);
	}
	rgt_run(s, rgt_ns(s, avg * 2000ULL));

	RGT_EXPECT(s, rgt_max(&s->excess), LE, rgt_bound(s, true), "too much");
	/* Unless all are late, or slots of others are granted in vain */
	if (full ? !load.drop : !late)
		RGT_EXPECT(s, rgt_max(&s->shortage), LE, rgt_bound(s, false),
			   "too little");
	if (!late && !full)
		RGT_EXPECT(s, rgt_max(&s->lag), LE, rgt_bound(s, false),
			   "too late");
	for (i = 0; i < n; i++)
		RGT_EXPECT(s, (s64)s->member[i].part.stood, GE, 0, "too early");
}

static void rgt_test_random(struct kunit *test)
{
	u32 seed;

	for (seed = 1; seed <= 64 * 16; seed++)
		rgt_random_schedule(test, seed);
}

/* A backlog that vanishes before its turn, again and again: its time is used */
static void rgt_test_refund(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 2, &rgt_equal, 1, 1);
	struct rgt_member *other = &s->member[1];
	u64 bound = 4 * RGT_MTU + RATE_GROUP_QUANTUM;
	s64 tail, slot;
	u32 i;

	rgt_fill(s, s->member);
	rgt_run(s, 5 * NSEC_PER_MSEC);
	for (i = 0; i < 1000; i++) {
		tail = rgt_tail(s);
		rgt_add(s, other, 8);
		rgt_run(s, 1);
		slot = rgt_tail(s) - tail;
		rgt_drop(s, other);
		tail += slot - rgt_tail(s) + rgt_ns(s, RGT_MTU) + 1;
		RGT_EXPECT(s, tail, GE, slot, "no refund");
		rgt_run(s, 60 * NSEC_PER_USEC + rgt_random(s, 60000));
	}
	rgt_expect(s, bound, bound);

	/* Time that has passed is gone, though */
	s = rgt_new(test, RGT_GBIT, 1, &rgt_equal, 1, 2);
	s->group.quantum = s->group.quantum_max;
	rgt_add(s, s->member, 8);
	rgt_run(s, 1);
	s->member->stopped = NSEC_PER_SEC;
	rgt_queue(s, s->member);
	rgt_run(s, rgt_ns(s, 7 * RGT_MTU));
	RGT_EXPECT(s, rgt_tail(s), GT, s->start + s->now, "end of slot");
	rgt_drop(s, s->member);
	RGT_EXPECT(s, rgt_tail(s), EQ, s->start + s->now, "past");
}

/* A member that leaves takes nothing along, and leaves no debt */
static void rgt_test_leave(struct kunit *test)
{
	static const struct rgt_load gso = { .min = 65536, .max = 65536 };
	struct rgt_member *other;
	struct rgt *s;
	u32 i, j;

	/* In the middle of a slot or before it; with something not paid for */
	for (j = 0; j < 2; j++) {
		s = rgt_new(test, RGT_GBIT, 2, &rgt_equal, 1, j);
		rgt_fill(s, s->member);
		other = &s->member[1];
		if (j)
			other->load = &gso;
		for (i = 0; i < 1000; i++) {
			if (j)
				rgt_add(s, other, 1);
			else
				rgt_fill(s, other);
			rgt_run(s, j ? 600000 : rgt_random(s, 300000));
			if (j)
				RGT_EXPECT(s, other->packets, EQ, 0, "unsent");
			rtnl_lock();
			rate_group_leave(&other->part, rgt_clock(s, other));
			rgt_drop(s, other);
			rgt_run(s, rgt_random(s, j ? 0 : 300000));
			rate_group_join(&s->group, &other->part,
					rgt_clock(s, other));
			rtnl_unlock();
		}
		/* Slots that others took after the one given back stay there */
		rgt_expect(s, rgt_bound(s, true) + RATE_GROUP_QUANTUM, j ?
			   rgt_bound(s, false) :
			   rgt_bytes(s->rate, div_u64(s->now, 50)));
	}
}

/* The rate changes all the time, from and to anything. What is measured is what
 * all those rates add up to.
 */
static void rgt_test_rates(struct kunit *test)
{
	static const struct rgt_load load = {
		.min = 1514, .max = 1514, .burst = 8, .pause = 500000,
	};
	struct rgt *s = rgt_new(test, RGT_GBIT, 8, &load, 1, 1);
	struct rgt_member *m;
	u64 bound = 0, rate;
	bool unlimited;
	u32 i, x;

	for (m = s->member; m < s->member + s->n; m++)
		rgt_queue_arrival(s, m, 0);
	for (i = 0; i < 1000; i++) {
		bound = max(bound, rgt_bound(s, true));
		x = rgt_random(s, 16);
		rate = x ? 10000ULL << x : 0;
		rate += rgt_random(s, rate);
		unlimited = !s->rate;
		rgt_set_rate(s, rate, RGT_MTU, NULL);
		for (m = s->member; m < s->member + s->n; m++) {
			/* So that there is no backlog without end */
			if (m->packets > 1000)
				rgt_drop(s, m);
			if (unlimited && rate)
				RGT_EXPECT(s, m->part.left, EQ, 0, "granted");
		}
		rgt_run(s, rgt_random(s, 2000000));
	}
	rgt_expect(s, bound, bound);
}

/* A sibling takes a slot when the rate has changed, but not yet for it */
static void rgt_test_race(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 8, &rgt_equal, 1, 1);
	struct timerqueue_node *node;
	struct rgt_member *m;
	u64 bound;
	u32 i;

	rgt_fill_all(s);
	bound = rgt_bound(s, true) + s->n * RATE_GROUP_QUANTUM;
	for (i = 0; i < 400; i++) {
		rgt_run(s, rgt_ns(s, 100 * RGT_MTU + rgt_random(s, RGT_MTU)));
		node = timerqueue_getnext(&s->queue);
		rgt_run(s, node->expires - s->now - 1);
		m = container_of(node, struct rgt_member, node);
		rgt_set_rate(s, i % 2 ? RGT_GBIT : 1000ULL << (i % 16),
			     RGT_MTU, m);
		RGT_EXPECT(s, m->part.next, LE, rgt_tail(s), "beyond the tail");
	}
	RGT_EXPECT(s, rgt_max(&s->excess), LE, bound, "too much");
}

/* There is no catching up with what was before */
static void rgt_test_idle(struct kunit *test)
{
	static const u64 pause[] = { RATE_GROUP_HORIZON / 2, 10000000000ULL };
	struct rgt *s;
	u32 i, j, n;

	for (i = 0; i < ARRAY_SIZE(pause) * 4; i++) {
		s = rgt_new(test, RGT_GBIT, 8, &rgt_equal, 1, i);
		if (i & 1) {
			rgt_fill_all(s);
			rgt_run(s, 10 * NSEC_PER_MSEC);
			for (j = 0; j < s->n; j++)
				rgt_drop(s, &s->member[j]);
		} else {
			for (j = 0; j < s->n; j++)
				rgt_add(s, &s->member[j], 100);
			rgt_run(s, rgt_ns(s, s->n * 100 * RGT_MTU));
			RGT_EXPECT(s, s->busy, EQ, 0, "busy");
		}
		RGT_EXPECT(s, atomic_read(&s->group.holders), EQ, 0, "holders");
		rgt_run(s, pause[i / 4]);
		s->excess.max = 0;
		n = i & 2 ? s->n : 1;
		for (j = 0; j < n; j++)
			rgt_fill(s, &s->member[j]);
		rgt_run(s, 10 * NSEC_PER_MSEC);
		/* But for what each has kept of a slot */
		rgt_expect(s, (n + 1) * RGT_MTU + rgt_slack(s), U64_MAX);
	}
}

/* Except for a late timer, whatever the length of frames */
static void rgt_test_held_up(struct kunit *test)
{
	static const struct rgt_load *load[] = {
		&rgt_equal, &rgt_any, &rgt_jumbo, &rgt_gso
	};
	struct rgt_member *m;
	u64 bound, ns;
	struct rgt *s;
	u32 i, j, len;

	for (i = 0; i < ARRAY_SIZE(load); i++) {
		s = rgt_new(test, RGT_GBIT, 1, load[i], 1, i);
		len = rgt_longest(load[i]);
		bound = len + rgt_slack(s);
		m = s->member;
		rgt_fill(s, m);
		for (j = 0; j < 100; j++) {
			rgt_run(s, 5 * NSEC_PER_MSEC);
			m->stopped = s->now + RATE_GROUP_HORIZON * 4 / 5;
			rgt_queue(s, m);
		}
		rgt_run(s, 5 * NSEC_PER_MSEC);
		RGT_EXPECT(s, abs_diff(s->sent, rgt_bytes(s->rate, s->now)), LE,
			   bound + len, "late");

		/* And for more: no burst of all of that */
		for (j = 0; j < 10; j++) {
			m->stopped = s->now + 10 * NSEC_PER_MSEC;
			rgt_queue(s, m);
			rgt_run(s, 15 * NSEC_PER_MSEC);
		}
		ns = s->now - 10 * (10 * NSEC_PER_MSEC - RATE_GROUP_HORIZON);
		RGT_EXPECT(s, abs_diff(s->sent, rgt_bytes(s->rate, ns)), LE,
			   bound + 10 * (RATE_GROUP_QUANTUM + len), "stopped");
		rgt_expect(s, bound + rgt_horizon(s) + RATE_GROUP_QUANTUM,
			   U64_MAX);
	}
}

/* Nor is it lost to light members that come while it is late */
static void rgt_test_mice(struct kunit *test)
{
	static const struct rgt_load mice[] = {
		{ .min = 300, .max = 300, .burst = 1, .pause = 400000 },
		{ .min = 1514, .max = 1514, .burst = 20, .pause = 10000000 },
		/* On a tab, at 10 Gbit/s */
		{ .min = 300, .max = 300, .burst = 1, .pause = 60000 },
	};
	static const struct rgt_load big[] = {
		{ .min = 1514, .max = 1514, .late = 800000 },
		{ .min = 64, .max = 1514, .late = 800000 },
		{ .len = { 300, 1514, 9000 }, .late = 800000 },
		{ .min = 1514, .max = 1514, .late = 800000, .take = 20000 },
	};
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(big) * 6; i++) {
		s = rgt_new(test, i % 2 ? 10 * RGT_GBIT : RGT_GBIT, 40,
			    &mice[i / 2 % 3], 1, i);
		s->member->load = &big[i / 6];
		rgt_fill(s, s->member);
		for (j = 1; j < s->n; j++)
			rgt_queue_arrival(s, &s->member[j], j * 1000);
		rgt_run(s, 100 * NSEC_PER_MSEC);
		RGT_EXPECT(s, s->sent * 1000, GE,
			   rgt_bytes(s->rate, s->now) * 985, "lost");
		rgt_expect(s, rgt_bound(s, true), U64_MAX);
	}
}

/* CPUs disagree about the time: that is sent early or late, and no more */
static void rgt_test_skew(struct kunit *test)
{
	static const struct rgt_load load = {
		.min = 1514, .max = 1514, .burst = 8, .pause = 2000000,
	};
	struct rgt *s;
	u64 skew;
	u32 i, j;

	for (i = 1; i <= 20; i++) {
		s = rgt_new(test, RGT_GBIT, 40, &load, NSEC_PER_SEC, i);
		for (j = 0; j < s->n; j++) {
			s->member[j].skew = rgt_random(s, NSEC_PER_MSEC);
			rgt_queue_arrival(s, &s->member[j],
					  rgt_random(s, load.pause));
			if (j < i)
				rgt_fill(s, &s->member[j]);
		}
		rgt_run(s, 50 * NSEC_PER_MSEC);
		skew = rgt_bytes(s->rate, NSEC_PER_MSEC);
		rgt_expect(s, rgt_bound(s, true) + skew,
			   rgt_bound(s, false) + skew);
	}
}

static void rgt_test_many(struct kunit *test)
{
	struct rgt *s = rgt_new(test, 10 * RGT_GBIT, 4096, &rgt_equal, 1, 1);
	u64 bound = RGT_MTU + rgt_slack(s);
	u32 i;

	rgt_fill_all(s);
	rgt_run(s, rgt_ns(s, 10ULL * RGT_MTU * s->n));
	rgt_expect(s, bound, bound);
	rgt_expect_exact(s, s->sent);
	for (i = 0; i < s->n; i++)
		RGT_EXPECT(s, s->member[i].sent, GE, 4 * RGT_MTU, "no turn");
}

/* Going ahead: no wait for the few */
static void rgt_test_ahead(struct kunit *test)
{
	static const struct rgt_load sparse = {
		.min = 64, .max = 64, .burst = 1, .pause = 10000000,
		.ahead = true,
	};
	struct rgt *s = rgt_new(test, RGT_GBIT, 40, &rgt_equal, 1, 1);

	s->member->load = &sparse;
	rgt_fill_all(s);
	rgt_drop(s, s->member);
	rgt_queue_arrival(s, s->member, 10 * NSEC_PER_MSEC);
	rgt_run_anew(s, 500 * NSEC_PER_MSEC);
	RGT_EXPECT(s, s->member->sent, GE, 50 * 64, "sparse");
	RGT_EXPECT(s, s->member->wait, EQ, 0, "sparse");
	rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));
	rgt_expect_exact(s, s->sent);
}

/* And no harm by the many: one that never has more than a packet, or half of
 * them; one that has plenty, or all
 */
static void rgt_test_flood(struct kunit *test)
{
	static const u32 lens[] = { 64, 300, 1514 };
	static const u32 many[] = { 1, 10, 1, 20 };
	struct rgt_load load;
	struct rgt_member *m;
	u64 part, sum, extra;
	u32 i, j, allowance;
	struct rgt *s;

	for (i = 0; i < ARRAY_SIZE(lens) * 4; i++) {
		load = (struct rgt_load){
			.min = lens[i / 4], .max = lens[i / 4],
			.burst = 1, .pause = i % 4 == 1 ? 300000 : 2000,
			.ahead = true, .single = i % 4 < 2,
		};
		s = rgt_new(test, RGT_GBIT, 20, &rgt_equal, 1, i);
		m = s->member;
		for (j = 0; j < many[i % 4]; j++)
			m[j].load = &load;
		rgt_fill_all(s);
		for (j = 0; load.single && j < many[i % 4]; j++) {
			rgt_drop(s, &m[j]);
			rgt_queue_arrival(s, &m[j], 1);
		}
		rgt_run(s, 20 * NSEC_PER_MSEC);
		s->ahead.max = 0;
		rgt_run_anew(s, 200 * NSEC_PER_MSEC);

		sum = rgt_bytes(s->rate, 200 * NSEC_PER_MSEC);
		part = div_u64(sum, s->n);
		allowance = RATE_GROUP_AHEAD * 9 / 8;
		if (load.min > RATE_GROUP_SMALL)
			allowance /= 2;
		RGT_EXPECT(s, rgt_max(&s->ahead), LE, allowance, "at once");
		if (load.single)
			extra = part;
		else if (load.min > RATE_GROUP_SMALL)
			extra = 0;
		else
			extra = min(sum / 4,
				    RATE_GROUP_OWED * s->group.quantum_max);
		RGT_EXPECT(s, m->sent, LE, part + extra + RATE_GROUP_AHEAD,
			   "flood");
		for (j = load.single ? many[i % 4] : 1; j < s->n; j++)
			RGT_EXPECT(s, m[j].sent * 10, GE, part * 7, "others");
		rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));
	}
}

/* After a flood the rest has its turn again soon, however long it was */
static void rgt_test_owed(struct kunit *test)
{
	static const struct rgt_load flood = {
		.min = 64, .max = 64, .ahead = true,
	};
	struct rgt *s = rgt_new(test, RGT_GBIT, 32, &rgt_equal, 1, 1);
	struct rgt_member *m = s->member;
	u32 i;

	for (i = 1; i < 1000; i *= 10) {
		m->load = &flood;
		rgt_fill_all(s);
		rgt_run(s, i * NSEC_PER_MSEC);
		m->load = &rgt_equal;
		m->wait = 0;
		rgt_run(s, 100 * NSEC_PER_MSEC);
		RGT_EXPECT(s, m->wait, LE,
			   rgt_ns(s, (RATE_GROUP_OWED + 2ULL) * s->n * RGT_MTU),
			   "long after it");
	}
}

/* A few bytes that were promised a turn have it, even if more arrive before it
 * comes, and longer packets went before
 */
static void rgt_test_trickle(struct kunit *test)
{
	static const struct rgt_load small = { .min = 100, .max = 100 };
	struct rgt *s = rgt_new(test, RGT_GBIT / 1000, 8, &rgt_equal, 1, 1);
	u64 round = rgt_ns(s, 8 * RGT_MTU);
	struct rgt_member *m = s->member;
	u32 i, j;

	rgt_fill_all(s);
	rgt_drop(s, m);
	for (i = 0; i < 10; i++) {
		m->load = &rgt_equal;
		rgt_add(s, m, 1);
		rgt_run(s, 4 * round);
		RGT_EXPECT(s, m->packets, EQ, 0, "one packet");

		m->load = &small;
		m->wait = 0;
		for (j = 0; j < 12; j++) {
			rgt_add(s, m, 1);
			rgt_run(s, round / 4);
		}
		rgt_run(s, 4 * round);
		RGT_EXPECT(s, m->packets, EQ, 0, "few bytes");
		RGT_EXPECT(s, m->wait, LE, round + rgt_ns(s, 2 * RGT_MTU),
			   "put off");
	}
	rgt_expect_exact(s, s->sent);
}

/* What always goes ahead never reserves anything, and pays nevertheless what it
 * cost more, or less, than it asked for
 */
static void rgt_test_cost(struct kunit *test)
{
	static const struct rgt_load costs[] = {
		{ .overhead = 38 }, { .overhead = 300 }, { .overhead = -14 },
		{ .overhead = -60 }, { .atm = true },
		{ .overhead = 44, .atm = true },
	};
	struct rate_group_member *part;
	struct rgt_load sparse;
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(costs); i++) {
		sparse = costs[i];
		sparse.min = 64;
		sparse.max = 64;
		sparse.ahead = true;
		s = rgt_new(test, RGT_GBIT, 20, &rgt_equal, 1, i);
		part = &s->member->part;
		rgt_fill_all(s);
		rgt_drop(s, s->member);
		s->member->load = &sparse;
		rgt_run(s, 5 * NSEC_PER_MSEC);
		for (j = 0; j < 2000; j++) {
			rgt_add(s, s->member, 1);
			rgt_run(s, 50 * NSEC_PER_USEC);
			RGT_EXPECT(s, abs(part->unpaid), LE,
				   rgt_dearest(&sparse), "unpaid");
		}
		RGT_EXPECT(s, s->member->wait, EQ, 0, "sparse");
		rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));
		rgt_expect_exact(s, s->sent);
	}
}

/* The tab saves reservations and nothing else */
static void rgt_test_tab(struct kunit *test)
{
	static const struct rgt_load load = {
		.min = 1514, .max = 1514, .burst = 2, .pause = 40000,
	};
	struct rgt *s = rgt_new(test, 10 * RGT_GBIT, 8, &load, 1, 1);
	struct rate_group_member *part;
	u64 when, bound;
	u32 i, j, moves;
	s64 tail, owed;

	/* Some 4 of 10 Gbit/s */
	for (i = 0; i < s->n; i++)
		rgt_queue_arrival(s, &s->member[i], i);
	rgt_run(s, 20 * NSEC_PER_MSEC);
	RGT_EXPECT(s, s->moves * 4, LE, s->packets * 3, "reservations");
	rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));

	/* From one moment to the next all of them have a lot to send */
	bound = rgt_bound(s, true);
	rgt_fill_all(s);
	rgt_run(s, 20 * NSEC_PER_MSEC);
	rgt_expect(s, bound, U64_MAX);

	s = rgt_new(test, 10 * RGT_GBIT, 2, &rgt_equal, 1, 2);
	part = &s->member->part;
	for (j = 0; j < 2; j++) {
		for (i = 0; i < 100 ||
		     (i < 200 && part->unpaid != RGT_MTU); i++) {
			rgt_add(s, s->member, 1);
			rgt_run(s, 3 * NSEC_PER_USEC);
		}
		RGT_EXPECT(s, part->unpaid, EQ, RGT_MTU, "on the tab");
		if (j)
			break;
		/* It does not last */
		moves = s->moves;
		rgt_run(s, NSEC_PER_MSEC);
		rgt_add(s, s->member, 1);
		rgt_run(s, 3 * NSEC_PER_USEC);
		RGT_EXPECT(s, s->moves, EQ, moves + 1, "after a pause");
	}

	/* The next reservation pays for what was sent */
	rgt_fill(s, &s->member[1]);
	rgt_run(s, 20 * NSEC_PER_USEC);
	owed = part->unpaid;
	tail = rgt_tail(s);
	RGT_EXPECT(s, tail, GT, s->start + s->now, "saturated");
	rate_group_arrive(part, s->start + s->now);
	rate_group_wait(part, s->start + s->now, RGT_MTU, &when);
	tail = rgt_tail(s) - tail - rgt_ns(s, owed + RGT_MTU);
	RGT_EXPECT(s, abs(tail), LE, 1, "payment");
}

/* Slots that are never used cost no more than that; any numbers will do */
static void rgt_test_extremes(struct kunit *test)
{
	static const struct rgt_load silent = {
		.min = 1514, .max = 1514, .silent = true,
	};
	static const struct rgt_load load = {
		.min = 1, .max = 70000, .burst = 4, .pause = 100000,
		.late = 100000, .drop = 5, .ahead = true,
	};
	static const u64 rates[] = {
		1, 63, 64, 65, 1000, 1000000000000ULL, S64_MAX, U64_MAX, 0, 1,
		U64_MAX, 1,
	};
	static const u32 mtus[] = { 0, 1, 299, 1514, 65535, U32_MAX };
	u64 bound = RGT_MTU + RATE_GROUP_BURST + RATE_GROUP_QUANTUM;
	struct rgt *s;
	u32 i, j;

	s = rgt_new(test, 10 * RGT_GBIT, 8, &silent, 1, 1);
	s->member->load = &rgt_equal;
	rgt_fill_all(s);
	rgt_run(s, 50 * NSEC_PER_MSEC);
	rgt_expect(s, bound, rgt_bound(s, false));

	s = rgt_new(test, 0, 4, &load, 1, 2);
	for (i = 0; i < s->n; i++)
		rgt_queue_arrival(s, &s->member[i], 1);
	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(mtus); i++) {
		rgt_set_rate(s, rates[i % ARRAY_SIZE(rates)],
			     mtus[i / ARRAY_SIZE(rates)], NULL);
		rgt_run(s, NSEC_PER_MSEC);
		for (j = 0; j < s->n; j++)
			rgt_drop(s, &s->member[j]);
		RGT_EXPECT(s, s->rate - 1, GE, RATE_GROUP_MIN_RATE - 1, "rate");
		RGT_EXPECT(s, s->group.quantum, GE, RATE_GROUP_SMALL,
			   "quantum");
		RGT_EXPECT(s, s->group.quantum, LE, RATE_GROUP_QUANTUM,
			   "quantum");
	}

	/* What takes minutes at the lowest rate takes no time at another */
	s = rgt_new(test, 1, 2, &rgt_equal, 1, 3);
	s->member->load = &rgt_gso;
	rgt_fill_all(s);
	rgt_run(s, 100ULL * NSEC_PER_SEC);
	rgt_set_rate(s, RGT_GBIT, RGT_MTU, NULL);
	rgt_run_anew(s, 100 * NSEC_PER_MSEC);
	RGT_EXPECT(s, s->sent, GE, rgt_bytes(s->rate, 90 * NSEC_PER_MSEC),
		   "stuck");
}

/* Groups come with their first member and go with their last */
static void rgt_test_numbers(struct kunit *test)
{
	struct rate_group_member *m;
	struct rate_group *g, *one;
	u32 i;

	g = kunit_kcalloc(test, 3, sizeof(*g), GFP_KERNEL);
	m = kunit_kcalloc(test, 4, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, g);
	KUNIT_ASSERT_NOT_NULL(test, m);

	rtnl_lock();
	for (i = 0; i < 3; i++)
		rate_group_join(rate_group_find(g, 3, 7 + i), &m[i], 1);
	one = m[0].group;
	KUNIT_EXPECT_PTR_NE(test, one, m[1].group);
	KUNIT_EXPECT_PTR_NE(test, one, m[2].group);
	KUNIT_EXPECT_PTR_NE(test, m[1].group, m[2].group);
	KUNIT_EXPECT_PTR_EQ(test, rate_group_find(g, 3, 7), one);
	KUNIT_EXPECT_NULL(test, rate_group_find(g, 3, 1));

	rate_group_set_rate(one, RGT_GBIT, RGT_MTU, 1);
	rate_group_join(one, &m[3], 1);
	rate_group_leave(&m[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, rate_group_find(g, 3, 7), one);
	rate_group_leave(&m[3], 1);
	KUNIT_EXPECT_PTR_EQ(test, rate_group_find(g, 3, 1), one);
	KUNIT_EXPECT_EQ(test, one->number, 1);
	KUNIT_EXPECT_EQ(test, one->rate, 0);
	rtnl_unlock();
}

/* Slots of its own length: who takes them gets as much more, or less */
static void rgt_test_take(struct kunit *test)
{
	static const struct rgt_load slots[] = {
		{ .min = 1514, .max = 1514, .take = 1514 },
		{ .min = 1514, .max = 1514, .take = 3 * 1514 },
		{ .min = 1514, .max = 1514, .take = 40 * 1514 },
		{ .min = 64, .max = 1514, .take = 8 * 1514 },
	};
	u64 bound, others, want;
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(slots); i++) {
		s = rgt_new(test, RGT_GBIT, 41, &rgt_equal, 1, i);
		s->member->load = &slots[i];
		rgt_fill_all(s);
		rgt_run(s, 100 * NSEC_PER_MSEC);
		rgt_run_anew(s, 400 * NSEC_PER_MSEC);

		others = 0;
		for (j = 1; j < s->n; j++)
			others += s->member[j].sent;
		want = mul_u64_u64_div_u64(others, slots[i].take, 40 * RGT_MTU);
		RGT_EXPECT(s, s->member->sent * 100, LE, want * 103, "more");
		RGT_EXPECT(s, s->member->sent * 100, GE, want * 97, "less");
		bound = rgt_bound(s, true) + slots[i].max;
		rgt_expect(s, bound, bound);
	}
}

/* Others have sent for it: it has had its share, and no more than that */
static void rgt_test_count(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 10, &rgt_equal, 1, 1);
	struct rgt_member *m = s->member;
	u64 part, all;
	u32 i;

	rgt_fill_all(s);
	rgt_run(s, 10 * NSEC_PER_MSEC);
	for (i = 0; i < 1000; i++) {
		rate_group_count(&m->part, 2 * RGT_MTU);
		RGT_EXPECT(s, m->part.excess, LE, s->group.quantum, "no end");
		rgt_run(s, rgt_ns(s, 10 * RGT_MTU));
	}
	rgt_run_anew(s, NSEC_PER_MSEC);

	for (i = 0; i < 1000; i++) {
		if (i % 2)
			rate_group_count(&m->part, RGT_MTU);
		rgt_run(s, rgt_ns(s, 10 * RGT_MTU));
	}
	all = s->sent;
	part = m->sent * 19;
	RGT_EXPECT(s, part * 10, GE, all * 9, "less than half");
	RGT_EXPECT(s, part * 10, LE, all * 11, "more than half");
	rgt_expect(s, rgt_bound(s, true), rgt_bound(s, false));
}

/* One token bucket for all: what the group did not use may go at once */
static void rgt_test_burst(struct kunit *test)
{
	static const struct rgt_load load[] = {
		{ .min = 1514, .max = 1514, .credit = 100 * 1514 },
		{ .min = 64, .max = 1514, .credit = 100 * 1514 },
		{ .len = { 300, 1514, 9000 }, .credit = 100 * 1514 },
	};
	u64 bound, burst = load->credit;
	u32 i, j, k, len;
	struct rgt *s;

	for (i = 0; i < ARRAY_SIZE(load) * 2; i++) {
		s = rgt_new(test, RGT_GBIT, i % 2 ? 20 : 1, &load[i / 2], 1, i);
		len = rgt_longest(&load[i / 2]);
		for (j = 0; j < 10; j++) {
			rgt_run(s, 10 * NSEC_PER_MSEC);
			s->excess.max = 0;
			rgt_fill_all(s);
			rgt_run_anew(s, NSEC_PER_USEC);
			/* What is kept of slots whose backlog vanished */
			bound = rgt_bound(s, true) + s->n * RGT_MTU;
			RGT_EXPECT(s, s->sent, GE, burst - len, "burst");
			RGT_EXPECT(s, s->sent, LE, burst + bound, "burst");
			rgt_run(s, 10 * NSEC_PER_MSEC);
			rgt_expect(s, burst + bound, bound);
			for (k = 0; k < s->n; k++)
				rgt_drop(s, &s->member[k]);
		}
	}
}

/* And a packet takes its length of it, also if it went on the tab, or cost more
 * than was reserved for it
 */
static void rgt_test_bucket(struct kunit *test)
{
	static const struct rgt_load load[] = {
		{ .min = 1514, .max = 1514, .credit = 100 * 1514 },
		{ .min = 200, .max = 200, .credit = 100 * 1514,
		  .overhead = 24 },
		{ .min = 64, .max = 1514, .credit = 100 * 1514, .atm = true },
	};
	u64 burst = load->credit, bound, ns;
	struct rgt *s;
	u32 i, j;

	/* At 10 to 90 % of the rate the bucket is full, but for a packet */
	for (i = 0; i < ARRAY_SIZE(load) * 9; i++) {
		s = rgt_new(test, RGT_GBIT, 1, &load[i / 9], 1, i);
		bound = rgt_bound(s, true);
		ns = rgt_ns(s, rgt_dearest(&load[i / 9]));
		ns = div_u64(ns * 10, i % 9 + 1);
		rgt_run(s, 10 * NSEC_PER_MSEC);
		for (j = 0; j < 1000; j++) {
			rgt_add(s, s->member, 1);
			rgt_run(s, ns);
		}
		rgt_fill(s, s->member);
		rgt_run_anew(s, NSEC_PER_USEC);
		RGT_EXPECT(s, s->sent + 2 * RGT_MTU, GE, burst, "burst");
		RGT_EXPECT(s, s->sent, LE, burst + bound, "burst");
	}
}

/* A member that waits for something else does not lose its time */
static void rgt_test_late(struct kunit *test)
{
	static const struct rgt_load load[] = {
		{ .min = 1514, .max = 1514, .patience = 64 * 1514 },
		{ .min = 64, .max = 1514, .patience = 64 * 1514 },
		{ .len = { 300, 1514, 9000 }, .patience = 64 * 1514 },
	};
	struct rgt_member *m;
	u32 i, j, len;
	struct rgt *s;

	for (i = 0; i < ARRAY_SIZE(load); i++) {
		s = rgt_new(test, RGT_GBIT / 100, 1, &load[i], 1, i);
		len = rgt_longest(&load[i]);
		m = s->member;
		rgt_fill(s, m);
		for (j = 0; j < 20; j++) {
			m->stopped = s->now + rgt_ns(s, 50 * RGT_MTU);
			rgt_queue(s, m);
			rgt_run(s, rgt_ns(s, 100 * RGT_MTU));
		}
		RGT_EXPECT(s, s->sent + 2 * len, GE, 2000ULL * RGT_MTU, "lost");
		RGT_EXPECT(s, s->sent, LE, 2000ULL * RGT_MTU + 2 * len, "won");
	}
}

/* What a user is told about who has how much of the rate */
static void rgt_test_share(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 4, &rgt_equal, 1, 1);
	struct rate_group_member *part = &s->member->part;
	u64 share, now;

	RGT_EXPECT(s, rate_group_share(part, s->start + s->now), EQ, 0, "new");
	rgt_fill_all(s);
	rgt_run(s, 500 * NSEC_PER_MSEC);
	share = rate_group_share(part, s->start + s->now);
	RGT_EXPECT(s, share, GE, RGT_GBIT / 4 * 99 / 100, "share");
	RGT_EXPECT(s, share, LE, RGT_GBIT / 4 * 101 / 100, "share");
	RGT_EXPECT(s, rate_group_recent(part, s->start + s->now), EQ, true,
		   "recent");
	/* By somebody who looked at the clock before it sent the last packet */
	now = s->start + s->now - NSEC_PER_MSEC;
	RGT_EXPECT(s, rate_group_recent(part, now), EQ, true, "recent");
	now = s->start + s->now - 150 * NSEC_PER_MSEC;
	RGT_EXPECT(s, rate_group_share(part, now), EQ, share, "share");

	rgt_drop(s, s->member);
	rgt_run(s, 500 * NSEC_PER_MSEC);
	RGT_EXPECT(s, rate_group_share(part, s->start + s->now), EQ, 0, "idle");
	RGT_EXPECT(s, rate_group_recent(part, s->start + s->now), EQ, false,
		   "recent");
	share = rate_group_share(&s->member[1].part, s->start + s->now);
	RGT_EXPECT(s, share, GE, RGT_GBIT / 3 * 99 / 100, "share");

	rgt_fill(s, s->member);
	rgt_run(s, NSEC_PER_MSEC);
	RGT_EXPECT(s, rate_group_share(part, s->start + s->now), EQ, 0,
		   "not of before");
}

/* If timers are slow, more may be made up for than the bounds above say */
static bool rgt_slow_timers(void)
{
	return hrtimer_resolution > RATE_GROUP_HORIZON / 2;
}

static int rgt_suite_init(struct kunit_suite *suite)
{
	int i;

	/* They become fast with a tick, which at boot may be to come */
	for (i = 0; i < 10 && rgt_slow_timers(); i++)
		msleep(20);

	return 0;
}

static int rgt_init(struct kunit *test)
{
	if (rgt_slow_timers())
		kunit_skip(test, "timers have no high resolution");

	test->priv = kunit_kzalloc(test, sizeof(struct rgt), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static void rgt_exit(struct kunit *test)
{
	struct rgt *s = test->priv;

	if (s)
		kvfree(s->member);
}

static struct kunit_case rgt_cases[] = {
	KUNIT_CASE(rgt_test_alone),
	KUNIT_CASE(rgt_test_saturated),
	KUNIT_CASE(rgt_test_wrap),
	KUNIT_CASE(rgt_test_fair),
	KUNIT_CASE(rgt_test_random),
	KUNIT_CASE(rgt_test_refund),
	KUNIT_CASE(rgt_test_leave),
	KUNIT_CASE(rgt_test_rates),
	KUNIT_CASE(rgt_test_race),
	KUNIT_CASE(rgt_test_idle),
	KUNIT_CASE(rgt_test_held_up),
	KUNIT_CASE(rgt_test_mice),
	KUNIT_CASE(rgt_test_skew),
	KUNIT_CASE(rgt_test_many),
	KUNIT_CASE(rgt_test_ahead),
	KUNIT_CASE(rgt_test_flood),
	KUNIT_CASE(rgt_test_owed),
	KUNIT_CASE(rgt_test_trickle),
	KUNIT_CASE(rgt_test_cost),
	KUNIT_CASE(rgt_test_tab),
	KUNIT_CASE(rgt_test_extremes),
	KUNIT_CASE(rgt_test_numbers),
	KUNIT_CASE(rgt_test_take),
	KUNIT_CASE(rgt_test_count),
	KUNIT_CASE(rgt_test_burst),
	KUNIT_CASE(rgt_test_bucket),
	KUNIT_CASE(rgt_test_late),
	KUNIT_CASE(rgt_test_share),
	{}
};

static struct kunit_suite rgt_suite = {
	.name = "rate_group",
	.suite_init = rgt_suite_init,
	.init = rgt_init,
	.exit = rgt_exit,
	.test_cases = rgt_cases,
};

kunit_test_suite(rgt_suite);

MODULE_DESCRIPTION("KUnit tests for the rate group");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

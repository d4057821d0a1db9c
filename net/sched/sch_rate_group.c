// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One rate shared by many shapers, each under a lock of its own */

#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/sch_rate_group.h>

/**
 * DOC: rate group
 *
 * The shapers of a group, for example one qdisc per TX queue, together send no
 * more than one rate R and, while any of them has a backlog, no less. They run
 * under locks of their own, on CPUs of their own, and never look at each other.
 *
 * Who sends when is decided by one number that they share: the *tail*, the time
 * at which everything that was granted will have been sent at R. A member that
 * has a backlog and nothing granted takes a *slot* by moving the tail: the slot
 * starts where the tail was, and is as long as its bytes take at R. So slots
 * never overlap, follow each other without a gap as long as anyone has a
 * backlog, and come in the order in which they were asked for: members take
 * turns. In its slot a member paces its packets at R; after the last one it
 * asks for the next slot.
 *
 * A slot holds a *quantum* at most, which is the price of a turn: one atomic
 * operation on a shared cache line. It is a few frames, fewer the longer a
 * round takes. Packets are not divided, so a slot may give up to half a packet
 * too much or too little, or much more if packets are longer than a quantum.
 * The next reservation corrects the tail for that, and when it adds up to a
 * packet, the member gets a packet less: deficit round robin, with whole
 * packets.
 *
 * Five things depart from this, each within a bound:
 *
 * Lateness
 *	A backlog may make up for unused time, but not for more than the
 *	horizon: the longest of 1 ms, two frames at R, and twice the resolution
 *	of timers. So a late timer costs no rate, and a TX queue that was
 *	stopped does not end in a burst of all that it missed. Others that come
 *	while such a member is late leave it that time, if its backlog has been
 *	more than a slot. The owner of a member may set the horizon higher.
 *
 * Bursts
 *	If the owner allows a burst, a backlog that begins may make up for as
 *	much unused time: a token bucket that all members share. They all draw
 *	on what the tail is behind, so together they send no larger a burst
 *	than one of them may.
 *
 * Slack
 *	A packet whose time comes within the slack goes at once. This saves
 *	timers, and puts no more than a frame or two ahead of their time.
 *
 * The tab
 *	While the group has time to spare there is no reason to ask for every
 *	packet. A member that has been sending may send an eighth of that on a
 *	tab, and pay with its next reservation.
 *
 * Going ahead
 *	The packet of a sparse flow need not wait for the turn of its member. It
 *	goes at once and its time is added to the tail. All that go ahead of
 *	their turn are limited by what is granted at that moment, and to a
 *	quarter of R. What a backlog has sent like that is taken off its next
 *	turns; when it owes RATE_GROUP_OWED of them, it has to wait for them.
 *
 * In any window of length t, the group sends no more than::
 *
 *	R x (t + horizon) + 2 x RATE_GROUP_AHEAD + RATE_GROUP_BURST
 *	+ for each member: RATE_GROUP_QUANTUM + RATE_GROUP_TAB
 *			   + its longest packet
 *
 * where the horizon is no shorter than the burst that is allowed, and for a
 * member that takes slots of its own length, that stands for a quantum. The
 * horizon only counts after time was left unused by members that were late,
 * stopped, or gave a slot back, and a quantum only for members that were late
 * with theirs. While some member has a backlog throughout and is called when it
 * asked to be, the group sends no less than R x t minus all that but the
 * horizon, and minus a slot each time that a backlog vanishes unsent.
 *
 * Time is that of the caller's clock, which should be monotonic. CPUs may
 * disagree about it; what they disagree by is sent early or late.
 */

static bool after(u64 a, u64 b)
{
	return time_after64(a, b);
}

static u64 later(u64 a, u64 b)
{
	return after(a, b) ? a : b;
}

/* Good for 2^29 bytes */
static u64 to_ns(const struct rate_group_member *m, u64 bytes)
{
	return (bytes * m->mult) >> m->shift;
}

/* The same, without losing what is less than a ns */
static u64 to_ns_exact(struct rate_group_member *m, u64 bytes)
{
	u64 fxp = bytes * m->mult + m->frac;

	m->frac = fxp & (BIT_ULL(m->shift) - 1);
	return fxp >> m->shift;
}

/* A time after @from, when everything from there on takes longer or shorter */
static u64 rescale(u64 t, u64 from, u64 old_rate, u64 new_rate)
{
	u64 ns = t - from;

	if (!after(t, from))
		return t;
	if (old_rate > new_rate &&
	    ns > div64_u64(RATE_GROUP_FOREVER,
			   div64_u64(old_rate, new_rate) + 1))
		return from + RATE_GROUP_FOREVER;

	return from + min_t(u64, RATE_GROUP_FOREVER,
			    mul_u64_u64_div_u64(ns, old_rate, new_rate));
}

/**
 * rate_group_find - find a group by its number, or room for it
 * @groups: all that there are, zeroed before the first call
 * @n: how many; as many as there can be members are enough
 * @number: of the group
 *
 * A group exists from the first rate_group_join() to the last
 * rate_group_leave(). If it does not exist, any that is not in use becomes it.
 *
 * Context: RTNL held.
 * Return: the group; NULL if it does not exist and all are in use.
 */
struct rate_group *rate_group_find(struct rate_group *groups, unsigned int n,
				   u32 number)
{
	struct rate_group *g, *unused = NULL;

	ASSERT_RTNL();

	for (g = groups; g < groups + n; g++) {
		if (g->members && g->number == number)
			return g;
		if (!g->members && !unused)
			unused = g;
	}
	if (unused) {
		memset(unused, 0, sizeof(*unused));
		unused->number = number;
	}

	return unused;
}
EXPORT_SYMBOL_NS_GPL(rate_group_find, "NET_SCHED_INTERNAL");

/**
 * rate_group_set_rate - set the rate of a group
 * @g: the group, zeroed before the first call
 * @rate: bytes/s; 0 is unlimited: members neither wait nor reserve
 * @mtu: length of a full-size frame, bytes
 * @now: time, ns
 *
 * What was granted before takes accordingly longer or shorter from now on, so
 * a change neither lets anything go twice nor leaves the group waiting at the
 * old rate. The caller then calls rate_group_update() for each member. A slot
 * that a member reserves before that still has the length of the old rate.
 *
 * Context: RTNL held.
 */
void rate_group_set_rate(struct rate_group *g, u64 rate, u32 mtu, u64 now)
{
	u64 old = g->rate;
	u64 round;
	s64 tail;
	u64 new;

	ASSERT_RTNL();

	if (rate)
		rate = max_t(u64, rate, RATE_GROUP_MIN_RATE);
	mtu = clamp(mtu, RATE_GROUP_SMALL, RATE_GROUP_QUANTUM);
	if (rate == old && mtu == g->mtu)
		return;

	/* What one member can send in a round */
	round = mul_u64_u64_div_u64(rate, RATE_GROUP_ROUND, NSEC_PER_SEC);
	WRITE_ONCE(g->mtu, mtu);
	WRITE_ONCE(g->quantum, mtu);
	WRITE_ONCE(g->quantum_max, clamp(round, mtu, RATE_GROUP_QUANTUM));
	if (rate == old)
		return;

	tail = atomic64_read(&g->tail);
	do {
		new = old && rate ? rescale(tail, now, old, rate) : now;
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, new));
	atomic64_set(&g->ahead, now);
	atomic64_set(&g->window, now);
	g->rate = rate;
	g->changed = now;
}
EXPORT_SYMBOL_NS_GPL(rate_group_set_rate, "NET_SCHED_INTERNAL");

/* A member that has had more than a slot to send may be late to ask for the
 * next. Until its backlog is gone, those who come in between leave unused time
 * for it, as far as their own horizon goes: they pay from where the tail is,
 * instead of from when they came. From then on they are paced all the same.
 */
static void rate_group_hold(struct rate_group_member *m, bool hold)
{
	if (m->holds == hold)
		return;
	m->holds = hold;
	atomic_add(hold ? 1 : -1, &m->group->holders);
}

/**
 * rate_group_update - let a member follow the rate of its group
 * @m: the member
 * @now: time, ns
 *
 * The caller then makes sure that the member asks again when it may send, as
 * the answer it had may be too late by now.
 *
 * Context: RTNL and the lock of the member held.
 */
void rate_group_update(struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 clock = rate_group_clock(m, now);
	u64 old = m->rate;
	u64 tail;

	m->rate = g->rate;
	if (!m->rate) {
		rate_group_hold(m, false);
		return;
	}

	m->frac = 0;
	m->shift = 34;
	m->mult = div64_u64((u64)NSEC_PER_SEC << 34, m->rate);
	while (m->mult >> 34) {
		m->mult >>= 1;
		m->shift--;
	}
	m->slack = min_t(u64, to_ns(m, RATE_GROUP_BURST), RATE_GROUP_SLACK);
	m->backdate = to_ns(m, min_t(u32, m->burst, BIT(28)));
	m->horizon = to_ns(m, clamp_t(u32, m->late, 2 * g->mtu, BIT(28)));
	m->horizon = max3(m->horizon, m->backdate, RATE_GROUP_HORIZON);
	/* Nobody comes more often than timers do, if they are slow */
	m->horizon = max_t(u64, m->horizon, 2ULL * hrtimer_resolution);

	if (old == m->rate)
		return;
	if (old) {
		m->next = rescale(m->next, g->changed, old, m->rate);
		m->end = rescale(m->end, g->changed, old, m->rate);
		/* Unless the slot was taken after the change */
		tail = atomic64_read(&g->tail);
		if (after(m->end, tail))
			m->end = tail;
		if (after(m->next, tail))
			m->next = tail;
	} else {
		m->next = now;
		m->end = now;
		m->since = now;
		m->left = 0;
		m->unpaid = 0;
		m->turn = false;
	}
	m->stood = later(m->next, now) - clock;
	m->own = now;
	m->tab = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_update, "NET_SCHED_INTERNAL");

/**
 * rate_group_join - become a member of a group
 * @g: the group
 * @m: the member
 * @now: time, ns
 *
 * Context: RTNL and the lock of the member held, or nobody sending yet.
 */
void rate_group_join(struct rate_group *g, struct rate_group_member *m,
		     u64 now)
{
	memset(m, 0, sizeof(*m));
	m->group = g;
	m->unit = RATE_GROUP_SMALL;
	g->members++;
	rate_group_update(m, now);
}
EXPORT_SYMBOL_NS_GPL(rate_group_join, "NET_SCHED_INTERNAL");

static void rate_group_refund(struct rate_group_member *m, u64 now, u64 bytes)
{
	s64 tail = atomic64_read(&m->group->tail);
	u64 ns = to_ns(m, bytes);

	do {
		if (!after(tail, now))
			return;
	} while (!atomic64_try_cmpxchg(&m->group->tail, &tail,
				       later(tail - ns, now)));
}

/* Too much, to be paid for, or too little, which was: the slot ends here. What
 * was too much has a claim to unused time like the slot that would be next.
 */
static void rate_group_end_slot(struct rate_group_member *m, u64 now)
{
	if (m->left < 0 && m->unpaid <= 0)
		m->unpaid_since = now - m->horizon;
	m->unpaid -= m->left;
	m->left = 0;
}

/**
 * rate_group_idle - the backlog of a member is gone
 * @m: the member
 * @now: time, ns
 *
 * Sent, dropped or reset: what is left of its slot goes back to the group if
 * there still is time to use it. A few bytes, from a backlog whose length was
 * not known exactly, are kept for the next slot instead.
 *
 * Context: lock of the member held.
 */
void rate_group_idle(struct rate_group_member *m, u64 now)
{
	s64 excess;
	u64 wait;

	rate_group_hold(m, false);
	if (!m->left && !m->turn)
		return;

	if (m->left > 0 && after(m->next, now)) {
		/* No more than it has waited, or its clock would go back */
		wait = min(m->next - now, m->stood);
		m->stood -= wait;
		m->next -= wait;
	}
	rate_group_end_slot(m, now);
	m->turn = false;

	excess = -m->unpaid - READ_ONCE(m->group->mtu);
	if (excess <= 0)
		return;
	m->unpaid += excess;
	if (after(m->end, now))
		rate_group_refund(m, now, excess);
}
EXPORT_SYMBOL_NS_GPL(rate_group_idle, "NET_SCHED_INTERNAL");

/**
 * rate_group_leave - leave the group
 * @m: the member
 * @now: time, ns
 *
 * Pays what it owes and gives back what it has not used.
 *
 * Context: RTNL and the lock of the member held, or nobody sending any more.
 */
void rate_group_leave(struct rate_group_member *m, u64 now)
{
	if (m->rate != m->group->rate)
		rate_group_update(m, now);
	if (m->rate) {
		rate_group_idle(m, now);
		if (m->unpaid > 0)
			atomic64_add(to_ns(m, m->unpaid), &m->group->tail);
		else
			rate_group_refund(m, now, -m->unpaid);
	}
	m->group->members--;
	memset(m, 0, sizeof(*m));
}
EXPORT_SYMBOL_NS_GPL(rate_group_leave, "NET_SCHED_INTERNAL");

/**
 * rate_group_arrive - a packet arrives at a member that had no backlog
 * @m: the member
 * @now: time, ns
 *
 * A backlog that begins now has no claim to time that passed before, except
 * for a burst. It may draw on time that is left for a member that is late, but
 * only as fast as the rate is from now on.
 *
 * Context: lock of the member held.
 */
void rate_group_arrive(struct rate_group_member *m, u64 now)
{
	rate_group_idle(m, now);
	m->since = now - m->backdate;
	m->next = later(m->next, m->since);
	m->excess = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_arrive, "NET_SCHED_INTERNAL");

/* Once per window, by one member: a round, in which each gets a quantum, shall
 * not take much longer than RATE_GROUP_ROUND, and a quantum is whole frames.
 * Between the two bounds it stays as it is, so that all get the same.
 */
static void rate_group_adapt(struct rate_group *g, u64 now)
{
	s64 window = atomic64_read(&g->window);
	u32 frame, quantum, lead, most;
	u64 next;

	if (after(window, now))
		return;
	/* Long enough for everybody to have had a turn */
	lead = READ_ONCE(g->lead);
	next = now + max_t(u64, NSEC_PER_MSEC, 2ULL * lead);
	if (!atomic64_try_cmpxchg(&g->window, &window, next))
		return;

	frame = clamp(READ_ONCE(g->frame), READ_ONCE(g->mtu),
		      RATE_GROUP_QUANTUM);
	most = max(READ_ONCE(g->quantum_max), frame);
	quantum = READ_ONCE(g->quantum);
	WRITE_ONCE(g->lead, 0);
	WRITE_ONCE(g->frame, 0);

	if (lead > RATE_GROUP_ROUND * 5 / 4)
		quantum /= 2;
	else if (lead < RATE_GROUP_ROUND / 2)
		quantum *= 2;
	quantum = frame * clamp(quantum / frame, 1U, most / frame);
	if (quantum != READ_ONCE(g->quantum))
		WRITE_ONCE(g->quantum, quantum);
}

/**
 * rate_group_granted - is there something left of a member's slot
 * @m: the member
 * @backlog: of the member, bytes
 *
 * Context: lock of the member held.
 * Return: true if there is more than half a packet left, or all that it takes.
 */
bool rate_group_granted(const struct rate_group_member *m, u32 backlog)
{
	return m->left > m->unit / 2 || (m->left > 0 && m->left >= backlog);
}
EXPORT_SYMBOL_NS_GPL(rate_group_granted, "NET_SCHED_INTERNAL");

/* How much to ask for. Slots are whole packets, so a member may have had up to
 * half a packet too much or too little so far, or all of a packet longer than a
 * quantum. That was paid for, but it was not fair: it gets a packet less, or
 * none in this turn.
 */
static u32 rate_group_slot(struct rate_group_member *m, s32 quantum)
{
	s32 unit = m->unit, less;

	less = (m->excess + (m->excess > 0 ? unit / 2 : -unit / 2)) / unit;
	less = clamp(less * unit, -quantum, quantum);
	m->excess -= less;

	return quantum - less;
}

/* The heart of it. Siblings may move the tail at any time; what they read and
 * write besides it (lead, frame, quantum) only tunes the length of slots, and
 * may be lost or stale.
 */
static void rate_group_reserve(struct rate_group_member *m, u64 now,
			       u32 backlog, u32 exactly, bool more)
{
	struct rate_group *g = m->group;
	u32 quantum = READ_ONCE(g->quantum);
	s64 tail = atomic64_read(&g->tail);
	u64 unpaid_since, since, least;
	u64 start, end, base, frac, ns;
	s64 unpaid, back;
	u32 slot;

	/* What the last slot gave too much is paid for now, as is the tab */
	m->excess = clamp_t(s64, m->excess - m->left, -(s32)quantum, BIT(28));
	rate_group_end_slot(m, now);

	if (m->frame) {
		m->unit = m->frame;
		if (m->frame > READ_ONCE(g->frame))
			WRITE_ONCE(g->frame, m->frame);
		m->frame = 0;
	}
	m->unit = min(m->unit, quantum);
	/* If nobody came in between, there is nobody to be fair to. Members
	 * that have to go without a slot for now do come, see below.
	 */
	if (tail == m->end)
		m->excess = 0;

	slot = exactly ?: min(rate_group_slot(m, quantum), backlog);
	least = now - m->horizon;
	since = m->since;
	unpaid_since = m->unpaid_since;
	if (atomic_read(&g->holders)) {
		since = least;
		unpaid_since = least;
	}
	if (more || slot < backlog)
		rate_group_hold(m, true);
	frac = m->frac;
	do {
		m->frac = frac;
		start = tail;
		unpaid = clamp_t(s64, m->unpaid, -(s64)slot, BIT(28));
		if (unpaid > 0) {
			start = later(start, unpaid_since) +
				to_ns_exact(m, unpaid);
			ns = to_ns_exact(m, slot);
		} else {
			ns = to_ns_exact(m, slot + unpaid);
		}
		start = later(start, since);
		start = later(start, least);
		back = min_t(u64, ns, m->lent);
		end = start + ns - back;
		/* A turn without a slot must be seen: 1 ns, given back later */
		if (end == tail) {
			end++;
			back--;
		}
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, end));

	m->lent -= back;
	m->unpaid -= unpaid;
	m->left = slot;
	m->turn = !rate_group_granted(m, backlog);
	/* It was enough for all there is, and is for what comes first later */
	if (!exactly && m->left >= backlog)
		m->unit = min(m->unit, backlog);
	m->end = end;
	m->own = end;
	/* Before that comes what was paid earlier and is sent only now */
	start = end - to_ns(m, slot);
	base = later(m->next, now);
	if (after(start, base))
		m->stood += start - base;
	m->next = later(m->next, start);

	m->tab = 0;
	if (!after(tail, now + m->slack)) {
		m->tab = min_t(u32, m->bytes / 8, RATE_GROUP_TAB);
		m->tab_end = now + BIT_ULL(RATE_GROUP_WINDOW);
	}

	if (after(end, now + READ_ONCE(g->lead)))
		WRITE_ONCE(g->lead, min_t(u64, end - now, U32_MAX));
	rate_group_adapt(g, now);
}

/**
 * rate_group_may_send - may the next packet go without asking
 * @m: the member
 * @now: time, ns
 * @backlog: of the member, bytes
 *
 * Context: lock of the member held.
 * Return: true if it is within a slot or on the tab. If not, see if
 * rate_group_ahead() or rate_group_wait() lets it go.
 */
bool rate_group_may_send(const struct rate_group_member *m, u64 now,
			 u32 backlog)
{
	if (rate_group_granted(m, backlog))
		return !after(m->next, now + m->slack);

	return m->unpaid + backlog <= m->tab && !after(now, m->tab_end);
}
EXPORT_SYMBOL_NS_GPL(rate_group_may_send, "NET_SCHED_INTERNAL");

/**
 * rate_group_wait - see to it that a member has a slot, or a turn, ahead
 * @m: the member
 * @now: time, ns
 * @backlog: of the member, bytes
 * @when: set to the time at which to ask again, ns
 *
 * Context: lock of the member held.
 * Return: true if the member has to wait until @when, false if the next packet
 * may go at once.
 */
bool rate_group_wait(struct rate_group_member *m, u64 now, u32 backlog,
		     u64 *when)
{
	backlog = max(backlog, 1U);
	while (!rate_group_granted(m, backlog)) {
		/* In debt: it must wait for this turn, too, to come */
		if (m->turn && after(m->next, now + m->slack))
			break;
		rate_group_reserve(m, now, backlog, 0, false);
	}

	*when = m->next;
	return after(m->next, now + m->slack);
}
EXPORT_SYMBOL_NS_GPL(rate_group_wait, "NET_SCHED_INTERNAL");

/**
 * rate_group_take - reserve a slot of a given length
 * @m: the member, which has nothing granted
 * @now: time, ns
 * @bytes: length of the slot: a packet at least, or all of the backlog
 * @more: there is more to send than that
 * @when: set to the time at which the slot starts, ns
 *
 * For members that are entitled to more, or less, than a quantum in each
 * round. Their owner keeps account of what they send too much, and sees to it
 * that what they take adds up to less than the rate, or rounds become longer
 * and longer.
 *
 * Context: lock of the member held.
 * Return: true if the member has to wait until @when, false if the next packet
 * may go at once.
 */
bool rate_group_take(struct rate_group_member *m, u64 now, u32 bytes, bool more,
		     u64 *when)
{
	rate_group_reserve(m, now, bytes, bytes, more);

	*when = m->next;
	return after(m->next, now + m->slack);
}
EXPORT_SYMBOL_NS_GPL(rate_group_take, "NET_SCHED_INTERNAL");

/**
 * rate_group_count - count something as part of a member's share
 * @m: the member
 * @len: that was sent in a slot of another member, bytes
 *
 * The next turns of the member give accordingly less, down to nothing.
 *
 * Context: lock of the member held.
 */
void rate_group_count(struct rate_group_member *m, u32 len)
{
	s64 quantum = READ_ONCE(m->group->quantum);

	if (m->excess < quantum)
		m->excess = min_t(s64, (s64)m->excess + len, quantum);
}
EXPORT_SYMBOL_NS_GPL(rate_group_count, "NET_SCHED_INTERNAL");

/**
 * rate_group_ahead - may a packet go although it is not its member's turn
 * @m: the member
 * @now: time, ns
 * @len: what the packet is going to take of the rate, as far as known, bytes
 * @own: it is the only packet of its member: it may go ahead only if the share
 *	of the member, one quantum a round, has not been used up
 *
 * The packet must then be sent and charged. Short ones may use all of the
 * allowance, others half of it: the segments of a bulk flow look sparse when
 * there are many such flows, and would crowd the others out.
 *
 * Context: lock of the member held.
 * Return: true if it may, false if not or if there is no need to.
 */
bool rate_group_ahead(struct rate_group_member *m, u64 now, u32 len, bool own)
{
	struct rate_group *g = m->group;
	u64 cost, limit, lead, start;
	s64 ahead, slot, pay;
	s32 quantum;

	slot = atomic64_read(&g->tail) - now;
	if (slot <= m->slack || (own && after(m->own, now)))
		return false;
	quantum = READ_ONCE(g->quantum);
	/* Or a flood of such packets would stop the rest for long after it */
	if (!own && m->excess >= RATE_GROUP_OWED * quantum)
		return false;

	/* Within the time that is granted, no more than RATE_GROUP_AHEAD */
	lead = min_t(u64, slot, RATE_GROUP_FOREVER);
	cost = max(to_ns(m, len * 4), div_u64(lead * len, RATE_GROUP_AHEAD));
	limit = max(lead, to_ns(m, RATE_GROUP_AHEAD * 4));
	if (len > RATE_GROUP_SMALL)
		limit /= 2;

	ahead = atomic64_read(&g->ahead);
	do {
		start = later(ahead, now);
		if (after(start + cost, now + limit))
			return false;
	} while (!atomic64_try_cmpxchg(&g->ahead, &ahead, start + cost));

	/* The rest of a slot, too short for a packet, ends here */
	if (m->left > 0 && !after(m->next, now + m->slack)) {
		m->excess -= m->left;
		rate_group_end_slot(m, now);
	}
	if (own)
		m->own = now + div_u64(lead * len, quantum);
	else
		m->excess += len;

	/* With what the last one cost more, or less, than it had asked for */
	pay = clamp_t(s64, len + m->unpaid, 0, BIT(28));
	atomic64_add(to_ns_exact(m, pay), &g->tail);
	m->unpaid -= pay;
	return true;
}
EXPORT_SYMBOL_NS_GPL(rate_group_ahead, "NET_SCHED_INTERNAL");

/* How fast a member sends, for its user to see */
static void rate_group_measure(struct rate_group_member *m, u64 window)
{
	u64 ns = (window - m->measured) << RATE_GROUP_WINDOW;
	u64 share = 0;

	/* Anew after a pause */
	if (window - m->measured < 2 * RATE_GROUP_MEASURE)
		share = mul_u64_u64_div_u64(m->sent, NSEC_PER_SEC, ns);
	WRITE_ONCE(m->share, share);
	WRITE_ONCE(m->measured, window);
	m->sent = 0;
}

/**
 * rate_group_share - what a member has of the rate of its group at present
 * @m: the member
 * @now: time, ns
 *
 * Context: any; what is read without the lock of the member, or torn in half on
 * 32-bit, is a figure in a report.
 * Return: bytes/s over the last 134 ms or so; 0 if it has sent nothing for
 * twice that time.
 */
u64 rate_group_share(const struct rate_group_member *m, u64 now)
{
	s64 windows = (now >> RATE_GROUP_WINDOW) - READ_ONCE(m->measured);

	return windows < 2 * RATE_GROUP_MEASURE ? READ_ONCE(m->share) : 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_share, "NET_SCHED_INTERNAL");

/**
 * rate_group_charge - a packet was sent
 * @m: the member
 * @now: time, ns
 * @len: what the packet takes of the rate, bytes
 *
 * Context: lock of the member held.
 */
void rate_group_charge(struct rate_group_member *m, u64 now, u32 len)
{
	u64 window = now >> RATE_GROUP_WINDOW;

	if (window != m->window) {
		m->bytes = window - m->window == 1 ? m->bytes / 2 : 0;
		WRITE_ONCE(m->window, window);
		if (window - m->measured >= RATE_GROUP_MEASURE)
			rate_group_measure(m, window);
	}
	m->bytes += len;
	m->sent += len;
	m->frame = max(m->frame, len);

	/* Outside its slot? */
	if (m->left <= 0 || after(m->next, now + m->slack)) {
		if (m->unpaid <= 0)
			m->unpaid_since = now - m->backdate;
		m->unpaid += len;
		return;
	}
	m->left -= len;
	m->next += to_ns(m, len);
}
EXPORT_SYMBOL_NS_GPL(rate_group_charge, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("One rate shared by many shapers");
MODULE_LICENSE("Dual BSD/GPL");

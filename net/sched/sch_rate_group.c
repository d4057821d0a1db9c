// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One rate shared by many shapers, each under a lock of its own */

#include <linux/build_bug.h>
#include <linux/if_ether.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/net_debug.h>
#include <net/sch_rate_group.h>

/**
 * DOC: rate group
 *
 * The shapers of a group, for example one qdisc per TX queue, together keep one
 * rate R: within the bounds below they send no more and, while any of them has
 * a backlog, no less. They run under locks of their own, on CPUs of their own,
 * and never read each other's data.
 *
 * They share one number, the *tail*: the time at which everything that was
 * granted will have been sent at R. (In the generic cell rate algorithm it is
 * called the theoretical arrival time.) A member that has a backlog and nothing
 * granted takes a *slot* by moving the tail: the slot starts where the tail
 * was, and is as long as its bytes take at R. So slots never overlap, follow
 * each other without a gap as long as anyone has a backlog, and come in the
 * order in which they were asked for: members take turns. A *round* is one slot
 * for each member that has a backlog. In its slot a member paces its packets at
 * R; after the last one it asks for the next slot.
 *
 * A slot costs one atomic operation on a shared cache line, and a few more in
 * some of the cases below. It holds a *quantum*: R x RATE_GROUP_ROUND divided
 * by the number of members whose queues are in use, with a backlog or not, at
 * most RATE_GROUP_QUANTUM, but never less than the longest packet of this
 * second and the last. These rules add to that:
 *
 * Whole frames
 *	A slot is rounded to full-size frames. The difference to the quantum,
 *	and what a member sends outside of its slots, is its *excess*, which
 *	is taken off its next slots, as in deficit round robin. With an excess
 *	of a quantum, a member passes its turn: it gets no slot. While it has
 *	nothing to send, its excess shrinks by a quantum per round. If the tail
 *	lies in the past, nobody waits, and the excess is forgotten. Where each
 *	slot needs a second one in another group, its tail counts as well.
 *
 * Lateness
 *	A slot may start in the past: since the member was due, at most since
 *	RATE_GROUP_HORIZON ago, or longer if two frames take longer at R. So
 *	neither a late timer costs rate, nor a queue that was stopped. It is
 *	made up for at once, as by one shaper for all. Many members may be
 *	called late at the same time, by a slow tick or on a busy CPU. So a
 *	member that asks for a slot late lets the others go first. If
 *	the owner sets ``late``, that much is made up for instead, and in one
 *	slot.
 *
 * Skipped time
 *	If the tail lies in the past when a backlog begins, the slot starts now
 *	and the time between is *skipped*: nobody has used it. A member that was
 *	late in that time may claim what was skipped since its last slot. All
 *	members together may claim no more than the horizon. Skipped time is
 *	counted only if some backlog in the last second was longer than a slot.
 *
 * Slack
 *	A packet whose time comes within RATE_GROUP_SLACK, or a frame at R if
 *	that is less, goes at once. This halves the number of timers. If calls
 *	come later than that, as where a timer takes long, slack is as long as
 *	they were late on average, at most RATE_GROUP_LAG: less would only set
 *	more timers.
 *
 * Bursts
 *	If the owner allows a burst, a new backlog counts as due that much
 *	earlier. This is a token bucket that all members share.
 *
 * Paying in advance
 *	Below the rate, a reservation for every packet would be a waste. If the
 *	tail lies in the past, a slot for all of the backlog also pays for
 *	packets that are still to come: half of R x RATE_GROUP_ROUND divided by
 *	the number of members, at most RATE_GROUP_QUANTUM, and out of unused
 *	time as far as there is any. This *credit* is kept for RATE_GROUP_KEEP.
 *	It is for packets that come one by one, no faster than four times the
 *	member's part of R, and it ends when the backlog exceeds a slot. There
 *	is none if, in the last second, a backlog was served late and needed
 *	all of the unused time.
 *
 * Going ahead
 *	The packet of a sparse flow need not wait for the turn of its member.
 *	It goes at once. Its bytes come out of the slot that the member waits
 *	for; if it has none, their time is added to the tail. All packets that
 *	go ahead together may take RATE_GROUP_AHEAD bytes in the time from now
 *	to the tail, and no more than a quarter of R. Packets longer than
 *	RATE_GROUP_SMALL may take half of these bytes. A member with an excess
 *	of RATE_GROUP_OWED quanta of a member of average weight may not go
 *	ahead.
 *
 * Ranks
 *	A member whose packets should come before or after those of others sets
 *	a rank, as CAKE does for its tins. It gets a slot only if no member of a
 *	smaller rank wants any. A member that needs more than its slot keeps
 *	later ranks waiting for another RATE_GROUP_HOLD, or until its backlog is
 *	gone. Who waits looks again when the slots of others are over, and as
 *	late as a 128th of the time that it has waited for.
 *
 * Weights
 *	A member that has to be fair to many flows sets its weight. The quanta
 *	of all such members are added up and divided by weight, so a round
 *	lasts no longer than with equal weights. Who gets less than a frame per
 *	round gets a frame every few rounds; who would get less than a byte,
 *	gets a byte. The weight of a member whose backlog is gone counts until
 *	its owner sets it to 0.
 *
 * In any window of length t, the group sends no more than::
 *
 *	R x (t + horizon) + 2 x RATE_GROUP_AHEAD + RATE_GROUP_QUANTUM
 *	+ a full-size frame
 *	+ for each member: the longest slot + two packets
 *
 * where the horizon is no shorter than a burst or ``late``, and the longest
 * slot is a quantum and half a frame unless the owner decides on it, no less
 * than ``late``, and a quantum more for a member that was exempted. With
 * weights, all slots of a round together are as long as without; while weights
 * change, up to twice as long. With ranks, R x RATE_GROUP_HOLD has to be added.
 * The horizon only counts as far as members were late, were allowed a burst, or
 * gave back a slot. If they were late, R x RATE_GROUP_LAG has to be added.
 *
 * As long as some member has a backlog, and is called at the times that it
 * asked for, the group sends no less than::
 *
 *	R x t - 2 x RATE_GROUP_AHEAD - RATE_GROUP_QUANTUM - a full-size frame
 *	- for each member: the longest slot + two packets
 *	- a slot for each backlog that is dropped
 *
 * with the same longest slot, and the same more with weights and ranks. If it
 * is called late, but by less than the horizon, this holds for the window up to
 * then, but for what others paid for in advance before that was noted.
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

/* Note a fact that the group remembers for a second, see @late, @ranked */
static void remember(u32 *stamp, u64 now)
{
	u32 at = now >> RATE_GROUP_STAMP;

	if (at - READ_ONCE(*stamp) >= RATE_GROUP_MEMORY / 2)
		WRITE_ONCE(*stamp, at);
}

/* Clocks of CPUs may differ by one unit */
static bool remembers(const u32 *stamp, u64 now)
{
	u32 at = now >> RATE_GROUP_STAMP;

	return at + 1 - READ_ONCE(*stamp) <= RATE_GROUP_MEMORY;
}

/* Scale the time from @from to @t by the ratio of the rates. A time before
 * @from becomes @from: what was not used at the old rate cannot be used at the
 * new one.
 */
static u64 rescale(u64 t, u64 from, u64 old_rate, u64 new_rate)
{
	u64 most = div64_u64(S64_MAX / 2, div64_u64(old_rate, new_rate) + 1);

	if (!after(t, from))
		return from;

	/* Only a backlog that began since can have more, but no claim to it */
	return from + mul_u64_u64_div_u64(min(t - from, most), old_rate,
					  new_rate);
}

/* Depends on the rate and how many members there are: the same for all of them.
 * A qdisc can be a member although its queue is not in use.
 */
static void rate_group_set_quantum(struct rate_group *g)
{
	u64 each = mul_u64_u64_div_u64(g->rate, RATE_GROUP_ROUND, NSEC_PER_SEC);
	u32 members = g->queues ? min(g->members, g->queues) : g->members;

	each = div_u64(each, max(members, 1U));
	WRITE_ONCE(g->quantum, min(each, RATE_GROUP_QUANTUM));
	WRITE_ONCE(g->sharers, max(members, 1U));
	WRITE_ONCE(g->advance, min(each / 2, RATE_GROUP_QUANTUM));
}

/* The longest packet of this period and the last one. If two members do this at
 * once, a period may be short.
 */
static void rate_group_forget(const struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 longest = READ_ONCE(g->longest);
	u32 age = (now >> RATE_GROUP_STAMP) - READ_ONCE(g->period);
	u64 rounds;

	/* Another CPU may be ahead by a unit */
	if (longest == ETH_FRAME_LEN || (s32)age < 0)
		return;

	/* At low rates, some rounds take longer than that */
	rounds = min(longest * READ_ONCE(g->sharers) * 4, BIT(28));
	if (age <= RATE_GROUP_MEMORY + (to_ns(m, rounds) >> RATE_GROUP_STAMP))
		return;

	WRITE_ONCE(g->period, now >> RATE_GROUP_STAMP);
	WRITE_ONCE(g->longest, READ_ONCE(g->longer));
	WRITE_ONCE(g->longer, ETH_FRAME_LEN);
}

static u32 rate_group_base(const struct rate_group *g)
{
	return max(READ_ONCE(g->quantum), READ_ONCE(g->longest));
}

/* What a member gets in each round: its part, by weight, of the quanta of all
 * members that have a weight, or of what these are @due if that is more. How
 * many they are stands above the sum.
 */
static u32 rate_group_quantum(const struct rate_group_member *m, u64 due)
{
	u64 weights = atomic64_read(&(m->among ?: m->group)->weights);
	u64 members = max(weights >> RATE_GROUP_SUM_BITS, 1U);
	u64 sum = weights & GENMASK_ULL(RATE_GROUP_SUM_BITS - 1, 0);
	u64 each = rate_group_base(m->group);

	if (!m->weight || sum == members * m->weight)
		return due ? max(each, div64_u64(due, members)) : each;

	return clamp_t(u64, div64_u64(max(each * members, due) * m->weight,
				      max(sum, m->weight)), 1, BIT(24));
}

/* Let the group know the weight of a member */
static void rate_group_weigh(struct rate_group_member *m, u32 weight)
{
	s64 by = (s64)weight - m->told;

	if (!by)
		return;

	if (!weight || !m->told)
		by += weight ? BIT_ULL(RATE_GROUP_SUM_BITS) :
			       -BIT_ULL(RATE_GROUP_SUM_BITS);
	atomic64_add(by, &m->group->weights);
	m->told = weight;
}

/**
 * rate_group_round - how long a round of all flows is
 * @m: the member of a flow
 * @weight: of the flow
 *
 * Context: lock of the member held.
 * Return: the time in which the flow's share of the rate is a packet of the
 * largest size so far, at most a second, ns
 */
u64 rate_group_round(const struct rate_group_member *m, u32 weight)
{
	u64 sum = atomic64_read(&m->group->weights) &
		  GENMASK_ULL(RATE_GROUP_SUM_BITS - 1, 0);
	u64 ns = min(to_ns(m, READ_ONCE(m->group->longest)), NSEC_PER_SEC);

	return min(mul_u64_u64_div_u64(ns, max(sum, weight), max(weight, 1)),
		   NSEC_PER_SEC);
}
EXPORT_SYMBOL_NS_GPL(rate_group_round, "NET_SCHED_INTERNAL");

static void rate_group_struct_check(void)
{
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, tail);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, ahead);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, skipped);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, claimed);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, weights);
	CACHELINE_ASSERT_GROUP_SIZE(struct rate_group, slots, 40);
}

/**
 * rate_group_set_rate - set the rate of a group
 * @g: the group, zeroed before the first call
 * @rate: bytes/s; 0 is unlimited: members neither wait nor reserve
 * @now: time, ns
 *
 * What was granted before is rescaled to the new rate from now on. So a change
 * neither lets anything go twice nor leaves the group waiting at the old rate.
 * The caller then calls rate_group_update() for each member. Until then the
 * member gets no slot. With the rate that the group has, only the length of
 * slots is determined anew.
 *
 * Context: RTNL held.
 */
void rate_group_set_rate(struct rate_group *g, u64 rate, u64 now)
{
	u64 old = g->rate;
	s64 tail;
	u64 new;
	int i;

	rate_group_struct_check();
	ASSERT_RTNL();

	if (rate)
		rate = max_t(u64, rate, RATE_GROUP_MIN_RATE);
	/* From now on, packets may be shorter, as GSO packets are split */
	WRITE_ONCE(g->longest, ETH_FRAME_LEN);
	WRITE_ONCE(g->longer, ETH_FRAME_LEN);
	if (rate == old) {
		rate_group_set_quantum(g);
		return;
	}

	/* Before the tail is moved: rate_group_reserve() either sees the new
	 * rate, or its cmpxchg fails, as the tail is not what it was.
	 */
	WRITE_ONCE(g->rate, rate);
	g->changed = now;
	WRITE_ONCE(g->full, (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->late, (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->ranked, (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->period, now >> RATE_GROUP_STAMP);
	rate_group_set_quantum(g);
	tail = atomic64_read(&g->tail);
	do {
		new = old && rate ? rescale(tail, now, old, rate) : now;
		new += new == tail;
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, new));
	atomic64_set(&g->ahead, now);
	for (i = 0; i < RATE_GROUP_RANKS - 1; i++)
		atomic64_set(&g->busy[i], now);
}
EXPORT_SYMBOL_NS_GPL(rate_group_set_rate, "NET_SCHED_INTERNAL");

static void rate_group_set_slack(struct rate_group_member *m)
{
	m->slack = max(min(to_ns(m, ETH_FRAME_LEN), RATE_GROUP_SLACK), m->lag);
}

/* The member was told to ask again at @m->asked: keep the mean of how late it
 * is of late
 */
static void rate_group_late(struct rate_group_member *m, u64 now)
{
	u64 late = min(now - m->asked, RATE_GROUP_LAG);

	m->asked = 0;
	m->lag += late / 8 - m->lag / 8;
	rate_group_set_slack(m);
}

/**
 * rate_group_update - let a member follow the rate of its group
 * @m: the member
 * @now: time, ns
 *
 * The caller then lets the member ask again when it may send: the time that it
 * was told before may be too late now.
 *
 * Context: RTNL and the lock of the member held.
 */
void rate_group_update(struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 clock = rate_group_clock(m, now);
	u64 old = m->rate;
	u64 tail;
	u32 most;

	m->rate = g->rate;
	if (!m->rate) {
		rate_group_weigh(m, 0);
		return;
	}

	m->shift = 34;
	m->mult = div64_u64((u64)NSEC_PER_SEC << 34, m->rate);
	while (m->mult >> 34) {
		m->mult >>= 1;
		m->shift--;
	}
	m->lag = 0;
	m->asked = 0;
	rate_group_set_slack(m);
	m->backdate = to_ns(m, min(m->burst, BIT(28)));
	most = max3(m->late, m->burst, 2 * ETH_FRAME_LEN);
	m->horizon = max(to_ns(m, min(most, BIT(28))),
			 m->late ? NSEC_PER_MSEC : RATE_GROUP_HORIZON);
	tail = later(atomic64_read(&g->tail), now);
	if (old) {
		m->next = rescale(m->next, g->changed, old, m->rate);
		m->end = rescale(m->end, g->changed, old, m->rate);
		/* A backlog may have begun since the change */
		if (after(m->next, tail))
			m->next = tail;
		if (after(m->end, tail))
			m->end = tail;
	} else {
		m->next = now;
		m->end = now;
		m->left = 0;
		m->unpaid = 0;
		m->credit = 0;
		m->excess = 0;
		m->passing = false;
	}
	m->credit_at = now;
	m->credit_next = now;
	m->stood = later(m->next, now) - clock;
	m->seen = atomic64_read(&g->skipped);
	m->frac = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_update, "NET_SCHED_INTERNAL");

/**
 * rate_group_join - become a member of a group
 * @g: the group
 * @m: the member
 * @turns: it takes turns; false if the member always takes slots of its own
 *	length: it has to leave before the last of the others
 * @now: time, ns
 *
 * Context: RTNL and the lock of the member held, or nobody sending yet.
 */
void rate_group_join(struct rate_group *g, struct rate_group_member *m,
		     bool turns, u64 now)
{
	memset(m, 0, sizeof(*m));
	m->group = g;
	m->turns = turns;
	m->rank = RATE_GROUP_RANK;
	g->members += turns;
	rate_group_set_quantum(g);
	rate_group_update(m, now);
}
EXPORT_SYMBOL_NS_GPL(rate_group_join, "NET_SCHED_INTERNAL");

/* Is the rate being changed, and the tail at the new one? To be called after
 * the tail is read.
 */
static bool rate_group_changing(const struct rate_group_member *m)
{
	smp_rmb(); /* pairs with the cmpxchg in rate_group_set_rate() */
	return READ_ONCE(m->group->rate) != m->rate;
}

/* Give back what was paid. Return false, and do nothing, while the rate is
 * being changed.
 */
static bool rate_group_refund(struct rate_group_member *m, u64 now, u64 bytes)
{
	struct rate_group *g = m->group;
	s64 tail = atomic64_read(&g->tail);
	u64 ns = to_ns(m, bytes);

	do {
		if (!after(tail, now))
			return true;
		if (rate_group_changing(m))
			return false;
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, later(tail - ns, now)));

	return true;
}

/* Pay for what is sent outside of slots; false as above */
static bool rate_group_pay(struct rate_group_member *m, u64 bytes)
{
	struct rate_group *g = m->group;
	s64 tail = atomic64_read(&g->tail);
	u64 ns = to_ns_exact(m, bytes);

	do {
		if (rate_group_changing(m))
			return false;
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, tail + ns));

	return true;
}

/* Bytes that are left were paid for. If @left is negative, more was sent. */
static void rate_group_end_slot(struct rate_group_member *m)
{
	m->unpaid -= m->left;
	m->excess -= m->left;
	m->left = 0;
}

/* Let later ranks go on: this member wants no more slots. Siblings of its rank
 * keep others waiting with the next slot that they take.
 */
static void rate_group_release(struct rate_group_member *m, u64 now)
{
	s64 held = m->held;

	if (!held)
		return;

	atomic64_try_cmpxchg(&m->group->busy[m->held_rank], &held, now);
	m->held = 0;
}

/**
 * rate_group_give_back - give back what a member will not use
 * @m: the member
 * @now: time, ns
 *
 * The part of rate_group_idle() for a member that has wanted slots.
 *
 * Context: lock of the member held.
 */
void rate_group_give_back(struct rate_group_member *m, u64 now)
{
	s64 early;
	u64 wait;

	m->excess = max(m->excess, 0);
	m->asked = 0;
	m->vain = 0;
	if (!m->weight)
		rate_group_weigh(m, 0);
	rate_group_release(m, now);
	m->wanted = m->told;
	if (!m->left && !m->passing)
		return;

	if (after(m->next, now)) {
		/* rate_group_clock() must not go back */
		wait = min(m->next - now, m->stood);
		m->stood -= wait;
		m->next -= wait;
		/* It has not passed this turn, so that does not count */
		if (m->passing)
			m->excess += m->passed;
	}
	early = clamp_t(s64, m->left, 0, m->early);
	m->credit += early;
	m->unpaid -= m->left - early;
	m->left = 0;
	m->passing = false;
	if (-m->unpaid > ETH_FRAME_LEN &&
	    (!after(m->end, now) || rate_group_refund(m, now, -m->unpaid))) {
		m->unpaid = 0;
		m->end = m->next;
	}
}
EXPORT_SYMBOL_NS_GPL(rate_group_give_back, "NET_SCHED_INTERNAL");

/**
 * rate_group_leave - leave the group
 * @m: the member
 * @now: time, ns
 *
 * Pays what it owes, if no unused time has paid it, and gives back what it has
 * not used.
 *
 * Context: RTNL and the lock of the member held, or nobody sending any more.
 */
void rate_group_leave(struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;

	if (m->rate != g->rate)
		rate_group_update(m, now);
	if (m->rate) {
		rate_group_idle(m, now);
		if (m->unpaid > 0)
			atomic64_add(to_ns(m, m->unpaid), &g->tail);
		else
			rate_group_refund(m, now, m->credit - m->unpaid);
	}
	rate_group_weigh(m, 0);
	g->members -= m->turns;
	DEBUG_NET_WARN_ON_ONCE(!g->members && atomic64_read(&g->weights));
	rate_group_set_quantum(g);
	memset(m, 0, sizeof(*m));
}
EXPORT_SYMBOL_NS_GPL(rate_group_leave, "NET_SCHED_INTERNAL");

/* When all that is granted to others will have been sent */
static u64 rate_group_turns(const struct rate_group_member *m, u64 tail,
			    u64 now)
{
	u64 turns = later(tail, now);

	if (m->within)
		turns += later(atomic64_read(&m->within->tail), now) - now;

	return turns;
}

/**
 * rate_group_pause - let the excess of a member shrink by its pause
 * @m: the member
 * @now: time, ns
 *
 * Part of rate_group_arrive(). In each round of the pause, the other members
 * could send a quantum more than this one.
 */
void rate_group_pause(struct rate_group_member *m, u64 now)
{
	u64 pause = after(now, m->next) ? min(now - m->next, NSEC_PER_SEC) : 0;
	u64 tail = atomic64_read(&m->group->tail);
	u32 quantum = rate_group_quantum(m, 0);
	u64 wait = rate_group_turns(m, tail, now) - now;
	u64 round = wait + to_ns(m, quantum);

	/* Mostly all of it, which takes no division to see */
	if (max_t(u64, m->excess, round) <= U32_MAX &&
	    pause * quantum >= m->excess * round)
		m->excess = 0;
	else
		m->excess -= min_t(u64, m->excess,
				   div64_u64(pause * quantum, max(round, 1U)));
	if (!wait)
		m->excess = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_pause, "NET_SCHED_INTERNAL");

/* How much to ask for: the quantum less the excess, in frames. While nothing is
 * @granted to others, passing turns would be no use to them.
 */
static u32 rate_group_slot(struct rate_group_member *m, u32 backlog, u32 due,
			   bool granted)
{
	s64 quantum = rate_group_quantum(m, due);
	u32 slot = 0;
	s64 want;

	if (!granted)
		m->excess = min(m->excess, 0);
	want = quantum - m->excess;
	if (want > 0) {
		slot = rounddown((u32)want + ETH_FRAME_LEN / 2, ETH_FRAME_LEN);
		slot = min(max(slot, ETH_FRAME_LEN), backlog);
	}
	m->excess += slot - quantum;
	m->passed = quantum;
	/* No credit without a backlog */
	if (slot == backlog)
		m->excess = max(m->excess, 0);

	return slot;
}

/* What could have been sent since a time, bytes */
static u64 rate_group_due(const struct rate_group_member *m, u64 from, u64 now)
{
	return after(now, from) ? mul_u64_u64_div_u64(now - from, m->rate,
						      NSEC_PER_SEC) : 0;
}

/* Claim time that was skipped since the last slot of this member, at most
 * @most. What all members claim, together with the time that is still @unused,
 * is at most the horizon.
 */
static u64 rate_group_claim(struct rate_group_member *m, s64 most, s64 unused)
{
	struct rate_group *g = m->group;
	s64 skipped = atomic64_read(&g->skipped);
	s64 claimed = atomic64_read(&g->claimed);
	s64 claim, from;

	most = min_t(s64, most, skipped - m->seen);
	m->seen = skipped;
	unused = clamp_t(s64, unused, 0, m->horizon);
	do {
		from = max_t(s64, claimed, skipped - m->horizon + unused);
		claim = clamp(most, 0, max(skipped - from, 0));
		if (!claim && !unused)
			return 0;
	} while (!atomic64_try_cmpxchg(&g->claimed, &claimed, from + claim));

	return claim;
}

/* Let later ranks wait. If siblings do so at the same time, the later of both
 * times may be lost: then one slot goes to a later rank.
 */
static void rate_group_hold(struct rate_group_member *m, u64 now, u64 until)
{
	struct rate_group *g = m->group;
	atomic64_t *busy;

	if (m->rank < RATE_GROUP_RANK)
		remember(&g->ranked, now);
	if (m->rank == RATE_GROUP_RANKS - 1 || !remembers(&g->ranked, now))
		return;

	if (m->rank != m->held_rank)
		rate_group_release(m, now);
	busy = &g->busy[m->rank];
	if (after(until, atomic64_read(busy))) {
		atomic64_set(busy, until);
		m->held = until;
		m->held_rank = m->rank;
	}
}

/* Until when do smaller ranks let this member wait? */
static u64 rate_group_held(const struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 tail, until = now;
	int i;

	for (i = 0; i < m->rank; i++)
		until = later(until, atomic64_read(&g->busy[i]));

	/* It may be over before: look again in time to lose less than 1 % */
	tail = later(atomic64_read(&g->tail), now);
	tail += min((now - m->vain) / 128, RATE_GROUP_HOLD);
	return after(until, tail) ? tail : until;
}

/* Move the tail by a slot. Siblings may do so at the same time. Return false if
 * the rate is being changed: then nothing may be granted at the old one.
 */
static bool rate_group_reserve(struct rate_group_member *m, u64 now,
			       u32 backlog, u32 exactly)
{
	u64 start, end, claim, debt, early, ns, turns;
	u64 from = later(m->end, now - m->horizon);
	bool late = after(now, from + RATE_GROUP_SLACK);
	struct rate_group *g = m->group;
	s64 tail = atomic64_read(&g->tail);
	bool crowded = after(tail, m->end);
	u32 slot, due = 0;
	s64 unpaid, skip;

	if (READ_ONCE(g->rate) != m->rate)
		return false;

	rate_group_forget(m, now);
	if (!exactly)
		rate_group_weigh(m, m->among ? 0 : m->weight);
	turns = rate_group_turns(m, tail, now);
	if (m->late)
		due = min_t(u64, rate_group_due(m, later(tail, from), now),
			    m->late);
	slot = exactly ?: rate_group_slot(m, backlog, due,
					  after(turns, now + m->slack));
	m->early = 0;
	if (slot < backlog) {
		m->credit = 0;
		remember(&g->full, now);
	} else if (!m->late && !exactly && !after(tail, now) &&
		   !remembers(&g->late, now)) {
		m->early = max((s64)READ_ONCE(g->advance) - m->credit, 0);
	}
	/* Time that nobody has used pays for that, as far as there is any */
	early = to_ns(m, m->early);
	from -= early;
	slot += m->early;

	/* Also pay for what was sent outside of slots, or use what was paid */
	unpaid = clamp_t(s64, m->unpaid, -(s64)slot, BIT(28));
	debt = to_ns(m, max(unpaid, 0));
	ns = to_ns_exact(m, slot + unpaid) - debt;
	claim = rate_group_claim(m, tail + debt - from, late ? now - tail : 0);
	do {
		if (rate_group_changing(m))
			return false;
		start = tail - claim + debt;
		skip = from - later(start, now - m->horizon);
		end = later(start, from) + ns;
	} while (!atomic64_try_cmpxchg(&g->tail, &tail, end));
	/* Even if by less than slack: it needs all of the unused time */
	if (backlog > slot && after(now, from) && after(end, now))
		remember(&g->late, now);
	if (skip > 0 && remembers(&g->full, now))
		m->seen = atomic64_add_return(skip, &g->skipped);
	if (!exactly || backlog >= slot)
		rate_group_hold(m, now, backlog > slot ? end + RATE_GROUP_HOLD :
							 end);

	m->vain = 0;
	m->unpaid -= unpaid;
	m->left = slot;
	m->passing = !slot;
	m->end = end;
	if (m->early)
		m->credit_at = now;
	/* The time that was paid in advance lies before the slot */
	start = slot ? end - to_ns(m, slot + max(-m->unpaid, 0)) :
		       later(end, turns);
	from = later(m->next, now);
	if (after(start, from))
		m->stood += start - from;
	m->next = later(m->next, start);
	/* If siblings wait as well: be it that they were called after this one
	 * asked the last time
	 */
	m->yield = late && !m->late && !exactly && (crowded || m->crowded) &&
		   !after(m->next, now);
	m->crowded = crowded;
	return true;
}

/**
 * rate_group_wait - get a slot for a member that has none, and tell its time
 * @m: the member
 * @now: time, ns
 * @backlog: of the member, bytes
 * @exactly: length of the slot, bytes: at least a packet, or all there is; 0
 *	for a quantum. If @backlog is less than that, later ranks need not wait.
 * @when: set to the time at which to ask again, ns
 *
 * With @exactly, the owner has to account for what the member sends beyond the
 * slot, and to limit what such members take together to less than the rate, or
 * to give ranks to those beyond it. Otherwise rounds become longer and longer.
 *
 * Context: lock of the member held.
 * Return: true if the member has to wait until @when, false if the next packet
 * may go at once. If @when is @now, siblings on this CPU are to go first: the
 * owner asks again after them, by __netif_schedule(), not by a timer.
 */
bool rate_group_wait(struct rate_group_member *m, u64 now, u32 backlog,
		     u32 exactly, u64 *when)
{
	bool wait;

	m->wanted = true;
	while (m->left <= 0) {
		if (m->rank > RATE_GROUP_RANK)
			remember(&m->group->ranked, now);
		if (m->rank && remembers(&m->group->ranked, now)) {
			if (!m->vain)
				m->vain = now;
			*when = rate_group_held(m, now);
			if (after(*when, now + m->slack)) {
				rate_group_hold(m, now,
						*when + RATE_GROUP_HOLD);
				rate_group_weigh(m, 0);
				return true;
			}
		}
		/* It got no slot in this turn: wait until the turn is over */
		if (m->passing && after(m->next, now + m->slack))
			break;
		if (!rate_group_reserve(m, now, max(backlog, 1U), exactly)) {
			*when = now + NSEC_PER_MSEC;
			return true;
		}
		if (m->yield) {
			*when = now;
			return true;
		}
	}

	*when = m->next;
	wait = after(m->next, now + m->slack);
	/* With @late, the owner may have had to wait for more than that */
	m->asked = wait && !m->late ? m->next : 0;
	return wait;
}
EXPORT_SYMBOL_NS_GPL(rate_group_wait, "NET_SCHED_INTERNAL");

/**
 * rate_group_ahead - may a packet go although it is not its member's turn
 * @m: the member
 * @now: time, ns
 * @len: what the packet is going to take of the rate, as far as known, bytes
 *
 * The packet must then be sent and charged.
 *
 * Context: lock of the member held.
 * Return: true if it may, false if not or if there is no need to.
 */
bool rate_group_ahead(struct rate_group_member *m, u64 now, u32 len)
{
	struct rate_group *g = m->group;
	u64 cost, window, start;
	s64 ahead, granted, pay;

	BUILD_BUG_ON_NOT_POWER_OF_2(RATE_GROUP_AHEAD);
	granted = atomic64_read(&g->tail) - now;
	if (granted <= m->slack || READ_ONCE(g->rate) != m->rate ||
	    m->excess >= RATE_GROUP_OWED * (s64)rate_group_base(g))
		return false;

	/* RATE_GROUP_AHEAD in the time that is granted, at most a quarter of R.
	 * Where there are many bulk flows, their segments look sparse. Long
	 * packets leave half of that to short ones.
	 */
	pay = clamp_t(s64, len + m->unpaid, 0, BIT(28));
	window = max_t(u64, granted, to_ns(m, RATE_GROUP_AHEAD * 4));
	cost = mul_u64_u32_shr(window, pay, ilog2(RATE_GROUP_AHEAD));
	if (len > RATE_GROUP_SMALL)
		window /= 2;
	ahead = atomic64_read(&g->ahead);
	do {
		start = later(ahead, now);
		if (after(start + cost, now + window))
			return false;
	} while (!atomic64_try_cmpxchg(&g->ahead, &ahead, start + cost));

	m->ahead = true;
	m->wanted = true;
	if (m->left >= pay) {
		m->unpaid -= pay;
		m->left -= pay;
		return true;
	}
	/* Else the next slot pays */
	if (rate_group_pay(m, pay))
		m->unpaid -= pay;
	m->excess += len;
	return true;
}
EXPORT_SYMBOL_NS_GPL(rate_group_ahead, "NET_SCHED_INTERNAL");

/**
 * rate_group_exempt - what was sent is not part of the member's share
 * @m: the member
 * @len: that was sent and charged, bytes
 *
 * For packets that would go first if all members were one, if the owner sees to
 * it that such packets get no more than they should. The next slot is longer by
 * that, but not more than twice as long.
 *
 * Context: lock of the member held.
 */
void rate_group_exempt(struct rate_group_member *m, u32 len)
{
	m->wanted = true;
	m->excess = max(m->excess - len, -(s64)rate_group_quantum(m, 0));
}
EXPORT_SYMBOL_NS_GPL(rate_group_exempt, "NET_SCHED_INTERNAL");

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
	struct rate_group *g = m->group;
	u32 paid = 0;

	if (m->asked && !after(m->asked, now))
		rate_group_late(m, now);
	m->yield = false;
	if (len > READ_ONCE(g->longer)) {
		WRITE_ONCE(g->longer, len);
		if (len > READ_ONCE(g->longest))
			WRITE_ONCE(g->longest, len);
	}

	/* Outside its slot? Who may be late sends all of a slot at once. */
	if (m->left <= 0 || (!m->late && after(m->next, now + m->slack))) {
		if (!m->ahead) {
			paid = min(len, m->credit);
			m->credit -= paid;
		}
		m->ahead = false;
		m->unpaid += len - paid;
		/* rate_group_ahead() has counted what it paid for */
		m->excess += clamp_t(s64, m->unpaid, 0, len - paid);
		rate_group_space(m, now, len);
		return;
	}

	m->next += to_ns(m, len);
	m->left -= len;
	/* Less than half a packet is left */
	if (m->left <= len / 2)
		rate_group_end_slot(m);
}
EXPORT_SYMBOL_NS_GPL(rate_group_charge, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("One rate shared by many shapers");
MODULE_LICENSE("Dual BSD/GPL");

// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One rate shared by many shapers, each under a lock of its own */

#include <linux/build_bug.h>
#include <linux/if_ether.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/net_debug.h>
#include <net/sch_rate_group.h>
#include "sch_rate.h"

/**
 * DOC: rate group
 *
 * The shapers of a group, for example one qdisc per TX queue, together keep one
 * rate R: within the bounds below they send no more and, while any of them has
 * a backlog, no less. They run under locks of their own, on CPUs of their own,
 * and do not read each other's data to send. Each is the *owner* of a *member*
 * of the group.
 *
 * They share one number, the *theoretical arrival time* (TAT) of the generic
 * cell rate algorithm (GCRA, ITU-T I.371): the time at which everything that
 * was granted will have been sent at R. A member that has a backlog and nothing
 * granted takes a *slot* by moving the TAT: the slot starts where the TAT was,
 * and is as long as its bytes take at R. So slots never overlap, follow each
 * other without a gap as long as anyone has a backlog, and come in the order in
 * which they were asked for: members take turns. A *round* is one slot for each
 * member that has a backlog. In its slot a member paces its packets at R; after
 * the last one it asks for the next slot.
 *
 * A slot costs one atomic operation on a shared cache line, and a few more in
 * some of the cases below. It holds a *quantum*: R x RATE_GROUP_ROUND / n,
 * where n is the number of members whose queues are in use, with a backlog or
 * not. A quantum is at most RATE_GROUP_QUANTUM, but never less than the longest
 * packet of this 1/8 s and the last. These rules add to that:
 *
 * Whole frames
 *	A slot is rounded to full-size frames. The difference to the quantum is
 *	the *surplus* of the member. Bytes that it sends outside of its slots
 *	are added to that. The surplus is taken off its next slots. It is the
 *	deficit of deficit round robin (Shreedhar and Varghese, 1995) with the
 *	sign turned. With a surplus of a quantum, a member passes its turn: it
 *	gets no slot. While it has nothing to send, its surplus shrinks by a
 *	quantum per round. If the TAT lies in the past, nobody waits, and the
 *	surplus is forgotten. The owner may take each slot in two groups, as
 *	CAKE does for its tins: then both TATs have to lie in the past.
 *
 * Lateness
 *	A slot may start up to max_late in the past, but not before the member
 *	was due. max_late is RATE_GROUP_MAX_LATE, or the time of two frames at R
 *	if that is longer. So neither a late timer nor a stopped queue costs
 *	rate: it is made up for at once, as by one shaper for all. Many members
 *	may be called late at the same time, by a slow tick or on a busy CPU. So
 *	a member that asks for a slot late lets the others go first. If the
 *	owner sets ``late_bytes``, the member makes up for that much instead, or
 *	for 1 ms if that is more, in one slot.
 *
 * Missed turns
 *	Rounds are counted: a member that asks for a slot when that of this
 *	round is over begins the next round. A late member gets a quantum for
 *	each turn that it missed, all in its next slot, but no more than R x
 *	RATE_GROUP_MISSED / n, or others would wait for long; n counts the
 *	members whose queues are in use, busy or not. A slot that is given back
 *	before its time is no turn. The first slot of a backlog makes up for
 *	none; nor does a member with ``late_bytes``.
 *
 * Skipped time
 *	If the TAT lies in the past when a backlog begins, the slot starts now
 *	and the time between is *skipped*: nobody has used it. A member that was
 *	late in that time may claim two things: what was skipped since its last
 *	slot, and slots that siblings gave back after their time. All
 *	members together may claim no more than max_late. Skipped time is
 *	counted only if some backlog in the last 1/8 s was longer than a slot.
 *
 * Slack
 *	A packet goes at once if its time comes within RATE_GROUP_SLACK, or
 *	within a frame at R if that is less. This halves the number of timers.
 *	If the calls of a member are late by more than that on average, slack is
 *	their average lateness, at most RATE_GROUP_MAX_SLACK or the time of a
 *	quantum for each member.
 *
 * Bursts
 *	If the owner allows a burst, a new backlog counts as due that much
 *	earlier. This is a token bucket that all members share.
 *
 * Paying in advance
 *	Below the rate, a reservation for every packet would be a waste. If the
 *	TAT lies in the past, and a slot holds all of the backlog, the slot is
 *	made longer, for packets still to come: by 3/4 R x RATE_GROUP_ROUND / n,
 *	at most RATE_GROUP_QUANTUM. Unused time pays for that, as far as there
 *	is any. This *credit* is kept for RATE_GROUP_CREDIT_TIME. It is for
 *	packets that come one by one, no faster than four times the member's
 *	part of R, and it ends when the backlog exceeds a slot. No credit is
 *	given for 1/8 s after a late backlog needed all of the unused time.
 *
 * Going ahead
 *	The packet of a sparse flow need not wait for the turn of its member. It
 *	goes at once. Its bytes come out of the slot that the member waits for;
 *	if it has none, their time is added to the TAT. In the time from now to
 *	the TAT, all packets that go ahead may take RATE_GROUP_AHEAD bytes
 *	together, and no more than a quarter of R. Packets longer than
 *	RATE_GROUP_SMALL may take half of these bytes. A member may not go ahead
 *	if its surplus is RATE_GROUP_AHEAD_QUANTA quanta or more. These are
 *	quanta of a member of average weight.
 *
 * Ranks
 *	A member whose packets should come before or after those of others sets
 *	a rank, as CAKE does for its tins. It gets a slot only if no member of a
 *	smaller rank wants any. A member that needs more than its slot keeps
 *	later ranks waiting for another RATE_GROUP_HOLD, or until its backlog is
 *	gone. A member that waits tries again at the TAT plus 1/128 of the time
 *	that it has waited, at most RATE_GROUP_HOLD later.
 *
 * Weights
 *	A member that has to be fair to many flows sets its weight. The quanta
 *	of all such members are added up and divided by weight, so a round lasts
 *	no longer than with equal weights. A member with a quantum of less than
 *	a frame gets a frame every few rounds. A quantum is at least a byte. The
 *	weight of a member whose backlog is gone counts until its owner sets it
 *	to 0.
 *
 * In any window of length t, the group sends no more than::
 *
 *	R x (t + max_late) + 2 x RATE_GROUP_AHEAD + RATE_GROUP_QUANTUM
 *	+ a full-size frame
 *	+ for each member: the longest slot + two packets
 *
 * max_late is no shorter than a burst or ``late_bytes``. R x max_late is sent
 * only as far as members were late, were allowed a burst, or gave back a slot.
 * The longest slot is
 *
 * - a quantum and half a frame, or what the owner decides on,
 * - but no less than ``late_bytes``,
 * - and a quantum more for a member that was exempted,
 * - and R x RATE_GROUP_MISSED / n more for one that was late.
 *
 * With weights, all slots of a round together are as long as without; while
 * weights change, up to twice as long. With ranks, add R x RATE_GROUP_HOLD. If
 * members were late, add R x RATE_GROUP_MAX_SLACK.
 *
 * As long as some member has a backlog, and is called at the times that it
 * asked for, the group sends no less than::
 *
 *	R x t - 2 x RATE_GROUP_AHEAD - RATE_GROUP_QUANTUM - a full-size frame
 *	- for each member: the longest slot + two packets
 *	- a slot for each backlog that is dropped
 *
 * The longest slot is the same; with weights and ranks, subtract what the upper
 * bound adds. If a member is called late, by less than max_late, the bound
 * holds when the call ends. Subtract the credit that others have then: it is
 * sent later.
 *
 * Time is that of the caller's clock, which should be monotonic. CPUs may
 * disagree about it; what they disagree by is sent early or late.
 */

static u64 to_ns(const struct rate_group_member *m, u64 bytes)
{
	return rate_to_ns(m->mult, m->shift, bytes);
}

static u64 to_ns_exact(struct rate_group_member *m, u64 bytes)
{
	return rate_to_ns_exact(m->mult, m->shift, &m->frac, bytes);
}

/* Note a fact that the group remembers for 1/8 s, see struct rate_group */
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

	if (!rate_after64(t, from))
		return from;

	/* Only a backlog that began after @from can have more, and it has no
	 * claim to that
	 */
	return from + mul_u64_u64_div_u64(min(t - from, most), old_rate,
					  new_rate);
}

/* The quantum depends on the rate and the number of members, and is the same
 * for all of them. Members whose queues are not in use do not count.
 */
static void rate_group_set_quantum(struct rate_group *g)
{
	u64 each = mul_u64_u64_div_u64(g->rate, RATE_GROUP_ROUND, NSEC_PER_SEC);
	u32 members = g->queues ? min(g->members, g->queues) : g->members;

	each = div_u64(each, max(members, 1U));
	WRITE_ONCE(g->quantum, min(each, RATE_GROUP_QUANTUM));
	WRITE_ONCE(g->sharers, max(members, 1U));
	WRITE_ONCE(g->prepay, min(each * 3 / 4, RATE_GROUP_QUANTUM));
}

/* The longest packet of this period and the last one. If two members do this at
 * once, a period may be short.
 */
static void rate_group_next_period(const struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 longest = READ_ONCE(g->longest);
	u32 age = (now >> RATE_GROUP_STAMP) - READ_ONCE(g->period_stamp);
	u64 rounds;

	/* Another CPU may be ahead by a unit */
	if (longest == ETH_FRAME_LEN || age == U32_MAX)
		return;

	/* At low rates, some rounds take longer than that */
	rounds = min(longest * READ_ONCE(g->sharers) * 4, BIT(28));
	if (age <= RATE_GROUP_MEMORY + (to_ns(m, rounds) >> RATE_GROUP_STAMP))
		return;

	WRITE_ONCE(g->period_stamp, now >> RATE_GROUP_STAMP);
	WRITE_ONCE(g->longest, READ_ONCE(g->period_longest));
	WRITE_ONCE(g->period_longest, ETH_FRAME_LEN);
}

static u32 rate_group_base(const struct rate_group *g)
{
	return max(READ_ONCE(g->quantum), READ_ONCE(g->longest));
}

/* What a member gets in each round: its part, by weight, of the quanta of all
 * members that have a weight, or of @due bytes if that is more. The upper bits
 * of @weights hold the number of these members.
 */
static u32 rate_group_quantum(const struct rate_group_member *m, u64 due)
{
	u64 weights = atomic64_read(&(m->weight_group ?: m->group)->weights);
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
	s64 by = (s64)weight - m->known_weight;

	if (!by)
		return;

	if (!weight || !m->known_weight)
		by += weight ? BIT_ULL(RATE_GROUP_SUM_BITS) :
			       -BIT_ULL(RATE_GROUP_SUM_BITS);
	atomic64_add(by, &m->group->weights);
	m->known_weight = weight;
}

/**
 * rate_group_round - how long a round of all flows is
 * @m: the member of a flow
 * @weight: of the flow
 *
 * Context: lock of the member held.
 * Return: the time in which the flow may send a packet of the largest size so
 * far, at most a second, ns
 */
u64 rate_group_round(const struct rate_group_member *m, u32 weight)
{
	u64 sum = atomic64_read(&m->group->weights) &
		  GENMASK_ULL(RATE_GROUP_SUM_BITS - 1, 0);
	u64 ns = min(to_ns(m, READ_ONCE(m->group->longest)), NSEC_PER_SEC);

	/* Beyond that ratio it is a second, and the quotient might not fit */
	weight = max(weight, 1U);
	sum = clamp_t(u64, sum, weight, (u64)weight << 30);
	return min(mul_u64_u64_div_u64(ns, sum, weight), NSEC_PER_SEC);
}
EXPORT_SYMBOL_NS_GPL(rate_group_round, "NET_SCHED_INTERNAL");

static void rate_group_struct_check(void)
{
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, tat);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, ahead_until);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, skipped);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, claimed);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, weights);
	CACHELINE_ASSERT_GROUP_MEMBER(struct rate_group, slots, round);
	CACHELINE_ASSERT_GROUP_SIZE(struct rate_group, slots, 44);
}

/**
 * rate_group_set_rate - set the rate of a group
 * @g: the group, zeroed before the first call
 * @rate: bytes/s; 0 is unlimited: members neither wait nor reserve
 * @now: time, ns
 *
 * The time that was granted before is rescaled to the new rate from now on. So
 * nothing goes twice after a change, and the group does not wait at the old
 * rate. The caller then calls rate_group_update() for each member. Until then
 * the member gets no slot. If @rate is the rate that the group has, only the
 * length of slots is set anew.
 *
 * Context: RTNL held.
 */
void rate_group_set_rate(struct rate_group *g, u64 rate, u64 now)
{
	u64 old = g->rate;
	s64 tat;
	u64 new;
	int i;

	rate_group_struct_check();
	ASSERT_RTNL();

	if (rate)
		rate = max_t(u64, rate, RATE_GROUP_MIN_RATE);
	/* From now on, packets may be shorter, as GSO packets are split */
	WRITE_ONCE(g->longest, ETH_FRAME_LEN);
	WRITE_ONCE(g->period_longest, ETH_FRAME_LEN);
	if (rate == old) {
		rate_group_set_quantum(g);
		return;
	}

	/* Before the TAT is moved: rate_group_reserve() either sees the new
	 * rate, or its cmpxchg fails, as the TAT is not what it was.
	 */
	WRITE_ONCE(g->rate, rate);
	g->changed_at = now;
	WRITE_ONCE(g->full_stamp,
		   (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->late_stamp,
		   (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->ranked_stamp,
		   (now >> RATE_GROUP_STAMP) - RATE_GROUP_MEMORY);
	WRITE_ONCE(g->period_stamp, now >> RATE_GROUP_STAMP);
	rate_group_set_quantum(g);
	tat = atomic64_read(&g->tat);
	do {
		new = old && rate ? rescale(tat, now, old, rate) : now;
		new += new == tat;
	} while (!atomic64_try_cmpxchg(&g->tat, &tat, new));
	atomic64_set(&g->ahead_until, now);
	for (i = 0; i < RATE_GROUP_RANKS - 1; i++)
		atomic64_set(&g->hold[i], now);
}
EXPORT_SYMBOL_NS_GPL(rate_group_set_rate, "NET_SCHED_INTERNAL");

/**
 * rate_group_set_queues - more or fewer TX queues are in use
 * @g: the group
 * @queues: how many; 0: all that have members
 *
 * The slots of a round are for the members whose queues are in use.
 *
 * Context: RTNL held.
 */
void rate_group_set_queues(struct rate_group *g, u32 queues)
{
	ASSERT_RTNL();
	g->queues = queues;
	rate_group_set_quantum(g);
}
EXPORT_SYMBOL_NS_GPL(rate_group_set_queues, "NET_SCHED_INTERNAL");

/* A late member does not take turns that come after those of others */
static void rate_group_set_slack(struct rate_group_member *m)
{
	u64 round = (u64)READ_ONCE(m->group->quantum) *
		    READ_ONCE(m->group->sharers);

	m->slack = rate_slack(to_ns(m, ETH_FRAME_LEN), RATE_GROUP_SLACK,
			      min_t(u64, m->lateness, to_ns(m, round)));
}

/* The member wanted a call at @m->call_at: keep the mean of how late calls are
 */
static void rate_group_note_lateness(struct rate_group_member *m, u64 now)
{
	u32 mean = rate_lateness(m->lateness, now - m->call_at,
				 RATE_GROUP_MAX_SLACK);

	m->call_at = 0;
	if (mean == m->lateness)
		return;

	m->lateness = mean;
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
	u64 tat;
	u32 most;

	ASSERT_RTNL();

	m->rate = g->rate;
	if (!m->rate) {
		rate_group_weigh(m, 0);
		return;
	}

	rate_precompute(m->rate, &m->mult, &m->shift);
	m->lateness = 0;
	m->call_at = 0;
	rate_group_set_slack(m);
	m->burst_ns = to_ns(m, min(m->burst, BIT(28)));
	most = max3(m->late_bytes, m->burst, 2 * ETH_FRAME_LEN);
	m->max_late = max(to_ns(m, min(most, BIT(28))),
			  m->late_bytes ? NSEC_PER_MSEC : RATE_GROUP_MAX_LATE);
	tat = later(atomic64_read(&g->tat), now);
	if (old) {
		m->next_at = rescale(m->next_at, g->changed_at, old, m->rate);
		m->slot_end = rescale(m->slot_end, g->changed_at, old, m->rate);
		/* A backlog may have begun since the change */
		if (rate_after64(m->next_at, tat))
			m->next_at = tat;
		if (rate_after64(m->slot_end, tat))
			m->slot_end = tat;
	} else {
		m->next_at = now;
		m->slot_end = now;
		m->left = 0;
		m->unpaid = 0;
		m->credit = 0;
		m->credit_at = now;
		m->surplus = 0;
		m->no_slot = false;
	}
	m->credit_next = now;
	m->waited = later(m->next_at, now) - clock;
	m->skipped_seen = atomic64_read(&g->skipped);
	m->round = READ_ONCE(g->round);
	m->frac = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_update, "NET_SCHED_INTERNAL");

/**
 * rate_group_join - become a member of a group
 * @g: the group
 * @m: the member
 * @takes_turns: its slots are quanta; false: the owner decides on their length.
 *	Such a member has to leave before the last one that takes turns
 * @now: time, ns
 *
 * Context: RTNL and the lock of the member held, or nobody sending yet.
 */
void rate_group_join(struct rate_group *g, struct rate_group_member *m,
		     bool takes_turns, u64 now)
{
	ASSERT_RTNL();

	memset(m, 0, sizeof(*m));
	m->group = g;
	m->takes_turns = takes_turns;
	m->rank = RATE_GROUP_DEFAULT_RANK;
	g->members += takes_turns;
	rate_group_set_quantum(g);
	rate_group_update(m, now);
}
EXPORT_SYMBOL_NS_GPL(rate_group_join, "NET_SCHED_INTERNAL");

/* Is the rate being changed, and the TAT at the new one already? Call this
 * after reading the TAT.
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
	s64 tat = atomic64_read(&g->tat);
	u64 ns = to_ns(m, bytes);

	do {
		if (!rate_after64(tat, now))
			return true;
		if (rate_group_changing(m))
			return false;
	} while (!atomic64_try_cmpxchg(&g->tat, &tat, later(tat - ns, now)));

	return true;
}

/* Pay for what is sent outside of slots; false as above */
static bool rate_group_pay(struct rate_group_member *m, u64 bytes)
{
	struct rate_group *g = m->group;
	s64 tat = atomic64_read(&g->tat);
	u64 ns = to_ns_exact(m, bytes);

	do {
		if (rate_group_changing(m))
			return false;
	} while (!atomic64_try_cmpxchg(&g->tat, &tat, tat + ns));

	return true;
}

/* Bytes that are left were paid for. If @left is negative, more was sent. */
static void rate_group_end_slot(struct rate_group_member *m)
{
	m->unpaid -= m->left;
	m->surplus -= m->left;
	m->left = 0;
}

/* Let later ranks go on: this member wants no more slots. Siblings of its rank
 * keep others waiting with the next slot that they take.
 */
static void rate_group_release(struct rate_group_member *m, u64 now)
{
	s64 hold = m->hold;

	if (!hold)
		return;

	atomic64_try_cmpxchg(&m->group->hold[m->hold_rank], &hold, now);
	m->hold = 0;
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

	m->surplus = max(m->surplus, 0);
	m->call_at = 0;
	m->held_since = 0;
	if (!m->weight)
		rate_group_weigh(m, 0);
	rate_group_release(m, now);
	m->wanted = m->known_weight;
	m->yield = false;
	if (!m->left && !m->no_slot)
		return;

	if (rate_after64(m->next_at, now)) {
		/* rate_group_clock() must not go back */
		wait = min(m->next_at - now, m->waited);
		m->waited -= wait;
		m->next_at -= wait;
		/* A turn that is not over does not count */
		m->round--;
		if (m->no_slot)
			m->surplus += m->last_quantum;
	}
	early = min_t(s64, m->left, m->prepaid);
	m->credit += early;
	m->unpaid -= m->left - early;
	m->left = 0;
	m->no_slot = false;
	if (m->unpaid < 0 &&
	    (!rate_after64(m->slot_end, now) ||
	     rate_group_refund(m, now, -m->unpaid))) {
		/* Too late to be given back: late siblings may claim it */
		if (!rate_after64(m->slot_end, now) &&
		    remembers(&m->group->full_stamp, now))
			atomic64_add(to_ns(m, -m->unpaid), &m->group->skipped);
		m->unpaid = 0;
		m->slot_end = m->next_at;
	}
}
EXPORT_SYMBOL_NS_GPL(rate_group_give_back, "NET_SCHED_INTERNAL");

/**
 * rate_group_leave - leave the group
 * @m: the member
 * @now: time, ns
 *
 * The member pays what it owes, unless unused time has paid that, and gives
 * back what it has not used.
 *
 * Context: RTNL and the lock of the member held, or nobody sending any more.
 */
void rate_group_leave(struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;

	ASSERT_RTNL();

	if (m->rate != g->rate)
		rate_group_update(m, now);
	if (m->rate) {
		rate_group_idle(m, now);
		if (m->unpaid > 0)
			atomic64_add(to_ns(m, m->unpaid), &g->tat);
		else
			rate_group_refund(m, now, m->credit - m->unpaid);
	}
	rate_group_weigh(m, 0);
	g->members -= m->takes_turns;
	DEBUG_NET_WARN_ON_ONCE(!g->members && atomic64_read(&g->weights));
	rate_group_set_quantum(g);
	memset(m, 0, sizeof(*m));
}
EXPORT_SYMBOL_NS_GPL(rate_group_leave, "NET_SCHED_INTERNAL");

/* When all that is granted to others will have been sent */
static u64 rate_group_turns_end(const struct rate_group_member *m, u64 tat,
				u64 now)
{
	u64 turns_end = later(tat, now);

	if (m->outer_group)
		turns_end += later(atomic64_read(&m->outer_group->tat), now) -
			     now;

	return turns_end;
}

/**
 * rate_group_pause - let the surplus of a member shrink by its pause
 * @m: the member
 * @now: time, ns
 *
 * Part of rate_group_arrive(). In each round of the pause, the other members
 * could send a quantum more than this one.
 */
void rate_group_pause(struct rate_group_member *m, u64 now)
{
	u64 pause = rate_after64(now, m->next_at) ?
		    min(now - m->next_at, BIT_ULL(39)) : 0; /* 550 s */
	u64 tat = atomic64_read(&m->group->tat);
	u32 quantum = rate_group_quantum(m, 0);
	u64 wait = rate_group_turns_end(m, tat, now) - now;
	u64 round = wait + to_ns(m, quantum);

	/* Mostly all of it, which takes no division to see */
	if (max_t(u64, m->surplus, round) <= U32_MAX &&
	    pause * quantum >= m->surplus * round)
		m->surplus = 0;
	else
		m->surplus -= min_t(u64, m->surplus,
				    div64_u64(pause * quantum, max(round, 1U)));
	if (!wait)
		m->surplus = 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_pause, "NET_SCHED_INTERNAL");

/* How much to ask for: the quantum less the surplus, in frames. While nothing
 * is @granted to others, they have no use for a turn that is passed.
 */
static u32 rate_group_slot(struct rate_group_member *m, u32 backlog, u32 due,
			   bool granted)
{
	s64 quantum = rate_group_quantum(m, due);
	u32 slot = 0;
	s64 want;

	if (!granted)
		m->surplus = min(m->surplus, 0);
	want = quantum - m->surplus;
	if (want > 0) {
		slot = rounddown((u32)want + ETH_FRAME_LEN / 2, ETH_FRAME_LEN);
		slot = min(max(slot, ETH_FRAME_LEN), backlog);
	}
	m->surplus += slot - quantum;
	m->last_quantum = quantum;
	/* No credit without a backlog */
	if (slot == backlog)
		m->surplus = max(m->surplus, 0);

	return slot;
}

/* What could have been sent since a time, bytes */
static u64 rate_group_due(const struct rate_group_member *m, u64 from, u64 now)
{
	return rate_after64(now, from) ?
	       mul_u64_u64_div_u64(now - from, m->rate, NSEC_PER_SEC) : 0;
}

/* Claim time that was skipped since the last slot of this member, at most
 * @most. What all members claim, together with the time that is still @unused,
 * is at most max_late.
 */
static u64 rate_group_claim(struct rate_group_member *m, s64 most, s64 unused)
{
	struct rate_group *g = m->group;
	s64 skipped = atomic64_read(&g->skipped);
	s64 claimed = atomic64_read(&g->claimed);
	s64 claim, from;

	most = min_t(s64, most, skipped - m->skipped_seen);
	m->skipped_seen = skipped;
	if (most <= 0 && unused <= 0)
		return 0;

	unused = clamp_t(s64, unused, 0, m->max_late);
	do {
		from = max_t(s64, claimed, skipped - m->max_late + unused);
		claim = clamp(most, 0, max(skipped - from, 0));
		if (!claim && !unused)
			return 0;
	} while (!atomic64_try_cmpxchg(&g->claimed, &claimed, from + claim));

	return claim;
}

/* Make later ranks wait. If a sibling does so at the same time, the later of
 * both times may be lost. Then a later rank gets one slot too early.
 */
static void rate_group_hold(struct rate_group_member *m, u64 now, u64 until)
{
	struct rate_group *g = m->group;
	atomic64_t *busy;

	if (m->rank < RATE_GROUP_DEFAULT_RANK)
		remember(&g->ranked_stamp, now);
	if (m->rank == RATE_GROUP_RANKS - 1 ||
	    !remembers(&g->ranked_stamp, now))
		return;

	if (m->rank != m->hold_rank)
		rate_group_release(m, now);
	busy = &g->hold[m->rank];
	if (rate_after64(until, atomic64_read(busy))) {
		atomic64_set(busy, until);
		m->hold = until;
		m->hold_rank = m->rank;
	}
}

/* Until when does this member have to wait for smaller ranks? */
static u64 rate_group_held_until(const struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u64 tat, until = now;
	int i;

	for (i = 0; i < m->rank; i++)
		until = later(until, atomic64_read(&g->hold[i]));

	/* The hold may end before: look again in time to lose less than 1 % */
	tat = later(atomic64_read(&g->tat), now);
	tat += min((now - m->held_since) / 128, RATE_GROUP_HOLD);
	return rate_after64(until, tat) ? tat : until;
}

/* Count the turns of a member. A late one makes up for those that it missed, in
 * the slot that it takes now.
 */
static void rate_group_count_turn(struct rate_group_member *m, u64 now)
{
	struct rate_group *g = m->group;
	u32 round = READ_ONCE(g->round);
	s32 missed = round - m->round - 1;
	u64 quantum, most;

	/* Its turn is over, and not used up by packets that went ahead */
	if (missed < 0 &&
	    !rate_after64(m->next_at, now + m->slack +
				      to_ns(m, READ_ONCE(g->longest))))
		WRITE_ONCE(g->round, ++round);
	m->round = round;
	/* The first slot of a backlog? Did smaller ranks go first? */
	if (missed <= 0 || !rate_after64(now, m->next_at + RATE_GROUP_SLACK) ||
	    m->skipped_seen == S64_MAX || m->late_bytes ||
	    (m->held_since && m->held_since != now))
		return;

	quantum = rate_group_quantum(m, 0);
	most = div_u64(m->rate, READ_ONCE(g->sharers) *
				(NSEC_PER_SEC / RATE_GROUP_MISSED));
	m->surplus -= min(missed * quantum, most);
}

/* Move the TAT by a slot. Siblings may do so at the same time. Return false if
 * the rate is being changed: then nothing may be granted at the old one.
 */
static bool rate_group_reserve(struct rate_group_member *m, u64 now,
			       u32 backlog, u32 exactly)
{
	u64 begin, start, end, claim, debt, ns, turns_end;
	u64 from = later(m->slot_end, now - m->max_late);
	bool late = rate_after64(now, from + RATE_GROUP_SLACK);
	bool first = m->skipped_seen == S64_MAX;
	struct rate_group *g = m->group;
	s64 tat = atomic64_read(&g->tat);
	bool crowded = rate_after64(tat, m->slot_end);
	u32 slot, due = 0;
	s64 unpaid, skip;

	if (READ_ONCE(g->rate) != m->rate)
		return false;

	/* Siblings gave back time: the TAT may be before the end of its slot */
	if (rate_after64(from, later(tat, now)))
		from = later(tat, now);

	rate_group_next_period(m, now);
	turns_end = rate_group_turns_end(m, tat, now);
	if (exactly) {
		m->round = READ_ONCE(g->round);
	} else {
		rate_group_weigh(m, m->weight_group ? 0 : m->weight);
		rate_group_count_turn(m, now);
	}
	if (m->late_bytes)
		due = min_t(u64, rate_group_due(m, later(tat, from), now),
			    m->late_bytes);
	slot = exactly ?: rate_group_slot(m, backlog, due,
					  rate_after64(turns_end,
						       now + m->slack));
	m->prepaid = 0;
	if (slot < backlog) {
		m->credit = 0;
		remember(&g->full_stamp, now);
	} else if (!m->late_bytes && !exactly && !rate_after64(tat, now) &&
		   !remembers(&g->late_stamp, now)) {
		m->prepaid = max((s64)READ_ONCE(g->prepay) - m->credit, 0);
	}
	/* Unused time pays for that, as far as there is any */
	if (m->prepaid) {
		from -= to_ns(m, m->prepaid);
		slot += m->prepaid;
	}

	/* Also pay for what was sent outside of slots, or use what was paid */
	unpaid = clamp_t(s64, m->unpaid, -(s64)slot, BIT(28));
	debt = unpaid > 0 ? to_ns(m, unpaid) : 0;
	ns = to_ns_exact(m, slot + unpaid) - debt;
	claim = rate_group_claim(m, tat + debt - from, late ? now - tat : 0);
	do {
		if (rate_group_changing(m))
			return false;
		start = tat - claim + debt;
		skip = from - later(start, now - m->max_late);
		begin = later(start, from);
		end = begin + ns;
	} while (!atomic64_try_cmpxchg(&g->tat, &tat, end));
	/* Late, even if by less than slack: all of the unused time is needed.
	 * The first slot of a backlog is not late, but may be a burst.
	 */
	if (backlog > slot && !first && rate_after64(now, from) &&
	    rate_after64(end, now))
		remember(&g->late_stamp, now);
	if (skip > 0 && remembers(&g->full_stamp, now))
		m->skipped_seen = atomic64_add_return(skip, &g->skipped);
	if (!exactly || backlog >= slot)
		rate_group_hold(m, now, backlog > slot ? end + RATE_GROUP_HOLD :
							 end);

	m->held_since = 0;
	m->unpaid -= unpaid;
	m->left = slot;
	m->no_slot = !slot;
	m->slot_end = end;
	if (m->prepaid)
		m->credit_at = now;
	/* The time that was paid in advance lies before the slot */
	start = slot ? end - to_ns(m, slot + max(-m->unpaid, 0)) :
		       later(end, turns_end);
	/* But not in a sibling's slot, or this member would ask before it */
	if (crowded)
		start = later(start, begin);
	from = later(m->next_at, now);
	if (rate_after64(start, from))
		m->waited += start - from;
	m->next_at = later(m->next_at, start);
	/* Siblings wait as well if they took slots before this one, or before
	 * the member's last one
	 */
	m->yield = late && !first && !m->late_bytes && !exactly &&
		   (crowded || m->crowded) && !rate_after64(m->next_at, now);
	m->crowded = crowded;
	return true;
}

/**
 * rate_group_wait - get a slot for a member that has none, and tell its time
 * @m: the member
 * @now: time, ns
 * @backlog: of the member, bytes
 * @exactly: wanted length of the slot, bytes: at least a packet or the whole
 *	backlog; 0 for a quantum. With a @backlog below that, the slot does not
 *	make later ranks wait.
 * @when: set to the time at which to ask again, ns
 *
 * With @exactly, the owner has to account for what the member sends beyond the
 * slot. Such members together must take less than the rate; those beyond it
 * need ranks. Otherwise rounds become longer and longer.
 *
 * Context: lock of the member held.
 * Return: true if the member has to wait until @when, false if the next packet
 * may go at once. If @when is @now, siblings on this CPU are to go first: the
 * owner then calls __netif_schedule() instead of setting a timer, and so asks
 * again after them.
 */
bool rate_group_wait(struct rate_group_member *m, u64 now, u32 backlog,
		     u32 exactly, u64 *when)
{
	bool wait;

	m->wanted = true;
	while (m->left <= 0) {
		if (m->rank > RATE_GROUP_DEFAULT_RANK)
			remember(&m->group->ranked_stamp, now);
		if (m->rank && remembers(&m->group->ranked_stamp, now)) {
			if (!m->held_since)
				m->held_since = now;
			*when = rate_group_held_until(m, now);
			if (rate_after64(*when, now + m->slack)) {
				rate_group_hold(m, now,
						*when + RATE_GROUP_HOLD);
				rate_group_weigh(m, 0);
				return true;
			}
		}
		/* It got no slot in this turn: wait until the turn is over */
		if (m->no_slot && rate_after64(m->next_at, now + m->slack))
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

	*when = m->next_at;
	wait = rate_after64(m->next_at, now + m->slack);
	/* With @late_bytes, the owner may have waited for more than that */
	m->call_at = wait && !m->late_bytes ? m->next_at : 0;
	return wait;
}
EXPORT_SYMBOL_NS_GPL(rate_group_wait, "NET_SCHED_INTERNAL");

/**
 * rate_group_go_ahead - may a packet go although it is not its member's turn
 * @m: the member
 * @now: time, ns
 * @len: what the packet is going to take of the rate, as far as known, bytes
 *
 * The packet must then be sent and charged.
 *
 * Context: lock of the member held.
 * Return: true if it may, false if not or if there is no need to.
 */
bool rate_group_go_ahead(struct rate_group_member *m, u64 now, u32 len)
{
	struct rate_group *g = m->group;
	s64 ahead_until, granted, pay;
	u64 cost, window, start;

	BUILD_BUG_ON_NOT_POWER_OF_2(RATE_GROUP_AHEAD);
	granted = atomic64_read(&g->tat) - now;
	if (granted <= m->slack || READ_ONCE(g->rate) != m->rate ||
	    m->surplus >= RATE_GROUP_AHEAD_QUANTA * (s64)rate_group_base(g))
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
	ahead_until = atomic64_read(&g->ahead_until);
	do {
		start = later(ahead_until, now);
		if (rate_after64(start + cost, now + window))
			return false;
	} while (!atomic64_try_cmpxchg(&g->ahead_until, &ahead_until,
				       start + cost));

	m->went_ahead = true;
	m->wanted = true;
	if (m->left >= pay) {
		m->unpaid -= pay;
		m->left -= pay;
		return true;
	}
	/* Else the next slot pays */
	if (rate_group_pay(m, pay))
		m->unpaid -= pay;
	m->surplus += len;
	return true;
}
EXPORT_SYMBOL_NS_GPL(rate_group_go_ahead, "NET_SCHED_INTERNAL");

/**
 * rate_group_exempt - do not count a packet as part of the member's share
 * @m: the member
 * @len: length of the packet, which was charged, bytes
 *
 * For packets that would go first if all members were one. The owner has to see
 * to it that such packets get no more than they should. The next slot is longer
 * by @len, but at most twice as long.
 *
 * Context: lock of the member held.
 */
void rate_group_exempt(struct rate_group_member *m, u32 len)
{
	m->wanted = true;
	m->surplus = max(m->surplus - len, -(s64)rate_group_quantum(m, 0));
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

	if (m->call_at && !rate_after64(m->call_at, now))
		rate_group_note_lateness(m, now);
	m->yield = false;
	if (len > READ_ONCE(g->period_longest)) {
		WRITE_ONCE(g->period_longest, len);
		if (len > READ_ONCE(g->longest))
			WRITE_ONCE(g->longest, len);
	}

	/* Outside its slot? With @late_bytes, all of a slot may go at once. */
	if (m->left <= 0 ||
	    (!m->late_bytes && rate_after64(m->next_at, now + m->slack))) {
		if (!m->went_ahead) {
			paid = min(len, m->credit);
			m->credit -= paid;
		}
		m->went_ahead = false;
		m->unpaid += len - paid;
		/* rate_group_go_ahead() has counted what it paid for */
		m->surplus += clamp_t(s64, m->unpaid, 0, len - paid);
		if (!rate_after64(m->credit_next, now + RATE_GROUP_CREDIT_TIME))
			rate_group_space(m, now, len);
		return;
	}

	m->next_at += to_ns(m, len);
	m->left -= len;
	/* Less than half a packet is left */
	if (m->left <= len / 2)
		rate_group_end_slot(m);
}
EXPORT_SYMBOL_NS_GPL(rate_group_charge, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("One rate shared by many shapers");
MODULE_LICENSE("Dual BSD/GPL");

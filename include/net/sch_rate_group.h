/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* One rate shared by many shapers, each under a lock of its own */
#ifndef __NET_SCH_RATE_GROUP_H
#define __NET_SCH_RATE_GROUP_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/* See DOC: rate group */
#define RATE_GROUP_MIN_RATE	64U		/* bytes/s */
#define RATE_GROUP_QUANTUM	12288U		/* or longest packet, bytes */
#define RATE_GROUP_ROUND	(200 * NSEC_PER_USEC) /* wanted for all slots */
#define RATE_GROUP_MAX_LATE	(25 * NSEC_PER_MSEC) /* lateness made up for */
#define RATE_GROUP_MISSED	(8 * NSEC_PER_MSEC) /* missed turns, of all */
#define RATE_GROUP_CREDIT_TIME	NSEC_PER_MSEC	/* what is paid in advance */
#define RATE_GROUP_STAMP	20		/* units of stamps, 2^20 ns */
#define RATE_GROUP_MEMORY	125U		/* facts count, units */
#define RATE_GROUP_SLACK	(5 * NSEC_PER_USEC) /* sent early at most */
#define RATE_GROUP_MAX_SLACK	(50ULL * NSEC_PER_USEC) /* the same if late */
#define RATE_GROUP_AHEAD	4096U		/* ahead of turns, bytes */
#define RATE_GROUP_AHEAD_QUANTA	8		/* the same, in quanta */
#define RATE_GROUP_SMALL	300U		/* a short packet, bytes */
#define RATE_GROUP_WEIGHT	U16_MAX		/* of a member with one flow */
#define RATE_GROUP_SUM_BITS	48		/* sum of weights */
#define RATE_GROUP_RANKS	11		/* from 0, which goes first */
#define RATE_GROUP_DEFAULT_RANK	6		/* without a priority */
#define RATE_GROUP_HOLD		(50 * NSEC_PER_USEC) /* later ranks wait */

/**
 * struct rate_group - what the shapers of one group share
 * @tat: when all that was granted will have been sent, ns
 * @ahead_until: time up to which the allowance for going ahead is used, ns
 * @skipped: sum of the time that was skipped, see DOC: rate group, ns
 * @claimed: part of @skipped that was claimed, or has expired, ns
 * @weights: sum of the weights of members, and the number of these members
 * @round: number of the current round
 * @hold: for each rank, the time until which later ranks have to wait, ns
 * @rate: of the group, bytes/s; 0 is unlimited
 * @changed_at: when @rate was set, ns
 * @longest: length of the longest packet of this period and the last, bytes
 * @period_longest: the same of this period, bytes
 * @quantum: bytes of a member in each round, if @longest is not more
 * @prepay: bytes that a member may pay for before it has them to send
 * @sharers: the number of members by which the rate is divided for @quantum
 * @members: number of members that take turns; 0: the group is not in use
 * @queues: number of their queues that are in use; 0: all. The owner may set it
 *	before rate_group_set_rate()
 * @period_stamp: when the period of @longest began, as a stamp: in units of
 *	2^RATE_GROUP_STAMP ns
 * @full_stamp: when a backlog last was longer than a slot, stamp
 * @late_stamp: when such a backlog last was late and needed all unused time,
 *	stamp
 * @ranked_stamp: when ranks last made a difference, stamp
 *
 * The first cache line is written:
 *
 * - once for a slot, and once more if the member's weight has changed,
 * - once for a round,
 * - once more each if unused time comes before the slot, or is claimed,
 * - at most once when a slot, or a part of it, is given back,
 * - once or twice for a packet that goes ahead.
 *
 * Members that keep later ranks waiting write @hold. What follows is written
 * with RTNL held, except for @longest, @period_longest and the stamps. Senders
 * write these every 66 ms, or when there is a longer packet. All of it is
 * read without a lock. A stale quantum or prepay makes one slot of the old
 * length. With a stale stamp, a fact is noted a bit earlier or later.
 * rate_group_reserve() notices a rate that has changed.
 * A sender that was interrupted may set @round back: then late members make up
 * for fewer turns, or for a few more.
 */
struct rate_group {
	__cacheline_group_begin(slots);
	atomic64_t	tat;
	atomic64_t	ahead_until;
	atomic64_t	skipped;
	atomic64_t	claimed;
	atomic64_t	weights;
	u32		round;
	__cacheline_group_end(slots);

	atomic64_t	hold[RATE_GROUP_RANKS - 1] ____cacheline_aligned_in_smp;

	u64		rate ____cacheline_aligned_in_smp;
	u64		changed_at;
	u32		longest;
	u32		period_longest;
	u32		quantum;
	u32		prepay;
	u32		sharers;
	u32		members;
	u32		queues;
	u32		period_stamp;
	u32		full_stamp;
	u32		late_stamp;
	u32		ranked_stamp;
};

/**
 * struct rate_group_member - a shaper's part in a group
 * @group: that it belongs to, NULL if none
 * @takes_turns: its slots are quanta; false: the owner decides on their length
 * @rank: it gets slots only if no member of a smaller rank wants any
 * @weight: its share compared to others, RATE_GROUP_WEIGHT for each flow; 0:
 *	the average of the others
 * @weight_group: the group whose sum of weights is used, to which another
 *	member has added @weight; NULL: @group
 * @outer_group: group in which the owner takes a second slot for each slot;
 *	NULL: none
 * @known_weight: what this member has added to @weights of its group
 * @late_bytes: the most that a late backlog may make up for, bytes; 0: what
 *	RATE_GROUP_MAX_LATE allows
 * @burst: bytes that a new backlog may send out of unused time
 * @rate: copy of the group's, bytes/s
 * @mult: ns per byte, shifted left by @shift
 * @shift: see @mult
 * @slack: how early a packet may go, ns
 * @lateness: how late the member is called on average, ns
 * @call_at: when it asked to be called, ns; 0: it did not
 * @burst_ns: @burst as time, ns
 * @max_late: how far in the past a slot may start, ns
 * @next_at: when the next byte may go, ns
 * @slot_end: when the last slot ends, ns
 * @waited: how long the member has waited for its slots, ns
 * @skipped_seen: @skipped of the group at the last reservation, ns
 * @frac: what is left of a ns, in units of 2^-@shift ns
 * @left: what may still go in this slot, bytes
 * @unpaid: sent and not yet paid for, bytes; negative: paid, not sent
 * @prepaid: the part of @left that was paid for in advance, bytes
 * @credit: paid for in advance, for packets that need no slot, bytes
 * @credit_at: when it was paid for, ns
 * @credit_next: when the next byte of it may go, ns
 * @surplus: what the member has had beyond its share, bytes; negative: what it
 *	lacks
 * @round: the round in which it had its last turn
 * @last_quantum: the quantum of its last turn, bytes
 * @no_slot: it got no slot in its last turn, which ends at @next_at
 * @went_ahead: the next packet to be charged was paid for by
 *	rate_group_go_ahead()
 * @crowded: siblings took slots between its last two
 * @yield: it has to let siblings go first
 * @wanted: it has wanted more than @credit since it was idle, or its weight
 *	still counts
 * @hold: time until which it makes later ranks wait, ns; 0: it does not
 * @hold_rank: its rank when it set @hold
 * @held_since: when it began to wait for smaller ranks, ns; 0: it does not wait
 * @sent_at: when the last packet went, ns
 * @sent: what went in the current period, bytes
 * @share: what the member sent in the last period, bytes/s
 *
 * Protected by the lock of the shaper that it is part of; reports read
 * @sent_at, @sent and @share without the lock. The owner may set @late_bytes
 * and @burst before rate_group_update(), and the fields from @rank to
 * @outer_group before rate_group_wait().
 */
struct rate_group_member {
	struct rate_group	*group;
	bool			takes_turns;
	u8			rank;
	u32			weight;
	struct rate_group	*weight_group;
	struct rate_group	*outer_group;
	u32			known_weight;
	u32			late_bytes;
	u32			burst;

	u64			rate;
	u64			mult;
	u32			shift;
	u32			slack;
	u32			lateness;
	u64			call_at;
	u64			burst_ns;
	u64			max_late;

	u64			next_at;
	u64			slot_end;
	u64			waited;
	u64			skipped_seen;
	u64			frac;
	s64			left;
	s64			unpaid;
	u32			prepaid;
	u32			credit;
	u64			credit_at;
	u64			credit_next;
	s64			surplus;
	u32			round;
	u32			last_quantum;
	bool			no_slot;
	bool			went_ahead;
	bool			crowded;
	bool			yield;
	bool			wanted;
	u64			hold;
	u8			hold_rank;
	u64			held_since;

	u64			sent_at;
	u64			sent;
	u64			share;
};

void rate_group_set_rate(struct rate_group *g, u64 rate, u64 now);
void rate_group_set_queues(struct rate_group *g, u32 queues);
void rate_group_join(struct rate_group *g, struct rate_group_member *m,
		     bool takes_turns, u64 now);
void rate_group_leave(struct rate_group_member *m, u64 now);
void rate_group_update(struct rate_group_member *m, u64 now);

void rate_group_pause(struct rate_group_member *m, u64 now);
bool rate_group_wait(struct rate_group_member *m, u64 now, u32 backlog,
		     u32 exactly, u64 *when);
u64 rate_group_round(const struct rate_group_member *m, u32 weight);
bool rate_group_go_ahead(struct rate_group_member *m, u64 now, u32 len);
void rate_group_exempt(struct rate_group_member *m, u32 len);
void rate_group_charge(struct rate_group_member *m, u64 now, u32 len);
void rate_group_give_back(struct rate_group_member *m, u64 now);

/**
 * rate_group_arrive - a packet arrives at a member that had no backlog
 * @m: the member
 * @now: time, ns
 *
 * A backlog that begins now has no claim to time that passed before, except
 * for a burst.
 *
 * Context: lock of the member held.
 */
static inline void rate_group_arrive(struct rate_group_member *m, u64 now)
{
	u64 since = now - m->burst_ns;

	/* This backlog may not claim what was skipped until now */
	m->skipped_seen = S64_MAX;
	if (m->surplus > 0)
		rate_group_pause(m, now);
	if ((s64)(since - m->next_at) > 0)
		m->next_at = since;
	if ((s64)(since - m->slot_end) > 0) {
		if (since - m->slot_end > RATE_GROUP_CREDIT_TIME)
			m->unpaid = max(m->unpaid, 0);
		m->slot_end = since;
	}
	if ((s64)(now - m->credit_at) > (s64)RATE_GROUP_CREDIT_TIME)
		m->credit = 0;
}

/**
 * rate_group_may_send - may the next packet go without asking
 * @m: the member
 * @now: time, ns
 * @backlog: of the member, bytes
 *
 * Context: lock of the member held.
 * Return: true if it is the member's slot, or there is credit for @backlog. If
 * not, see if rate_group_go_ahead() or rate_group_wait() lets the packet go.
 */
static inline bool rate_group_may_send(const struct rate_group_member *m,
				       u64 now, u32 backlog)
{
	if (m->left > 0)
		return (s64)(m->next_at - now) <= m->slack;

	return backlog <= m->credit &&
	       (s64)(m->credit_next - now) <= m->slack;
}

/* Credit is for packets that come no faster than four times the member's part
 * of the rate.
 */
static inline void rate_group_space(struct rate_group_member *m, u64 now,
				    u32 len)
{
	u64 part = (u64)len * READ_ONCE(m->group->sharers) / 4;

	if ((s64)(m->credit_next - now) < 0)
		m->credit_next = now;
	m->credit_next += (min_t(u64, part, BIT(28)) * m->mult) >> m->shift;
}

/**
 * rate_group_credit_pays - charge a packet to what was paid in advance
 * @m: the member
 * @now: time, ns
 * @len: what the packet takes of the rate, bytes
 *
 * Below the rate this is what most packets take.
 *
 * Context: lock of the member held.
 * Return: false if credit does not pay, and rate_group_charge() has to do it.
 */
static inline bool rate_group_credit_pays(struct rate_group_member *m, u64 now,
					  u32 len)
{
	if (m->wanted || len > m->credit ||
	    len > READ_ONCE(m->group->period_longest))
		return false;

	m->credit -= len;
	rate_group_space(m, now, len);
	return true;
}

/**
 * rate_group_idle - the backlog of a member is gone
 * @m: the member
 * @now: time, ns
 *
 * It was sent, dropped or reset. What is left of the slot goes back to the
 * group if there still is time to use it. The member keeps what it has paid for
 * in advance. To take its weight out of the sum, the owner first sets
 * @m->weight to 0. To let it count for a while, the owner does so later, and
 * calls this again.
 *
 * Context: lock of the member held.
 */
static inline void rate_group_idle(struct rate_group_member *m, u64 now)
{
	if (m->wanted)
		rate_group_give_back(m, now);
}

/**
 * rate_group_clock - time as if the member had the rate for itself
 * @m: the member
 * @now: time, ns
 *
 * For schedules below the shaper. This clock stands still while siblings have
 * their slots.
 *
 * Context: lock of the member held.
 * Return: time, ns.
 */
static inline u64 rate_group_clock(const struct rate_group_member *m, u64 now)
{
	return ((s64)(m->next_at - now) > 0 ? m->next_at : now) - m->waited;
}

/* What a member sends is measured in periods of 2^27 ns, 134 ms */
#define RATE_GROUP_PERIOD_SHIFT	27

/* Bytes of a period as bytes/s. 10^9 is a multiple of 2^9: nothing is lost. */
static inline u64 rate_group_per_second(u64 bytes)
{
	return (bytes * (NSEC_PER_SEC >> 9)) >> (RATE_GROUP_PERIOD_SHIFT - 9);
}

/**
 * rate_group_sent - note for reports that a member has sent a packet
 * @m: the member
 * @now: time, ns
 * @len: what the packet takes of the rate, bytes
 *
 * Context: lock of the member held.
 */
static inline void rate_group_sent(struct rate_group_member *m, u64 now,
				   u32 len)
{
	u64 periods = (now >> RATE_GROUP_PERIOD_SHIFT) -
		      (m->sent_at >> RATE_GROUP_PERIOD_SHIFT);

	if (periods) {
		WRITE_ONCE(m->share, periods > 1 ? 0 :
			   rate_group_per_second(m->sent));
		WRITE_ONCE(m->sent, 0);
	}
	WRITE_ONCE(m->sent_at, now);
	WRITE_ONCE(m->sent, m->sent + len);
}

/* Has it sent within the last ms? For reports, needs no lock. */
static inline bool rate_group_recent(const struct rate_group_member *m, u64 now)
{
	/* Negative if it has sent since the caller looked at the clock */
	return (s64)(now - READ_ONCE(m->sent_at)) <= (s64)NSEC_PER_MSEC;
}

/**
 * rate_group_share - what a member has of the rate of its group at present
 * @m: the member
 * @now: time, ns
 *
 * Context: any. Needs no lock: the value may be of two periods, or torn on
 * 32-bit, but it is only for reports.
 * Return: bytes/s in the last full period
 */
static inline u64 rate_group_share(const struct rate_group_member *m, u64 now)
{
	s64 periods = (now >> RATE_GROUP_PERIOD_SHIFT) -
		      (READ_ONCE(m->sent_at) >> RATE_GROUP_PERIOD_SHIFT);

	/* Negative if it has sent since the caller looked at the clock */
	if (periods <= 0)
		return READ_ONCE(m->share);

	return periods == 1 ? rate_group_per_second(READ_ONCE(m->sent)) : 0;
}

#endif /* __NET_SCH_RATE_GROUP_H */

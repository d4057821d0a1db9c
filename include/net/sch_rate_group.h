/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* One rate shared by many shapers, each under a lock of its own */
#ifndef __NET_SCH_RATE_GROUP_H
#define __NET_SCH_RATE_GROUP_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/time64.h>
#include <linux/types.h>

/* The bounds that the shapers of a group keep, see DOC: rate group */
#define RATE_GROUP_QUANTUM	12288U		/* bytes */
#define RATE_GROUP_AHEAD	4096U		/* bytes */
#define RATE_GROUP_OWED		8		/* turns */
#define RATE_GROUP_SMALL	300U		/* bytes, of a packet */
#define RATE_GROUP_BURST	1514U		/* bytes, what slack may give */
#define RATE_GROUP_SLACK	(5 * NSEC_PER_USEC)
#define RATE_GROUP_ROUND	(200 * NSEC_PER_USEC)
#define RATE_GROUP_HORIZON	NSEC_PER_MSEC
#define RATE_GROUP_TAB		3072U		/* bytes */
#define RATE_GROUP_WINDOW	18		/* 2^18 ns = 262 us */
#define RATE_GROUP_MEASURE	512		/* windows, 134 ms */
#define RATE_GROUP_FOREVER	BIT_ULL(36)	/* ns, 69 s */
#define RATE_GROUP_MIN_RATE	64U		/* bytes/s */

/**
 * struct rate_group - what the shapers of one group share
 * @tail: when all that was granted will have been sent, ns
 * @ahead: how far the allowance for going ahead of one's turn is used up, ns
 * @window: end of the time that @lead and @frame are about, ns
 * @lead: longest time from now to @tail that a reservation found, ns
 * @frame: longest frame charged, bytes
 * @holders: members that unused time is left for
 * @rate: of the group, bytes/s; 0 is unlimited
 * @changed: when @rate was set, ns
 * @mtu: what a quantum is at least, bytes
 * @quantum: what a member reserves at a time, bytes
 * @quantum_max: the most that it may be, bytes
 * @number: that the owner knows the group by
 * @members: how many there are; 0: the group is not in use
 *
 * Two cache lines. The first is written once per slot by whoever reserves it,
 * twice for a packet that goes ahead of its turn, and twice for a backlog that
 * is more than a slot; the second with RTNL held, and @quantum once per window
 * at most.
 */
struct rate_group {
	atomic64_t	tail;
	atomic64_t	ahead;
	atomic64_t	window;
	u32		lead;
	u32		frame;
	atomic_t	holders;

	u64		rate ____cacheline_aligned_in_smp;
	u64		changed;
	u32		mtu;
	u32		quantum;
	u32		quantum_max;
	u32		number;
	u32		members;
};

/**
 * struct rate_group_member - a shaper's part in a group
 * @group: that it belongs to, NULL if none
 * @rate: copy of the group's, bytes/s
 * @mult: ns per byte, shifted left by @shift
 * @shift: see @mult
 * @late: what a backlog may make up for, bytes, if that is more than usual
 * @burst: what a new backlog may make up for, bytes: how much a group that was
 *	idle may send at once
 * @backdate: the same, ns
 * @slack: how early a packet may go, ns
 * @horizon: how much unused time a backlog may make up for, ns
 * @frac: what is left of a ns, in units of 2^-@shift ns
 * @next: when the next byte may go, ns
 * @end: when the last slot ends, ns
 * @since: start of the backlog, ns: it has no claim to what was before, unless
 *	the group has holders
 * @stood: how long the member has waited for its turns, ns
 * @left: bytes that may still go in this slot; negative: too many went
 * @unpaid: bytes sent ahead of any reservation; negative: paid for, not sent
 * @unpaid_since: what was not used before that does not pay for them, ns;
 *	unless the group has holders
 * @window: number of the current window of recent traffic
 * @bytes: sent in that window
 * @measured: number of the window in which @share was measured
 * @sent: since then, bytes
 * @share: what the member sent before that, bytes/s
 * @tab: bytes that may be sent before they are reserved
 * @tab_end: when that permission ends, ns
 * @own: until when the share of the member is used up, ns
 * @excess: bytes sent beyond the member's share and not yet made up for
 * @frame: longest frame since the last reservation, bytes
 * @unit: longest frame before that, no more than a quantum, or than there was
 *	to send, bytes
 * @lent: time that turns without a slot took, ns
 * @turn: @next is a turn that only brings a reservation
 * @holds: its backlog has been more than a slot; it is one of the holders
 *
 * Protected by the lock of the shaper that it is part of. Its owner may set
 * @late and @burst before rate_group_update().
 */
struct rate_group_member {
	struct rate_group	*group;
	u64			rate;
	u64			mult;
	u32			shift;
	u32			late;
	u32			burst;
	u32			slack;
	u64			backdate;
	u64			horizon;
	u64			frac;
	u64			next;
	u64			end;
	u64			since;
	u64			stood;
	s64			left;
	s64			unpaid;
	u64			unpaid_since;
	u64			window;
	u64			measured;
	u64			sent;
	u64			share;
	u32			bytes;
	u32			tab;
	u64			tab_end;
	u64			own;
	s32			excess;
	u32			frame;
	u32			unit;
	u32			lent;
	bool			turn;
	bool			holds;
};

struct rate_group *rate_group_find(struct rate_group *groups, unsigned int n,
				   u32 number);
void rate_group_set_rate(struct rate_group *g, u64 rate, u32 mtu, u64 now);
void rate_group_join(struct rate_group *g, struct rate_group_member *m,
		     u64 now);
void rate_group_leave(struct rate_group_member *m, u64 now);
void rate_group_update(struct rate_group_member *m, u64 now);
u64 rate_group_share(const struct rate_group_member *m, u64 now);

void rate_group_arrive(struct rate_group_member *m, u64 now);
bool rate_group_may_send(const struct rate_group_member *m, u64 now,
			 u32 backlog);
bool rate_group_wait(struct rate_group_member *m, u64 now, u32 backlog,
		     u64 *when);
bool rate_group_take(struct rate_group_member *m, u64 now, u32 bytes, bool more,
		     u64 *when);
bool rate_group_granted(const struct rate_group_member *m, u32 backlog);
void rate_group_count(struct rate_group_member *m, u32 len);
bool rate_group_ahead(struct rate_group_member *m, u64 now, u32 len, bool own);
void rate_group_charge(struct rate_group_member *m, u64 now, u32 len);
void rate_group_idle(struct rate_group_member *m, u64 now);

/**
 * rate_group_clock - time as a member would see it with the rate for itself
 * @m: the member
 * @now: time, ns
 *
 * For schedules below the shaper: a clock that stands still while siblings
 * have their turns.
 *
 * Context: lock of the member held.
 * Return: time, ns.
 */
static inline u64 rate_group_clock(const struct rate_group_member *m, u64 now)
{
	return ((s64)(m->next - now) > 0 ? m->next : now) - m->stood;
}

/* Has it sent within the last ms or so? For reports, needs no lock. */
static inline bool rate_group_recent(const struct rate_group_member *m, u64 now)
{
	/* Negative if it has sent since the caller looked at the clock */
	return (s64)((now >> RATE_GROUP_WINDOW) - READ_ONCE(m->window)) <= 4;
}

#endif /* __NET_SCH_RATE_GROUP_H */

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Classes with a rate, a ceil and a priority, shared by many queues */
#ifndef __NET_SCH_RATE_TREE_H
#define __NET_SCH_RATE_TREE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/time64.h>
#include <linux/types.h>

/* See DOC: rate tree */
#define RATE_TREE_SLOT_MAX	12288U		/* or longest packet, bytes */
#define RATE_TREE_ROUND		(200 * NSEC_PER_USEC) /* wanted for all slots */
#define RATE_TREE_LOOKAHEAD	(32 * NSEC_PER_USEC) /* granted in advance */
#define RATE_TREE_MIN_BURST	NSEC_PER_MSEC	/* unused rate made up for */
#define RATE_TREE_MAX_LATE	(25 * NSEC_PER_MSEC) /* the same, slots */
#define RATE_TREE_PATIENCE	(12 * NSEC_PER_MSEC) /* with a late queue */
#define RATE_TREE_LOOK_AGAIN	(100 * NSEC_PER_MSEC) /* for a slot, at least */
#define RATE_TREE_CREDIT_TIME	(25 * NSEC_PER_MSEC) /* credit */
#define RATE_TREE_SLACK		(5 * NSEC_PER_USEC) /* early at most */
#define RATE_TREE_MAX_SLACK	(50ULL * NSEC_PER_USEC) /* the same if late */
#define RATE_TREE_KICK_LATE	(10 * NSEC_PER_USEC) /* without a kick */
#define RATE_TREE_PRIOS		8
#define RATE_TREE_SLOTS		64		/* of a queue at a time */
#define RATE_TREE_GRANTS	64		/* under one hold of the lock */
#define RATE_TREE_NEVER		U64_MAX		/* no time to wait for */

/**
 * struct rate_tree_speed - how long bytes take
 * @mult: ns per byte, shifted left by @shift
 * @shift: see @mult
 * @frac: what is left of a ns, in units of 2^-@shift ns
 */
struct rate_tree_speed {
	u64	mult;
	u32	shift;
	u64	frac;
};

/**
 * struct rate_tree_class - what all queues share of a class
 * @tree: the tree
 * @parent: NULL for the root
 * @rate: guaranteed rate, bytes/s
 * @ceil: the most that it gets, bytes/s
 * @burst: unused @rate that it may catch up on, ns
 * @cburst: the same of @ceil, ns
 * @quantum: its weight for what the rates leave, bytes
 * @prio: priority of its own packets for what the rates leave; 0 goes first
 * @rate_speed: @rate as time
 * @ceil_speed: @ceil as time
 * @max_slot: longest slot, bytes
 * @max_lead: how far its @vtime may be ahead: a slot of 2^28 bytes
 * @wanted_rate: sum of the rates of its children that want slots, bytes/s;
 *	wraps around
 * @nwaiting: number of members, here and in classes below, that want slots
 * @longest: longest packet of members that got slots of late, bytes
 * @round_bytes: sum of the slots of all @nwaiting, the largest of late, bytes
 * @rate_until: time up to which its rate is used up, ns
 * @ceil_until: time up to which its ceil is used up, ns
 * @vtime: its virtual time for each priority: bytes beyond its rate, divided by
 *	@quantum, in units of 2^-32; wraps around
 * @rate_lag: how far the children lag behind their rates, because these add up
 *	to more than there is, ns
 * @max_vtime: largest @vtime of the children served, for each priority
 * @by_rate: children that may have a slot, by @rate_until
 * @by_vtime: the same by @vtime, for each priority
 * @prios: bits of the priorities that have children there
 * @waiting: members that want a slot, by @served
 * @last_served: @served of the member that had the last slot, bytes
 * @state: whether it may have a slot, is above its ceil, or wants none
 * @own_last: the last slot went to one of @waiting, not to a child
 * @cur_prio: its priority now: the first of those that wait here or below
 * @node: in @classes of the tree
 * @rate_node: in @by_rate of the parent, or in @blocked of the tree
 * @vtime_node: in @by_vtime of the parent
 *
 * Protected by the lock of the tree.
 */
struct rate_tree_class {
	struct rate_tree	*tree;
	struct rate_tree_class	*parent;
	u64			rate;
	u64			ceil;
	u64			burst;
	u64			cburst;
	u32			quantum;
	u8			prio;
	struct rate_tree_speed	rate_speed;
	struct rate_tree_speed	ceil_speed;
	u32			max_slot;
	u64			max_lead;

	u64			wanted_rate;
	u32			nwaiting;
	u32			longest;
	u64			round_bytes;
	u64			rate_until;
	u64			ceil_until;
	u64			vtime[RATE_TREE_PRIOS];
	u64			rate_lag;
	u64			max_vtime[RATE_TREE_PRIOS];
	struct rb_root_cached	by_rate;
	struct rb_root_cached	by_vtime[RATE_TREE_PRIOS];
	unsigned long		prios;
	struct rb_root_cached	waiting;
	u64			last_served;
	enum {
		RATE_TREE_IDLE,
		RATE_TREE_READY,
		RATE_TREE_BLOCKED,
	}			state;
	bool			own_last;
	u8			cur_prio;
	struct list_head	node;
	struct rb_node		rate_node;
	struct rb_node		vtime_node;
};

/**
 * struct rate_tree - what the queues of a device share
 * @lock: taken to grant slots, within that of a queue
 * @grant_at: when slots are to be granted again, ns
 * @granter: the queue that has to do so; NULL if no member waits
 * @idle: no member may have a slot
 * @rate_changes: number of changes of the root's rate; a queue that sees a new
 *	number forgets when it expects slots
 * @tat: end of the last slot that was granted, ns
 * @unused: time that nobody has used of late, ns
 * @blocked: classes above their ceil, by @ceil_until
 * @classes: all but the root; changes under RTNL
 * @queues: the queues that have members
 * @nqueues: number of @queues
 * @root: its ceil is the rate of all
 *
 * Queues read the fields before @tat without the lock. With a stale value, a
 * queue takes the lock in vain, or later than it could.
 */
struct rate_tree {
	spinlock_t		lock;	/* of classes, and of what is granted */
	atomic64_t		grant_at;
	struct rate_tree_queue	*granter;
	bool			idle;
	u32			rate_changes;
	u64			tat;
	u64			unused;
	struct rb_root_cached	blocked;
	struct list_head	classes;
	struct list_head	queues;
	u32			nqueues;
	struct rate_tree_class	root;
};

/**
 * struct rate_tree_slot - bytes that a member may send
 * @m: the member; NULL if it no longer wants the slot
 * @start: when the first byte may go, ns
 * @granted_at: when it was granted, ns
 * @len: number of bytes
 * @payer: see &struct rate_tree_member
 * @above_ceil: see &struct rate_tree_member
 */
struct rate_tree_slot {
	struct rate_tree_member	*m;
	u64			start;
	u64			granted_at;
	u32			len;
	u8			payer;
	u8			above_ceil;
};

/**
 * struct rate_tree_queue - a queue that sends for classes of a tree
 * @tree: the tree
 * @kick: lets the queue ask soon; called under the tree's lock
 * @sender: the member whose slot it is, or NULL
 * @next_at: when the next byte of @sender may go, ns
 * @left: what is left of its slot, bytes
 * @lost_at: when the rest of the slot is lost, ns
 * @fresh: members whose backlog rate_tree_next() has to look at
 * @free: members that need no slot for what they have
 * @paused: members that cannot send
 * @owing: members that have sent without a slot since the queue had the lock
 * @nbacklogged: number of members that have packets, and can send
 * @nmembers: number of all members
 * @credit: bytes that may go without a slot
 * @credit_at: when it was given, ns
 * @since: when the last slot began, or the queue began to wait, ns
 * @slot_wait: how long it waits for a slot on average, ns
 * @look_at: when it looks for a slot, ns
 * @call_at: when it asked to be called, ns; 0: it did not
 * @lateness: how late it is called on average, ns
 * @slack: how early a packet may go, ns
 * @lookahead: how far ahead slots are granted, ns
 * @rate_changes: that of the tree when the queue last looked
 * @speed: speed of the root
 * @max_credit: the most that @credit may be, bytes
 * @posts: members that begin to want slots
 * @wake_at: when the queue is going to look, ns
 * @slots_begun: number of its slots that are over, or have begun
 * @beyond: sent beyond what slots and credit allow, less what slots had left
 *	while others waited, bytes in all; wraps around
 * @slots_granted: number of slots that the queue was granted in all
 * @settled: the part of @beyond that the root was charged
 * @node: in @queues of the tree
 * @stuck: members that get no slot until the queue begins those it has
 * @slot: slots that were granted and have not begun, from @slots_begun to
 *	@slots_granted
 *
 * Comments in the struct say which lock protects what.
 */
struct rate_tree_queue {
	/* Under the lock of the queue */
	struct rate_tree	*tree;
	void			(*kick)(struct rate_tree_queue *q);
	struct rate_tree_member	*sender;
	u64			next_at;
	s64			left;
	u64			lost_at;
	struct list_head	fresh;
	struct list_head	free;
	struct list_head	paused;
	struct list_head	owing;
	u32			nbacklogged;
	u32			nmembers;
	s32			credit;
	u64			credit_at;
	u64			since;
	u32			slot_wait;
	u64			look_at;
	u64			call_at;
	u32			lateness;
	u32			slack;
	u64			lookahead;
	u32			rate_changes;
	struct rate_tree_speed	speed;
	u32			max_credit;

	/* Written under the lock of the queue; others read, and take from
	 * @posts, under that of the tree
	 */
	struct llist_head	posts ____cacheline_aligned_in_smp;
	atomic64_t		wake_at;
	u32			slots_begun;
	u32			beyond;

	/* Written under the lock of the tree; the queue reads under its own */
	u32			slots_granted ____cacheline_aligned_in_smp;
	u32			settled;
	struct list_head	node;
	struct list_head	stuck;
	struct rate_tree_slot	slot[RATE_TREE_SLOTS];
};

/**
 * struct rate_tree_member - a class on one queue
 * @class: the class
 * @queue: the queue
 * @backlog: what it has to send, bytes
 * @paused: it cannot send before @paused_until
 * @paused_until: see @paused, ns
 * @since: when its backlog began, ns
 * @list: in @fresh, @free or @paused of its queue
 * @owing: in @owing of its queue
 * @payer: for the owner's statistics: the class whose rate pays for what it
 *	sends next, as the number of levels above its own class
 * @above_ceil: for the owner's statistics: classes that its slots have brought
 *	above their ceil, a bit for each level, and the root if a slot had to
 *	wait; the owner clears it
 * @posted: it is in @posts of its queue: cleared under the tree's lock
 * @asked: it has been posted, and may not have got what it wanted
 * @post: in @posts of its queue
 * @wanted: its backlog less what is left of its slot, bytes
 * @longest: length of the longest packets of late, bytes
 * @begun: bytes of slots that are over, or have begun, in all
 * @beyond: bytes that it sent beyond its slots, in all
 * @waits: it is in @waiting of its class, or in @stuck of its queue
 * @granted: bytes of slots in all
 * @settled: the part of @beyond that its classes were charged
 * @room: bytes that its classes leave for packets without slots
 * @room_from: time from which they leave that, ns
 * @lender: the class that pays for these, as in @payer
 * @served: bytes that it got, or would have got if it had always waited
 * @waiting: in @waiting of its class
 * @stuck: in @stuck of its queue
 *
 * Comments in the struct say which lock protects what. All of the sums wrap
 * around.
 */
struct rate_tree_member {
	/* Under the lock of the queue */
	struct rate_tree_class	*class;
	struct rate_tree_queue	*queue;
	u32			backlog;
	bool			paused;
	u64			paused_until;
	struct list_head	list;
	struct list_head	owing;
	u8			payer;
	u8			above_ceil;
	bool			posted;
	bool			asked;
	struct llist_node	post;

	/* Written under the lock of the queue, read under that of the tree */
	u64			since;
	u32			wanted;
	u32			longest;
	u32			begun;
	u32			beyond;

	/* Written under the lock of the tree; the queue reads under its own */
	bool			waits;
	u32			granted;
	u32			settled;
	u32			room;
	u64			room_from;
	u8			lender;
	u64			served;
	struct rb_node		waiting;
	struct list_head	stuck;
};

void rate_tree_init(struct rate_tree *t);
void rate_tree_add(struct rate_tree *t, struct rate_tree_class *c,
		   struct rate_tree_class *parent);
bool rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u64 burst,
		   u64 cburst, u32 quantum, u8 prio, u64 now);
void rate_tree_tokens(struct rate_tree_class *c, u64 now, s64 *tokens,
		      s64 *ctokens);
void rate_tree_remove(struct rate_tree_class *c);

void rate_tree_queue_init(struct rate_tree_queue *q, struct rate_tree *t,
			  void (*kick)(struct rate_tree_queue *q));
void rate_tree_join(struct rate_tree_queue *q, struct rate_tree_member *m,
		    struct rate_tree_class *c);
void rate_tree_leave(struct rate_tree_member *m, u64 now);

void rate_tree_arrive(struct rate_tree_member *m, u32 backlog);
void rate_tree_backlog(struct rate_tree_member *m, u64 now, u32 backlog);
struct rate_tree_member *rate_tree_next(struct rate_tree_queue *q, u64 now,
					u64 *when);

/**
 * rate_tree_grants - does an idle queue have to be called as well?
 * @q: the queue
 *
 * The queue that got the last slot sees to it that more slots are granted. It
 * may have nothing to send by then.
 *
 * Context: lock of the queue held.
 * Return: true if rate_tree_next() has to be called, and again at the time that
 * it tells, although no member has a backlog.
 */
static inline bool rate_tree_grants(const struct rate_tree_queue *q)
{
	return READ_ONCE(q->tree->granter) == q && !READ_ONCE(q->tree->idle);
}

void rate_tree_charge(struct rate_tree_member *m, u32 len);
void rate_tree_pause(struct rate_tree_member *m, u64 now, u64 until);

#endif

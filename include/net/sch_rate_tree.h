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
#define RATE_TREE_AHEAD		(32 * NSEC_PER_USEC) /* granted in advance */
#define RATE_TREE_HORIZON	NSEC_PER_MSEC	/* unused rate made up for */
#define RATE_TREE_LATENESS	(25 * NSEC_PER_MSEC) /* the same, slots */
#define RATE_TREE_PATIENCE	(12 * NSEC_PER_MSEC) /* with a late queue */
#define RATE_TREE_KEEP		(25 * NSEC_PER_MSEC) /* credit */
#define RATE_TREE_SLACK		(5 * NSEC_PER_USEC) /* early at most */
#define RATE_TREE_LAG		(50ULL * NSEC_PER_USEC) /* the same if late */
#define RATE_TREE_LATE		(10 * NSEC_PER_USEC) /* without a kick */
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
 * @tree: that it belongs to
 * @parent: NULL for the root
 * @rate: that the class gets whatever others do, bytes/s
 * @ceil: that it gets at most, bytes/s
 * @burst: of @rate, that it may catch up on, ns
 * @cburst: of @ceil, the same, ns
 * @quantum: its weight when more than the rates is there, bytes
 * @prio: of a class without children: who is served first then, from 0
 * @rate_ns: @rate as time
 * @ceil_ns: @ceil as time
 * @most: longest slot, bytes
 * @sum: of the rates of its children that want slots, bytes/s; wraps around
 * @members: of it, and of those below it, that want slots
 * @longest: packet of those that were granted slots of late, bytes
 * @round: slots of all @members, the most of late, bytes
 * @rate_until: time up to which its rate is used up, ns
 * @ceil_until: time up to which its ceil is used up, ns
 * @over: bytes beyond its rate divided by @quantum, for each priority, in units
 *	of 2^-32; wraps around
 * @behind: how far the rates of the children lag behind the clock, because they
 *	add up to more than there is, ns
 * @served: largest @over among the children served at a priority
 * @by_rate: children that may have a slot, by @rate_until
 * @by_over: the same by @over, for each priority
 * @prios: for which of these there are any
 * @waiting: members that want a slot, by what they were @served
 * @turn: what the one was served that had the last slot, bytes
 * @state: whether it may have a slot, is above its ceil, or wants none
 * @own: the last slot went to one of @waiting, not to a child
 * @at_prio: the priority that it has now: of what waits below it, the first
 * @node: in @classes of the tree
 * @rate_node: in @by_rate of the parent, or in @blocked of the tree
 * @over_node: in @by_over of the parent
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
	struct rate_tree_speed	rate_ns;
	struct rate_tree_speed	ceil_ns;
	u32			most;

	u64			sum;
	u32			members;
	u32			longest;
	u64			round;
	u64			rate_until;
	u64			ceil_until;
	u64			over[RATE_TREE_PRIOS];
	u64			behind;
	u64			served[RATE_TREE_PRIOS];
	struct rb_root_cached	by_rate;
	struct rb_root_cached	by_over[RATE_TREE_PRIOS];
	unsigned long		prios;
	struct rb_root_cached	waiting;
	u64			turn;
	enum {
		RATE_TREE_IDLE,
		RATE_TREE_READY,
		RATE_TREE_BLOCKED,
	}			state;
	bool			own;
	u8			at_prio;
	struct list_head	node;
	struct rb_node		rate_node;
	struct rb_node		over_node;
};

/**
 * struct rate_tree - what the queues of a device share
 * @lock: taken to grant slots, within that of a queue
 * @due: when slots are to be granted again, ns
 * @next: the queue that sees to that; NULL if nobody waits
 * @idle: nobody may have a slot
 * @changes: of the rate of the root, counted; a queue that sees a new one
 *	forgets what it expects
 * @tail: end of the last slot that was granted, ns
 * @spare: time that nobody has used of late, ns
 * @blocked: classes above their ceil, by @ceil_until
 * @classes: all but the root; changes under RTNL
 * @queues: those that have members
 * @nqueues: how many these are
 * @root: its ceil is the rate of all
 *
 * Queues read what is before @tail without the lock. If that is old, a queue
 * takes the lock in vain, or later than it could.
 */
struct rate_tree {
	spinlock_t		lock;	/* of classes, and of what is granted */
	atomic64_t		due;
	struct rate_tree_queue	*next;
	bool			idle;
	u32			changes;
	u64			tail;
	u64			spare;
	struct rb_root_cached	blocked;
	struct list_head	classes;
	struct list_head	queues;
	u32			nqueues;
	struct rate_tree_class	root;
};

/**
 * struct rate_tree_slot - bytes that a member may send
 * @m: the member, NULL if it wants them no more
 * @start: when the first may go, ns
 * @at: when it was granted, ns
 * @len: how many
 * @payer: see &struct rate_tree_member
 * @above: the same
 */
struct rate_tree_slot {
	struct rate_tree_member	*m;
	u64			start;
	u64			at;
	u32			len;
	u8			payer;
	u8			above;
};

/**
 * struct rate_tree_queue - a queue that sends for classes of a tree
 * @tree: the tree
 * @kick: lets the queue ask soon; called under the tree's lock
 * @open: the member that is in its slot, or NULL
 * @next: when its next byte may go, ns
 * @left: of its slot, bytes
 * @lost: when that is lost, ns
 * @fresh: members whose backlog the tree is to be told with the next time
 * @free: members that need no slot for what they have
 * @paused: members that cannot send
 * @owing: members that have sent without a slot since the queue had the lock
 * @backlogs: members that have something to send, and can
 * @members: all of them
 * @credit: bytes that may go without a slot
 * @credit_at: when it was given, ns
 * @since: when the last slot began, or the queue began to wait, ns
 * @turn: how long it waits for a slot, averaged, ns
 * @look: when it looks for a slot, ns
 * @asked: when it asked to be called, ns; 0: not
 * @lag: how late it was of late when it had asked, ns
 * @slack: how early a packet may go, ns
 * @ahead: that slots are granted in advance, ns
 * @changes: of the tree, as far as the queue has seen them
 * @ns: speed of the root
 * @quantum: the most of @credit, bytes
 * @posts: members that begin to want slots
 * @wake: when the queue is going to look, ns
 * @begun: how many of its slots are over, or have begun
 * @beyond: sent beyond what slots and credit allow, bytes in all
 * @granted: how many slots the queue was granted in all
 * @settled: of @beyond, what the root was charged
 * @node: in @queues of the tree
 * @stuck: members that may have no slot before the queue begins some
 * @slot: that were granted and have not begun, from @begun to @granted
 *
 * The queue's lock protects what is before @posts. Up to @beyond, the queue
 * writes under its lock, and others read under that of the tree; the rest is
 * the other way round.
 */
struct rate_tree_queue {
	struct rate_tree	*tree;
	void			(*kick)(struct rate_tree_queue *q);
	struct rate_tree_member	*open;
	u64			next;
	s64			left;
	u64			lost;
	struct list_head	fresh;
	struct list_head	free;
	struct list_head	paused;
	struct list_head	owing;
	u32			backlogs;
	u32			members;
	s32			credit;
	u64			credit_at;
	u64			since;
	u32			turn;
	u64			look;
	u64			asked;
	u32			lag;
	u32			slack;
	u64			ahead;
	u32			changes;
	struct rate_tree_speed	ns;
	u32			quantum;

	struct llist_head	posts ____cacheline_aligned_in_smp;
	atomic64_t		wake;
	u32			begun;
	u32			beyond;

	u32			granted ____cacheline_aligned_in_smp;
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
 * @paused: it cannot send before @until
 * @until: see @paused, ns
 * @since: when its backlog began, ns
 * @list: in @fresh, @free or @paused of its queue
 * @owing: in that list of its queue
 * @payer: for the owner's statistics: whose rate pays for what it sends next,
 *	so many levels above its class
 * @above: the same: classes that its slots have brought above their ceil, a bit
 *	for each level, and the root if one had to wait; cleared by the owner
 * @posted: it is in @posts of its queue: cleared under the tree's lock
 * @post: in @posts of its queue
 * @wanted: its backlog less what is left of its slot, bytes
 * @longest: length of the longest packet of this backlog, bytes
 * @begun: bytes of slots that are over, or have begun, in all
 * @beyond: bytes that it sent beyond its slots, in all
 * @waits: it is in @waiting of its class, or in @stuck of its queue
 * @granted: bytes of slots in all
 * @settled: of @beyond, what its classes were charged
 * @room: that its classes leave for packets without slots, bytes
 * @lender: who pays for these, as @payer
 * @served: bytes that it got, or would have if it had waited always
 * @waiting: in the tree of its class
 * @stuck: in the list of its queue
 *
 * As in &struct rate_tree_queue: the queue's lock protects what is before
 * @wanted, the queue writes what is before @waits, others the rest. All of the
 * sums wrap around.
 */
struct rate_tree_member {
	struct rate_tree_class	*class;
	struct rate_tree_queue	*queue;
	u32			backlog;
	bool			paused;
	u64			until;
	u64			since;
	struct list_head	list;
	struct list_head	owing;
	u8			payer;
	u8			above;
	bool			posted;
	struct llist_node	post;

	u32			wanted;
	u32			longest;
	u32			begun;
	u32			beyond;

	bool			waits;
	u32			granted;
	u32			settled;
	u32			room;
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
void rate_tree_charge(struct rate_tree_member *m, u32 len);
void rate_tree_pause(struct rate_tree_member *m, u64 now, u64 until);

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Classes with a rate, a ceil and a priority, shared by many queues */
#ifndef __NET_SCH_RATE_TREE_H
#define __NET_SCH_RATE_TREE_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/time64.h>
#include <linux/types.h>

/* See DOC: rate tree */
#define RATE_TREE_SLOT_MAX	12288U		/* or longest packet, bytes */
#define RATE_TREE_ROUND		(200 * NSEC_PER_USEC) /* wanted for all slots */
#define RATE_TREE_AHEAD		(40 * NSEC_PER_USEC) /* granted in advance */
#define RATE_TREE_HORIZON	NSEC_PER_MSEC	/* unused time made up for */
#define RATE_TREE_SLACK		(5 * NSEC_PER_USEC) /* early, or without slot */
#define RATE_TREE_LATE		(250 * NSEC_PER_USEC) /* without a kick */
#define RATE_TREE_PRIOS		8
#define RATE_TREE_LEVELS	8		/* told apart in statistics */
#define RATE_TREE_SLOTS		8		/* of a member at a time */
#define RATE_TREE_GRANTS	64		/* under one hold of the lock */

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
 * @waiting: members that want a slot
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
	struct list_head	waiting;
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
 * @lock: taken once per slot, within that of a queue
 * @tail: end of the last slot that was granted, ns
 * @last: the member that was granted it; NULL if that has become idle
 * @changes: of the rate of the root, counted; a queue that sees a new one
 *	forgets what it expects
 * @blocked: classes above their ceil, by @ceil_until
 * @classes: all but the root; changes under RTNL
 * @root: its ceil is the rate of all
 */
struct rate_tree {
	spinlock_t		lock;	/* of classes, and slots of members */
	u64			tail;
	struct rate_tree_member	*last;
	u32			changes;
	struct rb_root_cached	blocked;
	struct list_head	classes;
	struct rate_tree_class	root;
};

/**
 * struct rate_tree_queue - a queue that sends for classes of a tree
 * @tree: the tree
 * @granted: members with slots that have not begun: under the tree's lock
 * @open: members that are in their slots, or need none
 * @due: members that wait and have no slot yet, by @ask
 * @ask: when the first of @granted begins, ns
 * @wake: when the queue is going to ask, ns: read under the tree's lock
 * @grants: slots that its members were granted: under the tree's lock
 * @seen: of @grants, when the queue asked last
 * @kick: lets the queue ask soon; called under the tree's lock
 * @booked: there were @granted when the queue last looked
 * @changes: of the tree, as far as the queue has seen them
 * @ns: speed of the root, as of the last look at the tree
 * @slack: how early a packet may go, and how much without a slot, ns
 *
 * Protected by the lock of the queue, unless said.
 */
struct rate_tree_queue {
	struct rate_tree	*tree;
	struct list_head	granted;
	struct list_head	open;
	struct rb_root_cached	due;
	u64			ask;
	atomic64_t		wake;
	u32			grants;
	u32			seen;
	bool			booked;
	void			(*kick)(struct rate_tree_queue *q);
	u32			changes;
	u32			slack;
	struct rate_tree_speed	ns;
};

/**
 * struct rate_tree_slot - bytes that a member may send
 * @start: when the first may go, ns
 * @end: when the last will have gone, at the rate of the root, ns
 * @len: how many
 */
struct rate_tree_slot {
	u64	start;
	u64	end;
	u32	len;
};

/**
 * struct rate_tree_member - a class on one queue
 * @class: the class
 * @queue: the queue
 * @next: when the next byte may go, ns
 * @left: what may still go, bytes; negative: what went too much
 * @since: when it began to wait, its last slot began, or it became idle, ns
 * @ask: when to ask for a slot, ns
 * @turn: how long it waits for a slot, averaged, ns
 * @longest: length of the longest packet of this backlog, bytes
 * @owed: the same as @left if that is negative, bytes
 * @backlogged: it has something to send
 * @paused: it does not wait for a slot until @ask
 * @free: it has waited for no slot since it was idle, and may do without one
 * @payer: for the owner's statistics: whose rate pays for what it sends next,
 *	so many levels above its class
 * @above: the same: classes that its slots have brought above their ceil, a bit
 *	for each level, and the root if one had to wait; cleared by the owner
 * @paid: what they have paid for, by level, bytes
 * @wanted: its backlog less @left, bytes
 * @booked: bytes in @slot
 * @waits: it is in @waiting of its class
 * @slots: how many of @slot are in use
 * @pays: what is to be added to @paid
 * @exceeds: what is to be added to @above
 * @known: the queue has accounted for the first slot in its ask
 * @slot: granted, and not begun when the queue last asked
 * @waiting: in the list of its class
 * @granted: in the list of its queue
 * @open: in the list of its queue
 * @due: in the tree of its queue
 *
 * Fields up to @paid, and @known, @open and @due, are protected by the
 * queue's lock, the rest by the tree's. Exceptions: @wanted, @longest and @owed
 * are written under the queue's lock, and read under the tree's; @booked and
 * @waits are read under the queue's lock. If one of them is old, the member is
 * granted less or more than it has to send, or does not wait although it
 * should: rate_tree_ask() looks again.
 */
struct rate_tree_member {
	struct rate_tree_class	*class;
	struct rate_tree_queue	*queue;
	u64			next;
	s64			left;
	u64			since;
	u64			ask;
	u32			turn;
	u32			longest;
	u32			owed;
	bool			backlogged;
	bool			paused;
	bool			free;
	u8			payer;
	u8			above;
	s32			paid[RATE_TREE_LEVELS];
	u32			wanted;
	u32			booked;
	bool			waits;
	u8			slots;
	u32			pays[RATE_TREE_LEVELS];
	u8			exceeds;
	bool			known;
	struct rate_tree_slot	slot[RATE_TREE_SLOTS];
	struct list_head	waiting;
	struct list_head	granted;
	struct list_head	open;
	struct rb_node		due;
};

void rate_tree_init(struct rate_tree *t);
void rate_tree_add(struct rate_tree *t, struct rate_tree_class *c,
		   struct rate_tree_class *parent);
bool rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		   u8 prio, u64 now);
void rate_tree_tokens(struct rate_tree_class *c, u64 now, s64 *tokens,
		      s64 *ctokens);
void rate_tree_remove(struct rate_tree_class *c);

void rate_tree_queue_init(struct rate_tree_queue *q, struct rate_tree *t,
			  void (*kick)(struct rate_tree_queue *q));
void rate_tree_join(struct rate_tree_queue *q, struct rate_tree_member *m,
		    struct rate_tree_class *c);
void rate_tree_leave(struct rate_tree_member *m, u64 now);

void rate_tree_backlog(struct rate_tree_member *m, u64 now, u32 backlog);
struct rate_tree_member *rate_tree_next(struct rate_tree_queue *q, u64 now,
					u64 *when);
void rate_tree_charge(struct rate_tree_member *m, u32 len);
void rate_tree_pause(struct rate_tree_member *m, u64 now, u64 until);

#endif

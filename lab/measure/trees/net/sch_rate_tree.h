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
#define RATE_TREE_QUANTUM	12288U		/* longest slot, bytes */
#define RATE_TREE_ROUND		(200 * NSEC_PER_USEC) /* wanted for all slots */
#define RATE_TREE_AHEAD		(40 * NSEC_PER_USEC) /* granted in advance */
#define RATE_TREE_HORIZON	NSEC_PER_MSEC	/* unused time made up for */
#define RATE_TREE_SLACK		(5 * NSEC_PER_USEC) /* sent early at most */
#define RATE_TREE_PRIOS		8
#define RATE_TREE_SLOTS		8		/* of a member at a time */

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
 * @prio: who is served first then, from 0
 * @rate_ns: @rate as time
 * @ceil_ns: @ceil as time
 * @rate_until: what it had of its rate would last until then, ns
 * @ceil_until: what it had at all would last until then at @ceil, ns
 * @over: what it had beyond its rate, in units of 2^-16 quanta
 * @behind: by how much the rates of the children are behind the clock, as they
 *	add up to more than there is, ns
 * @served: the largest @over with which a child of a priority was served
 * @by_rate: children that may have a slot, by @rate_until
 * @by_over: the same by @over, for each priority
 * @prios: for which of these there are any
 * @waiting: members that want a slot; of a leaf
 * @state: whether it may have a slot, is above its ceil, or wants none
 * @assured: the slot that is being granted comes out of its rate
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

	u64			rate_until;
	u64			ceil_until;
	u64			over;
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
	bool			assured;
	struct rb_node		rate_node;
	struct rb_node		over_node;
};

/**
 * struct rate_tree - what the queues of a device share
 * @lock: taken once per slot, within that of a queue
 * @tail: when all slots that were granted will have been sent, ns
 * @longest: length of the longest packet so far, bytes: written without the lock
 * @waiting: how many members want a slot
 * @blocked: classes above their ceil, by @ceil_until
 * @root: its ceil is the rate of all
 */
struct rate_tree {
	spinlock_t		lock;
	u64			tail;
	u32			longest;
	u32			waiting;
	struct rb_root_cached	blocked;
	struct rate_tree_class	root;
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
 * struct rate_tree_member - a leaf class on one queue
 * @class: the class
 * @granted_to: list of the queue that it is put on with its first slot
 * @next: when the next byte may go, ns
 * @left: what may still go, bytes; negative: what went too much
 * @since: when it began to wait, or its last slot began, ns
 * @turn: how long it waits for a slot, averaged, ns
 * @wanted: its backlog less @left, bytes: told by the queue without the lock
 * @booked: bytes in @slot
 * @waits: it is in @waiting of its class
 * @slots: how many of @slot are in use
 * @slot: granted, and not begun when the queue last asked
 * @waiting: in the list of its class
 * @granted: in the list of its queue
 * @open: for the queue, in a list of those with something @left
 *
 * @next, @left, @since, @turn and @open are the queue's alone. @wanted, @booked and @waits are
 * read without the lock: an old value only means to ask once more, or later.
 */
struct rate_tree_member {
	struct rate_tree_class	*class;
	struct list_head	*granted_to;
	u64			next;
	s64			left;
	u64			since;
	u32			turn;
	u32			wanted;
	u32			booked;
	bool			waits;
	u8			slots;
	struct rate_tree_slot	slot[RATE_TREE_SLOTS];
	struct list_head	waiting;
	struct list_head	granted;
	struct list_head	open;
};

void rate_tree_init(struct rate_tree *t);
void rate_tree_add(struct rate_tree *t, struct rate_tree_class *c,
		   struct rate_tree_class *parent);
void rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		   u8 prio, u64 now);

void rate_tree_join(struct rate_tree_member *m, struct rate_tree_class *c,
		    struct list_head *granted_to);
void rate_tree_want(struct rate_tree_member *m, u64 now);
u64 rate_tree_due(const struct rate_tree_member *m, u64 now);
bool rate_tree_ask(struct rate_tree *t, struct list_head *granted,
		   struct list_head *open, u64 now, u64 *when);
void rate_tree_charge(struct rate_tree_member *m, u32 len);
void rate_tree_idle(struct rate_tree_member *m, u64 now);

#endif

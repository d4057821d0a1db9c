/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Qdiscs of several kinds that share a rate below one parent */
#ifndef __NET_SCH_RATE_GROUP_QDISC_H
#define __NET_SCH_RATE_GROUP_QDISC_H

#include <linux/types.h>
#include <net/sch_generic.h>
#include <net/sch_rate_group.h>

/**
 * struct rate_group_block - the groups below one parent
 * @pools: by the node of &struct rate_group_pool
 */
struct rate_group_block {
	struct hlist_head	pools;
};

/**
 * struct rate_group_pool - what the qdiscs of one group below one parent share
 * @node: in the parent's block
 * @members: qdiscs in it, by the node of &struct rate_group_qdisc
 * @number: that the user knows the group by
 * @users: number of qdiscs in it
 * @active: number of active ones when they were last counted
 * @counted_at: when they were last counted, ns
 * @tables: what members of one kind share in addition; NULL: no member needs
 *	any
 * @tables_users: number of members that need @tables
 * @rate: the group that enforces the rate
 */
struct rate_group_pool {
	struct hlist_node	node;
	struct hlist_head	members;
	u32			number;
	u32			users;
	u32			active;
	u64			counted_at;
	void			*tables;
	u32			tables_users;
	struct rate_group	rate;
};

/**
 * struct rate_group_qdisc - a qdisc that can be in a group
 * @node: on the list of @pool
 * @sch: the qdisc
 * @block: of the parent, NULL if it shares nothing
 * @pool: the group, NULL if none
 * @spare: becomes the group if the qdisc is its first member
 * @spare_tables: become its tables if no other member needs any
 * @member: its part in the group that enforces the rate
 * @changed: userspace has to be told of a change
 * @tables_size: what members of this kind share in addition, bytes; 0: nothing
 * @needs_rate: it cannot be unlimited
 * @follows: a sibling joins the same group first, and has what it needs for it
 * @set_rate: applies a new rate of the group, bytes/s, under the qdisc's lock
 *
 * Read and changed with RTNL held, @pool changed with the lock of the qdisc as
 * well. The owner sets @tables_size and @follows before
 * rate_group_qdisc_check(), and @member, @needs_rate and @set_rate before
 * rate_group_qdisc_assign(). Only one kind of qdisc may use tables.
 */
struct rate_group_qdisc {
	struct hlist_node	node;
	struct Qdisc		*sch;
	struct rate_group_block *block;
	struct rate_group_pool	*pool;
	struct rate_group_pool	*spare;
	void			*spare_tables;

	const struct rate_group_member *member;
	bool			changed;
	size_t			tables_size;
	bool			needs_rate;
	bool			follows;
	void			(*set_rate)(struct Qdisc *sch, u64 rate);
};

extern const char rate_group_block_key;

int rate_group_qdisc_check(struct rate_group_qdisc *m,
			   const struct rate_group_block *block,
			   const struct Qdisc *old, u32 number, u64 rate,
			   struct netlink_ext_ack *extack);
void rate_group_qdisc_cancel(struct rate_group_qdisc *m);
int rate_group_qdisc_check_rate(const struct rate_group_qdisc *m, u64 rate,
				struct netlink_ext_ack *extack);
void rate_group_qdisc_assign(struct rate_group_qdisc *m, struct Qdisc *sch,
			     struct rate_group_block *block);
void rate_group_qdisc_detach(struct rate_group_qdisc *m);
bool rate_group_qdisc_move(struct rate_group_qdisc *m, u32 number);
void rate_group_qdisc_push(struct rate_group_qdisc *m);
u32 rate_group_qdisc_active(const struct rate_group_qdisc *m, u64 now);

static inline u32 rate_group_qdisc_number(const struct rate_group_qdisc *m)
{
	return m->pool ? m->pool->number : 0;
}

#endif /* __NET_SCH_RATE_GROUP_QDISC_H */

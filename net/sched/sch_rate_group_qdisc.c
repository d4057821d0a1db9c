// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Qdiscs of several kinds that share a rate below one parent */

#include <linux/build_bug.h>
#include <linux/export.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/sch_priv.h>
#include <net/sch_rate_group_qdisc.h>

/**
 * DOC: qdiscs in rate groups
 *
 * Below one parent there may be several groups, such as one for each traffic
 * class of an mqprio. The user gives each a number. The parent's block has the
 * list of them. A group is allocated for its first member, of whatever kind,
 * and freed when the last has left. Tables that only members of one kind need
 * are allocated for the first of these, and freed when the last has left.
 *
 * A group has one rate. A joiner takes it over, or brings the same. A request
 * that changes the rate of one member changes it for all.
 */

/* The memory cgroup of the user who asked for it pays, as for a filter */
#define RATE_GROUP_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

static_assert(sizeof(struct rate_group_pool) <= SZ_1K);

const char rate_group_block_key;
EXPORT_SYMBOL_NS_GPL(rate_group_block_key, "NET_SCHED_INTERNAL");

static struct rate_group_pool *
rate_group_pool_find(const struct rate_group_block *block, u32 number)
{
	struct rate_group_pool *pool;

	hlist_for_each_entry(pool, &block->pools, node)
		if (pool->number == number)
			return pool;

	return NULL;
}

/* Does the group have a member besides @old, which is replaced? */
static bool rate_group_pool_stays(const struct rate_group_pool *pool,
				  const struct Qdisc *old)
{
	const struct rate_group_qdisc *m;

	m = hlist_entry(pool->members.first, struct rate_group_qdisc, node);

	return pool->users > 1 || m->sch != old;
}

/**
 * rate_group_qdisc_check - may a qdisc join a group
 * @m: the qdisc's part
 * @block: of the parent, NULL if it shares nothing
 * @old: the qdisc that it replaces; may be NULL
 * @number: of the group; 0 is none
 * @rate: that the qdisc brings, bytes/s; 0 if it brings none, or unlimited: it
 *	then takes over the group's
 * @extack: netlink extended ack, set on error
 *
 * Also allocates a group, in case the qdisc becomes its first member, and the
 * tables that it needs: then rate_group_qdisc_move() cannot fail. If that is
 * not called after all, rate_group_qdisc_cancel() frees them.
 *
 * Context: RTNL held, no qdisc lock.
 * Return: 0, or a negative errno with @extack set.
 */
int rate_group_qdisc_check(struct rate_group_qdisc *m,
			   const struct rate_group_block *block,
			   const struct Qdisc *old, u32 number, u64 rate,
			   struct netlink_ext_ack *extack)
{
	struct rate_group_pool *pool;
	bool tables;

	ASSERT_RTNL();

	if (!number)
		return 0;

	if (!block) {
		NL_SET_ERR_MSG(extack,
			       "shared needs a parent that shares state (mq, mqprio)");
		return -EOPNOTSUPP;
	}

	pool = rate_group_pool_find(block, number);
	if (pool && !rate_group_pool_stays(pool, old))
		pool = NULL;
	if (pool && rate && !pool->rate.rate) {
		NL_SET_ERR_MSG_FMT(extack,
				   "group %u is unlimited; first change a member to this rate",
				   number);
		return -EINVAL;
	}
	if (pool && rate && max(rate, RATE_GROUP_MIN_RATE) != pool->rate.rate) {
		NL_SET_ERR_MSG_FMT(extack,
				   "group %u has %llu bit/s; change it to %llu first",
				   number, 8 * pool->rate.rate, 8 * rate);
		return -EINVAL;
	}

	if (m->follows)
		return 0;

	tables = m->tables_size && !(pool && pool->tables);
	if (!pool && !m->spare)
		m->spare = kzalloc_obj(*m->spare, RATE_GROUP_GFP);
	if (tables && !m->spare_tables)
		m->spare_tables = kvzalloc(m->tables_size, RATE_GROUP_GFP);
	if ((pool || m->spare) && (!tables || m->spare_tables))
		return 0;

	rate_group_qdisc_cancel(m);
	NL_SET_ERR_MSG(extack,
		       "No memory for a group of shared qdiscs; free some and retry");
	return -ENOMEM;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_check, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_cancel - the qdisc does not join after all
 * @m: the qdisc's part
 *
 * Frees what rate_group_qdisc_check() has allocated. To be called if something
 * fails after that, and when the qdisc is destroyed.
 *
 * Context: process context, or the lock of the qdisc held.
 */
void rate_group_qdisc_cancel(struct rate_group_qdisc *m)
{
	kfree(m->spare);
	kvfree(m->spare_tables);
	m->spare = NULL;
	m->spare_tables = NULL;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_cancel, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_check_rate - may the rate of a group be changed
 * @m: the member that is asked to
 * @rate: the new rate, bytes/s; 0 is unlimited
 * @extack: netlink extended ack, set on error
 *
 * Context: RTNL held.
 * Return: 0, or a negative errno with @extack set.
 */
int rate_group_qdisc_check_rate(const struct rate_group_qdisc *m, u64 rate,
				struct netlink_ext_ack *extack)
{
	struct rate_group_qdisc *other;

	ASSERT_RTNL();

	if (!m->pool || rate >= RATE_GROUP_MIN_RATE)
		return 0;

	hlist_for_each_entry(other, &m->pool->members, node) {
		if (!other->needs_rate)
			continue;
		NL_SET_ERR_MSG_FMT(extack,
				   "%s in group %u needs a rate of 512bit or more",
				   other->sch->ops->id, m->pool->number);
		return -EINVAL;
	}

	return 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_check_rate, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_assign - take part in what the parent's children share
 * @m: the qdisc's part
 * @sch: the qdisc
 * @block: of the parent
 *
 * Context: RTNL held.
 */
void rate_group_qdisc_assign(struct rate_group_qdisc *m, struct Qdisc *sch,
			     struct rate_group_block *block)
{
	ASSERT_RTNL();

	m->sch = sch;
	m->block = block;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_assign, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_detach - take part no longer
 * @m: the qdisc's part; the caller takes it out of its group
 *
 * Context: RTNL held.
 */
void rate_group_qdisc_detach(struct rate_group_qdisc *m)
{
	ASSERT_RTNL();

	m->block = NULL;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_detach, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_move - move to another group
 * @m: the qdisc's part, whose &struct rate_group_member is in no group
 * @number: of the group, which rate_group_qdisc_check() has allowed; 0 is none
 *
 * Context: RTNL and the lock of the qdisc held, or nobody sending through it.
 * Return: true if the group had a member before, which may be about to leave.
 */
bool rate_group_qdisc_move(struct rate_group_qdisc *m, u32 number)
{
	struct rate_group_pool *pool = m->pool;

	ASSERT_RTNL();

	/* With bottom halves disabled, which kvfree() can do, here and below */
	if (pool) {
		hlist_del(&m->node);
		if (m->tables_size && !--pool->tables_users) {
			kvfree(pool->tables);
			pool->tables = NULL;
		}
		if (!--pool->users) {
			hlist_del(&pool->node);
			kfree(pool);
		}
	}
	m->pool = NULL;
	if (!number)
		return false;

	pool = rate_group_pool_find(m->block, number);
	if (!pool) {
		pool = m->spare;
		m->spare = NULL;
		pool->number = number;
		hlist_add_head(&pool->node, &m->block->pools);
	}
	if (m->tables_size && !pool->tables_users++)
		swap(pool->tables, m->spare_tables);
	m->pool = pool;
	hlist_add_head(&m->node, &pool->members);
	rate_group_qdisc_cancel(m);

	return pool->users++ > 0;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_move, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_push - give the rate of a group to its other members
 * @m: the member through which it was changed
 *
 * Calls ->set_rate() for each of them, under its lock. Only then notifies
 * userspace, as if each had been changed itself: that may take long, and a
 * member that still has the old rate gets no slot meanwhile. It may make up for
 * that time when it has the new rate.
 *
 * Context: RTNL held, no qdisc lock.
 */
void rate_group_qdisc_push(struct rate_group_qdisc *m)
{
	struct rate_group_qdisc *other;

	ASSERT_RTNL();

	if (!m->pool)
		return;

	hlist_for_each_entry(other, &m->pool->members, node) {
		if (other->member->rate == m->pool->rate.rate)
			continue;

		sch_tree_lock(other->sch);
		other->set_rate(other->sch, m->pool->rate.rate);
		sch_tree_unlock(other->sch);
		other->changed = true;
	}
	hlist_for_each_entry(other, &m->pool->members, node) {
		if (!other->changed)
			continue;

		other->changed = false;
		qdisc_notify_change(other->sch);
	}
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_push, "NET_SCHED_INTERNAL");

/**
 * rate_group_qdisc_active - how many members of a group are active
 * @m: a member, which counts as well
 * @now: time, ns
 *
 * A member is active if it has a backlog, or has sent within the last ms. This
 * is read without the lock of the member. If a value is torn, on 32-bit, the
 * report is off by one. The count is kept for 1 us per member: each member of a
 * dump asks for it, and a dump must not count N times.
 *
 * Context: RTNL held.
 * Return: the number; 0 if @m is in no group.
 */
u32 rate_group_qdisc_active(const struct rate_group_qdisc *m, u64 now)
{
	struct rate_group_pool *pool = m->pool;
	const struct rate_group_qdisc *other;

	ASSERT_RTNL();

	if (!pool)
		return 0;

	if (now - pool->counted_at <= pool->users * NSEC_PER_USEC)
		return pool->active;

	pool->counted_at = now;
	pool->active = 0;
	hlist_for_each_entry(other, &pool->members, node)
		pool->active += READ_ONCE(other->sch->q.qlen) ||
				rate_group_recent(other->member, now);

	return pool->active;
}
EXPORT_SYMBOL_NS_GPL(rate_group_qdisc_active, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("Qdiscs of several kinds that share a rate");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

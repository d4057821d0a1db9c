// SPDX-License-Identifier: GPL-2.0-only
/* State shared by the children of a multiqueue qdisc */

#include <linux/align.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/list.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/overflow.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/sch_generic.h>
#include <net/sch_priv.h>

/**
 * DOC: shared qdisc state
 *
 * The children of a multiqueue qdisc such as mq run under locks of their own.
 * What they have in common, for example one rate for the whole device, they
 * keep in a block: a piece of memory that belongs to their parent.
 *
 * A parent has one block for each kind of child, or for several kinds that have
 * a key in common. It is allocated for the first such child and freed when the
 * last has left.
 *
 * A parent that lets its children share keeps the list of its blocks in its
 * private data, and has an operation shared_blocks() in its class operations,
 * which returns the list. Below any other qdisc nothing is shared.
 *
 * A child takes part if its &struct Qdisc_ops have:
 *
 * shared_size
 *	The size of the block in bytes. The block is zeroed and starts at a
 *	cache line.
 *
 * shared_key
 *	Optional. Kinds with the same key share one block: give them the same
 *	size. The key is an address, and nothing is read there.
 *
 * shared_check(sch, old, shared, extack)
 *	Optional. May refuse that @sch is attached in place of @old: returns a
 *	negative errno then, with @extack set. @old may be NULL. Must not change
 *	anything that others can see. @shared is the block; NULL if the parent
 *	shares nothing, or if @sch is to become the root.
 *
 * shared_assign(sch, shared)
 *	@sch joins: it is attached to its queue, but sends no packets yet.
 *	Cannot fail.
 *
 * shared_detach(sch, shared)
 *	@sch leaves: it is off its queue, and sends no more packets. Siblings
 *	may be sending: the parent need not stop them. @sch is freed after a
 *	grace period. The block may be freed at once. @sch may be attached and
 *	assigned again.
 *
 * shared_queues(sch, queues)
 *	Optional. The device is going to use @queues TX queues, as after
 *	ethtool -L. @sch has joined. Returns true if @sch shares a limit with
 *	siblings. The core then warns if a TX queue comes into use that still
 *	has the default qdisc: once, and again only after another child has
 *	joined.
 *
 * All of them are called in process context under RTNL, never under a qdisc
 * lock. They must not rely on the netdev instance lock: a filter request that
 * drops the last reference to a qdisc holds RTNL alone.
 *
 * A child of such a kind joins if it was attached by a request. A child that
 * its parent creates joins only if the parent calls qdisc_shared_prepare() for
 * it. A child that has joined need not use the block: that may depend on an
 * option of the child, which can be changed later.
 */

struct qdisc_shared_block {
	struct hlist_node	node;	/* on the parent's list */
	const void		*key;	/* of the children */
	unsigned int		size;	/* of @data, bytes */
	unsigned int		users;	/* prepared or joined */
	bool			warned;	/* since the last one joined */
	u8			data[] ____cacheline_aligned;
};

/* The list of blocks of a parent; NULL if its children share nothing */
static struct hlist_head *qdisc_shared_blocks(struct Qdisc *parent)
{
	const struct Qdisc_class_ops *cops;

	cops = parent ? parent->ops->cl_ops : NULL;
	return cops && cops->shared_blocks ? cops->shared_blocks(parent) : NULL;
}

static struct qdisc_shared_block *
qdisc_shared_get(struct hlist_head *blocks,
		 const struct Qdisc_ops *ops, struct netlink_ext_ack *extack)
{
	const void *key = ops->shared_key ?: ops;
	struct qdisc_shared_block *block;

	hlist_for_each_entry(block, blocks, node)
		if (block->key == key && block->size == ops->shared_size)
			goto found;

	/* kmalloc() aligns to the largest power of two that divides the size.
	 * The memory cgroup of the user who asked for it pays, as for a filter.
	 */
	block = kvzalloc(ALIGN(struct_size(block, data, ops->shared_size),
			       SMP_CACHE_BYTES),
			 GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!block) {
		NL_SET_ERR_MSG(extack,
			       "No memory for state shared with sibling qdiscs; free some and retry");
		return NULL;
	}
	block->key = key;
	block->size = ops->shared_size;
	hlist_add_head(&block->node, blocks);
found:
	block->users++;
	return block;
}

/**
 * qdisc_shared_prepare - do what can fail before a qdisc joins a block
 * @parent: the qdisc that @child is about to be attached to; NULL at the root
 * @child: the qdisc that is going to join; may be NULL
 * @old: the qdisc that it replaces; may be NULL
 * @extack: netlink extended ack, set on error
 *
 * qdisc_graft() calls this before it changes anything. A parent that creates
 * its children in ->init(), and wants them to share, calls it there for each.
 * dev_graft_qdisc() then lets @child join. If @child is not attached after all,
 * destroying it undoes the preparation; the core may use qdisc_shared_leave().
 *
 * Context: process context, RTNL held.
 * Return: 0, also if @child does not share; -ENOMEM, or what ->shared_check()
 * returned, with @extack set and nothing changed.
 */
int qdisc_shared_prepare(struct Qdisc *parent, struct Qdisc *child,
			 struct Qdisc *old, struct netlink_ext_ack *extack)
{
	struct hlist_head *blocks = qdisc_shared_blocks(parent);
	const struct Qdisc_ops *ops;
	int err;

	ASSERT_RTNL();

	if (!child || !child->ops->shared_size || child->shared)
		return 0;

	ops = child->ops;
	if (blocks) {
		child->shared = qdisc_shared_get(blocks, ops, extack);
		if (!child->shared)
			return -ENOMEM;
	}
	if (!ops->shared_check)
		return 0;

	err = ops->shared_check(child, old,
				child->shared ? child->shared->data : NULL,
				extack);
	if (err)
		qdisc_shared_leave(child);

	return err;
}
EXPORT_SYMBOL_NS_GPL(qdisc_shared_prepare, "NET_SCHED_INTERNAL");

/**
 * qdisc_shared_graft - let a new child join and the one it replaces leave
 * @new: the qdisc that was attached to a queue
 * @old: the qdisc that was there before
 *
 * Part of dev_graft_qdisc(). @new joins before @old leaves. So a group of which
 * @old was the only member lives on if @new joins it.
 *
 * Context: process context, RTNL held, @new not yet receiving packets.
 */
void qdisc_shared_graft(struct Qdisc *new, struct Qdisc *old)
{
	if (new == old)
		return;

	if (new->shared && !new->shared_joined) {
		ASSERT_RTNL();
		new->shared_joined = true;
		new->shared->warned = false;
		new->ops->shared_assign(new, new->shared->data);
	}
	qdisc_shared_leave(old);
}

/**
 * qdisc_shared_leave - take a qdisc out of its block
 * @child: the qdisc; nothing is done if it is in no block
 *
 * Called when @child is taken off its queue, and again before it is reset and
 * destroyed. A qdisc that was never attached leaves at the second call.
 *
 * Context: process context, RTNL held if @child is in a block.
 */
void qdisc_shared_leave(struct Qdisc *child)
{
	struct qdisc_shared_block *block = child->shared;

	if (!block)
		return;

	ASSERT_RTNL();

	if (child->shared_joined)
		child->ops->shared_detach(child, block->data);
	child->shared_joined = false;
	child->shared = NULL;

	if (!--block->users) {
		hlist_del_init(&block->node);
		kvfree(block);
	}
}

/* Is a child part of a limit that siblings share? */
static bool qdisc_shared_limits(struct Qdisc *child, unsigned int queues)
{
	return child->shared_joined && child->ops->shared_queues &&
	       child->ops->shared_queues(child, queues);
}

/**
 * qdisc_shared_used - tell children how many TX queues will be in use
 * @parent: the root of the device
 * @from: how many it uses
 * @to: how many it is going to use
 *
 * Warns if a queue that comes into use has the default qdisc, and so no limit,
 * where others have one together. A qdisc that somebody has put there may have
 * a limit of its own, or none on purpose. After its qdisc was deleted, a queue
 * has a builtin one, which sends nothing. Below mqprio, no packet is for a
 * queue without a traffic class.
 *
 * Context: process context, RTNL held.
 */
void qdisc_shared_used(struct Qdisc *parent, unsigned int from, unsigned int to)
{
	struct hlist_head *blocks = qdisc_shared_blocks(parent);
	struct net_device *dev = qdisc_dev(parent);
	struct Qdisc *child, *limited = NULL;
	unsigned int i, open = to;

	ASSERT_RTNL();

	if (from == to || !blocks || hlist_empty(blocks))
		return;

	for (i = dev->num_tx_queues; i--;) {
		child = rtnl_dereference(dev->_tx[i].qdisc_sleeping);
		if (qdisc_shared_limits(child, to))
			limited = child;
		else if (!child->handle && !(child->flags & TCQ_F_BUILTIN) &&
			 netdev_txq_to_tc(dev, i) >= 0 && i >= from && i < to)
			open = i;
	}
	if (!limited || open == to || limited->shared->warned ||
	    !net_ratelimit())
		return;

	netdev_warn(dev,
		    "TX queue %u is not limited, as it has no shared %s: add one below class :%x\n",
		    open, limited->ops->id, open + 1);
	limited->shared->warned = true;
}

/**
 * qdisc_shared_orphan - separate a parent from its blocks
 * @parent: the qdisc, which is being destroyed
 *
 * The parent may be destroyed before its children, as when mq replaces mq, or
 * while a filter request still holds one. The children leave later, on their
 * own. Until then they keep the block, and nobody else can join it. The queues
 * of the device are not looked at: they may have the children of another root
 * by now.
 *
 * Context: process context, RTNL held.
 */
void qdisc_shared_orphan(struct Qdisc *parent)
{
	struct hlist_head *blocks = qdisc_shared_blocks(parent);

	while (blocks && !hlist_empty(blocks))
		hlist_del_init(blocks->first);
}

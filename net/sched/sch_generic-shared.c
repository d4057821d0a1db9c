// SPDX-License-Identifier: GPL-2.0-only
/* State shared by sibling qdiscs */

#include <linux/align.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/list.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/sch_generic.h>
#include <net/sch_priv.h>

/**
 * DOC: shared qdisc state
 *
 * A multiqueue parent such as mq has one child per TX queue, each under a lock
 * of its own. Children of one kind that have something in common, for example
 * one rate for the whole device, keep it in a block: one per (parent, kind),
 * allocated for the first child of that kind and freed after the last has left.
 *
 * A kind takes part by setting these members of &struct Qdisc_ops. All of them
 * are called in process context under RTNL, never under a qdisc lock. Do not
 * rely on the netdev instance lock: the last reference to a qdisc may be
 * dropped by a filter request, which takes RTNL alone.
 *
 * shared_size
 *	Size of the block in bytes, 0 if the kind shares nothing. The block is
 *	zeroed and aligned to a cache line.
 *
 * shared_init(shared, parent, extack)
 *	Optional. Initialises a new block, once, before the first child joins.
 *	A negative errno, with @extack set, refuses that child and frees the
 *	block.
 *
 * shared_exit(shared)
 *	Optional. Pairs with shared_init: called once, after the last child has
 *	left, or none has come after all, and while that child still holds its
 *	module. Must not free what a reader under RCU may still reach; the block
 *	itself stays valid for another grace period.
 *
 * shared_check(sch, parent, shared, extack)
 *	Optional. May refuse the graft with a negative errno and @extack set;
 *	must not change anything. @shared is NULL if @parent shares no state,
 *	@parent is NULL if @sch is to become the root.
 *
 * shared_assign(sch, shared)
 *	Required. @sch joins; cannot fail. @sch is attached to its queue, and
 *	the device is deactivated: no packets until all of the graft is done.
 *
 * shared_detach(sch, shared)
 *	Required. @sch leaves. When this returns, control paths must not touch
 *	the block any more; enqueue and dequeue may, in sections that began
 *	before, until a grace period has passed. Reset and destroy follow, but
 *	not at once if somebody holds a reference: until then @sch may be
 *	dumped, changed, and even attached and assigned again, though not while
 *	such a section goes on. Siblings may be sending.
 *
 * Every child whose kind sets shared_size joins the block of its parent.
 * Whether it makes use of it is its own matter, so an option that decides on
 * this can be changed later without an allocation.
 */

/* Freed when its last link goes. */
struct qdisc_shared_block {
	struct hlist_node	node;	/* on the parent's list */
	struct list_head	links;
	const struct Qdisc_ops	*ops;	/* the kind, and the key */
	struct rcu_head		rcu;
	u8			data[] ____cacheline_aligned;
};

/* Ties a child to its block from qdisc_shared_prepare() to
 * qdisc_shared_leave().
 */
struct qdisc_shared_link {
	struct list_head		node;	/* on block->links */
	struct qdisc_shared_block	*block;
	struct Qdisc			*sch;
	bool				joined;	/* assign was called */
};

bool qdisc_shared_ops_valid(const struct Qdisc_ops *ops)
{
	if (ops->shared_size)
		return ops->shared_assign && ops->shared_detach;

	return !ops->shared_init && !ops->shared_exit && !ops->shared_check &&
	       !ops->shared_assign && !ops->shared_detach;
}

/**
 * qdisc_shared_check_parent - may this qdisc go below a parent that shares none
 * @parent: the parent that @child is about to be attached to; NULL at the root
 * @child: the qdisc
 * @extack: netlink extended ack, set on error
 *
 * A parent that does share state has its ->graft() ask @child instead, see
 * qdisc_shared_prepare().
 *
 * Context: process context, RTNL held.
 * Return: 0, or what the ->shared_check() of the kind of @child returned.
 */
int qdisc_shared_check_parent(struct Qdisc *parent, struct Qdisc *child,
			      struct netlink_ext_ack *extack)
{
	ASSERT_RTNL();

	if (parent && parent->ops->cl_ops &&
	    parent->ops->cl_ops->flags & QDISC_CLASS_OPS_SHARED)
		return 0;
	if (!child->ops->shared_check)
		return 0;

	return child->ops->shared_check(child, parent, NULL, extack);
}

/* The key is the ops pointer, not ops->owner: all built-in kinds have the same
 * owner, NULL, and one module may register several kinds.
 */
static struct qdisc_shared_block *
qdisc_shared_find(struct hlist_head *blocks, const struct Qdisc_ops *ops)
{
	struct qdisc_shared_block *block;

	hlist_for_each_entry(block, blocks, node)
		if (block->ops == ops)
			return block;

	return NULL;
}

static struct qdisc_shared_block *
qdisc_shared_create(struct hlist_head *blocks, struct Qdisc *parent,
		    const struct Qdisc_ops *ops, struct netlink_ext_ack *extack)
{
	struct qdisc_shared_block *block;
	size_t size;
	int err;

	/* kmalloc() aligns to the largest power of two that divides the size */
	size = ALIGN(struct_size(block, data, ops->shared_size),
		     SMP_CACHE_BYTES);
	block = kzalloc(size, GFP_KERNEL | __GFP_NOWARN);
	if (!block) {
		NL_SET_ERR_MSG(extack,
			       "No memory for the state that qdiscs of this kind share; free some and retry");
		return ERR_PTR(-ENOMEM);
	}

	INIT_LIST_HEAD(&block->links);
	block->ops = ops;

	if (ops->shared_init) {
		err = ops->shared_init(block->data, parent, extack);
		if (err) {
			kfree(block);
			return ERR_PTR(err);
		}
	}

	hlist_add_head(&block->node, blocks);
	return block;
}

static void qdisc_shared_free_unused(struct qdisc_shared_block *block)
{
	if (!list_empty(&block->links))
		return;

	hlist_del(&block->node);
	if (block->ops->shared_exit)
		block->ops->shared_exit(block->data);

	/* Members that left may still be read under RCU. No callback into the
	 * module, which may be gone by the time this runs.
	 */
	kfree_rcu(block, rcu);
}

/**
 * qdisc_shared_prepare - do all of joining a block that can fail
 * @blocks: the parent's list of blocks, zeroed before first use
 * @parent: the parent that @child is about to be attached to
 * @child: the qdisc that will join; may be NULL
 * @extack: netlink extended ack, set on error
 *
 * Finds or creates the parent's block for the kind of @child, and asks @child
 * whether it accepts. Nothing that a sibling or a packet could see happens.
 *
 * A parent calls this for each default child in ->init(), and in its graft
 * operation before dev_deactivate(). qdisc_shared_graft() completes the join;
 * if that is never reached, destroying @child undoes the preparation. Does
 * nothing if @child takes no part in sharing or is prepared already.
 *
 * Context: process context, RTNL held.
 * Return: 0, or a negative errno with @extack set and nothing changed:
 * -ENOMEM, -EBUSY if @child belongs to another parent, or what ->shared_init()
 * or ->shared_check() of its kind returned.
 */
int qdisc_shared_prepare(struct hlist_head *blocks, struct Qdisc *parent,
			 struct Qdisc *child, struct netlink_ext_ack *extack)
{
	struct qdisc_shared_block *block;
	struct qdisc_shared_link *link;
	const struct Qdisc_ops *ops;
	int err = 0;

	ASSERT_RTNL();

	if (!child || !child->ops->shared_size)
		return 0;

	ops = child->ops;
	block = qdisc_shared_find(blocks, ops);

	if (child->shared) {
		if (child->shared->block == block)
			return 0;
		/* The old parent lives on, by somebody's reference, under the
		 * handle that a new one has got.
		 */
		NL_SET_ERR_MSG(extack,
			       "Qdisc still shares state below another parent; create a new one instead");
		return -EBUSY;
	}

	link = kzalloc_obj(*link);
	if (!link) {
		NL_SET_ERR_MSG(extack,
			       "No memory to join the shared state of sibling qdiscs; free some and retry");
		return -ENOMEM;
	}

	if (!block) {
		block = qdisc_shared_create(blocks, parent, ops, extack);
		if (IS_ERR(block)) {
			kfree(link);
			return PTR_ERR(block);
		}
	}

	if (ops->shared_check)
		err = ops->shared_check(child, parent, block->data, extack);
	if (err) {
		kfree(link);
		qdisc_shared_free_unused(block);
		return err;
	}

	link->block = block;
	link->sch = child;
	list_add_tail(&link->node, &block->links);
	child->shared = link;
	return 0;
}
EXPORT_SYMBOL_NS_GPL(qdisc_shared_prepare, "NET_SCHED_INTERNAL");

/**
 * qdisc_shared_graft - let a new child join and the one it replaces leave
 * @new: the qdisc that was attached, prepared if it is to share; may be NULL
 * @old: the qdisc that it replaces; may be NULL or @new itself
 *
 * A parent calls this for each child between dev_graft_qdisc() and
 * dev_activate(). @new joins before @old leaves, so that a block survives the
 * replacement of its only member by one of the same kind.
 *
 * Context: process context, RTNL held, @new not yet receiving packets.
 */
void qdisc_shared_graft(struct Qdisc *new, struct Qdisc *old)
{
	struct qdisc_shared_link *link;

	ASSERT_RTNL();

	link = new ? new->shared : NULL;
	if (link && !link->joined) {
		link->joined = true;
		new->ops->shared_assign(new, link->block->data);
	}

	if (old && old != new)
		qdisc_shared_leave(old);
}
EXPORT_SYMBOL_NS_GPL(qdisc_shared_graft, "NET_SCHED_INTERNAL");

/**
 * qdisc_shared_leave - take a qdisc out of its block
 * @child: the qdisc; does nothing if it is in no block
 *
 * Called when @child is taken off its queue, and once more when it is
 * destroyed, before it is reset: a qdisc that was prepared but never attached,
 * or whose device goes away, leaves there. The last to leave frees the block.
 *
 * Context: process context, RTNL held if @child is in a block.
 */
void qdisc_shared_leave(struct Qdisc *child)
{
	struct qdisc_shared_link *link = child->shared;
	struct qdisc_shared_block *block;

	if (!link)
		return;

	ASSERT_RTNL();

	block = link->block;
	if (link->joined)
		child->ops->shared_detach(child, block->data);

	child->shared = NULL;
	list_del(&link->node);
	kfree(link);
	qdisc_shared_free_unused(block);
}

/**
 * qdisc_shared_destroy - end all sharing below a parent
 * @blocks: the parent's list of blocks; may be all zero
 *
 * A parent calls this from its destroy operation, which may run before its
 * children are destroyed (mq replaced by mq), after that (mq replaced by
 * something else), or without any having been attached (failed ->init()).
 * Takes out the members it finds in the blocks. It never looks at the queues
 * of the device: they may hold the children of another root by now.
 *
 * Context: process context, RTNL held.
 */
void qdisc_shared_destroy(struct hlist_head *blocks)
{
	struct qdisc_shared_block *block;
	struct qdisc_shared_link *link;

	ASSERT_RTNL();

	while (!hlist_empty(blocks)) {
		block = hlist_entry(blocks->first, struct qdisc_shared_block,
				    node);
		link = list_first_entry(&block->links,
					struct qdisc_shared_link, node);
		qdisc_shared_leave(link->sch);
	}
}
EXPORT_SYMBOL_NS_GPL(qdisc_shared_destroy, "NET_SCHED_INTERNAL");

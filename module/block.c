// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the core of a patched kernel does for state shared by sibling qdiscs
 * (net/sched/sch_generic-shared.c), for one kind of child: the cakes of a
 * cake_mq. They are created with it, cannot be replaced, and leave when they
 * are destroyed. Everything is done with RTNL held.
 */
#include <linux/list.h>
#include <net/sch_priv.h>

/* A parent that is gone may leave its address in a block: nothing can keep a
 * child of a cake_mq beyond the request that destroys its parent, so nobody
 * looks for it.
 */
struct local_block {
	struct list_head	list;
	const struct Qdisc	*parent;
	unsigned int		users;
	u8			data[] ____cacheline_aligned;
};

struct local_child {
	struct list_head	list;
	struct Qdisc		*sch;
	struct local_block	*block;
	bool			joined;
};

static LIST_HEAD(blocks);
static LIST_HEAD(children);

/* Of cake: as they were before local_register() put its own in place */
static struct qdisc_ops_shared kind;

static struct local_block *local_get(const struct Qdisc *parent)
{
	struct local_block *block;

	list_for_each_entry(block, &blocks, list)
		if (block->parent == parent)
			goto found;

	block = kvzalloc(ALIGN(struct_size(block, data, kind.shared_size),
			       SMP_CACHE_BYTES), GFP_KERNEL_ACCOUNT);
	if (!block)
		return NULL;

	block->parent = parent;
	list_add(&block->list, &blocks);
found:
	block->users++;
	return block;
}

static void local_put(struct local_block *block)
{
	if (--block->users)
		return;

	list_del(&block->list);
	kvfree(block);
}

static struct local_child *local_find(const struct Qdisc *sch)
{
	struct local_child *child;

	list_for_each_entry(child, &children, list)
		if (child->sch == sch)
			return child;

	return NULL;
}

int qdisc_shared_prepare(struct Qdisc *parent, struct Qdisc *sch,
			 struct Qdisc *old, struct netlink_ext_ack *extack)
{
	struct local_child *child;
	int err;

	ASSERT_RTNL();

	child = kzalloc(sizeof(*child), GFP_KERNEL);
	if (child)
		child->block = local_get(parent);
	if (!child || !child->block) {
		NL_SET_ERR_MSG(extack,
			       "No memory for state shared with sibling qdiscs; free some and retry");
		kfree(child);
		return -ENOMEM;
	}
	child->sch = sch;
	list_add(&child->list, &children);

	err = kind.shared_check(sch, old, child->block->data, extack);
	if (err)
		qdisc_shared_leave(sch);

	return err;
}

void qdisc_shared_leave(struct Qdisc *sch)
{
	struct local_child *child;

	ASSERT_RTNL();

	child = local_find(sch);
	if (!child)
		return;

	if (child->joined)
		kind.shared_detach(sch, child->block->data);
	list_del(&child->list);
	local_put(child->block);
	kfree(child);
}

/* Called by mq_attach() instead of dev_graft_qdisc() */
struct Qdisc *local_graft(struct netdev_queue *queue, struct Qdisc *new)
{
	struct Qdisc *old = dev_graft_qdisc(queue, new);
	struct local_child *child = local_find(new);

	if (child && !child->joined) {
		child->joined = true;
		kind.shared_assign(new, child->block->data);
	}

	return old;
}

/* Of a cake in a group that was changed through another: a child of cake_mq
 * cannot be changed
 */
void qdisc_notify_change(struct Qdisc *sch)
{
}

static int local_refuse(struct nlattr *opt, struct netlink_ext_ack *extack)
{
	const struct nlattr *shared;

	shared = opt ? nla_find_nested(opt, TCA_CAKE_SHARED) : NULL;
	if (!shared || nla_len(shared) < sizeof(u32) || !nla_get_u32(shared))
		return 0;

	NL_SET_ERR_MSG_ATTR(extack, shared,
			    "shared needs a patched kernel; with this module use cake_mq");
	return -EOPNOTSUPP;
}

static int local_init(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack)
{
	/* In this order: a failed init is followed by destroy */
	return kind.init(sch, opt, extack) ?: local_refuse(opt, extack);
}

static int local_change(struct Qdisc *sch, struct nlattr *opt,
			struct netlink_ext_ack *extack)
{
	return local_refuse(opt, extack) ?: kind.change(sch, opt, extack);
}

static void local_destroy(struct Qdisc *sch)
{
	qdisc_shared_leave(sch);
	kind.destroy(sch);
}

int local_register(struct qdisc_ops_shared *ops)
{
	if (ops->shared_size) {
		kind = *ops;
		ops->init = local_init;
		ops->change = local_change;
		ops->destroy = local_destroy;
	}

	return register_qdisc((struct Qdisc_ops *)ops);
}

/* DKMS does not replace a module by one of the same version, or of none */
MODULE_VERSION(CAKE_MQ_VERSION);

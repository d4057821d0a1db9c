// SPDX-License-Identifier: GPL-2.0
/* Mistakes for the semantic patch to find. A line with one ends with a comment
 * that says what must be reported there.
 */

/* Operations that do not go together */

static struct Qdisc_ops no_assign_ops __read_mostly = { /* no_assign_ops has shared_size, but no shared_assign */
	.id		= "no_assign",
	.shared_size	= sizeof(struct block),
	.shared_detach	= fine_detach,
	.owner		= THIS_MODULE,
};

struct Qdisc_ops no_detach_ops = { /* no_detach_ops has shared_size, but no shared_detach */
	.shared_size	= sizeof(struct block),
	.shared_assign	= fine_assign,
};

static struct Qdisc_ops no_size_ops __read_mostly = { /* no_size_ops has operations for sharing, but no shared_size */
	.id		= "no_size",
	.shared_assign	= fine_assign,
	.shared_detach	= fine_detach,
};

static struct Qdisc_ops only_init_ops __read_mostly = { /* only_init_ops has operations for sharing, but no shared_size */
	.id		= "only_init",
	.shared_init	= fine_init,
};

/* A detach operation that forgets to forget */

static void kept_assign(struct Qdisc *sch, void *shared)
{
	struct kept_sched *q = qdisc_priv(sch);

	q->kept_block = shared;
}

static void kept_detach(struct Qdisc *sch, void *shared) /* kept_detach leaves a pointer to the block behind */
{
	struct kept_sched *q = qdisc_priv(sch);

	list_del(&q->node);
}

static struct Qdisc_ops kept_ops __read_mostly = {
	.shared_size	= sizeof(struct block),
	.shared_assign	= kept_assign,
	.shared_detach	= kept_detach,
};

/* One that sometimes does, and a pointer under RCU */

static void some_assign(struct Qdisc *sch, void *block)
{
	struct some_sched *q = qdisc_priv(sch);
	struct some_shared *shared = block;

	list_add_tail_rcu(&q->node, &shared->members);
	rcu_assign_pointer(q->some_block, shared);
}

static void some_detach(struct Qdisc *sch, void *block) /* some_detach leaves a pointer to the block behind */
{
	struct some_sched *q = qdisc_priv(sch);

	if (!q->group)
		return;
	list_del_rcu(&q->node);
	RCU_INIT_POINTER(q->some_block, NULL);
}

static struct Qdisc_ops some_ops __read_mostly = {
	.shared_size	= sizeof(struct some_shared),
	.shared_assign	= some_assign,
	.shared_detach	= some_detach,
};

/* Uses after that, directly and by a copy */

static void late_assign(struct Qdisc *sch, void *shared)
{
	struct late_sched *q = qdisc_priv(sch);

	q->late_block = shared;
}

static void late_detach(struct Qdisc *sch, void *shared)
{
	struct late_sched *q = qdisc_priv(sch);

	q->late_block = NULL;
	q->late_block->members--; /* late_block is used after it was cleared */
}

static void late_destroy(struct Qdisc *sch)
{
	struct late_sched *q = qdisc_priv(sch);
	struct late_shared *shared = q->late_block;

	late_detach(sch, shared);
	shared->members--; /* shared is used after its block was left */
}

static struct Qdisc_ops late_ops __read_mostly = {
	.destroy	= late_destroy,
	.shared_size	= sizeof(struct late_shared),
	.shared_assign	= late_assign,
	.shared_detach	= late_detach,
};

static void late_rcu(struct some_sched *q)
{
	struct some_shared *shared;

	rcu_assign_pointer(q->some_block, NULL);
	shared = rtnl_dereference(q->some_block); /* some_block is used after it was cleared */
	shared->members = 0;
}

static void late_parent(struct Qdisc *child)
{
	struct some_sched *q = qdisc_priv(child);
	struct some_shared *shared;

	shared = rtnl_dereference(q->some_block);
	qdisc_shared_leave(child);
	if (shared->count) /* shared is used after its block was left */
		q->count = 0;
}

/* Private data of a qdisc that may be of any kind */

static unsigned int cast_siblings(struct Qdisc *sch)
{
	struct net_device *dev = qdisc_dev(sch);
	unsigned int i, active = 0;

	for (i = 0; i < dev->num_tx_queues; i++) {
		struct Qdisc *other = rcu_dereference(netdev_get_tx_queue(dev, i)->qdisc_sleeping);
		struct cast_sched *priv = qdisc_priv(other); /* private data of other is used, which may be of any kind */

		active += !!priv->active;
	}
	return active;
}

static u64 cast_queue(struct netdev_queue *txq)
{
	struct cast_sched *priv;
	struct Qdisc *other;

	other = rcu_dereference_bh(txq->qdisc);
	priv = qdisc_priv(other); /* private data of other is used, which may be of any kind */
	return READ_ONCE(priv->rate);
}

static u64 cast_parent(struct Qdisc *sch)
{
	struct Qdisc *parent = qdisc_lookup(qdisc_dev(sch), TC_H_MAJ(sch->parent));
	struct cast_sched *priv = qdisc_priv(parent); /* private data of parent is used, which may be of any kind */

	return priv->rate;
}

/* A parent that lets its children be replaced does not know them */
static int cast_child_change(struct Qdisc *sch, struct nlattr *opt,
			     struct netlink_ext_ack *extack)
{
	struct Qdisc *child = rtnl_dereference(netdev_get_tx_queue(qdisc_dev(sch), 0)->qdisc_sleeping);
	struct cast_sched *priv = qdisc_priv(child); /* private data of child is used, which may be of any kind */

	priv->active = true;
	return 0;
}

static int cast_child_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
			    struct Qdisc **old, struct netlink_ext_ack *extack)
{
	if (!cl)
		return -EINVAL;
	*old = dev_graft_qdisc(cast_child_queue(sch, cl), new);
	return 0;
}

static const struct Qdisc_class_ops cast_child_class_ops = {
	.graft		= cast_child_graft,
};

static struct Qdisc_ops cast_child_ops __read_mostly = {
	.cl_ops		= &cast_child_class_ops,
	.attach		= cast_child_attach,
	.change		= cast_child_change,
};

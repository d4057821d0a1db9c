// SPDX-License-Identifier: GPL-2.0
/* What the semantic patch must not report */

static void fine_assign(struct Qdisc *sch, void *block)
{
	struct fine_sched *q = qdisc_priv(sch);
	struct fine_shared *shared = block;

	list_add_tail_rcu(&q->node, &shared->members);
	rcu_assign_pointer(q->shared, shared);
}

/* The block is there until this returns */
static void fine_detach(struct Qdisc *sch, void *block)
{
	struct fine_sched *q = qdisc_priv(sch);
	struct fine_shared *shared = block;

	RCU_INIT_POINTER(q->shared, NULL);
	list_del_rcu(&q->node);
	shared->count--;
}

static struct Qdisc_ops fine_ops __read_mostly = {
	.id		= "fine",
	.shared_size	= sizeof(struct fine_shared),
	.shared_init	= fine_init,
	.shared_assign	= fine_assign,
	.shared_detach	= fine_detach,
	.owner		= THIS_MODULE,
};

static struct Qdisc_ops alone_ops __read_mostly = {
	.id		= "alone",
	.destroy	= fine_destroy,
};

/* Not cleared on this path, or set again */
static void fine_change(struct fine_sched *q, struct fine_shared *other)
{
	struct fine_shared *shared = rtnl_dereference(q->shared);

	if (!other) {
		RCU_INIT_POINTER(q->shared, NULL);
		return;
	}
	shared->count++;
	RCU_INIT_POINTER(q->shared, NULL);
	rcu_assign_pointer(q->shared, other);
	shared = rtnl_dereference(q->shared);
	shared->count--;
}

static void fine_leave(struct Qdisc *child, struct fine_shared *other)
{
	struct fine_sched *q = qdisc_priv(child);
	struct fine_shared *shared;

	shared = rtnl_dereference(q->shared);
	shared->count--;
	qdisc_shared_leave(child);
	shared = other;
	shared->count++;
}

/* Kinds that are known */
static unsigned int fine_walk(struct net_device *dev)
{
	unsigned int i, active = 0;

	for (i = 0; i < dev->num_tx_queues; i++) {
		struct Qdisc *other = rtnl_dereference(netdev_get_tx_queue(dev, i)->qdisc_sleeping);
		struct fine_sched *priv = qdisc_priv(other);

		if (other->ops != &fine_ops)
			continue;
		active += !!priv->active;
	}
	return active;
}

static unsigned int fine_members(struct fine_shared *shared)
{
	unsigned int active = 0;
	struct fine_sched *q;

	list_for_each_entry_rcu(q, &shared->members, node)
		active += !!READ_ONCE(q->active);
	return active;
}

static int fine_queued(struct netdev_queue *txq)
{
	struct Qdisc *other = rcu_dereference_bh(txq->qdisc);

	return READ_ONCE(other->q.qlen);
}

/* A parent that keeps its children knows them */
static int fine_parent_change(struct Qdisc *sch, struct nlattr *opt,
			      struct netlink_ext_ack *extack)
{
	struct Qdisc *child = rtnl_dereference(netdev_get_tx_queue(qdisc_dev(sch), 0)->qdisc_sleeping);
	struct fine_sched *q = qdisc_priv(child);

	q->active = true;
	return 0;
}

static int fine_parent_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
			     struct Qdisc **old, struct netlink_ext_ack *extack)
{
	NL_SET_ERR_MSG(extack, "no");
	return -EOPNOTSUPP;
}

static const struct Qdisc_class_ops fine_parent_class_ops = {
	.flags		= QDISC_CLASS_OPS_SHARED,
	.graft		= fine_parent_graft,
};

static struct Qdisc_ops fine_parent_ops __read_mostly = {
	.cl_ops		= &fine_parent_class_ops,
	.attach		= fine_parent_attach,
	.change		= fine_parent_change,
};

// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests for the state that sibling qdiscs share
 *
 * Every case has a device of its own, with two TX queues, and configures it by
 * the rtnetlink messages that tc would send. Qdiscs of kinds made for the test
 * write down what happens to them, and the cases compare this trace with what
 * should have happened:
 *
 *	A1 in		->shared_assign() of a qdisc of kind A for TX queue 1
 *	A1 out		->shared_detach()
 *	A1 reset	->reset(), which also is part of its end
 *	2 is open	the warning that TX queue 2 is not limited
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/kmsg_dump.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_priv.h>

#define SQT_QUEUES	2
#define SQT_DIRT	0xa5

/* A and B share state, P shares none, M is a parent like cake_mq */
#define SQT_A		"kunit_share_A"
#define SQT_B		"kunit_share_B"
#define SQT_P		"kunit_share_P"
#define SQT_M		"kunit_share_M"

struct sqt_block {
	unsigned int		members;
	u8			dirt[60];
};

struct sqt_priv {
	struct mq_sched		mq;	/* of kind M */
	struct sqt_block	*block;
};

/* Callbacks get no hint of the test, but one case runs at a time. */
static struct sqt {
	struct kunit		*test;
	struct net_device	*dev;
	struct socket		*sock;
	const struct Qdisc_ops	*children;	/* of a new M */
	int			init_err;	/* of a new M */
	struct Qdisc		*held;
	u32			root;		/* its handle */
	u32			handle;		/* the last that was given */
	int			kinds;		/* registered */
	struct Qdisc		*dequeued;	/* the last one */
	unsigned long		limited;	/* bit mask of queues */
	unsigned int		told;		/* queues in use */
	struct kmsg_dump_iter	kmsg;		/* the log so far */
	size_t			len;
	char			trace[256];
} sqt;

static void sqt_log(const struct Qdisc *sch, const char *event)
{
	sqt.len += scnprintf(sqt.trace + sqt.len, sizeof(sqt.trace) - sqt.len,
			     "%s%c%td %s", sqt.len ? ", " : "",
			     sch->ops->id[strlen("kunit_share_")],
			     sch->dev_queue - sqt.dev->_tx + 1, event);
	KUNIT_EXPECT_TRUE(sqt.test, rtnl_is_locked());
	/* Else never under a qdisc lock */
	if (strcmp(event, "reset"))
		KUNIT_EXPECT_FALSE(sqt.test, in_interrupt());
}

static void sqt_assign(struct Qdisc *sch, void *shared)
{
	size_t size = sch->ops->shared_size;
	struct netdev_queue *txq = sch->dev_queue;
	struct sqt_priv *priv = qdisc_priv(sch);
	struct kunit *test = sqt.test;

	sqt_log(sch, "in");
	KUNIT_EXPECT_NULL(test, priv->block);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED((uintptr_t)shared, SMP_CACHE_BYTES));
	priv->block = shared;
	if (priv->block->members - 1 >= SQT_QUEUES) {
		KUNIT_EXPECT_NULL(test, memchr_inv(shared, 0, size));
		memset(shared, SQT_DIRT, size);
		priv->block->members = 0;
	}
	priv->block->members++;

	/* Attached, but receiving nothing yet */
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(txq->qdisc_sleeping), sch);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(txq->qdisc), &noop_qdisc);
}

static void sqt_detach(struct Qdisc *sch, void *shared)
{
	struct netdev_queue *txq = sch->dev_queue;
	struct sqt_priv *priv = qdisc_priv(sch);

	sqt_log(sch, "out");
	KUNIT_EXPECT_PTR_EQ(sqt.test, priv->block, shared);
	KUNIT_EXPECT_PTR_NE(sqt.test, rcu_access_pointer(txq->qdisc), sch);
	priv->block->members--;
	priv->block = NULL;
}

static bool sqt_queues(struct Qdisc *sch, unsigned int queues)
{
	KUNIT_EXPECT_TRUE(sqt.test, rtnl_is_locked());
	sqt.told = queues;
	KUNIT_EXPECT_TRUE(sqt.test, sch->shared_joined);
	return test_bit(sch->dev_queue - sqt.dev->_tx + 1, &sqt.limited);
}

/* Put the warnings since the last time into the trace, or forget them */
static void sqt_read_log(bool keep)
{
	char line[256], *at;
	unsigned int queue;
	size_t len;

	while (kmsg_dump_get_line(&sqt.kmsg, false, line, sizeof(line) - 1,
				  &len)) {
		line[len] = '\0';
		at = strstr(line, "TX queue ");
		if (!keep || !at ||
		    sscanf(at, "TX queue %u is not limited,", &queue) != 1)
			continue;
		KUNIT_EXPECT_NOT_NULL(sqt.test,
				      strstr(line, "no shared " SQT_A ":"));
		sqt.len += scnprintf(sqt.trace + sqt.len,
				     sizeof(sqt.trace) - sqt.len,
				     "%s%u is open", sqt.len ? ", " : "",
				     queue + 1);
	}
}

static void sqt_reset(struct Qdisc *sch)
{
	sqt_log(sch, "reset");
}

static struct sk_buff *sqt_dequeue(struct Qdisc *sch)
{
	WRITE_ONCE(sqt.dequeued, sch);
	return NULL;
}

static int sqt_m_init(struct Qdisc *sch, struct nlattr *opt,
		      struct netlink_ext_ack *extack)
{
	struct sqt_priv *priv = qdisc_priv(sch);
	int i, err;

	err = mq_init_common(sch, opt, extack, sqt.children);
	/* Each twice, which is the same as once */
	for (i = 0; !err && i < 2 * SQT_QUEUES; i++)
		err = qdisc_shared_prepare(sch, priv->mq.qdiscs[i / 2], NULL,
					   extack);
	KUNIT_EXPECT_EQ(sqt.test, !!extack->_msg, !!err);
	return err ?: sqt.init_err;
}

static void sqt_m_destroy(struct Qdisc *sch)
{
	mq_destroy_common(sch);
	/* Whether its children have gone before it, or are still there */
	KUNIT_EXPECT_TRUE(sqt.test, hlist_empty(mq_shared_blocks(sch)));
}

static int sqt_m_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
		       struct Qdisc **old, struct netlink_ext_ack *extack)
{
	return -EOPNOTSUPP;
}

static struct Qdisc_class_ops sqt_m_class_ops = {
	.select_queue	= mq_select_queue,
	.graft		= sqt_m_graft,
	.leaf		= mq_leaf,
	.find		= mq_find,
	.walk		= mq_walk,
};

static struct Qdisc_ops sqt_ops[] = {
	{ .id = SQT_A },
	{ .id = SQT_B },
	{ .id = SQT_P },
	{
		.id		= SQT_M,
		.cl_ops		= &sqt_m_class_ops,
		.init		= sqt_m_init,
		.attach		= mq_attach,
		.destroy	= sqt_m_destroy,
	},
};

/* What happened since the last time */
static void sqt_expect(const char *what, const char *trace)
{
	KUNIT_EXPECT_STREQ_MSG(sqt.test, sqt.trace, trace, "%s", what);
	sqt.trace[0] = '\0';
	sqt.len = 0;
}

static int sqt_request(u32 parent, u32 handle, const char *kind)
{
	struct tc_mqprio_qopt mqprio = { .num_tc = 1, .count = { SQT_QUEUES } };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct msghdr from = {}, to = {
		.msg_name	= &kernel,
		.msg_namelen	= sizeof(kernel),
	};
	int err, flags = NLM_F_REQUEST | NLM_F_ACK;
	struct nlmsghdr *nlh;
	struct sk_buff *skb;
	struct kvec iov;

	if (kind)
		flags |= NLM_F_CREATE | NLM_F_REPLACE;
	skb = nlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(sqt.test, skb);
	nlh = nlmsg_put(skb, 0, 0, kind ? RTM_NEWQDISC : RTM_DELQDISC,
			sizeof(struct tcmsg), flags);
	*(struct tcmsg *)nlmsg_data(nlh) = (struct tcmsg) {
		.tcm_ifindex	= sqt.dev->ifindex,
		.tcm_parent	= parent,
		.tcm_handle	= handle,
	};
	if (kind) {
		nla_put_string(skb, TCA_KIND, kind);
		nla_put(skb, TCA_OPTIONS, sizeof(mqprio), &mqprio);
	}
	nlmsg_end(skb, nlh);

	/* The answer takes the place of the request */
	iov = (struct kvec) { skb->data, skb->len };
	kernel_sendmsg(sqt.sock, &to, &iov, 1, skb->len);
	kernel_recvmsg(sqt.sock, &from, &iov, 1, skb->len, MSG_DONTWAIT);
	KUNIT_EXPECT_EQ(sqt.test, nlh->nlmsg_type, NLMSG_ERROR);
	err = ((struct nlmsgerr *)nlmsg_data(nlh))->error;
	nlmsg_free(skb);
	return err;
}

/* Replace what is below a queue, or the root if @queue is 0; without a kind,
 * delete it. The handle is new, or it would be a change of the old qdisc.
 */
static void sqt_refuse(u32 queue, const char *kind, int want, const char *trace)
{
	u32 handle = kind ? sqt.handle += 0x10000 : 0;
	int err;

	err = sqt_request(queue ? sqt.root + queue : TC_H_ROOT, handle, kind);
	KUNIT_ASSERT_EQ_MSG(sqt.test, err, want, "%s", kind);
	sqt_expect(kind, trace);
	if (!queue && !err)
		sqt.root = handle;
}

static void sqt_add(u32 queue, const char *kind, const char *trace)
{
	sqt_refuse(queue, kind, 0, trace);
}

/* Below a queue, or the root. Nobody but the case changes what is there. */
static struct Qdisc *sqt_at(u32 queue)
{
	struct Qdisc *sch;

	rtnl_lock();
	sch = rtnl_dereference(sqt.dev->qdisc);
	if (queue)
		sch = rtnl_dereference(sqt.dev->_tx[queue - 1].qdisc_sleeping);
	rtnl_unlock();
	return sch;
}

static struct sqt_block *sqt_block(u32 queue)
{
	return ((struct sqt_priv *)qdisc_priv(sqt_at(queue)))->block;
}

static bool sqt_no_blocks(void)
{
	struct Qdisc *root = sqt_at(0);

	return !root->ops->cl_ops->shared_blocks ||
	       hlist_empty(root->ops->cl_ops->shared_blocks(root));
}

/* A reference as filter requests hold it while they run unlocked */
static void sqt_hold(u32 queue)
{
	sqt.held = sqt_at(queue);
	qdisc_refcount_inc(sqt.held);
}

static void sqt_bring_back(int want, const char *trace)
{
	int err = sqt_request(sqt.root + 1, sqt.held->handle, SQT_A);

	KUNIT_EXPECT_EQ(sqt.test, err, want);
	sqt_expect("bring back", trace);
}

/* 0: down */
static void sqt_set_queues(unsigned int n, const char *trace)
{
	sqt_read_log(false);
	rtnl_lock();
	if (n) {
		netif_set_real_num_tx_queues(sqt.dev, n);
		KUNIT_EXPECT_EQ(sqt.test, dev_open(sqt.dev, NULL), 0);
	} else {
		dev_close(sqt.dev);
	}
	rtnl_unlock();
	sqt_read_log(true);
	sqt_expect("queues", trace);
}

/* The device waits for who holds a qdisc of it, when RTNL is released */
static void sqt_remove(const char *trace)
{
	rtnl_lock();
	unregister_netdevice(sqt.dev);
	qdisc_put(sqt.held);
	rtnl_unlock();
	if (trace)
		sqt_expect("remove", trace);
	free_netdev(sqt.dev);
	sqt.dev = NULL;
}

static netdev_tx_t sqt_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops sqt_netdev_ops = {
	.ndo_start_xmit	= sqt_xmit,
};

static int sqt_init(struct kunit *test)
{
	struct Qdisc_ops *ops;
	int err;

	memset(&sqt, 0, sizeof(sqt));
	sqt.test = test;
	sqt.children = &sqt_ops[0];
	sqt_ops[0].shared_size = sizeof(struct sqt_block);
	sqt_ops[1].shared_size = sizeof(struct sqt_block);
	sqt_m_class_ops.shared_blocks = mq_shared_blocks;
	for (ops = sqt_ops; ops < sqt_ops + ARRAY_SIZE(sqt_ops); ops++) {
		ops->priv_size = sizeof(struct sqt_priv);
		ops->reset = sqt_reset;
		ops->dequeue = NULL;
		ops->shared_assign = sqt_assign;
		ops->shared_detach = sqt_detach;
		ops->shared_queues = NULL;
		ops->owner = THIS_MODULE;
		KUNIT_ASSERT_EQ(test, register_qdisc(ops), 0);
		sqt.kinds++;
	}
	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, PF_NETLINK, SOCK_RAW,
					       NETLINK_ROUTE, &sqt.sock), 0);
	sqt.dev = alloc_netdev_mqs(0, "kunit%d", NET_NAME_ENUM, ether_setup,
				   SQT_QUEUES, 1);
	KUNIT_ASSERT_NOT_NULL(test, sqt.dev);
	sqt.dev->netdev_ops = &sqt_netdev_ops;
	sqt.dev->flags |= IFF_NOARP;
	err = register_netdev(sqt.dev);
	if (err) {
		free_netdev(sqt.dev);
		sqt.dev = NULL;
	}
	KUNIT_ASSERT_EQ(test, err, 0);
	sqt_set_queues(2, "");
	sqt_add(0, "mq", "");
	return 0;
}

static void sqt_exit(struct kunit *test)
{
	if (sqt.dev)
		sqt_remove(NULL);
	if (sqt.sock)
		sock_release(sqt.sock);
	while (sqt.kinds)
		unregister_qdisc(&sqt_ops[--sqt.kinds]);
}

/* Cases */

static void sqt_test_register(struct kunit *test)
{
	static struct Qdisc_ops ops = { .id = "kunit_share_r" };
	int i, err;

	for (i = 0; i < 4; i++) {
		ops.shared_size = sizeof(struct sqt_block);
		ops.shared_assign = i & 1 ? sqt_assign : NULL;
		ops.shared_detach = i & 2 ? sqt_detach : NULL;
		err = register_qdisc(&ops);
		if (!err)
			unregister_qdisc(&ops);
		KUNIT_EXPECT_EQ(test, err, i == 3 ? 0 : -EINVAL);
	}
}

/* A block stays while it has members, also if the last one is replaced; what
 * comes after that is new, and clean
 */
static void sqt_test_blocks(struct kunit *test)
{
	struct sqt_block *block;

	sqt_add(1, SQT_A, "A1 in");
	block = sqt_block(1);
	sqt_add(1, SQT_A, "A1 in, A1 out, A1 reset");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(1), block);
	sqt_add(2, SQT_B, "B2 in");
	KUNIT_EXPECT_PTR_NE(test, sqt_block(2), block);
	sqt_add(2, SQT_A, "A2 in, B2 out, B2 reset");
	sqt_add(1, NULL, "A1 out, A1 reset");
	sqt_add(1, SQT_A, "A1 in");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(1), block);
	KUNIT_EXPECT_EQ(test, block->members, 2);

	sqt_add(1, SQT_P, "A1 out, A1 reset");
	KUNIT_EXPECT_NULL(test, sqt_at(1)->shared);
	sqt_add(2, NULL, "A2 out, A2 reset");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
	sqt_add(2, SQT_A, "A2 in");
}

/* Blocks of odd sizes, of memory that is dirty */
static void sqt_test_memory(struct kunit *test)
{
	static const unsigned int sizes[] = { 13, 64, 77, 129, 4096, 20000 };
	unsigned int i, size;
	void *dirt;

	for (i = 0; i < 8 * ARRAY_SIZE(sizes); i++) {
		sqt_ops[0].shared_size = sizes[i / 8];
		size = ALIGN(sizes[i / 8] + SMP_CACHE_BYTES, SMP_CACHE_BYTES);
		/* Shifts what comes next if objects have an odd distance */
		kunit_kmalloc(test, sizes[i / 8] + 64, GFP_KERNEL);
		dirt = kmalloc(size, GFP_KERNEL);
		if (dirt)
			memset(dirt, SQT_DIRT, size);
		kfree(dirt);
		sqt_add(1, SQT_A, "A1 in");
		sqt_add(1, NULL, "A1 out, A1 reset");
	}
}

static void sqt_test_no_memory(struct kunit *test)
{
	sqt_add(1, SQT_B, "B1 in");
	sqt_ops[0].shared_size = INT_MAX + 1U;
	sqt_refuse(1, SQT_A, -ENOMEM, "A1 reset");
	sqt_refuse(0, SQT_M, -ENOMEM, "A1 reset, A2 reset");
	sqt_add(1, NULL, "B1 out, B1 reset");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
}

/* Who holds a qdisc does not keep it in its block; its handle brings it back */
static void sqt_test_held(struct kunit *test)
{
	sqt_add(1, SQT_A, "A1 in");
	sqt_hold(1);
	sqt_add(1, SQT_P, "A1 out");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
	sqt_bring_back(0, "A1 in, P1 reset");
	KUNIT_EXPECT_PTR_EQ(test, sqt_at(1), sqt.held);
	sqt_add(0, NULL, "A1 out");
	sqt_remove("A1 reset");
}

/* The old root ends before its children if the new one is a parent, too, and
 * after them if not. Each has a block of its own.
 */
static void sqt_test_roots(struct kunit *test)
{
	struct sqt_block *block;

	sqt_add(0, SQT_M, "A1 in, A2 in");
	block = sqt_block(1);
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(2), block);
	sqt_add(0, SQT_M,
		"M1 reset, A1 in, A1 out, A1 reset, A2 in, A2 out, A2 reset");
	KUNIT_EXPECT_PTR_NE(test, sqt_block(1), block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(2), sqt_block(1));
	sqt_add(0, "mq", "M1 reset, A1 out, A1 reset, A2 out, A2 reset");
	sqt_add(1, SQT_B, "B1 in");
	sqt_add(0, SQT_M, "A1 in, B1 out, B1 reset, A2 in");
	sqt_add(0, NULL, "A1 out, A1 reset, A2 out, A2 reset, M1 reset");
	sqt_add(0, SQT_M, "A1 in, A2 in");
	sqt_add(0, SQT_P, "A1 out, A1 reset, A2 out, A2 reset, M1 reset");
	sqt_add(0, SQT_M, "A1 in, A2 in, P1 reset");
}

static void sqt_test_mqprio(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_NET_SCH_MQPRIO))
		kunit_skip(test, "no mqprio");
	sqt_add(0, "mqprio", "");
	sqt_add(1, SQT_A, "A1 in");
	sqt_add(2, SQT_A, "A2 in");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(2), sqt_block(1));
	sqt_add(0, "mqprio", "A1 out, A1 reset, A2 out, A2 reset");
}

static void sqt_test_no_parent(struct kunit *test)
{
	sqt_add(0, SQT_A, "");
	KUNIT_EXPECT_NULL(test, sqt_at(0)->shared);
	sqt_m_class_ops.shared_blocks = NULL;
	sqt_add(0, SQT_M, "A1 reset");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
}

/* Prepared, but never attached: it neither joins nor leaves */
static void sqt_test_never(struct kunit *test)
{
	struct Qdisc *root = sqt_at(0);

	sqt_add(1, SQT_A, "A1 in");
	sqt.init_err = -EIO;
	sqt_refuse(0, SQT_M, -EIO, "A1 reset, A2 reset");
	KUNIT_EXPECT_PTR_EQ(test, sqt_at(0), root);
	KUNIT_EXPECT_EQ(test, sqt_block(1)->members, 1);

	sqt.init_err = 0;
	sqt.children = &sqt_ops[2];
	sqt_add(0, SQT_M, "A1 out, A1 reset");
	sqt_refuse(1, SQT_A, -EOPNOTSUPP, "A1 reset");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
}

static void sqt_test_device(struct kunit *test)
{
	sqt_add(1, SQT_A, "A1 in");
	sqt_add(2, SQT_A, "A2 in");
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");
	sqt_set_queues(0, "A1 reset, A2 reset");
	sqt_add(2, SQT_A, "A2 in, A2 out, A2 reset");
	sqt_set_queues(2, "");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(2), sqt_block(1));
	sqt_set_queues(0, "A1 reset, A2 reset");
	sqt_remove("A1 out, A1 reset, A2 out, A2 reset");
}

/* A queue comes into use, and is not limited as others are */
static void sqt_test_used(struct kunit *test)
{
	sqt_ops[0].shared_queues = sqt_queues;
	sqt.limited = BIT(1);
	sqt_set_queues(1, "");
	sqt_set_queues(2, "");
	sqt_add(1, SQT_A, "A1 in");
	sqt_set_queues(1, "");
	KUNIT_EXPECT_EQ(test, sqt.told, 1);
	sqt_set_queues(2, "2 is open");
	KUNIT_EXPECT_EQ(test, sqt.told, 2);
	/* Once, until another one joins */
	sqt_set_queues(1, "");
	sqt_set_queues(2, "");
	sqt_set_queues(2, "");
	sqt_add(1, SQT_A, "A1 in, A1 out, A1 reset");
	sqt_set_queues(1, "");
	sqt_set_queues(2, "2 is open");

	/* It is of no traffic class */
	sqt_add(1, SQT_A, "A1 in, A1 out, A1 reset");
	sqt_set_queues(1, "");
	netdev_set_num_tc(sqt.dev, 1);
	netdev_set_tc_queue(sqt.dev, 0, 1, 0);
	sqt_set_queues(2, "");
	netdev_reset_tc(sqt.dev);

	/* Somebody wants it as it is */
	sqt_add(1, SQT_A, "A1 in, A1 out, A1 reset");
	sqt_add(2, SQT_P, "");
	sqt_set_queues(1, "P2 reset");
	sqt_set_queues(2, "");

	/* Both are, or none, or only the new one */
	sqt_add(2, SQT_A, "A2 in, P2 reset");
	sqt.limited = BIT(1) | BIT(2);
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");
	sqt.limited = 0;
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");
	sqt.limited = BIT(2);
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");

	/* A kind that does not say */
	sqt.limited = BIT(1);
	sqt_add(1, SQT_B, "B1 in, A1 out, A1 reset");
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");
}

/* One that was in use before is no news, and one whose qdisc was deleted sends
 * nothing
 */
static void sqt_test_not_open(struct kunit *test)
{
	sqt_ops[0].shared_queues = sqt_queues;
	sqt.limited = BIT(2);
	sqt_add(2, SQT_A, "A2 in");
	sqt_set_queues(1, "A2 reset");
	sqt_set_queues(2, "");

	sqt_add(2, NULL, "A2 out, A2 reset");
	sqt.limited = BIT(1);
	sqt_add(1, SQT_A, "A1 in");
	sqt_set_queues(1, "");
	sqt_set_queues(2, "");
}

/* Its timer may have fired while the device was inactive, so it is called,
 * although it is empty, when the device is active again
 */
static void sqt_test_activated(struct kunit *test)
{
	u32 queue;
	int i;

	sqt_ops[0].dequeue = sqt_dequeue;
	for (queue = 1; queue <= 2; queue++) {
		WRITE_ONCE(sqt.dequeued, NULL);
		sqt_add(queue, queue == 1 ? SQT_A : SQT_P,
			queue == 1 ? "A1 in" : "");
		for (i = 0; i < 20 && !READ_ONCE(sqt.dequeued); i++)
			msleep(20);
		KUNIT_EXPECT_PTR_EQ(test, READ_ONCE(sqt.dequeued), sqt_at(1));
	}
}

/* If somebody holds a child, it leaves with the device, and ends later. */
static void sqt_test_outlives(struct kunit *test)
{
	sqt_add(0, SQT_M, "A1 in, A2 in");
	sqt_hold(1);
	sqt_set_queues(0, "A1 reset, A2 reset");
	sqt_remove("A1 out, A2 out, A2 reset, M1 reset, A1 reset");
}

/* Nothing happens to a child that is attached again */
static void sqt_test_graft(struct kunit *test)
{
	sqt_add(1, SQT_A, "A1 in");
	sqt_hold(1);
	sqt_set_queues(0, "A1 reset");
	rtnl_lock();
	dev_graft_qdisc(sqt.dev->_tx, sqt.held);
	qdisc_refcount_inc(sqt.held);
	qdisc_put(dev_graft_qdisc(sqt.dev->_tx + 1, sqt.held));
	sqt_expect("again", "");
	qdisc_put(dev_graft_qdisc(sqt.dev->_tx, NULL));
	rtnl_unlock();
	sqt_remove("A1 out, A1 reset");
}

static struct kunit_case sqt_cases[] = {
	KUNIT_CASE(sqt_test_register),
	KUNIT_CASE(sqt_test_blocks),
	KUNIT_CASE(sqt_test_memory),
	KUNIT_CASE(sqt_test_no_memory),
	KUNIT_CASE(sqt_test_held),
	KUNIT_CASE(sqt_test_roots),
	KUNIT_CASE(sqt_test_mqprio),
	KUNIT_CASE(sqt_test_no_parent),
	KUNIT_CASE(sqt_test_never),
	KUNIT_CASE(sqt_test_device),
	KUNIT_CASE(sqt_test_used),
	KUNIT_CASE(sqt_test_not_open),
	KUNIT_CASE(sqt_test_activated),
	KUNIT_CASE(sqt_test_outlives),
	KUNIT_CASE(sqt_test_graft),
	{}
};

static struct kunit_suite sqt_suite = {
	.name		= "qdisc_shared",
	.init		= sqt_init,
	.exit		= sqt_exit,
	.test_cases	= sqt_cases,
};

/* ->shared_check(): "A1 asks", or "A1 alone" if there is no block */

static struct sqt_asked {
	bool			refuse;
	bool			live;	/* the queue was in use meanwhile */
	const struct Qdisc	*old;
} sqt_asked;

static int sqt_check(struct Qdisc *sch, struct Qdisc *old, void *shared,
		     struct netlink_ext_ack *extack)
{
	struct netdev_queue *txq = sch->dev_queue;

	sqt_log(sch, shared ? "asks" : "alone");
	sqt_asked.live = rcu_access_pointer(txq->qdisc) != &noop_qdisc;
	sqt_asked.old = old;
	KUNIT_EXPECT_NOT_NULL(sqt.test, extack);
	if (!sqt_asked.refuse)
		return 0;
	NL_SET_ERR_MSG(extack, "kunit");
	return -EPERM;
}

static int sqt_check_init(struct kunit *test)
{
	sqt_asked.refuse = false;
	sqt_ops[0].shared_check = sqt_check;
	sqt_ops[0].shared_key = &sqt;
	sqt_ops[1].shared_key = &sqt;
	return sqt_init(test);
}

static void sqt_check_exit(struct kunit *test)
{
	sqt_exit(test);
	sqt_ops[0].shared_check = NULL;
	sqt_ops[0].shared_key = NULL;
	sqt_ops[1].shared_key = NULL;
}

/* It refuses, which leaves nothing behind, and then does not */
static void sqt_ask(u32 queue, const char *refused, const char *attached)
{
	struct Qdisc *root = sqt_at(0), *old = sqt_at(queue);
	struct kunit *test = sqt.test;
	bool none = sqt_no_blocks();
	int i;

	for (i = 1; i >= 0; i--) {
		sqt_asked = (struct sqt_asked) { .refuse = i };
		KUNIT_EXPECT_PTR_EQ(test, sqt_at(0), root);
		KUNIT_EXPECT_PTR_EQ(test, sqt_at(queue), old);
		KUNIT_EXPECT_EQ(test, sqt_no_blocks(), none);
		sqt_refuse(queue, SQT_A, -EPERM * i, i ? refused : attached);
		KUNIT_EXPECT_TRUE(test, sqt_asked.live);
		KUNIT_EXPECT_PTR_EQ(test, sqt_asked.old, queue ? old : NULL);
	}
}

static void sqt_test_check(struct kunit *test)
{
	sqt_ask(1, "A1 asks, A1 reset", "A1 asks, A1 in");
	sqt_ask(1, "A1 asks, A1 reset", "A1 asks, A1 in, A1 out, A1 reset");
	KUNIT_EXPECT_EQ(test, sqt_block(1)->members, 1);

	sqt_asked.refuse = true;
	sqt_refuse(0, SQT_M, -EPERM, "A1 asks, A1 reset, A2 reset");
	sqt_hold(1);
	sqt_add(1, SQT_P, "A1 out");
	sqt_bring_back(-EPERM, "A1 asks");
	KUNIT_EXPECT_TRUE(test, sqt_no_blocks());
}

static void sqt_test_check_alone(struct kunit *test)
{
	sqt_m_class_ops.shared_blocks = NULL;
	sqt_add(0, SQT_M, "A1 alone, A1 alone, A2 alone, A2 alone");
	sqt_ask(0, "A1 alone, A1 reset",
		"A1 alone, A1 reset, A2 reset, M1 reset");
}

/* Kinds with the same key share a block, which stays if one replaces another */
static void sqt_test_key(struct kunit *test)
{
	struct sqt_block *block;

	sqt_add(1, SQT_A, "A1 asks, A1 in");
	block = sqt_block(1);
	sqt_add(2, SQT_B, "B2 in");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(2), block);
	sqt_add(2, NULL, "B2 out, B2 reset");
	sqt_add(1, SQT_B, "B1 in, A1 out, A1 reset");
	KUNIT_EXPECT_PTR_EQ(test, sqt_block(1), block);
	KUNIT_EXPECT_EQ(test, block->members, 1);

	sqt_ops[0].shared_key = NULL;
	sqt_add(2, SQT_A, "A2 asks, A2 in");
	KUNIT_EXPECT_PTR_NE(test, sqt_block(2), block);
}

static struct kunit_case sqt_check_cases[] = {
	KUNIT_CASE(sqt_test_key),
	KUNIT_CASE(sqt_test_check),
	KUNIT_CASE(sqt_test_check_alone),
	{}
};

static struct kunit_suite sqt_check_suite = {
	.name		= "qdisc_shared_check",
	.init		= sqt_check_init,
	.exit		= sqt_check_exit,
	.test_cases	= sqt_check_cases,
};

kunit_test_suites(&sqt_suite, &sqt_check_suite);

MODULE_DESCRIPTION("KUnit tests for the state that sibling qdiscs share");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

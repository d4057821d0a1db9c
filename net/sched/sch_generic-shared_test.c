// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the state that sibling qdiscs share
 *
 * Every case works on a registered multiqueue device below the real mq or
 * mqprio and configures it by the rtnetlink messages that tc would send. Only
 * the children are made for the test: qdiscs of kind A and B share state and
 * write down what happens to them, and the cases compare this trace with what
 * should have:
 *
 *	A.new1		->init() of a qdisc of kind A for TX queue 1
 *	A.init		->shared_init()
 *	A.check1	->shared_check()
 *	A.ask1		->shared_check() with no block to offer
 *	A.assign1	->shared_assign()
 *	A.detach1	->shared_detach()
 *	A.exit		->shared_exit()
 *	A.reset1	->reset()
 *	A.free1		->destroy()
 *	hw2		->ndo_setup_tc() of the device, with 2 traffic classes
 */

#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/if_ether.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#define SQT_QUEUES	4
#define SQT_MARK	0x5a5a
#define SQT_PATTERN	0x5a

/* Handle n:, and class n of the root 1: that every case starts with */
#define SQT_H(n)	TC_H_MAKE((n) << 16, 0)
#define SQT_Q(n)	TC_H_MAKE(SQT_H(1), (n))

/* TCA_OPTIONS of kinds A and B */
#define SQT_INSIST	BIT(0)	/* will not go where nothing is shared */
#define SQT_REFUSE	BIT(1)	/* will not go anywhere */

struct sqt_block {
	atomic_t		packets;
	u32			cookie;
};

struct sqt_priv {
	struct sqt_block	*shared;
	u32			options;
	unsigned int		packets;
	bool			left;
	struct rcu_gp_seq	gp;		/* to pass before it may join */
};

struct sqt_kind {
	struct Qdisc_ops	ops;
	char			name;
	bool			registered;

	/* Orders */
	int			init_err;	/* of ->shared_init() */
	unsigned int		new_fails;	/* for this queue */
	unsigned int		check_fails;	/* for this queue */
	bool			read;		/* while a member leaves */

	/* Observations */
	struct sqt_block	*block;		/* given to ->shared_init() */
	struct Qdisc		*init_parent;
	struct Qdisc		*check_parent;
	bool			check_live;	/* queue was in use meanwhile */
	void			*reading;
	bool			read_changed;
	bool			read_reused;

	/* Balance */
	int			qdiscs;
	int			members;
	int			blocks;
};

struct sqt {
	struct kunit		*test;
	const char		*parent;	/* kind of the root 1: */
	struct net_device	*dev[2];
	struct socket		*sock;
	const struct Qdisc_ops	*default_ops;
	struct Qdisc		*held[2];
	u32			seq;
	u32			handle;
	int			hw_err;		/* of ->ndo_setup_tc() */
	size_t			len;
	char			trace[2048];
	char			msg[256];
	u8			buf[1024];
};

struct sqt_dev {
	unsigned int		sent;
};

/* Callbacks of qdiscs get no hint of the test; one case runs at a time. */
static struct sqt *sqt_now;

static struct sqt_kind sqt_a;
static struct sqt_kind sqt_b;
static struct sqt_kind sqt_plain;

/* Kinds */

static struct sqt_kind *sqt_kind_of(const struct Qdisc *sch)
{
	return container_of(sch->ops, struct sqt_kind, ops);
}

static unsigned int sqt_queue(const struct Qdisc *sch)
{
	return sch->dev_queue - qdisc_dev(sch)->_tx + 1;
}

static void sqt_log(const struct sqt_kind *kind, const char *event,
		    const struct Qdisc *sch)
{
	char queue[12] = "";

	if (sch)
		snprintf(queue, sizeof(queue), "%u", sqt_queue(sch));
	sqt_now->len += scnprintf(sqt_now->trace + sqt_now->len,
				  sizeof(sqt_now->trace) - sqt_now->len,
				  "%c.%s%s; ", kind->name, event, queue);
}

static void sqt_expect_context(void)
{
	KUNIT_EXPECT_TRUE(sqt_now->test, rtnl_is_locked());
	KUNIT_EXPECT_FALSE(sqt_now->test, in_interrupt());
	KUNIT_EXPECT_FALSE(sqt_now->test, irqs_disabled());
}

static int sqt_shared_init(struct sqt_kind *kind, void *shared,
			   struct Qdisc *parent, struct netlink_ext_ack *extack)
{
	struct kunit *test = sqt_now->test;

	sqt_log(kind, "init", NULL);
	sqt_expect_context();
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED((uintptr_t)shared, SMP_CACHE_BYTES));
	KUNIT_EXPECT_NULL(test, memchr_inv(shared, 0, kind->ops.shared_size));
	kind->block = shared;
	kind->init_parent = parent;

	if (kind->init_err) {
		NL_SET_ERR_MSG(extack, "sqt: init failed");
		return kind->init_err;
	}
	kind->blocks++;
	return 0;
}

static void sqt_shared_exit(struct sqt_kind *kind, void *shared)
{
	sqt_log(kind, "exit", NULL);
	sqt_expect_context();
	kind->blocks--;
}

static int sqt_a_shared_init(void *shared, struct Qdisc *parent,
			     struct netlink_ext_ack *extack)
{
	return sqt_shared_init(&sqt_a, shared, parent, extack);
}

static void sqt_a_shared_exit(void *shared)
{
	sqt_shared_exit(&sqt_a, shared);
}

static int sqt_b_shared_init(void *shared, struct Qdisc *parent,
			     struct netlink_ext_ack *extack)
{
	return sqt_shared_init(&sqt_b, shared, parent, extack);
}

static void sqt_b_shared_exit(void *shared)
{
	sqt_shared_exit(&sqt_b, shared);
}

static int sqt_shared_check(struct Qdisc *sch, struct Qdisc *parent,
			    void *shared, struct netlink_ext_ack *extack)
{
	struct sqt_priv *priv = qdisc_priv(sch);
	struct sqt_kind *kind = sqt_kind_of(sch);

	sqt_log(kind, shared ? "check" : "ask", sch);
	sqt_expect_context();
	KUNIT_EXPECT_NULL(sqt_now->test, priv->shared);
	kind->check_parent = parent;
	kind->check_live = rcu_access_pointer(sch->dev_queue->qdisc) !=
			   &noop_qdisc;

	if (!shared && priv->options & SQT_INSIST) {
		NL_SET_ERR_MSG(extack, "sqt: nothing to share here");
		return -EOPNOTSUPP;
	}
	if (priv->options & SQT_REFUSE ||
	    kind->check_fails == sqt_queue(sch)) {
		NL_SET_ERR_MSG(extack, "sqt: refused");
		return -EPERM;
	}
	return 0;
}

static void sqt_shared_assign(struct Qdisc *sch, void *shared)
{
	struct netdev_queue *txq = sch->dev_queue;
	struct sqt_priv *priv = qdisc_priv(sch);
	struct kunit *test = sqt_now->test;

	sqt_log(sqt_kind_of(sch), "assign", sch);
	sqt_expect_context();
	KUNIT_EXPECT_NULL(test, priv->shared);

	/* Attached, but receiving nothing yet */
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(txq->qdisc_sleeping), sch);
	KUNIT_EXPECT_PTR_EQ(test, rcu_access_pointer(txq->qdisc), &noop_qdisc);

	if (priv->left)
		KUNIT_EXPECT_TRUE(test,
				  poll_state_synchronize_rcu_full(&priv->gp));
	priv->shared = shared;
	sqt_kind_of(sch)->members++;
}

static void sqt_shared_detach(struct Qdisc *sch, void *shared)
{
	struct netdev_queue *txq = sch->dev_queue;
	struct sqt_priv *priv = qdisc_priv(sch);
	struct sqt_kind *kind = sqt_kind_of(sch);
	struct kunit *test = sqt_now->test;

	sqt_log(kind, "detach", sch);
	sqt_expect_context();
	KUNIT_EXPECT_NOT_NULL(test, priv->shared);
	KUNIT_EXPECT_PTR_EQ(test, priv->shared, shared);
	KUNIT_EXPECT_PTR_NE(test, rcu_access_pointer(txq->qdisc), sch);

	priv->shared = NULL;
	priv->left = true;
	get_state_synchronize_rcu_full(&priv->gp);
	kind->members--;

	/* A reader that began before the block is given up: ends in reset */
	if (kind->read) {
		rcu_read_lock();
		kind->reading = shared;
	}
}

/* Has the block that is being read changed, or been given to somebody else? */
static void sqt_read(struct sqt_kind *kind)
{
	size_t size = ALIGN(kind->ops.shared_size + SMP_CACHE_BYTES,
			    SMP_CACHE_BYTES);
	void *other[16];
	int i;

	for (i = 0; i < ARRAY_SIZE(other); i++) {
		other[i] = kmalloc(size, GFP_ATOMIC | __GFP_NOWARN);
		if (!other[i])
			continue;
		memset(other[i], ~SQT_PATTERN, size);
		if (kind->reading >= other[i] &&
		    kind->reading < other[i] + size)
			kind->read_reused = true;
	}
	if (memchr_inv(kind->reading, SQT_PATTERN, kind->ops.shared_size))
		kind->read_changed = true;
	for (i = 0; i < ARRAY_SIZE(other); i++)
		kfree(other[i]);
}

static void sqt_stop_reading(struct sqt_kind *kind)
{
	if (kind->reading) {
		kind->reading = NULL;
		rcu_read_unlock();
	}
}

static int sqt_qdisc_init(struct Qdisc *sch, struct nlattr *opt,
			  struct netlink_ext_ack *extack)
{
	struct sqt_priv *priv = qdisc_priv(sch);
	struct sqt_kind *kind = sqt_kind_of(sch);

	sqt_log(kind, "new", sch);
	kind->qdiscs++;
	if (opt && nla_len(opt) >= sizeof(u32))
		priv->options = nla_get_u32(opt);

	if (kind->new_fails == sqt_queue(sch)) {
		NL_SET_ERR_MSG(extack, "sqt: no new qdisc");
		return -ENOSPC;
	}
	return 0;
}

static void sqt_qdisc_reset(struct Qdisc *sch)
{
	struct sqt_kind *kind = sqt_kind_of(sch);

	sqt_log(kind, "reset", sch);
	if (kind->reading) {
		sqt_read(kind);
		sqt_stop_reading(kind);
	}
	qdisc_reset_queue(sch);
}

static void sqt_qdisc_destroy(struct Qdisc *sch)
{
	struct sqt_priv *priv = qdisc_priv(sch);
	struct sqt_kind *kind = sqt_kind_of(sch);

	sqt_log(kind, "free", sch);
	KUNIT_EXPECT_NULL(sqt_now->test, priv->shared);
	KUNIT_EXPECT_NULL(sqt_now->test, sch->shared);
	kind->qdiscs--;
}

static int sqt_qdisc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
			     struct sk_buff **to_free)
{
	struct sqt_priv *priv = qdisc_priv(sch);

	if (skb->mark == SQT_MARK) {
		priv->packets++;
		if (priv->shared)
			atomic_inc(&priv->shared->packets);
	}
	return qdisc_enqueue_tail(skb, sch);
}

static void sqt_kind_setup(struct sqt_kind *kind, const char *id, char name)
{
	struct Qdisc_ops *ops = &kind->ops;

	memset(kind, 0, sizeof(*kind));
	kind->name = name;
	strscpy(ops->id, id, sizeof(ops->id));
	ops->priv_size	= sizeof(struct sqt_priv);
	ops->enqueue	= sqt_qdisc_enqueue;
	ops->dequeue	= qdisc_dequeue_head;
	ops->peek	= qdisc_peek_dequeued;
	ops->init	= sqt_qdisc_init;
	ops->reset	= sqt_qdisc_reset;
	ops->destroy	= sqt_qdisc_destroy;
	ops->owner	= THIS_MODULE;
}

static void sqt_kind_share(struct sqt_kind *kind)
{
	struct Qdisc_ops *ops = &kind->ops;
	bool a = kind == &sqt_a;

	ops->shared_size	= sizeof(struct sqt_block);
	ops->shared_init	= a ? sqt_a_shared_init : sqt_b_shared_init;
	ops->shared_exit	= a ? sqt_a_shared_exit : sqt_b_shared_exit;
	ops->shared_check	= sqt_shared_check;
	ops->shared_assign	= sqt_shared_assign;
	ops->shared_detach	= sqt_shared_detach;
}

/* Devices */

static netdev_tx_t sqt_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct sqt_dev *priv = netdev_priv(dev);

	if (skb->mark == SQT_MARK)
		priv->sent++;
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static u16 sqt_select_queue(struct net_device *dev, struct sk_buff *skb,
			    struct net_device *sb_dev)
{
	return skb_get_queue_mapping(skb);
}

static int sqt_setup_tc(struct net_device *dev, enum tc_setup_type type,
			void *type_data)
{
	struct tc_mqprio_qopt_offload *mqprio = type_data;

	if (type != TC_SETUP_QDISC_MQPRIO)
		return -EOPNOTSUPP;

	sqt_now->len += scnprintf(sqt_now->trace + sqt_now->len,
				  sizeof(sqt_now->trace) - sqt_now->len,
				  "hw%u; ", mqprio->qopt.num_tc);
	if (!sqt_now->hw_err)
		netdev_set_num_tc(dev, mqprio->qopt.num_tc);
	return sqt_now->hw_err;
}

static const struct net_device_ops sqt_netdev_ops = {
	.ndo_start_xmit		= sqt_xmit,
	.ndo_select_queue	= sqt_select_queue,
	.ndo_setup_tc		= sqt_setup_tc,
};

static void sqt_dev_create(struct kunit *test, int i)
{
	struct sqt *s = test->priv;
	struct net_device *dev;
	int err;

	dev = alloc_netdev_mqs(sizeof(struct sqt_dev), "sqt%d",
			       NET_NAME_ENUM, ether_setup, SQT_QUEUES, 1);
	KUNIT_ASSERT_NOT_NULL(test, dev);
	dev->netdev_ops = &sqt_netdev_ops;
	dev->flags |= IFF_NOARP;

	err = register_netdev(dev);
	if (err)
		free_netdev(dev);
	KUNIT_ASSERT_EQ(test, err, 0);
	s->dev[i] = dev;
}

static void sqt_dev_destroy(struct sqt *s, int i)
{
	if (!s->dev[i])
		return;
	unregister_netdev(s->dev[i]);
	free_netdev(s->dev[i]);
	s->dev[i] = NULL;
}

static int sqt_dev_open(struct sqt *s, int i)
{
	int err;

	rtnl_lock();
	err = dev_open(s->dev[i], NULL);
	rtnl_unlock();
	return err;
}

static void sqt_dev_close(struct sqt *s, int i)
{
	rtnl_lock();
	dev_close(s->dev[i]);
	rtnl_unlock();
}

static int sqt_dev_set_queues(struct sqt *s, int i, unsigned int queues)
{
	int err;

	rtnl_lock();
	err = netif_set_real_num_tx_queues(s->dev[i], queues);
	rtnl_unlock();
	return err;
}

static int sqt_send(struct sqt *s, int i, unsigned int queue)
{
	struct sk_buff *skb;

	skb = alloc_skb(ETH_ZLEN, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb_put_zero(skb, ETH_ZLEN);
	skb_reset_mac_header(skb);
	skb->dev = s->dev[i];
	skb->mark = SQT_MARK;
	skb->protocol = htons(ETH_P_LOOPBACK);
	skb_set_queue_mapping(skb, queue - 1);
	return dev_queue_xmit(skb);
}

static unsigned int sqt_sent(struct sqt *s, int i)
{
	struct sqt_dev *priv = netdev_priv(s->dev[i]);

	return priv->sent;
}

/* Nobody but the case itself changes these, so they stay after the unlock. */
static struct Qdisc *sqt_root(struct sqt *s, int i)
{
	struct Qdisc *sch;

	rtnl_lock();
	sch = rtnl_dereference(s->dev[i]->qdisc);
	rtnl_unlock();
	return sch;
}

static struct Qdisc *sqt_child(struct sqt *s, int i, unsigned int queue)
{
	struct netdev_queue *txq = netdev_get_tx_queue(s->dev[i], queue - 1);
	struct Qdisc *sch;

	rtnl_lock();
	sch = rtnl_dereference(txq->qdisc_sleeping);
	rtnl_unlock();
	return sch;
}

static struct sqt_block *sqt_shared(struct sqt *s, int i, unsigned int queue)
{
	struct Qdisc *sch = sqt_child(s, i, queue);
	struct sqt_priv *priv = qdisc_priv(sch);

	if (sch->ops != &sqt_a.ops && sch->ops != &sqt_b.ops)
		return NULL;
	return priv->shared;
}

static unsigned int sqt_packets(struct sqt *s, int i, unsigned int queue)
{
	struct sqt_priv *priv = qdisc_priv(sqt_child(s, i, queue));

	return priv->packets;
}

/* A reference as classifier requests take it while they run unlocked */
static void sqt_hold(struct sqt *s, struct Qdisc *sch)
{
	int i = s->held[0] ? 1 : 0;

	qdisc_refcount_inc(sch);
	s->held[i] = sch;
}

static void sqt_release(struct sqt *s)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(s->held); i++) {
		if (s->held[i])
			qdisc_put_unlocked(s->held[i]);
		s->held[i] = NULL;
	}
}

/* Messages */

static int sqt_ack(struct sqt *s)
{
	const struct nlattr *attr;
	struct nlmsgerr *err;
	struct nlmsghdr *nlh;
	int len, offset;

	s->msg[0] = '\0';
	do {
		struct kvec iov = {
			.iov_base	= s->buf,
			.iov_len	= sizeof(s->buf),
		};
		struct msghdr msg = {};

		len = kernel_recvmsg(s->sock, &msg, &iov, 1, sizeof(s->buf),
				     MSG_DONTWAIT);
		if (len < 0)
			return len;
		nlh = (struct nlmsghdr *)s->buf;
		if (!nlmsg_ok(nlh, len) ||
		    nlmsg_len(nlh) < (int)sizeof(*err))
			return -EBADMSG;
	} while (nlh->nlmsg_type != NLMSG_ERROR || nlh->nlmsg_seq != s->seq);

	err = nlmsg_data(nlh);
	if (nlh->nlmsg_flags & NLM_F_ACK_TLVS) {
		offset = NLMSG_ALIGN(sizeof(*err));
		attr = nla_find(nlmsg_data(nlh) + offset,
				nlmsg_len(nlh) - offset, NLMSGERR_ATTR_MSG);
		if (attr)
			nla_strscpy(s->msg, attr, sizeof(s->msg));
	}
	return err->error;
}

/* Sends what "tc qdisc replace" or "tc qdisc del" would, returns the answer. */
static int sqt_tc(struct sqt *s, int i, int type, u32 parent, u32 handle,
		  const char *kind, const void *options, int len)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct msghdr msg = {
		.msg_name	= &kernel,
		.msg_namelen	= sizeof(kernel),
	};
	int flags = NLM_F_REQUEST | NLM_F_ACK;
	struct nlmsghdr *nlh;
	struct sk_buff *skb;
	struct tcmsg *tcm;
	struct kvec iov;
	int err;

	if (type == RTM_NEWQDISC)
		flags |= NLM_F_CREATE | NLM_F_REPLACE;

	skb = nlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	nlh = nlmsg_put(skb, 0, ++s->seq, type, sizeof(*tcm), flags);
	tcm = nlmsg_data(nlh);
	memset(tcm, 0, sizeof(*tcm));
	tcm->tcm_family = AF_UNSPEC;
	tcm->tcm_ifindex = s->dev[i]->ifindex;
	tcm->tcm_parent = parent;
	tcm->tcm_handle = handle;
	err = kind ? nla_put_string(skb, TCA_KIND, kind) : 0;
	if (!err && len)
		err = nla_put(skb, TCA_OPTIONS, len, options);
	nlmsg_end(skb, nlh);

	if (!err) {
		iov.iov_base = skb->data;
		iov.iov_len = skb->len;
		err = kernel_sendmsg(s->sock, &msg, &iov, 1, skb->len);
	}
	nlmsg_free(skb);
	return err < 0 ? err : sqt_ack(s);
}

/* A new handle each time, else a replacement by the own kind is a change. */
static int sqt_add_to(struct sqt *s, int i, u32 parent, const char *kind,
		      u32 options)
{
	return sqt_tc(s, i, RTM_NEWQDISC, parent, SQT_H(++s->handle), kind,
		      &options, options ? sizeof(options) : 0);
}

static int sqt_add(struct sqt *s, unsigned int queue, const char *kind)
{
	return sqt_add_to(s, 0, SQT_Q(queue), kind, 0);
}

static int sqt_del(struct sqt *s, u32 parent)
{
	return sqt_tc(s, 0, RTM_DELQDISC, parent, 0, NULL, NULL, 0);
}

static int sqt_set_mqprio(struct sqt *s, int i, u32 handle, bool offload)
{
	struct tc_mqprio_qopt options = {
		.num_tc		= 2,
		.prio_tc_map	= { 0, 1 },
		.hw		= offload,
		.count		= { 1, 1 },
		.offset		= { 0, 1 },
	};

	return sqt_tc(s, i, RTM_NEWQDISC, TC_H_ROOT, handle, "mqprio",
		      &options, sizeof(options));
}

static int sqt_set_root(struct sqt *s, int i, u32 handle, const char *kind)
{
	static const struct tc_prio_qopt prio = { .bands = 3 };

	if (!strcmp(kind, "mqprio"))
		return sqt_set_mqprio(s, i, handle, false);

	return sqt_tc(s, i, RTM_NEWQDISC, TC_H_ROOT, handle, kind, &prio,
		      strcmp(kind, "prio") ? 0 : sizeof(prio));
}

static void sqt_set_default(struct sqt *s, const struct sqt_kind *kind)
{
	rtnl_lock();
	default_qdisc_ops = kind ? &kind->ops : s->default_ops;
	rtnl_unlock();
}

/* Compares what happened since the last time. */
#define SQT_EXPECT_TRACE(test, expected)				\
	do {								\
		struct kunit *__test = (test);				\
		struct sqt *__s = __test->priv;				\
									\
		KUNIT_EXPECT_STREQ(__test, __s->trace, expected);	\
		sqt_forget(__s);					\
	} while (0)

static void sqt_forget(struct sqt *s)
{
	s->trace[0] = '\0';
	s->len = 0;
}

static int sqt_start(struct kunit *test, const char *parent)
{
	int (*setsockopt)(struct socket *sock, int level, int optname,
			  sockptr_t optval, unsigned int optlen);
	struct sqt_kind *kinds[] = { &sqt_a, &sqt_b, &sqt_plain };
	struct sqt *s;
	int one = 1;
	int i, err;

	s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s);
	s->test = test;
	s->parent = parent;
	s->handle = 0x10;
	s->default_ops = default_qdisc_ops;
	test->priv = s;
	sqt_now = s;

	sqt_kind_setup(&sqt_a, "sqt_a", 'A');
	sqt_kind_setup(&sqt_b, "sqt_b", 'B');
	sqt_kind_setup(&sqt_plain, "sqt_plain", 'P');
	sqt_kind_share(&sqt_a);
	sqt_kind_share(&sqt_b);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		KUNIT_ASSERT_EQ(test, register_qdisc(&kinds[i]->ops), 0);
		kinds[i]->registered = true;
	}

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, PF_NETLINK, SOCK_RAW,
					       NETLINK_ROUTE, &s->sock), 0);
	setsockopt = s->sock->ops->setsockopt;
	KUNIT_ASSERT_EQ(test, setsockopt(s->sock, SOL_NETLINK, NETLINK_EXT_ACK,
					 KERNEL_SOCKPTR(&one), sizeof(one)), 0);
	KUNIT_ASSERT_EQ(test, setsockopt(s->sock, SOL_NETLINK, NETLINK_CAP_ACK,
					 KERNEL_SOCKPTR(&one), sizeof(one)), 0);

	sqt_dev_create(test, 0);
	KUNIT_ASSERT_EQ(test, sqt_dev_open(s, 0), 0);
	err = sqt_set_root(s, 0, SQT_H(1), parent);
	if (err == -ENOENT)
		kunit_skip(test, "no %s", parent);
	KUNIT_ASSERT_EQ(test, err, 0);
	SQT_EXPECT_TRACE(test, "");
	return 0;
}

static int sqt_init(struct kunit *test)
{
	return sqt_start(test, "mq");
}

static int sqt_mqprio_init(struct kunit *test)
{
	return sqt_start(test, "mqprio");
}

static void sqt_exit(struct kunit *test)
{
	struct sqt_kind *kinds[] = { &sqt_a, &sqt_b, &sqt_plain };
	struct sqt *s = test->priv;
	int i;

	if (!s)
		return;

	sqt_set_default(s, NULL);
	sqt_release(s);
	for (i = 0; i < ARRAY_SIZE(s->dev); i++)
		sqt_dev_destroy(s, i);
	if (s->sock)
		sock_release(s->sock);

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		sqt_stop_reading(kinds[i]);
		if (kinds[i]->registered)
			unregister_qdisc(&kinds[i]->ops);
		kinds[i]->registered = false;
		KUNIT_EXPECT_EQ(test, kinds[i]->members, 0);
		KUNIT_EXPECT_EQ(test, kinds[i]->blocks, 0);
		KUNIT_EXPECT_EQ(test, kinds[i]->qdiscs, 0);
	}
	sqt_now = NULL;
}

/* Blocks */

static void sqt_test_one_block(struct kunit *test)
{
	struct sqt *s = test->priv;
	int q;

	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_ASSERT_EQ(test, sqt_add(s, q, "sqt_a"), 0);

	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "A.new2; A.check2; A.assign2; "
			 "A.new3; A.check3; A.assign3; "
			 "A.new4; A.check4; A.assign4; ");
	KUNIT_ASSERT_NOT_NULL(test, sqt_a.block);
	for (q = 1; q <= SQT_QUEUES; q++) {
		KUNIT_EXPECT_NOT_NULL(test, sqt_child(s, 0, q)->shared);
		KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, q), sqt_a.block);
	}
}

static void sqt_test_init_parent(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_EXPECT_STREQ(test, sqt_root(s, 0)->ops->id, s->parent);
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.init_parent, sqt_root(s, 0));
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.check_parent, sqt_root(s, 0));
}

static void sqt_test_two_kinds(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_b"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 3, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 4, "sqt_b"), 0);

	/* Kinds do not mix, although they have the same owner. */
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "B.new2; B.init; B.check2; B.assign2; "
			 "A.new3; A.check3; A.assign3; "
			 "B.new4; B.check4; B.assign4; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.ops.owner, sqt_b.ops.owner);
	KUNIT_EXPECT_PTR_NE(test, sqt_a.block, sqt_b.block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_a.block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 2), sqt_b.block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 3), sqt_a.block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 4), sqt_b.block);
}

static void sqt_test_two_parents(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_dev_create(test, 1);
	KUNIT_ASSERT_EQ(test, sqt_dev_open(s, 1), 0);
	KUNIT_ASSERT_EQ(test, sqt_set_root(s, 1, SQT_H(1), s->parent), 0);

	KUNIT_ASSERT_EQ(test, sqt_add_to(s, 0, SQT_Q(1), "sqt_a", 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.init_parent, sqt_root(s, 0));
	KUNIT_ASSERT_EQ(test, sqt_add_to(s, 1, SQT_Q(1), "sqt_a", 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.init_parent, sqt_root(s, 1));
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "A.new1; A.init; A.check1; A.assign1; ");
	KUNIT_EXPECT_NOT_NULL(test, sqt_shared(s, 0, 1));
	KUNIT_EXPECT_PTR_NE(test, sqt_shared(s, 0, 1), sqt_shared(s, 1, 1));

	/* The end of one is not the end of the other. */
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	SQT_EXPECT_TRACE(test, "A.detach1; A.exit; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 1, 1), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_a.blocks, 1);
}

static const unsigned int sqt_sizes[] = {
	sizeof(struct sqt_block), 13, 32, 64, 77, 129, 1000, 4096, 20000,
};

static void sqt_size_desc(const unsigned int *size, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u", *size);
}

KUNIT_ARRAY_PARAM(sqt_sizes, sqt_sizes, sqt_size_desc);

/* ->shared_init() looks at the block; this offers it dirty and odd memory. */
static void sqt_test_zeroed_aligned(struct kunit *test)
{
	const unsigned int *size = test->param_value;
	size_t total = ALIGN(*size + SMP_CACHE_BYTES, SMP_CACHE_BYTES);
	struct sqt *s = test->priv;
	void *dirt[16];
	int i, round;

	sqt_a.ops.shared_size = *size;
	for (round = 0; round < 8; round++) {
		/* Shifts what comes next if objects have an odd distance */
		KUNIT_ASSERT_NOT_NULL(test, kunit_kmalloc(test, *size + 64,
							  GFP_KERNEL));
		for (i = 0; i < ARRAY_SIZE(dirt); i++) {
			dirt[i] = kmalloc(total, GFP_KERNEL);
			if (dirt[i])
				memset(dirt[i], 0xa5, total);
		}
		for (i = 0; i < ARRAY_SIZE(dirt); i++)
			kfree(dirt[i]);

		KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
		SQT_EXPECT_TRACE(test, "A.new1; A.init; A.check1; A.assign1; ");
		memset(sqt_a.block, 0xa5, *size);
		KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
		SQT_EXPECT_TRACE(test,
				 "A.detach1; A.exit; A.reset1; A.free1; ");
	}
}

static void sqt_test_init_again(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_a.block->cookie = 1;
	sqt_forget(s);

	/* While there is a member there is the block */
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 3, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(2)), 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach1; A.reset1; A.free1; "
			 "A.new3; A.check3; A.assign3; "
			 "A.detach2; A.reset2; A.free2; ");
	KUNIT_EXPECT_EQ(test, sqt_shared(s, 0, 3)->cookie, 1);

	/* and afterwards there is another. */
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(3)), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 4, "sqt_a"), 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach3; A.exit; A.reset3; A.free3; "
			 "A.new4; A.init; A.check4; A.assign4; ");
	KUNIT_EXPECT_EQ(test, sqt_shared(s, 0, 4)->cookie, 0);
}

static void sqt_test_optional_ops(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_a.ops.shared_init = NULL;
	sqt_a.ops.shared_exit = NULL;
	sqt_a.ops.shared_check = NULL;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	KUNIT_EXPECT_NOT_NULL(test, sqt_shared(s, 0, 1));
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_shared(s, 0, 2));
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(2)), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.assign1; A.new2; A.assign2; "
			 "A.detach1; A.reset1; A.free1; "
			 "A.detach2; A.reset2; A.free2; ");

	KUNIT_ASSERT_EQ(test, sqt_set_root(s, 0, SQT_H(2), "sqt_a"), 0);
	SQT_EXPECT_TRACE(test, "A.new1; ");
}

static void sqt_test_plain_kind(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1)->ops, &sqt_plain.ops);
	KUNIT_EXPECT_NULL(test, sqt_child(s, 0, 1)->shared);
	KUNIT_EXPECT_NULL(test, sqt_root(s, 0)->shared);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	KUNIT_ASSERT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	SQT_EXPECT_TRACE(test,
			 "P.new1; P.new1; P.reset1; P.free1; "
			 "P.reset1; P.free1; ");
}

/* Traffic */

static void sqt_test_traffic(struct kunit *test)
{
	struct sqt *s = test->priv;
	int q;

	for (q = 1; q < SQT_QUEUES; q++)
		KUNIT_ASSERT_EQ(test, sqt_add(s, q, "sqt_a"), 0);

	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 2), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 2), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 4), NET_XMIT_SUCCESS);

	KUNIT_EXPECT_EQ(test, sqt_sent(s, 0), 4);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 1), 1);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 2), 2);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 3), 0);

	/* What one member counted, the others see. */
	for (q = 1; q < SQT_QUEUES; q++)
		KUNIT_EXPECT_EQ(test,
				atomic_read(&sqt_shared(s, 0, q)->packets), 3);
	KUNIT_EXPECT_NULL(test, sqt_child(s, 0, 4)->shared);
}

/* Refusals */

static void sqt_test_init_fails(struct kunit *test)
{
	struct sqt *s = test->priv;
	struct Qdisc *old;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_b"), 0);
	old = sqt_child(s, 0, 1);
	sqt_forget(s);

	sqt_a.init_err = -ENOSPC;
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), -ENOSPC);
	KUNIT_EXPECT_STREQ(test, s->msg, "sqt: init failed");
	SQT_EXPECT_TRACE(test, "A.new1; A.init; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), old);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_b.block);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 1), 1);

	/* Nothing is left that would be in the way of another attempt. */
	sqt_a.init_err = 0;
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "B.detach1; B.exit; B.reset1; B.free1; ");
}

static void sqt_test_no_memory(struct kunit *test)
{
	unsigned int size = sqt_a.ops.shared_size;
	struct sqt *s = test->priv;
	struct Qdisc *old;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_b"), 0);
	old = sqt_child(s, 0, 1);
	sqt_forget(s);

	sqt_a.ops.shared_size = 2 * KMALLOC_MAX_SIZE;
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), -ENOMEM);
	KUNIT_EXPECT_TRUE(test, strstarts(s->msg, "No memory for the state"));
	SQT_EXPECT_TRACE(test, "A.new1; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), old);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 1), 1);

	sqt_a.ops.shared_size = size;
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "B.detach1; B.exit; B.reset1; B.free1; ");
}

static void sqt_test_check_refuses_first(struct kunit *test)
{
	struct sqt *s = test->priv;
	struct Qdisc *old;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_b"), 0);
	old = sqt_child(s, 0, 1);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, SQT_Q(1), "sqt_a", SQT_REFUSE),
			-EPERM);
	KUNIT_EXPECT_STREQ(test, s->msg, "sqt: refused");

	/* The block that was made for it goes with it, and exit follows init */
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.exit; "
			 "A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), old);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 1), 1);

	/* and the next one gets one of its own. */
	KUNIT_EXPECT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	SQT_EXPECT_TRACE(test, "A.new2; A.init; A.check2; A.assign2; ");
}

static void sqt_test_check_refuses_later(struct kunit *test)
{
	struct sqt_block *block;
	struct sqt *s = test->priv;
	struct Qdisc *old;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	old = sqt_child(s, 0, 1);
	block = sqt_a.block;
	block->cookie = 1;
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, SQT_Q(2), "sqt_a", SQT_REFUSE),
			-EPERM);
	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, SQT_Q(1), "sqt_a", SQT_REFUSE),
			-EPERM);
	KUNIT_EXPECT_STREQ(test, s->msg, "sqt: refused");
	SQT_EXPECT_TRACE(test,
			 "A.new2; A.check2; A.reset2; A.free2; "
			 "A.new1; A.check1; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), old);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), block);
	KUNIT_EXPECT_EQ(test, block->cookie, 1);
}

static void sqt_test_check_before_deactivation(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, SQT_Q(1), "sqt_a", SQT_REFUSE),
			-EPERM);
	KUNIT_EXPECT_TRUE(test, sqt_a.check_live);

	sqt_a.check_live = false;
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_EXPECT_TRUE(test, sqt_a.check_live);

	sqt_a.check_live = false;
	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, TC_H_ROOT, "sqt_a", SQT_INSIST),
			-EOPNOTSUPP);
	KUNIT_EXPECT_TRUE(test, sqt_a.check_live);
}

static const struct sqt_place {
	const char	*desc;
	const char	*parent;	/* NULL: A itself becomes the root */
	u32		options;
	int		err;
	const char	*trace;
} sqt_places[] = {
	{
		.desc		= "root_insists",
		.options	= SQT_INSIST,
		.err		= -EOPNOTSUPP,
		.trace		= "A.new1; A.ask1; A.reset1; A.free1; ",
	}, {
		.desc		= "root",
		.trace		= "A.new1; A.ask1; ",
	}, {
		.desc		= "prio_insists",
		.parent		= "prio",
		.options	= SQT_INSIST,
		.err		= -EOPNOTSUPP,
		.trace		= "A.new1; A.ask1; A.reset1; A.free1; ",
	}, {
		.desc		= "prio",
		.parent		= "prio",
		.trace		= "A.new1; A.ask1; ",
	}, {
		.desc		= "mq_insists",
		.parent		= "mq",
		.options	= SQT_INSIST,
		.trace		= "A.new1; A.init; A.check1; A.assign1; ",
	}, {
		.desc		= "mq",
		.parent		= "mq",
		.trace		= "A.new1; A.init; A.check1; A.assign1; ",
	}, {
		.desc		= "mqprio_insists",
		.parent		= "mqprio",
		.options	= SQT_INSIST,
		.trace		= "A.new1; A.init; A.check1; A.assign1; ",
	}, {
		.desc		= "mqprio",
		.parent		= "mqprio",
		.trace		= "A.new1; A.init; A.check1; A.assign1; ",
	},
};

KUNIT_ARRAY_PARAM_DESC(sqt_places, sqt_places, desc);

static struct Qdisc *sqt_leaf(struct Qdisc *parent, u32 classid)
{
	struct Qdisc *sch;

	rtnl_lock();
	sch = parent->ops->cl_ops->leaf(parent,
					parent->ops->cl_ops->find(parent,
								  classid));
	rtnl_unlock();
	return sch;
}

static void sqt_test_parent(struct kunit *test)
{
	const struct sqt_place *place = test->param_value;
	struct Qdisc *parent = NULL, *old, *new;
	struct sqt *s = test->priv;
	u32 where = TC_H_ROOT;
	int err;

	if (place->parent) {
		err = sqt_set_root(s, 0, SQT_H(2), place->parent);
		if (err == -ENOENT)
			kunit_skip(test, "no %s", place->parent);
		KUNIT_ASSERT_EQ(test, err, 0);
		parent = sqt_root(s, 0);
		where = TC_H_MAKE(SQT_H(2), 1);
	}

	old = parent ? sqt_leaf(parent, where) : sqt_root(s, 0);
	sqt_forget(s);
	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, where, "sqt_a", place->options),
			place->err);
	SQT_EXPECT_TRACE(test, place->trace);
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.check_parent, parent);
	KUNIT_EXPECT_TRUE(test, sqt_a.check_live);

	new = parent ? sqt_leaf(parent, where) : sqt_root(s, 0);
	if (place->err) {
		KUNIT_EXPECT_STREQ(test, s->msg, "sqt: nothing to share here");
		KUNIT_EXPECT_PTR_EQ(test, new, old);
	} else {
		KUNIT_EXPECT_PTR_EQ(test, new->ops, &sqt_a.ops);
		KUNIT_EXPECT_EQ(test, !!new->shared, !!sqt_a.block);
	}
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_sent(s, 0), 1);
}

/* Changes of one child */

static void sqt_test_replace_same_kind(struct kunit *test)
{
	struct sqt *s = test->priv;
	struct Qdisc *old;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	sqt_a.block->cookie = 1;
	old = sqt_child(s, 0, 1);
	sqt_forget(s);

	/* The only one leaves, its state stays. */
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.check1; A.assign1; "
			 "A.detach1; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_NE(test, sqt_child(s, 0, 1), old);
	KUNIT_ASSERT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_a.block->cookie, 1);

	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_sent(s, 0), 2);
	KUNIT_EXPECT_EQ(test, sqt_packets(s, 0, 1), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&sqt_a.block->packets), 2);
}

static void sqt_test_replace_other_kind(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_b"), 0);
	SQT_EXPECT_TRACE(test,
			 "B.new1; B.init; B.check1; B.assign1; "
			 "A.detach1; A.reset1; A.free1; ");
	KUNIT_EXPECT_EQ(test, sqt_add(s, 2, "sqt_b"), 0);
	SQT_EXPECT_TRACE(test,
			 "B.new2; B.check2; B.assign2; "
			 "A.detach2; A.exit; A.reset2; A.free2; ");
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	KUNIT_EXPECT_EQ(test, sqt_add(s, 2, "pfifo"), 0);
	SQT_EXPECT_TRACE(test,
			 "P.new1; B.detach1; B.reset1; B.free1; "
			 "B.detach2; B.exit; B.reset2; B.free2; ");
}

static void sqt_test_delete_child(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	SQT_EXPECT_TRACE(test, "A.detach1; A.reset1; A.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), &noop_qdisc);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 2), sqt_a.block);

	KUNIT_EXPECT_EQ(test, sqt_del(s, SQT_Q(2)), 0);
	SQT_EXPECT_TRACE(test, "A.detach2; A.exit; A.reset2; A.free2; ");
}

/* Leaving does not wait for the end of a qdisc that somebody still holds. */
static void sqt_test_leave_at_graft(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_hold(s, sqt_child(s, 0, 1));
	sqt_hold(s, sqt_child(s, 0, 2));
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	SQT_EXPECT_TRACE(test, "P.new1; A.detach1; ");
	KUNIT_EXPECT_EQ(test, sqt_del(s, SQT_Q(2)), 0);
	SQT_EXPECT_TRACE(test, "A.detach2; A.exit; ");
	sqt_release(s);
	SQT_EXPECT_TRACE(test, "A.reset1; A.free1; A.reset2; A.free2; ");
}

/* One that left and is still held can be brought back by its handle. */
static void sqt_test_join_again(struct kunit *test)
{
	struct sqt *s = test->priv;
	struct Qdisc *child;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	sqt_a.block->cookie = 1;
	child = sqt_child(s, 0, 1);
	sqt_hold(s, child);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_tc(s, 0, RTM_NEWQDISC, SQT_Q(1),
				     child->handle, "sqt_a", NULL, 0), 0);
	SQT_EXPECT_TRACE(test,
			 "A.init; A.check1; A.assign1; P.reset1; P.free1; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_child(s, 0, 1), child);
	KUNIT_ASSERT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_a.block->cookie, 0);

	sqt_release(s);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_EQ(test, sqt_del(s, SQT_Q(1)), 0);
	SQT_EXPECT_TRACE(test, "A.detach1; A.exit; A.reset1; A.free1; ");
}

/* What no message can ask for: the very same child once more */
static void sqt_test_graft_twice(struct kunit *test)
{
	struct netlink_ext_ack extack = {};
	struct Qdisc *child, *old = NULL;
	struct sqt *s = test->priv;
	struct Qdisc *parent;
	int err;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	child = sqt_child(s, 0, 1);
	parent = sqt_root(s, 0);
	sqt_forget(s);

	rtnl_lock();
	err = parent->ops->cl_ops->graft(parent, 1, child, &old, &extack);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_PTR_EQ(test, old, child);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&sqt_a.block->packets), 1);
}

/* A child that is still held below a root that is still held, wanted below the
 * next root of that handle
 */
static void sqt_test_graft_elsewhere(struct kunit *test)
{
	struct sqt *s = test->priv;
	struct Qdisc *child;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	child = sqt_child(s, 0, 1);
	sqt_hold(s, sqt_root(s, 0));
	sqt_hold(s, child);
	KUNIT_ASSERT_EQ(test, sqt_del(s, TC_H_ROOT), 0);
	KUNIT_ASSERT_EQ(test, sqt_set_root(s, 0, SQT_H(1), s->parent), 0);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_tc(s, 0, RTM_NEWQDISC, SQT_Q(1),
				     child->handle, "sqt_a", NULL, 0), -EBUSY);
	KUNIT_EXPECT_TRUE(test, strstarts(s->msg, "Qdisc still shares state"));
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_PTR_NE(test, sqt_child(s, 0, 1), child);
	sqt_release(s);
	SQT_EXPECT_TRACE(test, "A.detach1; A.exit; A.reset1; A.free1; ");
}

/* mqprio has classes that are no queues; no message gets as far as ->graft() */
static void sqt_test_traffic_class(struct kunit *test)
{
	struct netlink_ext_ack extack = {};
	struct Qdisc *child, *old = NULL;
	struct sqt *s = test->priv;
	struct Qdisc *parent;
	int err;

	KUNIT_EXPECT_EQ(test, sqt_add(s, TC_H_MIN_PRIORITY, "sqt_a"), -EINVAL);
	SQT_EXPECT_TRACE(test, "");

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	child = sqt_child(s, 0, 1);
	parent = sqt_root(s, 0);
	sqt_forget(s);
	rtnl_lock();
	err = parent->ops->cl_ops->graft(parent, TC_H_MIN_PRIORITY, child, &old,
					 &extack);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, err, -EINVAL);
	SQT_EXPECT_TRACE(test, "");
}

/* Changes of the device */

static void sqt_test_link_down_up(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_a.block->cookie = 1;
	sqt_forget(s);

	sqt_dev_close(s, 0);
	SQT_EXPECT_TRACE(test, "A.reset1; A.reset2; ");
	KUNIT_EXPECT_EQ(test, sqt_dev_open(s, 0), 0);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_ASSERT_PTR_EQ(test, sqt_shared(s, 0, 1), sqt_a.block);
	KUNIT_ASSERT_PTR_EQ(test, sqt_shared(s, 0, 2), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_a.block->cookie, 1);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 2), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&sqt_a.block->packets), 1);
}

static void sqt_test_change_while_down(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_dev_close(s, 0);
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_EXPECT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	KUNIT_EXPECT_EQ(test, sqt_add(s, 1, "sqt_plain"), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.assign1; "
			 "A.new2; A.check2; A.assign2; "
			 "P.new1; A.detach1; A.reset1; A.free1; ");
	KUNIT_EXPECT_EQ(test, sqt_dev_open(s, 0), 0);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 2), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&sqt_a.block->packets), 1);
}

static void sqt_test_queue_count(struct kunit *test)
{
	struct sqt *s = test->priv;
	int q;

	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_ASSERT_EQ(test, sqt_add(s, q, "sqt_a"), 0);
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_dev_set_queues(s, 0, 2), 0);
	SQT_EXPECT_TRACE(test, "A.reset3; A.reset4; ");
	KUNIT_EXPECT_EQ(test, sqt_dev_set_queues(s, 0, SQT_QUEUES), 0);
	SQT_EXPECT_TRACE(test, "");
	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, q), sqt_a.block);
}

static void sqt_test_queue_count_default(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_set_default(s, &sqt_a);
	KUNIT_ASSERT_EQ(test, sqt_dev_set_queues(s, 0, 2), 0);
	KUNIT_ASSERT_EQ(test, sqt_set_root(s, 0, SQT_H(2), s->parent), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; "
			 "A.assign1; A.assign2; ");

	/* Queues that come later have had their children, if not these, */
	KUNIT_EXPECT_EQ(test, sqt_dev_set_queues(s, 0, SQT_QUEUES), 0);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_STREQ(test, sqt_child(s, 0, 3)->ops->id, "pfifo_fast");
	KUNIT_EXPECT_NULL(test, sqt_child(s, 0, 3)->shared);

	/* and may get them. */
	KUNIT_EXPECT_EQ(test, sqt_add_to(s, 0, TC_H_MAKE(SQT_H(2), 3), "sqt_a",
					 0), 0);
	SQT_EXPECT_TRACE(test, "A.new3; A.check3; A.assign3; ");

	KUNIT_EXPECT_EQ(test, sqt_dev_set_queues(s, 0, 1), 0);
	SQT_EXPECT_TRACE(test, "A.reset2; A.reset3; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 2), sqt_a.block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 3), sqt_a.block);
}

static void sqt_test_default_at_open(struct kunit *test)
{
	struct sqt *s = test->priv;
	int q;

	sqt_set_default(s, &sqt_a);
	sqt_dev_create(test, 1);
	SQT_EXPECT_TRACE(test, "");
	KUNIT_EXPECT_EQ(test, sqt_dev_open(s, 1), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; "
			 "A.new3; A.check3; A.new4; A.check4; "
			 "A.assign1; A.assign2; A.assign3; A.assign4; ");
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.init_parent, sqt_root(s, 1));
	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 1, q), sqt_a.block);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 1, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 1, 4), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&sqt_a.block->packets), 2);
}

static void sqt_test_default_refuses_at_open(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_set_default(s, &sqt_a);
	sqt_a.check_fails = 2;
	sqt_dev_create(test, 1);
	KUNIT_EXPECT_EQ(test, sqt_dev_open(s, 1), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; A.exit; "
			 "A.reset1; A.free1; A.reset2; A.free2; ");
	KUNIT_EXPECT_STREQ(test, sqt_root(s, 1)->ops->id, "noqueue");
}

static const struct sqt_removal {
	const char	*desc;
	bool		down;
	const char	*trace;
} sqt_removals[] = {
	{
		.desc	= "up",
		.trace	= "A.reset1; A.reset2; B.reset3; "
			  "A.detach1; A.reset1; A.free1; "
			  "A.detach2; A.exit; A.reset2; A.free2; "
			  "B.detach3; B.exit; B.reset3; B.free3; ",
	}, {
		.desc	= "down",
		.down	= true,
		.trace	= "A.detach1; A.reset1; A.free1; "
			  "A.detach2; A.exit; A.reset2; A.free2; "
			  "B.detach3; B.exit; B.reset3; B.free3; ",
	},
};

KUNIT_ARRAY_PARAM_DESC(sqt_removals, sqt_removals, desc);

static void sqt_test_device_removed(struct kunit *test)
{
	const struct sqt_removal *removal = test->param_value;
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 3, "sqt_b"), 0);
	if (removal->down)
		sqt_dev_close(s, 0);
	sqt_forget(s);

	sqt_dev_destroy(s, 0);
	SQT_EXPECT_TRACE(test, removal->trace);
}

/* Changes of the root */

static void sqt_join_all(struct kunit *test, const char *kind)
{
	struct sqt *s = test->priv;
	int q;

	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_ASSERT_EQ(test, sqt_add(s, q, kind), 0);
	sqt_forget(s);
}

static const struct sqt_new_root {
	const char	*desc;
	const char	*kind;	/* NULL: just delete the old one */
} sqt_parents[] = {
	{ .desc = "mq",		.kind = "mq", },
	{ .desc = "mqprio",	.kind = "mqprio", },
};

KUNIT_ARRAY_PARAM_DESC(sqt_parents, sqt_parents, desc);

/* The old root goes before its children. */
static void sqt_test_root_by_parent(struct kunit *test)
{
	const struct sqt_new_root *root = test->param_value;
	struct sqt *s = test->priv;
	int err, q;

	sqt_join_all(test, "sqt_a");
	sqt_set_default(s, &sqt_b);
	err = sqt_set_root(s, 0, SQT_H(2), root->kind);
	if (err == -ENOENT)
		kunit_skip(test, "no %s", root->kind);
	KUNIT_EXPECT_EQ(test, err, 0);
	SQT_EXPECT_TRACE(test,
			 "B.new1; B.init; B.check1; B.new2; B.check2; "
			 "B.new3; B.check3; B.new4; B.check4; "
			 "A.detach1; A.detach2; A.detach3; A.detach4; A.exit; "
			 "B.assign1; A.reset1; A.free1; "
			 "B.assign2; A.reset2; A.free2; "
			 "B.assign3; A.reset3; A.free3; "
			 "B.assign4; A.reset4; A.free4; ");
	KUNIT_EXPECT_TRUE(test, sqt_b.check_live);
	KUNIT_EXPECT_STREQ(test, sqt_root(s, 0)->ops->id, root->kind);
	KUNIT_EXPECT_PTR_EQ(test, sqt_b.init_parent, sqt_root(s, 0));
	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, q), sqt_b.block);
}

static void sqt_test_root_by_parent_same_kind(struct kunit *test)
{
	const struct sqt_new_root *root = test->param_value;
	struct sqt *s = test->priv;
	struct sqt_block *block;
	struct Qdisc *old;
	int err, q;

	sqt_join_all(test, "sqt_a");
	block = sqt_a.block;
	old = sqt_root(s, 0);
	sqt_set_default(s, &sqt_a);
	err = sqt_set_root(s, 0, SQT_H(2), root->kind);
	if (err == -ENOENT)
		kunit_skip(test, "no %s", root->kind);
	KUNIT_EXPECT_EQ(test, err, 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; "
			 "A.new3; A.check3; A.new4; A.check4; "
			 "A.detach1; A.detach2; A.detach3; A.detach4; A.exit; "
			 "A.assign1; A.reset1; A.free1; "
			 "A.assign2; A.reset2; A.free2; "
			 "A.assign3; A.reset3; A.free3; "
			 "A.assign4; A.reset4; A.free4; ");

	/* Another parent, another block */
	KUNIT_EXPECT_PTR_NE(test, sqt_a.init_parent, old);
	KUNIT_EXPECT_PTR_EQ(test, sqt_a.init_parent, sqt_root(s, 0));
	KUNIT_EXPECT_PTR_NE(test, sqt_a.block, block);
	for (q = 1; q <= SQT_QUEUES; q++)
		KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, q), sqt_a.block);
}

static const struct sqt_new_root sqt_others[] = {
	{ .desc = "pfifo",	.kind = "pfifo", },
	{ .desc = "pfifo_fast",	.kind = "pfifo_fast", },
	{ .desc = "noqueue",	.kind = "noqueue", },
	{ .desc = "prio",	.kind = "prio", },
	{ .desc = "none", },
};

KUNIT_ARRAY_PARAM_DESC(sqt_others, sqt_others, desc);

/* The old root goes after its children. */
static void sqt_test_root_by_other(struct kunit *test)
{
	const struct sqt_new_root *root = test->param_value;
	struct sqt *s = test->priv;
	int err;

	sqt_join_all(test, "sqt_a");
	if (root->kind)
		err = sqt_set_root(s, 0, SQT_H(2), root->kind);
	else
		err = sqt_del(s, TC_H_ROOT);
	if (err == -ENOENT)
		kunit_skip(test, "no %s", root->kind);
	KUNIT_EXPECT_EQ(test, err, 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach1; A.reset1; A.free1; "
			 "A.detach2; A.reset2; A.free2; "
			 "A.detach3; A.reset3; A.free3; "
			 "A.detach4; A.exit; A.reset4; A.free4; ");
	KUNIT_EXPECT_STREQ(test, sqt_root(s, 0)->ops->id, root->kind ?: "mq");
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_sent(s, 0), 1);
}

/* The old root goes while somebody holds a child. */
static void sqt_test_child_outlives_root(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_hold(s, sqt_child(s, 0, 1));
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_del(s, TC_H_ROOT), 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach2; A.reset2; A.free2; A.detach1; A.exit; ");
	sqt_release(s);
	SQT_EXPECT_TRACE(test, "A.reset1; A.free1; ");
}

/* The old root stays, because somebody holds it and a child. */
static void sqt_test_root_outlives_child(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	sqt_hold(s, sqt_root(s, 0));
	sqt_hold(s, sqt_child(s, 0, 1));
	sqt_forget(s);

	KUNIT_EXPECT_EQ(test, sqt_set_root(s, 0, SQT_H(2), s->parent), 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach1; A.detach2; A.exit; A.reset2; A.free2; ");
	sqt_release(s);
	SQT_EXPECT_TRACE(test, "A.reset1; A.free1; ");
}

static const struct sqt_failure {
	const char	*desc;
	unsigned int	new_fails;
	int		init_err;
	unsigned int	check_fails;
	int		err;
	const char	*msg;
	const char	*trace;
} sqt_failures[] = {
	{
		.desc		= "first_child",
		.new_fails	= 1,
		.err		= -ENOMEM,
		.msg		= "sqt: no new qdisc",
		.trace		= "A.new1; A.reset1; A.free1; ",
	}, {
		.desc		= "third_child",
		.new_fails	= 3,
		.err		= -ENOMEM,
		.msg		= "sqt: no new qdisc",
		.trace		= "A.new1; A.init; A.check1; A.new2; A.check2; "
				  "A.new3; A.reset3; A.free3; A.exit; "
				  "A.reset1; A.free1; A.reset2; A.free2; ",
	}, {
		.desc		= "init",
		.init_err	= -ENOSPC,
		.err		= -ENOSPC,
		.msg		= "sqt: init failed",
		.trace		= "A.new1; A.init; A.reset1; A.free1; ",
	}, {
		.desc		= "first_check",
		.check_fails	= 1,
		.err		= -EPERM,
		.msg		= "sqt: refused",
		.trace		= "A.new1; A.init; A.check1; A.exit; "
				  "A.reset1; A.free1; ",
	}, {
		.desc		= "last_check",
		.check_fails	= 4,
		.err		= -EPERM,
		.msg		= "sqt: refused",
		.trace		= "A.new1; A.init; A.check1; A.new2; A.check2; "
				  "A.new3; A.check3; A.new4; A.check4; "
				  "A.exit; A.reset1; A.free1; "
				  "A.reset2; A.free2; A.reset3; A.free3; "
				  "A.reset4; A.free4; ",
	},
};

KUNIT_ARRAY_PARAM_DESC(sqt_failures, sqt_failures, desc);

/* Prepared, never attached, beside those that the failed one would replace */
static void sqt_test_failed_root(struct kunit *test)
{
	const struct sqt_failure *failure = test->param_value;
	struct sqt *s = test->priv;
	struct sqt_block *block;
	struct Qdisc *root;

	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 2, "sqt_a"), 0);
	KUNIT_ASSERT_EQ(test, sqt_add(s, 3, "sqt_b"), 0);
	block = sqt_a.block;
	root = sqt_root(s, 0);
	sqt_forget(s);

	sqt_set_default(s, &sqt_a);
	sqt_a.new_fails = failure->new_fails;
	sqt_a.init_err = failure->init_err;
	sqt_a.check_fails = failure->check_fails;
	KUNIT_EXPECT_EQ(test, sqt_set_root(s, 0, SQT_H(2), s->parent),
			failure->err);
	KUNIT_EXPECT_STREQ(test, s->msg, failure->msg);
	SQT_EXPECT_TRACE(test, failure->trace);

	KUNIT_EXPECT_PTR_EQ(test, sqt_root(s, 0), root);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 1), block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 2), block);
	KUNIT_EXPECT_PTR_EQ(test, sqt_shared(s, 0, 3), sqt_b.block);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 1), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, sqt_send(s, 0, 2), NET_XMIT_SUCCESS);
	KUNIT_EXPECT_EQ(test, atomic_read(&block->packets), 2);
}

/* Offload: the driver is asked when the children are ready, if they all are. */
static void sqt_test_offload(struct kunit *test)
{
	struct sqt *s = test->priv;

	KUNIT_ASSERT_EQ(test, sqt_del(s, TC_H_ROOT), 0);
	sqt_set_default(s, &sqt_a);

	s->hw_err = -EIO;
	KUNIT_EXPECT_EQ(test, sqt_set_mqprio(s, 0, SQT_H(2), true), -EIO);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; "
			 "A.new3; A.check3; A.new4; A.check4; hw2; A.exit; "
			 "A.reset1; A.free1; A.reset2; A.free2; "
			 "A.reset3; A.free3; A.reset4; A.free4; ");
	s->hw_err = 0;

	sqt_a.check_fails = 2;
	KUNIT_EXPECT_EQ(test, sqt_set_mqprio(s, 0, SQT_H(2), true), -EPERM);
	KUNIT_EXPECT_STREQ(test, s->msg, "sqt: refused");
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; A.exit; "
			 "A.reset1; A.free1; A.reset2; A.free2; ");
	sqt_a.check_fails = 0;

	KUNIT_EXPECT_EQ(test, sqt_set_mqprio(s, 0, SQT_H(2), true), 0);
	SQT_EXPECT_TRACE(test,
			 "A.new1; A.init; A.check1; A.new2; A.check2; "
			 "A.new3; A.check3; A.new4; A.check4; hw2; "
			 "A.assign1; A.assign2; A.assign3; A.assign4; ");
	KUNIT_EXPECT_EQ(test, netdev_get_num_tc(s->dev[0]), 2);

	sqt_set_default(s, NULL);
	KUNIT_EXPECT_EQ(test, sqt_del(s, TC_H_ROOT), 0);
	SQT_EXPECT_TRACE(test,
			 "A.detach1; A.reset1; A.free1; "
			 "A.detach2; A.reset2; A.free2; "
			 "A.detach3; A.reset3; A.free3; "
			 "A.detach4; A.exit; A.reset4; A.free4; hw0; ");
}

/* Memory */

/* A read side critical section begins in ->shared_detach() of the last member
 * and ends in its ->reset(). The block is given up in between, so until the end
 * it must neither change nor be what the allocator hands out next.
 */
static void sqt_test_reader(struct kunit *test)
{
	struct sqt *s = test->priv;

	sqt_a.ops.shared_size = 3000;
	KUNIT_ASSERT_EQ(test, sqt_add(s, 1, "sqt_a"), 0);
	memset(sqt_a.block, SQT_PATTERN, sqt_a.ops.shared_size);
	sqt_forget(s);

	sqt_a.read = true;
	KUNIT_EXPECT_EQ(test, sqt_del(s, TC_H_ROOT), 0);
	SQT_EXPECT_TRACE(test, "A.detach1; A.exit; A.reset1; A.free1; ");
	KUNIT_EXPECT_NULL(test, sqt_a.reading);
	KUNIT_EXPECT_FALSE(test, sqt_a.read_changed);
	KUNIT_EXPECT_FALSE(test, sqt_a.read_reused);
}

/* Registration */

static const struct sqt_ops {
	const char	*desc;
	unsigned int	size;
	bool		init;
	bool		exit;
	bool		check;
	bool		assign;
	bool		detach;
	int		err;
} sqt_opses[] = {
	{ "nothing" },
	{ "all", 1, true, true, true, true, true },
	{ "required", 1, .assign = true, .detach = true },
	{ "size", 1, .err = -EINVAL },
	{ "no_assign", 1, true, true, true, .detach = true, .err = -EINVAL },
	{ "no_detach", 1, true, true, true, .assign = true, .err = -EINVAL },
	{ "no_size", 0, true, true, true, true, true, -EINVAL },
	{ "init", .init = true, .err = -EINVAL },
	{ "exit", .exit = true, .err = -EINVAL },
	{ "check", .check = true, .err = -EINVAL },
	{ "assign", .assign = true, .err = -EINVAL },
	{ "detach", .detach = true, .err = -EINVAL },
};

KUNIT_ARRAY_PARAM_DESC(sqt_opses, sqt_opses, desc);

static void sqt_test_register(struct kunit *test)
{
	const struct sqt_ops *given = test->param_value;
	static struct sqt_kind kind;
	struct Qdisc_ops *ops = &kind.ops;
	int err;

	sqt_kind_setup(&kind, "sqt_r", 'R');
	ops->shared_size = given->size;
	if (given->init)
		ops->shared_init = sqt_a_shared_init;
	if (given->exit)
		ops->shared_exit = sqt_a_shared_exit;
	if (given->check)
		ops->shared_check = sqt_shared_check;
	if (given->assign)
		ops->shared_assign = sqt_shared_assign;
	if (given->detach)
		ops->shared_detach = sqt_shared_detach;

	err = register_qdisc(ops);
	if (!err)
		unregister_qdisc(ops);
	KUNIT_EXPECT_EQ(test, err, given->err);
}

static struct kunit_case sqt_cases[] = {
	KUNIT_CASE(sqt_test_one_block),
	KUNIT_CASE(sqt_test_init_parent),
	KUNIT_CASE(sqt_test_two_kinds),
	KUNIT_CASE(sqt_test_two_parents),
	KUNIT_CASE_PARAM(sqt_test_zeroed_aligned, sqt_sizes_gen_params),
	KUNIT_CASE(sqt_test_init_again),
	KUNIT_CASE(sqt_test_optional_ops),
	KUNIT_CASE(sqt_test_plain_kind),
	KUNIT_CASE(sqt_test_traffic),
	KUNIT_CASE(sqt_test_init_fails),
	KUNIT_CASE(sqt_test_no_memory),
	KUNIT_CASE(sqt_test_check_refuses_first),
	KUNIT_CASE(sqt_test_check_refuses_later),
	KUNIT_CASE(sqt_test_check_before_deactivation),
	KUNIT_CASE_PARAM(sqt_test_parent, sqt_places_gen_params),
	KUNIT_CASE(sqt_test_replace_same_kind),
	KUNIT_CASE(sqt_test_replace_other_kind),
	KUNIT_CASE(sqt_test_delete_child),
	KUNIT_CASE(sqt_test_leave_at_graft),
	KUNIT_CASE(sqt_test_join_again),
	KUNIT_CASE(sqt_test_graft_twice),
	KUNIT_CASE(sqt_test_graft_elsewhere),
	KUNIT_CASE(sqt_test_link_down_up),
	KUNIT_CASE(sqt_test_change_while_down),
	KUNIT_CASE(sqt_test_queue_count),
	KUNIT_CASE(sqt_test_queue_count_default),
	KUNIT_CASE(sqt_test_default_at_open),
	KUNIT_CASE(sqt_test_default_refuses_at_open),
	KUNIT_CASE_PARAM(sqt_test_device_removed, sqt_removals_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_parent, sqt_parents_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_parent_same_kind,
			 sqt_parents_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_other, sqt_others_gen_params),
	KUNIT_CASE(sqt_test_child_outlives_root),
	KUNIT_CASE(sqt_test_root_outlives_child),
	KUNIT_CASE_PARAM(sqt_test_failed_root, sqt_failures_gen_params),
	KUNIT_CASE(sqt_test_reader),
	KUNIT_CASE_PARAM(sqt_test_register, sqt_opses_gen_params),
	{}
};

static struct kunit_suite sqt_suite = {
	.name		= "qdisc_shared",
	.init		= sqt_init,
	.exit		= sqt_exit,
	.test_cases	= sqt_cases,
};

/* What a parent has a hand in */
static struct kunit_case sqt_mqprio_cases[] = {
	KUNIT_CASE(sqt_test_one_block),
	KUNIT_CASE(sqt_test_init_parent),
	KUNIT_CASE(sqt_test_two_kinds),
	KUNIT_CASE(sqt_test_two_parents),
	KUNIT_CASE(sqt_test_traffic),
	KUNIT_CASE(sqt_test_init_fails),
	KUNIT_CASE(sqt_test_check_refuses_first),
	KUNIT_CASE(sqt_test_check_refuses_later),
	KUNIT_CASE(sqt_test_check_before_deactivation),
	KUNIT_CASE(sqt_test_replace_same_kind),
	KUNIT_CASE(sqt_test_replace_other_kind),
	KUNIT_CASE(sqt_test_delete_child),
	KUNIT_CASE(sqt_test_leave_at_graft),
	KUNIT_CASE(sqt_test_join_again),
	KUNIT_CASE(sqt_test_graft_twice),
	KUNIT_CASE(sqt_test_graft_elsewhere),
	KUNIT_CASE(sqt_test_traffic_class),
	KUNIT_CASE(sqt_test_link_down_up),
	KUNIT_CASE(sqt_test_change_while_down),
	KUNIT_CASE(sqt_test_queue_count),
	KUNIT_CASE(sqt_test_queue_count_default),
	KUNIT_CASE_PARAM(sqt_test_device_removed, sqt_removals_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_parent, sqt_parents_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_parent_same_kind,
			 sqt_parents_gen_params),
	KUNIT_CASE_PARAM(sqt_test_root_by_other, sqt_others_gen_params),
	KUNIT_CASE(sqt_test_child_outlives_root),
	KUNIT_CASE(sqt_test_root_outlives_child),
	KUNIT_CASE_PARAM(sqt_test_failed_root, sqt_failures_gen_params),
	KUNIT_CASE(sqt_test_offload),
	{}
};

static struct kunit_suite sqt_mqprio_suite = {
	.name		= "qdisc_shared_mqprio",
	.init		= sqt_mqprio_init,
	.exit		= sqt_exit,
	.test_cases	= sqt_mqprio_cases,
};

kunit_test_suites(&sqt_suite, &sqt_mqprio_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests for the state that sibling qdiscs share");

/* SPDX-License-Identifier: GPL-2.0 */
/* Included by lab/series/kernel.py ahead of drivers/net/dummy.c of the kernels of make syz: a dummy
 * whose hardware takes tbf, htb, mq and mqprio, of which it does nothing.
 *
 * ethtool -K hw-tc-offload on: it does so, and uses half of its TX queues itself. The group of the
 * device says what it refuses: 0 nothing, 1 everything, n each n-th request. LAB_STOPS in it: each
 * so many-th packet fills the ring of its TX queue, for a while.
 */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>

#define LAB_CLASSES 16 /* of an htb, by number; class 0 is the root */

static struct lab_htb {
	const struct net_device *dev;
	u16 queue[LAB_CLASSES]; /* of a leaf, 0: none */
	u16 parent[LAB_CLASSES];
} lab_htbs[8]; /* under RTNL */

#define LAB_STOPS BIT(8)
#define LAB_PACKETS 37
#define LAB_STOPPED_MS 10

static bool lab_refuses(const struct net_device *dev)
{
	unsigned int each = dev->group % LAB_STOPS;
	static unsigned int requests;

	return each && ++requests % each == 0;
}

static void lab_wake(struct timer_list *timer);

/* One device at a time has queues that are stopped, until the timer ends */
static DEFINE_SPINLOCK(lab_lock);
static struct net_device *lab_stopped;
static DEFINE_TIMER(lab_timer, lab_wake);

static void lab_wake(struct timer_list *timer)
{
	spin_lock_bh(&lab_lock);
	if (lab_stopped)
		netif_tx_wake_all_queues(lab_stopped);
	lab_stopped = NULL;
	spin_unlock_bh(&lab_lock);
}

static void lab_sent(const struct sk_buff *skb)
{
	struct net_device *dev = skb->dev;
	static unsigned int packets;

	if (!(dev->group & LAB_STOPS) || ++packets % LAB_PACKETS)
		return;
	spin_lock_bh(&lab_lock);
	if (!lab_stopped || lab_stopped == dev) {
		lab_stopped = dev;
		netif_tx_stop_queue(skb_get_tx_queue(dev, skb));
		mod_timer(&lab_timer, jiffies + msecs_to_jiffies(LAB_STOPPED_MS));
	}
	spin_unlock_bh(&lab_lock);
}

static int lab_open(struct net_device *dev)
{
	netif_tx_start_all_queues(dev);
	return 0;
}

/* The device is closed: nobody sends by now */
static int lab_stop(struct net_device *dev)
{
	spin_lock_bh(&lab_lock);
	if (lab_stopped == dev)
		lab_stopped = NULL;
	spin_unlock_bh(&lab_lock);
	return 0;
}

static struct lab_htb *lab_htb_of(const struct net_device *dev)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lab_htbs); i++)
		if (lab_htbs[i].dev == dev)
			return &lab_htbs[i];
	return NULL;
}

/* The first TX queue that no leaf has, of those that the device does not use itself */
static u16 lab_free_queue(const struct net_device *dev, const struct lab_htb *htb)
{
	unsigned int queue, i;

	for (queue = dev->real_num_tx_queues; queue < dev->num_tx_queues; queue++) {
		for (i = 0; i < LAB_CLASSES; i++)
			if (htb->queue[i] == queue)
				break;
		if (i == LAB_CLASSES)
			return queue;
	}
	return 0;
}

static int lab_setup_htb(struct net_device *dev, struct tc_htb_qopt_offload *opt)
{
	struct lab_htb *htb = lab_htb_of(opt->command == TC_HTB_CREATE ? NULL : dev);
	u16 minor = opt->classid, up = opt->parent_classid, last = 0, i;

	if (!htb)
		return -ENOSPC;
	if (minor >= LAB_CLASSES)
		return -EINVAL;
	if (opt->parent_classid == TC_HTB_CLASSID_ROOT)
		up = 0;
	switch (opt->command) {
	case TC_HTB_CREATE:
		*htb = (struct lab_htb){ .dev = dev };
		return 0;
	case TC_HTB_DESTROY:
		htb->dev = NULL;
		return 0;
	case TC_HTB_LEAF_ALLOC_QUEUE:
		htb->queue[minor] = lab_free_queue(dev, htb);
		htb->parent[minor] = up;
		opt->qid = htb->queue[minor];
		return opt->qid ? 0 : -ENOSPC;
	case TC_HTB_LEAF_TO_INNER:
		if (up >= LAB_CLASSES)
			return -EINVAL;
		htb->queue[minor] = htb->queue[up];
		htb->parent[minor] = up;
		htb->queue[up] = 0;
		opt->qid = htb->queue[minor];
		return 0;
	case TC_HTB_LEAF_DEL: /* the last queue takes the place of this one */
		for (i = 1; i < LAB_CLASSES; i++)
			if (htb->queue[i] > htb->queue[last])
				last = i;
		opt->classid = last ?: minor;
		opt->qid = htb->queue[last];
		swap(htb->queue[last], htb->queue[minor]);
		htb->queue[minor] = 0;
		return 0;
	case TC_HTB_LEAF_DEL_LAST:
	case TC_HTB_LEAF_DEL_LAST_FORCE:
		htb->queue[htb->parent[minor]] = htb->parent[minor] ? htb->queue[minor] : 0;
		htb->queue[minor] = 0;
		return 0;
	case TC_HTB_NODE_MODIFY:
		return 0;
	case TC_HTB_LEAF_QUERY_QUEUE:
		opt->qid = htb->queue[minor];
		return opt->qid ? 0 : -ENOENT;
	}
	return -EOPNOTSUPP;
}

static int lab_setup_mqprio(struct net_device *dev, struct tc_mqprio_qopt_offload *mqprio)
{
	struct tc_mqprio_qopt *opt = &mqprio->qopt;
	unsigned int i;

	/* As drivers do that check this themselves */
	for (i = 0; i < opt->num_tc; i++)
		if (!opt->count[i] || opt->offset[i] + opt->count[i] > dev->real_num_tx_queues)
			return -EINVAL;
	opt->hw = TC_MQPRIO_HW_OFFLOAD_TCS;
	netdev_reset_tc(dev);
	netdev_set_num_tc(dev, opt->num_tc);
	for (i = 0; i < opt->num_tc; i++)
		netdev_set_tc_queue(dev, i, opt->count[i], opt->offset[i]);
	return 0;
}

static int lab_setup_tc(struct net_device *dev, enum tc_setup_type type, void *data)
{
	const struct tc_htb_qopt_offload *htb = data;
	const struct tc_tbf_qopt_offload *tbf = data;
	const struct tc_mqprio_qopt_offload *mqprio = data;
	const struct tc_query_caps_base *query = data;
	struct tc_mqprio_caps *caps;

	switch (type) {
	case TC_QUERY_CAPS:
		if (query->type != TC_SETUP_QDISC_MQPRIO)
			return -EOPNOTSUPP;
		caps = query->caps;
		caps->validate_queue_counts = dev->group & 1;
		return 0;
	case TC_SETUP_QDISC_MQ:
		return lab_refuses(dev) ? -EIO : 0;
	case TC_SETUP_QDISC_TBF: /* what only goes, or is looked at, is not refused */
		return tbf->command == TC_TBF_REPLACE && lab_refuses(dev) ? -EIO : 0;
	case TC_SETUP_QDISC_MQPRIO:
		if (mqprio->qopt.num_tc && lab_refuses(dev))
			return -EIO;
		return lab_setup_mqprio(dev, data);
	case TC_SETUP_QDISC_HTB:
		/* htb frees a leaf that goes with the qdisc, whatever the answer is: a driver that
		 * keeps it would name it later as the one that moves
		 */
		if (htb->command != TC_HTB_DESTROY && htb->command != TC_HTB_LEAF_DEL &&
		    htb->command != TC_HTB_LEAF_DEL_LAST_FORCE &&
		    htb->command != TC_HTB_LEAF_QUERY_QUEUE && lab_refuses(dev))
			return -EIO;
		return lab_setup_htb(dev, data);
	default:
		return -EOPNOTSUPP;
	}
}

static int lab_set_features(struct net_device *dev, netdev_features_t features)
{
	if (!((features ^ dev->features) & NETIF_F_HW_TC))
		return 0;
	if (lab_htb_of(dev))
		return -EBUSY;
	return netif_set_real_num_tx_queues(dev, features & NETIF_F_HW_TC ?
					    DIV_ROUND_UP(dev->num_tx_queues, 2) :
					    dev->num_tx_queues);
}

/* Where dummy.c names its operations, and sets a device up */
#define ndo_change_carrier ndo_setup_tc = lab_setup_tc, .ndo_set_features = lab_set_features, \
	.ndo_open = lab_open, .ndo_stop = lab_stop, .ndo_change_carrier
#define skb_tx_timestamp(skb) ({ skb_tx_timestamp(skb); lab_sent(skb); })
#define eth_hw_addr_random(dev) ((dev)->hw_features |= NETIF_F_HW_TC, eth_hw_addr_random(dev))

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What sch_cake.c and the rate group take from Linux 7.3, for kernels that do
 * not have it. Kbuild looks into the headers and defines HAVE_x for what is
 * there; so it does not matter what a distribution has backported. Each entry
 * says since which Linux it is not needed.
 */
#ifndef COMPAT_H
#define COMPAT_H

#include <linux/cache.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "This module needs Linux 6.1 or later"
#endif

/* All files are one module: nothing is exported, and no namespace imported */
#undef EXPORT_SYMBOL_GPL
#undef EXPORT_SYMBOL_NS_GPL
#undef MODULE_IMPORT_NS
#define EXPORT_SYMBOL_GPL(symbol)
#define EXPORT_SYMBOL_NS_GPL(symbol, namespace)
#define MODULE_IMPORT_NS(namespace)

/* 6.4 */
#ifndef NL_SET_ERR_MSG_FMT
#define NL_SET_ERR_MSG_FMT(extack, fmt, ...) do {			\
	no_printk(fmt, ##__VA_ARGS__);					\
	NL_SET_ERR_MSG(extack, "not possible on this device, or with these options");		\
} while (0)
#endif

/* 6.9; before, the core asks for sch_<id> */
#ifndef MODULE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(id)					\
	MODULE_ALIAS("net-sch-" id);					\
	MODULE_ALIAS("sch_" id)
#endif

/* 6.8 */
#ifndef __cacheline_group_begin
#define __cacheline_group_begin(group)	u8 __cacheline_group_begin__##group[0]
#define __cacheline_group_end(group)	u8 __cacheline_group_end__##group[0]
#define CACHELINE_ASSERT_GROUP_MEMBER(type, group, member)		\
	BUILD_BUG_ON(offsetof(type, member) <				\
		     offsetof(type, __cacheline_group_begin__##group))
#define CACHELINE_ASSERT_GROUP_SIZE(type, group, size)			\
	BUILD_BUG_ON(offsetof(type, __cacheline_group_end__##group) -	\
		     offsetof(type, __cacheline_group_begin__##group) > (size))
#endif

/* 7.0 */
#ifndef kzalloc_obj
#define kzalloc_obj(object, ...)					\
	kzalloc(sizeof(object), COMPAT_GFP(__VA_ARGS__))
#endif
#ifndef kzalloc_objs
#define kzalloc_objs(object, count, ...)				\
	kcalloc(count, sizeof(object), COMPAT_GFP(__VA_ARGS__))
#endif
#ifndef kvzalloc_objs
#define kvzalloc_objs(object, count, ...)				\
	kvcalloc(count, sizeof(object), COMPAT_GFP(__VA_ARGS__))
#endif
#define COMPAT_GFP(...)		COMPAT_FIRST(__VA_ARGS__ __VA_OPT__(,) GFP_KERNEL)
#define COMPAT_FIRST(first, ...)	first

#ifndef HAVE_IPV6_PAYLOAD_LEN	/* 7.0 */
static inline unsigned int ipv6_payload_len(const struct sk_buff *skb,
					    const struct ipv6hdr *ip6)
{
	return ntohs(ip6->payload_len);
}
#endif

#ifndef HAVE_BSTATS_SET		/* 7.0 */
static inline void _bstats_set(struct gnet_stats_basic_sync *bstats, u64 bytes,
			       u64 packets)
{
	u64_stats_update_begin(&bstats->syncp);
	u64_stats_set(&bstats->bytes, bytes);
	u64_stats_set(&bstats->packets, packets);
	u64_stats_update_end(&bstats->syncp);
}
#endif

#ifndef HAVE_ADD_BASIC_CONST	/* 7.1 */
#define gnet_stats_add_basic(sum, cpu, basic, running)			\
	gnet_stats_add_basic(sum, cpu,					\
			     (struct gnet_stats_basic_sync *)(basic), running)
#endif

#ifndef HAVE_QDISC_PKT_SEGS	/* 6.19 */
static inline unsigned int qdisc_pkt_segs(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? max_t(u16, skb_shinfo(skb)->gso_segs, 1) : 1;
}

/* cake also sets it, for segments: into a byte that it does not use */
#define pkt_segs	data[QDISC_CB_PRIV_LEN - 1]
#endif

#ifndef HAVE_QDISC_DEQUEUE_DROP	/* 6.19 */
#define TCQ_F_DEQUEUE_DROPS	0
#define qdisc_dequeue_drop(sch, skb, reason)	\
	((void)(reason), kfree_skb(skb))
#elif !defined(HAVE_QDISC_DROP_REASON)	/* 7.1: before, reasons were of skbs */
#define qdisc_dequeue_drop(sch, skb, reason)	\
	qdisc_dequeue_drop(sch, skb,		\
			   ((void)(reason), SKB_DROP_REASON_NOT_SPECIFIED))
#endif

#ifndef HAVE_QDISC_DROP_REASON	/* 7.1 */
enum qdisc_drop_reason {
	QDISC_DROP_UNSPEC,
	QDISC_DROP_OVERLIMIT,
	QDISC_DROP_CONGESTED,
	QDISC_DROP_FLOOD_PROTECTION,
};
#define qdisc_drop_reason(skb, sch, to_free, reason)	\
	qdisc_drop(skb, sch, to_free)
#endif

#ifndef HAVE_QUEUE_PURGE	/* 6.3 */
#define SKB_DROP_REASON_QUEUE_PURGE	SKB_DROP_REASON_NOT_SPECIFIED
#endif

#ifndef HAVE_TCF_CLASSIFY_QDISC	/* 7.1 */
#define tcf_classify_qdisc(skb, filter, result, compat)	\
	tcf_classify(skb, NULL, filter, result, compat)
#endif

#ifndef HAVE_QDISC_QLEN_INC	/* 7.2 */
#define qdisc_qlen_inc(sch)	WRITE_ONCE((sch)->q.qlen, (sch)->q.qlen + 1)
#define qdisc_qlen_dec(sch)	WRITE_ONCE((sch)->q.qlen, (sch)->q.qlen - 1)
#define qdisc_qlen_lockless(sch)	READ_ONCE((sch)->q.qlen)
#define qstats_backlog_add(sch, by)	\
	WRITE_ONCE((sch)->qstats.backlog, (sch)->qstats.backlog + (by))
#define qstats_backlog_sub(sch, by)	\
	WRITE_ONCE((sch)->qstats.backlog, (sch)->qstats.backlog - (by))
#endif

#ifndef HAVE_DEV_DEACTIVATE_BOOL	/* 7.2 */
#define dev_deactivate(dev, ...)	dev_deactivate(dev)
#endif

/*
 * The hooks of patches/1-shared-state. They are in the core of a patched
 * kernel; here they are in block.c, for the children of cake_mq alone.
 */
#ifndef HAVE_QDISC_SHARED
/* Anonymous, as -fms-extensions allows: the fields look as if of one struct */
struct qdisc_ops_shared {
	struct Qdisc_ops;

	const void *shared_key;
	unsigned int shared_size;
	int	(*shared_check)(struct Qdisc *sch, struct Qdisc *old,
				void *shared, struct netlink_ext_ack *extack);
	void	(*shared_assign)(struct Qdisc *sch, void *shared);
	void	(*shared_detach)(struct Qdisc *sch, void *shared);
	bool	(*shared_queues)(struct Qdisc *sch, unsigned int queues);
};

#else
#error "This kernel has the patches: it needs no module"
#endif

int local_register(struct qdisc_ops_shared *ops);
struct Qdisc *local_graft(struct netdev_queue *queue, struct Qdisc *new);

#endif

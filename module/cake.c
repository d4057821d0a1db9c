// SPDX-License-Identifier: GPL-2.0
/* sch_cake.c, whose operations have the fields of a patched kernel */

#include <net/sch_priv.h>
#include <net/tcp.h>
#include <net/flow_dissector.h>
#include <net/sch_rate_group_qdisc.h>
#if IS_ENABLED(CONFIG_NF_CONNTRACK)
#include <net/netfilter/nf_conntrack_core.h>
#endif

typedef struct Qdisc_ops stock_ops;

#define Qdisc_ops		qdisc_ops_shared
#define register_qdisc(ops)	local_register(ops)
#define unregister_qdisc(ops)	unregister_qdisc((stock_ops *)(ops))
#define mq_init_common(sch, opt, extack, ops)	\
	mq_init_common(sch, opt, extack, (const stock_ops *)(ops))

#include "net/sched/sch_cake.c"

// SPDX-License-Identifier: GPL-2.0
/* What cake_mq takes from sch_mq.c, whose own qdisc is not registered */

#include <net/sch_priv.h>

#define mq_qdisc_ops	unused_mq_qdisc_ops
#define dev_graft_qdisc(queue, new)	local_graft(queue, new)

#include "net/sched/sch_mq.c"

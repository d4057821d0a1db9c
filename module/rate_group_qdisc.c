#include "net/sched/sch_rate_group_qdisc.c"

#include "net/sched/sch_rate_group.c"

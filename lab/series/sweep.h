/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled in front of a source, by lab/series/kernel.py, for kernels whose constant can
 * be set: /sys/module/<source>/parameters/lab_knob. For figures that vary it only.
 */
#include <linux/moduleparam.h>

#ifdef SYNC_LINE
/* sch_cake.c of the unpatched kernel says 200 * NSEC_PER_USEC there; knob in us */
#include <linux/time64.h>
static unsigned int lab_knob = 200;
#undef NSEC_PER_USEC
#define NSEC_PER_USEC	(__LINE__ == SYNC_LINE ? 5UL * lab_knob : 1000UL)
#else
/* sch_rate_group.c: the longest slot in bytes */
#include <net/sch_rate_group.h>
static unsigned int lab_knob = RATE_GROUP_QUANTUM;
#undef RATE_GROUP_QUANTUM
#define RATE_GROUP_QUANTUM	lab_knob
#endif
module_param(lab_knob, uint, 0644);

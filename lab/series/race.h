/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled in front of sch_rate_group.c, by lab/series/kernel.py, for kernels that look for
 * data races. With sch_rate_group.race=1 there is one, between members that send:
 * what does not find it finds nothing.
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>

static bool race;
module_param(race, bool, 0444);
static unsigned long raced;

#define atomic64_try_cmpxchg(v, old, new)				\
	(race ? raced++ : 0, atomic64_try_cmpxchg(v, old, new))

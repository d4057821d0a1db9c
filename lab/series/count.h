/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled in front of sch_rate_group.c, by lab/series/kernel.py: counts what is
 * written to the cache line that all members share, for
 * /sys/module/sch_rate_group/parameters/shared_writes.
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>

static unsigned long shared_writes;
module_param(shared_writes, ulong, 0644);

#define atomic64_add_return(i, v)					\
	(shared_writes++, atomic64_add_return(i, v))
#define atomic64_try_cmpxchg(v, old, new)				\
	(shared_writes++, atomic64_try_cmpxchg(v, old, new))
#define atomic64_add(i, v)						\
	(shared_writes++, atomic64_add(i, v))

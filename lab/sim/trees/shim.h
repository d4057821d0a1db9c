/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What sch_rate_tree.c needs of the kernel, in user space: that of make fuzz. Lists, trees
 * and the lock end the simulator when they are misused.
 */
#ifndef TREES_SHIM_H
#define TREES_SHIM_H

#include <assert.h>

#define shim_must(cond)	assert(cond)

#include "../shim/checked.h"

#endif /* TREES_SHIM_H */

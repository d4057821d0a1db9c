/* SPDX-License-Identifier: GPL-2.0 */
/* Included by lab/tree/kernel.py ahead of all files called smp.c of the kasan kernel, for
 * arch/um/os-Linux/smp.c. There, a thread frees what it was started with before its CPU
 * counts as online, and kmemleak then calls RCU, which warns. Memory that is not allocated
 * need not be freed.
 */
#ifdef __UM_HOST__
#include <um_malloc.h>

static char started_with[CONFIG_NR_CPUS][256];

#define uml_kmalloc(size, flags) ((void *)started_with[cpu])
#define kfree(data) ((void)(data))
#endif

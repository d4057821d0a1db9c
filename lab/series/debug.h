/* SPDX-License-Identifier: GPL-2.0 */
/* Included by lab/series/kernel.py ahead of two files of the debug kernel. */
#include <linux/kernel.h>
#include <linux/string.h>

/* mm/slub.c: on other architectures than UML, code that KASAN is not to look at has a
 * memset() that it does not look at either. Without it, KASAN and slab_debug do not go
 * together.
 */
void *__memset(void *to, int value, size_t size);
#define memset __memset

/* arch/um/kernel/stacktrace.c takes each word of a stack for an address and looks for
 * it in all modules, under lockdep, to keep those that belong to a frame: half of the
 * time of a kernel that records who allocates.
 */
#define __kernel_text_address(addr) \
	((unsigned long)sp == bp + sizeof(long) && (__kernel_text_address)(addr))

/* SPDX-License-Identifier: GPL-2.0 */
/* Included by lab/series/kernel.py ahead of kernel/kcov.c of the kernels of make syz.
 *
 * KCOV itself writes down, for one task, which blocks of code it runs. Most of what a qdisc
 * does when it sends is run by timers and softirqs, which that leaves out, and a look at all
 * 8,192 flows of a cake fills the list. So what the compiler calls at the start of each block
 * sets a bit instead: one of each block that ever ran, in debugfs as lab_blocks, and one of each
 * pair of blocks that ran one after the other, as lab_edges, which forgets what is read. Two
 * CPUs may lose each other's bits: a block that matters runs again.
 *
 * With several CPUs, one block of LAB_EVERY waits a moment before it goes on, and the host runs
 * another CPU meanwhile: two steps that nothing keeps together come apart, also where the host
 * has one CPU for all of them.
 */
#include <linux/bits.h>
#include <linux/debugfs.h>
#include <linux/kcov.h>
#include <linux/kernel.h>
#include <asm/sections.h>

#define LAB_BLOCKS BIT(24) /* of 2 bytes of code, as long as the shortest call */
#define LAB_EDGES BIT(18)

static unsigned long lab_blocks[BITS_TO_LONGS(LAB_BLOCKS)];
static unsigned long lab_edges[BITS_TO_LONGS(LAB_EDGES)];
static unsigned long lab_last;

#ifdef CONFIG_SMP
#define LAB_EVERY 1024 /* blocks */
#define LAB_WAIT 50 /* us */

static void notrace lab_wait(void)
{
	static unsigned long number; /* two CPUs may draw the same one */
	long time[2] = { 0, LAB_WAIT * 1000L }, ret;

	number = number * 6364136223846793005UL + 1442695040888963407UL;
	if (number >> 32 & (LAB_EVERY - 1))
		return;
	/* nanosleep() of the host */
	asm volatile("syscall" : "=a"(ret) : "0"(35L), "D"(time), "S"(NULL)
		     : "rcx", "r11", "memory");
}
#else
static void notrace lab_wait(void)
{
}
#endif

void notrace __sanitizer_cov_trace_pc(void)
{
	unsigned long at = (_RET_IP_ - (unsigned long)_stext) / 2 % LAB_BLOCKS;
	unsigned long edge = (at ^ lab_last) % LAB_EDGES;

	lab_last = at << 1;
	lab_blocks[at / BITS_PER_LONG] |= BIT(at % BITS_PER_LONG);
	lab_edges[edge / BITS_PER_LONG] |= BIT(edge % BITS_PER_LONG);
	lab_wait();
}

static ssize_t lab_edges_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	ssize_t got = simple_read_from_buffer(to, size, at, lab_edges, sizeof(lab_edges));

	memset(lab_edges, 0, sizeof(lab_edges));
	lab_last = 0;
	return got;
}

static int __init lab_kcov(void)
{
	static struct debugfs_blob_wrapper blocks = {
		.data = lab_blocks, .size = sizeof(lab_blocks)
	};
	static const struct file_operations edges = { .read = lab_edges_read };

	debugfs_create_blob("lab_blocks", 0400, NULL, &blocks);
	debugfs_create_file_unsafe("lab_edges", 0400, NULL, NULL, &edges);
	return 0;
}
late_initcall(lab_kcov);

#undef pr_fmt /* it defines its own */

/* What follows of KCOV is compiled and never called */
#define __sanitizer_cov_trace_pc lab_unused_trace_pc
void lab_unused_trace_pc(void);

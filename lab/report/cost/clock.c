// SPDX-License-Identifier: GPL-2.0
/*
 * Lab use only: makes a guest whose TSC counts instructions believe that its CPU is
 * faster than that, so that it is never what limits a load.
 *
 * QEMU with "-icount shift=0" executes one instruction a nanosecond: the TSC counts at
 * 1 GHz, the local APIC's timer at 62.5 MHz. With "tsc_early_khz=100000000" the kernel
 * takes the TSC for one of 100 GHz, and what the guest calls a nanosecond is 100
 * instructions. The local APIC's timer has to follow: "cost_clock=100". Its calibration
 * would take ten thousand million instructions, and its conversion factor does not
 * fit; the shortest delay, in the guest's time, can be shorter than in real hardware.
 */
#include <linux/clockchips.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <asm/apic.h>

#include "../kernel/time/tick-internal.h"

#define DIVISOR		16	/* APIC_DIVISOR */
#define SHIFT		20
#define SHORTEST	2	/* ns */

static unsigned int scale;

static int __init cost_clock(char *value)
{
	int err = kstrtouint(value, 0, &scale);

	if (!err)
		lapic_timer_period = NSEC_PER_SEC / HZ;	/* not to be calibrated */
	return err;
}
early_param("cost_clock", cost_clock);

/*
 * As lapic_next_event(), but never early: the kernel rounds down, and an interrupt
 * before its time needs a second one.
 */
static int cost_next_event(unsigned long delta, struct clock_event_device *dev)
{
	apic_write(APIC_TMICT, delta + 1);
	return 0;
}

/* After the timer was found, before it is of high resolution. */
static int __init cost_clock_init(void)
{
	struct clock_event_device *dev;

	if (!scale)
		return 0;
	local_irq_disable();
	dev = __this_cpu_read(tick_cpu_device.evtdev);
	lapic_timer_period = NSEC_PER_SEC / HZ * scale;
	dev->shift = SHIFT;
	dev->mult = div_sc(scale, DIVISOR, SHIFT);
	dev->min_delta_ns = SHORTEST;
	dev->min_delta_ticks = DIV_ROUND_UP(SHORTEST * scale, DIVISOR);
	dev->max_delta_ns = div_u64((u64)dev->max_delta_ticks << SHIFT, dev->mult);
	dev->set_next_event = cost_next_event;
	if (clockevent_state_periodic(dev))
		dev->set_state_periodic(dev);
	local_irq_enable();
	return 0;
}
core_initcall(cost_clock_init);

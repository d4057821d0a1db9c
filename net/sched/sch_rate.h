/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Arithmetic of times and rates, for sch_rate_*.c only */
#ifndef __SCH_RATE_H
#define __SCH_RATE_H

#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>
#include <linux/types.h>

/* time_after64(), also for atomic64_t, which is signed */
static inline bool rate_after64(u64 a, u64 b)
{
	return time_after64(a, b);
}

static inline u64 later(u64 a, u64 b)
{
	return rate_after64(a, b) ? a : b;
}

/* Set @mult and @shift to what rate_to_ns() needs for a rate, in bytes/s: a
 * byte takes @mult >> @shift ns
 */
static inline void rate_precompute(u64 rate, u64 *mult, u32 *shift)
{
	*shift = 34;
	*mult = div64_u64((u64)NSEC_PER_SEC << 34, rate);
	while (*mult >> 34) {
		*mult >>= 1;
		(*shift)--;
	}
}

/* Good for 2^29 bytes */
static inline u64 rate_to_ns(u64 mult, u32 shift, u64 bytes)
{
	return (bytes * mult) >> shift;
}

/* The same, without losing what is less than a ns: @frac has that, in units of
 * 2^-@shift ns
 */
static inline u64 rate_to_ns_exact(u64 mult, u32 shift, u64 *frac, u64 bytes)
{
	u64 fxp = bytes * mult + *frac;

	*frac = fxp & (BIT_ULL(shift) - 1);
	return fxp >> shift;
}

/* How early a packet may go, ns: as early as takes a frame, at most @most; or,
 * as an earlier call could not be had, by how late calls are
 */
static inline u32 rate_slack(u64 frame_ns, u64 most, u32 lateness)
{
	return max(min(frame_ns, most), lateness);
}

/* The mean of how late calls are, after one that was @late, ns */
static inline u32 rate_lateness(u32 mean, u64 late, u64 most)
{
	late = min(late, most);

	return mean + late / 8 - mean / 8;
}

#endif

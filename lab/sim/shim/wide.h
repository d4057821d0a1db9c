/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Products of 128 bits for compilers that have no type for them, those for 32-bit
 * machines.
 */
#ifndef WIDE_H
#define WIDE_H

#include <stdint.h>

/* a * b >> shift if d is 0, else a * b / d; UINT64_MAX if that is too large */
static inline uint64_t shim_wide(uint64_t a, uint64_t b, uint64_t d, unsigned int shift)
{
	uint64_t ll = (a & UINT32_MAX) * (b & UINT32_MAX), lh = (a & UINT32_MAX) * (b >> 32);
	uint64_t hl = (a >> 32) * (b & UINT32_MAX), hh = (a >> 32) * (b >> 32);
	uint64_t middle = (ll >> 32) + (lh & UINT32_MAX) + (hl & UINT32_MAX);
	uint64_t high = hh + (lh >> 32) + (hl >> 32) + (middle >> 32);
	uint64_t low = middle << 32 | (ll & UINT32_MAX);

	if (!d) {
		if (shift >= 64)
			return high >> (shift - 64);
		return shift ? high << (64 - shift) | low >> shift : low;
	}
	if (!high)
		return low / d;
	if (high >= d)
		return UINT64_MAX;

	/* high is what is left over, and low gives the bits to come */
	for (int i = 0; i < 64; i++) {
		uint64_t carry = high >> 63;

		high = high << 1 | low >> 63;
		low <<= 1;
		if (carry || high >= d) {
			high -= d;
			low |= 1;
		}
	}

	return low;
}

#endif

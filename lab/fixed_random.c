// SPDX-License-Identifier: GPL-2.0
/* Preloaded into a User-Mode Linux kernel: the random numbers that it takes from
 * the host are the same in every run, which makes runs in virtual time
 * repeatable to the last bit. xorshift64, seeded by LAB_SEED.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	static uint64_t state;
	unsigned char *out = buf;

	(void)flags;
	if (!state) {
		const char *seed = getenv("LAB_SEED");

		state = 0x2545f4914f6cdd1dULL ^ (seed ? strtoull(seed, NULL, 0) : 0);
	}
	for (size_t i = 0; i < len; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		out[i] = state >> 32;
	}
	return len;
}

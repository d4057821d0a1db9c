// SPDX-License-Identifier: GPL-2.0
/* Preloaded into a User-Mode Linux kernel: the random numbers that it takes from
 * the host are the same in every run, so that they are one thing less in which
 * runs in virtual time differ. xorshift64.
 */
#include <stdint.h>
#include <sys/types.h>

ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	static uint64_t state = 0x2545f4914f6cdd1dULL;
	unsigned char *out = buf;

	(void)flags;
	for (size_t i = 0; i < len; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		out[i] = state >> 32;
	}
	return len;
}

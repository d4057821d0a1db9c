// SPDX-License-Identifier: GPL-2.0
/*
 * A rival that needs no qdisc of its own: one limit over all TX queues by departure
 * times (EDT), as Algorithm 2 of the mq-cake paper describes it. Runs on clsact's
 * egress in front of mq + fq: each packet is told when it may leave, fq obeys. What
 * would have to wait longer than the horizon is dropped.
 *
 * Compiled by lab/traffic/traffic.py with RATE in bit/s and HORIZON in ns. The clock is
 * read and written without a lock: right on one CPU, which is what the lab uses it
 * on.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define SECTION(name) __attribute__((section(name), used))

/* What tc's loader expects of a map. */
struct tc_map {
	__u32 type, size_key, size_value, max_elem, flags, id, pinning, inner_id, inner_idx;
};

struct tc_map clock SECTION("maps") = {
	.type = BPF_MAP_TYPE_ARRAY,
	.size_key = sizeof(__u32),
	.size_value = sizeof(__u64),
	.max_elem = 1,
};

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __u64 (*now_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

SECTION("classifier") int edt(struct __sk_buff *skb)
{
	__u64 now = now_ns(), departure;
	__u32 zero = 0;
	/* ns that the last packet still needs, and 1/65536 of them */
	__u64 *next = map_lookup(&clock, &zero);

	if (!next)
		return TC_ACT_OK;
	departure = *next > now << 16 ? *next : now << 16;
	if (departure > (now + HORIZON) << 16)
		return TC_ACT_SHOT;
	*next = departure + ((__u64)skb->len * 8000000000ULL << 16) / RATE;
	skb->tstamp = departure >> 16;
	return TC_ACT_OK;
}

char terms[] SECTION("license") = "GPL";

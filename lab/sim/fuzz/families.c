// SPDX-License-Identifier: GPL-2.0
/*
 * Scenarios, made from a seed: anything at all, and families in which more can
 * be asked of the group, or that are hard for it.
 */
#include <stdio.h>
#include "fuzz.h"

/* Random numbers of the scenario that is being made */
static u64 state;

static u64 rnd(u64 n)
{
	return below(&state, n);
}

static u64 from_to(u64 least, u64 most)
{
	return least + rnd(most - least + 1);
}

static bool one_in(u32 n)
{
	return !rnd(n);
}

/* Any magnitude is as likely as any other */
static u64 magnitude(u64 least, u64 most)
{
	u32 lo = fls64(least), hi = fls64(most);
	u64 x = 1ULL << (from_to(lo, hi) - 1);

	return clamp(x + rnd(x), least, most);
}

static u64 any_rate(void)
{
	return magnitude(RATE_GROUP_MIN_RATE, 400 * GBIT);
}

/* ----------------------------------------------------------- parts of them */

static struct spec *add(struct scenario *s)
{
	struct spec *m = &s->m[s->n];

	memset(m, 0, sizeof(*m));
	m->id = s->n++;
	m->hang = NEVER;
	return m;
}

static struct source fixed(u8 kind, u32 len)
{
	return (struct source){ .kind = kind, .size = FIXED, .lo = len,
				.hi = len, .count = 1 };
}

static void any_size(struct source *src)
{
	static const u32 lens[] = { 64, 200, 300, 590, MTU, MTU, MTU, 9000,
				    65000 };

	src->size = FIXED;
	src->lo = lens[rnd(ARRAY_SIZE(lens))];
	src->hi = src->lo;
	if (one_in(3)) {
		src->size = UNIFORM;
		src->lo = 64;
		src->hi = one_in(6) ? 65000 : MTU;
	} else if (one_in(5)) {
		src->size = MIXED;
		src->lo = 64;
		src->hi = 9000;
	}
}

static u32 mean_size(const struct source *src)
{
	return src->size == MIXED ? 2720 : (src->lo + src->hi) / 2;
}

/* Make a source send that share of the rate of the group, in permille */
static void at_share(const struct scenario *s, struct source *src, u64 permille)
{
	u64 rate = max(mul_u64_u64_div_u64(s->rate, permille, 1000), 1UL);

	src->pause = max(ns_of(rate, (u64)mean_size(src) *
			       max(src->count, 1U)), 1UL);
	if (src->kind == ONOFF)
		src->pause = max(src->pause / 2, 1UL);
	src->from = rnd(src->pause * 2);
}

static u64 packets_ns(const struct scenario *s, u64 packets, u32 len)
{
	return ns_of(s->rate, packets * len);
}

/* Clocks near the end of what a u64, or a s64, can hold */
static void any_clock(struct scenario *s)
{
	s->start = 1 + rnd(BIT_ULL(40));
	if (one_in(4))
		s->start = (one_in(2) ? S64_MAX : U64_MAX) - rnd(s->ns);
}

static void any_source(struct scenario *s, struct source *src, u64 permille)
{
	static const u8 kinds[] = { PACED, POISSON, POISSON, ONOFF, ONOFF,
				    SINGLE, RHYTHM, PACED };

	*src = fixed(kinds[rnd(ARRAY_SIZE(kinds))], MTU);
	any_size(src);
	src->count = one_in(3) ? from_to(1, 64) : 1;
	at_share(s, src, permille);
	switch (src->kind) {
	case ONOFF:
		src->gap = src->pause * from_to(2, 60);
		break;
	case SINGLE:
	case RHYTHM:
		src->count = from_to(1, 12);
		src->gap = one_in(2) ? rnd(20 * NSEC_PER_USEC) :
				       packets_ns(s, rnd(20), MTU);
		break;
	}
}

/* Timers that are late, TX queues that stop or hang, backlogs that vanish */
static void any_trouble(struct scenario *s, struct spec *m, u32 kinds)
{
	u64 mean = packets_ns(s, from_to(50, 500), MTU) + 1;

	if (kinds & 1) {
		m->late_one_in = from_to(1, 4);
		m->late = one_in(2) ? from_to(1, 50 * NSEC_PER_USEC) :
				      from_to(1, 5 * NSEC_PER_MSEC);
	}
	if (kinds & 2) {
		m->stop_every = mean;
		m->stop = from_to(1, 10 * NSEC_PER_MSEC);
	}
	if (kinds & 4)
		m->reset_every = mean;
	if (kinds & 8)
		m->leave_every = mean;
	if (kinds & 16)
		m->hang = rnd(s->ns);
}

static void any_member(struct scenario *s, struct spec *m, u64 permille,
		       u32 kinds)
{
	m->tbf = one_in(3);
	if (one_in(4)) {
		m->src[0] = fixed(SATURATED, MTU);
		any_size(&m->src[0]);
		m->src[0].from = rnd(s->ns / 4);
		m->src[0].gap = s->ns / 20;
	} else {
		any_source(s, &m->src[0], permille);
	}
	if (!m->tbf && one_in(2)) {
		any_source(s, &m->src[1], from_to(1, permille));
		m->src[1].sparse = true;
		if (one_in(2)) {
			m->src[1].size = FIXED;
			m->src[1].lo = from_to(64, 300);
			m->src[1].hi = m->src[1].lo;
		}
	}
	if (one_in(6))
		m->overhead = (s32)rnd(120) - 40;
	m->atm = one_in(12);
	if (m->tbf && one_in(2))
		m->burst = from_to(1, 64) * 2000;
	if (one_in(3))
		any_trouble(s, m, kinds);
}

static void changes(struct scenario *s, u32 n)
{
	u64 at = s->ns / (n + 1);
	u32 i;

	for (i = 0; i < n; i++) {
		struct change *c = &s->change[i];

		c->at = (i + 1) * at - rnd(at);
		c->rate = s->rate;
		switch (rnd(6)) {
		case 0:
			c->rate *= 1000;
			break;
		case 1:
			c->rate /= 1000;
			break;
		case 2:
			c->rate = from_to(s->rate / 4, s->rate * 4);
			break;
		case 3:
			c->rate = one_in(2) ? 0 : any_rate();
			break;
		}
		c->rate = min(c->rate, 400 * GBIT);
		c->mtu = one_in(8) ? from_to(300, 9000) : s->mtu;
		c->gap = one_in(2) ? 0 : from_to(1, 20 * NSEC_PER_USEC);
	}
	s->changes = n;
}

/* ------------------------------------------------------------ the families */

/* Anything at all, at 20 to 220 % of the rate */
static void make_any(struct scenario *s)
{
	u32 n = one_in(2) ? from_to(1, 4) : one_in(3) ? from_to(1, 48) :
							from_to(1, 16);
	u64 load = from_to(200, 2200) / n;
	u32 i, kinds = one_in(3) ? 0 : rnd(32);
	bool skewed = one_in(6);

	s->ns = packets_ns(s, from_to(500, 4000), MTU);
	s->race = one_in(3) ? from_to(1, 8) : 0;
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		any_member(s, m, load, kinds);
		if (skewed)
			m->skew = rnd(min(packets_ns(s, 8, MTU), NSEC_PER_USEC));
	}
	if (one_in(5))
		changes(s, from_to(1, 8));
}

/* A queue that uses most of the rate with small packets, and then bursts */
static void make_small(struct scenario *s)
{
	bool plain = one_in(8);
	u32 n = plain || one_in(2) ? 2 : from_to(1, 8);
	struct source *src = &add(s)->src[0];

	s->rate = plain ? 10 * GBIT : from_to(GBIT, 40 * GBIT);
	s->ns = from_to(100 * NSEC_PER_USEC, NSEC_PER_MSEC);
	*src = fixed(PACED, plain || one_in(2) ? 200 : from_to(64, 300));
	at_share(s, src, plain ? 800 : from_to(400, 950));
	src->sparse = one_in(2);
	src->from = 0;
	while (n--) {
		struct source *burst = &add(s)->src[0];

		*burst = fixed(PACED, MTU);
		burst->count = plain || one_in(2) ? 64 : from_to(8, 128);
		burst->from = s->ns / 2 + rnd(one_in(2) ? 2 : 20000);
		burst->pause = s->ns;
	}
}

/* Saturated queues, and one that has nothing but packets that may go ahead */
static void make_greedy(struct scenario *s)
{
	static const u8 kinds[] = { SATURATED, SINGLE, PACED, POISSON };
	bool plain = one_in(8);
	u32 n = plain || one_in(2) ? 1 : from_to(1, 8);
	struct spec *m = add(s);

	s->rate = plain ? 469 * GBIT / 100 : magnitude(GBIT / 100, 40 * GBIT);
	m->greedy = true;
	m->src[0] = fixed(kinds[rnd(ARRAY_SIZE(kinds))],
			  plain || one_in(2) ? 64 : from_to(64, 300));
	at_share(s, &m->src[0], from_to(100, 3000));
	m->src[0].from = 0;
	m->src[0].gap = one_in(2) ? 1 : rnd(4 * NSEC_PER_USEC);
	m->src[0].sparse = one_in(2);
	if (one_in(3)) {
		/* Modest at first, when there is time to spare */
		at_share(s, &m->src[0], from_to(300, 950));
		m->src[1] = fixed(PACED, 64);
		at_share(s, &m->src[1], from_to(500, 4000));
		m->src[1].from = rnd(100 * NSEC_PER_USEC);
		m->src[1].sparse = true;
	}
	while (n--) {
		m = add(s);
		m->src[0] = fixed(SATURATED, MTU);
		m->src[0].from = one_in(2) ? 0 : rnd(100 * NSEC_PER_USEC);
	}
	s->warm = packets_ns(s, 200 * s->n, MTU);
	s->ns = 4 * s->warm;
}

/* Light or bursty members, and one that is stopped for ever with a backlog */
static void make_hung(struct scenario *s)
{
	bool bursts = one_in(2), plain = one_in(8);
	u32 n = bursts ? from_to(4, 40) : from_to(3, 16);
	struct spec *m = add(s);

	s->rate = plain ? 10 * GBIT : from_to(GBIT, 10 * GBIT);
	s->ns = clamp(packets_ns(s, 8000, MTU), 5 * NSEC_PER_MSEC,
		      40 * NSEC_PER_MSEC);
	m->src[0] = fixed(SATURATED, MTU);
	m->hang = rnd(NSEC_PER_MSEC) + 1;
	if (plain)
		n = bursts ? 39 : 7;
	while (n--) {
		struct source *src = &add(s)->src[0];

		*src = fixed(bursts ? PACED : POISSON, MTU);
		src->count = bursts ? 64 : 1;
	}
	for (n = 1; n < s->n; n++)
		at_share(s, &s->m[n].src[0], (bursts ? 800 : 500) / (s->n - 1));
}

/* Packets arrive between a change of the rate and its members' knowing of it */
static void make_gap(struct scenario *s)
{
	bool plain = one_in(8);
	u32 i, n = plain ? 8 : from_to(2, 16);
	u64 at, gap = from_to(1, 20 * NSEC_PER_USEC), up;

	s->rate = plain ? GBIT / 1000 : magnitude(GBIT / 10000, GBIT / 10);
	up = s->rate * (plain ? 1000 : from_to(10, 1000));
	at = packets_ns(s, from_to(1, 40), MTU);
	s->ns = at + max(ns_of(up, 2000 * MTU), ns_of(s->rate, 2 * n * MTU));
	s->change[0] = (struct change){ .at = at, .rate = up, .gap = gap,
					.mtu = s->mtu };
	s->changes = 1;
	for (i = 0; i < n; i++) {
		struct source *src = &add(s)->src[0];

		*src = fixed(PACED, MTU);
		src->count = plain || one_in(2) ? 1 : from_to(1, 8);
		src->from = at + rnd(i * gap);
		src->pause = one_in(4) ? NEVER / 2 : ns_of(up, MTU * 2 * n);
	}
}

/* So many saturated members beside those that are there, for 300 rounds */
static void beside_saturated(struct scenario *s, u32 n)
{
	struct spec *m;

	while (n--) {
		m = add(s);
		m->fair = true;
		m->src[0] = fixed(SATURATED, MTU);
	}
	s->warm = packets_ns(s, 60 * s->n, MTU);
	s->ns = s->warm + packets_ns(s, 300 * s->n, MTU);
}

/* One of many saturated queues has an application with a rhythm of its own: a
 * lone packet goes ahead, what follows takes a slot
 */
static void make_rhythm(struct scenario *s)
{
	bool plain = one_in(4);
	u32 n = plain ? 31 : from_to(3, 40);
	struct spec *m = add(s);

	s->rate = plain ? GBIT : magnitude(GBIT / 10, 10 * GBIT);
	m->greedy = true;
	m->src[0] = fixed(RHYTHM, one_in(2) ? MTU : from_to(300, MTU));
	m->src[0].count = from_to(1, 12);
	m->src[0].gap = one_in(2) ? 1 : packets_ns(s, rnd(3), MTU) + 1;
	beside_saturated(s, n);
}

/* Never more than a packet: no way to get more than a share */
static void make_single(struct scenario *s)
{
	u32 n = from_to(2, 24);
	struct spec *m = add(s);

	s->rate = magnitude(GBIT / 10, 40 * GBIT);
	m->greedy = true;
	m->src[0] = fixed(SINGLE, one_in(2) ? MTU : from_to(64, MTU));
	m->src[0].gap = one_in(2) ? 1 : packets_ns(s, rnd(4), MTU) + 1;
	beside_saturated(s, n);
}

/* Up and down between rates so far apart that times do not fit */
static void make_forgive(struct scenario *s)
{
	bool plain = one_in(4);
	u32 i, n = plain ? 8 : from_to(2, 12);
	u64 high = plain ? GBIT / 1000 : magnitude(GBIT / 10000, GBIT / 100);
	u64 low = plain ? RATE_GROUP_MIN_RATE :
			  from_to(RATE_GROUP_MIN_RATE, 200), at = 0;

	s->rate = high;
	s->changes = plain ? 40 : from_to(2, CHANGES);
	for (i = 0; i < s->changes; i++) {
		at += i & 1 ? rnd(NSEC_PER_SEC) :
			      packets_ns(s, from_to(1, 30), MTU);
		s->change[i] = (struct change){ .at = at, .mtu = s->mtu,
						.rate = i & 1 ? high : low };
	}
	s->ns = at + packets_ns(s, 100, MTU);
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->src[0] = fixed(SATURATED, MTU);
	}
}

/* All saturated with the same kind of packets */
static void make_fair(struct scenario *s)
{
	u32 i, n = one_in(4) ? from_to(2, 100) : from_to(2, 24);
	struct source src = fixed(SATURATED, MTU);
	bool tbf = one_in(2);
	u64 packets;

	any_size(&src);
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = tbf;
		m->fair = true;
		m->src[0] = src;
		m->src[0].from = one_in(2) ? 0 : packets_ns(s, rnd(n), MTU);
	}
	packets = max(8 * RATE_GROUP_QUANTUM / mean_size(&src), 30U);
	s->warm = packets_ns(s, packets * n, mean_size(&src));
	s->ns = s->warm + packets_ns(s, max(4 * packets, 300UL) * n,
				     mean_size(&src));
	s->race = one_in(4) ? from_to(1, 8) : 0;
}

/* Token buckets: bursts, lateness */
static void make_tbf(struct scenario *s)
{
	u32 i, n = from_to(1, 12);

	s->ns = packets_ns(s, from_to(500, 4000), MTU);
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		any_member(s, m, from_to(200, 2200) / n, 7);
		m->tbf = true;
		m->src[1].kind = NONE;
		m->burst = one_in(8) ? magnitude(1000, U32_MAX) :
				      from_to(1, 200) * 1000;
	}
	if (one_in(3))
		changes(s, from_to(1, 4));
}

/* Some are late beside many that come and go, and one always in time */
static void make_late(struct scenario *s)
{
	u32 i, n = from_to(1, 30), late = one_in(2) ? 1 : from_to(2, 8);
	u32 kinds = 1 + rnd(3);
	bool together = one_in(2);

	s->rate = magnitude(GBIT / 10, 40 * GBIT);
	s->ns = max(packets_ns(s, 4000, MTU), 5UL * NSEC_PER_MSEC);
	for (i = 0; i < late; i++) {
		struct spec *m = add(s);

		m->src[0] = fixed(SATURATED, MTU);
		any_trouble(s, m, kinds);
		if (together && i) {
			m->stop = s->m[0].stop;
			m->stop_every = s->m[0].stop_every;
		}
		m->together = together;
	}
	if (one_in(2))
		add(s)->src[0] = fixed(SATURATED, MTU);
	for (i = 0; i < n; i++)
		any_source(s, &add(s)->src[0], from_to(100, 900) / n);
}

/* Timers are late, but not by more than may be made up for; beside light ones */
static void make_timers(struct scenario *s)
{
	u32 i, n = one_in(2) ? 1 : from_to(1, 8), light = from_to(0, 20);
	u64 late = from_to(1, RATE_GROUP_MAX_LATE / 2);

	s->rate = magnitude(GBIT / 10, 40 * GBIT);
	s->ns = max(packets_ns(s, 4000, MTU), 20UL * NSEC_PER_MSEC);
	s->warm = s->ns / 10;
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->src[0] = fixed(SATURATED, MTU);
		any_size(&m->src[0]);
		m->late = late;
		m->late_one_in = from_to(1, 4);
	}
	for (i = 0; i < light; i++) {
		struct source *src = &add(s)->src[0];

		*src = fixed(POISSON, one_in(2) ? MTU : 300);
		src->count = one_in(3) ? 20 : 1;
		at_share(s, src, from_to(10, 400) / light);
	}
}

/* All are saturated, and late in some way that one cake would make up for */
static void make_lateness(struct scenario *s)
{
	static const u32 counts[] = { 1, 2, 8, 40 };
	u32 i, n = counts[rnd(ARRAY_SIZE(counts))], kind = rnd(5);
	bool all = one_in(2);

	s->rate = magnitude(GBIT / 20, GBIT);
	s->ns = clamp(packets_ns(s, 20000, MTU), 300 * NSEC_PER_MSEC,
		      2 * NSEC_PER_SEC);
	s->warm = s->ns / 10;
	s->events = 1000000;
	if (kind < 2)
		s->tick = (kind ? 4 : 10) * NSEC_PER_MSEC;
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->src[0] = fixed(SATURATED, MTU);
		m->fair = s->tick && n < 40;
		if (kind == 2) {
			m->late = from_to(1, 600) * NSEC_PER_USEC;
			m->late_one_in = rnd(3);
		}
		if (kind > 2 && (all || !i)) {
			m->stop_every = 100 * NSEC_PER_MSEC;
			m->stop = 5 * NSEC_PER_MSEC;
			m->together = all;
		}
	}
}

/* Stopped for longer than what may be made up for, beside light ones */
static void make_stopped(struct scenario *s)
{
	u32 i, n = from_to(1, 3), light = from_to(0, 12);

	s->rate = magnitude(GBIT / 50, GBIT);
	s->ns = NSEC_PER_SEC;
	s->events = 1000000;
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->src[0] = fixed(SATURATED, MTU);
		m->stop_every = 150 * NSEC_PER_MSEC;
		m->stop = from_to(20, 150) * NSEC_PER_MSEC;
		m->together = true;
		if (one_in(3))
			m->reset_every = from_to(20, 200) * NSEC_PER_MSEC;
	}
	for (i = 0; i < light; i++)
		any_source(s, &add(s)->src[0], from_to(100, 600) / light);
}

/* CPUs are short: a wake-up takes long. The rate is one that one cake reaches
 * on one of them.
 */
static void make_cpus(struct scenario *s)
{
	u32 i, n = one_in(2) ? from_to(1, 4) : from_to(1, 40);
	static const u32 calls[] = { 2, 10, 40 };

	s->cpus = BIT(rnd(3));
	s->call_ns = calls[rnd(ARRAY_SIZE(calls))] * NSEC_PER_USEC;
	s->packet_ns = NSEC_PER_USEC;
	s->rate = mul_u64_u64_div_u64(64 * MTU, NSEC_PER_SEC,
				      s->call_ns + 64 * s->packet_ns);
	s->rate = s->rate * from_to(5, 90) / 100;
	s->ns = packets_ns(s, 20000, MTU);
	s->warm = s->ns / 10;
	s->events = 1000000;
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->fair = true;
		m->src[0] = fixed(SATURATED, MTU);
	}
}

/* A rank in bursts, and later ones that have the rest of the rate */
static void make_ranks(struct scenario *s)
{
	u32 i, n = from_to(1, 6), bursts = from_to(1, 3);
	bool any = one_in(4);

	s->rate = magnitude(GBIT, 100 * GBIT);
	s->ns = packets_ns(s, 20000, MTU);
	for (i = 0; i < bursts + n; i++) {
		struct spec *m = add(s);

		m->rank = i < bursts ? from_to(1, RATE_GROUP_DEFAULT_RANK) :
			  from_to(RATE_GROUP_DEFAULT_RANK, RATE_GROUP_RANKS - 1) + 1;
		if (any && one_in(3))
			m->rank = from_to(1, RATE_GROUP_RANKS);
		if (i >= bursts) {
			m->src[0] = fixed(SATURATED, MTU);
			continue;
		}
		m->src[0] = fixed(PACED, MTU);
		m->src[0].count = from_to(1, 24);
		at_share(s, &m->src[0], from_to(100, 900) / bursts);
		if (one_in(4))
			any_trouble(s, m, 4);
	}
}

/* Members come and go, with packets longer than a slot, and never pay late */
static void make_churn(struct scenario *s)
{
	u32 i, n = from_to(1, 6);

	s->ns = packets_ns(s, from_to(2000, 8000), MTU);
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->src[0] = fixed(one_in(2) ? SATURATED : SINGLE, MTU);
		any_size(&m->src[0]);
		m->src[0].gap = 1;
		if (one_in(2)) {
			m->leave_every = packets_ns(s, from_to(1, 60), MTU) + 1;
			continue;
		}
		/* When it owes the most */
		m->src[0].size = FIXED;
		m->src[0].lo = from_to(MTU, 8 * MTU);
		m->src[0].hi = m->src[0].lo;
		m->leave_after = from_to(1, 4);
	}
	add(s)->src[0] = fixed(SATURATED, MTU);
}

/* Thresholds of tins, as cake keeps them over all members */
static void make_tins(struct scenario *s)
{
	u32 i, j, n = from_to(1, 8);
	u32 kinds = one_in(2) ? 0 : rnd(16);

	s->rate = magnitude(GBIT / 1000, 100 * GBIT);
	s->ns = packets_ns(s, from_to(500, 4000), MTU);
	for (i = 0; i < n; i++) {
		struct spec *m = add(s);

		m->tins = SOURCES;
		for (j = 0; j < SOURCES; j++) {
			if (one_in(3))
				continue;
			if (one_in(2))
				m->src[j] = fixed(SATURATED, MTU);
			else
				any_source(s, &m->src[j], rnd(600 / n) + 1);
			m->src[j].sparse = one_in(3);
			m->src[j].gap = max(m->src[j].gap, 1000UL);
		}
		if (one_in(4))
			any_trouble(s, m, kinds);
	}
	if (one_in(5))
		changes(s, from_to(1, 4));
}

/* One on time that always sends, beside many that have a packet now and then:
 * what these pay for in advance is forgotten until the next one
 */
static void make_lone(struct scenario *s)
{
	u32 n = one_in(2) ? from_to(1, 12) : from_to(1, 100);
	struct spec *m = add(s);

	s->rate = magnitude(GBIT / 10, 100 * GBIT);
	s->ns = max(packets_ns(s, 20000, MTU), 20 * NSEC_PER_MSEC);
	s->events = 1000000;
	m->tbf = one_in(2);
	m->src[0] = fixed(SATURATED, MTU);
	if (one_in(3))
		any_size(&m->src[0]);
	while (n--) {
		struct source *src;

		m = add(s);
		m->tbf = one_in(2);
		src = &m->src[0];
		*src = fixed(PACED, one_in(2) ? MTU : from_to(64, MTU));
		src->sparse = one_in(3);
		src->pause = from_to(RATE_GROUP_CREDIT_TIME, 4 * RATE_GROUP_CREDIT_TIME) + 1;
		src->from = rnd(src->pause);
	}
}

/* Bursts of more than a slot and pauses; then one always sends, beside them */
static void make_bursts(struct scenario *s)
{
	u32 n = from_to(2, 40);
	struct spec *m = add(s);

	s->rate = magnitude(GBIT / 10, 40 * GBIT);
	s->ns = packets_ns(s, 4000, MTU);
	m->src[0] = fixed(SATURATED, MTU);
	m->src[0].from = s->ns / 2 + rnd(s->ns / 4);
	while (n--) {
		struct source *src;

		m = add(s);
		m->tbf = one_in(2);
		src = &m->src[0];
		*src = fixed(PACED, MTU);
		src->count = from_to(2, 64);
		src->pause = packets_ns(s, from_to(200, 1000), MTU);
		src->from = rnd(src->pause);
	}
}

/* TX queues hold a little, and tell late what they have sent: what is there is
 * taken out many packets at a time
 */
static void make_bql(struct scenario *s)
{
	u32 i, n = one_in(2) ? from_to(1, 3) : from_to(1, 24);
	u32 light = one_in(2) ? 0 : from_to(1, 12);
	u64 line;

	s->rate = magnitude(GBIT / 10, 40 * GBIT);
	s->ns = max(packets_ns(s, 20000, MTU), 20 * NSEC_PER_MSEC);
	s->warm = s->ns / 10;
	s->events = 1000000;
	line = s->rate * from_to(11, 100) / 10;
	for (i = 0; i < n + light; i++) {
		struct spec *m = add(s);

		m->tbf = one_in(2);
		m->line = line;
		m->bql = magnitude(4 * MTU, 300000);
		/* So that it is never idle before it has told */
		m->irq = 1 + rnd(ns_of(line, m->bql / 2));
		if (i < n) {
			m->src[0] = fixed(SATURATED, MTU);
			m->fair = !light;
			continue;
		}
		m->src[0] = fixed(POISSON, one_in(2) ? MTU : 300);
		at_share(s, &m->src[0], from_to(10, 400) / light);
	}
}

/* How often each is taken, of 1000, and what is checked besides the bounds, the
 * books and clocks
 */
const struct family families[] = {
	/* Members that are in time wait for no more than some rounds */
	{ "any", 140, make_any, C_STARVED | C_WEIGHTS },
	/* What goes ahead, and what is paid late, leaves the rest its turns */
	{ "small", 50, make_small, C_STARVED },
	/* The same for longer. No more than a fair share */
	{ "greedy", 50, make_greedy, C_GREEDY | C_STARVED },
	/* Those in time do not burst because one is not */
	{ "hung", 50, make_hung, C_STARVED | C_NO_MAX_LATE },
	/* A slot of the old rate must not stall the group at the new */
	{ "gap", 50, make_gap, C_STARVED | C_WEIGHTS },
	/* A lone packet now and then is no way to a second share */
	{ "rhythm", 50, make_rhythm, C_FAIR | C_GREEDY | C_STARVED },
	/* Nor is it to have one packet at a time */
	{ "single", 50, make_single, C_FAIR | C_GREEDY | C_STARVED },
	/* Debts outlive a low rate; waits may be as long as they like */
	{ "forgive", 30, make_forgive, 0 },
	/* Equal members get equal shares */
	{ "fair", 80, make_fair, C_FAIR | C_STARVED | C_WEIGHTS },
	/* Bursts are bounded together, not one by one */
	{ "tbf", 80, make_tbf, C_STARVED },
	/* Members that are in time suffer from no one who is late */
	{ "late", 50, make_late, C_STARVED | C_WEIGHTS },
	/* Lateness within max_late costs no rate, 1 % beside light ones */
	{ "timers", 50, make_timers, C_NO_LOSS | C_WEIGHTS },
	/* Who leaves pays, and takes nothing along */
	{ "churn", 50, make_churn, C_WEIGHTS },
	/* Nor does any other, and ticks serve all alike */
	{ "lateness", 20, make_lateness, C_NO_LOSS | C_FAIR },
	/* Beyond that it does, and nobody makes up for it */
	{ "stopped", 20, make_stopped, 0 },
	/* Nor do CPUs that are always late */
	{ "cpus", 20, make_cpus, C_NO_LOSS | C_FAIR },
	/* Later ranks have all that is left */
	{ "ranks", 20, make_ranks, 0 },
	/* What is paid in advance comes out of time that nobody uses */
	{ "lone", 30, make_lone, C_ON_TIME | C_STARVED },
	/* Time that others skipped before is not a new backlog's */
	{ "bursts", 30, make_bursts, C_ON_TIME | C_STARVED },
	/* Nor do TX queues that stop all the time cost any rate */
	{ "bql", 20, make_bql, C_NO_LOSS },
	/* Turns of tins depend on thresholds, so waits may be longer */
	{ "tins", 60, make_tins, C_WEIGHTS },
};

const u32 n_families = ARRAY_SIZE(families);

/* family: name of the one to take; NULL: as often as each says */
void make_scenario(struct scenario *s, u64 seed, const char *family)
{
	const struct family *f = families;
	s32 pick;
	u32 i;

	state = seed;
	pick = rnd(1000);
	while (f < families + n_families - 1 &&
	       (family ? !!strcmp(family, f->name) : pick >= (s32)f->often)) {
		pick -= f->often;
		f++;
	}
	s->seed = seed;
	s->family = f;
	s->rate = any_rate();
	s->mtu = one_in(8) ? from_to(300, 9000) : MTU;
	s->warm = 0;
	s->race = 0;
	s->tick = 0;
	s->singly = !(f->checks & C_GREEDY) && one_in(2);
	s->cpus = 0;
	s->events = 0;
	s->n = 0;
	s->changes = 0;
	f->make(s);
	if (f->checks & C_WEIGHTS && one_in(3))
		for (i = 0; i < s->n; i++)
			/* Who passes turns may come late after each of them */
			s->m[i].weight = f->checks & (C_FAIR | C_NO_LOSS) ?
				from_to(RATE_GROUP_WEIGHT,
					RATE_GROUP_WEIGHT * 4) :
				magnitude(RATE_GROUP_WEIGHT / 256,
					  RATE_GROUP_WEIGHT * 256);
	any_clock(s);
}

/* ------------------------------------------------------------------ in words */

static void print_source(const struct source *src, int i)
{
	static const char * const kinds[] = {
		"none", "saturated", "paced", "poisson", "on/off", "single",
		"rhythm",
	};

	printf(" [%d %s%s", i, src->sparse ? "sparse " : "", kinds[src->kind]);
	if (src->size == MIXED)
		printf(" 64..9000 B");
	else if (src->size == UNIFORM)
		printf(" %u-%u B", src->lo, src->hi);
	else
		printf(" %u B", src->lo);
	if (src->count > 1)
		printf(" x %u", src->count);
	if (src->kind != SATURATED && src->kind != SINGLE &&
	    src->kind != RHYTHM)
		printf(" every %lu", src->pause);
	if (src->gap)
		printf(" gap %lu", src->gap);
	if (src->from)
		printf(" from %lu", src->from);
	printf("]");
}

static void print_spec(const struct spec *m)
{
	int i;

	printf("; #%u %s", m->id, m->tbf ? "tbf" : m->tins ? "tins" : "cake");
	for (i = 0; i < SOURCES; i++)
		if (m->src[i].kind)
			print_source(&m->src[i], i);
	if (m->overhead)
		printf(" overhead %d", m->overhead);
	if (m->atm)
		printf(" atm");
	if (m->burst)
		printf(" burst %u", m->burst);
	if (m->weight)
		printf(" weight %u", m->weight);
	if (m->rank)
		printf(" rank %u", m->rank - 1);
	if (m->late)
		printf(" late %lu (1 in %u)", m->late, m->late_one_in);
	if (m->stop_every)
		printf(" stops %lu every %lu%s", m->stop, m->stop_every,
		       m->together ? " together" : "");
	if (m->bql)
		printf(" TX queue of %u at %lu, told every %lu", m->bql, m->line,
		       m->irq);
	if (m->hang != NEVER)
		printf(" hangs at %lu", m->hang);
	if (m->reset_every)
		printf(" reset every %lu", m->reset_every);
	if (m->leave_every)
		printf(" leaves every %lu", m->leave_every);
	if (m->leave_after)
		printf(" leaves after %u packets", m->leave_after);
	if (m->skew)
		printf(" skew %lu", m->skew);
}

/* On the line that is being printed */
void print_scenario(const struct scenario *s)
{
	u32 i;

	printf("rate %lu mtu %u start %lu, %lu ns", s->rate, s->mtu, s->start,
	       s->ns);
	if (s->race)
		printf(", race 1 in %u", s->race);
	if (s->tick)
		printf(", ticks of %lu", s->tick);
	if (s->singly)
		printf(", singly");
	if (s->cpus)
		printf(", %u CPUs, %lu a call, %lu a packet", s->cpus,
		       s->call_ns, s->packet_ns);
	for (i = 0; i < s->changes; i++)
		printf(", at %lu rate %lu gap %lu", s->change[i].at,
		       s->change[i].rate, s->change[i].gap);
	for (i = 0; i < s->n; i++)
		print_spec(&s->m[i]);
}

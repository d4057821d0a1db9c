// SPDX-License-Identifier: GPL-2.0
/*
 * Two tables, beside one cake at the root that is modelled in cake.c: what
 * lateness costs, and what the line that members share has to take below the
 * rate. A row that is out of its bound ends with the bound.
 */
#include <stdio.h>
#include <string.h>
#include "fuzz.h"

#define LONG_RUN	400000000	/* events */

static struct scenario s;
static struct outcome o;
static const struct family family = { .name = "rows" };

enum kind { ONE_STOPS, ALL_STOP, LATE, TICK_4, TICK_10, CPUS, ALL_LATE, ONE_LATE,
	    BESIDE_IDLE };

static const char * const kinds[] = {
	"one stops for 5 ms", "all stop for 5 ms", "300 us late",
	"ticks of 4 ms", "ticks of 10 ms", "one CPU, 40 us a call",
	"each 30 us late, always", "one 1 ms late, always",
	"the same, and 38 idle",
};

#define IDLE		38

static void begin(double gbit, u64 ns, u64 warm)
{
	memset(&s, 0, sizeof(s));
	s.family = &family;
	s.seed = 1;
	s.rate = gbit * GBIT;
	s.mtu = MTU;
	s.start = NSEC_PER_SEC;
	s.ns = ns;
	s.warm = warm;
	s.events = LONG_RUN;
}

static struct spec *add(void)
{
	struct spec *m = &s.m[s.n];

	memset(m, 0, sizeof(*m));
	m->id = s.n++;
	m->hang = NEVER;
	m->src[0] = (struct source){ .kind = SATURATED, .size = FIXED,
				     .lo = MTU, .hi = MTU, .count = 1 };
	return m;
}

/* n: members; 0: one cake for all */
static void run_late(enum kind kind, u32 n, double gbit)
{
	u32 i;

	begin(gbit, 2200 * NSEC_PER_MSEC, 200 * NSEC_PER_MSEC);
	if (kind == TICK_4 || kind == TICK_10)
		s.tick = (kind == TICK_4 ? 4 : 10) * NSEC_PER_MSEC;
	if (kind == CPUS) {
		s.cpus = 1;
		s.call_ns = 40 * NSEC_PER_USEC;
		s.packet_ns = NSEC_PER_USEC;
	}
	for (i = 0; i < max(n, 1U); i++) {
		struct spec *m = add();

		m->root = !n;
		if (kind == LATE)
			m->late = 600 * NSEC_PER_USEC;
		if (kind == ALL_LATE || (kind >= ONE_LATE && !i)) {
			m->late = (kind == ALL_LATE ? 30 : 1000) * NSEC_PER_USEC;
			m->late_one_in = 1;
		}
		if (kind == ALL_STOP || (kind == ONE_STOPS && !i)) {
			m->stop_every = 100 * NSEC_PER_MSEC;
			m->stop = 5 * NSEC_PER_MSEC;
			m->together = true;
		}
	}
	for (i = 0; i < IDLE && n && kind == BESIDE_IDLE; i++)
		add()->src[0].kind = NONE;
	simulate(&s, &o);
}

static bool late_rows(void)
{
	static const double rates[] = { 0.1, 1, 10, 40 };
	static const u32 counts[] = { 1, 2, 8, 40 };
	double root = 0, could = 0, used, jain, gbit;
	enum kind kind;
	bool good = true;
	u64 most;
	u32 i, j;

	printf("%-26s%8s%10s%10s%10s%10s%10s%10s\n", "saturated", "Gbit/s",
	       "members", "share, %", "root", "excess, KB", "root", "Jain");
	for (kind = ONE_STOPS; kind <= BESIDE_IDLE; kind++) {
		for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(counts); i++) {
			gbit = rates[i / ARRAY_SIZE(counts)];
			j = i % ARRAY_SIZE(counts);
			if (gbit > 10 && kind < ALL_LATE)
				continue;
			if (!j) {
				run_late(kind, 0, gbit);
				could = 100.0 * o.all / o.could;
				root = o.most;
			}
			run_late(kind, counts[j], gbit);
			used = 100.0 * o.all / o.could;
			jain = jain_index(o.sent, counts[j]) / 1e6;
			/* Two packets beside what the other has */
			most = 1.1 * root + 2 * MTU;
			printf("%-26s%8g%10u%10.2f%10.2f%10.1f%10.1f%10.3f",
			       kinds[kind], gbit, counts[j], used, could,
			       o.most / 1e3, root / 1e3, jain);
			if (used < 99 && could >= 99)
				printf("  share >= 99");
			else if (kind != CPUS && kind != ALL_LATE &&
				 o.most > most)
				printf("  excess <= %.1f", most / 1e3);
			else if (s.tick && counts[j] <= 8 && jain < 0.95)
				printf("  Jain >= 0.95");
			else if (kind >= ALL_LATE && jain < 0.99 &&
				 (kind < BESIDE_IDLE || counts[j] > 2))
				printf("  Jain >= 0.99");
			else {
				printf("\n");
				continue;
			}
			good = false;
			printf("\n");
		}
	}
	return good;
}

/* count: packets that come at once, to members whose timers are 20 us late if
 * these are several; wake: packets of each member, all at once, in addition
 */
static void run_light(u8 kind, u32 n, double gbit, u32 len, u32 count, u32 wake)
{
	u32 i;

	begin(gbit, 50 * NSEC_PER_MSEC, 2 * NSEC_PER_MSEC);
	s.singly = true;
	for (i = 0; i < n; i++) {
		struct spec *m = add();

		m->src[0].kind = kind;
		m->src[0].lo = len;
		m->src[0].hi = len;
		m->src[0].pause = ns_of(s.rate, (u64)len * n * count) * 10 / 6;
		if (count > 1) {
			m->src[0].count = count;
			m->late = 20 * NSEC_PER_USEC;
			m->late_one_in = 1;
		}
		m->src[0].from = m->src[0].pause * i / n;
		if (!wake)
			continue;
		m->src[1] = (struct source){
			.kind = PACED, .size = FIXED, .lo = MTU, .hi = MTU,
			.count = wake, .pause = 10 * NSEC_PER_MSEC,
			.from = 5 * NSEC_PER_MSEC - 1000,
		};
	}
	simulate(&s, &o);
}

static bool light_rows(void)
{
	static const double rates[] = { 10, 100, 400 };
	static const u32 counts[] = { 2, 8, 40 }, lens[] = { 1514, 200 };
	static const char * const names[] = {
		"60 %, regular", "60 %, random", "the same, + 1 each",
		"the same, + 64 each", "60 %, bursts of 32, late",
	};
	static const u32 bursts[] = { 1, 1, 1, 1, 32 };
	static const u32 wakes[] = { 0, 0, 1, 64, 0 };
	bool good = true;
	double writes;
	u32 i, k, l, r;

	printf("\n%-26s%8s%10s%10s%10s%10s\n", "below the rate", "Gbit/s",
	       "members", "bytes", "excess, KB", "writes/p");
	for (r = 0; r < ARRAY_SIZE(rates); r++)
	for (i = 0; i < ARRAY_SIZE(counts); i++)
	for (l = 0; l < ARRAY_SIZE(lens); l++)
	for (k = 0; k < ARRAY_SIZE(names); k++) {
		run_light(k ? POISSON : PACED, counts[i], rates[r], lens[l],
			  bursts[k], wakes[k]);
		writes = (double)o.writes / o.packets;
		printf("%-26s%8g%10u%10u%10.1f%10.3f", names[k], rates[r],
		       counts[i], lens[l], o.most / 1e3, writes);
		if (k < 2 && writes > (r && !k ? 0.15 : 0.5)) {
			printf("  writes <= %g", r && !k ? 0.15 : 0.5);
			good = false;
		}
		printf("\n");
	}
	return good;
}

/* Print both tables; false if a row is out of its bound */
bool run_rows(void)
{
	bool late = late_rows();

	return light_rows() && late;
}

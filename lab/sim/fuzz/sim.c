// SPDX-License-Identifier: GPL-2.0
/*
 * The simulator: virtual time, members that send as cake and tbf do, and what
 * is checked of it.
 *
 * Levels of meters are in bytes times NSEC_PER_SEC, so that they drain without
 * rounding.
 */
#include <stdio.h>
#include "sim.h"

#define MOST_EVENTS	100000	/* then a scenario just ends */
#define MOST_AT_ONCE	10000	/* calls at one instant */
#define UNLIMITED_BATCH	64	/* packets per call, if there is no rate */
#define VISIT		64	/* packets, then it is another's turn on the CPU */

/* A member that is called when it asked to be has a packet sent within so many
 * rounds: those that it may owe, its own, the one that is going on, and two
 * for all that goes ahead, which is a quarter of the rate at most.
 */
#define ROUNDS		(RATE_GROUP_AHEAD_QUANTA + 4)

const char * const check_names[CHECKS] = {
	[EXCESS]	= "excess",
	[EXCESS_ALL]	= "excess over changes",
	[SHORTAGE]	= "shortage",
	[SHARE_HIGH]	= "share high",
	[SHARE_LOW]	= "share low",
	[JAIN]		= "Jain",
	[GREEDY]	= "greedy",
	[STARVED]	= "starved",
	[UNPAID]	= "unpaid",
	[OVERPAID]	= "overpaid",
	[CLOCK]		= "clock back",
	[LIVELOCK]	= "livelock",
	[LOSS]		= "loss",
	[OVERFLOW]	= "overflow",
};

bool tracing;
bool stop_at_failure;
enum check only = CHECKS;

struct meter {
	s128	level;
	s128	bound;		/* the largest since the level was 0 */
};

static struct {
	const struct scenario *s;
	struct outcome	*o;
	struct rate_group group;
	struct rate_group tins[SOURCES];
	struct member	m[MEMBERS];
	u32		n;
	u64		now;
	u64		random;
	u64		rate;		/* of the group */
	u32		mtu;		/* of the device */
	u32		longest;	/* packet of all members, as charged */
	u64		most;		/* the most that anyone believes it is, */
	u64		least;		/* and the least; 0 is unlimited */
	u32		pending;	/* members that do not know it yet */
	u64		behind;		/* how long it took for all to know it */
	u32		busy;		/* members with something to send */
	struct member	*anchor;	/* has had a backlog for longest */
	bool		strict;		/* shortage is about the anchor only */
	bool		vain;		/* some time may be left unused */
	u32		at_once;
	struct meter	fresh;
	struct meter	all;
	struct meter	missing;
	s128		excess_bound;
	s128		shortage_bound;
	s128		paid_bound;
	u64		weights;	/* of all members */
	s128		claims_bound;	/* unused time that members may have back */
	u64		wait_bound;
	s128		charged;	/* since the books were opened, bytes */
	s64		moved;		/* the TAT, ns */
	s128		vanished;	/* slots that may have gone unused, bytes */
	bool		books;		/* are kept */
	u64		clock;		/* of who is active */
	u64		events;		/* at most */
	u32		idle;		/* CPUs */
	struct member	*waiting[MEMBERS]; /* for a CPU, a ring */
	u32		first;
	u32		waiters;
} sim;

const atomic64_t *shim_watched;
bool shim_racing;

/* ---------------------------------------------------------------- verdicts */

static void fail(enum check check, s64 figure, s64 bound)
{
	struct outcome *o = sim.o;

	if (o->failed || (only < CHECKS && only != check))
		return;
	o->failed = true;
	o->check = check;
	o->at = sim.now;
	if (tracing)
		printf("%15lu FAIL %s: %ld, bound %ld\n", sim.now,
		       check_names[check], figure, bound);
}

/* figure is to be no more than bound */
static void judge(enum check check, s64 figure, s64 bound)
{
	struct outcome *o = sim.o;
	u64 permille = bound > 0 && figure > 0 ?
		       (u64)((s128)figure * 1000 / bound) : figure > bound ?
		       2000 : 0;

	if (permille > o->permille[check]) {
		o->permille[check] = min(permille, 1000000000UL);
		o->figure[check] = figure;
		o->bound[check] = bound;
	}
	if (figure > bound)
		fail(check, figure, bound);
}

void shim_overflow(const char *what)
{
	if (shim_in_thread || !sim.o) {
		printf("overflow: %s\n", what);
		abort();
	}
	if (tracing)
		printf("%15lu overflow: %s\n", sim.now, what);
	judge(OVERFLOW, 1, 0);
}

static s64 whole(s128 level)
{
	s128 bytes = (level + NSEC_PER_SEC - 1) / NSEC_PER_SEC;

	return bytes > S64_MAX ? S64_MAX : bytes;
}

static void judge_level(enum check check, struct meter *meter)
{
	if (meter->level * 1000 > meter->bound * sim.o->permille[check])
		judge(check, whole(meter->level), whole(meter->bound));
}

/* ------------------------------------------------------------- the bounds */

/* Of one member, and its tins */
static u64 member_bytes(const struct member *m)
{
	u64 bytes = bound_of_member(m->longest, sim.longest);
	u32 i;

	for (i = 1; i < m->spec->tins; i++)
		bytes += bound_of_member(m->longest, m->slot);

	return bytes;
}

/* How far clocks differ, in time */
static u64 skew(void)
{
	u64 most = 0;	/* whoever changes the rate has none */
	u32 i;

	for (i = 0; i < sim.n; i++)
		most = max(most, sim.m[i].spec->skew);

	return most;
}

/* Where nobody is late, a member is wrong by no more than a packet that is
 * longer than what is left of its slot, and what it has paid for in advance
 */
static u64 bytes_on_time(void)
{
	u64 most = ETH_FRAME_LEN + 2 * RATE_GROUP_AHEAD +
		   min(bytes_in(sim.rate, RATE_GROUP_SLACK), ETH_FRAME_LEN);
	u32 i, longest = 0;

	for (i = 0; i < sim.n; i++) {
		const struct source *src = &sim.m[i].spec->src[0];

		longest = max(longest, sim.m[i].longest);
		if (src->size != FIXED || src->lo != ETH_FRAME_LEN)
			most += sim.m[i].longest;
		if (src->kind != SATURATED)
			most += max(sim.group.prepay, RATE_GROUP_SMALL);
	}

	return most + longest;
}

/* As the comment at the top of sch_rate_group.c has them; in addition clocks
 * count in ns, so each member and each packet of a slot is rounded by one, and
 * clocks of CPUs differ.
 */
static void set_bounds(void)
{
	u64 most = bound_of_group(), burst = 0, max_late, slack, round = 0;
	u64 hold = 0, weights = 0;
	bool late = false;
	const struct family *f = sim.s->family;
	u32 i, longest = 0, shortest = U32_MAX;
	s128 level;

	for (i = 0; i < sim.n; i++) {
		const struct member *m = &sim.m[i];
		u32 j;

		/* While weights are told, slots may add up to twice that */
		if (m->spec->weight)
			most += max(RATE_GROUP_QUANTUM, sim.longest);
		late |= !m->prompt;
		/* Who waits for others in vain is late by that */
		if (m->spec->tins || m->spec->rank)
			hold = bytes_in(sim.rate, RATE_GROUP_HOLD);

		longest = max(longest, m->longest);
		for (j = 0; j < SOURCES; j++)
			if (m->spec->src[j].kind)
				shortest = min(shortest, m->spec->src[j].lo);
		most += member_bytes(m);
		burst = max(burst, m->spec->burst);
	}
	slack = bytes_in(sim.rate, sim.n + RATE_GROUP_QUANTUM / max(shortest, 1U) + 1 +
			 (sim.n + 1) * skew()) + 1;
	max_late = max3(burst, bytes_in(sim.rate, RATE_GROUP_MAX_LATE),
			2 * ETH_FRAME_LEN);
	if (!sim.vain || f->checks & C_NO_MAX_LATE) {
		/* Who learns of a rate late is late by that much */
		u64 late = bytes_in(sim.rate, sim.behind);

		max_late = max(burst, min(late, max_late));
	}

	if (late)
		hold += bytes_in(sim.rate, RATE_GROUP_MAX_SLACK + RATE_GROUP_MISSED);
	most += hold;
	sim.paid_bound = (s128)(2 * most + 2 * slack) * NSEC_PER_SEC;
	if (f->checks & C_ON_TIME)
		most = bytes_on_time();
	level = NSEC_PER_SEC;
	sim.excess_bound = level * (most + max_late + slack);
	sim.shortage_bound = level * (most + slack +
				      bytes_in(sim.rate, sim.behind));
	sim.claims_bound = level * max_late;
	sim.fresh.bound = sim.excess_bound;
	sim.all.bound = max(sim.all.bound, sim.excess_bound);
	sim.missing.bound = max(sim.missing.bound, sim.shortage_bound);

	for (i = 0; i < sim.n; i++) {
		weights += sim.m[i].spec->weight;
		round += max3(sim.group.quantum, sim.group.longest, longest);
	}
	sim.weights = weights;
	sim.wait_bound = NEVER;
	if (sim.rate)
		sim.wait_bound = ns_of(sim.rate, ROUNDS * round) + (sim.n + 1) * skew() +
				 RATE_GROUP_SLACK;
	if (sim.rate && sim.vain)
		sim.wait_bound += ns_of(sim.rate, max_late) + RATE_GROUP_MAX_LATE;
}

/* ---------------------------------------------- what was paid by the TAT */

/* While the TAT is ahead of time, it moves by what is sent: books are kept of
 * both, and opened anew when there was time to spare.
 */
static void open_books(bool keep)
{
	sim.books = keep;
	sim.charged = 0;
	sim.moved = 0;
	sim.vanished = 0;
}

void shim_moved(s64 from, s64 to)
{
	if (shim_in_thread)
		shim_thread_moved += to - from;
	else if (from - (s64)sim.clock <= RATE_GROUP_SLACK)
		open_books(sim.books);
	else
		sim.moved += to - from;
}

static void check_books(void)
{
	s128 moved, sent = sim.charged * NSEC_PER_SEC;

	if (!sim.books || !sim.rate)
		return;
	moved = (s128)sim.moved * sim.rate;
	judge(UNPAID, whole(sent - moved),
	      whole(sim.paid_bound + sim.claims_bound));
	judge(OVERPAID, whole(moved - sent),
	      whole(sim.paid_bound + sim.vanished * NSEC_PER_SEC));
}

/* -------------------------------------------------------------- time passes */

static void advance(u64 to)
{
	u64 ns = to - sim.now;

	if (!ns)
		return;
	sim.at_once = 0;
	sim.now = to;
	if (sim.most) {
		s128 drain = (s128)sim.most * ns;

		sim.fresh.level = max(sim.fresh.level - drain, (s128)0);
		sim.all.level = max(sim.all.level - drain, (s128)0);
	} else {
		sim.fresh.level = 0;
		sim.all.level = 0;
	}
	if (sim.least && (sim.strict ? !!sim.anchor : !!sim.busy)) {
		sim.missing.level += (s128)sim.least * ns;
		judge_level(SHORTAGE, &sim.missing);
	} else {
		sim.missing.level = 0;
	}
}

/* Who has had a backlog for longest, and is always in time */
static void choose_anchor(void)
{
	u32 i;

	sim.anchor = NULL;
	sim.missing.level = 0;
	for (i = 0; i < sim.n; i++) {
		struct member *m = &sim.m[i];

		if (m->prompt && m->packets && m->joined &&
		    (!sim.anchor || m->busy_since < sim.anchor->busy_since))
			sim.anchor = m;
	}
}

static void set_busy(struct member *m, bool busy)
{
	if (busy) {
		sim.busy++;
		m->busy_since = sim.now;
		m->waits_since = sim.now;
		if (!sim.anchor && m->prompt)
			sim.anchor = m;
	} else {
		sim.busy--;
		if (sim.anchor == m)
			choose_anchor();
	}
}

/* ------------------------------------------------------------------ packets */

u32 cost_of(const struct spec *spec, u32 len)
{
	len = max_t(s32, len + spec->overhead, 1);

	return spec->atm ? DIV_ROUND_UP(len, 48) * 53 : len;
}

static u32 draw(struct member *m, int i)
{
	static const u32 mixed[] = { 64, 300, 1514, 9000 };
	const struct source *src = &m->spec->src[i];

	if (src->size == FIXED)
		return src->lo;
	if (src->size == UNIFORM)
		return src->lo + below(&m->random, src->hi - src->lo + 1);

	return mixed[below(&m->random, ARRAY_SIZE(mixed))];
}

u32 head_len(const struct member *m, int i)
{
	const struct fifo *q = &m->q[i];

	return q->len[q->head];
}

static u64 clock_of(const struct member *m)
{
	return sim.s->start + sim.now + m->spec->skew;
}

/* Of time: for traces */
static s64 tat_ahead(void)
{
	return atomic64_read(&sim.group.tat) - sim.s->start - sim.now;
}

/* The clock of a member never goes back */
static void look(struct member *m, u64 now)
{
	u64 clock;

	if (!m->joined || !m->part.rate) {
		m->seen = false;
		return;
	}
	clock = rate_group_clock(&m->part, now);
	if (m->seen && (s64)(clock - m->clock) < 0)
		judge(CLOCK, m->clock - clock, 0);
	m->clock = clock;
	m->seen = true;
}

static void add_packet(struct member *m, int i)
{
	struct fifo *q = &m->q[i];
	u64 now = clock_of(m);
	u32 len = draw(m, i);

	if (q->endless || q->n >= FIFO || !m->joined)
		return;
	sim.clock = now;
	if (!m->packets)
		set_busy(m, true);
	/* It may be one that goes ahead */
	if (!q->n || m->spec->src[i].sparse)
		m->wait = 0;
	q->len[(q->head + q->n) % FIFO] = len;
	q->n++;
	q->bytes += len;
	m->packets++;
	m->bytes += len;
	backlog_changed(m, i, now);
	look(m, now);
}

/* From now on there always is more */
static void fill(struct member *m, int i)
{
	struct fifo *q = &m->q[i];

	if (q->endless || !m->joined)
		return;
	add_packet(m, i);
	add_packet(m, i);
	q->endless = true;
	m->bytes += ENDLESS - q->bytes;
	q->bytes = ENDLESS;
}

static void take_packet(struct member *m, int i)
{
	struct fifo *q = &m->q[i];
	u32 len = q->len[q->head];

	if (q->endless) {
		q->len[q->head] = draw(m, i);
		return;
	}
	q->head = (q->head + 1) % FIFO;
	q->n--;
	q->bytes -= len;
	m->packets--;
	m->bytes -= len;
	if (q->n)
		return;
	if (m->spec->src[i].kind == SINGLE)
		m->arrive[i] = sim.now + max(m->spec->src[i].gap, 1UL);
	if (m->spec->src[i].kind == RHYTHM) {
		m->lone = !m->lone;
		m->arrive[i] = sim.now + max(m->spec->src[i].gap, 1UL);
	}
}

/* What has sent because of what it had sent before, or without end */
static void begin_again(struct member *m, int i)
{
	const struct source *src = &m->spec->src[i];

	if (src->kind == SATURATED || src->kind == SINGLE ||
	    src->kind == RHYTHM)
		m->arrive[i] = sim.now + 1 + below(&m->random, src->gap);
}

/* All that a member has to send vanishes */
static void drop_all(struct member *m)
{
	u64 now = clock_of(m);
	int i;

	if (!m->packets)
		return;
	for (i = 0; i < SOURCES; i++) {
		struct fifo *q = &m->q[i];

		if (!q->n)
			continue;
		q->n = 0;
		q->bytes = 0;
		q->endless = false;
		begin_again(m, i);
	}
	m->packets = 0;
	m->bytes = 0;
	m->call = NEVER;
	m->wait = 0;
	set_busy(m, false);
	sim.clock = now;
	sim.missing.level = max(sim.missing.level - (s128)NSEC_PER_SEC *
				member_bytes(m), (s128)0);
	sim.vanished += member_bytes(m);
	for (i = 0; i < SOURCES; i++)
		backlog_changed(m, i, now);
	look(m, now);
}

/* It has waited until now */
static void judge_wait(const struct member *m)
{
	if (m->prompt && !sim.pending && sim.wait_bound != NEVER &&
	    sim.s->family->checks & C_STARVED)
		judge(STARVED, sim.now - m->waits_since,
		      mul_u64_u64_div_u64(sim.wait_bound,
					  max(sim.weights / sim.n,
					      (u64)RATE_GROUP_WEIGHT),
					  min(m->spec->weight ?: U32_MAX,
					      RATE_GROUP_WEIGHT)));
}

/* A TX queue takes what fits, and stops until half of it is gone */
static void to_queue(struct member *m, u32 len)
{
	const struct spec *spec = m->spec;

	m->holds -= min(m->holds, bytes_in(spec->line, sim.now - m->held_at));
	m->holds += len;
	m->held_at = sim.now;
	if (m->holds < spec->bql || m->stopped > sim.now)
		return;
	m->stopped = sim.now + ns_of(spec->line, m->holds - spec->bql / 2);
	m->stopped = (m->stopped / spec->irq + 1) * spec->irq;
	m->call = sim.now;
}

static void send(struct member *m, int i, u64 now)
{
	u32 len = head_len(m, i), cost = cost_of(m->spec, len);
	s128 level = (s128)cost * NSEC_PER_SEC;

	take_packet(m, i);
	sim.o->packets++;
	m->yields = 0;
	sim.o->writes += shim_writes;
	shim_writes = 0;
	if (m->stays && !--m->stays)
		m->toggle_at = sim.now;
	if (sim.now >= sim.s->warm)
		m->sent += cost;
	judge_wait(m);
	m->waits_since = sim.now;
	sim.missing.level = max(sim.missing.level - level, (s128)0);
	if (sim.most) {
		sim.fresh.level += level;
		sim.all.level += level;
		if (sim.now >= sim.s->warm)
			sim.o->most = max(sim.o->most, whole(sim.fresh.level));
		if (!sim.pending)
			judge_level(EXCESS, &sim.fresh);
		judge_level(EXCESS_ALL, &sim.all);
	}
	if (m->part.rate) {
		sim.charged += cost;
		charge_packet(m, i, now, cost);
	}
	if (tracing)
		printf("%15lu #%u sends %u of source %d, level %ld, missing %ld, tail %+ld\n",
		       sim.now, m->spec->id, cost, i, whole(sim.all.level),
		       whole(sim.missing.level),
		       tat_ahead());
	look(m, now);
	if (!m->packets)
		set_busy(m, false);
	backlog_changed(m, i, now);
	look(m, now);
	if (m->spec->bql)
		to_queue(m, len);
	if (!(sim.o->packets & 63))
		check_books();
}

/* ------------------------------------------------------- calls of a member */

static u64 lateness(struct member *m)
{
	const struct spec *spec = m->spec;

	if (!spec->late)
		return 0;
	if (spec->late_one_in == 1)
		return spec->late;

	return spec->late_one_in && below(&m->random, spec->late_one_in) ? 0 :
	       below(&m->random, spec->late);
}

/* It is told to wait until `when`, by its own clock */
static void arm(struct member *m, u64 now, u64 when)
{
	s64 ns = when - now;

	if (ns <= 0) {
		/* Once others have had a chance */
		m->call = sim.now + 1;
		if (m->yields++ > MEMBERS)
			judge(LIVELOCK, m->yields, MEMBERS);
		return;
	}
	m->timer = sim.now + max(ns, 0L) + lateness(m);
	if (sim.s->tick)
		m->timer = (m->timer / sim.s->tick + 1) * sim.s->tick;
	if (tracing)
		printf("%15lu #%u waits for %ld, called in %lu, tail %+ld\n",
		       sim.now, m->spec->id, ns, m->timer - sim.now,
		       tat_ahead());
}

/* What a qdisc does in its ->dequeue(), called until it has to wait */
static void call(struct member *m)
{
	u64 now = clock_of(m), when, other = sim.clock;
	u32 batch = 0;
	int i;

	m->call = NEVER;
	if (m->timer <= sim.now)
		m->timer = NEVER;
	m->active = true;
	m->step = NEVER;
	while (m->packets && sim.o->events < sim.events) {
		sim.clock = now;
		sim.o->events++;
		if (!m->part.rate) {
			for (i = 0; !m->q[i].n; i++)
				;
			if (batch++ == UNLIMITED_BATCH) {
				m->timer = sim.now + NSEC_PER_USEC;
				break;
			}
		} else {
			i = m->spec->root ? root_turn(m, now, &when) :
			    m->spec->tbf ? tbf_turn(m, now, &when) :
					   cake_turn(m, now, &when);
			look(m, now);
		}
		if (i == -1)
			arm(m, now, when);
		if (i < 0)
			break;
		send(m, i, now);
		if (m->toggle_at <= sim.now || m->stopped > sim.now)
			break;
		if (m->packets && m->part.rate &&
		    look_ahead(m, now, &when)) {
			arm(m, now, when);
			if (sim.s->cpus || m->call != NEVER)
				break;
		}
		/* As qdisc_run() */
		if (sim.s->tick && m->part.rate && ++batch == VISIT) {
			m->call = sim.now + 1;
			break;
		}
		if (sim.s->cpus) {
			m->step = sim.now + sim.s->packet_ns;
			break;
		}
	}
	m->active = false;
	sim.clock = other;
}

static void set_key(struct member *m);

/* Give waiting members a CPU */
static void dispatch(void)
{
	while (sim.idle && sim.waiters) {
		struct member *m = sim.waiting[sim.first];

		sim.first = (sim.first + 1) % MEMBERS;
		sim.waiters--;
		sim.idle--;
		m->queued = false;
		m->visit = 0;
		m->step = sim.now + (m->woken ? sim.s->call_ns : sim.s->packet_ns);
		m->woken = false;
		sim.o->calls++;
		set_key(m);
	}
}

static void queue_for_cpu(struct member *m)
{
	if (m->queued)
		return;
	m->queued = true;
	sim.waiting[(sim.first + sim.waiters++) % MEMBERS] = m;
}

/* One call, or, if these take time, one packet of it */
static void run(struct member *m)
{
	bool on_cpu = m->step <= sim.now;

	if (!sim.s->cpus) {
		sim.o->calls++;
		call(m);
		return;
	}
	if (!on_cpu) {
		m->call = NEVER;
		if (m->timer <= sim.now) {
			m->timer = NEVER;
			m->woken = true;
		}
		if (m->step == NEVER)
			queue_for_cpu(m);
		return;
	}
	call(m);
	if (m->step != NEVER && ++m->visit == VISIT) {
		m->step = NEVER;
		queue_for_cpu(m);
	}
	if (m->step == NEVER)
		sim.idle++;
}

static void set_key(struct member *m)
{
	u64 call = min(m->call, m->timer);
	u64 key = call == NEVER ? call : max(call, m->stopped);
	int i;

	if (m->step != NEVER)
		key = min(key, max(m->step, m->stopped));
	for (i = 0; i < SOURCES; i++)
		key = min(key, m->arrive[i]);
	key = min3(key, m->stop_at, m->reset_at);
	m->key = min3(key, m->toggle_at, m->update_at);
}

/* Somebody is between reading the TAT and moving it: let a sibling be faster */
void shim_race(void)
{
	struct member *m;

	if (below(&sim.random, sim.s->race))
		return;
	m = &sim.m[below(&sim.random, sim.n)];
	if (m->active || !m->joined || !m->packets || m->stopped > sim.now)
		return;
	shim_racing = false;
	call(m);
	set_key(m);
	shim_racing = true;
}

/* ------------------------------------------------------ what happens to one */

static u64 some(u64 *random, u64 mean)
{
	return mean ? 1 + below(random, 2 * mean) : NEVER;
}

static u64 around(struct member *m, u64 mean)
{
	return some(&m->random, mean);
}

static u64 exponential(struct member *m, u64 mean)
{
	/* Sum of the logarithm's integer part and a linear rest: mean 1 */
	u64 x = next_random(&m->random) | 1;
	u32 zeros = __builtin_clzll(x);
	u64 rest = x << zeros << 1 >> 32;	/* of 2^32 */

	/* ln 2 * (zeros + 1 - log2(1 + rest)), roughly */
	return mul_u64_u64_shr(mean * 710 / 1024,
			       ((u64)(zeros + 1) << 32) - rest, 32);
}

static void source_arrives(struct member *m, int i)
{
	const struct source *src = &m->spec->src[i];
	u32 k, count = max(src->count, 1U);

	m->arrive[i] = NEVER;
	switch (src->kind) {
	case SATURATED:
		fill(m, i);
		return;
	case SINGLE:
		count = 1;
		break;
	case RHYTHM:
		count = m->lone ? 1 : count;
		break;
	case PACED:
		m->arrive[i] = sim.now + max(src->pause, 1UL);
		break;
	case POISSON:
		m->arrive[i] = sim.now + 1 + exponential(m, src->pause);
		break;
	case ONOFF:
		count = 1;
		m->arrive[i] = sim.now + max(src->pause, 1UL);
		if (m->arrive[i] > m->phase[i]) {
			m->arrive[i] += around(m, src->gap);
			m->phase[i] = m->arrive[i] + around(m, src->gap);
		}
		break;
	}
	if (tracing)
		printf("%15lu #%u gets %u of source %d\n", sim.now,
		       m->spec->id, count, i);
	for (k = 0; k < count; k++) {
		add_packet(m, i);
		/* As dev_queue_xmit() */
		if (sim.s->singly && !sim.s->cpus && !m->active &&
		    m->packets && m->stopped <= sim.now)
			call(m);
	}
}

static void update(struct member *m)
{
	u64 now = clock_of(m);

	m->update_at = NEVER;
	if (!m->joined)
		return;
	sim.clock = now;
	m->seen = false;
	follow_rate(m, &sim.group, sim.tins, sim.mtu, now);
	if (m->packets)
		m->call = sim.now;
	m->waits_since = sim.now;
	look(m, now);
}

static void set_key_all(void)
{
	u32 i;

	for (i = 0; i < sim.n; i++)
		set_key(&sim.m[i]);
}

/* All know the rate now */
static void settle(void)
{
	u32 i;

	sim.most = sim.rate;
	sim.least = sim.rate;
	sim.fresh.level = 0;
	set_bounds();
	open_books(true);
	for (i = 0; i < sim.n; i++)
		sim.m[i].waits_since = sim.now;
}

static void change_rate(const struct change *c)
{
	u64 now = sim.s->start + sim.now, old = sim.rate;
	u32 i;

	/* One change after the other */
	for (i = 0; i < sim.n; i++)
		if (sim.m[i].update_at != NEVER)
			update(&sim.m[i]);
	check_books();
	open_books(false);
	sim.clock = now;
	sim.mtu = c->mtu;
	rate_group_set_rate(&sim.group, c->rate, now);
	sim.rate = sim.group.rate;
	if (tracing)
		printf("%15lu rate %lu, members follow every %lu\n", sim.now,
		       sim.rate, c->gap);
	sim.most = old && sim.rate ? max(old, sim.rate) : 0;
	/* Who does not know the rate yet gets no slot */
	sim.least = 0;
	/* Who was refused until now may not have had its turn yet */
	sim.behind = max(sim.behind, c->gap * sim.n);
	set_bounds();
	sim.pending = 0;
	for (i = 0; i < sim.n; i++) {
		sim.m[i].update_at = sim.now + i * c->gap;
		sim.pending++;
		if (!c->gap)
			update(&sim.m[i]);
	}
	if (!c->gap) {
		sim.pending = 0;
		settle();
	}
	set_key_all();
}

static void toggle(struct member *m)
{
	u64 now = clock_of(m);
	int i;

	m->toggle_at = sim.now + around(m, m->spec->leave_every);
	if (m->update_at != NEVER) {
		update(m);
		if (!--sim.pending)
			settle();
	}
	sim.clock = now;
	if (m->joined) {
		drop_all(m);
		leave_tins(m, now);
		rate_group_leave(&m->part, now);
		sim.vanished += member_bytes(m);
		m->joined = false;
		m->seen = false;
		if (m->spec->leave_after)
			m->toggle_at = sim.now + 1;
	} else {
		rate_group_join(&sim.group, &m->part, true, now);
		m->joined = true;
		m->stays = m->spec->leave_after;
		update(m);
		for (i = 0; i < SOURCES; i++) {
			/* A clock that begins anew, too */
			m->tin[i].next = rate_group_clock(&m->part, now);
			begin_again(m, i);
		}
	}
	set_bounds();
}

static void handle(struct member *m)
{
	u64 now = sim.now;
	int i;

	if (m->update_at <= now) {
		update(m);
		if (!--sim.pending)
			settle();
	}
	if (m->toggle_at <= now)
		toggle(m);
	if (m->reset_at <= now) {
		drop_all(m);
		m->reset_at = now + around(m, m->spec->reset_every);
	}
	if (m->stop_at <= now) {
		m->stopped = now + some(&m->stop_random, m->spec->stop);
		m->stop_at = m->stopped + some(&m->stop_random,
					       m->spec->stop_every);
	}
	for (i = 0; i < SOURCES; i++) {
		if (m->arrive[i] > now)
			continue;
		source_arrives(m, i);
		if (m->packets)
			m->call = now;
	}
	if (now >= m->spec->hang)
		m->stopped = NEVER;
	if (min3(m->call, m->timer, m->step) <= now && m->stopped <= now)
		run(m);
	set_key(m);
}

/* ---------------------------------------------------------------- the whole */

static u32 longest_of(const struct spec *spec)
{
	u32 i, longest = 0;

	for (i = 0; i < SOURCES; i++) {
		const struct source *src = &spec->src[i];
		u32 len = src->size == FIXED ? src->lo :
			  src->size == UNIFORM ? src->hi : 9000;

		if (src->kind)
			longest = max3(longest, len, cost_of(spec, len));
	}

	return longest;
}

static void start_member(struct member *m, const struct spec *spec)
{
	u64 now;
	int i;

	memset(&m->part, 0, sizeof(m->part));
	memset(m->tin, 0, sizeof(m->tin));
	m->spec = spec;
	m->random = sim.s->seed << 8 ^ spec->id;
	m->served = NULL;
	m->wait = 0;
	m->frac = 0;
	m->backlogged = false;
	m->timer = NEVER;
	m->packets = 0;
	m->bytes = 0;
	m->sent = 0;
	m->seen = false;
	m->active = false;
	m->lone = true;
	m->longest = longest_of(spec);
	sim.longest = max(sim.longest, m->longest);
	m->slot = RATE_GROUP_QUANTUM;
	m->prompt = !spec->late && !spec->stop_every && spec->hang == NEVER &&
		    !spec->bql && !sim.s->tick && !sim.s->cpus;
	m->call = NEVER;
	m->stopped = 0;
	m->holds = 0;
	m->held_at = 0;
	m->step = NEVER;
	m->queued = false;
	m->yields = 0;
	m->stop_random = sim.s->seed + (spec->together ? 0 : spec->id + 1);
	m->stop_at = some(&m->stop_random, spec->stop_every);
	m->reset_at = around(m, spec->reset_every);
	m->toggle_at = around(m, spec->leave_every);
	m->stays = spec->leave_after;
	m->update_at = NEVER;
	m->waits_since = 0;
	now = clock_of(m);
	for (i = 0; i < SOURCES; i++) {
		m->q[i].head = 0;
		m->q[i].n = 0;
		m->q[i].bytes = 0;
		m->q[i].endless = false;
		m->tin[i].next = now;
		m->arrive[i] = spec->src[i].kind ? spec->src[i].from : NEVER;
		m->phase[i] = m->arrive[i] == NEVER ? 0 :
			      m->arrive[i] + around(m, spec->src[i].gap);
	}
	rate_group_join(&sim.group, &m->part, true, now);
	m->joined = true;
	follow_rate(m, &sim.group, sim.tins, sim.mtu, now);
	sim.strict |= !m->prompt;
	sim.vain |= !m->prompt || spec->reset_every || spec->leave_every ||
		    spec->leave_after || spec->overhead || spec->atm ||
		    spec->burst || spec->skew;
	set_key(m);
}

static void start(const struct scenario *s, struct outcome *o)
{
	u32 i;

	memset(o, 0, sizeof(*o));
	sim.s = s;
	sim.o = o;
	sim.n = s->n;
	sim.now = 0;
	sim.random = s->seed ^ 0x5eed;
	sim.pending = 0;
	sim.behind = 0;
	sim.busy = 0;
	sim.anchor = NULL;
	sim.strict = false;
	sim.vain = false;
	sim.at_once = 0;
	sim.events = s->events ?: MOST_EVENTS;
	sim.idle = s->cpus;
	sim.waiters = 0;
	memset(&sim.fresh, 0, sizeof(sim.fresh));
	memset(&sim.all, 0, sizeof(sim.all));
	memset(&sim.missing, 0, sizeof(sim.missing));
	memset(&sim.group, 0, sizeof(sim.group));
	memset(sim.tins, 0, sizeof(sim.tins));
	shim_watched = NULL;
	shim_racing = false;
	sim.mtu = s->mtu;
	sim.longest = 0;
	rate_group_set_rate(&sim.group, s->rate, s->start);
	sim.rate = sim.group.rate;
	for (i = 0; i < s->n; i++)
		start_member(&sim.m[i], &s->m[i]);
	shim_watched = &sim.group.tat;
	shim_racing = s->race;
	settle();
}

/* Has it always had packets? Of the same kind as another? */
static bool saturated_like(const struct spec *spec, const struct spec *other)
{
	const struct source *a = &spec->src[0], *b = &other->src[0];

	return a->kind == SATURATED && b->kind == SATURATED &&
	       a->size == b->size && a->lo == b->lo && a->hi == b->hi;
}

static u64 sent_by_weight(const struct member *m)
{
	u32 weight = m->spec->weight ?: RATE_GROUP_WEIGHT;

	return m->sent * RATE_GROUP_WEIGHT / weight;
}

u64 jain_index(const u64 *of, u32 n)
{
	s128 sum = 0, squares = 0;
	u32 i;

	for (i = 0; i < n; i++) {
		sum += of[i];
		squares += (s128)of[i] * of[i];
	}
	return squares ? sum * sum * 1000000 / (squares * n) : 1000000;
}

/* How far below 1 the index may be, in millionths. Where CPUs are short, who is
 * on one needs no wake-up, and has what others leave: each of them gets a slot
 * per round and wake-up.
 */
static u64 unfair_bound(u32 n)
{
	u64 slot = ns_of(sim.rate, max(sim.group.quantum, sim.group.longest));
	u64 shares[MEMBERS], most = 10000;
	u32 i;

	if (sim.s->tick)
		most = 50000;
	if (!sim.s->cpus)
		return most;
	shares[0] = 1000000;
	for (i = 1; i < n; i++) {
		shares[i] = 1000000 * slot / (n * slot + sim.s->call_ns);
		shares[0] -= shares[i];
	}
	return max(1000000 - jain_index(shares, n), 200000UL);
}

/* Jain's index of those that are to be equal, and the share of each */
static void check_fair(void)
{
	const struct spec *first = &sim.s->m[sim.n - 1];
	u64 sent[MEMBERS], sum = 0, mean;
	u32 i, n = 0;

	for (i = 0; i < sim.n; i++) {
		if (!sim.m[i].spec->fair)
			continue;
		if (!saturated_like(sim.m[i].spec, first))
			return;
		sent[n] = sent_by_weight(&sim.m[i]);
		sum += sent[n++];
	}
	if (n < 2 || !sum)
		return;
	mean = sum / n;
	/* What it is less than 1 */
	judge(JAIN, 1000000 - jain_index(sent, n), unfair_bound(n));
	if (sim.s->cpus || sim.s->tick)
		return;
	for (i = 0; i < n; i++) {
		judge(SHARE_HIGH, sent[i], mean + mean / 10);
		/* As much as is missing could have been too much */
		judge(SHARE_LOW, 2 * mean - min(sent[i], 2 * mean),
		      mean + mean / 10);
	}
}

/* Nobody gets more than the rest, by sending in a clever way: 10 % and what
 * may be owed at the end
 */
static void check_greedy(void)
{
	u64 fair = bytes_in(sim.rate, sim.now - sim.s->warm) / sim.n;
	u32 i;

	for (i = 0; i < sim.n; i++)
		if (!sim.m[i].spec->greedy &&
		    sim.m[i].spec->src[0].kind != SATURATED)
			return;
	for (i = 0; i < sim.n; i++) {
		struct member *m = &sim.m[i];

		if (m->spec->greedy)
			judge(GREEDY, m->sent, fair + fair / 10 +
			      RATE_GROUP_AHEAD + (RATE_GROUP_AHEAD_QUANTA + 2) *
			      max3(sim.group.quantum, sim.group.longest,
				   m->longest));
	}
}

/* All that was to be sent was, although timers were late */
static void check_loss(void)
{
	u64 could = sim.o->could, late = sim.s->tick, bound;
	u32 i;

	for (i = 0; i < sim.n; i++) {
		const struct spec *spec = sim.m[i].spec;

		late = max3(late, spec->late, spec->stop);
		if (spec->bql)
			late = max(late, spec->irq + ns_of(spec->line, spec->bql));
	}
	/* There always was something to be sent */
	if (sim.s->m[0].src[0].kind != SATURATED)
		return;
	bound = whole(sim.shortage_bound) + bytes_in(sim.rate, 2 * late) +
		could / 100;
	judge(LOSS, could - min(could, sim.o->all), bound);
}

static void finish(void)
{
	u32 checks = sim.s->family->checks, i;

	for (i = 0; i < sim.n; i++) {
		sim.o->sent[i] = sim.m[i].sent;
		sim.o->all += sim.m[i].sent;
	}
	if (sim.now > sim.s->warm)
		sim.o->could = bytes_in(sim.rate, sim.now - sim.s->warm);
	check_books();
	for (i = 0; i < sim.n; i++) {
		struct member *m = &sim.m[i];

		if (m->packets && m->joined)
			judge_wait(m);
	}
	for (i = 0; i < sim.n && tracing; i++)
		printf("%15lu #%u has sent %lu\n", sim.now, sim.m[i].spec->id,
		       sim.m[i].sent);
	/* Not if the scenario was cut off */
	if (sim.now < sim.s->ns || sim.s->changes)
		return;
	if (checks & C_FAIR)
		check_fair();
	if (checks & C_GREEDY)
		check_greedy();
	if (checks & C_NO_LOSS)
		check_loss();
}

void simulate(const struct scenario *s, struct outcome *o)
{
	const struct change *c = s->change, *last = c + s->changes;

	begin_patience();
	start(s, o);
	while (o->events < sim.events && !(o->failed && stop_at_failure)) {
		struct member *m = sim.m;
		u64 next;
		u32 i;

		for (i = 1; i < sim.n; i++)
			if (sim.m[i].key < m->key)
				m = &sim.m[i];
		next = m->key;
		if (c < last)
			next = min(next, c->at);
		if (next > s->ns)
			break;
		advance(next);
		o->events++;
		if (sim.at_once++ > MOST_AT_ONCE) {
			judge(LIVELOCK, sim.at_once, MOST_AT_ONCE);
			break;
		}
		if (c < last && c->at <= sim.now)
			change_rate(c++);
		else
			handle(m);
		dispatch();
	}
	if (o->events < sim.events && !(o->failed && stop_at_failure))
		advance(s->ns);
	finish();
	shim_racing = false;
	sim.o = NULL;
}

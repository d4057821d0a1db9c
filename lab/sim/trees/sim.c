// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of a device and what they have to send, on the functions of sch_rate_tree.c.
 * Reads what lab/report/trees.py writes, a line each, numbers in bit/s, bytes and ns:
 *
 *	run END FROM LATE SEED		measure FROM until END; timers fire LATE too late, on
 *					average
 *	class PARENT RATE CEIL QUANTUM PRIO	the first is the root, its parent -1
 *	flow CLASS QUEUE LEN GAP ON OFF BEGIN STOP	packets every GAP while on; GAP 0: there
 *					are always some
 *	change AT CLASS RATE CEIL
 *	world TICK STOP EVERY WAKE	timers fire with the next tick of their queue; queues do
 *					not run for STOP, once in EVERY; one CPU runs them all,
 *					and takes WAKE for each time; 0: none of that
 *
 * and prints JSON. Code takes no time, and a queue is one thread.
 */
#include <math.h>
#include <stdio.h>
#include <net/sch_rate_tree.h>

#define CLASSES	10000
#define FLOWS	70000
#define QUEUES	256
#define LIMIT	1000	/* packets of a flow that may wait */

unsigned long locks;

void shim_overflow(const char *what)
{
	fprintf(stderr, "overflow: %s\n", what);
	abort();
}

struct class {
	struct rate_tree_class *c, own;
	int parent;
	double bytes, level, peak;	/* of what goes on to a next hop of the ceil */
	u64 last;
};

struct flow {
	struct rate_tree_member m;
	struct flow *next;		/* of the queue */
	struct class *class;
	u32 len, waiting;		/* packets that wait, if GAP is not 0 */
	u64 gap, on, off, begin, stop, arrival, since[LIMIT];
	u32 head;
	double bytes, packets, wait, longest;
};

struct queue {
	struct rate_tree_queue q;
	struct flow *flows;
	u64 wake;
};

static struct rate_tree tree;
static struct class classes[CLASSES];
static struct flow *flows[FLOWS];
static struct queue queues[QUEUES];
static struct { u64 at, rate, ceil; int class; } changes[100];
static int nclasses, nflows, nqueues, nchanges;
static u64 now, end, from, packets, kicks, calls, tick, stop, every, wake_cost, cpu_free;
static double late, burst = 1600;	/* of each class, bytes */
static u64 seed = 88172645463325252ULL;

static double chance(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) * 0x1p-53;
}

/* ---- what there is to send */

/* The first time from @t on at which a flow is on */
static u64 on_from(const struct flow *f, u64 t)
{
	u64 at;

	if (t < f->begin)
		t = f->begin;
	if (f->off) {
		at = (t - f->begin) % (f->on + f->off);
		if (at >= f->on)
			t += f->on + f->off - at;
	}

	return t < f->stop ? t : U64_MAX;
}

static void arrive(struct flow *f, u64 now)
{
	while (f->gap && f->arrival <= now) {
		if (f->waiting < LIMIT)
			f->since[(f->head + f->waiting++) % LIMIT] = f->arrival;
		f->arrival = on_from(f, f->arrival + f->gap);
	}
}

static u64 backlog(const struct flow *f, u64 now)
{
	if (f->gap)
		return (u64)f->waiting * f->len;

	return on_from(f, now) == now ? 1 << 30 : 0;
}

static void sent(struct flow *f, u64 now)
{
	struct class *c;
	double wait;

	packets++;
	if (f->gap) {
		wait = now - f->since[f->head];
		f->head = (f->head + 1) % LIMIT;
		f->waiting--;
		if (now >= from) {
			f->wait += wait;
			f->longest = fmax(f->longest, wait);
		}
	}
	if (now < from)
		return;
	f->bytes += f->len;
	f->packets++;
	for (c = f->class; ; c = classes + c->parent) {
		c->bytes += f->len;
		c->level = fmax(c->level - (now - c->last) * 1e-9 * c->c->ceil, 0) + f->len;
		c->last = now;
		c->peak = fmax(c->peak, c->level);
		if (c->parent < 0)
			break;
	}
}

/* When a timer of a queue fires */
static u64 later(u64 when, int queue)
{
	u64 phase = tick * queue / (nqueues + 1);

	return tick && when < U64_MAX ? (when + phase + tick - 1) / tick * tick - phase : when;
}

/* A queue that is stopped goes on at that time */
static u64 going_on(u64 when, int queue)
{
	u64 phase = every ? (when + every * queue / nqueues) % every : 0;

	return every && when < U64_MAX && phase < stop ? when + stop - phase : when;
}

/* ---- a queue: what a qdisc would do when it is run */

static bool empty(const struct queue *q, u64 now)
{
	struct flow *f;

	for (f = q->flows; f; f = f->next)
		if (backlog(f, now))
			return false;
	return true;
}

static void run_queue(struct queue *q, u64 now)
{
	struct rate_tree_member *m;
	u64 when = RATE_TREE_NEVER;
	struct flow *f;

	calls++;
	for (f = q->flows; f; f = f->next) {
		arrive(f, now);
		if (backlog(f, now))
			rate_tree_arrive(&f->m, backlog(f, now));
		else
			rate_tree_backlog(&f->m, now, 0);
	}
	while ((!empty(q, now) || rate_tree_grants(&q->q)) &&
	       (m = rate_tree_next(&q->q, now, &when))) {
		f = container_of(m, struct flow, m);
		sent(f, now);
		rate_tree_charge(m, f->len);
		rate_tree_backlog(m, now, backlog(f, now));
	}

	q->wake = later(when, q - queues);
	for (f = q->flows; f; f = f->next) {
		if (!backlog(f, now) && !f->gap)
			q->wake = min(q->wake, on_from(f, now));
		if (!f->gap && f->off && backlog(f, now)) /* see when it ends */
			q->wake = min(q->wake, now + f->on - (now - f->begin) %
				      (f->on + f->off));
		if (f->gap)
			q->wake = min(q->wake, f->arrival);
	}
	if (late > 0 && q->wake != U64_MAX)
		q->wake += 2 * late * chance();
}

/* The rate changes: all see at once what that means for them */
static void changed(u64 now)
{
	int i;

	for (i = 0; i < nqueues; i++)
		queues[i].wake = now;
}

static void simulate(void)
{
	int change = 0, first, i;

	for (;;) {
		for (first = 0, i = 1; i < nqueues; i++)
			if (queues[i].wake < queues[first].wake)
				first = i;
		now = queues[first].wake;
		if (now >= end)
			return;
		if (change < nchanges && changes[change].at <= now) {
			struct rate_tree_class *c = classes[changes[change].class].c;

			rate_tree_set(c, changes[change].rate / 8, changes[change].ceil / 8,
				      c->burst, c->cburst, c->quantum, c->prio, now);
			change++;
			changed(now);
		}
		if (going_on(now, first) > now) {
			queues[first].wake = going_on(now, first);
			continue;
		}
		now = max(now, cpu_free);
		cpu_free = now + wake_cost;
		run_queue(queues + first, now);
	}
}

/* ---- in and out */

static void add_class(int parent, u64 rate, u64 ceil, u32 quantum, int prio)
{
	struct class *c = classes + nclasses++;

	c->parent = parent;
	c->c = parent < 0 ? &tree.root : &c->own;
	if (parent < 0)
		rate_tree_init(&tree);
	else
		rate_tree_add(&tree, c->c, classes[parent].c);
	rate_tree_set(c->c, rate / 8, ceil / 8, burst * 8e9 / rate, burst * 8e9 / ceil, quantum,
		      prio, 0);
	c->last = from;
}

static void kick(struct rate_tree_queue *q)
{
	container_of(q, struct queue, q)->wake = now;
	kicks++;
}

static void add_flow(int class, int queue, struct flow f)
{
	struct flow *copy = malloc(sizeof(*copy));
	struct queue *q = queues + queue;

	*copy = f;
	copy->class = classes + class;
	copy->arrival = f.gap ? on_from(copy, f.begin + f.gap * chance()) : 0;
	copy->next = q->flows;
	q->flows = copy;
	for (; nqueues <= queue; nqueues++) {
		rate_tree_queue_init(&queues[nqueues].q, &tree, kick);
		queues[nqueues].wake = 1 + 10000 * chance();
	}
	rate_tree_join(&q->q, &copy->m, copy->class->c);
	flows[nflows++] = copy;
}

int main(void)
{
	unsigned long a, b, c, d, e, g;
	char line[200];
	int i, j, k;

	while (fgets(line, sizeof(line), stdin)) {
		struct flow f = { };

		if (sscanf(line, "run %lu %lu %lf %lu", &a, &b, &late, &c) == 4) {
			end = a;
			from = b;
			seed ^= c * 2654435761ULL;
		} else if (sscanf(line, "class %d %lu %lu %lu %d", &i, &a, &b, &c, &j) == 5) {
			add_class(i, a, b, c, j);
		} else if (sscanf(line, "flow %d %d %u %lu %lu %lu %lu %lu", &i, &j, &f.len, &a,
				  &b, &c, &d, &e) == 8) {
			f.gap = a;
			f.on = b;
			f.off = c;
			f.begin = d;
			f.stop = e;
			add_flow(i, j, f);
		} else if (sscanf(line, "world %lu %lu %lu %lu %lf", &a, &b, &c, &d, &burst) >= 4) {
			tick = a;
			stop = b;
			every = c;
			wake_cost = d;
		} else if (sscanf(line, "change %lu %d %lu %lu", &a, &k, &e, &g) == 4) {
			changes[nchanges].at = a;
			changes[nchanges].class = k;
			changes[nchanges].rate = e;
			changes[nchanges++].ceil = g;
		} else {
			fprintf(stderr, "not understood: %s", line);
			return 1;
		}
	}
	simulate();

	printf("{\"locks\": %lu, \"kicks\": %lu, \"calls\": %lu, \"packets\": %lu, \"classes\": [",
	       locks, kicks, calls, packets);
	for (i = 0; i < nclasses; i++)
		printf("%s{\"bps\": %.0f, \"peak\": %.0f}", i ? ", " : "",
		       classes[i].bytes * 8e9 / (end - from), classes[i].peak);
	printf("], \"flows\": [");
	for (i = 0; i < nflows; i++)
		printf("%s{\"bps\": %.0f, \"wait\": %.0f, \"longest\": %.0f}", i ? ", " : "",
		       flows[i]->bytes * 8e9 / (end - from),
		       flows[i]->packets ? flows[i]->wait / flows[i]->packets : 0,
		       flows[i]->longest);
	printf("]}\n");
	return 0;
}

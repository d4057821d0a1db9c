// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * KUnit tests for the rate tree
 *
 * All time is virtual: packets arrive at members, queues are called when they
 * asked to be (or late), and send what they may. What each class gets is
 * compared with what it should get, and a meter watches the root: the backlog
 * of a queue that takes all that is sent and drains at the rate of the root.
 */

#include <kunit/test.h>
#include <linux/bottom_half.h>
#include <linux/if_ether.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/sch_rate_tree.h>

#define SIM_MTU		1514
#define SIM_GBIT	125000000ULL	/* bytes/s */
#define SIM_MBIT	125000ULL
#define SIM_MS		((u64)NSEC_PER_MSEC)
#define SIM_NEVER	S64_MAX
#define SIM_QUEUES	8
#define SIM_CLASSES	32
#define SIM_FLOWS	128
#define SIM_KB		1000

/* What a class has to send on one queue */
struct sim_flow {
	struct rate_tree_member	m;
	u32			queue;
	u32			class;
	u32			len;	/* of a packet, bytes */
	u32			other;	/* of every other one; 0: the same */
	u64			gap;	/* of arrivals, ns; 0: no end of them */
	u32			burst;	/* packets that arrive at once; 0: 1 */
	u32			drop;	/* at random, one of so many; 0: none */
	u64			stop;	/* when arrivals end, ns */
	u64			arrive;	/* next, ns */
	u32			packets; /* that wait; of those that arrive */
	u64			first;	/* when the first of them did, ns */
	u64			longest; /* wait, ns */
	u64			bytes;	/* sent in what is measured */
	u64			paid[3]; /* of these, by who above paid */
	u32			above[3]; /* turns that exceed a ceil there */
	u64			paused;	/* it cannot send before that, ns */
	u32			known_backlog;	/* backlog, bytes */
	bool			joined;
};

struct sim_queue {
	struct rate_tree_queue	q;
	u64			wake;	/* ns */
	u64			stopped; /* no call before that, ns */
	u32			late;	/* of calls, at most, ns */
	u32			kicks;
};

/* Times but @start are since then. The meter holds bytes * NSEC_PER_SEC. */
struct sim {
	struct kunit		*test;
	struct rate_tree	tree;
	struct rate_tree_class	class[SIM_CLASSES];
	u32			classes;
	struct sim_flow		flow[SIM_FLOWS];
	u32			flows;
	struct sim_queue	queue[SIM_QUEUES];
	struct rnd_state	rnd;
	u64			start;	/* clock at time 0 */
	u64			now;
	u64			from;	/* measured from there on */
	u64			seen;	/* by the meter */
	u64			level;
	u64			peak;
	u64			bytes;
	u64			packets;
	u64			calls;	/* of queues */
};

static u64 sim_random(struct sim *s, u64 below)
{
	return mul_u64_u32_shr(below, prandom_u32_state(&s->rnd), 32);
}

static struct rate_tree_class *sim_class(struct sim *s, u32 class)
{
	return class ? &s->class[class] : &s->tree.root;
}

static bool sim_configure(struct rate_tree_class *c, u64 rate, u64 ceil,
			  u64 burst, u64 cburst, u32 quantum, u8 prio, u64 now)
{
	bool sooner;

	rtnl_lock();
	sooner = rate_tree_set(c, rate, ceil, burst, cburst, quantum, prio,
			       now);
	rtnl_unlock();
	return sooner;
}

/* Without bursts */
static bool sim_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		    u8 prio, u64 now)
{
	return sim_configure(c, rate, ceil, 0, 0, quantum, prio, now);
}

static void sim_kick(struct rate_tree_queue *queue)
{
	struct sim_queue *q = container_of(queue, struct sim_queue, q);

	q->wake = 0;
	q->kicks++;
}

static struct sim *sim_init(struct kunit *test, u64 start, u64 rate)
{
	struct sim *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->test = test;
	s->start = start;
	prandom_seed_state(&s->rnd, 1);
	rtnl_lock();
	rate_tree_init(&s->tree);
	rtnl_unlock();
	s->tree.tat = start;
	s->classes = 1;
	sim_set(&s->tree.root, rate, rate, SIM_MTU, 0, start);
	for (i = 0; i < SIM_QUEUES; i++) {
		rate_tree_queue_init(&s->queue[i].q, &s->tree, sim_kick);
		s->queue[i].late = 3 * NSEC_PER_USEC;
	}
	return s;
}

static u32 sim_add(struct sim *s, u32 parent, u64 rate, u64 ceil, u32 quantum,
		   u8 prio)
{
	struct rate_tree_class *c = &s->class[s->classes];

	KUNIT_ASSERT_LT(s->test, s->classes, SIM_CLASSES);
	rtnl_lock();
	rate_tree_add(&s->tree, c, sim_class(s, parent));
	rtnl_unlock();
	sim_set(c, rate, ceil, quantum, prio, s->start + s->now);
	return s->classes++;
}

/* A flow of full-size packets without end, on one queue */
static struct sim_flow *sim_load(struct sim *s, u32 class, u32 queue)
{
	struct sim_flow *f = &s->flow[s->flows++];

	KUNIT_ASSERT_LE(s->test, s->flows, SIM_FLOWS);
	f->class = class;
	f->queue = queue;
	f->len = SIM_MTU;
	f->stop = SIM_NEVER;
	f->arrive = s->now;
	f->joined = true;
	s->queue[queue].wake = s->now;
	rtnl_lock();
	rate_tree_join(&s->queue[queue].q, &f->m, sim_class(s, class));
	rtnl_unlock();
	return f;
}

/* The same on all queues */
static void sim_load_all(struct sim *s, u32 class)
{
	int i;

	for (i = 0; i < SIM_QUEUES; i++)
		sim_load(s, class, i);
}

static u32 sim_backlog(const struct sim *s, const struct sim_flow *f)
{
	if (!f->joined)
		return 0;
	if (!f->gap)
		return s->now < f->stop ? BIT(24) : 0;
	return f->packets * f->len;
}

static void sim_arrive(struct sim *s, struct sim_flow *f)
{
	while (f->gap && f->arrive <= s->now && f->arrive < f->stop) {
		if (!f->packets)
			f->first = f->arrive;
		f->packets += f->burst ?: 1;
		f->arrive += f->gap;
	}
}

static void sim_sent(struct sim *s, struct sim_flow *f)
{
	u64 drained = (s->now - s->seen) * s->tree.root.ceil;

	if (s->seen < s->from && s->now >= s->from)
		s->level = 0;
	s->seen = s->now;
	s->level -= min(s->level, drained);
	s->level += (u64)f->len * NSEC_PER_SEC;
	s->packets++;
	if (f->gap) {
		f->packets--;
		if (s->now >= s->from)
			f->longest = max(f->longest, s->now - f->first);
		f->first = s->now;
	}
	if (s->now < s->from)
		return;
	s->peak = max(s->peak, s->level);
	s->bytes += f->len;
	f->bytes += f->len;
}

/* What a qdisc counts */
static void sim_count(struct sim *s, struct sim_flow *f)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(f->paid) && s->now >= s->from; i++) {
		f->paid[i] += f->m.payer == i ? f->len : 0;
		f->above[i] += !!(f->m.above_ceil & BIT(i));
	}
	f->m.above_ceil = 0;
}

static void sim_tell(struct sim *s, struct sim_flow *f)
{
	f->known_backlog = sim_backlog(s, f);
	rate_tree_backlog(&f->m, s->start + s->now, f->known_backlog);
}

/* As of an htb whose packets have all gone */
static bool sim_empty(const struct sim *s, const struct sim_queue *q)
{
	const struct sim_flow *f;

	for (f = s->flow; f < s->flow + s->flows; f++)
		if (&s->queue[f->queue] == q && f->joined && sim_backlog(s, f))
			return false;
	return true;
}

/* What a qdisc does when it is called */
static void sim_call(struct sim *s, struct sim_queue *q)
{
	u64 when = RATE_TREE_NEVER, now = s->start + s->now, next = SIM_NEVER;
	struct rate_tree_member *m;
	struct sim_flow *f;

	if (s->now >= s->from)
		s->calls++;
	local_bh_disable();
	for (f = s->flow; f < s->flow + s->flows; f++) {
		if (&s->queue[f->queue] != q || !f->joined)
			continue;
		sim_arrive(s, f);
		if (f->known_backlog == sim_backlog(s, f))
			continue;
		if (sim_backlog(s, f)) {
			f->known_backlog = sim_backlog(s, f);
			rate_tree_arrive(&f->m, f->known_backlog);
		} else {
			sim_tell(s, f);
		}
	}
	while ((!sim_empty(s, q) || rate_tree_grants(&q->q)) &&
	       (m = rate_tree_next(&q->q, now, &when))) {
		f = container_of(m, struct sim_flow, m);
		if (s->now < f->paused) {
			rate_tree_pause(m, now, now + SIM_MS);
			continue;
		}
		if (f->drop && !sim_random(s, f->drop)) {
			f->packets--;
			sim_tell(s, f);
			continue;
		}
		sim_count(s, f);
		sim_sent(s, f);
		rate_tree_charge(m, f->len);
		if (f->other)
			swap(f->len, f->other);
		sim_tell(s, f);
	}
	local_bh_enable();

	for (f = s->flow; f < s->flow + s->flows; f++) {
		if (&s->queue[f->queue] != q || !f->joined)
			continue;
		if (f->gap && f->arrive < f->stop)
			next = min(next, f->arrive);
		else if (!f->gap && s->now < f->stop)
			next = min(next, f->stop);
	}
	/* It must not be told to come back at once, or never */
	if (when != RATE_TREE_NEVER) {
		KUNIT_ASSERT_TRUE(s->test, time_after64(when, now));
		next = min(next, when - s->start);
	}
	KUNIT_ASSERT_FALSE(s->test,
			   !sim_empty(s, q) && when == RATE_TREE_NEVER);
	if (next != SIM_NEVER && q->late)
		next += sim_random(s, q->late);
	q->wake = max(next, s->now + 1);
}

/* All ask, as is due when rate_tree_set() says so */
static void sim_wake_all(struct sim *s)
{
	int i;

	for (i = 0; i < SIM_QUEUES; i++)
		s->queue[i].wake = s->now;
}

/* Let all go on until a time */
static void sim_run(struct sim *s, u64 until)
{
	struct sim_queue *q, *first;

	for (;;) {
		first = s->queue;
		for (q = s->queue; q < s->queue + SIM_QUEUES; q++) {
			q->wake = max(q->wake, q->stopped);
			if (q->wake < first->wake)
				first = q;
		}
		if (first->wake >= until)
			break;
		s->now = max(s->now, first->wake);
		sim_call(s, first);
	}
	s->now = until;
}

static void sim_measure(struct sim *s, u64 settle, u64 time)
{
	u32 i;

	s->from = s->now + settle;
	s->bytes = 0;
	s->peak = 0;
	for (i = 0; i < s->flows; i++)
		s->flow[i].bytes = 0;
	sim_run(s, s->from + time);
}

static u64 sim_got(const struct sim *s, u32 class)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < s->flows; i++)
		if (s->flow[i].class == class)
			bytes += s->flow[i].bytes;
	return bytes;
}

/* A class got so much of what was sent, in 1/1000, within 5/1000 of it */
static void sim_expect(struct sim *s, u32 class, u64 part)
{
	u64 got = div64_u64(sim_got(s, class) * 1000000, s->bytes);

	KUNIT_EXPECT_GE_MSG(s->test, got, part * 995, "class %u", class);
	KUNIT_EXPECT_LE_MSG(s->test, got, part * 1005, "class %u", class);
}

/* All of the rate is used in so many ms; a next hop queues so much at most */
static void sim_expect_rate(struct sim *s, u64 ms, u64 excess)
{
	u64 due = div_u64(s->tree.root.ceil * ms, 1000);

	KUNIT_EXPECT_GE(s->test, s->bytes * 1000, due * 999);
	KUNIT_EXPECT_LE(s->test, s->bytes * 1000, due * 1001 + excess * 1000);
	KUNIT_EXPECT_LE(s->test, div_u64(s->peak, NSEC_PER_SEC), excess);
}

/* Everybody leaves, and nothing may be left of them */
static void sim_end(struct sim *s)
{
	struct sim_flow *f;
	u32 i;

	rtnl_lock();
	local_bh_disable();
	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->joined)
			rate_tree_leave(&f->m, s->start + s->now);
	local_bh_enable();

	KUNIT_EXPECT_EQ(s->test, s->tree.root.nwaiting, 0);
	KUNIT_EXPECT_TRUE(s->test, RB_EMPTY_ROOT(&s->tree.blocked.rb_root));
	for (i = 0; i < s->classes; i++) {
		struct rate_tree_class *c = sim_class(s, i);

		KUNIT_EXPECT_EQ(s->test, c->prios, 0);
		KUNIT_EXPECT_TRUE(s->test,
				  RB_EMPTY_ROOT(&c->waiting.rb_root));
		KUNIT_EXPECT_EQ(s->test, (int)c->state, RATE_TREE_IDLE);
		rate_tree_remove(c);
	}
	rtnl_unlock();
	for (i = 0; i < SIM_QUEUES; i++) {
		struct rate_tree_queue *q = &s->queue[i].q;

		KUNIT_EXPECT_NULL(s->test, q->sender);
		KUNIT_EXPECT_EQ(s->test, q->nmembers, 0);
		KUNIT_EXPECT_EQ(s->test, q->nbacklogged, 0);
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->free));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->paused));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->owing));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->stuck));
	}
}

/* Rates first, then the rest by quantum, on however many queues a class is,
 * which take turns; at times when the clock changes its sign, or wraps around.
 */
static void rate_tree_test_shares(struct kunit *test)
{
	static const u64 starts[] = {
		0, S64_MAX - 20 * SIM_MS, U64_MAX - 20 * SIM_MS
	};
	struct sim *s;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		s = sim_init(test, starts[i], 10 * SIM_GBIT);
		sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
		sim_add(s, 0, 3 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
		sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 30000, 0);
		sim_load_all(s, 1);
		sim_load(s, 2, 5);
		sim_load(s, 3, 0);
		sim_load(s, 3, 1);
		sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
		sim_expect(s, 1, 200);
		sim_expect(s, 2, 400);
		sim_expect(s, 3, 400);
		for (j = 0; j < SIM_QUEUES; j++)
			KUNIT_EXPECT_LE(test, abs((s64)s->flow[j].bytes * 40 -
						  (s64)s->bytes) * 50,
					(s64)s->bytes);
		sim_expect_rate(s, 50, 20 * SIM_KB);
		sim_end(s);
	}
}

/* What a class does not use goes to its siblings first; where there are none,
 * to others. Priorities decide about what is left, not about rates.
 */
static void rate_tree_test_borrow(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 a = sim_add(s, 0, 6 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 b = sim_add(s, 0, 4 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 a1 = sim_add(s, a, 2 * SIM_GBIT, 10 * SIM_GBIT, 10000, 1);
	u32 a2 = sim_add(s, a, 2 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 b1 = sim_add(s, b, SIM_GBIT, 10 * SIM_GBIT, 10000, 1);
	struct sim_flow *f;

	/* a2 sends 1 Gbit, so a1 gets the rest of a */
	sim_load_all(s, a1);
	f = sim_load(s, a2, 3);
	f->gap = 12112;
	sim_load_all(s, b1);
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, a1, 500);
	sim_expect(s, a2, 100);
	sim_expect(s, b1, 400);
	sim_expect_rate(s, 50, 20 * SIM_KB);

	/* b1 ends: all is a's. What was granted to it goes back: then slots may
	 * follow each other too closely, by what is granted in advance.
	 */
	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->class == b1)
			f->stop = s->now;
	sim_measure(s, 0, 5 * SIM_MS);
	sim_expect_rate(s, 5, 10 * SIM_GBIT / 25000 + 20 * SIM_KB);
	sim_measure(s, 0, 50 * SIM_MS);
	sim_expect(s, a1, 900);
	sim_expect(s, b1, 0);
	sim_expect_rate(s, 50, 20 * SIM_KB);
	sim_end(s);
}

/* A class may have children on one queue and packets on another: they share */
static void rate_tree_test_both(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 a = sim_add(s, 0, 4 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 a1 = sim_add(s, a, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 b = sim_add(s, 0, 6 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);

	sim_load(s, a, 0);
	sim_load(s, a1, 1);
	sim_load(s, b, 2);
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, a, 200);
	sim_expect(s, a1, 200);
	sim_expect(s, b, 600);
	sim_end(s);
}

/* The first priority gets all beyond the rates, from below any parent; a class
 * above its ceil gets nothing, and others have what it leaves.
 */
static void rate_tree_test_prio_ceil(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 a = sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 a1 = sim_add(s, a, SIM_GBIT / 2, 10 * SIM_GBIT, 10000, 2);
	u32 a2 = sim_add(s, a, SIM_GBIT / 2, 5 * SIM_GBIT, 10000, 0);
	u32 b = sim_add(s, 0, 2 * SIM_GBIT, 10 * SIM_GBIT, 10000, 1);

	sim_load_all(s, a1);
	sim_load(s, a2, 7);
	sim_load_all(s, b);
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, a2, 500);
	sim_expect(s, a1, 50);
	sim_expect(s, b, 450);
	sim_expect_rate(s, 50, 20 * SIM_KB);

	sim_set(sim_class(s, a2), SIM_GBIT / 2, SIM_GBIT, 10000, 0, s->now);
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, a2, 100);
	sim_expect(s, a1, 50);
	sim_expect(s, b, 850);
	sim_end(s);
}

/* Rates of more than there is are a weight, also of a class that comes back */
static void rate_tree_test_overcommitted(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i;

	for (i = 1; i <= 3; i++) {
		sim_add(s, 0, i * SIM_GBIT, 10 * SIM_GBIT, 10000, i);
		sim_load(s, i, i);
	}
	sim_measure(s, 20 * SIM_MS, 300 * SIM_MS);
	sim_expect(s, 1, 167);
	sim_expect(s, 2, 333);
	sim_expect(s, 3, 500);
	sim_expect_rate(s, 300, 20 * SIM_KB);

	s->flow[0].stop = s->now;
	sim_run(s, s->now + 50 * SIM_MS);
	s->flow[0].stop = SIM_NEVER;
	s->queue[1].wake = s->now;
	sim_measure(s, 0, 100 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1) * 6 * 100, s->bytes * 97);
	sim_end(s);

	/* Weights may differ much */
	s = sim_init(test, 0, SIM_GBIT);
	for (i = 1; i <= 2; i++) {
		sim_add(s, 0, (18 * i - 17) * SIM_GBIT, 50 * SIM_GBIT, 10000,
			0);
		sim_load(s, i, i);
	}
	sim_measure(s, 20 * SIM_MS, 300 * SIM_MS);
	sim_expect(s, 1, 50);
	sim_expect(s, 2, 950);
	sim_end(s);

	/* Soon after there is enough again, nobody has a claim to more */
	s = sim_init(test, 0, SIM_GBIT);
	for (i = 0; i < 3; i++) {
		sim_add(s, 0, (i ? 600 : 10) * SIM_MBIT, SIM_GBIT, 10000, 0);
		sim_load(s, i + 1, i);
	}
	sim_run(s, 500 * SIM_MS);
	s->flow[2].stop = s->now;
	sim_measure(s, 10 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, 1, 205);
	sim_expect(s, 2, 795);
	sim_end(s);
}

/* A class below its rate does not wait for those that are above theirs */
static void rate_tree_test_sparse(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	for (i = 0; i < 8; i++) {
		sim_add(s, 0, 50 * SIM_MBIT, SIM_GBIT, 20000, 0);
		sim_load_all(s, i + 1);
	}
	sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 1000, 7);
	f = sim_load(s, 9, 2);
	f->gap = SIM_MS;
	f->len = 300;
	sim_measure(s, 20 * SIM_MS, 200 * SIM_MS);
	KUNIT_EXPECT_LE(test, f->longest, 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_GE(test, f->bytes, 199 * 300);
	sim_expect_rate(s, 200, 20 * SIM_KB);
	sim_end(s);
}

/* How far a flow is off its part, in permille */
static u64 sim_off(const struct sim *s, u32 flow, u32 flows)
{
	u64 part = div_u64(s->bytes, flows);

	return div64_u64(abs_diff(s->flow[flow].bytes, part) * 1000, part);
}

/* A queue that is stopped costs what it was granted, and no more. When it goes
 * on, it does not make up for what it missed.
 */
static void rate_tree_test_stopped(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct sim_flow *f;
	int i;

	for (i = 0; i < 4; i++) {
		sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
		sim_load_all(s, i + 1);
	}
	sim_run(s, 10 * SIM_MS);
	s->queue[3].stopped = 200 * SIM_MS;
	sim_measure(s, 10 * SIM_MS, 100 * SIM_MS);
	sim_expect_rate(s, 100, 20 * SIM_KB);
	sim_measure(s, 0, 200 * SIM_MS);
	/* It goes on with the slots that had begun; the others are lost */
	KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC),
			4 * RATE_TREE_SLOT_MAX + 20 * SIM_KB);
	sim_measure(s, 10 * SIM_MS, 100 * SIM_MS);
	for (i = 0; i < 4; i++)
		sim_expect(s, i + 1, 250);
	sim_expect_rate(s, 100, 20 * SIM_KB);
	sim_end(s);

	/* When it is back, it does not take the turns of its class on others */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	for (i = 0; i < 8; i++)
		sim_load(s, 1, i);
	sim_run(s, 10 * SIM_MS);
	s->queue[7].stopped = 300 * SIM_MS;
	sim_run(s, 300 * SIM_MS);
	sim_measure(s, 15 * SIM_MS, 50 * SIM_MS);
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_LE(test, sim_off(s, i, 8), 20);
	sim_end(s);

	/* Nor do those wait for long that hardly had a turn beside it */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 7);
	sim_load(s, 1, 1);
	sim_load(s, 2, 0);
	sim_run(s, 500 * SIM_MS);
	s->queue[1].stopped = 700 * SIM_MS;
	sim_measure(s, 10 * SIM_MS, 50 * SIM_MS);
	sim_expect_rate(s, 50, 20 * SIM_KB);
	sim_end(s);

	/* Nor others of its class, also if a turn is only a packet */
	s = sim_init(test, 0, 10 * SIM_MBIT);
	sim_add(s, 0, SIM_MBIT, 10 * SIM_MBIT, 10000, 0);
	for (i = 0; i < 2; i++)
		f = sim_load(s, 1, i);
	sim_run(s, 100 * SIM_MS);
	s->queue[0].stopped = 3000 * SIM_MS;
	sim_run(s, 2990 * SIM_MS);
	f->longest = 0;
	sim_run(s, 5000 * SIM_MS);
	KUNIT_EXPECT_LE(test, f->longest, 6 * SIM_MS);
	sim_end(s);
}

/* What a queue loses that stops again and again is lost to its class once */
static void rate_tree_test_flapping(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	const u64 ceil = 100 * SIM_MBIT;
	u64 due;
	int i;

	sim_add(s, 0, SIM_MBIT, ceil, 10000, 0);
	for (i = 0; i < SIM_QUEUES; i++)
		sim_load(s, 1, i);
	sim_measure(s, 10 * SIM_MS, 0);
	for (i = 0; i < 50; i++) {
		s->queue[7].stopped = s->now + 40 * SIM_MS;
		sim_run(s, s->now + 40 * SIM_MS + 100 * NSEC_PER_USEC);
	}
	due = div_u64((s->now - s->from) * ceil, NSEC_PER_SEC);
	KUNIT_EXPECT_GE(test, s->bytes * 100, due * 94);
	sim_end(s);
}

/* Who comes back has its share at once, and no claim to what it did not want */
static void rate_tree_test_back(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i;

	for (i = 0; i < 2; i++) {
		sim_add(s, 0, SIM_MBIT, SIM_GBIT, 10000, 0);
		sim_load(s, i + 1, i);
	}
	s->flow[1].stop = 10 * SIM_MS;
	sim_run(s, 60 * SIM_MS);
	s->flow[1].stop = SIM_NEVER;
	s->queue[1].wake = s->now;
	sim_measure(s, SIM_MS, 20 * SIM_MS);
	sim_expect(s, 1, 500);
	sim_expect(s, 2, 500);
	sim_end(s);
}

/* Slots that nobody wants any more do not make a queue look stopped */
static void rate_tree_test_unwanted(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct rate_tree_queue *q = &s->queue[1].q;
	struct sim_flow *f;

	sim_add(s, 0, SIM_GBIT, SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0);
	f = sim_load(s, 1, 1);
	sim_run(s, 10 * SIM_MS);
	s->queue[1].stopped = 11 * SIM_MS;
	sim_run(s, 11 * SIM_MS - 1);
	KUNIT_ASSERT_NE(test, q->slots_begun, q->slots_granted);
	local_bh_disable();
	rate_tree_backlog(&f->m, s->now, 0);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, q->slots_begun, q->slots_granted);
	sim_end(s);
}

/* Slots become short again after long packets, without a pause */
static void rate_tree_test_shorter(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 100 * SIM_MBIT);
	struct sim_flow *light;

	sim_add(s, 0, 50 * SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_add(s, 0, 10 * SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_load(s, 1, 0)->len = 65 * SIM_KB;
	light = sim_load(s, 2, 1);
	light->len = 300;
	light->gap = 10 * SIM_MS;
	sim_run(s, 100 * SIM_MS);
	KUNIT_EXPECT_GE(test, s->flow[0].m.longest, 60 * SIM_KB);
	s->flow[0].len = SIM_MTU;
	sim_run(s, 1500 * SIM_MS);
	light->longest = 0;
	sim_run(s, 3000 * SIM_MS);
	KUNIT_EXPECT_LE(test, light->longest, SIM_MS);
	sim_end(s);
}

/* Who is alone for long, and stopped, loses its slots all the same; who cannot
 * send gives them back, and does not get more and more of them.
 */
static void rate_tree_test_alone(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct sim_flow *f;
	u64 when;

	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT, SIM_MBIT, 10000, 0);
	f = sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	sim_run(s, 5 * SIM_MS);
	s->queue[0].stopped = 100 * SIM_MS;
	sim_measure(s, 0, 100 * SIM_MS);
	sim_measure(s, 0, 20 * SIM_MS);
	sim_expect_rate(s, 20, 10 * SIM_GBIT / 40 + 40 * SIM_KB);

	f->paused = s->now + 50 * SIM_MS;
	sim_measure(s, 0, 50 * SIM_MS);
	sim_measure(s, SIM_MS, 20 * SIM_MS);
	sim_expect_rate(s, 20, 20 * SIM_KB);
	sim_end(s);

	/* Also all that it has: it gets another slot */
	s = sim_init(test, 0, SIM_GBIT);
	f = sim_load(s, 0, 0);
	f->gap = SIM_NEVER / 2;
	f->arrive = f->gap;
	f->packets = 3;
	sim_tell(s, f);
	local_bh_disable();
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(&s->queue[0].q, 0, &when),
			    &f->m);
	local_bh_enable();
	s->queue[0].stopped = 100 * SIM_MS;
	sim_run(s, 200 * SIM_MS);
	KUNIT_EXPECT_EQ(test, f->packets, 0);
	sim_end(s);

	/* The others of a class have all the rate soon, also if it is low */
	s = sim_init(test, 0, 100 * SIM_MBIT);
	sim_add(s, 0, SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_load_all(s, 1);
	sim_run(s, 100 * SIM_MS);
	s->queue[0].stopped = SIM_NEVER;
	sim_measure(s, 50 * SIM_MS, 200 * SIM_MS);
	sim_expect_rate(s, 200, 20 * SIM_KB);
	/* And seldom look for slots in vain */
	KUNIT_EXPECT_LE(test, s->calls * 500, s->bytes);
	sim_end(s);
}

/* A class above its ceil leaves time unused, to which others have no claim */
static void rate_tree_test_ceil_idle(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct sim_flow *f;

	sim_add(s, 0, SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0);
	f = sim_load(s, 2, 1);
	f->stop = 0;
	sim_run(s, 20 * SIM_MS);
	f->stop = SIM_NEVER;
	s->queue[1].wake = s->now;
	sim_measure(s, 0, 100 * SIM_MS);
	sim_expect_rate(s, 100, 20 * SIM_KB);
	sim_expect(s, 1, 10);
	sim_end(s);
}

/* Many classes, all above their ceils at times, leave time unused: they have no
 * claim to that. What classes had beyond their rates wraps around.
 */
static void rate_tree_test_ceils(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	int i;

	for (i = 1; i <= 25; i++) {
		sim_add(s, 0, SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
		sim_load(s, i, i % SIM_QUEUES);
	}
	sim_measure(s, 20 * SIM_MS, 100 * SIM_MS);
	for (i = 1; i <= 25; i++)
		sim_expect(s, i, 40);
	KUNIT_EXPECT_GE(test, s->bytes, 25 * 100 * SIM_MBIT / 10 * 99 / 100);
	KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC), 20 * SIM_KB);
	sim_end(s);
}

static void rate_tree_test_wrap(struct kunit *test)
{
	static const u64 served[] = {
		BIT_ULL(63) + BIT_ULL(40), U64_MAX - BIT_ULL(40),
		U64_MAX - BIT_ULL(59)
	};
	struct sim *s;
	int i;

	for (i = 0; i < ARRAY_SIZE(served); i++) {
		s = sim_init(test, 0, SIM_GBIT);
		s->tree.root.max_vtime[0] = served[i];
		sim_add(s, 0, SIM_MBIT, SIM_GBIT, 1000, 0);
		sim_add(s, 0, SIM_MBIT, SIM_GBIT, 1000, 0);
		s->class[2].vtime[0] = 0;
		sim_load(s, 1, 0);
		sim_run(s, 20 * SIM_MS);
		sim_load(s, 2, 1);
		s->queue[1].wake = s->now;
		sim_measure(s, SIM_MS, 50 * SIM_MS);
		sim_expect(s, 1, 500);
		sim_expect(s, 2, 500);
		sim_end(s);
	}
}

/* A slot may begin a little later than the packet that was sent in it: the next
 * time to ask is near all the same, though nobody else on the queue asks.
 */
static void rate_tree_test_early(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;

	sim_add(s, 0, SIM_GBIT / 2, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT, 20 * SIM_MBIT, 10000, 0);
	f = sim_load(s, 1, 0);
	f->gap = SIM_NEVER / 2;
	sim_load(s, 2, 0);
	s->queue[0].late = 0;
	sim_measure(s, 0, 1000 * SIM_MS);
	KUNIT_EXPECT_GE(test, s->bytes, 20 * SIM_MBIT * 99 / 100);
	sim_end(s);
}

/* What a class had with a small quantum does not count with a large one */
static void rate_tree_test_quantum(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);

	sim_add(s, 0, SIM_MBIT, SIM_GBIT, 1, 0);
	sim_add(s, 0, SIM_MBIT, SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	sim_run(s, 20 * SIM_MS);
	sim_set(&s->class[1], SIM_MBIT, SIM_GBIT, 10000, 0, s->now);
	sim_measure(s, SIM_MS, 50 * SIM_MS);
	sim_expect(s, 1, 500);
	sim_expect(s, 2, 500);
	sim_end(s);

	/* Nor is what it had taken for old if a packet is much more than it */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_KB, 10 * SIM_GBIT, 1, 0);
	sim_add(s, 0, SIM_KB, 10 * SIM_GBIT, 4, 0);
	sim_load(s, 1, 0)->len = 300 * SIM_KB;
	sim_load(s, 2, 1)->len = 300 * SIM_KB;
	sim_measure(s, 20 * SIM_MS, 240 * SIM_MS);
	sim_expect(s, 1, 200);
	sim_expect(s, 2, 800);
	sim_end(s);
}

/* A new class at the root does not wait for what another one has sent */
static void rate_tree_test_root(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 1000);
	struct sim_flow *f = sim_load(s, 0, 0);

	sim_run(s, SIM_MS);
	rtnl_lock();
	local_bh_disable();
	rate_tree_leave(&f->m, s->now);
	local_bh_enable();
	rate_tree_remove(&s->tree.root);
	rate_tree_add(&s->tree, &s->tree.root, NULL);
	rtnl_unlock();
	sim_set(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MTU, 0, s->now);
	rtnl_lock();
	rate_tree_join(&s->queue[0].q, &f->m, &s->tree.root);
	rtnl_unlock();
	f->known_backlog = 0;
	s->queue[0].wake = s->now;
	sim_measure(s, 0, 50 * SIM_MS);
	sim_expect_rate(s, 50, 20 * SIM_KB);
	sim_end(s);
}

/* A packet that is longer than its slot is paid for when it is sent, not by
 * those who send long after
 */
static void rate_tree_test_overdrawn(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 20 * SIM_MBIT);
	struct sim_flow *a, *b;

	sim_add(s, 0, 10 * SIM_MBIT, 20 * SIM_MBIT, 10000, 0);
	sim_add(s, 0, 10 * SIM_MBIT, 20 * SIM_MBIT, 10000, 0);
	a = sim_load(s, 1, 0);
	a->len = 65000;
	a->gap = SIM_NEVER / 2;
	b = sim_load(s, 2, 1);
	b->len = 100;
	b->gap = SIM_NEVER / 2;
	b->arrive = 1000 * SIM_MS + NSEC_PER_USEC;
	sim_run(s, 500 * SIM_MS);
	KUNIT_EXPECT_EQ(test, a->m.beyond, a->m.settled);
	/* 65000 bytes take 26 ms */
	KUNIT_EXPECT_GE(test, s->tree.tat, 25 * SIM_MS);

	a->len = 100;
	a->arrive = 1000 * SIM_MS;
	s->queue[0].wake = a->arrive;
	sim_measure(s, 0, 600 * SIM_MS);
	KUNIT_EXPECT_EQ(test, s->bytes, 200);
	KUNIT_EXPECT_LE(test, b->longest, SIM_MS);
	sim_end(s);
}

/* The priority of a class that is a leaf on one queue counts there, though it
 * has children on another one. Children that are below their rates do not
 * starve.
 */
static void rate_tree_test_leaf_prio(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);

	sim_add(s, 0, SIM_MBIT, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT, SIM_GBIT, 10000, 3);
	sim_add(s, 1, 100 * SIM_MBIT, SIM_GBIT, 10000, 7);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	sim_load(s, 3, 2);
	sim_measure(s, 20 * SIM_MS, 200 * SIM_MS);
	sim_expect(s, 1, 899);
	sim_expect(s, 3, 100);
	sim_expect_rate(s, 200, 20 * SIM_KB);
	sim_end(s);
}

/* A member that cannot send is not asked again for each packet that it gets */
static void rate_tree_test_pause(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct rate_tree_queue *q = &s->queue[0].q;
	struct sim_flow *f = sim_load(s, 0, 0);
	u64 when;
	int i;

	local_bh_disable();
	rate_tree_backlog(&f->m, 0, SIM_MTU);
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(q, 0, &when), &f->m);
	rate_tree_pause(&f->m, 0, SIM_MS);
	for (i = 2; i < 5; i++) {
		rate_tree_backlog(&f->m, 0, i * SIM_MTU);
		KUNIT_EXPECT_NULL(test, rate_tree_next(q, 0, &when));
		KUNIT_EXPECT_GE(test, when, SIM_MS / 4);
	}
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(q, SIM_MS, &when), &f->m);
	local_bh_enable();
	s->now = SIM_MS;
	sim_end(s);
}

/* Classes get their rates where one of few packets comes and goes beside them,
 * and where a round lasts much longer than a class may make up for
 */
static void rate_tree_test_assured(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u64 rate;
	u32 i, j;

	sim_add(s, 0, 7500 * SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, 2500 * SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 2, SIM_GBIT, 10 * SIM_GBIT, SIM_MTU, 0);
	sim_add(s, 2, SIM_GBIT / 10, 10 * SIM_GBIT, 60000, 0);
	sim_add(s, 2, SIM_GBIT, 10 * SIM_GBIT, SIM_MTU, 0);
	for (i = 0; i < 4; i++) {
		sim_load(s, 1, i);
		sim_load(s, 3, i);
		sim_load(s, 4, i);
	}
	sim_load(s, 5, 0)->gap = 24224; /* 0.5 Gbit */
	sim_measure(s, 20 * SIM_MS, 100 * SIM_MS);
	sim_expect(s, 3, 102);
	sim_expect(s, 4, 98);
	sim_expect(s, 5, 50);
	sim_end(s);

	s = sim_init(test, 0, 100 * SIM_MBIT);
	for (i = 1; i <= 24; i++) {
		rate = i % 2 ? 1200 * SIM_MBIT / 1000 : 6 * SIM_MBIT;
		sim_add(s, 0, rate, 100 * SIM_MBIT, i % 2 ? 15140 : 1514, 0);
		for (j = 0; j < 5; j++)
			sim_load(s, i, j);
	}
	sim_measure(s, 500 * SIM_MS, 3000 * SIM_MS);
	for (i = 1; i <= 24; i++)
		KUNIT_EXPECT_GE(test, sim_got(s, i) * 100,
				s->class[i].rate * 3 * 99);
	sim_end(s);
}

/* Assured rates in a slow site of a fast link, which has long packets, or many
 * classes beside the inner one
 */
static void rate_tree_test_slow_site(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	u32 site, inner;
	int i;

	sim_add(s, 0, 980 * SIM_MBIT, SIM_GBIT, 20000, 0);
	site = sim_add(s, 0, 20 * SIM_MBIT, SIM_GBIT, 20000, 0);
	sim_add(s, site, 10 * SIM_MBIT, SIM_GBIT, 20000, 2);
	sim_add(s, site, 9 * SIM_MBIT, SIM_GBIT, 20000, 2);
	sim_add(s, site, SIM_MBIT / 2, SIM_GBIT, 20000, 1);
	sim_load(s, 1, 0);
	sim_load(s, site + 1, 1);
	sim_load(s, site + 2, 2)->len = 65 * SIM_KB;
	sim_load(s, site + 3, 3);
	sim_measure(s, 1000 * SIM_MS, 4000 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, site + 1), 40 * SIM_MBIT * 99 / 100);
	KUNIT_EXPECT_GE(test, sim_got(s, site + 2), 36 * SIM_MBIT * 97 / 100);
	sim_end(s);

	s = sim_init(test, 0, SIM_GBIT);
	sim_add(s, 0, 980 * SIM_MBIT, SIM_GBIT, 20000, 0);
	site = sim_add(s, 0, 10 * SIM_MBIT, SIM_GBIT, 20000, 0);
	inner = sim_add(s, site, 8 * SIM_MBIT, SIM_GBIT, 20000, 0);
	sim_add(s, inner, 7 * SIM_MBIT, SIM_GBIT, 20000, 1);
	sim_add(s, inner, SIM_KB, SIM_GBIT, 20000, 0);
	sim_load(s, 1, 0);
	sim_load(s, inner + 1, 1);
	sim_load(s, inner + 2, 2);
	for (i = 0; i < 20; i++) {
		sim_add(s, site, SIM_MBIT / 10, SIM_GBIT, 20000, 0);
		sim_load(s, inner + 3 + i, 3 + i % 5);
	}
	sim_measure(s, 1000 * SIM_MS, 4000 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, inner + 1), 28 * SIM_MBIT * 99 / 100);
	sim_end(s);
}

/* Also where packets are longer than all that a member is granted, or where its
 * next one is long in coming
 */
static void rate_tree_test_long_packets(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_MBIT);
	int i;

	sim_add(s, 0, 8 * SIM_MBIT, 10 * SIM_MBIT, 20000, 3);
	sim_add(s, 0, SIM_KB, 10 * SIM_MBIT, 20000, 0);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	for (i = 0; i < 4; i++) {
		sim_add(s, 0, SIM_MBIT / 2, 10 * SIM_MBIT, 20000, 0);
		sim_load(s, 3 + i, 2 + i)->len = 65 * SIM_KB;
		s->flow[2 + i].gap = 1156 * SIM_MS; /* 450 kbit */
		s->flow[2 + i].arrive = i * 289 * SIM_MS;
	}
	sim_measure(s, 5000 * SIM_MS, 20000 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1), 160 * SIM_MBIT * 99 / 100);
	sim_end(s);

	s = sim_init(test, 0, 10 * SIM_MBIT);
	sim_add(s, 0, 9500 * SIM_KB / 8, 10 * SIM_MBIT, 20000, 2);
	sim_add(s, 0, 500 * SIM_KB / 8, 10 * SIM_MBIT, 20000, 1);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1)->len = 65 * SIM_KB;
	sim_measure(s, 5000 * SIM_MS, 20000 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1), 190 * SIM_MBIT * 99 / 100);
	sim_end(s);

	/* With a ceil */
	s = sim_init(test, 0, 200 * SIM_MBIT);
	sim_add(s, 0, 40 * SIM_MBIT, 48 * SIM_MBIT, 20000, 0);
	sim_load(s, 1, 0);
	for (i = 0; i < 2; i++) {
		sim_add(s, 0, 80 * SIM_MBIT, 200 * SIM_MBIT, 20000, 0);
		sim_load(s, 2 + i, 1 + i)->len = 65 * SIM_KB;
	}
	sim_measure(s, 1000 * SIM_MS, 4000 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1), 160 * SIM_MBIT * 99 / 100);
	sim_end(s);
}

/* Classes that are served in turn, each below its rate, wait for each other but
 * not for one that borrows
 */
static void rate_tree_test_in_turn(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 100 * SIM_MBIT);
	struct sim_flow *f;
	int i;

	for (i = 0; i < 20; i++) {
		sim_add(s, 0, 4 * SIM_MBIT, 100 * SIM_MBIT, 20000, 1);
		f = sim_load(s, i + 1, i % SIM_QUEUES);
		f->len = 65 * SIM_KB;
		f->gap = 137 * SIM_MS; /* 3.8 Mbit */
		f->arrive = sim_random(s, f->gap);
	}
	sim_add(s, 0, 10 * SIM_MBIT, 100 * SIM_MBIT, 20000, 0);
	sim_load(s, 21, 0);
	sim_measure(s, 500 * SIM_MS, 4000 * SIM_MS);
	for (f = s->flow; f < s->flow + 20; f++)
		KUNIT_EXPECT_LE(test, f->longest, 40 * SIM_MS);
	sim_end(s);
}

/* What children miss, while there is not enough or their parent has a low rate,
 * is no claim later on to more than a round: others get what is left
 */
static void rate_tree_test_claims(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	u32 i, site;

	sim_add(s, 0, 998 * SIM_MBIT, SIM_GBIT, 60000, 0);
	site = sim_add(s, 0, SIM_KB, SIM_GBIT, 60000, 0);
	site = sim_add(s, site, SIM_KB, SIM_GBIT, 60000, 0);
	sim_add(s, site, 500 * SIM_MBIT, SIM_GBIT, 60000, 1);
	sim_add(s, site, 400 * SIM_MBIT, SIM_GBIT, 60000, 1);
	sim_add(s, site, SIM_KB, SIM_GBIT, 60000, 0);
	sim_load(s, 1, 0)->stop = 500 * SIM_MS;
	sim_load(s, site + 1, 1);
	sim_run(s, 500 * SIM_MS);
	sim_load(s, site + 2, 2);
	sim_load(s, site + 3, 3)->gap = 242240; /* 50 Mbit */
	sim_measure(s, 50 * SIM_MS, 100 * SIM_MS);
	sim_expect(s, site + 3, 50);
	sim_end(s);

	/* A packet was long, long ago */
	s = sim_init(test, 0, 100 * SIM_MBIT);
	sim_add(s, 0, 95 * SIM_MBIT, 100 * SIM_MBIT, 60000, 0);
	site = sim_add(s, 0, 20 * SIM_MBIT, 100 * SIM_MBIT, 60000, 0);
	sim_add(s, site, 12 * SIM_MBIT, 100 * SIM_MBIT, 60000, 1);
	sim_add(s, site, 8 * SIM_MBIT, 100 * SIM_MBIT, 60000, 1);
	sim_add(s, site, SIM_KB, 100 * SIM_MBIT, 60000, 0);
	sim_load(s, 1, 0)->stop = 2000 * SIM_MS;
	sim_load(s, 1, 1)->len = 64 * SIM_KB;
	s->flow[1].stop = 100 * SIM_MS;
	for (i = 2; i < 8; i++) {
		sim_load(s, 3, i);
		sim_load(s, 4, i);
	}
	sim_run(s, 2000 * SIM_MS);
	sim_load(s, 5, 1)->gap = 1211200; /* 10 Mbit */
	sim_measure(s, 5 * SIM_MS, 10 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 5) * 100, s->bytes * 9);
	sim_end(s);

	/* Many wait elsewhere in the tree */
	s = sim_init(test, 0, SIM_GBIT);
	for (i = 1; i <= 15; i++) {
		sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 10000, 0);
		sim_load_all(s, i);
	}
	site = sim_add(s, 0, 20 * SIM_MBIT, 100 * SIM_MBIT, 60000, 0);
	sim_add(s, site, 20 * SIM_MBIT, 100 * SIM_MBIT, 10000, 1);
	sim_add(s, site, SIM_KB, 100 * SIM_MBIT, 10000, 0);
	sim_load(s, site + 1, 0);
	for (i = 0; i < 7 * SIM_QUEUES; i++)
		s->flow[i].stop = 800 * SIM_MS;
	sim_run(s, 800 * SIM_MS);
	sim_load(s, site + 2, 1)->gap = 1211200; /* 10 Mbit */
	sim_measure(s, 12 * SIM_MS, 6 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, site + 2) * 1000, s->bytes * 9);
	sim_end(s);
}

/* A class on one queue can have most of a high rate */
static void rate_tree_test_one_queue(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 100 * SIM_GBIT);

	sim_add(s, 0, SIM_GBIT, 100 * SIM_GBIT, 20000, 0);
	sim_add(s, 0, SIM_GBIT, 100 * SIM_GBIT, 20000, 1);
	sim_add(s, 0, 20 * SIM_GBIT, 100 * SIM_GBIT, 20000, 1);
	sim_load(s, 1, 0);
	sim_load_all(s, 2);
	sim_load(s, 3, 1);
	sim_measure(s, 5 * SIM_MS, 20 * SIM_MS);
	sim_expect(s, 1, 790);
	sim_expect(s, 2, 10);
	sim_expect(s, 3, 200);
	sim_end(s);
}

/* Where a queue cannot hold the slots of all that wait, none is left out */
static void rate_tree_test_many(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 200 * SIM_GBIT);
	int i, j;

	for (i = 1; i <= 25; i++) {
		sim_add(s, 0, SIM_GBIT, 200 * SIM_GBIT, 10000, 0);
		for (j = 0; j < 5; j++)
			sim_load(s, i, 0);
	}
	s->queue[0].late = 2 * NSEC_PER_USEC;
	sim_measure(s, 2 * SIM_MS, 8 * SIM_MS);
	for (i = 1; i <= 25; i++)
		sim_expect(s, i, 40);
	sim_end(s);
}

/* Where the slots of siblings take longer than half a ms, or packets are long,
 * a class still has what its ceil allows
 */
static void rate_tree_test_ceil_round(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 site;
	int i, j;

	sim_add(s, 0, 9800 * SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	site = sim_add(s, 0, 200 * SIM_MBIT, 200 * SIM_MBIT, 10000, 0);
	sim_add(s, site, 25 * SIM_MBIT, 40 * SIM_MBIT, 10000, 0);
	for (i = 0; i < 3; i++)
		sim_add(s, site, 25 * SIM_MBIT, 200 * SIM_MBIT, 10000, 0);
	for (i = 0; i < 4; i++)
		sim_load(s, site + 1 + i, i);
	sim_measure(s, 50 * SIM_MS, 500 * SIM_MS);
	sim_expect(s, site + 1, 4);
	sim_end(s);

	s = sim_init(test, 0, SIM_GBIT);
	for (i = 1; i <= 20; i++) {
		sim_add(s, 0, 25 * SIM_MBIT, (i % 2 ? 55 : 1000) * SIM_MBIT,
			10000, 0);
		for (j = 0; j < 6; j++)
			sim_load(s, i, (i + j) % SIM_QUEUES)->len = 64 * SIM_KB;
	}
	sim_measure(s, 200 * SIM_MS, 10000 * SIM_MS);
	for (i = 1; i <= 20; i++)
		sim_expect(s, i, 50);
	sim_end(s);

	/* Where they do not, it begins with no more than a few packets */
	s = sim_init(test, 0, 100 * SIM_MBIT);
	sim_add(s, 0, 70 * SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	site = sim_add(s, 0, SIM_KB, 100 * SIM_MBIT, 10000, 0);
	sim_add(s, site, 4900 * SIM_KB / 8, 5 * SIM_MBIT, 10000, 0);
	sim_load(s, 1, 0);
	sim_load(s, site + 1, 1)->stop = 0;
	sim_run(s, 100 * SIM_MS);
	s->flow[1].stop = SIM_NEVER;
	s->queue[1].wake = s->now;
	sim_measure(s, 0, 20 * SIM_MS);
	KUNIT_EXPECT_LE(test, sim_got(s, site + 1),
			5 * SIM_MBIT / 50 + 4 * SIM_MTU);
	sim_end(s);
}

/* Members that cannot send leave all of the rate to others, or nearly so where
 * one packet each takes long, also when their backlogs grow
 */
static void rate_tree_test_paused(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	int i, j;

	for (i = 0; i < 2; i++) {
		sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
		sim_load_all(s, i + 1);
	}
	for (i = 0; i < SIM_QUEUES; i++)
		s->flow[i].paused = SIM_NEVER;
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect(s, 2, 1000);
	sim_expect_rate(s, 50, 20 * SIM_KB);
	sim_end(s);

	for (j = 0; j < 2; j++) {
		s = sim_init(test, 0, SIM_GBIT);
		for (i = 1; i <= 3; i++)
			sim_add(s, 0, SIM_GBIT / 3, SIM_GBIT, 10000, 0);
		sim_load_all(s, 1);
		sim_load_all(s, 2);
		for (i = 0; i < 2 * SIM_QUEUES; i++) {
			s->flow[i].paused = SIM_NEVER;
			s->flow[i].gap = j * 200 * NSEC_PER_USEC;
		}
		sim_load(s, 3, 0);
		sim_measure(s, 50 * SIM_MS, 1000 * SIM_MS);
		KUNIT_EXPECT_GE(test, s->bytes * 1000, SIM_GBIT * 975);
		sim_end(s);
	}
}

/* A queue that has a slot to come does not ask for others before */
static void rate_tree_test_calls(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 changes;
	u64 calls;
	int i, j;

	for (i = 1; i < SIM_CLASSES; i++) {
		sim_add(s, 0, SIM_GBIT / 4, 10 * SIM_GBIT, 10000, 0);
		for (j = 0; j < 4; j++)
			sim_load(s, i, j);
	}
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	KUNIT_EXPECT_LE(test, s->calls * 10 * SIM_MTU, s->bytes * 8);
	sim_expect_rate(s, 50, 20 * SIM_KB);
	sim_end(s);

	/* One that has the last slot asks when another one can be granted */
	s = sim_init(test, 0, SIM_GBIT);
	for (i = 0; i < SIM_QUEUES; i++)
		s->queue[i].late = 0;
	for (i = 1; i <= 4; i++) {
		sim_add(s, 0, SIM_GBIT / 4, SIM_GBIT, 10000, 0);
		for (j = 0; j < SIM_QUEUES; j++)
			sim_load(s, i, j)->len = 64 * SIM_KB;
	}
	sim_measure(s, 50 * SIM_MS, 100 * SIM_MS);
	KUNIT_EXPECT_LE(test, s->calls * 3 * SIM_KB, s->bytes);
	sim_end(s);

	/* Turns are long: a change of one class does not let all ask again */
	s = sim_init(test, 0, 10 * SIM_MBIT);
	for (i = 1; i < SIM_CLASSES; i++) {
		sim_add(s, 0, SIM_MBIT / 10, 10 * SIM_MBIT, 10000, 0);
		for (j = 0; j < 4; j++)
			sim_load(s, i, j);
	}
	sim_measure(s, 0, 1000 * SIM_MS);
	calls = s->calls;
	s->calls = 0;
	changes = s->tree.rate_changes;
	for (i = 0; i < 20; i++) {
		sim_set(&s->class[1], SIM_MBIT / (i % 2 ? 10 : 5),
			10 * SIM_MBIT, 10000, 0, s->now);
		sim_measure(s, 0, 50 * SIM_MS);
	}
	KUNIT_EXPECT_LE(test, s->calls, calls * 11 / 10);
	KUNIT_EXPECT_EQ(test, s->tree.rate_changes, changes);
	sim_end(s);

	/* All classes are at their ceil: nobody looks before one may send */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_MBIT / 100, SIM_MBIT / 10, 10000, 0);
	for (j = 0; j < 4; j++)
		sim_load(s, 1, j);
	sim_measure(s, 1000 * SIM_MS, 10000 * SIM_MS);
	KUNIT_EXPECT_LE(test, s->calls * SIM_MTU, s->bytes * 10);
	sim_end(s);
}

/* A ceil that is raised counts at once, also if the queue that was to grant the
 * next slot has left
 */
static void rate_tree_test_raised(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_queue *q;
	struct sim_flow *f;
	int i;

	sim_add(s, 0, 1000, 1000, 10000, 0);
	for (i = 0; i < 4; i++)
		sim_load(s, 1, i);
	sim_run(s, 50 * SIM_MS);
	KUNIT_ASSERT_NOT_NULL(test, s->tree.granter);
	q = container_of(s->tree.granter, struct sim_queue, q);
	KUNIT_ASSERT_LT(test, q - s->queue, 4);
	f = &s->flow[q - s->queue];
	rtnl_lock();
	local_bh_disable();
	rate_tree_leave(&f->m, s->now);
	local_bh_enable();
	rtnl_unlock();
	f->joined = false;
	f->stop = 0;
	f->packets = 0;
	sim_set(sim_class(s, 1), SIM_GBIT, SIM_GBIT, 10000, 0, s->now);
	sim_measure(s, 0, 50 * SIM_MS);
	KUNIT_EXPECT_GE(test, s->bytes * 1000, SIM_GBIT * 49);
	sim_end(s);
}

/* A member sends packets, as soon as it may */
static void sim_send(struct sim *s, struct sim_flow *f, u32 packets, u32 len)
{
	struct rate_tree_queue *q = f->m.queue;
	u64 when;

	local_bh_disable();
	rate_tree_backlog(&f->m, s->now, packets * len);
	while (packets) {
		if (!rate_tree_next(q, s->now, &when)) {
			s->now = when;
			continue;
		}
		rate_tree_charge(&f->m, len);
		packets--;
		rate_tree_backlog(&f->m, s->now, packets * len);
	}
	local_bh_enable();
}

/* Below the rate, time that nobody has used pays for packets without slots */
static void rate_tree_test_free(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct rate_tree_queue *q = &s->queue[0].q;
	struct sim_flow *f;
	u32 slots, i;

	sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	f = sim_load(s, 1, 0);
	s->now = SIM_MS;
	sim_send(s, f, 1, SIM_MTU);
	KUNIT_EXPECT_EQ(test, q->slots_granted, 1);
	/* As much as a slot */
	for (i = 0; i < RATE_TREE_SLOT_MAX / SIM_MTU; i++) {
		s->now += 10 * NSEC_PER_USEC;
		sim_send(s, f, 1, SIM_MTU);
	}
	KUNIT_EXPECT_EQ(test, q->slots_granted, 1);
	/* What was sent so is charged with the next slot, and has taken time
	 * that is over
	 */
	KUNIT_EXPECT_EQ(test, f->m.beyond - f->m.settled, i * SIM_MTU);
	KUNIT_EXPECT_LE(test, s->tree.tat, s->now);
	s->now += 10 * NSEC_PER_USEC;
	sim_send(s, f, 1, SIM_MTU);
	KUNIT_EXPECT_EQ(test, q->slots_granted, 2);
	KUNIT_EXPECT_EQ(test, f->m.beyond, f->m.settled);
	/* More at a time takes a slot, and so do packets much later */
	sim_send(s, f, 1, 65000);
	KUNIT_EXPECT_GT(test, q->slots_granted, 2);
	slots = q->slots_granted;
	s->now += 2 * RATE_TREE_CREDIT_TIME;
	sim_send(s, f, 1, 64);
	KUNIT_EXPECT_EQ(test, q->slots_granted, slots + 1);
	/* What was given back before it is charged is owed at once */
	s->now += SIM_MS;
	local_bh_disable();
	rate_tree_backlog(&f->m, s->now, 65000);
	rate_tree_backlog(&f->m, s->now, 0);
	rate_tree_charge(&f->m, 65000);
	rate_tree_backlog(&f->m, s->now, 0);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, f->m.beyond, f->m.settled);
	KUNIT_EXPECT_GE(test, s->tree.tat, s->now + 30 * NSEC_PER_USEC);
	sim_end(s);
}

/* Two queues send in turns below a ceil that allows a packet in 242 us: less
 * than a packet for each queue. They need not take a slot each time. A ceil
 * holds also for small packets while others have the queues charged often.
 */
static void rate_tree_test_free_ceil(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct sim_flow *f;
	u32 i;

	sim_add(s, 0, SIM_MBIT, 50 * SIM_MBIT, 10000, 0);
	sim_load_all(s, 1);
	s->now = SIM_MS;
	for (i = 0; i < 400; i++) {
		s->now += i % 2 * 700 * NSEC_PER_USEC;
		sim_send(s, &s->flow[i % 2], 1, SIM_MTU);
	}
	KUNIT_EXPECT_LE(test, s->queue[0].q.slots_granted +
			      s->queue[1].q.slots_granted, 160);
	sim_end(s);

	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_MBIT / 10, SIM_MBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	sim_load_all(s, 2);
	for (f = s->flow; f < s->flow + s->flows; f++) {
		f->gap = (f->class == 1 ? 6000 : 40) * NSEC_PER_USEC;
		f->len = f->class == 1 ? 64 : SIM_MTU;
	}
	sim_run(s, 50 * SIM_MS);
	for (f = s->flow; f < s->flow + s->flows; f++)
		f->gap = (f->class == 1 ? 500 : 40) * NSEC_PER_USEC;
	sim_measure(s, 5 * SIM_MS, 100 * SIM_MS);
	KUNIT_EXPECT_LE(test, sim_got(s, 1), SIM_MBIT / 10 +
			      SIM_QUEUES * 3 * SIM_MTU);
	sim_end(s);
}

/* Going without slots is no way around the rate of the root or a ceil */
static void rate_tree_test_free_rate(struct kunit *test)
{
	static const struct {
		u64	root;
		u64	ceil;
		u32	gap;	/* of packets on a queue, ns */
		u32	len;
	} cases[] = {
		{ 10 * SIM_GBIT, 10 * SIM_MBIT, 50000, 64 },
		{ 10 * SIM_GBIT, SIM_GBIT / 2, 4000, 64 },
		{ SIM_GBIT, SIM_GBIT, 80000, SIM_MTU },
	};
	struct sim_flow *f;
	struct sim *s;
	u64 due;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		s = sim_init(test, 0, cases[i].root);
		sim_add(s, 0, SIM_MBIT, cases[i].ceil, 10000, 0);
		sim_load_all(s, 1);
		for (f = s->flow; f < s->flow + s->flows; f++) {
			f->gap = 20 * cases[i].gap;
			f->len = cases[i].len;
		}
		sim_run(s, 5 * SIM_MS);
		for (f = s->flow; f < s->flow + s->flows; f++)
			f->gap = cases[i].gap;
		sim_measure(s, 5 * SIM_MS, 40 * SIM_MS);
		due = div_u64(cases[i].ceil, 25);
		KUNIT_EXPECT_GE(test, s->bytes + 20 * SIM_KB, due);
		KUNIT_EXPECT_LE(test, s->bytes, due + 20 * SIM_KB);
		KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC),
				20 * SIM_KB);
		sim_end(s);
	}

	/* Many that sent little long ago do not all send at once */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	for (i = 0; i < 15 * SIM_QUEUES; i++) {
		if (i % SIM_QUEUES == 0)
			sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 7);
		f = sim_load(s, s->classes - 1, i % SIM_QUEUES);
		f->gap = SIM_NEVER / 2;
		f->arrive = i * 20 * NSEC_PER_USEC;
		s->queue[i % SIM_QUEUES].late = 0;
	}
	sim_run(s, 4 * SIM_MS);
	for (f = s->flow; f < s->flow + s->flows; f++)
		f->arrive = 5 * SIM_MS;
	sim_load(s, 1, 0);
	sim_measure(s, SIM_MS / 2, SIM_MS);
	sim_expect_rate(s, 1, 20 * SIM_KB);
	sim_end(s);
}

/* Drops leave no more than what the member may send, and it leaves then */
static void rate_tree_test_drops(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct rate_tree_member *m;
	struct sim_flow *f;
	u64 when;
	int i;

	sim_add(s, 0, SIM_GBIT, SIM_GBIT, 10000, 0);
	f = sim_load(s, 1, 0);
	for (i = 0; i < 3; i++) {
		rtnl_lock();
		local_bh_disable();
		rate_tree_backlog(&f->m, s->now, 40 * SIM_MTU);
		m = rate_tree_next(&s->queue[0].q, s->now, &when);
		KUNIT_ASSERT_PTR_EQ(test, m, &f->m);
		KUNIT_ASSERT_TRUE(test, m->waits);
		rate_tree_charge(m, SIM_MTU);
		rate_tree_backlog(m, s->now, s->queue[0].q.left);
		while (s->queue[0].q.sender) {
			rate_tree_charge(m, SIM_MTU);
			rate_tree_backlog(m, s->now,
					  max(s->queue[0].q.left, 0));
		}
		if (i == 1)
			rate_tree_leave(m, s->now);
		local_bh_enable();
		KUNIT_EXPECT_FALSE(test, m->waits);
		if (i == 1)
			rate_tree_join(&s->queue[0].q, m, sim_class(s, 1));
		rtnl_unlock();
		KUNIT_EXPECT_EQ(test, s->tree.root.nwaiting, 0);
		s->now += SIM_MS;
	}
	sim_end(s);
}

/* After the rate has changed, nobody waits at the old one, also not who has
 * something left of a slot
 */
static void rate_tree_test_rate(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_MBIT);
	int i;

	sim_add(s, 0, SIM_MBIT / 10, 10 * SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	for (i = 0; i < SIM_QUEUES; i++)
		s->flow[i].len = 1400;
	sim_run(s, 1000 * SIM_MS);
	sim_set(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MTU, 0, s->now);
	sim_wake_all(s);
	sim_measure(s, SIM_MS, 50 * SIM_MS);
	sim_expect_rate(s, 50, 40 * SIM_KB);
	sim_set(&s->tree.root, SIM_MBIT, SIM_MBIT, SIM_MTU, 0, s->now);
	sim_wake_all(s);
	sim_measure(s, 200 * SIM_MS, 16000 * SIM_MS);
	sim_expect_rate(s, 16000, 20 * SIM_KB);
	sim_end(s);

	/* Nor who is within a slot, and has the tree for itself */
	for (i = 0; i < 8; i++) {
		s = sim_init(test, 0, SIM_MBIT / 16);
		sim_add(s, 0, SIM_KB, SIM_GBIT, 10000, 0);
		sim_load(s, 1, 0)->len = 1000;
		sim_run(s, (1000 + 50 * i) * SIM_MS);
		sim_set(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MTU, 0, s->now);
		sim_wake_all(s);
		sim_measure(s, SIM_MS, 50 * SIM_MS);
		sim_expect_rate(s, 50, 40 * SIM_KB);
		sim_end(s);
	}

	/* Nor at its ceil or rate, which are counted from where slots end */
	s = sim_init(test, 0, SIM_MBIT / 100);
	sim_add(s, 0, SIM_MBIT / 200, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT / 200, 10 * SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	sim_run(s, 20000 * SIM_MS);
	sim_set(&s->class[1], 50 * SIM_MBIT, 100 * SIM_MBIT, 10000, 0, s->now);
	sim_set(&s->class[2], 900 * SIM_MBIT, SIM_GBIT, 10000, 0, s->now);
	sim_set(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MTU, 0, s->now);
	sim_wake_all(s);
	sim_measure(s, 10 * SIM_MS, 200 * SIM_MS);
	sim_expect(s, 1, 75);
	sim_expect(s, 2, 925);
	sim_end(s);

	/* But it gets no more than its ceil, however often the rate rises */
	s = sim_init(test, 0, SIM_MBIT);
	sim_add(s, 0, 4 * SIM_MBIT / 10, 4 * SIM_MBIT / 10, 10000, 0);
	sim_add(s, 0, SIM_KB, 2 * SIM_MBIT, 10000, 1);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1);
	for (i = 0; i < 160; i++) {
		u64 rate = (1 + i % 2) * SIM_MBIT;

		sim_set(&s->tree.root, rate, rate, SIM_MTU, 0, s->now);
		sim_wake_all(s);
		sim_run(s, s->now + 50 * SIM_MS);
	}
	KUNIT_EXPECT_LE(test, sim_got(s, 1), 8 * 42 * SIM_MBIT / 100);
	sim_end(s);
}

/* Where turns take long, and all members but one stop, it goes on at once */
static void rate_tree_test_stop(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	sim_add(s, 0, SIM_GBIT / 10, SIM_GBIT, 10000, 0);
	for (i = 0; i <= 100; i++)
		sim_load(s, 1, !!i)->len = 64 * SIM_KB;
	sim_run(s, 500 * SIM_MS);
	for (i = 1; i <= 100; i++)
		s->flow[i].stop = s->now;
	s->queue[1].wake = s->now;
	sim_measure(s, SIM_MS, 50 * SIM_MS);
	sim_expect_rate(s, 50, 200 * SIM_KB);
	sim_end(s);

	/* Also if all that wait are above their ceil then */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, 100 * SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_add(s, 1, SIM_MBIT, 100 * SIM_MBIT, 10000, 7);
	sim_add(s, 1, SIM_MBIT, 100 * SIM_MBIT, 10000, 0);
	sim_load(s, 2, 0);
	sim_load(s, 3, 1)->stop = 1000 * SIM_MS;
	sim_run(s, 1000 * SIM_MS);
	sim_measure(s, SIM_MS, 100 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 2) * 100, 10 * SIM_MBIT * 95);
	sim_end(s);

	/* Also if a queue had just begun to wait for the slots after theirs,
	 * and one waits at its ceil
	 */
	for (i = 0; i < 2; i++) {
		s = sim_init(test, 0, SIM_MBIT);
		sim_add(s, 0, SIM_MBIT / 10, SIM_MBIT, 10000, 0);
		sim_add(s, 0, SIM_MBIT / 1000, SIM_MBIT / 1000, 10000, 0);
		sim_load(s, 1, 0)->stop = 1000 * SIM_MS;
		f = sim_load(s, 1, 1);
		f->gap = 10000 * SIM_MS;
		f->arrive = 1000 * SIM_MS - 10 * NSEC_PER_USEC;
		if (i)
			sim_load(s, 2, 2);
		sim_run(s, 2000 * SIM_MS);
		KUNIT_EXPECT_EQ(test, f->packets, 0);
		KUNIT_EXPECT_LE(test, f->longest, 14 * SIM_MS);
		sim_end(s);
	}
}

/* After nobody wanted anything, nothing is made up for */
static void rate_tree_test_idle(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i, round;

	sim_add(s, 0, SIM_GBIT / 10, SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < SIM_QUEUES; i++) {
			s->flow[i].stop = s->now + 2 * SIM_MS;
			s->queue[i].wake = s->now;
		}
		sim_measure(s, 0, 2 * SIM_MS);
		sim_expect_rate(s, 2, 10 * SIM_KB);
		sim_run(s, s->now + sim_random(s, 50 * SIM_MS));
	}
	sim_end(s);
}

/* Who is charged for what it sent beyond its slots is far ahead of others, but
 * has had no turn: siblings keep what is due to them.
 */
static void rate_tree_test_debts(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	for (i = 0; i < SIM_QUEUES; i++)
		s->queue[i].late = 0;
	sim_add(s, 0, SIM_GBIT / 10, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT / 10, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT / 100, SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0);
	sim_load(s, 2, 1)->len = 65226;
	for (i = 0; i < 2; i++) {
		f = sim_load(s, 3, i);
		f->len = 65226;
		f->gap = 10 * SIM_MS;
		f->arrive = i * 3 * SIM_MS;
	}
	sim_measure(s, 500 * SIM_MS, 4000 * SIM_MS);
	sim_expect(s, 1, 448);
	sim_expect(s, 2, 448);
	sim_end(s);
}

/* What is left of slots is not lost while others wait: packets are short, or
 * dropped
 */
static void rate_tree_test_rests(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	sim_add(s, 0, SIM_GBIT * 6 / 10, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT * 3 / 10, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT / 10, SIM_GBIT, 10000, 0);
	for (i = 0; i < SIM_QUEUES; i++) {
		f = sim_load(s, 1, i);
		f->len = 1000;
		f->burst = 3;
		f->gap = div64_u64(3000ULL * SIM_QUEUES * 2 * NSEC_PER_SEC,
				   SIM_GBIT);
		f->arrive = i * f->gap / SIM_QUEUES;
	}
	sim_configure(&s->class[1], SIM_GBIT * 6 / 10, SIM_GBIT, SIM_MS, SIM_MS,
		      10000, 0, s->now);
	sim_load_all(s, 2);
	sim_load_all(s, 3);
	sim_measure(s, 100 * SIM_MS, 400 * SIM_MS);
	sim_expect(s, 1, 500);
	sim_expect(s, 2, 350);
	sim_expect(s, 3, 150);
	sim_expect_rate(s, 400, 20 * SIM_MTU);
	sim_end(s);

	s = sim_init(test, 0, SIM_GBIT);
	sim_add(s, 0, SIM_GBIT * 4 / 10, SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_GBIT * 5 / 10, SIM_GBIT, 10000, 0);
	f = sim_load(s, 1, 0);
	f->burst = 2;
	f->gap = div64_u64(20ULL * SIM_MTU * NSEC_PER_SEC, 3 * SIM_GBIT);
	f->drop = 2;
	sim_load(s, 2, 0);
	sim_measure(s, 100 * SIM_MS, 400 * SIM_MS);
	sim_expect_rate(s, 400, 20 * SIM_MTU);
	sim_end(s);
}

/* Nor is it kept for long after that */
static void rate_tree_test_old_rests(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i;

	sim_add(s, 0, SIM_GBIT / 2, SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	for (i = 0; i < SIM_QUEUES; i++) {
		s->flow[i].gap = NSEC_PER_SEC;
		s->flow[i].drop = 1;
	}
	sim_run(s, 80 * SIM_MS);
	for (i = 0; i < SIM_QUEUES; i++) {
		s->flow[i].gap = 0;
		s->flow[i].drop = 0;
	}
	sim_wake_all(s);
	sim_measure(s, 0, 5 * SIM_MS);
	KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC), 4 * SIM_MTU);
	sim_end(s);
}

/* Rates do not fit. A class that is at its ceil at times gets its part, also
 * where a packet of 64 KB takes longer than RATE_TREE_MAX_LATE.
 */
static void rate_tree_test_blocked(struct kunit *test)
{
	const u64 burst = 64 * SIM_KB;
	struct sim_flow *f;
	struct sim *s;
	u64 mbit;
	int i;

	for (i = 0; i < 2; i++) {
		mbit = i ? SIM_MBIT / 60 : SIM_MBIT;
		s = sim_init(test, 0, 1000 * mbit);
		sim_add(s, 0, 48 * mbit, 1000 * mbit, 10000, 0);
		sim_add(s, 0, 1095 * mbit, 1000 * mbit, 10000, 0);
		sim_load(s, 2, 0);
		sim_add(s, 1, 43 * mbit, 160 * mbit, 10000, 0);
		f = sim_load(s, 3, 0);
		f->len = 65226;
		f->other = SIM_MTU;
		sim_add(s, 1, 10 * mbit, 1000 * mbit, 10000, 0);
		sim_load(s, 4, 0);
		sim_configure(&s->class[4], 10 * mbit, 1000 * mbit,
			      div64_u64(burst * NSEC_PER_SEC, 10 * mbit), 0,
			      10000, 0, s->now);
		sim_measure(s, 2000 * SIM_MS, (i ? 200000 : 20000) * SIM_MS);
		KUNIT_EXPECT_GE(test, sim_got(s, 3) * 10, sim_got(s, 4) * 42);
		KUNIT_EXPECT_LE(test, sim_got(s, 3) * 10, sim_got(s, 4) * 44);
		sim_end(s);
	}
}

/* A class that is at its ceil does not lag behind its rate: rates fit, and all
 * get theirs
 */
static void rate_tree_test_own_ceil(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i;

	sim_add(s, 0, 900 * SIM_MBIT, SIM_GBIT, SIM_MTU, 0);
	sim_load(s, 1, 0);
	sim_add(s, 0, 50 * SIM_MBIT, SIM_GBIT, 60000, 0);
	sim_load(s, 2, 1);
	sim_run(s, 500 * SIM_MS);
	sim_add(s, 0, 10 * SIM_MBIT, 20 * SIM_MBIT, 10000, 0);
	for (i = 0; i < SIM_QUEUES; i++)
		sim_load(s, 3, i)->len = 65226;
	for (i = 0; i < 20; i++) {
		sim_measure(s, 0, 100 * SIM_MS);
		KUNIT_EXPECT_GE(test, sim_got(s, 1) * 1000, s->bytes * 860);
	}
	sim_end(s);
}

/* A class that waits at its ceil collects no claim to its rate: neither for the
 * time before, in which it was idle, nor because its rate is changed. So all
 * others still get their rates.
 */
static void rate_tree_test_ceil_claim(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	struct sim_flow *f;
	int i;

	sim_add(s, 0, 6 * SIM_GBIT, 10 * SIM_GBIT, 10000, 7);
	sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT, 10 * SIM_MBIT, 10000, 0);
	sim_add(s, 0, 10 * SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	for (i = 0; i < SIM_QUEUES; i++) {
		f = sim_load(s, 4, i);
		f->gap = 5 * SIM_MS;
		f->arrive = i * SIM_MS / 10;
		f = sim_load(s, 3, i);
		f->gap = 100 * SIM_MS;
		f->arrive = (1 + 7 * i) * SIM_MS;
		f->stop = 500 * SIM_MS;
	}
	sim_run(s, 3000 * SIM_MS);
	/* Light load keeps the credit of all queues. A packet on each is sent
	 * with that, and charged when others begin
	 */
	for (i = 0; i < SIM_QUEUES; i++) {
		f = &s->flow[2 * i + 1];
		f->gap = 2 * SIM_MS;
		f->arrive = s->now + 3 * SIM_MS + i * SIM_MS / 200;
		f->stop = SIM_NEVER;
		s->queue[i].wake = s->now;
	}
	sim_run(s, s->now + 3 * SIM_MS + SIM_MS / 10);
	sim_load_all(s, 1);
	sim_load_all(s, 2);
	sim_measure(s, 10 * SIM_MS, 500 * SIM_MS);
	sim_expect(s, 1, 600);
	sim_expect(s, 3, 1);
	sim_end(s);

	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, 6 * SIM_GBIT, 10 * SIM_GBIT, 10000, 7);
	sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT / 2, SIM_MBIT, 10000, 0);
	sim_load_all(s, 3);
	for (f = s->flow; f < s->flow + SIM_QUEUES; f++)
		f->len = 64 * SIM_KB;
	sim_load_all(s, 1);
	sim_load_all(s, 2);
	sim_run(s, 400 * SIM_MS);
	sim_set(sim_class(s, 3), SIM_MBIT / 4, SIM_MBIT, 10000, 0, s->now);
	sim_measure(s, 0, 2000 * SIM_MS);
	sim_expect(s, 1, 600);
	sim_end(s);
}

/* The same if it may send again, and no queue looks for long: here one that has
 * stopped, while others have nothing to send
 */
static void rate_tree_test_ceil_stall(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 60000, 0);
	sim_add(s, 0, 200 * SIM_MBIT, SIM_GBIT, 10000, 7);
	sim_add(s, 0, 50 * SIM_MBIT, 100 * SIM_MBIT, 10000, 7);
	sim_load(s, 3, 2);
	sim_run(s, 1000 * SIM_MS);
	s->queue[2].stopped = s->now + 2001 * SIM_MS;
	sim_run(s, s->now + 2000 * SIM_MS);
	sim_load(s, 2, 0);
	sim_run(s, s->now + 2 * SIM_MS);
	sim_load(s, 1, 3);
	sim_measure(s, 0, 500 * SIM_MS);
	sim_expect(s, 2, 200);
	sim_expect(s, 3, 50);
	sim_end(s);

	/* Nor if a debt is charged to it first, when queues go on: this lag
	 * would count for all that wait
	 */
	s = sim_init(test, 0, SIM_GBIT);
	sim_configure(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MS, SIM_MS, 10000,
		      0, s->now);
	sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 60000, 0);
	sim_add(s, 0, 50 * SIM_MBIT, 100 * SIM_MBIT, 10000, 7);
	f = sim_load(s, 1, 0);
	f->gap = 5 * SIM_MS;
	f->burst = 30;
	f->stop = 992 * SIM_MS;
	f = sim_load(s, 2, 0);
	f->gap = 5 * SIM_MS;
	f->arrive = SIM_MS;
	f->stop = 992 * SIM_MS;
	sim_run(s, 992 * SIM_MS);
	KUNIT_EXPECT_NE(test, f->m.beyond, f->m.settled);
	sim_load(s, 2, 2)->len = 9000;
	sim_run(s, s->now + SIM_MS);
	for (i = 0; i < SIM_QUEUES; i++)
		s->queue[i].stopped = s->now + 2000 * SIM_MS;
	sim_run(s, s->now + 2000 * SIM_MS);
	sim_load(s, 1, 0);
	sim_run(s, s->now + SIM_MS);
	KUNIT_EXPECT_EQ(test, f->m.beyond, f->m.settled);
	KUNIT_EXPECT_LE(test, s->tree.root.rate_lag, RATE_TREE_MAX_LATE);
	sim_end(s);
}

/* What a member sent while no other one of its class waited is not held against
 * it later: it has half of what the class gets
 */
static void rate_tree_test_alone_before(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *other, *f;

	sim_configure(&s->tree.root, SIM_GBIT, SIM_GBIT, SIM_MS, SIM_MS, 10000,
		      0, s->now);
	sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 10000, 0);
	sim_add(s, 0, 100 * SIM_MBIT, SIM_GBIT, 10000, 0);
	/* Another class of its queue keeps the credit fresh */
	other = sim_load(s, 2, 0);
	other->gap = 10 * SIM_MS;
	other->burst = 30;
	f = sim_load(s, 1, 0);
	f->gap = 10 * SIM_MS;
	f->arrive = 2 * SIM_MS;
	sim_run(s, 30000 * SIM_MS);
	sim_load(s, 1, 1);
	sim_run(s, s->now + 2 * SIM_MS);
	f->gap = 0;
	other->stop = s->now;
	s->queue[0].wake = s->now;
	sim_load(s, 2, 2);
	sim_measure(s, 0, 40 * SIM_MS);
	KUNIT_EXPECT_GE(test, f->bytes * 100, sim_got(s, 1) * 48);
	sim_end(s);
}

/* A class gets its ceil beside siblings with long packets, which make its slots
 * come further apart than its cburst lasts
 */
static void rate_tree_test_ceil_long(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	int i;

	for (i = 0; i < 5; i++) {
		sim_add(s, 0, 10 * SIM_MBIT, (i ? 1000 : 150) * SIM_MBIT,
			60000, 0);
		sim_load(s, i + 1, i)->len = i ? 65226 : SIM_MTU;
	}
	sim_measure(s, 100 * SIM_MS, 500 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1) * 100, 75 * SIM_MBIT * 98);
	sim_end(s);
}

/* What a class sent without slots, while others could have, is forgiven */
static void rate_tree_test_debts_alone(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);
	struct sim_flow *f;
	int i;

	for (i = 0; i < 3; i++)
		sim_add(s, 0, (i == 1 ? 600 : 1) * SIM_MBIT, SIM_GBIT, 10000,
			0);
	for (i = 0; i < 2; i++) {
		f = sim_load(s, 1 + i, 0);
		f->len = i ? 600 : 5700;
		f->gap = 100 * NSEC_PER_USEC;
		f->stop = i ? SIM_NEVER : 4000 * SIM_MS;
		f->arrive = i ? 0 : 50 * NSEC_PER_USEC;
	}
	sim_run(s, 4000 * SIM_MS);
	sim_load(s, 3, 1);
	sim_run(s, 4010 * SIM_MS);
	sim_load(s, 1, 0);
	sim_measure(s, 100 * SIM_MS, 200 * SIM_MS);
	KUNIT_EXPECT_GE(test, sim_got(s, 1) * 100, sim_got(s, 3) * 95);
	sim_end(s);
}

/* The first packets are longer than slots: the next ones pay for them. Those of
 * a backlog that ends are all sent.
 */
static void rate_tree_test_first_long(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 100 * SIM_GBIT);
	struct sim_flow *f;
	int i;

	sim_add(s, 0, 10 * SIM_GBIT, 100 * SIM_GBIT, 10000, 0);
	sim_load(s, 1, 0)->len = 65226;
	sim_measure(s, 0, 10 * SIM_MS);
	sim_expect_rate(s, 10, 530 * SIM_KB);
	sim_end(s);

	for (i = 1; i <= 20; i++) {
		s = sim_init(test, 0, 100 * SIM_GBIT);
		sim_add(s, 0, 10 * SIM_GBIT, 100 * SIM_GBIT, 10000, 0);
		f = sim_load(s, 1, 0);
		f->len = 65226;
		f->gap = NSEC_PER_SEC;
		f->burst = i;
		sim_measure(s, 0, 10 * SIM_MS);
		KUNIT_EXPECT_EQ(test, f->packets, 0);
		sim_end(s);
	}
}

/* Members of a class get the same number of bytes whatever their packets */
static void rate_tree_test_lengths(struct kunit *test)
{
	static const u32 lens[] = { 60, 1450, 1513, 9000, 64 * SIM_KB };
	struct sim *s;
	u64 part;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		s = sim_init(test, 0, 10 * SIM_GBIT);
		sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
		sim_load_all(s, 1);
		for (j = 0; j < SIM_QUEUES; j += 2)
			s->flow[j].len = lens[i];
		sim_measure(s, 5 * SIM_MS, 200 * SIM_MS);
		part = s->bytes;
		for (j = 0; j < SIM_QUEUES; j++) {
			u64 got = s->flow[j].bytes * SIM_QUEUES * 100;

			KUNIT_EXPECT_GE_MSG(test, got, part * 99, "%u",
					    lens[i]);
			KUNIT_EXPECT_LE_MSG(test, got, part * 101, "%u",
					    lens[i]);
		}
		sim_end(s);
	}
}

/* All of the rate is used where timers are late by up to a tick of 4 or 10 ms,
 * and where queues stop for 5 ms at times
 */
static void rate_tree_test_lateness(struct kunit *test)
{
	struct sim_flow *f;
	struct sim *s;
	u32 most = 0;
	int i, j;

	for (i = 0; i < 6; i++) {
		s = sim_init(test, 0, (i % 2 ? 1 : 10) * SIM_GBIT);
		for (j = 1; j <= 4; j++) {
			sim_add(s, 0, SIM_GBIT / 10, 10 * SIM_GBIT, 10000, 0);
			sim_load_all(s, j);
		}
		for (j = 0; j < SIM_QUEUES && i < 4; j++)
			s->queue[j].late = (i < 2 ? 4 : 10) * SIM_MS;
		for (j = 0; j < 20; j++) {
			if (i >= 4)
				s->queue[j % SIM_QUEUES].stopped = s->now +
								   5 * SIM_MS;
			if (!j)
				sim_measure(s, 0, 50 * SIM_MS);
			else
				sim_run(s, s->now + 50 * SIM_MS);
		}
		KUNIT_EXPECT_GE(test, s->bytes * 100, s->tree.root.ceil * 99);
		KUNIT_EXPECT_LE(test, s->bytes * 100, s->tree.root.ceil * 101);
		sim_end(s);
	}

	/* A queue that was idle when it would have been called is not late */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	sim_add(s, 0, SIM_GBIT, 9 * SIM_GBIT, 10000, 0);
	sim_add(s, 0, SIM_MBIT / 10, SIM_MBIT, 10000, 0);
	for (i = 0; i < 4; i++) {
		s->queue[i].late = 0;
		f = sim_load(s, 1 + i / 3, i);
	}
	f->gap = 107 * SIM_MS;
	f->burst = 8;
	for (i = 0; i < 1000; i++) {
		sim_run(s, s->now + SIM_MS);
		most = max(most, s->queue[3].q.lateness);
	}
	KUNIT_EXPECT_LE(test, most, NSEC_PER_USEC);
	sim_end(s);
}

/* Bytes that a flow sends within a time of its first packet */
static u64 sim_at_once(struct sim *s, struct sim_flow *f, u64 time)
{
	f->stop = SIM_NEVER;
	s->queue[f->queue].wake = s->now;
	sim_measure(s, 0, time);
	return f->bytes;
}

/* After it was idle, a class sends its cburst at once above its ceil, its burst
 * before others above its rate, and the root its own
 */
static void rate_tree_test_bursts(struct kunit *test)
{
	const u64 burst = 64 * SIM_KB;
	struct sim_flow *f;
	struct sim *s;
	u64 got;
	int i;

	for (i = 0; i < 2; i++) {
		s = sim_init(test, 0, 10 * SIM_GBIT);
		sim_add(s, 0, SIM_MBIT, 10 * SIM_MBIT, 10000, 0);
		f = sim_load(s, 1, 0);
		f->stop = 0;
		sim_configure(&s->class[1], SIM_MBIT, 10 * SIM_MBIT, 0,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * SIM_MBIT), 10000, 0, s->now);
		sim_run(s, 500 * SIM_MS);
		got = sim_at_once(s, f, SIM_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 4 * SIM_MTU);
		sim_end(s);
	}

	for (i = 0; i < 2; i++) {
		s = sim_init(test, 0, SIM_GBIT);
		sim_add(s, 0, 10 * SIM_MBIT, SIM_GBIT, 10000, 7);
		f = sim_load(s, 1, 0);
		f->stop = 0;
		sim_configure(&s->class[1], 10 * SIM_MBIT, SIM_GBIT,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * SIM_MBIT), 0, 10000, 7,
			      s->now);
		sim_add(s, 0, SIM_MBIT, SIM_GBIT, 10000, 0);
		sim_load_all(s, 2);
		sim_run(s, 500 * SIM_MS);
		got = sim_at_once(s, f, 2 * SIM_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 8 * SIM_MTU);
		sim_end(s);
	}

	for (i = 0; i < 2; i++) {
		s = sim_init(test, 0, 10 * SIM_MBIT);
		sim_configure(&s->tree.root, 10 * SIM_MBIT, 10 * SIM_MBIT, 0,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * SIM_MBIT), SIM_MTU, 0, s->now);
		f = sim_load(s, 0, 0);
		f->stop = 0;
		sim_run(s, 500 * SIM_MS);
		got = sim_at_once(s, f, SIM_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 4 * SIM_MTU);
		sim_end(s);
	}
}

/* A class that waits for its ceil goes on at once when that rises, though only
 * the queue that grants is told
 */
static void rate_tree_test_told(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, SIM_GBIT);

	sim_add(s, 0, SIM_KB, 2 * SIM_KB, 10000, 0);
	sim_load_all(s, 1);
	sim_run(s, 5000 * SIM_MS);
	sim_set(&s->class[1], SIM_KB, SIM_GBIT, 10000, 0, s->now);
	sim_measure(s, 10 * SIM_MS, 20 * SIM_MS);
	sim_expect_rate(s, 20, 20 * SIM_KB);
	sim_end(s);
}

/* A queue that is late grants no more in one call than it should */
static void rate_tree_test_grants(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 100 * SIM_GBIT);
	u32 before, i, granted = 0;
	u64 when;

	sim_add(s, 0, SIM_GBIT, 100 * SIM_GBIT, 10000, 0);
	sim_load_all(s, 1);
	sim_run(s, 5 * SIM_MS);
	for (i = 0; i < SIM_QUEUES; i++) {
		granted -= s->queue[i].q.slots_granted;
		s->queue[i].stopped = SIM_NEVER;
	}
	s->now += SIM_MS;
	before = s->queue[0].q.slots_begun;
	local_bh_disable();
	rate_tree_next(&s->queue[0].q, s->now, &when);
	local_bh_enable();
	for (i = 0; i < SIM_QUEUES; i++)
		granted += s->queue[i].q.slots_granted;
	KUNIT_EXPECT_NE(test, s->queue[0].q.slots_begun, before);
	KUNIT_EXPECT_LE(test, granted, RATE_TREE_GRANTS);
	sim_end(s);
}

/* Somebody who has something to send, and has sent nothing; or NULL */
static struct sim_flow *sim_unserved(struct sim *s)
{
	struct sim_flow *f;

	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->joined && sim_backlog(s, f) && !f->bytes)
			return f;

	return NULL;
}

/* Whatever happens, who has something to send is served, all of the rate is
 * used, and nothing is left behind.
 */
static void rate_tree_test_random(struct kunit *test)
{
	u32 parent, quantum, prio;
	int seed, i, step;
	u64 rate, ceil;
	struct sim *s;

	for (seed = 1; seed <= 20; seed++) {
		s = sim_init(test, 0, SIM_GBIT);
		prandom_seed_state(&s->rnd, seed);
		while (s->classes < 20) {
			parent = sim_random(s, s->classes);
			rate = 1 + sim_random(s, 200 * SIM_MBIT);
			ceil = SIM_MBIT + sim_random(s, 2 * SIM_GBIT);
			quantum = 1 + sim_random(s, 60000);
			prio = sim_random(s, 8);
			sim_add(s, parent, rate, ceil, quantum, prio);
		}
		for (i = 0; i < 60; i++) {
			struct sim_flow *f;

			f = sim_load(s, 0, sim_random(s, SIM_QUEUES));
			f->class = sim_random(s, s->classes);
			f->m.class = sim_class(s, f->class);
			f->len = 60 + sim_random(s, SIM_MTU - 60);
			f->gap = sim_random(s, 3);
			f->gap *= sim_random(s, SIM_MS);
		}
		/* One that can use all that is left */
		sim_load_all(s, 0);
		for (step = 0; step < 60; step++) {
			struct sim_flow *f = &s->flow[sim_random(s, 60)];
			struct sim_queue *q = &s->queue[f->queue];
			u64 now = s->start + s->now;

			switch (sim_random(s, 4)) {
			case 0:
				f->packets = 0;
				f->stop = s->now;
				break;
			case 1:
				f->stop = SIM_NEVER;
				f->arrive = max(f->arrive, s->now);
				break;
			case 2:
				rtnl_lock();
				local_bh_disable();
				if (f->joined)
					rate_tree_leave(&f->m, now);
				else
					rate_tree_join(&q->q, &f->m,
						       sim_class(s, f->class));
				local_bh_enable();
				rtnl_unlock();
				f->joined = !f->joined;
				f->known_backlog = 0;
				break;
			default:
				i = 1 + sim_random(s, s->classes - 1);
				rate = 1 + sim_random(s, 200 * SIM_MBIT);
				ceil = SIM_MBIT + sim_random(s, SIM_GBIT);
				quantum = 1 + sim_random(s, 60000);
				prio = sim_random(s, 8);
				sim_set(&s->class[i], rate, ceil, quantum, prio,
					now);
			}
			q->wake = s->now;
			sim_run(s, s->now + sim_random(s, SIM_MS));
		}
		sim_measure(s, 5 * SIM_MS, 100 * SIM_MS);
		sim_expect_rate(s, 100, 40 * SIM_KB);
		/* Without priorities, rates and ceils, all are served */
		for (i = 1; i < s->classes; i++)
			sim_set(&s->class[i], 1, SIM_GBIT, SIM_MTU, 0,
				s->start + s->now);
		sim_wake_all(s);
		sim_measure(s, 5 * SIM_MS, 400 * SIM_MS);
		/* On the eighth level of a tree, a share is small */
		for (step = 0; step < 20 && sim_unserved(s); step++)
			sim_run(s, s->now + 400 * SIM_MS);
		KUNIT_EXPECT_NULL_MSG(test, sim_unserved(s), "seed %d", seed);
		sim_end(s);
	}
}

static void sim_expect_paid(struct sim *s, const struct sim_flow *f, int up,
			    u64 least, u64 most)
{
	u64 part = div64_u64(f->paid[up] * 1000, s->bytes);

	KUNIT_EXPECT_GE_MSG(s->test, part, least, "class %u, %d", f->class, up);
	KUNIT_EXPECT_LE_MSG(s->test, part, most, "class %u, %d", f->class, up);
}

/* Who pays for what is sent, who is above a ceil by it, and what is left */
static void rate_tree_test_statistics(struct kunit *test)
{
	struct sim *s = sim_init(test, 0, 10 * SIM_GBIT);
	u32 a = sim_add(s, 0, 4 * SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 a1 = sim_add(s, a, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	u32 b = sim_add(s, 0, 2 * SIM_GBIT, 3 * SIM_GBIT, 10000, 0);
	u32 idle = sim_add(s, 0, SIM_GBIT, 2 * SIM_GBIT, 10000, 0);
	struct sim_flow *fa = sim_load(s, a1, 0), *fb = sim_load(s, b, 1), *f;
	s64 tokens, ctokens;

	/* a1 has 1 of its rate and, of 4 that a has, what it does not need then
	 * for its own; the root pays the rest of 7. b has 2 and 1.
	 */
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect_paid(s, fa, 0, 95, 105);
	sim_expect_paid(s, fa, 1, 295, 405);
	sim_expect_paid(s, fa, 2, 195, 305);
	sim_expect_paid(s, fb, 0, 195, 205);
	sim_expect_paid(s, fb, 1, 95, 105);

	/* Only b is held back by its ceil. Turns wait for each other. */
	KUNIT_EXPECT_EQ(test, fa->above[0], 0);
	KUNIT_EXPECT_EQ(test, fa->above[1], 0);
	KUNIT_EXPECT_GT(test, fa->above[2], 500);
	KUNIT_EXPECT_GT(test, fb->above[0], 500);
	KUNIT_EXPECT_GT(test, fb->above[1], 500);

	rate_tree_tokens(sim_class(s, idle), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_EQ(test, tokens, s->now);
	KUNIT_EXPECT_EQ(test, ctokens, s->now);
	rate_tree_tokens(sim_class(s, b), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_LT(test, abs(tokens), SIM_MS);
	KUNIT_EXPECT_LT(test, abs(ctokens), SIM_MS);
	rate_tree_tokens(sim_class(s, 0), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_LE(test, tokens, 0);
	KUNIT_EXPECT_GT(test, tokens, -SIM_MS);
	KUNIT_EXPECT_EQ(test, ctokens, tokens);
	sim_end(s);

	/* Also of packets that need no turn, within the rate and beyond */
	s = sim_init(test, 0, 10 * SIM_GBIT);
	a = sim_add(s, 0, SIM_GBIT, 10 * SIM_GBIT, 10000, 0);
	b = sim_add(s, 0, SIM_MBIT, 10 * SIM_GBIT, 10000, 0);
	sim_load(s, a, 0);
	sim_load(s, b, 1);
	for (f = s->flow; f < s->flow + s->flows; f++) {
		f->len = 100;
		f->gap = 20 * NSEC_PER_USEC;
	}
	sim_measure(s, 5 * SIM_MS, 50 * SIM_MS);
	sim_expect_paid(s, &s->flow[0], 0, 490, 510);
	sim_expect_paid(s, &s->flow[1], 1, 450, 510);
	KUNIT_EXPECT_EQ(test, s->flow[0].above[0], 0);
	sim_end(s);
}

static struct kunit_case sim_cases[] = {
	KUNIT_CASE(rate_tree_test_shares),
	KUNIT_CASE(rate_tree_test_borrow),
	KUNIT_CASE(rate_tree_test_both),
	KUNIT_CASE(rate_tree_test_prio_ceil),
	KUNIT_CASE(rate_tree_test_overcommitted),
	KUNIT_CASE(rate_tree_test_sparse),
	KUNIT_CASE(rate_tree_test_back),
	KUNIT_CASE(rate_tree_test_stopped),
	KUNIT_CASE(rate_tree_test_flapping),
	KUNIT_CASE(rate_tree_test_unwanted),
	KUNIT_CASE(rate_tree_test_shorter),
	KUNIT_CASE(rate_tree_test_alone),
	KUNIT_CASE(rate_tree_test_ceil_idle),
	KUNIT_CASE(rate_tree_test_ceils),
	KUNIT_CASE(rate_tree_test_wrap),
	KUNIT_CASE(rate_tree_test_early),
	KUNIT_CASE(rate_tree_test_quantum),
	KUNIT_CASE(rate_tree_test_root),
	KUNIT_CASE(rate_tree_test_overdrawn),
	KUNIT_CASE(rate_tree_test_leaf_prio),
	KUNIT_CASE(rate_tree_test_pause),
	KUNIT_CASE(rate_tree_test_assured),
	KUNIT_CASE(rate_tree_test_slow_site),
	KUNIT_CASE(rate_tree_test_long_packets),
	KUNIT_CASE(rate_tree_test_in_turn),
	KUNIT_CASE(rate_tree_test_claims),
	KUNIT_CASE(rate_tree_test_one_queue),
	KUNIT_CASE(rate_tree_test_many),
	KUNIT_CASE(rate_tree_test_ceil_round),
	KUNIT_CASE(rate_tree_test_paused),
	KUNIT_CASE(rate_tree_test_calls),
	KUNIT_CASE(rate_tree_test_raised),
	KUNIT_CASE(rate_tree_test_free),
	KUNIT_CASE(rate_tree_test_free_ceil),
	KUNIT_CASE(rate_tree_test_free_rate),
	KUNIT_CASE(rate_tree_test_drops),
	KUNIT_CASE(rate_tree_test_rate),
	KUNIT_CASE(rate_tree_test_stop),
	KUNIT_CASE(rate_tree_test_idle),
	KUNIT_CASE(rate_tree_test_debts),
	KUNIT_CASE(rate_tree_test_rests),
	KUNIT_CASE(rate_tree_test_old_rests),
	KUNIT_CASE(rate_tree_test_blocked),
	KUNIT_CASE(rate_tree_test_own_ceil),
	KUNIT_CASE(rate_tree_test_ceil_claim),
	KUNIT_CASE(rate_tree_test_ceil_stall),
	KUNIT_CASE(rate_tree_test_alone_before),
	KUNIT_CASE(rate_tree_test_ceil_long),
	KUNIT_CASE(rate_tree_test_debts_alone),
	KUNIT_CASE(rate_tree_test_first_long),
	KUNIT_CASE(rate_tree_test_lengths),
	KUNIT_CASE(rate_tree_test_lateness),
	KUNIT_CASE(rate_tree_test_bursts),
	KUNIT_CASE(rate_tree_test_told),
	KUNIT_CASE(rate_tree_test_grants),
	KUNIT_CASE(rate_tree_test_statistics),
	KUNIT_CASE(rate_tree_test_random),
	{}
};

static struct kunit_suite sim_suite = {
	.name = "rate_tree",
	.test_cases = sim_cases,
};

kunit_test_suite(sim_suite);

MODULE_DESCRIPTION("KUnit tests for the rate tree");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

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
#include <linux/slab.h>
#include <net/sch_rate_tree.h>

#define RTT_MTU		1514
#define RTT_GBIT	125000000ULL	/* bytes/s */
#define RTT_MBIT	125000ULL
#define RTT_MS		((u64)NSEC_PER_MSEC)
#define RTT_NEVER	S64_MAX
#define RTT_QUEUES	8
#define RTT_CLASSES	32
#define RTT_FLOWS	128
#define RTT_KB		1000

/* What a class has to send on one queue */
struct rtt_flow {
	struct rate_tree_member	m;
	u32			queue;
	u32			class;
	u32			len;	/* of a packet, bytes */
	u64			gap;	/* of arrivals, ns; 0: no end of them */
	u64			stop;	/* when arrivals end, ns */
	u64			arrive;	/* next, ns */
	u32			packets; /* that wait; of those that arrive */
	u64			first;	/* when the first of them did, ns */
	u64			longest; /* wait, ns */
	u64			bytes;	/* sent in what is measured */
	u64			paid[3]; /* of these, by who above paid */
	u32			above[3]; /* turns that exceed a ceil there */
	u64			paused;	/* it cannot send before that, ns */
	u32			told;	/* backlog, bytes */
	bool			joined;
};

struct rtt_queue {
	struct rate_tree_queue	q;
	u64			wake;	/* ns */
	u64			stopped; /* no call before that, ns */
	u32			late;	/* of calls, at most, ns */
	u32			kicks;
};

/* Times but @start are since then. The meter holds bytes * NSEC_PER_SEC. */
struct rtt {
	struct kunit		*test;
	struct rate_tree	tree;
	struct rate_tree_class	class[RTT_CLASSES];
	u32			classes;
	struct rtt_flow		flow[RTT_FLOWS];
	u32			flows;
	struct rtt_queue	queue[RTT_QUEUES];
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

static u64 rtt_random(struct rtt *s, u64 below)
{
	return mul_u64_u32_shr(below, prandom_u32_state(&s->rnd), 32);
}

static struct rate_tree_class *rtt_class(struct rtt *s, u32 class)
{
	return class ? &s->class[class] : &s->tree.root;
}

/* Without bursts */
static bool rtt_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		    u8 prio, u64 now)
{
	return rate_tree_set(c, rate, ceil, 0, 0, quantum, prio, now);
}

static void rtt_kick(struct rate_tree_queue *queue)
{
	struct rtt_queue *q = container_of(queue, struct rtt_queue, q);

	q->wake = 0;
	q->kicks++;
}

static struct rtt *rtt_init(struct kunit *test, u64 start, u64 rate)
{
	struct rtt *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->test = test;
	s->start = start;
	prandom_seed_state(&s->rnd, 1);
	rate_tree_init(&s->tree);
	s->tree.tail = start;
	s->classes = 1;
	rtt_set(&s->tree.root, rate, rate, RTT_MTU, 0, start);
	for (i = 0; i < RTT_QUEUES; i++) {
		rate_tree_queue_init(&s->queue[i].q, &s->tree, rtt_kick);
		s->queue[i].late = 3 * NSEC_PER_USEC;
	}
	return s;
}

static u32 rtt_add(struct rtt *s, u32 parent, u64 rate, u64 ceil, u32 quantum,
		   u8 prio)
{
	struct rate_tree_class *c = &s->class[s->classes];

	KUNIT_ASSERT_LT(s->test, s->classes, RTT_CLASSES);
	rate_tree_add(&s->tree, c, rtt_class(s, parent));
	rtt_set(c, rate, ceil, quantum, prio, s->start + s->now);
	return s->classes++;
}

/* A flow of full-size packets without end, on one queue */
static struct rtt_flow *rtt_load(struct rtt *s, u32 class, u32 queue)
{
	struct rtt_flow *f = &s->flow[s->flows++];

	KUNIT_ASSERT_LE(s->test, s->flows, RTT_FLOWS);
	f->class = class;
	f->queue = queue;
	f->len = RTT_MTU;
	f->stop = RTT_NEVER;
	f->arrive = s->now;
	f->joined = true;
	s->queue[queue].wake = s->now;
	rate_tree_join(&s->queue[queue].q, &f->m, rtt_class(s, class));
	return f;
}

/* The same on all queues */
static void rtt_load_all(struct rtt *s, u32 class)
{
	int i;

	for (i = 0; i < RTT_QUEUES; i++)
		rtt_load(s, class, i);
}

static u32 rtt_backlog(const struct rtt *s, const struct rtt_flow *f)
{
	if (!f->joined)
		return 0;
	if (!f->gap)
		return s->now < f->stop ? BIT(24) : 0;
	return f->packets * f->len;
}

static void rtt_arrive(struct rtt *s, struct rtt_flow *f)
{
	while (f->gap && f->arrive <= s->now && f->arrive < f->stop) {
		if (!f->packets++)
			f->first = f->arrive;
		f->arrive += f->gap;
	}
}

static void rtt_sent(struct rtt *s, struct rtt_flow *f)
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
static void rtt_count(struct rtt *s, struct rtt_flow *f)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(f->paid) && s->now >= s->from; i++) {
		f->paid[i] += f->m.payer == i ? f->len : 0;
		f->above[i] += !!(f->m.above & BIT(i));
	}
	f->m.above = 0;
}

static void rtt_tell(struct rtt *s, struct rtt_flow *f)
{
	f->told = rtt_backlog(s, f);
	rate_tree_backlog(&f->m, s->start + s->now, f->told);
}

/* What a qdisc does when it is called */
static void rtt_call(struct rtt *s, struct rtt_queue *q)
{
	u64 when, now = s->start + s->now, next = RTT_NEVER;
	struct rate_tree_member *m;
	bool backlog = false;
	struct rtt_flow *f;

	if (s->now >= s->from)
		s->calls++;
	local_bh_disable();
	for (f = s->flow; f < s->flow + s->flows; f++) {
		if (&s->queue[f->queue] != q || !f->joined)
			continue;
		rtt_arrive(s, f);
		if (f->told == rtt_backlog(s, f))
			continue;
		f->told = rtt_backlog(s, f);
		rate_tree_arrive(&f->m, f->told);
	}
	while ((m = rate_tree_next(&q->q, now, &when))) {
		f = container_of(m, struct rtt_flow, m);
		if (s->now < f->paused) {
			rate_tree_pause(m, now, now + RTT_MS);
			continue;
		}
		rtt_count(s, f);
		rtt_sent(s, f);
		rate_tree_charge(m, f->len);
		rtt_tell(s, f);
	}
	local_bh_enable();

	for (f = s->flow; f < s->flow + s->flows; f++) {
		if (&s->queue[f->queue] != q || !f->joined)
			continue;
		backlog |= rtt_backlog(s, f);
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
	KUNIT_ASSERT_FALSE(s->test, backlog && when == RATE_TREE_NEVER);
	if (next != RTT_NEVER && q->late)
		next += rtt_random(s, q->late);
	q->wake = max(next, s->now + 1);
}

/* All ask, as is due when rate_tree_set() says so */
static void rtt_wake_all(struct rtt *s)
{
	int i;

	for (i = 0; i < RTT_QUEUES; i++)
		s->queue[i].wake = s->now;
}

/* Let all go on until a time */
static void rtt_run(struct rtt *s, u64 until)
{
	struct rtt_queue *q, *first;

	for (;;) {
		first = s->queue;
		for (q = s->queue; q < s->queue + RTT_QUEUES; q++) {
			q->wake = max(q->wake, q->stopped);
			if (q->wake < first->wake)
				first = q;
		}
		if (first->wake >= until)
			break;
		s->now = max(s->now, first->wake);
		rtt_call(s, first);
	}
	s->now = until;
}

static void rtt_measure(struct rtt *s, u64 settle, u64 time)
{
	u32 i;

	s->from = s->now + settle;
	s->bytes = 0;
	s->peak = 0;
	for (i = 0; i < s->flows; i++)
		s->flow[i].bytes = 0;
	rtt_run(s, s->from + time);
}

static u64 rtt_got(const struct rtt *s, u32 class)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < s->flows; i++)
		if (s->flow[i].class == class)
			bytes += s->flow[i].bytes;
	return bytes;
}

/* A class got so much of what was sent, in 1/1000, within 5/1000 of it */
static void rtt_expect(struct rtt *s, u32 class, u64 part)
{
	u64 got = div64_u64(rtt_got(s, class) * 1000000, s->bytes);

	KUNIT_EXPECT_GE_MSG(s->test, got, part * 995, "class %u", class);
	KUNIT_EXPECT_LE_MSG(s->test, got, part * 1005, "class %u", class);
}

/* All of the rate is used in so many ms; a next hop queues so much at most */
static void rtt_expect_rate(struct rtt *s, u64 ms, u64 excess)
{
	u64 due = div_u64(s->tree.root.ceil * ms, 1000);

	KUNIT_EXPECT_GE(s->test, s->bytes * 1000, due * 999);
	KUNIT_EXPECT_LE(s->test, s->bytes * 1000, due * 1001 + excess * 1000);
	KUNIT_EXPECT_LE(s->test, div_u64(s->peak, NSEC_PER_SEC), excess);
}

/* Everybody leaves, and nothing may be left of them */
static void rtt_end(struct rtt *s)
{
	struct rtt_flow *f;
	u32 i;

	local_bh_disable();
	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->joined)
			rate_tree_leave(&f->m, s->start + s->now);
	local_bh_enable();

	KUNIT_EXPECT_EQ(s->test, s->tree.root.members, 0);
	KUNIT_EXPECT_TRUE(s->test, RB_EMPTY_ROOT(&s->tree.blocked.rb_root));
	for (i = 0; i < s->classes; i++) {
		struct rate_tree_class *c = rtt_class(s, i);

		KUNIT_EXPECT_EQ(s->test, c->prios, 0);
		KUNIT_EXPECT_TRUE(s->test,
				  RB_EMPTY_ROOT(&c->waiting.rb_root));
		KUNIT_EXPECT_EQ(s->test, (int)c->state, RATE_TREE_IDLE);
		rate_tree_remove(c);
	}
	for (i = 0; i < RTT_QUEUES; i++) {
		struct rate_tree_queue *q = &s->queue[i].q;

		KUNIT_EXPECT_NULL(s->test, q->open);
		KUNIT_EXPECT_EQ(s->test, q->members, 0);
		KUNIT_EXPECT_EQ(s->test, q->backlogs, 0);
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->free));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->paused));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->owing));
		KUNIT_EXPECT_TRUE(s->test, list_empty(&q->stuck));
	}
}

/* Rates first, then the rest by quantum, on however many queues a class is,
 * which take turns; at times when the clock changes its sign, or wraps around.
 */
static void rtt_test_shares(struct kunit *test)
{
	static const u64 starts[] = {
		0, S64_MAX - 20 * RTT_MS, U64_MAX - 20 * RTT_MS
	};
	struct rtt *s;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		s = rtt_init(test, starts[i], 10 * RTT_GBIT);
		rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
		rtt_add(s, 0, 3 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
		rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 30000, 0);
		rtt_load_all(s, 1);
		rtt_load(s, 2, 5);
		rtt_load(s, 3, 0);
		rtt_load(s, 3, 1);
		rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
		rtt_expect(s, 1, 200);
		rtt_expect(s, 2, 400);
		rtt_expect(s, 3, 400);
		for (j = 0; j < RTT_QUEUES; j++)
			KUNIT_EXPECT_LE(test, abs((s64)s->flow[j].bytes * 40 -
						  (s64)s->bytes) * 50,
					(s64)s->bytes);
		rtt_expect_rate(s, 50, 20 * RTT_KB);
		rtt_end(s);
	}
}

/* What a class does not use goes to its siblings first; where there are none,
 * to others. Priorities decide about what is left, not about rates.
 */
static void rtt_test_borrow(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 a = rtt_add(s, 0, 6 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 b = rtt_add(s, 0, 4 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 a1 = rtt_add(s, a, 2 * RTT_GBIT, 10 * RTT_GBIT, 10000, 1);
	u32 a2 = rtt_add(s, a, 2 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 b1 = rtt_add(s, b, RTT_GBIT, 10 * RTT_GBIT, 10000, 1);
	struct rtt_flow *f;

	/* a2 sends 1 Gbit, so a1 gets the rest of a */
	rtt_load_all(s, a1);
	f = rtt_load(s, a2, 3);
	f->gap = 12112;
	rtt_load_all(s, b1);
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, a1, 500);
	rtt_expect(s, a2, 100);
	rtt_expect(s, b1, 400);
	rtt_expect_rate(s, 50, 20 * RTT_KB);

	/* b1 ends: all is a's. What was granted to it goes back: then slots may
	 * follow each other too closely, by what is granted in advance.
	 */
	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->class == b1)
			f->stop = s->now;
	rtt_measure(s, 0, 5 * RTT_MS);
	rtt_expect_rate(s, 5, 10 * RTT_GBIT / 25000 + 20 * RTT_KB);
	rtt_measure(s, 0, 50 * RTT_MS);
	rtt_expect(s, a1, 900);
	rtt_expect(s, b1, 0);
	rtt_expect_rate(s, 50, 20 * RTT_KB);
	rtt_end(s);
}

/* A class may have children on one queue and packets on another: they share */
static void rtt_test_both(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 a = rtt_add(s, 0, 4 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 a1 = rtt_add(s, a, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 b = rtt_add(s, 0, 6 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);

	rtt_load(s, a, 0);
	rtt_load(s, a1, 1);
	rtt_load(s, b, 2);
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, a, 200);
	rtt_expect(s, a1, 200);
	rtt_expect(s, b, 600);
	rtt_end(s);
}

/* The first priority gets all beyond the rates, from below any parent; a class
 * above its ceil gets nothing, and others have what it leaves.
 */
static void rtt_test_prio_ceil(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 a = rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 a1 = rtt_add(s, a, RTT_GBIT / 2, 10 * RTT_GBIT, 10000, 2);
	u32 a2 = rtt_add(s, a, RTT_GBIT / 2, 5 * RTT_GBIT, 10000, 0);
	u32 b = rtt_add(s, 0, 2 * RTT_GBIT, 10 * RTT_GBIT, 10000, 1);

	rtt_load_all(s, a1);
	rtt_load(s, a2, 7);
	rtt_load_all(s, b);
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, a2, 500);
	rtt_expect(s, a1, 50);
	rtt_expect(s, b, 450);
	rtt_expect_rate(s, 50, 20 * RTT_KB);

	rtt_set(rtt_class(s, a2), RTT_GBIT / 2, RTT_GBIT, 10000, 0, s->now);
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, a2, 100);
	rtt_expect(s, a1, 50);
	rtt_expect(s, b, 850);
	rtt_end(s);
}

/* Rates of more than there is are a weight, also of a class that comes back */
static void rtt_test_overcommitted(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	int i;

	for (i = 1; i <= 3; i++) {
		rtt_add(s, 0, i * RTT_GBIT, 10 * RTT_GBIT, 10000, i);
		rtt_load(s, i, i);
	}
	rtt_measure(s, 20 * RTT_MS, 300 * RTT_MS);
	rtt_expect(s, 1, 167);
	rtt_expect(s, 2, 333);
	rtt_expect(s, 3, 500);
	rtt_expect_rate(s, 300, 20 * RTT_KB);

	s->flow[0].stop = s->now;
	rtt_run(s, s->now + 50 * RTT_MS);
	s->flow[0].stop = RTT_NEVER;
	s->queue[1].wake = s->now;
	rtt_measure(s, 0, 100 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 1) * 6 * 100, s->bytes * 97);
	rtt_end(s);

	/* Weights may differ much */
	s = rtt_init(test, 0, RTT_GBIT);
	for (i = 1; i <= 2; i++) {
		rtt_add(s, 0, (18 * i - 17) * RTT_GBIT, 50 * RTT_GBIT, 10000,
			0);
		rtt_load(s, i, i);
	}
	rtt_measure(s, 20 * RTT_MS, 300 * RTT_MS);
	rtt_expect(s, 1, 50);
	rtt_expect(s, 2, 950);
	rtt_end(s);

	/* Soon after there is enough again, nobody has a claim to more */
	s = rtt_init(test, 0, RTT_GBIT);
	for (i = 0; i < 3; i++) {
		rtt_add(s, 0, (i ? 600 : 10) * RTT_MBIT, RTT_GBIT, 10000, 0);
		rtt_load(s, i + 1, i);
	}
	rtt_run(s, 500 * RTT_MS);
	s->flow[2].stop = s->now;
	rtt_measure(s, 10 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, 1, 205);
	rtt_expect(s, 2, 795);
	rtt_end(s);
}

/* A class below its rate does not wait for those that are above theirs */
static void rtt_test_sparse(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	struct rtt_flow *f;
	int i;

	for (i = 0; i < 8; i++) {
		rtt_add(s, 0, 50 * RTT_MBIT, RTT_GBIT, 20000, 0);
		rtt_load_all(s, i + 1);
	}
	rtt_add(s, 0, 100 * RTT_MBIT, RTT_GBIT, 1000, 7);
	f = rtt_load(s, 9, 2);
	f->gap = RTT_MS;
	f->len = 300;
	rtt_measure(s, 20 * RTT_MS, 200 * RTT_MS);
	KUNIT_EXPECT_LE(test, f->longest, 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_GE(test, f->bytes, 199 * 300);
	rtt_expect_rate(s, 200, 20 * RTT_KB);
	rtt_end(s);
}

/* A queue that is stopped costs what it was granted, and no more. When it goes
 * on, it does not make up for what it missed but for the slots it was in.
 */
static void rtt_test_stopped(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	int i;

	for (i = 0; i < 4; i++) {
		rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
		rtt_load_all(s, i + 1);
	}
	rtt_run(s, 10 * RTT_MS);
	s->queue[3].stopped = 200 * RTT_MS;
	rtt_measure(s, 10 * RTT_MS, 100 * RTT_MS);
	rtt_expect_rate(s, 100, 20 * RTT_KB);
	rtt_measure(s, 0, 200 * RTT_MS);
	/* It goes on with the slots that had begun; the others are lost */
	KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC),
			4 * RATE_TREE_SLOT_MAX + 20 * RTT_KB);
	rtt_measure(s, 10 * RTT_MS, 100 * RTT_MS);
	for (i = 0; i < 4; i++)
		rtt_expect(s, i + 1, 250);
	rtt_expect_rate(s, 100, 20 * RTT_KB);
	rtt_end(s);

	/* Nor do those wait for long that hardly had a turn beside it */
	s = rtt_init(test, 0, 10 * RTT_GBIT);
	rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_add(s, 0, RTT_MBIT, 10 * RTT_GBIT, 10000, 7);
	rtt_load(s, 1, 1);
	rtt_load(s, 2, 0);
	rtt_run(s, 500 * RTT_MS);
	s->queue[1].stopped = 700 * RTT_MS;
	rtt_measure(s, 10 * RTT_MS, 50 * RTT_MS);
	rtt_expect_rate(s, 50, 20 * RTT_KB);
	rtt_end(s);
}

/* Who comes back has its share at once, and no claim to what it did not want */
static void rtt_test_back(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	int i;

	for (i = 0; i < 2; i++) {
		rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 10000, 0);
		rtt_load(s, i + 1, i);
	}
	s->flow[1].stop = 10 * RTT_MS;
	rtt_run(s, 60 * RTT_MS);
	s->flow[1].stop = RTT_NEVER;
	s->queue[1].wake = s->now;
	rtt_measure(s, RTT_MS, 20 * RTT_MS);
	rtt_expect(s, 1, 500);
	rtt_expect(s, 2, 500);
	rtt_end(s);
}

/* Who is alone for long, and stopped, loses its slots all the same; who cannot
 * send gives them back, and does not get more and more of them.
 */
static void rtt_test_alone(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	struct rtt_flow *f;
	u64 when;

	rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_add(s, 0, RTT_MBIT, RTT_MBIT, 10000, 0);
	f = rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	rtt_run(s, 5 * RTT_MS);
	s->queue[0].stopped = 100 * RTT_MS;
	rtt_measure(s, 0, 100 * RTT_MS);
	rtt_measure(s, 0, 20 * RTT_MS);
	rtt_expect_rate(s, 20, 10 * RTT_GBIT / 40 + 40 * RTT_KB);

	f->paused = s->now + 50 * RTT_MS;
	rtt_measure(s, 0, 50 * RTT_MS);
	rtt_measure(s, RTT_MS, 20 * RTT_MS);
	rtt_expect_rate(s, 20, 20 * RTT_KB);
	rtt_end(s);

	/* Also all that it has: it gets another slot */
	s = rtt_init(test, 0, RTT_GBIT);
	f = rtt_load(s, 0, 0);
	f->gap = RTT_NEVER / 2;
	f->arrive = f->gap;
	f->packets = 3;
	rtt_tell(s, f);
	local_bh_disable();
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(&s->queue[0].q, 0, &when),
			    &f->m);
	local_bh_enable();
	s->queue[0].stopped = 100 * RTT_MS;
	rtt_run(s, 200 * RTT_MS);
	KUNIT_EXPECT_EQ(test, f->packets, 0);
	rtt_end(s);

	/* The others of a class have all the rate soon, also if it is low */
	s = rtt_init(test, 0, 100 * RTT_MBIT);
	rtt_add(s, 0, RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
	rtt_load_all(s, 1);
	rtt_run(s, 100 * RTT_MS);
	s->queue[0].stopped = RTT_NEVER;
	rtt_measure(s, 50 * RTT_MS, 200 * RTT_MS);
	rtt_expect_rate(s, 200, 20 * RTT_KB);
	rtt_end(s);
}

/* A class above its ceil leaves time unused, to which others have no claim */
static void rtt_test_ceil_idle(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	struct rtt_flow *f;

	rtt_add(s, 0, RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
	rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_load(s, 1, 0);
	f = rtt_load(s, 2, 1);
	f->stop = 0;
	rtt_run(s, 20 * RTT_MS);
	f->stop = RTT_NEVER;
	s->queue[1].wake = s->now;
	rtt_measure(s, 0, 100 * RTT_MS);
	rtt_expect_rate(s, 100, 20 * RTT_KB);
	rtt_expect(s, 1, 10);
	rtt_end(s);
}

/* Many classes, all above their ceils at times, leave time unused: they have no
 * claim to that. What classes had beyond their rates wraps around.
 */
static void rtt_test_ceils(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	int i;

	for (i = 1; i <= 25; i++) {
		rtt_add(s, 0, RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
		rtt_load(s, i, i % RTT_QUEUES);
	}
	rtt_measure(s, 20 * RTT_MS, 100 * RTT_MS);
	for (i = 1; i <= 25; i++)
		rtt_expect(s, i, 40);
	KUNIT_EXPECT_GE(test, s->bytes, 25 * 100 * RTT_MBIT / 10 * 99 / 100);
	KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC), 20 * RTT_KB);
	rtt_end(s);
}

static void rtt_test_wrap(struct kunit *test)
{
	static const u64 served[] = {
		BIT_ULL(63) + BIT_ULL(40), U64_MAX - BIT_ULL(40)
	};
	struct rtt *s;
	int i;

	for (i = 0; i < ARRAY_SIZE(served); i++) {
		s = rtt_init(test, 0, RTT_GBIT);
		s->tree.root.served[0] = served[i];
		rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 1000, 0);
		rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 1000, 0);
		s->class[2].over[0] = 0;
		rtt_load(s, 1, 0);
		rtt_run(s, 20 * RTT_MS);
		rtt_load(s, 2, 1);
		s->queue[1].wake = s->now;
		rtt_measure(s, RTT_MS, 50 * RTT_MS);
		rtt_expect(s, 1, 500);
		rtt_expect(s, 2, 500);
		rtt_end(s);
	}
}

/* A slot may begin a little later than the packet that was sent in it: the next
 * time to ask is near all the same, though nobody else on the queue asks.
 */
static void rtt_test_early(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	struct rtt_flow *f;

	rtt_add(s, 0, RTT_GBIT / 2, RTT_GBIT, 10000, 0);
	rtt_add(s, 0, RTT_MBIT, 20 * RTT_MBIT, 10000, 0);
	f = rtt_load(s, 1, 0);
	f->gap = RTT_NEVER / 2;
	rtt_load(s, 2, 0);
	s->queue[0].late = 0;
	rtt_measure(s, 0, 1000 * RTT_MS);
	KUNIT_EXPECT_GE(test, s->bytes, 20 * RTT_MBIT * 99 / 100);
	rtt_end(s);
}

/* What a class had with a small quantum does not count with a large one */
static void rtt_test_quantum(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);

	rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 1, 0);
	rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 10000, 0);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	rtt_run(s, 20 * RTT_MS);
	rtt_set(&s->class[1], RTT_MBIT, RTT_GBIT, 10000, 0, s->now);
	rtt_measure(s, RTT_MS, 50 * RTT_MS);
	rtt_expect(s, 1, 500);
	rtt_expect(s, 2, 500);
	rtt_end(s);

	/* Nor is what it had taken for old if a packet is much more than it */
	s = rtt_init(test, 0, 10 * RTT_GBIT);
	rtt_add(s, 0, RTT_KB, 10 * RTT_GBIT, 1, 0);
	rtt_add(s, 0, RTT_KB, 10 * RTT_GBIT, 4, 0);
	rtt_load(s, 1, 0)->len = 300 * RTT_KB;
	rtt_load(s, 2, 1)->len = 300 * RTT_KB;
	rtt_measure(s, 20 * RTT_MS, 240 * RTT_MS);
	rtt_expect(s, 1, 200);
	rtt_expect(s, 2, 800);
	rtt_end(s);
}

/* A new class at the root does not wait for what another one has sent */
static void rtt_test_root(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 1000);
	struct rtt_flow *f = rtt_load(s, 0, 0);

	rtt_run(s, RTT_MS);
	local_bh_disable();
	rate_tree_leave(&f->m, s->now);
	local_bh_enable();
	rate_tree_remove(&s->tree.root);
	rate_tree_add(&s->tree, &s->tree.root, NULL);
	rtt_set(&s->tree.root, RTT_GBIT, RTT_GBIT, RTT_MTU, 0, s->now);
	rate_tree_join(&s->queue[0].q, &f->m, &s->tree.root);
	f->told = 0;
	s->queue[0].wake = s->now;
	rtt_measure(s, 0, 50 * RTT_MS);
	rtt_expect_rate(s, 50, 20 * RTT_KB);
	rtt_end(s);
}

/* A packet that is longer than its slot is paid for when it is sent, not by
 * those who send long after
 */
static void rtt_test_overdrawn(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 20 * RTT_MBIT);
	struct rtt_flow *a, *b;

	rtt_add(s, 0, 10 * RTT_MBIT, 20 * RTT_MBIT, 10000, 0);
	rtt_add(s, 0, 10 * RTT_MBIT, 20 * RTT_MBIT, 10000, 0);
	a = rtt_load(s, 1, 0);
	a->len = 65000;
	a->gap = RTT_NEVER / 2;
	b = rtt_load(s, 2, 1);
	b->len = 100;
	b->gap = RTT_NEVER / 2;
	b->arrive = 1000 * RTT_MS + NSEC_PER_USEC;
	rtt_run(s, 500 * RTT_MS);
	KUNIT_EXPECT_EQ(test, a->m.beyond, a->m.settled);
	/* 65000 bytes take 26 ms */
	KUNIT_EXPECT_GE(test, s->tree.tail, 25 * RTT_MS);

	a->len = 100;
	a->arrive = 1000 * RTT_MS;
	s->queue[0].wake = a->arrive;
	rtt_measure(s, 0, 600 * RTT_MS);
	KUNIT_EXPECT_EQ(test, s->bytes, 200);
	KUNIT_EXPECT_LE(test, b->longest, RTT_MS);
	rtt_end(s);
}

/* The priority of a class that is a leaf on one queue counts there, though it
 * has children on another one. Children that are below their rates do not
 * starve.
 */
static void rtt_test_leaf_prio(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);

	rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 10000, 0);
	rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 10000, 3);
	rtt_add(s, 1, 100 * RTT_MBIT, RTT_GBIT, 10000, 7);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	rtt_load(s, 3, 2);
	rtt_measure(s, 20 * RTT_MS, 200 * RTT_MS);
	rtt_expect(s, 1, 899);
	rtt_expect(s, 3, 100);
	rtt_expect_rate(s, 200, 20 * RTT_KB);
	rtt_end(s);
}

/* A member that cannot send is not asked again for each packet that it gets */
static void rtt_test_pause(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	struct rate_tree_queue *q = &s->queue[0].q;
	struct rtt_flow *f = rtt_load(s, 0, 0);
	u64 when;
	int i;

	local_bh_disable();
	rate_tree_backlog(&f->m, 0, RTT_MTU);
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(q, 0, &when), &f->m);
	rate_tree_pause(&f->m, 0, RTT_MS);
	for (i = 2; i < 5; i++) {
		rate_tree_backlog(&f->m, 0, i * RTT_MTU);
		KUNIT_EXPECT_NULL(test, rate_tree_next(q, 0, &when));
		KUNIT_EXPECT_GE(test, when, RTT_MS / 4);
	}
	KUNIT_EXPECT_PTR_EQ(test, rate_tree_next(q, RTT_MS, &when), &f->m);
	local_bh_enable();
	s->now = RTT_MS;
	rtt_end(s);
}

/* Classes get their rates where one of few packets comes and goes beside them,
 * and where a round lasts much longer than a class may make up for
 */
static void rtt_test_assured(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u64 rate;
	u32 i, j;

	rtt_add(s, 0, 7500 * RTT_MBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_add(s, 0, 2500 * RTT_MBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_add(s, 2, RTT_GBIT, 10 * RTT_GBIT, RTT_MTU, 0);
	rtt_add(s, 2, RTT_GBIT / 10, 10 * RTT_GBIT, 60000, 0);
	rtt_add(s, 2, RTT_GBIT, 10 * RTT_GBIT, RTT_MTU, 0);
	for (i = 0; i < 4; i++) {
		rtt_load(s, 1, i);
		rtt_load(s, 3, i);
		rtt_load(s, 4, i);
	}
	rtt_load(s, 5, 0)->gap = 24224; /* 0.5 Gbit */
	rtt_measure(s, 20 * RTT_MS, 100 * RTT_MS);
	rtt_expect(s, 3, 102);
	rtt_expect(s, 4, 98);
	rtt_expect(s, 5, 50);
	rtt_end(s);

	s = rtt_init(test, 0, 100 * RTT_MBIT);
	for (i = 1; i <= 24; i++) {
		rate = i % 2 ? 1200 * RTT_MBIT / 1000 : 6 * RTT_MBIT;
		rtt_add(s, 0, rate, 100 * RTT_MBIT, i % 2 ? 15140 : 1514, 0);
		for (j = 0; j < 5; j++)
			rtt_load(s, i, j);
	}
	rtt_measure(s, 500 * RTT_MS, 3000 * RTT_MS);
	for (i = 1; i <= 24; i++)
		KUNIT_EXPECT_GE(test, rtt_got(s, i) * 100,
				s->class[i].rate * 3 * 99);
	rtt_end(s);
}

/* Assured rates in a slow site of a fast link, which has long packets, or many
 * classes beside the inner one
 */
static void rtt_test_slow_site(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	u32 site, inner;
	int i;

	rtt_add(s, 0, 980 * RTT_MBIT, RTT_GBIT, 20000, 0);
	site = rtt_add(s, 0, 20 * RTT_MBIT, RTT_GBIT, 20000, 0);
	rtt_add(s, site, 10 * RTT_MBIT, RTT_GBIT, 20000, 2);
	rtt_add(s, site, 9 * RTT_MBIT, RTT_GBIT, 20000, 2);
	rtt_add(s, site, RTT_MBIT / 2, RTT_GBIT, 20000, 1);
	rtt_load(s, 1, 0);
	rtt_load(s, site + 1, 1);
	rtt_load(s, site + 2, 2)->len = 65 * RTT_KB;
	rtt_load(s, site + 3, 3);
	rtt_measure(s, 1000 * RTT_MS, 4000 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, site + 1), 40 * RTT_MBIT * 99 / 100);
	KUNIT_EXPECT_GE(test, rtt_got(s, site + 2), 36 * RTT_MBIT * 97 / 100);
	rtt_end(s);

	s = rtt_init(test, 0, RTT_GBIT);
	rtt_add(s, 0, 980 * RTT_MBIT, RTT_GBIT, 20000, 0);
	site = rtt_add(s, 0, 10 * RTT_MBIT, RTT_GBIT, 20000, 0);
	inner = rtt_add(s, site, 8 * RTT_MBIT, RTT_GBIT, 20000, 0);
	rtt_add(s, inner, 7 * RTT_MBIT, RTT_GBIT, 20000, 1);
	rtt_add(s, inner, RTT_KB, RTT_GBIT, 20000, 0);
	rtt_load(s, 1, 0);
	rtt_load(s, inner + 1, 1);
	rtt_load(s, inner + 2, 2);
	for (i = 0; i < 20; i++) {
		rtt_add(s, site, RTT_MBIT / 10, RTT_GBIT, 20000, 0);
		rtt_load(s, inner + 3 + i, 3 + i % 5);
	}
	rtt_measure(s, 1000 * RTT_MS, 4000 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, inner + 1), 28 * RTT_MBIT * 99 / 100);
	rtt_end(s);
}

/* Also where packets are longer than all that a member is granted, or where its
 * next one is long in coming
 */
static void rtt_test_long_packets(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_MBIT);
	int i;

	rtt_add(s, 0, 8 * RTT_MBIT, 10 * RTT_MBIT, 20000, 3);
	rtt_add(s, 0, RTT_KB, 10 * RTT_MBIT, 20000, 0);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	for (i = 0; i < 4; i++) {
		rtt_add(s, 0, RTT_MBIT / 2, 10 * RTT_MBIT, 20000, 0);
		rtt_load(s, 3 + i, 2 + i)->len = 65 * RTT_KB;
		s->flow[2 + i].gap = 1156 * RTT_MS; /* 450 kbit */
		s->flow[2 + i].arrive = i * 289 * RTT_MS;
	}
	rtt_measure(s, 5000 * RTT_MS, 20000 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 1), 160 * RTT_MBIT * 99 / 100);
	rtt_end(s);

	s = rtt_init(test, 0, 10 * RTT_MBIT);
	rtt_add(s, 0, 9500 * RTT_KB / 8, 10 * RTT_MBIT, 20000, 2);
	rtt_add(s, 0, 500 * RTT_KB / 8, 10 * RTT_MBIT, 20000, 1);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1)->len = 65 * RTT_KB;
	rtt_measure(s, 5000 * RTT_MS, 20000 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 1), 190 * RTT_MBIT * 99 / 100);
	rtt_end(s);

	/* With a ceil */
	s = rtt_init(test, 0, 200 * RTT_MBIT);
	rtt_add(s, 0, 40 * RTT_MBIT, 48 * RTT_MBIT, 20000, 0);
	rtt_load(s, 1, 0);
	for (i = 0; i < 2; i++) {
		rtt_add(s, 0, 80 * RTT_MBIT, 200 * RTT_MBIT, 20000, 0);
		rtt_load(s, 2 + i, 1 + i)->len = 65 * RTT_KB;
	}
	rtt_measure(s, 1000 * RTT_MS, 4000 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 1), 160 * RTT_MBIT * 99 / 100);
	rtt_end(s);
}

/* Classes that are served in turn, each below its rate, wait for each other but
 * not for one that borrows
 */
static void rtt_test_in_turn(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 100 * RTT_MBIT);
	struct rtt_flow *f;
	int i;

	for (i = 0; i < 20; i++) {
		rtt_add(s, 0, 4 * RTT_MBIT, 100 * RTT_MBIT, 20000, 1);
		f = rtt_load(s, i + 1, i % RTT_QUEUES);
		f->len = 65 * RTT_KB;
		f->gap = 137 * RTT_MS; /* 3.8 Mbit */
		f->arrive = rtt_random(s, f->gap);
	}
	rtt_add(s, 0, 10 * RTT_MBIT, 100 * RTT_MBIT, 20000, 0);
	rtt_load(s, 21, 0);
	rtt_measure(s, 500 * RTT_MS, 4000 * RTT_MS);
	for (f = s->flow; f < s->flow + 20; f++)
		KUNIT_EXPECT_LE(test, f->longest, 40 * RTT_MS);
	rtt_end(s);
}

/* What children miss, while there is not enough or their parent has a low rate,
 * is no claim later on to more than a round: others get what is left
 */
static void rtt_test_claims(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	u32 i, site;

	rtt_add(s, 0, 998 * RTT_MBIT, RTT_GBIT, 60000, 0);
	site = rtt_add(s, 0, RTT_KB, RTT_GBIT, 60000, 0);
	site = rtt_add(s, site, RTT_KB, RTT_GBIT, 60000, 0);
	rtt_add(s, site, 500 * RTT_MBIT, RTT_GBIT, 60000, 1);
	rtt_add(s, site, 400 * RTT_MBIT, RTT_GBIT, 60000, 1);
	rtt_add(s, site, RTT_KB, RTT_GBIT, 60000, 0);
	rtt_load(s, 1, 0)->stop = 500 * RTT_MS;
	rtt_load(s, site + 1, 1);
	rtt_run(s, 500 * RTT_MS);
	rtt_load(s, site + 2, 2);
	rtt_load(s, site + 3, 3)->gap = 242240; /* 50 Mbit */
	rtt_measure(s, 50 * RTT_MS, 100 * RTT_MS);
	rtt_expect(s, site + 3, 50);
	rtt_end(s);

	/* A packet was long, long ago */
	s = rtt_init(test, 0, 100 * RTT_MBIT);
	rtt_add(s, 0, 95 * RTT_MBIT, 100 * RTT_MBIT, 60000, 0);
	site = rtt_add(s, 0, 20 * RTT_MBIT, 100 * RTT_MBIT, 60000, 0);
	rtt_add(s, site, 12 * RTT_MBIT, 100 * RTT_MBIT, 60000, 1);
	rtt_add(s, site, 8 * RTT_MBIT, 100 * RTT_MBIT, 60000, 1);
	rtt_add(s, site, RTT_KB, 100 * RTT_MBIT, 60000, 0);
	rtt_load(s, 1, 0)->stop = 2000 * RTT_MS;
	rtt_load(s, 1, 1)->len = 64 * RTT_KB;
	s->flow[1].stop = 100 * RTT_MS;
	for (i = 2; i < 8; i++) {
		rtt_load(s, 3, i);
		rtt_load(s, 4, i);
	}
	rtt_run(s, 2000 * RTT_MS);
	rtt_load(s, 5, 1)->gap = 1211200; /* 10 Mbit */
	rtt_measure(s, 5 * RTT_MS, 10 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 5) * 100, s->bytes * 9);
	rtt_end(s);

	/* Many wait elsewhere in the tree */
	s = rtt_init(test, 0, RTT_GBIT);
	for (i = 1; i <= 15; i++) {
		rtt_add(s, 0, 100 * RTT_MBIT, RTT_GBIT, 10000, 0);
		rtt_load_all(s, i);
	}
	site = rtt_add(s, 0, 20 * RTT_MBIT, 100 * RTT_MBIT, 60000, 0);
	rtt_add(s, site, 20 * RTT_MBIT, 100 * RTT_MBIT, 10000, 1);
	rtt_add(s, site, RTT_KB, 100 * RTT_MBIT, 10000, 0);
	rtt_load(s, site + 1, 0);
	for (i = 0; i < 7 * RTT_QUEUES; i++)
		s->flow[i].stop = 800 * RTT_MS;
	rtt_run(s, 800 * RTT_MS);
	rtt_load(s, site + 2, 1)->gap = 1211200; /* 10 Mbit */
	rtt_measure(s, 12 * RTT_MS, 6 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, site + 2) * 1000, s->bytes * 9);
	rtt_end(s);
}

/* A class on one queue can have most of a high rate */
static void rtt_test_one_queue(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 100 * RTT_GBIT);

	rtt_add(s, 0, RTT_GBIT, 100 * RTT_GBIT, 20000, 0);
	rtt_add(s, 0, RTT_GBIT, 100 * RTT_GBIT, 20000, 1);
	rtt_add(s, 0, 20 * RTT_GBIT, 100 * RTT_GBIT, 20000, 1);
	rtt_load(s, 1, 0);
	rtt_load_all(s, 2);
	rtt_load(s, 3, 1);
	rtt_measure(s, 5 * RTT_MS, 20 * RTT_MS);
	rtt_expect(s, 1, 790);
	rtt_expect(s, 2, 10);
	rtt_expect(s, 3, 200);
	rtt_end(s);
}

/* Where the slots of siblings take longer than half a ms, or packets are long,
 * a class still has what its ceil allows
 */
static void rtt_test_ceil_round(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 site;
	int i, j;

	rtt_add(s, 0, 9800 * RTT_MBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_load_all(s, 1);
	site = rtt_add(s, 0, 200 * RTT_MBIT, 200 * RTT_MBIT, 10000, 0);
	rtt_add(s, site, 25 * RTT_MBIT, 40 * RTT_MBIT, 10000, 0);
	for (i = 0; i < 3; i++)
		rtt_add(s, site, 25 * RTT_MBIT, 200 * RTT_MBIT, 10000, 0);
	for (i = 0; i < 4; i++)
		rtt_load(s, site + 1 + i, i);
	rtt_measure(s, 50 * RTT_MS, 500 * RTT_MS);
	rtt_expect(s, site + 1, 4);
	rtt_end(s);

	s = rtt_init(test, 0, RTT_GBIT);
	for (i = 1; i <= 20; i++) {
		rtt_add(s, 0, 25 * RTT_MBIT, (i % 2 ? 55 : 1000) * RTT_MBIT,
			10000, 0);
		for (j = 0; j < 6; j++)
			rtt_load(s, i, (i + j) % RTT_QUEUES)->len = 64 * RTT_KB;
	}
	rtt_measure(s, 200 * RTT_MS, 10000 * RTT_MS);
	for (i = 1; i <= 20; i++)
		rtt_expect(s, i, 50);
	rtt_end(s);

	/* Where they do not, it begins with no more than a few packets */
	s = rtt_init(test, 0, 100 * RTT_MBIT);
	rtt_add(s, 0, 70 * RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
	site = rtt_add(s, 0, RTT_KB, 100 * RTT_MBIT, 10000, 0);
	rtt_add(s, site, 4900 * RTT_KB / 8, 5 * RTT_MBIT, 10000, 0);
	rtt_load(s, 1, 0);
	rtt_load(s, site + 1, 1)->stop = 0;
	rtt_run(s, 100 * RTT_MS);
	s->flow[1].stop = RTT_NEVER;
	s->queue[1].wake = s->now;
	rtt_measure(s, 0, 20 * RTT_MS);
	KUNIT_EXPECT_LE(test, rtt_got(s, site + 1),
			5 * RTT_MBIT / 50 + 4 * RTT_MTU);
	rtt_end(s);
}

/* Members that cannot send leave all of the rate to others, or nearly so where
 * one packet each takes long, also when their backlogs grow
 */
static void rtt_test_paused(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	int i, j;

	for (i = 0; i < 2; i++) {
		rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
		rtt_load_all(s, i + 1);
	}
	for (i = 0; i < RTT_QUEUES; i++)
		s->flow[i].paused = RTT_NEVER;
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect(s, 2, 1000);
	rtt_expect_rate(s, 50, 20 * RTT_KB);
	rtt_end(s);

	for (j = 0; j < 2; j++) {
		s = rtt_init(test, 0, RTT_GBIT);
		for (i = 1; i <= 3; i++)
			rtt_add(s, 0, RTT_GBIT / 3, RTT_GBIT, 10000, 0);
		rtt_load_all(s, 1);
		rtt_load_all(s, 2);
		for (i = 0; i < 2 * RTT_QUEUES; i++) {
			s->flow[i].paused = RTT_NEVER;
			s->flow[i].gap = j * 200 * NSEC_PER_USEC;
		}
		rtt_load(s, 3, 0);
		rtt_measure(s, 50 * RTT_MS, 1000 * RTT_MS);
		KUNIT_EXPECT_GE(test, s->bytes * 1000, RTT_GBIT * 975);
		rtt_end(s);
	}
}

/* A queue that has a slot to come does not ask for others before */
static void rtt_test_calls(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 changes;
	u64 calls;
	int i, j;

	for (i = 1; i < RTT_CLASSES; i++) {
		rtt_add(s, 0, RTT_GBIT / 4, 10 * RTT_GBIT, 10000, 0);
		for (j = 0; j < 4; j++)
			rtt_load(s, i, j);
	}
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	KUNIT_EXPECT_LE(test, s->calls * 10 * RTT_MTU, s->bytes * 8);
	rtt_expect_rate(s, 50, 20 * RTT_KB);
	rtt_end(s);

	/* One that has the last slot asks when another one can be granted */
	s = rtt_init(test, 0, RTT_GBIT);
	for (i = 0; i < RTT_QUEUES; i++)
		s->queue[i].late = 0;
	for (i = 1; i <= 4; i++) {
		rtt_add(s, 0, RTT_GBIT / 4, RTT_GBIT, 10000, 0);
		for (j = 0; j < RTT_QUEUES; j++)
			rtt_load(s, i, j)->len = 64 * RTT_KB;
	}
	rtt_measure(s, 50 * RTT_MS, 100 * RTT_MS);
	KUNIT_EXPECT_LE(test, s->calls * 3 * RTT_KB, s->bytes);
	rtt_end(s);

	/* Turns are long: a change of one class does not let all ask again */
	s = rtt_init(test, 0, 10 * RTT_MBIT);
	for (i = 1; i < RTT_CLASSES; i++) {
		rtt_add(s, 0, RTT_MBIT / 10, 10 * RTT_MBIT, 10000, 0);
		for (j = 0; j < 4; j++)
			rtt_load(s, i, j);
	}
	rtt_measure(s, 0, 1000 * RTT_MS);
	calls = s->calls;
	s->calls = 0;
	changes = s->tree.changes;
	for (i = 0; i < 20; i++) {
		rtt_set(&s->class[1], RTT_MBIT / (i % 2 ? 10 : 5),
			10 * RTT_MBIT, 10000, 0, s->now);
		rtt_measure(s, 0, 50 * RTT_MS);
	}
	KUNIT_EXPECT_LE(test, s->calls, calls * 11 / 10);
	KUNIT_EXPECT_EQ(test, s->tree.changes, changes);
	rtt_end(s);
}

/* A member sends packets, as soon as it may */
static void rtt_send(struct rtt *s, struct rtt_flow *f, u32 packets, u32 len)
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
static void rtt_test_free(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	struct rate_tree_queue *q = &s->queue[0].q;
	struct rtt_flow *f;
	u32 slots, i;

	rtt_add(s, 0, RTT_MBIT, 10 * RTT_GBIT, 10000, 0);
	f = rtt_load(s, 1, 0);
	s->now = RTT_MS;
	rtt_send(s, f, 1, RTT_MTU);
	KUNIT_EXPECT_EQ(test, q->granted, 1);
	/* As much as a slot */
	for (i = 0; i < RATE_TREE_SLOT_MAX / RTT_MTU; i++) {
		s->now += 10 * NSEC_PER_USEC;
		rtt_send(s, f, 1, RTT_MTU);
	}
	KUNIT_EXPECT_EQ(test, q->granted, 1);
	/* What was sent so is charged with the next slot, and has taken time
	 * that is over
	 */
	KUNIT_EXPECT_EQ(test, f->m.beyond - f->m.settled, i * RTT_MTU);
	KUNIT_EXPECT_LE(test, s->tree.tail, s->now);
	s->now += 10 * NSEC_PER_USEC;
	rtt_send(s, f, 1, RTT_MTU);
	KUNIT_EXPECT_EQ(test, q->granted, 2);
	KUNIT_EXPECT_EQ(test, f->m.beyond, f->m.settled);
	/* More at a time takes a slot, and so do packets much later */
	rtt_send(s, f, 1, 65000);
	KUNIT_EXPECT_GT(test, q->granted, 2);
	slots = q->granted;
	s->now += 2 * RATE_TREE_KEEP;
	rtt_send(s, f, 1, 64);
	KUNIT_EXPECT_EQ(test, q->granted, slots + 1);
	/* What was given back before it is charged is owed at once */
	s->now += RTT_MS;
	local_bh_disable();
	rate_tree_backlog(&f->m, s->now, 65000);
	rate_tree_backlog(&f->m, s->now, 0);
	rate_tree_charge(&f->m, 65000);
	rate_tree_backlog(&f->m, s->now, 0);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, f->m.beyond, f->m.settled);
	KUNIT_EXPECT_GE(test, s->tree.tail, s->now + 30 * NSEC_PER_USEC);
	rtt_end(s);
}

/* Going without slots is no way around the rate of the root or a ceil */
static void rtt_test_free_rate(struct kunit *test)
{
	static const struct {
		u64	root;
		u64	ceil;
		u32	gap;	/* of packets on a queue, ns */
		u32	len;
	} cases[] = {
		{ 10 * RTT_GBIT, 10 * RTT_MBIT, 50000, 64 },
		{ 10 * RTT_GBIT, RTT_GBIT / 2, 4000, 64 },
		{ RTT_GBIT, RTT_GBIT, 80000, RTT_MTU },
	};
	struct rtt_flow *f;
	struct rtt *s;
	u64 due;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		s = rtt_init(test, 0, cases[i].root);
		rtt_add(s, 0, RTT_MBIT, cases[i].ceil, 10000, 0);
		rtt_load_all(s, 1);
		for (f = s->flow; f < s->flow + s->flows; f++) {
			f->gap = 20 * cases[i].gap;
			f->len = cases[i].len;
		}
		rtt_run(s, 5 * RTT_MS);
		for (f = s->flow; f < s->flow + s->flows; f++)
			f->gap = cases[i].gap;
		rtt_measure(s, 5 * RTT_MS, 40 * RTT_MS);
		due = div_u64(cases[i].ceil, 25);
		KUNIT_EXPECT_GE(test, s->bytes + 20 * RTT_KB, due);
		KUNIT_EXPECT_LE(test, s->bytes, due + 20 * RTT_KB);
		KUNIT_EXPECT_LE(test, div_u64(s->peak, NSEC_PER_SEC),
				20 * RTT_KB);
		rtt_end(s);
	}

	/* Many that sent little long ago do not all send at once */
	s = rtt_init(test, 0, 10 * RTT_GBIT);
	rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	for (i = 0; i < 15 * RTT_QUEUES; i++) {
		if (i % RTT_QUEUES == 0)
			rtt_add(s, 0, RTT_MBIT, 10 * RTT_GBIT, 10000, 7);
		f = rtt_load(s, s->classes - 1, i % RTT_QUEUES);
		f->gap = RTT_NEVER / 2;
		f->arrive = i * 20 * NSEC_PER_USEC;
		s->queue[i % RTT_QUEUES].late = 0;
	}
	rtt_run(s, 4 * RTT_MS);
	for (f = s->flow; f < s->flow + s->flows; f++)
		f->arrive = 5 * RTT_MS;
	rtt_load(s, 1, 0);
	rtt_measure(s, RTT_MS / 2, RTT_MS);
	rtt_expect_rate(s, 1, 20 * RTT_KB);
	rtt_end(s);
}

/* Drops leave no more than what the member may send, and it leaves then */
static void rtt_test_drops(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	struct rate_tree_member *m;
	struct rtt_flow *f;
	u64 when;
	int i;

	rtt_add(s, 0, RTT_GBIT, RTT_GBIT, 10000, 0);
	f = rtt_load(s, 1, 0);
	for (i = 0; i < 3; i++) {
		local_bh_disable();
		rate_tree_backlog(&f->m, s->now, 40 * RTT_MTU);
		m = rate_tree_next(&s->queue[0].q, s->now, &when);
		KUNIT_ASSERT_PTR_EQ(test, m, &f->m);
		KUNIT_ASSERT_TRUE(test, m->waits);
		rate_tree_charge(m, RTT_MTU);
		rate_tree_backlog(m, s->now, s->queue[0].q.left);
		while (s->queue[0].q.open) {
			rate_tree_charge(m, RTT_MTU);
			rate_tree_backlog(m, s->now,
					  max(s->queue[0].q.left, 0));
		}
		if (i == 1)
			rate_tree_leave(m, s->now);
		local_bh_enable();
		KUNIT_EXPECT_FALSE(test, m->waits);
		if (i == 1)
			rate_tree_join(&s->queue[0].q, m, rtt_class(s, 1));
		KUNIT_EXPECT_EQ(test, s->tree.root.members, 0);
		s->now += RTT_MS;
	}
	rtt_end(s);
}

/* After the rate has changed, nobody waits at the old one, also not who has
 * something left of a slot
 */
static void rtt_test_rate(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_MBIT);
	int i;

	rtt_add(s, 0, RTT_MBIT / 10, 10 * RTT_GBIT, 10000, 0);
	rtt_load_all(s, 1);
	for (i = 0; i < RTT_QUEUES; i++)
		s->flow[i].len = 1400;
	rtt_run(s, 1000 * RTT_MS);
	rtt_set(&s->tree.root, RTT_GBIT, RTT_GBIT, RTT_MTU, 0, s->now);
	rtt_wake_all(s);
	rtt_measure(s, RTT_MS, 50 * RTT_MS);
	rtt_expect_rate(s, 50, 40 * RTT_KB);
	rtt_set(&s->tree.root, RTT_MBIT, RTT_MBIT, RTT_MTU, 0, s->now);
	rtt_wake_all(s);
	rtt_measure(s, 200 * RTT_MS, 16000 * RTT_MS);
	rtt_expect_rate(s, 16000, 20 * RTT_KB);
	rtt_end(s);

	/* Nor at its ceil or rate, which are counted from where slots end */
	s = rtt_init(test, 0, RTT_MBIT / 100);
	rtt_add(s, 0, RTT_MBIT / 200, 10 * RTT_GBIT, 10000, 0);
	rtt_add(s, 0, RTT_MBIT / 200, 10 * RTT_GBIT, 10000, 0);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	rtt_run(s, 20000 * RTT_MS);
	rtt_set(&s->class[1], 50 * RTT_MBIT, 100 * RTT_MBIT, 10000, 0, s->now);
	rtt_set(&s->class[2], 900 * RTT_MBIT, RTT_GBIT, 10000, 0, s->now);
	rtt_set(&s->tree.root, RTT_GBIT, RTT_GBIT, RTT_MTU, 0, s->now);
	rtt_wake_all(s);
	rtt_measure(s, 10 * RTT_MS, 200 * RTT_MS);
	rtt_expect(s, 1, 75);
	rtt_expect(s, 2, 925);
	rtt_end(s);

	/* But it gets no more than its ceil, however often the rate rises */
	s = rtt_init(test, 0, RTT_MBIT);
	rtt_add(s, 0, 4 * RTT_MBIT / 10, 4 * RTT_MBIT / 10, 10000, 0);
	rtt_add(s, 0, RTT_KB, 2 * RTT_MBIT, 10000, 1);
	rtt_load(s, 1, 0);
	rtt_load(s, 2, 1);
	for (i = 0; i < 160; i++) {
		u64 rate = (1 + i % 2) * RTT_MBIT;

		rtt_set(&s->tree.root, rate, rate, RTT_MTU, 0, s->now);
		rtt_wake_all(s);
		rtt_run(s, s->now + 50 * RTT_MS);
	}
	KUNIT_EXPECT_LE(test, rtt_got(s, 1), 8 * 42 * RTT_MBIT / 100);
	rtt_end(s);
}

/* Where turns take long, and all members but one stop, it goes on at once */
static void rtt_test_stop(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	int i;

	rtt_add(s, 0, RTT_GBIT / 10, RTT_GBIT, 10000, 0);
	for (i = 0; i <= 100; i++)
		rtt_load(s, 1, !!i)->len = 64 * RTT_KB;
	rtt_run(s, 500 * RTT_MS);
	for (i = 1; i <= 100; i++)
		s->flow[i].stop = s->now;
	s->queue[1].wake = s->now;
	rtt_measure(s, RTT_MS, 50 * RTT_MS);
	rtt_expect_rate(s, 50, 200 * RTT_KB);
	rtt_end(s);

	/* Also if all that wait are above their ceil then */
	s = rtt_init(test, 0, 10 * RTT_GBIT);
	rtt_add(s, 0, 100 * RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
	rtt_add(s, 1, RTT_MBIT, 100 * RTT_MBIT, 10000, 7);
	rtt_add(s, 1, RTT_MBIT, 100 * RTT_MBIT, 10000, 0);
	rtt_load(s, 2, 0);
	rtt_load(s, 3, 1)->stop = 1000 * RTT_MS;
	rtt_run(s, 1000 * RTT_MS);
	rtt_measure(s, RTT_MS, 100 * RTT_MS);
	KUNIT_EXPECT_GE(test, rtt_got(s, 2) * 100, 10 * RTT_MBIT * 95);
	rtt_end(s);
}

/* After nobody wanted anything, nothing is made up for */
static void rtt_test_idle(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);
	int i, round;

	rtt_add(s, 0, RTT_GBIT / 10, RTT_GBIT, 10000, 0);
	rtt_load_all(s, 1);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < RTT_QUEUES; i++) {
			s->flow[i].stop = s->now + 2 * RTT_MS;
			s->queue[i].wake = s->now;
		}
		rtt_measure(s, 0, 2 * RTT_MS);
		rtt_expect_rate(s, 2, 10 * RTT_KB);
		rtt_run(s, s->now + rtt_random(s, 50 * RTT_MS));
	}
	rtt_end(s);
}

/* Members of a class get the same number of bytes whatever their packets */
static void rtt_test_lengths(struct kunit *test)
{
	static const u32 lens[] = { 60, 1450, 1513, 9000, 64 * RTT_KB };
	struct rtt *s;
	u64 part;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		s = rtt_init(test, 0, 10 * RTT_GBIT);
		rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
		rtt_load_all(s, 1);
		for (j = 0; j < RTT_QUEUES; j += 2)
			s->flow[j].len = lens[i];
		rtt_measure(s, 5 * RTT_MS, 200 * RTT_MS);
		part = s->bytes;
		for (j = 0; j < RTT_QUEUES; j++) {
			u64 got = s->flow[j].bytes * RTT_QUEUES * 100;

			KUNIT_EXPECT_GE_MSG(test, got, part * 99, "%u",
					    lens[i]);
			KUNIT_EXPECT_LE_MSG(test, got, part * 101, "%u",
					    lens[i]);
		}
		rtt_end(s);
	}
}

/* All of the rate is used where timers are late by up to a tick of 4 or 10 ms,
 * and where queues stop for 5 ms at times
 */
static void rtt_test_lateness(struct kunit *test)
{
	struct rtt *s;
	int i, j;

	for (i = 0; i < 6; i++) {
		s = rtt_init(test, 0, (i % 2 ? 1 : 10) * RTT_GBIT);
		for (j = 1; j <= 4; j++) {
			rtt_add(s, 0, RTT_GBIT / 10, 10 * RTT_GBIT, 10000, 0);
			rtt_load_all(s, j);
		}
		for (j = 0; j < RTT_QUEUES && i < 4; j++)
			s->queue[j].late = (i < 2 ? 4 : 10) * RTT_MS;
		for (j = 0; j < 20; j++) {
			if (i >= 4)
				s->queue[j % RTT_QUEUES].stopped = s->now +
								   5 * RTT_MS;
			if (!j)
				rtt_measure(s, 0, 50 * RTT_MS);
			else
				rtt_run(s, s->now + 50 * RTT_MS);
		}
		KUNIT_EXPECT_GE(test, s->bytes * 100, s->tree.root.ceil * 99);
		KUNIT_EXPECT_LE(test, s->bytes * 100, s->tree.root.ceil * 101);
		rtt_end(s);
	}
}

/* Bytes that a flow sends within a time of its first packet */
static u64 rtt_at_once(struct rtt *s, struct rtt_flow *f, u64 time)
{
	f->stop = RTT_NEVER;
	s->queue[f->queue].wake = s->now;
	rtt_measure(s, 0, time);
	return f->bytes;
}

/* After it was idle, a class sends its cburst at once above its ceil, its burst
 * before others above its rate, and the root its own
 */
static void rtt_test_bursts(struct kunit *test)
{
	const u64 burst = 64 * RTT_KB;
	struct rtt_flow *f;
	struct rtt *s;
	u64 got;
	int i;

	for (i = 0; i < 2; i++) {
		s = rtt_init(test, 0, 10 * RTT_GBIT);
		rtt_add(s, 0, RTT_MBIT, 10 * RTT_MBIT, 10000, 0);
		f = rtt_load(s, 1, 0);
		f->stop = 0;
		rate_tree_set(&s->class[1], RTT_MBIT, 10 * RTT_MBIT, 0,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * RTT_MBIT), 10000, 0, s->now);
		rtt_run(s, 500 * RTT_MS);
		got = rtt_at_once(s, f, RTT_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 4 * RTT_MTU);
		rtt_end(s);
	}

	for (i = 0; i < 2; i++) {
		s = rtt_init(test, 0, RTT_GBIT);
		rtt_add(s, 0, 10 * RTT_MBIT, RTT_GBIT, 10000, 7);
		f = rtt_load(s, 1, 0);
		f->stop = 0;
		rate_tree_set(&s->class[1], 10 * RTT_MBIT, RTT_GBIT,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * RTT_MBIT), 0, 10000, 7,
			      s->now);
		rtt_add(s, 0, RTT_MBIT, RTT_GBIT, 10000, 0);
		rtt_load_all(s, 2);
		rtt_run(s, 500 * RTT_MS);
		got = rtt_at_once(s, f, 2 * RTT_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 8 * RTT_MTU);
		rtt_end(s);
	}

	for (i = 0; i < 2; i++) {
		s = rtt_init(test, 0, 10 * RTT_MBIT);
		rate_tree_set(&s->tree.root, 10 * RTT_MBIT, 10 * RTT_MBIT, 0,
			      i * div64_u64(burst * NSEC_PER_SEC,
					    10 * RTT_MBIT), RTT_MTU, 0, s->now);
		f = rtt_load(s, 0, 0);
		f->stop = 0;
		rtt_run(s, 500 * RTT_MS);
		got = rtt_at_once(s, f, RTT_MS);
		KUNIT_EXPECT_GE(test, got, i * burst);
		KUNIT_EXPECT_LE(test, got, i * burst + 4 * RTT_MTU);
		rtt_end(s);
	}
}

/* A class that waits for its ceil goes on at once when that rises, though only
 * the queue that grants is told
 */
static void rtt_test_told(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, RTT_GBIT);

	rtt_add(s, 0, RTT_KB, 2 * RTT_KB, 10000, 0);
	rtt_load_all(s, 1);
	rtt_run(s, 5000 * RTT_MS);
	rtt_set(&s->class[1], RTT_KB, RTT_GBIT, 10000, 0, s->now);
	rtt_measure(s, 10 * RTT_MS, 20 * RTT_MS);
	rtt_expect_rate(s, 20, 20 * RTT_KB);
	rtt_end(s);
}

/* A queue that is late grants no more in one call than it should */
static void rtt_test_grants(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 100 * RTT_GBIT);
	u32 before, i, granted = 0;
	u64 when;

	rtt_add(s, 0, RTT_GBIT, 100 * RTT_GBIT, 10000, 0);
	rtt_load_all(s, 1);
	rtt_run(s, 5 * RTT_MS);
	for (i = 0; i < RTT_QUEUES; i++) {
		granted -= s->queue[i].q.granted;
		s->queue[i].stopped = RTT_NEVER;
	}
	s->now += RTT_MS;
	before = s->queue[0].q.begun;
	local_bh_disable();
	rate_tree_next(&s->queue[0].q, s->now, &when);
	local_bh_enable();
	for (i = 0; i < RTT_QUEUES; i++)
		granted += s->queue[i].q.granted;
	KUNIT_EXPECT_NE(test, s->queue[0].q.begun, before);
	KUNIT_EXPECT_LE(test, granted, RATE_TREE_GRANTS);
	rtt_end(s);
}

/* Somebody who has something to send, and has sent nothing; or NULL */
static struct rtt_flow *rtt_unserved(struct rtt *s)
{
	struct rtt_flow *f;

	for (f = s->flow; f < s->flow + s->flows; f++)
		if (f->joined && rtt_backlog(s, f) && !f->bytes)
			return f;

	return NULL;
}

/* Whatever happens, who has something to send is served, all of the rate is
 * used, and nothing is left behind.
 */
static void rtt_test_random(struct kunit *test)
{
	u32 parent, quantum, prio;
	int seed, i, step;
	u64 rate, ceil;
	struct rtt *s;

	for (seed = 1; seed <= 20; seed++) {
		s = rtt_init(test, 0, RTT_GBIT);
		prandom_seed_state(&s->rnd, seed);
		while (s->classes < 20) {
			parent = rtt_random(s, s->classes);
			rate = 1 + rtt_random(s, 200 * RTT_MBIT);
			ceil = RTT_MBIT + rtt_random(s, 2 * RTT_GBIT);
			quantum = 1 + rtt_random(s, 60000);
			prio = rtt_random(s, 8);
			rtt_add(s, parent, rate, ceil, quantum, prio);
		}
		for (i = 0; i < 60; i++) {
			struct rtt_flow *f;

			f = rtt_load(s, 0, rtt_random(s, RTT_QUEUES));
			f->class = rtt_random(s, s->classes);
			f->m.class = rtt_class(s, f->class);
			f->len = 60 + rtt_random(s, RTT_MTU - 60);
			f->gap = rtt_random(s, 3);
			f->gap *= rtt_random(s, RTT_MS);
		}
		/* One that can use all that is left */
		rtt_load_all(s, 0);
		for (step = 0; step < 60; step++) {
			struct rtt_flow *f = &s->flow[rtt_random(s, 60)];
			struct rtt_queue *q = &s->queue[f->queue];
			u64 now = s->start + s->now;

			switch (rtt_random(s, 4)) {
			case 0:
				f->packets = 0;
				f->stop = s->now;
				break;
			case 1:
				f->stop = RTT_NEVER;
				f->arrive = max(f->arrive, s->now);
				break;
			case 2:
				local_bh_disable();
				if (f->joined)
					rate_tree_leave(&f->m, now);
				else
					rate_tree_join(&q->q, &f->m,
						       rtt_class(s, f->class));
				local_bh_enable();
				f->joined = !f->joined;
				f->told = 0;
				break;
			default:
				i = 1 + rtt_random(s, s->classes - 1);
				rate = 1 + rtt_random(s, 200 * RTT_MBIT);
				ceil = RTT_MBIT + rtt_random(s, RTT_GBIT);
				quantum = 1 + rtt_random(s, 60000);
				prio = rtt_random(s, 8);
				rtt_set(&s->class[i], rate, ceil, quantum, prio,
					now);
			}
			q->wake = s->now;
			rtt_run(s, s->now + rtt_random(s, RTT_MS));
		}
		rtt_measure(s, 5 * RTT_MS, 100 * RTT_MS);
		rtt_expect_rate(s, 100, 40 * RTT_KB);
		/* Without priorities, rates and ceils, all are served */
		for (i = 1; i < s->classes; i++)
			rtt_set(&s->class[i], 1, RTT_GBIT, RTT_MTU, 0,
				s->start + s->now);
		rtt_wake_all(s);
		rtt_measure(s, 5 * RTT_MS, 400 * RTT_MS);
		/* On the eighth level of a tree, a share is small */
		for (step = 0; step < 20 && rtt_unserved(s); step++)
			rtt_run(s, s->now + 400 * RTT_MS);
		KUNIT_EXPECT_NULL_MSG(test, rtt_unserved(s), "seed %d", seed);
		rtt_end(s);
	}
}

static void rtt_expect_paid(struct rtt *s, const struct rtt_flow *f, int up,
			    u64 least, u64 most)
{
	u64 part = div64_u64(f->paid[up] * 1000, s->bytes);

	KUNIT_EXPECT_GE_MSG(s->test, part, least, "class %u, %d", f->class, up);
	KUNIT_EXPECT_LE_MSG(s->test, part, most, "class %u, %d", f->class, up);
}

/* Who pays for what is sent, who is above a ceil by it, and what is left */
static void rtt_test_statistics(struct kunit *test)
{
	struct rtt *s = rtt_init(test, 0, 10 * RTT_GBIT);
	u32 a = rtt_add(s, 0, 4 * RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 a1 = rtt_add(s, a, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	u32 b = rtt_add(s, 0, 2 * RTT_GBIT, 3 * RTT_GBIT, 10000, 0);
	u32 idle = rtt_add(s, 0, RTT_GBIT, 2 * RTT_GBIT, 10000, 0);
	struct rtt_flow *fa = rtt_load(s, a1, 0), *fb = rtt_load(s, b, 1), *f;
	s64 tokens, ctokens;

	/* a1 has 1 of its rate and, of 4 that a has, what it does not need then
	 * for its own; the root pays the rest of 7. b has 2 and 1.
	 */
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect_paid(s, fa, 0, 95, 105);
	rtt_expect_paid(s, fa, 1, 295, 405);
	rtt_expect_paid(s, fa, 2, 195, 305);
	rtt_expect_paid(s, fb, 0, 195, 205);
	rtt_expect_paid(s, fb, 1, 95, 105);

	/* Only b is held back by its ceil. Turns wait for each other. */
	KUNIT_EXPECT_EQ(test, fa->above[0], 0);
	KUNIT_EXPECT_EQ(test, fa->above[1], 0);
	KUNIT_EXPECT_GT(test, fa->above[2], 500);
	KUNIT_EXPECT_GT(test, fb->above[0], 500);
	KUNIT_EXPECT_GT(test, fb->above[1], 500);

	rate_tree_tokens(rtt_class(s, idle), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_EQ(test, tokens, s->now);
	KUNIT_EXPECT_EQ(test, ctokens, s->now);
	rate_tree_tokens(rtt_class(s, b), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_LT(test, abs(tokens), RTT_MS);
	KUNIT_EXPECT_LT(test, abs(ctokens), RTT_MS);
	rate_tree_tokens(rtt_class(s, 0), s->now, &tokens, &ctokens);
	KUNIT_EXPECT_LE(test, tokens, 0);
	KUNIT_EXPECT_GT(test, tokens, -RTT_MS);
	KUNIT_EXPECT_EQ(test, ctokens, tokens);
	rtt_end(s);

	/* Also of packets that need no turn, within the rate and beyond */
	s = rtt_init(test, 0, 10 * RTT_GBIT);
	a = rtt_add(s, 0, RTT_GBIT, 10 * RTT_GBIT, 10000, 0);
	b = rtt_add(s, 0, RTT_MBIT, 10 * RTT_GBIT, 10000, 0);
	rtt_load(s, a, 0);
	rtt_load(s, b, 1);
	for (f = s->flow; f < s->flow + s->flows; f++) {
		f->len = 100;
		f->gap = 20 * NSEC_PER_USEC;
	}
	rtt_measure(s, 5 * RTT_MS, 50 * RTT_MS);
	rtt_expect_paid(s, &s->flow[0], 0, 490, 510);
	rtt_expect_paid(s, &s->flow[1], 1, 450, 510);
	KUNIT_EXPECT_EQ(test, s->flow[0].above[0], 0);
	rtt_end(s);
}

static struct kunit_case rtt_cases[] = {
	KUNIT_CASE(rtt_test_shares),
	KUNIT_CASE(rtt_test_borrow),
	KUNIT_CASE(rtt_test_both),
	KUNIT_CASE(rtt_test_prio_ceil),
	KUNIT_CASE(rtt_test_overcommitted),
	KUNIT_CASE(rtt_test_sparse),
	KUNIT_CASE(rtt_test_back),
	KUNIT_CASE(rtt_test_stopped),
	KUNIT_CASE(rtt_test_alone),
	KUNIT_CASE(rtt_test_ceil_idle),
	KUNIT_CASE(rtt_test_ceils),
	KUNIT_CASE(rtt_test_wrap),
	KUNIT_CASE(rtt_test_early),
	KUNIT_CASE(rtt_test_quantum),
	KUNIT_CASE(rtt_test_root),
	KUNIT_CASE(rtt_test_overdrawn),
	KUNIT_CASE(rtt_test_leaf_prio),
	KUNIT_CASE(rtt_test_pause),
	KUNIT_CASE(rtt_test_assured),
	KUNIT_CASE(rtt_test_slow_site),
	KUNIT_CASE(rtt_test_long_packets),
	KUNIT_CASE(rtt_test_in_turn),
	KUNIT_CASE(rtt_test_claims),
	KUNIT_CASE(rtt_test_one_queue),
	KUNIT_CASE(rtt_test_ceil_round),
	KUNIT_CASE(rtt_test_paused),
	KUNIT_CASE(rtt_test_calls),
	KUNIT_CASE(rtt_test_free),
	KUNIT_CASE(rtt_test_free_rate),
	KUNIT_CASE(rtt_test_drops),
	KUNIT_CASE(rtt_test_rate),
	KUNIT_CASE(rtt_test_stop),
	KUNIT_CASE(rtt_test_idle),
	KUNIT_CASE(rtt_test_lengths),
	KUNIT_CASE(rtt_test_lateness),
	KUNIT_CASE(rtt_test_bursts),
	KUNIT_CASE(rtt_test_told),
	KUNIT_CASE(rtt_test_grants),
	KUNIT_CASE(rtt_test_statistics),
	KUNIT_CASE(rtt_test_random),
	{}
};

static struct kunit_suite rtt_suite = {
	.name = "rate_tree",
	.test_cases = rtt_cases,
};

kunit_test_suite(rtt_suite);

MODULE_DESCRIPTION("KUnit tests for the rate tree");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

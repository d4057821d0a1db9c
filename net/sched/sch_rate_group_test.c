// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * KUnit tests for the rate group
 *
 * All time is virtual: packets arrive at members, members are called when they
 * asked to be (or late), and send if they may. Two meters watch:
 *
 * excess:	the backlog of a queue that takes all that is sent and drains at
 *		R, so its maximum is the largest excess in any window
 * shortage:	the mirror image, while there is a backlog
 *
 * The clock of a member is watched as well: it never goes back.
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/prandom.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/timerqueue.h>
#include <net/sch_rate_group.h>

#define RGT_MTU		1514
#define RGT_FULL	(160 << 10)	/* a backlog without end, bytes */
#define RGT_NEVER	KTIME_MAX
#define RGT_RUNAWAY	BIT(21)		/* packets, more than any case needs */
#define RGT_GBIT	125000000ULL	/* bytes/s */
#define RGT_MS		((u64)NSEC_PER_MSEC)

/* With everything that it takes to see the same again */
#define RGT_EXPECT_MSG(sim, a, op, b, what)				\
do {									\
	const struct rgt *_sim = (sim);					\
									\
	KUNIT_EXPECT_##op##_MSG(_sim->test, a, b,			\
				"%s: n %u rate %llu seed %u", what,	\
				_sim->n, _sim->rate, _sim->seed);	\
} while (0)

#define RGT_EXPECT(sim, a, op, b)	RGT_EXPECT_MSG(sim, a, op, b, #a)

/* What a member has to do; all numbers are the most that they may be */
struct rgt_load {
	u32	len[4];		/* bytes of a packet: one of these */
	s32	overhead;	/* bytes that it costs in addition */
	u32	burst;		/* packets that arrive together */
	u64	pause;		/* until the next, ns */
	u32	late;		/* lateness of one call in four, ns */
	u32	stop;		/* no call after one burst in 16, ns */
	u32	tick;		/* calls come at multiples of that, ns */
	u32	drop;		/* bursts until all of the backlog vanishes */
	u32	take;		/* length of its slots, bytes; 0: as given */
	u32	credit;		/* what a new backlog may make up for, bytes */
	u32	patience;	/* what any backlog may make up for, bytes */
	u32	ahead;		/* of so many packets, one asks to go ahead */
	u32	exempt;		/* of so many, one is not part of its share */
	bool	single;		/* it never has more than one */
};

struct rgt_member {
	struct rate_group_member part;
	struct timerqueue_node	node;
	const struct rgt_load	*load;
	u64			skew;	/* of its clock, ns */
	u64			clock;	/* which stands still, when last seen */
	u64			call;	/* when it wants to be called */
	u64			arrive;	/* when the next packets do */
	u64			stopped; /* no call before that */
	u64			born;	/* since then a packet is at the head */
	u64			wait;	/* longest time that one was there */
	u64			sent;	/* what that cost, bytes */
	u32			backlog;
	u32			head;	/* number of the next packet to go, */
	u32			tail;	/* and to arrive */
	bool			full;	/* there always is more */
	bool			seen;	/* @clock is */
};

/* A meter holds bytes times NSEC_PER_SEC, so that it drains without rounding */
struct rgt_meter {
	u64			level;
	u64			max;
};

struct rgt {
	struct kunit		*test;
	struct rate_group	group;
	struct rgt_member	*member;
	struct timerqueue_head	queue;
	struct rnd_state	rnd;
	u64			start;	/* clock at time 0 */
	u64			now;	/* ns since then */
	u64			rate;
	u32			seed;
	u32			n;
	u32			busy;	/* members with a backlog */
	u64			total;	/* sent since the beginning, bytes */
	u64			sent;	/* the same, of what is measured */
	u64			packets;
	u64			calls;
	u64			moves;	/* of the tail */
	struct rgt_meter	excess;
	struct rgt_meter	shortage;
	struct rgt_meter	ahead;	/* what goes ahead, at R / 4 */
	u64			went;	/* the same, in all, bytes */
};

#define RGT_LEN(x)	{ [0 ... 3] = (x) }
#define RGT_ANY		{ 64, 400, 1000, 1514 }
#define RGT_MIXED	{ 300, 1514, 300, 9000 }

static const struct rgt_load rgt_equal = { .len = RGT_LEN(RGT_MTU) };
static const struct rgt_load rgt_small = { .len = RGT_LEN(64) };
static const struct rgt_load rgt_any = { .len = RGT_ANY };
static const struct rgt_load rgt_mixed = { .len = RGT_MIXED };
static const struct rgt_load rgt_gso = { .len = { 1514, 9084, 30280, 65102 } };
static const struct rgt_load rgt_huge = { .len = RGT_LEN(65102) };

static const struct rgt_load *rgt_loads[] = {
	&rgt_equal, &rgt_huge, &rgt_mixed, &rgt_gso, &rgt_any
};

static u64 rgt_random(struct rgt *s, u64 below)
{
	return mul_u64_u32_shr(below, prandom_u32_state(&s->rnd), 32);
}

static u32 rgt_len(const struct rgt_load *load, u32 packet)
{
	return load->len[hash_32(packet + 1, 2)];
}

static u32 rgt_longest(const struct rgt_load *load)
{
	const u32 *len = load->len;

	return max(max(len[0], len[1]), max(len[2], len[3])) +
	       max(load->overhead, 0);
}

static u64 rgt_bytes(const struct rgt *s, u64 ns)
{
	return mul_u64_u64_div_u64(s->rate, ns, NSEC_PER_SEC);
}

static u64 rgt_ns(const struct rgt *s, u64 bytes)
{
	return mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, s->rate);
}

static u64 rgt_tail(const struct rgt *s)
{
	return atomic64_read(&s->group.tail);
}

static u64 rgt_now(const struct rgt *s)
{
	return s->start + s->now;
}

static u64 rgt_clock(const struct rgt *s, const struct rgt_member *m)
{
	return rgt_now(s) + m->skew;
}

/* The clock by which a member keeps its schedules stands still, or goes on */
static void rgt_look(struct rgt *s, struct rgt_member *m)
{
	u64 clock = rate_group_clock(&m->part, rgt_clock(s, m));

	if (m->seen && m->part.group)
		RGT_EXPECT(s, (s64)(clock - m->clock), GE, 0);
	m->clock = clock;
	m->seen = m->part.group;
}

static u64 rgt_max(const struct rgt_meter *meter)
{
	return div_u64(meter->max, NSEC_PER_SEC);
}

static void rgt_fill_meter(struct rgt_meter *meter, u64 by)
{
	meter->level += by;
	meter->max = max(meter->max, meter->level);
}

static void rgt_drain_meter(struct rgt_meter *meter, u64 by)
{
	meter->level -= min(meter->level, by);
}

static void rgt_advance(struct rgt *s, u64 to)
{
	u64 could;

	/* No limit, or time enough to drain anything */
	if (!s->rate || check_mul_overflow(s->rate, to - s->now, &could))
		could = U64_MAX / 2;
	s->now = to;
	rgt_drain_meter(&s->excess, could);
	rgt_drain_meter(&s->ahead, could / 4);
	if (s->busy && s->rate)
		rgt_fill_meter(&s->shortage, could);
	else
		s->shortage.level = 0;
}

static void rgt_queue(struct rgt *s, struct rgt_member *m)
{
	if (timerqueue_node_queued(&m->node))
		timerqueue_del(&s->queue, &m->node);
	m->node.expires = min(max(m->call, m->stopped), m->arrive);
	if (m->node.expires != RGT_NEVER)
		timerqueue_add(&s->queue, &m->node);
}

static void rgt_push(struct rgt_member *m, u32 packets)
{
	while (packets--)
		m->backlog += rgt_len(m->load, m->tail++);
	while (m->full && m->backlog < RGT_FULL)
		m->backlog += rgt_len(m->load, m->tail++);
}

static void rgt_send(struct rgt *s, struct rgt_member *m, u64 now)
{
	u32 len = rgt_len(m->load, m->head++), cost = len + m->load->overhead;
	u64 bytes = (u64)cost * NSEC_PER_SEC;

	m->wait = max(m->wait, s->now - m->born);
	m->born = s->now;
	m->sent += cost;
	m->backlog -= len;
	rgt_push(m, 0);
	s->sent += cost;
	s->total += cost;
	s->packets++;
	rgt_drain_meter(&s->shortage, bytes);
	if (s->rate)
		rgt_fill_meter(&s->excess, bytes);
	rate_group_sent(&m->part, now, cost);
	if (m->part.rate)
		rate_group_charge(&m->part, now, cost);
	if (m->part.rate && m->load->exempt && !(m->head % m->load->exempt))
		rate_group_exempt(&m->part, cost);
	rgt_look(s, m);
	if (m->backlog)
		return;

	s->busy--;
	if (m->load->single)
		m->arrive = s->now + 1 + rgt_random(s, m->load->pause);
	if (m->part.rate)
		rate_group_idle(&m->part, now);
}

/* Is it for the member to wait? Then it says until when. */
static bool rgt_wait(struct rgt *s, struct rgt_member *m, u64 now)
{
	u32 len = rgt_len(m->load, m->head);
	struct rate_group_member *part = &m->part;
	s64 pays = max(len + part->unpaid, 0);
	u64 when;

	if (!part->rate || rate_group_may_send(part, now, m->backlog))
		return false;
	if (m->load->ahead && !(m->head % m->load->ahead) &&
	    rate_group_ahead(part, now, len)) {
		rgt_fill_meter(&s->ahead, pays * NSEC_PER_SEC);
		s->went += pays;
		return false;
	}
	if (!rate_group_wait(part, now, m->backlog,
			     min(m->load->take, m->backlog), &when))
		return false;

	m->call = s->now + when - now;
	/* If that is now, others go first, but no timer is needed */
	if (m->load->tick && time_after64(when, now))
		m->call = roundup_u64(m->call + 1, m->load->tick);
	if (m->load->late && !rgt_random(s, 4))
		m->call += rgt_random(s, m->load->late);
	return true;
}

/* What a qdisc does in its ->dequeue(), which is called until it has to wait */
static void rgt_call(struct rgt *s, struct rgt_member *m)
{
	u64 tail, now = rgt_clock(s, m);
	bool wait = false;

	s->calls++;
	m->call = RGT_NEVER;
	while (!wait && m->backlog && s->packets < RGT_RUNAWAY) {
		tail = rgt_tail(s);
		wait = rgt_wait(s, m, now);
		s->moves += rgt_tail(s) != tail;
		rgt_look(s, m);
		if (!wait)
			rgt_send(s, m, now);
		rgt_look(s, m);
	}
}

/* The backlog of a member vanishes */
static void rgt_drop(struct rgt *s, struct rgt_member *m)
{
	rgt_look(s, m);
	m->full = false;
	m->call = RGT_NEVER;
	m->head = m->tail;
	if (m->backlog) {
		s->busy--;
		m->backlog = 0;
		if (m->part.rate)
			rate_group_idle(&m->part, rgt_clock(s, m));
		if (m->part.rate)
			RGT_EXPECT(s, m->part.excess, GE, 0);
	}
	rgt_look(s, m);
	rgt_queue(s, m);
}

static void rgt_add(struct rgt *s, struct rgt_member *m, u32 packets)
{
	if (!m->backlog) {
		s->busy++;
		m->born = s->now;
		if (m->part.rate)
			rate_group_arrive(&m->part, rgt_clock(s, m));
		rgt_look(s, m);
	}
	rgt_push(m, packets);
	m->call = s->now;
	rgt_queue(s, m);
}

/* From now on there always is more, for members first to last - 1 */
static void rgt_fill(struct rgt *s, u32 first, u32 last,
		     const struct rgt_load *load)
{
	struct rgt_member *m;

	for (m = s->member + first; m < s->member + last; m++) {
		rgt_drop(s, m);
		m->load = load;
		m->full = true;
		m->arrive = RGT_NEVER;
		rgt_add(s, m, 1);
	}
}

static void rgt_stop(struct rgt *s, struct rgt_member *m, u64 ns)
{
	m->stopped = ns == RGT_NEVER ? ns : s->now + ns;
	rgt_queue(s, m);
}

static void rgt_arrive(struct rgt *s, struct rgt_member *m)
{
	const struct rgt_load *load = m->load;

	m->arrive = RGT_NEVER;
	if (!load->single)
		m->arrive = s->now + 1 + rgt_random(s, load->pause);
	if (m->full || (load->single && m->backlog))
		return;
	rgt_add(s, m, 1 + rgt_random(s, load->burst));
	if (load->stop && !rgt_random(s, 16))
		rgt_stop(s, m, rgt_random(s, load->stop));
	if (load->drop && !rgt_random(s, load->drop))
		rgt_drop(s, m);
}

/* From now on packets arrive, at members first to last - 1 */
static void rgt_begin(struct rgt *s, u32 first, u32 last,
		      const struct rgt_load *load)
{
	struct rgt_member *m;

	for (m = s->member + first; m < s->member + last; m++) {
		rgt_drop(s, m);
		m->load = load;
		m->arrive = s->now + rgt_random(s, load->pause);
		rgt_queue(s, m);
	}
}

static void rgt_run(struct rgt *s, u64 ns)
{
	struct timerqueue_node *node;
	u64 until = s->now + ns;
	struct rgt_member *m;

	while ((node = timerqueue_getnext(&s->queue)) &&
	       node->expires <= until && s->packets < RGT_RUNAWAY) {
		m = container_of(node, struct rgt_member, node);
		rgt_advance(s, node->expires);
		if (m->arrive <= s->now)
			rgt_arrive(s, m);
		if (m->call <= s->now && m->stopped <= s->now)
			rgt_call(s, m);
		rgt_queue(s, m);
	}
	RGT_EXPECT(s, s->packets, LT, RGT_RUNAWAY);
	rgt_advance(s, until);
}

/* Measure from now on */
static void rgt_run_anew(struct rgt *s, u64 ns)
{
	struct rgt_member *m;

	for (m = s->member; m < s->member + s->n; m++) {
		m->sent = 0;
		m->wait = 0;
	}
	s->sent = 0;
	s->packets = 0;
	s->calls = 0;
	s->moves = 0;
	s->ahead.max = 0;
	s->went = 0;
	rgt_run(s, ns);
}

static void rgt_set_rate(struct rgt *s, u64 rate)
{
	rtnl_lock();
	rate_group_set_rate(&s->group, rate, rgt_now(s));
	rtnl_unlock();
	s->rate = s->group.rate;
}

static void rgt_update(struct rgt *s)
{
	struct rgt_member *m;

	for (m = s->member; m < s->member + s->n; m++) {
		rgt_look(s, m);
		if (!m->part.group)
			rate_group_join(&s->group, &m->part, true,
					rgt_clock(s, m));
		m->part.burst = m->load->credit;
		m->part.late = m->load->patience;
		rate_group_update(&m->part, rgt_clock(s, m));
		rgt_look(s, m);
		if (m->backlog)
			m->call = s->now;
		rgt_queue(s, m);
	}
}

static struct rgt *rgt_new_at(struct kunit *test, u64 start, u64 rate, u32 n,
			      const struct rgt_load *load, u32 seed)
{
	struct rgt *s = test->priv;
	struct rgt_member *m;

	kvfree(s->member);
	memset(s, 0, sizeof(*s));
	s->test = test;
	s->seed = seed;
	s->start = start;
	s->n = n;
	s->member = kvcalloc(n, sizeof(*s->member), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, s->member);
	timerqueue_init_head(&s->queue);
	prandom_seed_state(&s->rnd, seed);
	for (m = s->member; m < s->member + n; m++) {
		timerqueue_init(&m->node);
		m->load = load;
		m->call = RGT_NEVER;
		m->arrive = RGT_NEVER;
		m->head = (m - s->member) << 20;
		m->tail = m->head;
	}
	rgt_set_rate(s, rate);
	rgt_update(s);

	return s;
}

static struct rgt *rgt_new(struct kunit *test, u64 rate, u32 n,
			   const struct rgt_load *load, u32 seed)
{
	return rgt_new_at(test, 1, rate, n, load, seed);
}

static struct rgt *rgt_new_full(struct kunit *test, u64 rate, u32 n,
				const struct rgt_load *load, u32 seed)
{
	struct rgt *s = rgt_new(test, rate, n, load, seed);

	rgt_fill(s, 0, n, load);
	return s;
}

/* Some packets, one at a time */
static void rgt_trickle(struct rgt *s, struct rgt_member *m, u32 packets,
			u64 ns)
{
	while (packets--) {
		rgt_add(s, m, 1);
		rgt_run(s, ns);
	}
}

static u32 rgt_quantum(const struct rgt *s)
{
	return max(s->group.quantum, s->group.longest);
}

static u64 rgt_horizon(const struct rgt *s)
{
	return rgt_bytes(s, s->member->part.horizon);
}

/* What slack sends early, and the ns that members and packets may round */
static u64 rgt_slack(const struct rgt *s)
{
	return min(rgt_bytes(s, RATE_GROUP_SLACK), RGT_MTU) +
	       rgt_bytes(s, s->n + 8);
}

/* The upper bound that the comment states, less R x t. If all are called when
 * they asked to be, a member is wrong by no more than a packet that is longer
 * than what is left of its slot, and what it has paid for in advance. What is
 * missing is the mirror image.
 */
static u64 rgt_bound(const struct rgt *s, bool on_time)
{
	u32 longest, most = RGT_MTU, ahead = 0;
	const struct rgt_member *m;
	u64 bound = 0;

	for (m = s->member; m < s->member + s->n; m++) {
		longest = rgt_longest(m->load);
		most = max(most, longest);
		if (m->load->ahead)
			ahead = 2 * RATE_GROUP_AHEAD;
		if (!on_time)
			bound += max3(RATE_GROUP_QUANTUM, m->load->take,
				      s->group.longest) *
				 (m->load->exempt ? 2 : 1) + 2 * longest;
		else if (longest != RGT_MTU || m->load->len[0] != RGT_MTU ||
			 m->load->overhead)
			bound += longest;
		if (on_time && !m->full)
			bound += max(s->group.advance, RATE_GROUP_SMALL);
	}

	return bound + (on_time ? most + ahead + rgt_slack(s) :
				  2 * RATE_GROUP_AHEAD + RGT_MTU);
}

static void rgt_expect(struct rgt *s, u64 excess, u64 shortage)
{
	RGT_EXPECT(s, rgt_max(&s->excess), LE, excess);
	RGT_EXPECT(s, rgt_max(&s->shortage), LE, shortage);
}

static void rgt_expect_on_time(struct rgt *s)
{
	rgt_expect(s, rgt_bound(s, true), rgt_bound(s, true));
}

static void rgt_expect_near(struct rgt *s, u64 is, u64 want, u64 error,
			    const char *what)
{
	RGT_EXPECT_MSG(s, is, LE, want + error, what);
	RGT_EXPECT_MSG(s, is + error, GE, want, what);
}

/* Jain's index of what members have sent, in millionths */
static void rgt_expect_fair(struct rgt *s, u32 least)
{
	u64 sent, sum = 0, squares = 0;
	u32 i;

	for (i = 0; i < s->n; i++) {
		sent = s->member[i].sent >> 6;
		sum += sent;
		squares += sent * sent;
	}
	squares = max(div_u64(squares * s->n, 1000000), 1);
	RGT_EXPECT(s, mul_u64_u64_div_u64(sum, sum, squares), GE, least);
}

/* If the group was busy since the beginning, the tail says what was sent and
 * what was granted and is still to be sent, and nothing else (but for a ns that
 * seems unused due to rounding).
 */
static void rgt_expect_exact(struct rgt *s)
{
	s64 off = rgt_tail(s) - s->start - atomic64_read(&s->group.skipped);
	s64 bytes = s->total;
	u32 i;

	for (i = 0; i < s->n; i++)
		bytes += s->member[i].part.left - s->member[i].part.unpaid;
	off -= rgt_ns(s, bytes);
	RGT_EXPECT(s, abs(off), LE, s->n + 1);
}

/* Cases */

/* All that follows from the rate and the number of members */
static void rgt_test_numbers(struct kunit *test)
{
	static const struct {
		u64	rate;
		u32	n, credit, patience, quantum, advance, slack;
		u64	horizon;
	} sets[] = {
		{ RGT_GBIT, 1, 0, 0, 12288, 12288, 5000, 25 * RGT_MS },
		{ RGT_GBIT, 4, 0, 0, 6250, 3125, 5000, 25 * RGT_MS },
		{ RGT_GBIT, 100, 0, 0, 250, 125, 5000, 25 * RGT_MS },
		{ 10 * RGT_GBIT, 20, 0, 0, 12288, 6250, 1211, 25 * RGT_MS },
		{ RGT_GBIT / 2000, 1, 0, 0, 12, 6, 5000, 48448000 },
		{ 1, 1, 0, 0, 0, 0, 5000, 47312500000 },
		{ RGT_GBIT, 1, 4000000, 0, 12288, 12288, 5000, 32000000 },
		{ RGT_GBIT, 1, 0, 1000000, 12288, 12288, 5000, 8000000 },
		{ RGT_GBIT, 1, 0, 1000, 12288, 12288, 5000, RGT_MS },
		{ 1000000, 1, U32_MAX, 0, 200, 100, 5000, 268435456000 },
		{ 0, 1, 0, 0, 0, 0, 0, 0 },
	};
	static const u32 used[] = { 4, 101, 0 };
	struct rate_group_member *part;
	struct rgt_load load = rgt_equal;
	struct rgt *s;
	u32 i;

	/* The quantum is for the queues that are in use, if not all are */
	s = rgt_new(test, RGT_GBIT, 100, &rgt_equal, 1);
	for (i = 0; i < ARRAY_SIZE(used); i++) {
		s->group.queues = used[i];
		rgt_set_rate(s, RGT_GBIT);
		RGT_EXPECT(s, s->group.quantum, EQ, i ? 250 : 6250);
	}

	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		load.credit = sets[i].credit;
		load.patience = sets[i].patience;
		s = rgt_new(test, 0, sets[i].n, &load, i);
		rgt_set_rate(s, sets[i].rate);
		rgt_update(s);
		RGT_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		s = rgt_new(test, sets[i].rate, sets[i].n + 1, &load, i);
		part = &s->member[sets[i].n].part;
		rtnl_lock();
		rate_group_leave(part, 1);
		RGT_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		/* Who takes slots of its own length counts for nothing */
		rate_group_join(&s->group, part, false, 1);
		rate_group_leave(part, 1);
		rate_group_join(&s->group, part, false, 1);
		/* What was the longest packet may be split from now on */
		s->group.longest = 9000;
		rate_group_set_rate(&s->group, s->rate, 1);
		rtnl_unlock();
		RGT_EXPECT(s, s->group.longest, EQ, RGT_MTU);
		RGT_EXPECT(s, s->group.members, EQ, sets[i].n);
		RGT_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		RGT_EXPECT(s, s->group.advance, EQ, sets[i].advance);
		part = &s->member->part;
		RGT_EXPECT(s, part->slack, EQ, sets[i].slack);
		if (sets[i].credit)
			rgt_expect_near(s, part->backdate, sets[i].horizon, 1,
					"burst");
		if (s->rate)
			rgt_expect_near(s, part->horizon, sets[i].horizon, 1,
					"horizon");
	}
}

/* A group of one is a shaper: exact, and as smooth as its packets and timers,
 * and has nobody to be fair to
 */
static void rgt_test_alone(struct kunit *test)
{
	static const u64 rates[] = {
		1000, 125000, RGT_GBIT, 10 * RGT_GBIT, 100 * RGT_GBIT,
		800 * RGT_GBIT,
	};
	u64 bound, ns;
	struct rgt *s;
	u32 i, j, len;

	for (i = 0; i < ARRAY_SIZE(rates) * 4; i++) {
		j = i % 4;
		len = rgt_longest(rgt_loads[j]);
		s = rgt_new_full(test, rates[i / 4], 1, rgt_loads[j], i);
		ns = clamp_t(u64, NSEC_PER_SEC, rgt_ns(s, 20ULL * len),
			     rgt_ns(s, 50000ULL * len));
		rgt_run(s, ns);

		bound = len + rgt_slack(s);
		rgt_expect(s, bound, bound);
		rgt_expect_near(s, s->sent, rgt_bytes(s, ns), bound, "exact");
		rgt_expect_exact(s);
		/* What slack is for */
		if (s->rate >= 10 * RGT_GBIT && !j)
			RGT_EXPECT(s, s->calls * 4, LE, s->packets * 3);
	}
}

static const struct rgt_saturated {
	const char	*name;
	u64		start, rate;
	u32		n;
} rgt_saturated[] = {
	{ "1 at 10 Gbit",	1, 10 * RGT_GBIT, 1 },
	{ "2 at 1 Gbit",	1, RGT_GBIT, 2 },
	{ "7 at 10 Gbit",	1, 10 * RGT_GBIT, 7 },
	{ "40 at 100 Mbit",	1, RGT_GBIT / 10, 40 },
	{ "40 at 40 Gbit",	1, 40 * RGT_GBIT, 40 },
	{ "256 at 100 Gbit",	1, 100 * RGT_GBIT, 256 },
	{ "1000 at 10 Gbit",	1, 10 * RGT_GBIT, 1000 },
	/* The clock changes its sign, or wraps, in the middle of it all */
	{ "sign",		S64_MAX - 4 * RGT_MS, RGT_GBIT, 7 },
	{ "wrap",		U64_MAX - 4 * RGT_MS, RGT_GBIT, 7 },
	{ "wrap of one",	U64_MAX - 4 * RGT_MS, RGT_GBIT, 1 },
	{ "negative",		BIT_ULL(63) + 4 * RGT_MS, RGT_GBIT, 2 },
};

KUNIT_ARRAY_PARAM_DESC(rgt_saturated, rgt_saturated, name);

/* One packet too much, or missing, for all together; and turns are taken, as
 * long as they should be
 */
static void rgt_test_saturated(struct kunit *test)
{
	const struct rgt_saturated *p = test->param_value;
	struct rgt *s = rgt_new_at(test, p->start, p->rate, p->n, &rgt_equal,
				   p->n);
	u64 bound, quantum = rgt_quantum(s);
	u32 i;

	rgt_fill(s, 0, p->n, &rgt_equal);
	rgt_run(s, rgt_ns(s, 6 * quantum * p->n));
	rgt_run_anew(s, rgt_ns(s, 60 * quantum * p->n));

	rgt_expect_on_time(s);
	rgt_expect_fair(s, 999900);
	rgt_expect_exact(s);
	bound = rgt_ns(s, (quantum + RGT_MTU) * p->n) + p->n +
		2 * s->member->part.slack;
	for (i = 0; i < p->n; i++)
		RGT_EXPECT(s, s->member[i].wait, LE, bound);
	rgt_expect_near(s, s->moves * quantum, s->sent,
			div_u64(s->sent, 50) + p->n * quantum, "turns");
}

static const struct rgt_load rgt_big = { .len = RGT_LEN(9000) };
static const struct rgt_load rgt_more = { .len = RGT_ANY, .overhead = 150 };
static const struct rgt_load rgt_less = { .len = RGT_ANY, .overhead = -60 };

/* Members with other packets get the same in bytes; debts are paid */
static void rgt_test_fair(struct kunit *test)
{
	static const struct rgt_load *mixes[][2] = {
		{ &rgt_any, &rgt_any },
		{ &rgt_mixed, &rgt_mixed },
		{ &rgt_gso, &rgt_equal },
		{ &rgt_big, &rgt_equal },
		{ &rgt_small, &rgt_equal },
		{ &rgt_more, &rgt_less },
		{ &rgt_huge, &rgt_big },
		{ &rgt_gso, &rgt_huge },
	};
	static const u64 rates[] = { RGT_GBIT / 10, RGT_GBIT, 10 * RGT_GBIT };
	const struct rgt_load *one, *others;
	struct rgt_member *m;
	struct rgt *s;
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(mixes); i++) {
		one = mixes[i / ARRAY_SIZE(rates)][0];
		others = mixes[i / ARRAY_SIZE(rates)][1];
		len = max(rgt_longest(one), rgt_longest(others));
		s = rgt_new_full(test, rates[i % ARRAY_SIZE(rates)], 8, others,
				 i);
		rgt_fill(s, 0, 1, one);
		rgt_fill(s, 4, 5, one);
		rgt_run(s, rgt_ns(s, 250ULL * s->n * len));
		rgt_expect_fair(s, 998000);
		rgt_expect_on_time(s);
		rgt_expect_exact(s);
		/* Clocks stand still while siblings have their turns */
		for (m = s->member; m < s->member + s->n; m++)
			rgt_expect_near(s, m->clock - s->start,
					rgt_ns(s, m->sent), m->part.slack +
					rgt_ns(s, rgt_longest(m->load)) + 200,
					"clock");
	}
}

static const struct rgt_load rgt_mice[] = {
	{ .len = RGT_LEN(300), .burst = 1, .pause = 400000 },
	{ .len = RGT_LEN(1514), .burst = 20, .pause = 10000000 },
	{ .len = RGT_LEN(300), .burst = 1, .pause = 60000 },
};

/* A late timer costs no rate, whatever light members skipped meanwhile */
static void rgt_test_skipped(struct kunit *test)
{
	static const struct rgt_load elephants[] = {
		{ .len = RGT_LEN(1514), .late = 800000 },
		{ .len = RGT_ANY, .late = 800000 },
		{ .len = RGT_MIXED, .late = 800000 },
		{ .len = RGT_LEN(1514), .late = 800000, .take = 20000 },
	};
	struct rgt *s;
	u32 i, n;
	u64 ns;

	for (i = 0; i < ARRAY_SIZE(elephants) * 12; i++) {
		n = i % 4 / 2 + 1;
		s = rgt_new(test, i % 2 ? 10 * RGT_GBIT : RGT_GBIT, 40,
			    &rgt_equal, i);
		rgt_fill(s, 0, n, &elephants[i / 12]);
		rgt_begin(s, n, s->n, &rgt_mice[i % 12 / 4]);
		/* The first time may be lost */
		rgt_run(s, 10 * RGT_MS);
		rgt_run_anew(s, 200 * RGT_MS);
		/* It may have been late then, and may be now */
		ns = 200 * RGT_MS - 2 * elephants->late;
		RGT_EXPECT(s, s->sent * 1000, GE, rgt_bytes(s, ns) * 999);
	}
}

/* All together make up for no more than the horizon: of the time that a light
 * member skipped while they were stopped, and of what nobody used since
 */
static void rgt_test_claims(struct kunit *test)
{
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < 2; i++) {
		s = rgt_new_full(test, RGT_GBIT, 4, &rgt_equal, i);
		rgt_drop(s, &s->member[3]);
		rgt_run(s, RGT_MS);
		for (j = 0; j < 3; j++)
			rgt_stop(s, &s->member[j],
				 100 * RGT_MS - j * 10 * NSEC_PER_USEC);
		rgt_drop(s, &s->member[2]);
		for (j = 0; j < 850; j++) {
			rgt_add(s, &s->member[3], 1);
			rgt_run(s, 100 * NSEC_PER_USEC);
		}
		/* In the second run, one waited for 15 ms and goes first */
		if (i)
			rgt_fill(s, 2, 3, &rgt_equal);
		s->excess.max = 0;
		rgt_run(s, 20 * RGT_MS);
		rgt_expect_near(s, rgt_max(&s->excess), rgt_horizon(s),
				rgt_bound(s, false), "claims");
	}
}

/* Slack follows how late calls are on average, and goes back with it */
static void rgt_test_lag(struct kunit *test)
{
	static const struct {
		u32	tick, least, most;	/* ns */
	} sets[] = {
		{ 0, 5000, 5000 },
		{ 40000, 10000, 40000 },
		{ NSEC_PER_MSEC, 40000, RATE_GROUP_LAG },
		{ 0, 5000, 5000 },
	};
	struct rgt_load load = rgt_equal;
	struct rgt *s;
	u32 i;

	s = rgt_new_full(test, RGT_GBIT, 2, &load, 1);
	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		load.tick = sets[i].tick;
		rgt_run(s, 200 * RGT_MS);
		RGT_EXPECT(s, s->member->part.slack, GE, sets[i].least);
		RGT_EXPECT(s, s->member->part.slack, LE, sets[i].most);
	}
}

static const struct rgt_lateness {
	const char	*name;
	u32		tick;	/* as in a load, */
	u32		late;	/* ns */
	u32		stop;	/* of members, every 100 ms, ns */
	u32		stops;	/* how many of them */
} rgt_lateness[] = {
	{ "ticks of 4 ms",	.tick = 4 * NSEC_PER_MSEC },
	{ "ticks of 10 ms",	.tick = 10 * NSEC_PER_MSEC },
	{ "300 us late",	.late = 2400 * NSEC_PER_USEC },
	{ "one stops",		.stop = 5 * NSEC_PER_MSEC, .stops = 1 },
	{ "all stop",		.stop = 5 * NSEC_PER_MSEC, .stops = U32_MAX },
	{ "for longer",		.stop = 60 * NSEC_PER_MSEC, .stops = U32_MAX },
};

KUNIT_ARRAY_PARAM_DESC(rgt_lateness, rgt_lateness, name);

/* Lateness of less than the horizon costs no rate, whoever is late. It is made
 * up for at once, and those who are called together still take turns.
 */
static void rgt_test_late(struct kunit *test)
{
	const struct rgt_lateness *p = test->param_value;
	static const u32 n[] = { 1, 2, 8, 40 };
	struct rgt_load load = rgt_equal;
	u64 late, lost = 0;
	u32 i, j, k;
	struct rgt *s;

	load.tick = p->tick;
	load.late = p->late;
	late = p->tick + 2ULL * p->late + p->stop;
	if (late > RATE_GROUP_HORIZON) {
		lost = late - RATE_GROUP_HORIZON;
		late = RATE_GROUP_HORIZON;
	}
	for (i = 0; i < ARRAY_SIZE(n); i++) {
		s = rgt_new_full(test, RGT_GBIT, n[i], &load, i);
		for (j = 0; j < 10; j++) {
			for (k = 0; k < min(p->stops, n[i]); k++)
				rgt_stop(s, &s->member[k], p->stop);
			rgt_run(s, 100 * RGT_MS);
		}
		RGT_EXPECT(s, s->sent * 100, GE,
			   rgt_bytes(s, NSEC_PER_SEC - 10 * lost) * 99);
		/* It may be late again before it has made up for that */
		RGT_EXPECT(s, rgt_max(&s->excess), LE, rgt_bound(s, false) +
			   rgt_bytes(s, late));
		if (p->tick)
			rgt_expect_fair(s, 999000);
	}
}

/* One token bucket for all: what the group did not use may go at once */
static void rgt_test_burst(struct kunit *test)
{
	static const struct rgt_load loads[] = {
		{ .len = RGT_LEN(1514), .credit = 100 * 1514 },
		{ .len = RGT_ANY, .credit = 100 * 1514 },
		{ .len = RGT_MIXED, .credit = 100 * 1514 },
		{ .len = RGT_LEN(200), .overhead = 24, .credit = 100 * 1514 },
	};
	u64 bound, burst = loads->credit;
	u32 i, j, k, ns;
	struct rgt *s;

	for (i = 0; i < ARRAY_SIZE(loads) * 2; i++) {
		s = rgt_new(test, RGT_GBIT, i % 2 ? 20 : 1, &loads[i / 2], i);
		ns = rgt_ns(s, 10 * rgt_longest(&loads[i / 2]));
		for (j = 0; j < 10; j++) {
			rgt_run(s, 10 * RGT_MS);
			/* At 10 to 90 % it remains full, but for a packet */
			rgt_trickle(s, s->member, i & 1 ? 0 : 500,
				    ns / (j % 9 + 1));
			s->excess.max = 0;
			rgt_fill(s, 0, s->n, &loads[i / 2]);
			rgt_run_anew(s, NSEC_PER_USEC);
			bound = rgt_bound(s, true) + 2 * RGT_MTU;
			rgt_expect_near(s, s->sent, burst, bound, "burst");
			rgt_run(s, 10 * RGT_MS);
			rgt_expect(s, burst + bound, bound);
			for (k = 0; k < s->n; k++)
				rgt_drop(s, &s->member[k]);
		}
	}
}

/* A member that waits for something else does not lose its time */
static void rgt_test_patience(struct kunit *test)
{
	static const struct rgt_load loads[] = {
		{ .len = RGT_LEN(1514), .patience = 64 * 1514 },
		{ .len = RGT_MIXED, .patience = 64 * 1514 },
	};
	struct rate_group_member *part;
	struct rgt_member *m;
	struct rgt *s;
	u32 i, j;
	u64 when;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = rgt_new(test, RGT_GBIT / 100, 1, &loads[i], i);
		m = s->member;
		part = &m->part;
		rgt_stop(s, m, RGT_NEVER);
		rgt_run(s, 50 * RGT_MS);
		rgt_add(s, m, 2);
		/* As far as it had something to send, */
		rate_group_wait(part, rgt_now(s), m->backlog, 0, &when);
		RGT_EXPECT(s, part->left, LE, rgt_quantum(s));
		rgt_drop(s, m);
		rgt_add(s, m, 2);
		rgt_run(s, 50 * RGT_MS);
		/* and has, but not in turns that it passes; */
		part->excess = 5 * rgt_quantum(s);
		rate_group_wait(part, rgt_now(s), m->backlog, 0, &when);
		RGT_EXPECT(s, part->left, LE, m->backlog);
		RGT_EXPECT(s, part->excess, LT, rgt_quantum(s));
		rgt_drop(s, m);
		rgt_add(s, m, 2);
		/* it may send all of a slot at once */
		rate_group_wait(part, rgt_now(s), m->backlog, m->backlog,
				&when);
		for (j = 0; j < 2; j++)
			rate_group_charge(part, rgt_now(s), m->backlog / 2);
		RGT_EXPECT(s, part->unpaid, EQ, 0);
		rgt_fill(s, 0, 1, &loads[i]);
		/* And has it in one slot */
		for (j = 0; j < 20; j++) {
			rgt_stop(s, s->member, rgt_ns(s, 50 * RGT_MTU));
			rgt_run(s, rgt_ns(s, 100 * RGT_MTU));
		}
		rgt_expect_near(s, s->sent, 2000ULL * RGT_MTU,
				2 * rgt_longest(&loads[i]), "time");
		RGT_EXPECT(s, s->moves * 10, LE, s->packets * 6);
	}
}

/* Packets that were paid for in advance need no reservation. That is for a ms,
 * for packets that do not come in a burst, and not while others are late.
 */
static void rgt_test_advance(struct kunit *test)
{
	struct rgt *s = rgt_new(test, 10 * RGT_GBIT, 3, &rgt_equal, 1);
	struct rgt_member *m = s->member;
	u64 moves, when;
	u32 i;

	/* Eight packets in advance, at 40 % of the rate */
	rgt_trickle(s, m, 900, 3 * NSEC_PER_USEC);
	rgt_expect_near(s, s->moves, 100, 0, "reservations");
	rgt_expect_on_time(s);

	for (i = 0; i < 4; i++) {
		m->part.credit = 0;
		rgt_trickle(s, m, 1, 3 * NSEC_PER_USEC);
		RGT_EXPECT(s, m->part.credit, EQ, s->group.advance);
		moves = s->moves;
		rgt_run(s, RATE_GROUP_KEEP * (i + 7) / 9);
		rgt_trickle(s, m, 1, 3 * NSEC_PER_USEC);
		RGT_EXPECT(s, s->moves - moves, EQ, i / 2);
	}

	/* A burst pays anew, and keeps it for later */
	moves = s->moves;
	rgt_trickle(s, m, 4, 1);
	RGT_EXPECT(s, s->moves - moves, EQ, 2);
	RGT_EXPECT(s, m->part.credit, GT, RGT_MTU);

	/* Who has more to send than a slot is no longer below the rate */
	rgt_add(s, m, 64);
	rgt_run(s, 5 * NSEC_PER_USEC);
	RGT_EXPECT(s, m->part.credit, EQ, 0);
	rgt_run(s, 10 * RGT_MS);

	/* Not while others wait, or were late of late */
	rgt_fill(s, 1, 3, &rgt_equal);
	for (i = 0; i < 300; i++) {
		rgt_trickle(s, m, 1, 30 * NSEC_PER_USEC);
		if (i > 2)
			RGT_EXPECT(s, m->part.credit, EQ, 0);
	}
	rgt_expect_on_time(s);
	rgt_stop(s, &s->member[1], RGT_MS);
	rgt_stop(s, &s->member[2], RGT_MS);
	rgt_run(s, 2 * RGT_MS);
	for (i = 1; i < 3; i++)
		rgt_drop(s, &s->member[i]);
	when = s->now + RATE_GROUP_MEMORY * BIT(RATE_GROUP_STAMP);
	for (i = 0; i < 4; i++) {
		rgt_run(s, (i > 1 ? when : s->now) + RGT_MS - s->now);
		moves = s->moves;
		rgt_trickle(s, m, 2, 3 * NSEC_PER_USEC);
		RGT_EXPECT(s, s->moves - moves, EQ, i > 1 ? 1 : 2);
		when += 10 * RGT_MS;
	}
}

static const struct rgt_flood {
	const char	*name;
	u32		n;	/* who do that */
	struct rgt_load	load;
} rgt_floods[] = {
	{ "64", 1, { .len = RGT_LEN(64), .ahead = 1 } },
	{ "300", 1, { .len = RGT_LEN(300), .ahead = 1 } },
	{ "1514", 1, { .len = RGT_LEN(1514), .ahead = 1 } },
	{ "20 x 64", 20, { .len = RGT_LEN(64), .ahead = 1 } },
	{ "20 x 300", 20, { .len = RGT_LEN(300), .ahead = 1 } },
	{ "20 x 1514", 20, { .len = RGT_LEN(1514), .ahead = 1 } },
	{ "overhead", 1,
	  { .len = RGT_LEN(64), .overhead = 600, .ahead = 1 } },
	{ "lone 64", 1, { .len = RGT_LEN(64), .ahead = 1, .single = true } },
	{ "lone", 1, { .len = RGT_LEN(1514), .ahead = 1, .single = true } },
	{ "lone, pauses", 1, { .len = RGT_LEN(1514), .ahead = 1,
			       .single = true, .pause = 100000 } },
	/* One that goes ahead, one that has its turn, and so on */
	{ "rhythm", 1, { .len = RGT_LEN(1514), .ahead = 2, .single = true } },
	{ "10 x rhythm", 10, { .len = RGT_LEN(1514), .ahead = 2,
			       .single = true } },
};

KUNIT_ARRAY_PARAM_DESC(rgt_floods, rgt_floods, name);

/* Those that go ahead do no harm: they take what they may at once, and of the
 * rate; and, but for a few quanta, no more than their share
 */
static void rgt_test_flood(struct kunit *test)
{
	const struct rgt_flood *p = test->param_value;
	struct rgt *s = rgt_new(test, RGT_GBIT, 20, &rgt_equal, 1);
	u32 part, most = RATE_GROUP_AHEAD;
	struct rgt_member *m;

	rgt_fill(s, 0, 20, &rgt_equal);
	if (p->load.single)
		rgt_begin(s, 0, p->n, &p->load);
	else
		rgt_fill(s, 0, p->n, &p->load);
	rgt_run(s, 20 * RGT_MS);
	rgt_run_anew(s, 200 * RGT_MS);

	if (p->load.len[0] > RATE_GROUP_SMALL)
		most /= 2;
	RGT_EXPECT(s, rgt_max(&s->ahead), LE, most);
	RGT_EXPECT(s, rgt_max(&s->ahead), GT, 0);
	/* Of what is granted: some 18 slots */
	if (most == RATE_GROUP_AHEAD)
		RGT_EXPECT(s, s->went * 18 * RGT_MTU, LE, s->sent * most);
	part = RGT_GBIT / 5 / 20;
	most = 2 * RATE_GROUP_AHEAD + RATE_GROUP_OWED * RGT_MTU;
	for (m = s->member; m < s->member + s->n; m++) {
		RGT_EXPECT(s, m->sent, LE, part + most);
		if (m >= s->member + p->n || !p->load.single)
			RGT_EXPECT(s, m->sent, GE, part - most);
	}
	rgt_expect_on_time(s);
	rgt_expect_exact(s);
}

/* A sparse flow does not wait, and pays what it cost more, or less, than it
 * asked for. After a flood the rest has its turn again soon.
 */
static void rgt_test_sparse(struct kunit *test)
{
	static const struct rgt_load loads[] = {
		{ .len = RGT_LEN(64), .ahead = 1, .overhead = 300 },
		{ .len = RGT_LEN(1514), .ahead = 1, .overhead = -14 },
	};
	struct rgt_member *m;
	struct rgt *s;
	u64 bytes;
	u32 i, j;
	bool ahead;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = rgt_new(test, RGT_GBIT, 32, &loads[i], i);
		m = s->member;
		ahead = rate_group_ahead(&m->part, s->start, 64);
		RGT_EXPECT(s, ahead, EQ, false);
		rgt_fill(s, 1, 32, &rgt_equal);
		rgt_run(s, 5 * RGT_MS);
		for (j = 0; j < 500; j++) {
			rgt_trickle(s, m, 1, 400 * NSEC_PER_USEC);
			RGT_EXPECT(s, abs(m->part.unpaid), LE,
				   rgt_longest(&loads[i]));
		}
		RGT_EXPECT(s, m->wait, EQ, 0);
		rgt_expect_on_time(s);

		rgt_fill(s, 0, 1, &loads[i]);
		rgt_run(s, 100 * RGT_MS);
		rgt_fill(s, 0, 1, &rgt_equal);
		m->wait = 0;
		rgt_run(s, 50 * RGT_MS);
		bytes = (RATE_GROUP_OWED + 2ULL) * s->n * RGT_MTU;
		RGT_EXPECT(s, m->wait, LE, rgt_ns(s, bytes));
	}
}

/* A packet that goes ahead comes out of the slot that its member waits for, if
 * there is enough left of it; then nobody else waits for it. It takes nothing
 * of what was paid for in advance: that is for others.
 */
static void rgt_test_own(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 8, &rgt_equal, 1);
	struct rate_group_member *part = &s->member->part;
	s64 left, excess;
	u64 tail, paid;
	u32 i;

	rgt_fill(s, 0, 8, &rgt_equal);
	rgt_run(s, RGT_MS);
	while (!time_after64(part->next, rgt_now(s) + 20000))
		rgt_run(s, NSEC_PER_USEC);
	RGT_EXPECT(s, part->left, EQ, 2 * RGT_MTU);
	part->credit = 1000;
	for (i = 1; i <= 12; i++) {
		left = part->left;
		excess = part->excess;
		tail = rgt_tail(s);
		RGT_EXPECT(s, rate_group_ahead(part, rgt_now(s), 300), EQ,
			   true);
		rate_group_charge(part, rgt_now(s), 300);
		paid = i <= 10 ? 0 : 300;
		RGT_EXPECT(s, part->unpaid, EQ, 0);
		RGT_EXPECT(s, part->left, EQ, left - 300 + paid);
		RGT_EXPECT(s, part->excess, EQ, excess + paid);
		rgt_expect_near(s, rgt_tail(s), tail + rgt_ns(s, paid), 1,
				"tail");
		RGT_EXPECT(s, part->credit, EQ, 1000);
	}
	rate_group_charge(part, rgt_now(s), 300);
	RGT_EXPECT(s, part->credit, EQ, 700);
	RGT_EXPECT(s, part->unpaid, EQ, 0);

	/* It is not late, because a backlog that waited is gone */
	rgt_drop(s, s->member);
	rgt_run(s, RGT_MS);
	RGT_EXPECT(s, rate_group_ahead(part, rgt_now(s), 300), EQ, true);
	rate_group_charge(part, rgt_now(s), 300);
	RGT_EXPECT(s, part->lag, EQ, 0);
}

/* What a member has had too much, others have had after a quantum a round; and
 * if there are no others, nobody misses it
 */
static void rgt_test_excess(struct kunit *test)
{
	struct rate_group_member *part;
	struct rgt *s;
	s64 excess;
	u32 i, q;

	for (i = 0; i < 10; i++) {
		s = rgt_new(test, RGT_GBIT, 8, &rgt_mixed, i);
		part = &s->member->part;
		rgt_fill(s, 1, 8, &rgt_big);
		rgt_run(s, RGT_MS);
		q = rgt_quantum(s);
		for (excess = 0; excess < 5 * q; excess += 9000)
			rate_group_charge(part, rgt_now(s), 9000);
		RGT_EXPECT(s, part->excess, EQ, excess);
		part->next = rgt_now(s);
		rgt_run(s, i * rgt_ns(s, 7 * q / 2));
		rate_group_arrive(part, rgt_now(s));
		/* The slots of the others are rounded */
		rgt_expect_near(s, excess - part->excess,
				min(excess, i * q / 2), q + RGT_MTU / 2,
				"pause");
	}
	/* Who owes a quantum passes a turn, which takes nothing off it if it
	 * was not passed
	 */
	for (i = 0; i < 2; i++) {
		rgt_add(s, s->member, 1);
		part->excess = i ? 5 * q : q - 1;
		rgt_run(s, 1);
		RGT_EXPECT(s, part->passing, EQ, i);
		rgt_drop(s, s->member);
	}
	RGT_EXPECT(s, part->excess, EQ, 5 * q);

	for (i = 1; i < s->n; i++)
		rgt_drop(s, &s->member[i]);
	rgt_run(s, 10 * RGT_MS);
	part->excess = 9000;
	part->next = rgt_now(s) - 9000;
	rate_group_arrive(part, rgt_now(s));
	RGT_EXPECT(s, part->excess, EQ, 0);
}

/* What is left of a slot goes back, as far as there is time to use it */
static void rgt_test_refund(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 2, &rgt_equal, 1);
	struct rgt_member *other = &s->member[1];
	u64 tail, slot;
	u32 i;

	rgt_fill(s, 0, 1, &rgt_equal);
	rgt_run(s, 5 * RGT_MS);
	for (i = 0; i < 1000; i++) {
		tail = rgt_tail(s);
		rgt_add(s, other, 8);
		rgt_run(s, 1);
		slot = rgt_tail(s) - tail;
		RGT_EXPECT(s, slot, GE, rgt_ns(s, 7 * RGT_MTU));
		rgt_drop(s, other);
		rgt_expect_near(s, rgt_tail(s), tail, 2, "back");
		rgt_run(s, 60 * NSEC_PER_USEC + rgt_random(s, 60000));
	}
	rgt_expect_on_time(s);

	/* A frame is not worth it, but pays for the next one */
	rgt_add(s, other, 1);
	rgt_run(s, 1);
	tail = rgt_tail(s);
	for (i = 0; i < 10; i++) {
		if (i % 2) {
			rgt_add(s, other, 1);
			rgt_run(s, 1);
		} else {
			rgt_drop(s, other);
		}
		RGT_EXPECT(s, rgt_tail(s), EQ, tail);
	}

	/* Time that has passed is gone, though; at a new rate as well */
	for (i = 0; i < 2; i++) {
		s = rgt_new(test, RGT_GBIT, 1, &rgt_equal, i);
		rgt_add(s, s->member, 64);
		rgt_run(s, 1);
		rgt_stop(s, s->member, NSEC_PER_SEC);
		rgt_set_rate(s, i ? RGT_GBIT / 10 : RGT_GBIT);
		rgt_update(s);
		rgt_run(s, rgt_ns(s, 7 * RGT_MTU));
		RGT_EXPECT(s, rgt_tail(s), GT, rgt_now(s));
		rgt_drop(s, s->member);
		rgt_expect_near(s, rgt_tail(s), rgt_now(s), 1, "gone");
	}
}

/* A member that leaves takes nothing along, and leaves no debt */
static void rgt_test_leave(struct kunit *test)
{
	static const struct rgt_load debt = {
		.len = RGT_LEN(1514), .overhead = 6000,
	};
	struct rgt_member *m;
	struct rgt *s;
	u64 tail;
	u32 i, j;

	/* In the middle of a slot or before it; with something not paid for */
	for (j = 0; j < 2; j++) {
		s = rgt_new(test, RGT_GBIT, 2, j ? &debt : &rgt_equal, j);
		rgt_fill(s, 0, 1, &rgt_equal);
		m = &s->member[1];
		for (i = 0; i < 1000; i++) {
			rgt_add(s, m, j ? 1 : 64);
			rgt_run(s, j ? 400000 : rgt_random(s, 300000));
			if (j)
				RGT_EXPECT(s, m->backlog, EQ, 0);
			rtnl_lock();
			rate_group_leave(&m->part, rgt_clock(s, m));
			rgt_drop(s, m);
			rgt_run(s, rgt_random(s, j ? 0 : 300000));
			rate_group_join(&s->group, &m->part, true,
					rgt_clock(s, m));
			rtnl_unlock();
		}
		/* Slots that others took after the one given back stay there */
		rgt_expect(s, rgt_bound(s, true) + RATE_GROUP_QUANTUM, j ?
			   rgt_bound(s, true) : 1000 * rgt_quantum(s) / 2);
	}

	/* What is too old to be given back */
	rgt_drop(s, s->member);
	rgt_run(s, RGT_MS);
	m->part.unpaid = -RGT_MTU;
	tail = rgt_tail(s);
	rate_group_leave(&m->part, rgt_clock(s, m));
	RGT_EXPECT(s, rgt_tail(s), EQ, tail);
}

/* The rate changes all the time, from and to anything. What is measured is what
 * all those rates add up to. Whoever comes before it knows of a change waits.
 */
static void rgt_test_rates(struct kunit *test)
{
	static const struct rgt_load load = {
		.len = RGT_LEN(1514), .burst = 8, .pause = 500000,
	};
	struct rgt *s = rgt_new(test, RGT_GBIT, 8, &load, 1);
	u64 bound = 0, rate, tail, when, now;
	struct rgt_member *m;
	bool limited, may;
	s64 excess;
	u32 i, x;

	rgt_begin(s, 0, s->n, &load);
	for (i = 0; i < 1000; i++) {
		bound = max(bound, rgt_bound(s, true));
		x = rgt_random(s, 16);
		rate = x ? 10000ULL << x : 0;
		rate += rgt_random(s, rate);
		limited = s->rate;
		rgt_set_rate(s, rate);
		now = rgt_now(s);
		tail = rgt_tail(s);
		for (m = s->member; limited && m < s->member + s->n; m++) {
			may = rate_group_ahead(&m->part, now, 64);
			RGT_EXPECT(s, may, EQ, false);
			if (m->part.left > 0)
				continue;
			excess = m->part.excess;
			may = !rate_group_wait(&m->part, now, 5000, 0, &when);
			RGT_EXPECT(s, may, EQ, false);
			RGT_EXPECT(s, m->part.excess, EQ, excess);
			RGT_EXPECT(s, when, EQ, now + RGT_MS);
		}
		RGT_EXPECT(s, rgt_tail(s), EQ, tail);
		rgt_update(s);
		for (m = s->member; rate && m < s->member + s->n; m++) {
			if (!limited)
				RGT_EXPECT(s, m->part.left, EQ, 0);
			RGT_EXPECT(s, (s64)(tail - m->part.end), GE, 0);
		}
		/* So that there is no backlog without end */
		for (m = s->member; m < s->member + s->n; m++)
			if (m->backlog > 1000000)
				rgt_drop(s, m);
		rgt_run(s, rgt_random(s, 2000000));
	}
	/* Slots whose backlog vanished are made up for when others were sent */
	bound += s->n * RATE_GROUP_QUANTUM;
	rgt_expect(s, bound, bound);
}

/* Changes of the rate forgive nothing, and keep nobody waiting, whatever was
 * asked for in between
 */
static void rgt_test_change(struct kunit *test)
{
	static const struct {
		u64	from, to, ns;
		u32	times;
	} changes[] = {
		{ 125000, RGT_GBIT, 20 * RGT_MS, 2 },
		{ 125000, 64, 40000 * RGT_MS, 20 },
		{ RGT_GBIT, 100 * RGT_GBIT, RGT_MS, 20 },
		{ 64, RGT_GBIT, RGT_MS, 2 },
	}, *p;
	struct rgt *s;
	u32 i, j;
	u64 bound;

	for (p = changes; p < changes + ARRAY_SIZE(changes); p++) {
		s = rgt_new(test, p->from, 16, &rgt_equal, p - changes);
		bound = rgt_bound(s, true);
		rgt_fill(s, 0, 8, &rgt_equal);
		rgt_run(s, rgt_ns(s, 20 * RGT_MTU));
		for (i = 0; i < p->times; i++) {
			rgt_set_rate(s, i % 2 ? p->from : p->to);
			bound = max(bound, rgt_bound(s, true));
			for (j = 8; j < s->n; j++) {
				rgt_add(s, &s->member[j], 1);
				rgt_call(s, &s->member[j]);
			}
			rgt_update(s);
			rgt_run(s, i % 2 ? rgt_ns(s, 40 * RGT_MTU) : p->ns);
		}
		rgt_expect(s, bound, bound);
	}

	/* A backlog that began long after it has nothing to wait for */
	s = rgt_new(test, 100 * RGT_GBIT, 1, &rgt_equal, 4);
	rgt_set_rate(s, 64);
	rgt_run(s, 1000 * 1000 * RGT_MS);
	rgt_add(s, s->member, 1);
	rgt_update(s);
	RGT_EXPECT(s, s->member->part.next, EQ, rgt_now(s));
}

/* Owing something, which takes its time at the new rate */
static void rgt_drop_out(struct rgt *s, struct rgt_member *m)
{
	u64 tail;

	rate_group_idle(&m->part, rgt_clock(s, m));
	m->part.unpaid = 1000;
	tail = rgt_tail(s);
	rate_group_leave(&m->part, rgt_clock(s, m));
	rgt_expect_near(s, rgt_tail(s), tail + rgt_ns(s, 1000), 1, "debt");
	rgt_drop(s, m);
}

/* What is given back between a change of the rate and the update, by a backlog
 * that vanishes or a member that leaves, is of the old rate, too; and who may
 * not go ahead at the old one may at the new one
 */
static void rgt_test_between(struct kunit *test)
{
	struct rgt_member *m;
	u64 now, tail;
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < 8; i++) {
		s = rgt_new(test, i & 1 ? RGT_GBIT : RGT_GBIT / 1000, 9,
			    &rgt_equal, i);
		m = &s->member[8];
		rgt_fill(s, 0, 8, &rgt_equal);
		rgt_run(s, rgt_ns(s, 20 * RGT_MTU));
		now = rgt_now(s);
		for (j = 0; rate_group_ahead(&m->part, now, 64); j++)
			rate_group_charge(&m->part, now, 64);
		RGT_EXPECT(s, j, GE, 10);
		rgt_set_rate(s, s->rate);
		RGT_EXPECT(s, rate_group_ahead(&m->part, now, 64), EQ, false);
		rgt_set_rate(s, i & 1 ? RGT_GBIT / 1000 : RGT_GBIT);
		tail = rgt_tail(s);
		for (j = 0; j < 4; j++) {
			if (i & 2)
				rgt_drop(s, &s->member[j]);
			else
				rgt_drop_out(s, &s->member[j]);
		}
		if (i & 2)
			RGT_EXPECT(s, rgt_tail(s), EQ, tail);
		rgt_update(s);
		RGT_EXPECT(s, rate_group_ahead(&m->part, now, 64), EQ, true);
		rate_group_charge(&m->part, now, 64);
		s->excess.level = 0;
		rgt_run(s, rgt_ns(s, 100 * RGT_MTU));
		rgt_expect(s, rgt_bound(s, true) + 4096, U64_MAX);
	}

	/* A tail that a member has read is not one to reserve with any more */
	s = rgt_new(test, RGT_GBIT / 1000, 1, &rgt_equal, i);
	atomic64_set(&s->group.tail, rgt_now(s));
	rgt_set_rate(s, RGT_GBIT);
	RGT_EXPECT(s, rgt_tail(s), NE, rgt_now(s));

	/* What was not used before is not time at the new rate */
	s = rgt_new(test, RGT_GBIT / 1000, 1, &rgt_equal, i);
	rgt_fill(s, 0, 1, &rgt_equal);
	rgt_run(s, 100 * RGT_MS);
	rgt_stop(s, s->member, 40 * RGT_MS);
	rgt_run(s, 40 * RGT_MS - 1);
	rgt_set_rate(s, RGT_GBIT);
	rgt_update(s);
	rgt_run(s, 10 * RGT_MS);
	rgt_expect(s, 2 * RGT_MTU + rgt_bound(s, true), U64_MAX);
}

/* Slots of its own length: who takes them gets as much more, or less */
static void rgt_test_take(struct kunit *test)
{
	static const struct rgt_load loads[] = {
		{ .len = RGT_LEN(1514), .take = 1514 },
		{ .len = RGT_LEN(1514), .take = 3 * 1514 },
		{ .len = RGT_LEN(1514), .take = 40 * 1514 },
		{ .len = RGT_ANY, .take = 8 * 1514 },
	};
	u64 others, want;
	struct rgt *s;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = rgt_new(test, RGT_GBIT, 41, &rgt_equal, i);
		rgt_fill(s, 0, 1, &loads[i]);
		rgt_fill(s, 1, 41, &rgt_equal);
		rgt_run(s, 100 * RGT_MS);
		rgt_run_anew(s, 400 * RGT_MS);

		others = s->sent - s->member->sent;
		want = mul_u64_u64_div_u64(others, loads[i].take, 40 * RGT_MTU);
		rgt_expect_near(s, s->member->sent, want, div_u64(want, 33),
				"more or less");
		rgt_expect_on_time(s);
	}
}

/* Shares are as weights. A member of little weight gets a frame every few
 * rounds, which last no longer.
 */
static void rgt_test_weights(struct kunit *test)
{
	static const u32 weights[][8] = { /* in tenths */
		{ 50, 30, 20, 20, 20, 10, 10, 10 },
		{ 5000, 10, 10, 10, 10, 10, 10, 10 },
		{ 1, 1, 1, 1, 1, 1, 1, 10 },
		{ 80, 80, 80, 80, 80, 80, 80, 80 },
	};
	static const u64 rates[] = { RGT_GBIT / 100, RGT_GBIT, 100 * RGT_GBIT };
	u64 all, want, share;
	struct rgt_member *m;
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(weights); i++) {
		s = rgt_new(test, rates[i % ARRAY_SIZE(rates)], 8, &rgt_equal,
			    i);
		for (j = 0, all = 0; j < 8; j++) {
			want = weights[i / ARRAY_SIZE(rates)][j];
			s->member[j].part.weight =
				want * RATE_GROUP_WEIGHT / 10;
			all += want;
		}
		rgt_fill(s, 0, 8, &rgt_equal);
		rgt_run(s, 100 * RGT_MS);
		rgt_run_anew(s, rgt_ns(s, 8 * 1000 * RATE_GROUP_QUANTUM));
		for (j = 0; j < 8; j++) {
			want = weights[i / ARRAY_SIZE(rates)][j];
			share = div64_u64(s->sent * want, all);
			rgt_expect_near(s, s->member[j].sent, share,
					share / 100 + 2 * RATE_GROUP_QUANTUM,
					"share");
		}
		rgt_expect_on_time(s);

		/* Without a backlog, a weight counts on until it is 0 */
		m = s->member + 1;
		want = weights[i / ARRAY_SIZE(rates)][1];
		share = div64_u64(rgt_ns(s, RGT_MTU) * all, want);
		rgt_drop(s, s->member);
		rgt_expect_near(s, rate_group_round(&m->part, m->part.weight),
				share, share / 100, "round");
		s->member[0].part.weight = 0;
		rate_group_idle(&s->member[0].part, rgt_now(s));
		all -= weights[i / ARRAY_SIZE(rates)][0];
		share = div64_u64(rgt_ns(s, RGT_MTU) * all, want);
		rgt_expect_near(s, rate_group_round(&m->part, m->part.weight),
				share, share / 100, "round");
		rgt_run_anew(s, rgt_ns(s, 8 * 1000 * RATE_GROUP_QUANTUM));
		want = weights[i / ARRAY_SIZE(rates)][1];
		share = div64_u64(s->sent * want, all);
		rgt_expect_near(s, m->sent, share,
				share / 100 + 2 * RATE_GROUP_QUANTUM, "share");

		for (j = 1; j < 8; j++) {
			s->member[j].part.weight = 0;
			rgt_drop(s, &s->member[j]);
		}
		RGT_EXPECT(s, atomic64_read(&s->group.weights), EQ, 0);
	}
}

/* Two of 64 members have flows of hosts that have many more: what the idle ones
 * could have does not matter. Beside them a light one goes ahead at once.
 */
static void rgt_test_light(struct kunit *test)
{
	struct rgt_load load = { .len = RGT_LEN(200), .ahead = 1 };
	struct rgt_member *m;
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < 4; i++) {
		s = rgt_new(test, i & 1 ? RGT_GBIT / 10 : RGT_GBIT, 64,
			    &rgt_equal, i);
		m = s->member;
		m[0].part.weight = RATE_GROUP_WEIGHT * (i & 2 ? 1000 : 3) / 100;
		m[1].part.weight = RATE_GROUP_WEIGHT / 100;
		rgt_fill(s, 0, 2, &rgt_equal);
		rgt_run(s, 100 * RGT_MS);
		rgt_run_anew(s, rgt_ns(s, 4000000));
		rgt_expect_near(s, s->sent, m[1].sent * (i & 2 ? 1001 : 4),
				div_u64(s->sent, i & 2 ? 2 : 50), "by weight");
		rgt_expect_on_time(s);

		m[2].load = &load;
		m[2].part.weight = m[1].part.weight;
		for (j = 0; j < 20; j++) {
			rgt_drop(s, &m[2]);
			m[2].wait = 0;
			rgt_add(s, &m[2], 1);
			rgt_run(s, 20 * RGT_MS);
			RGT_EXPECT(s, m[2].wait, LE,
				   rgt_ns(s, 2 * RGT_MTU));
		}
	}
}

/* Who always asks for less than a quantum does not save up the rest */
static void rgt_test_credit(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 2, &rgt_small, 1);
	struct rgt_member *m = &s->member[1];
	u32 i;

	rgt_fill(s, 0, 1, &rgt_equal);
	for (i = 0; i < 1000; i++) {
		if (m->backlog <= 64)
			rgt_add(s, m, 1);
		rgt_run(s, NSEC_PER_USEC);
		RGT_EXPECT(s, m->part.excess, GE, -64);
	}
	rgt_fill(s, 1, 2, &rgt_equal);
	rgt_run_anew(s, RGT_MS);
	rgt_expect_near(s, m->sent, s->member->sent, 2 * rgt_quantum(s),
			"half");
}

/* A rank gets what smaller ones do not want, all of that, and at once */
static void rgt_test_ranks(struct kunit *test)
{
	struct rgt_load half = { .len = RGT_LEN(1514), .burst = 1 };
	struct rgt_member *m;
	struct rgt *s;
	u64 hold;
	u32 i;

	for (i = 0; i < 12; i++) {
		s = rgt_new(test, i & 1 ? RGT_GBIT / 10 : 10 * RGT_GBIT, 6,
			    &rgt_equal, i);
		m = s->member;
		m[1].part.rank = RATE_GROUP_RANK + 1;
		m[2].part.rank = RATE_GROUP_RANK + 1;
		m[3].part.rank = RATE_GROUP_RANK + 3;
		rgt_fill(s, 0, 4, &rgt_equal);
		rgt_run(s, RGT_MS);
		rgt_run_anew(s, rgt_ns(s, 1000 * RATE_GROUP_QUANTUM));
		RGT_EXPECT(s, s->sent - m[0].sent, EQ, 0);
		rgt_expect_on_time(s);
		hold = rgt_bytes(s, RATE_GROUP_HOLD);

		/* 2 x 25 percent, packet by packet */
		half.pause = rgt_ns(s, 8 * 1514);
		rgt_begin(s, 0, 1, &half);
		rgt_begin(s, 4, 5, &half);
		rgt_run(s, RGT_MS);
		rgt_run_anew(s, rgt_ns(s, 1000 * RATE_GROUP_QUANTUM));
		rgt_expect_near(s, m[0].sent, s->sent / 4, s->sent / 20,
				"a quarter");
		rgt_expect_near(s, m[1].sent, m[2].sent, s->sent / 50, "turns");
		RGT_EXPECT(s, m[3].sent, EQ, 0);
		/* They may make up for what they waited for in vain */
		rgt_expect(s, rgt_bound(s, true) + hold,
			   rgt_bound(s, true) + hold);

		for (m = s->member; m < s->member + 5; m++) {
			m->arrive = RGT_NEVER;
			if (m - s->member != 3)
				rgt_drop(s, m);
		}
		rgt_run(s, RGT_MS);
		rgt_run_anew(s, rgt_ns(s, 1000 * RATE_GROUP_QUANTUM));
		rgt_expect_near(s, s->member[3].sent, 1000 * RATE_GROUP_QUANTUM,
				2 * RATE_GROUP_QUANTUM, "all");
	}
}

/* Who has nothing to send lets nobody wait. Bursts of a slot, every 50 us,
 * would hold all later ranks for ever.
 */
static void rgt_test_hold(struct kunit *test)
{
	static const u64 rates[] = { 1, 10, 25, 100, 400 };
	struct rgt_load burst = { .len = RGT_LEN(1490), .burst = 1 };
	struct rgt *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		s = rgt_new(test, rates[i] * RGT_GBIT, 2, &rgt_equal, i);
		s->member[0].load = &burst;
		s->member[0].part.rank = i & 1 ? 0 : RATE_GROUP_RANK - 2;
		rgt_fill(s, 1, 2, &rgt_equal);
		rgt_run_anew(s, RGT_MS);
		for (j = 0; j < 100; j++) {
			rgt_add(s, &s->member[0], 11);
			rgt_run(s, 50 * NSEC_PER_USEC);
		}
		rgt_expect_near(s, s->sent, rgt_bytes(s, 6 * RGT_MS),
				rgt_bytes(s, 30 * NSEC_PER_USEC) +
				rgt_bound(s, false), "all of the rate");
		/* If any rank is used, the smaller one goes first */
		RGT_EXPECT(s, s->member[0].wait, LE,
			   rgt_ns(s, 13 * RGT_MTU) +
			   rgt_ns(s, RATE_GROUP_QUANTUM));
	}
}

/* A hold ends when its backlog is gone, or its member takes another rank. Who
 * has waited for long would not look again before it is over, 50 us later.
 */
static void rgt_test_release(struct kunit *test)
{
	const struct rgt_load burst = { .len = RGT_LEN(1490), .burst = 1 };
	struct rgt_member *m;
	struct rgt *s;
	u64 sent;
	u32 i, j;

	for (i = 0; i < 2; i++) {
		s = rgt_new(test, 10 * RGT_GBIT, 3, &rgt_equal, i);
		m = s->member;
		rgt_fill(s, 1, 2, &rgt_equal);
		for (j = 0; j < 20; j++) {
			m[0].part.rank = RATE_GROUP_RANK - 2;
			rgt_fill(s, 0, 1, &rgt_equal);
			rgt_run(s, RGT_MS);
			if (i)
				m[0].part.rank = RATE_GROUP_RANK + 2;
			else
				rgt_drop(s, &m[0]);
			rgt_run(s, 200 * NSEC_PER_USEC);
		}
		/* For a slot, and a 128th of the time */
		RGT_EXPECT(s, m[1].wait, LE, RGT_MS + 20 * NSEC_PER_USEC);
	}

	/* Siblings of that rank still go before later ones */
	m[0].part.rank = RATE_GROUP_RANK - 2;
	m[2].part.rank = RATE_GROUP_RANK - 2;
	m[2].load = &burst;
	rgt_run(s, RGT_MS);
	sent = m[1].sent;
	for (j = 0; j < 100; j++) {
		rgt_add(s, &m[2], 11);
		rgt_run(s, 50 * NSEC_PER_USEC);
	}
	RGT_EXPECT(s, m[1].sent, EQ, sent);

	/* Nobody waits because an earlier backlog has waited for long */
	for (i = 0; i < 3; i++)
		rgt_drop(s, &m[i]);
	rgt_run(s, RGT_MS);
	rgt_add(s, &m[2], 11);
	rgt_run(s, NSEC_PER_USEC);
	m[1].wait = 0;
	rgt_add(s, &m[1], 1);
	rgt_run(s, RGT_MS);
	RGT_EXPECT(s, m[1].wait, LE, rgt_ns(s, 12 * RGT_MTU));
}

/* What the group knows of its members is forgotten within two seconds */
static void rgt_test_forget(struct kunit *test)
{
	struct rgt *s = rgt_new_full(test, RGT_GBIT / 100, 4, &rgt_equal, 1);
	static const struct rgt_load huge = { .len = RGT_LEN(65102) };
	u32 i;

	for (i = 0; i < 3; i++) {
		rgt_fill(s, 0, 1, i == 1 ? &rgt_big : &huge);
		s->member[0].part.rank = RATE_GROUP_RANK + 1 - i;
		rgt_run(s, 3000 * RGT_MS);
		RGT_EXPECT(s, s->group.longest, EQ,
			   i == 1 ? 9000 : 65102);
		if (i == 1)
			RGT_EXPECT(s, (u32)(rgt_now(s) >> RATE_GROUP_STAMP) -
				   s->group.ranked, GT, RATE_GROUP_MEMORY);
	}
	/* Whoever is of rank 5 is the only one who sends */
	RGT_EXPECT(s, (u32)(rgt_now(s) >> RATE_GROUP_STAMP) - s->group.ranked,
		   LE, RATE_GROUP_MEMORY);
	rgt_fill(s, 0, 1, &rgt_equal);
	rgt_run(s, 4000 * RGT_MS);
	RGT_EXPECT(s, s->group.longest, EQ, RGT_MTU);
}

/* What a user is told about who has how much of the rate */
static void rgt_test_share(struct kunit *test)
{
	struct rgt *s = rgt_new(test, RGT_GBIT, 4, &rgt_equal, 1);
	struct rate_group_member *part = &s->member->part;
	u64 share, now;

	RGT_EXPECT(s, rate_group_share(part, s->start), EQ, 0);
	rgt_fill(s, 0, 4, &rgt_equal);
	rgt_run(s, 500 * RGT_MS);
	now = rgt_now(s);
	share = rate_group_share(part, now);
	rgt_expect_near(s, share, RGT_GBIT / 4, RGT_GBIT / 400, "share");
	RGT_EXPECT(s, rate_group_recent(part, now), EQ, true);
	/* By somebody who looked at the clock before it sent the last packet */
	RGT_EXPECT(s, rate_group_recent(part, now - RGT_MS), EQ, true);
	now -= 150 * RGT_MS;
	RGT_EXPECT(s, rate_group_share(part, now), EQ, share);

	rgt_drop(s, s->member);
	rgt_run(s, 2 * RGT_MS);
	now = rgt_now(s);
	RGT_EXPECT(s, rate_group_recent(part, now), EQ, false);
	rgt_run(s, 500 * RGT_MS);
	now = rgt_now(s);
	RGT_EXPECT(s, rate_group_share(part, now), EQ, 0);
	share = rate_group_share(&s->member[1].part, now);
	rgt_expect_near(s, share, RGT_GBIT / 3, RGT_GBIT / 300, "share");
	rgt_fill(s, 0, 1, &rgt_equal);
	rgt_run(s, RGT_MS);
	RGT_EXPECT(s, rate_group_share(part, rgt_now(s)), EQ, 0);
}

/* Any load; all ask for 20 to 220 percent together */
static void rgt_any_load(struct rgt *s, struct rgt_load *load, u32 seed)
{
	u64 bytes;

	*load = *rgt_loads[rgt_random(s, ARRAY_SIZE(rgt_loads))];
	load->burst = 1 + rgt_random(s, 32);
	if (seed & 1)
		load->late = rgt_random(s, 3 * RGT_MS);
	if (seed & 2)
		load->stop = rgt_random(s, 10 * RGT_MS);
	if (seed & 4)
		load->drop = 2 + rgt_random(s, 8);
	load->ahead = seed & 8 ? rgt_random(s, 4) : 0;
	load->exempt = (seed & 768) == 768 ? 2 : 0;
	if (seed & 64)
		load->overhead = rgt_random(s, 200) - 50;
	bytes = load->len[2] * (load->burst + 1ULL) * s->n;
	load->pause = rgt_ns(s, div_u64(bytes * 100, 20 + rgt_random(s, 200)));
}

/* Anything at all: the bounds that the comment states, over all windows. What
 * CPUs disagree about the time is sent early or late, and no more.
 */
static void rgt_test_random(struct kunit *test)
{
	bool full, on_time;
	struct rgt_load load[2];
	u64 bound, skew;
	u32 i, seed;
	struct rgt *s;

	for (seed = 1; seed <= 1024; seed++) {
		full = seed & 16;
		on_time = !(seed & 7);
		s = rgt_new(test, 1, seed & 32 ? 41 : 3, &rgt_equal, seed);
		rgt_set_rate(s, (RGT_GBIT / 100) << rgt_random(s, 14));
		rgt_update(s);
		rgt_any_load(s, &load[0], seed);
		rgt_any_load(s, &load[1], seed);
		skew = seed & 128 ? RGT_MS : 0;
		for (i = 0; i < s->n; i++) {
			s->member[i].skew = rgt_random(s, skew);
			s->member[i].seen = false;
			rgt_begin(s, i, i + 1, &load[rgt_random(s, 2)]);
		}
		if (full)
			rgt_fill(s, 0, 1, &rgt_equal);
		rgt_run(s, rgt_ns(s, 3000000));

		bound = rgt_bound(s, on_time) + rgt_bytes(s, skew);
		RGT_EXPECT(s, rgt_max(&s->excess), LE,
			   bound + (on_time ? 0 : rgt_horizon(s)));
		/* Unless all are late, or slots are granted in vain */
		if (on_time || (full && !(seed & 4)))
			RGT_EXPECT(s, rgt_max(&s->shortage), LE, bound);
		for (i = 0; i < s->n; i++)
			RGT_EXPECT(s, (s64)s->member[i].part.stood, GE, 0);
	}
}

static struct kunit_case rgt_cases[] = {
	KUNIT_CASE(rgt_test_numbers),
	KUNIT_CASE(rgt_test_alone),
	KUNIT_CASE_PARAM(rgt_test_saturated, rgt_saturated_gen_params),
	KUNIT_CASE(rgt_test_fair),
	KUNIT_CASE(rgt_test_skipped),
	KUNIT_CASE(rgt_test_claims),
	KUNIT_CASE(rgt_test_lag),
	KUNIT_CASE_PARAM(rgt_test_late, rgt_lateness_gen_params),
	KUNIT_CASE(rgt_test_burst),
	KUNIT_CASE(rgt_test_patience),
	KUNIT_CASE(rgt_test_advance),
	KUNIT_CASE_PARAM(rgt_test_flood, rgt_floods_gen_params),
	KUNIT_CASE(rgt_test_sparse),
	KUNIT_CASE(rgt_test_own),
	KUNIT_CASE(rgt_test_excess),
	KUNIT_CASE(rgt_test_refund),
	KUNIT_CASE(rgt_test_leave),
	KUNIT_CASE(rgt_test_rates),
	KUNIT_CASE(rgt_test_change),
	KUNIT_CASE(rgt_test_between),
	KUNIT_CASE(rgt_test_take),
	KUNIT_CASE(rgt_test_weights),
	KUNIT_CASE(rgt_test_light),
	KUNIT_CASE(rgt_test_credit),
	KUNIT_CASE(rgt_test_ranks),
	KUNIT_CASE(rgt_test_hold),
	KUNIT_CASE(rgt_test_release),
	KUNIT_CASE(rgt_test_forget),
	KUNIT_CASE(rgt_test_share),
	KUNIT_CASE(rgt_test_random),
	{}
};

/* Timers become better with the first tick, and not in the middle of a case */
static int rgt_init_suite(struct kunit_suite *suite)
{
	u32 i;

	for (i = 0; i < 10 && hrtimer_resolution >= TICK_NSEC; i++)
		msleep(20);

	return 0;
}

static int rgt_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct rgt), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static void rgt_exit(struct kunit *test)
{
	struct rgt *s = test->priv;

	if (s)
		kvfree(s->member);
}

static struct kunit_suite rgt_suite = {
	.name = "rate_group",
	.suite_init = rgt_init_suite,
	.init = rgt_init,
	.exit = rgt_exit,
	.test_cases = rgt_cases,
};

kunit_test_suite(rgt_suite);

MODULE_DESCRIPTION("KUnit tests for the rate group");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

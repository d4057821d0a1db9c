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

#define SIM_MTU		1514
#define SIM_FULL	(160 << 10)	/* a backlog without end, bytes */
#define SIM_NEVER	KTIME_MAX
#define SIM_RUNAWAY	BIT(21)		/* packets, more than any case needs */
#define SIM_GBIT	125000000ULL	/* bytes/s */
#define SIM_MS		((u64)NSEC_PER_MSEC)

/* With everything that it takes to see the same again */
#define SIM_EXPECT_MSG(s, a, op, b, what)				\
do {									\
	const struct sim *_sim = (s);					\
									\
	KUNIT_EXPECT_##op##_MSG(_sim->test, a, b,			\
				"%s: n %u rate %llu seed %u", what,	\
				_sim->n, _sim->rate, _sim->seed);	\
} while (0)

#define SIM_EXPECT(s, a, op, b)	SIM_EXPECT_MSG(s, a, op, b, #a)

/* What a member has to do; all numbers are the most that they may be */
struct sim_load {
	u32	len[4];		/* bytes of a packet: one of these */
	s32	overhead;	/* bytes that it costs in addition */
	u32	burst;		/* packets that arrive together */
	u64	pause;		/* until the next, ns */
	u32	late;		/* lateness of one call in four, ns */
	u32	delay;		/* lateness of each call, ns */
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

struct sim_member {
	struct rate_group_member part;
	struct timerqueue_node	node;
	const struct sim_load	*load;
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
struct sim_meter {
	u64			level;
	u64			max;
};

struct sim {
	struct kunit		*test;
	struct rate_group	group;
	struct sim_member	*member;
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
	u64			moves;	/* of the TAT */
	struct sim_meter	excess;
	struct sim_meter	shortage;
	struct sim_meter	ahead;	/* what goes ahead, at R / 4 */
	u64			went;	/* the same, in all, bytes */
};

#define SIM_LEN(x)	{ [0 ... 3] = (x) }
#define SIM_ANY		{ 64, 400, 1000, 1514 }
#define SIM_MIXED	{ 300, 1514, 300, 9000 }

static const struct sim_load sim_equal = { .len = SIM_LEN(SIM_MTU) };
static const struct sim_load sim_small = { .len = SIM_LEN(64) };
static const struct sim_load sim_any = { .len = SIM_ANY };
static const struct sim_load sim_mixed = { .len = SIM_MIXED };
static const struct sim_load sim_gso = { .len = { 1514, 9084, 30280, 65102 } };
static const struct sim_load sim_huge = { .len = SIM_LEN(65102) };

static const struct sim_load *sim_loads[] = {
	&sim_equal, &sim_huge, &sim_mixed, &sim_gso, &sim_any
};

static u64 sim_random(struct sim *s, u64 below)
{
	return mul_u64_u32_shr(below, prandom_u32_state(&s->rnd), 32);
}

static u32 sim_len(const struct sim_load *load, u32 packet)
{
	return load->len[hash_32(packet + 1, 2)];
}

static u32 sim_longest(const struct sim_load *load)
{
	const u32 *len = load->len;

	return max(max(len[0], len[1]), max(len[2], len[3])) +
	       max(load->overhead, 0);
}

static u64 sim_bytes(const struct sim *s, u64 ns)
{
	return mul_u64_u64_div_u64(s->rate, ns, NSEC_PER_SEC);
}

static u64 sim_ns(const struct sim *s, u64 bytes)
{
	return mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, s->rate);
}

static u64 sim_tat(const struct sim *s)
{
	return atomic64_read(&s->group.tat);
}

static u64 sim_now(const struct sim *s)
{
	return s->start + s->now;
}

static u64 sim_clock(const struct sim *s, const struct sim_member *m)
{
	return sim_now(s) + m->skew;
}

/* The clock by which a member keeps its schedules stands still, or goes on */
static void sim_look(struct sim *s, struct sim_member *m)
{
	u64 clock = rate_group_clock(&m->part, sim_clock(s, m));

	if (m->seen && m->part.group)
		SIM_EXPECT(s, (s64)(clock - m->clock), GE, 0);
	m->clock = clock;
	m->seen = m->part.group;
}

static u64 sim_max(const struct sim_meter *meter)
{
	return div_u64(meter->max, NSEC_PER_SEC);
}

static void sim_fill_meter(struct sim_meter *meter, u64 by)
{
	meter->level += by;
	meter->max = max(meter->max, meter->level);
}

static void sim_drain_meter(struct sim_meter *meter, u64 by)
{
	meter->level -= min(meter->level, by);
}

static void sim_advance(struct sim *s, u64 to)
{
	u64 could;

	/* No limit, or time enough to drain anything */
	if (!s->rate || check_mul_overflow(s->rate, to - s->now, &could))
		could = U64_MAX / 2;
	s->now = to;
	sim_drain_meter(&s->excess, could);
	sim_drain_meter(&s->ahead, could / 4);
	if (s->busy && s->rate)
		sim_fill_meter(&s->shortage, could);
	else
		s->shortage.level = 0;
}

static void sim_queue(struct sim *s, struct sim_member *m)
{
	if (timerqueue_node_queued(&m->node))
		timerqueue_del(&s->queue, &m->node);
	m->node.expires = min(max(m->call, m->stopped), m->arrive);
	if (m->node.expires != SIM_NEVER)
		timerqueue_add(&s->queue, &m->node);
}

static void sim_push(struct sim_member *m, u32 packets)
{
	while (packets--)
		m->backlog += sim_len(m->load, m->tail++);
	while (m->full && m->backlog < SIM_FULL)
		m->backlog += sim_len(m->load, m->tail++);
}

static void sim_send(struct sim *s, struct sim_member *m, u64 now)
{
	u32 len = sim_len(m->load, m->head++), cost = len + m->load->overhead;
	u64 bytes = (u64)cost * NSEC_PER_SEC;

	m->wait = max(m->wait, s->now - m->born);
	m->born = s->now;
	m->sent += cost;
	m->backlog -= len;
	sim_push(m, 0);
	s->sent += cost;
	s->total += cost;
	s->packets++;
	sim_drain_meter(&s->shortage, bytes);
	if (s->rate)
		sim_fill_meter(&s->excess, bytes);
	rate_group_sent(&m->part, now, cost);
	if (m->part.rate)
		rate_group_charge(&m->part, now, cost);
	if (m->part.rate && m->load->exempt && !(m->head % m->load->exempt))
		rate_group_exempt(&m->part, cost);
	sim_look(s, m);
	if (m->backlog)
		return;

	s->busy--;
	if (m->load->single)
		m->arrive = s->now + 1 + sim_random(s, m->load->pause);
	if (m->part.rate)
		rate_group_idle(&m->part, now);
}

/* Is it for the member to wait? Then it says until when. */
static bool sim_wait(struct sim *s, struct sim_member *m, u64 now)
{
	u32 len = sim_len(m->load, m->head);
	struct rate_group_member *part = &m->part;
	s64 pays = max(len + part->unpaid, 0);
	u64 when;

	if (!part->rate || rate_group_may_send(part, now, m->backlog))
		return false;
	if (m->load->ahead && !(m->head % m->load->ahead) &&
	    rate_group_go_ahead(part, now, len)) {
		sim_fill_meter(&s->ahead, pays * NSEC_PER_SEC);
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
	if (time_after64(when, now))
		m->call += m->load->delay;
	if (m->load->late && !sim_random(s, 4))
		m->call += sim_random(s, m->load->late);
	return true;
}

/* What a qdisc does in its ->dequeue(), which is called until it has to wait */
static void sim_call(struct sim *s, struct sim_member *m)
{
	u64 tat, now = sim_clock(s, m);
	bool wait = false;

	s->calls++;
	m->call = SIM_NEVER;
	while (!wait && m->backlog && s->packets < SIM_RUNAWAY) {
		tat = sim_tat(s);
		wait = sim_wait(s, m, now);
		s->moves += sim_tat(s) != tat;
		sim_look(s, m);
		if (!wait)
			sim_send(s, m, now);
		sim_look(s, m);
	}
}

/* The backlog of a member vanishes */
static void sim_drop(struct sim *s, struct sim_member *m)
{
	sim_look(s, m);
	m->full = false;
	m->call = SIM_NEVER;
	m->head = m->tail;
	if (m->backlog) {
		s->busy--;
		m->backlog = 0;
		if (m->part.rate)
			rate_group_idle(&m->part, sim_clock(s, m));
		if (m->part.rate)
			SIM_EXPECT(s, m->part.surplus, GE, 0);
	}
	sim_look(s, m);
	sim_queue(s, m);
}

static void sim_add(struct sim *s, struct sim_member *m, u32 packets)
{
	if (!m->backlog) {
		s->busy++;
		m->born = s->now;
		if (m->part.rate)
			rate_group_arrive(&m->part, sim_clock(s, m));
		sim_look(s, m);
	}
	sim_push(m, packets);
	m->call = s->now;
	sim_queue(s, m);
}

/* From now on there always is more, for members first to last - 1 */
static void sim_fill(struct sim *s, u32 first, u32 last,
		     const struct sim_load *load)
{
	struct sim_member *m;

	for (m = s->member + first; m < s->member + last; m++) {
		sim_drop(s, m);
		m->load = load;
		m->full = true;
		m->arrive = SIM_NEVER;
		sim_add(s, m, 1);
	}
}

static void sim_stop(struct sim *s, struct sim_member *m, u64 ns)
{
	m->stopped = ns == SIM_NEVER ? ns : s->now + ns;
	sim_queue(s, m);
}

static void sim_arrive(struct sim *s, struct sim_member *m)
{
	const struct sim_load *load = m->load;

	m->arrive = SIM_NEVER;
	if (!load->single)
		m->arrive = s->now + 1 + sim_random(s, load->pause);
	if (m->full || (load->single && m->backlog))
		return;
	sim_add(s, m, 1 + sim_random(s, load->burst));
	if (load->stop && !sim_random(s, 16))
		sim_stop(s, m, sim_random(s, load->stop));
	if (load->drop && !sim_random(s, load->drop))
		sim_drop(s, m);
}

/* From now on packets arrive, at members first to last - 1 */
static void sim_begin(struct sim *s, u32 first, u32 last,
		      const struct sim_load *load)
{
	struct sim_member *m;

	for (m = s->member + first; m < s->member + last; m++) {
		sim_drop(s, m);
		m->load = load;
		m->arrive = s->now + sim_random(s, load->pause);
		sim_queue(s, m);
	}
}

static void sim_run(struct sim *s, u64 ns)
{
	struct timerqueue_node *node;
	u64 until = s->now + ns;
	struct sim_member *m;

	while ((node = timerqueue_getnext(&s->queue)) &&
	       node->expires <= until && s->packets < SIM_RUNAWAY) {
		m = container_of(node, struct sim_member, node);
		sim_advance(s, node->expires);
		if (m->arrive <= s->now)
			sim_arrive(s, m);
		if (m->call <= s->now && m->stopped <= s->now)
			sim_call(s, m);
		sim_queue(s, m);
	}
	SIM_EXPECT(s, s->packets, LT, SIM_RUNAWAY);
	sim_advance(s, until);
}

/* Measure from now on */
static void sim_run_anew(struct sim *s, u64 ns)
{
	struct sim_member *m;

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
	sim_run(s, ns);
}

static void sim_set_rate(struct sim *s, u64 rate)
{
	rtnl_lock();
	rate_group_set_rate(&s->group, rate, sim_now(s));
	rtnl_unlock();
	s->rate = s->group.rate;
}

static void sim_update(struct sim *s)
{
	struct sim_member *m;

	rtnl_lock();
	for (m = s->member; m < s->member + s->n; m++) {
		sim_look(s, m);
		if (!m->part.group)
			rate_group_join(&s->group, &m->part, true,
					sim_clock(s, m));
		m->part.burst = m->load->credit;
		m->part.late_bytes = m->load->patience;
		rate_group_update(&m->part, sim_clock(s, m));
		sim_look(s, m);
		if (m->backlog)
			m->call = s->now;
		sim_queue(s, m);
	}
	rtnl_unlock();
}

static struct sim *sim_new_at(struct kunit *test, u64 start, u64 rate, u32 n,
			      const struct sim_load *load, u32 seed)
{
	struct sim *s = test->priv;
	struct sim_member *m;

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
		m->call = SIM_NEVER;
		m->arrive = SIM_NEVER;
		m->head = (m - s->member) << 20;
		m->tail = m->head;
	}
	sim_set_rate(s, rate);
	sim_update(s);

	return s;
}

static struct sim *sim_new(struct kunit *test, u64 rate, u32 n,
			   const struct sim_load *load, u32 seed)
{
	return sim_new_at(test, 1, rate, n, load, seed);
}

static struct sim *sim_new_full(struct kunit *test, u64 rate, u32 n,
				const struct sim_load *load, u32 seed)
{
	struct sim *s = sim_new(test, rate, n, load, seed);

	sim_fill(s, 0, n, load);
	return s;
}

/* Some packets, one at a time */
static void sim_trickle(struct sim *s, struct sim_member *m, u32 packets,
			u64 ns)
{
	while (packets--) {
		sim_add(s, m, 1);
		sim_run(s, ns);
	}
}

static u32 sim_quantum(const struct sim *s)
{
	return max(s->group.quantum, s->group.longest);
}

static u64 sim_max_late(const struct sim *s)
{
	return sim_bytes(s, s->member->part.max_late);
}

/* What slack sends early, and the ns that members and packets may round */
static u64 sim_slack(const struct sim *s)
{
	return min(sim_bytes(s, RATE_GROUP_SLACK), SIM_MTU) +
	       sim_bytes(s, s->n + 8);
}

/* The upper bound that the comment states, less R x t. If all are called when
 * they asked to be, a member is wrong by no more than a packet that is longer
 * than what is left of its slot, and what it has paid for in advance. What is
 * missing is the mirror image.
 */
static u64 sim_bound(const struct sim *s, bool on_time)
{
	u32 longest, most = SIM_MTU, ahead = 0;
	const struct sim_member *m;
	u64 bound = 0;

	for (m = s->member; m < s->member + s->n; m++) {
		longest = sim_longest(m->load);
		most = max(most, longest);
		if (m->load->ahead)
			ahead = 2 * RATE_GROUP_AHEAD;
		if (m->load->late || m->load->delay || m->load->stop)
			bound += sim_bytes(s, RATE_GROUP_MISSED / s->n);
		if (!on_time)
			bound += max3(RATE_GROUP_QUANTUM, m->load->take,
				      s->group.longest) *
				 (m->load->exempt ? 2 : 1) + 2 * longest;
		else if (longest != SIM_MTU || m->load->len[0] != SIM_MTU ||
			 m->load->overhead)
			bound += longest;
		if (on_time && !m->full)
			bound += max(s->group.prepay, RATE_GROUP_SMALL);
	}

	return bound + (on_time ? most + ahead + sim_slack(s) :
				  2 * RATE_GROUP_AHEAD + SIM_MTU);
}

static void sim_expect(struct sim *s, u64 excess, u64 shortage)
{
	SIM_EXPECT(s, sim_max(&s->excess), LE, excess);
	SIM_EXPECT(s, sim_max(&s->shortage), LE, shortage);
}

static void sim_expect_on_time(struct sim *s)
{
	sim_expect(s, sim_bound(s, true), sim_bound(s, true));
}

static void sim_expect_near(struct sim *s, u64 is, u64 want, u64 error,
			    const char *what)
{
	SIM_EXPECT_MSG(s, is, LE, want + error, what);
	SIM_EXPECT_MSG(s, is + error, GE, want, what);
}

/* Jain's index of what members have sent, in millionths */
static void sim_expect_fair(struct sim *s, u32 least)
{
	u64 sent, sum = 0, squares = 0;
	u32 i;

	for (i = 0; i < s->n; i++) {
		sent = s->member[i].sent >> 6;
		sum += sent;
		squares += sent * sent;
	}
	squares = max(div_u64(squares * s->n, 1000000), 1);
	SIM_EXPECT(s, mul_u64_u64_div_u64(sum, sum, squares), GE, least);
}

/* If the group was busy since the beginning, the TAT says what was sent and
 * what was granted and is still to be sent, and nothing else (but for a ns that
 * seems unused due to rounding).
 */
static void sim_expect_exact(struct sim *s)
{
	s64 off = sim_tat(s) - s->start - atomic64_read(&s->group.skipped);
	s64 bytes = s->total;
	u32 i;

	for (i = 0; i < s->n; i++)
		bytes += s->member[i].part.left - s->member[i].part.unpaid;
	off -= sim_ns(s, bytes);
	SIM_EXPECT(s, abs(off), LE, s->n + 1);
}

/* Cases */

/* All that follows from the rate and the number of members */
static void rate_group_test_numbers(struct kunit *test)
{
	static const struct {
		u64	rate;
		u32	n, credit, patience, quantum, prepay, slack;
		u64	max_late;
	} sets[] = {
		{ SIM_GBIT, 1, 0, 0, 12288, 12288, 5000, 25 * SIM_MS },
		{ SIM_GBIT, 4, 0, 0, 6250, 4687, 5000, 25 * SIM_MS },
		{ SIM_GBIT, 100, 0, 0, 250, 187, 5000, 25 * SIM_MS },
		{ 10 * SIM_GBIT, 20, 0, 0, 12288, 9375, 1211, 25 * SIM_MS },
		{ SIM_GBIT / 2000, 1, 0, 0, 12, 9, 5000, 48448000 },
		{ 1, 1, 0, 0, 0, 0, 5000, 47312500000 },
		{ SIM_GBIT, 1, 4000000, 0, 12288, 12288, 5000, 32000000 },
		{ SIM_GBIT, 1, 0, 1000000, 12288, 12288, 5000, 8000000 },
		{ SIM_GBIT, 1, 0, 1000, 12288, 12288, 5000, SIM_MS },
		{ 1000000, 1, U32_MAX, 0, 200, 150, 5000, 268435456000 },
		{ 0, 1, 0, 0, 0, 0, 0, 0 },
	};
	static const u32 used[] = { 4, 101, 0 };
	struct rate_group_member *part;
	struct sim_load load = sim_equal;
	struct sim *s;
	u32 i;

	/* The quantum is for the queues that are in use, if not all are */
	s = sim_new(test, SIM_GBIT, 100, &sim_equal, 1);
	for (i = 0; i < ARRAY_SIZE(used); i++) {
		s->group.queues = used[i];
		sim_set_rate(s, SIM_GBIT);
		SIM_EXPECT(s, s->group.quantum, EQ, i ? 250 : 6250);
	}
	rtnl_lock();
	rate_group_set_queues(&s->group, 10);
	SIM_EXPECT(s, s->group.quantum, EQ, 2500);
	rate_group_set_queues(&s->group, 0);
	SIM_EXPECT(s, s->group.quantum, EQ, 250);
	rtnl_unlock();

	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		load.credit = sets[i].credit;
		load.patience = sets[i].patience;
		s = sim_new(test, 0, sets[i].n, &load, i);
		sim_set_rate(s, sets[i].rate);
		sim_update(s);
		SIM_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		s = sim_new(test, sets[i].rate, sets[i].n + 1, &load, i);
		part = &s->member[sets[i].n].part;
		rtnl_lock();
		rate_group_leave(part, 1);
		SIM_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		/* Who takes slots of its own length counts for nothing */
		rate_group_join(&s->group, part, false, 1);
		rate_group_leave(part, 1);
		rate_group_join(&s->group, part, false, 1);
		/* What was the longest packet may be split from now on */
		s->group.longest = 9000;
		rate_group_set_rate(&s->group, s->rate, 1);
		rtnl_unlock();
		SIM_EXPECT(s, s->group.longest, EQ, SIM_MTU);
		SIM_EXPECT(s, s->group.members, EQ, sets[i].n);
		SIM_EXPECT(s, s->group.quantum, EQ, sets[i].quantum);
		SIM_EXPECT(s, s->group.prepay, EQ, sets[i].prepay);
		part = &s->member->part;
		SIM_EXPECT(s, part->slack, EQ, sets[i].slack);
		if (sets[i].credit)
			sim_expect_near(s, part->burst_ns, sets[i].max_late, 1,
					"burst");
		if (s->rate)
			sim_expect_near(s, part->max_late, sets[i].max_late, 1,
					"max_late");
	}
}

/* A group of one is a shaper: exact, and as smooth as its packets and timers,
 * and has nobody to be fair to
 */
static void rate_group_test_alone(struct kunit *test)
{
	static const u64 rates[] = {
		1000, 125000, SIM_GBIT, 10 * SIM_GBIT, 100 * SIM_GBIT,
		800 * SIM_GBIT,
	};
	u64 bound, ns;
	struct sim *s;
	u32 i, j, len;

	for (i = 0; i < ARRAY_SIZE(rates) * 4; i++) {
		j = i % 4;
		len = sim_longest(sim_loads[j]);
		s = sim_new_full(test, rates[i / 4], 1, sim_loads[j], i);
		ns = clamp_t(u64, NSEC_PER_SEC, sim_ns(s, 20ULL * len),
			     sim_ns(s, 50000ULL * len));
		sim_run(s, ns);

		bound = len + sim_slack(s);
		sim_expect(s, bound, bound);
		sim_expect_near(s, s->sent, sim_bytes(s, ns), bound, "exact");
		sim_expect_exact(s);
		/* What slack is for */
		if (s->rate >= 10 * SIM_GBIT && !j)
			SIM_EXPECT(s, s->calls * 4, LE, s->packets * 3);
	}
}

static const struct sim_saturated {
	const char	*name;
	u64		start, rate;
	u32		n;
} sim_saturated[] = {
	{ "1 at 10 Gbit",	1, 10 * SIM_GBIT, 1 },
	{ "2 at 1 Gbit",	1, SIM_GBIT, 2 },
	{ "7 at 10 Gbit",	1, 10 * SIM_GBIT, 7 },
	{ "40 at 100 Mbit",	1, SIM_GBIT / 10, 40 },
	{ "40 at 40 Gbit",	1, 40 * SIM_GBIT, 40 },
	{ "256 at 100 Gbit",	1, 100 * SIM_GBIT, 256 },
	{ "1000 at 10 Gbit",	1, 10 * SIM_GBIT, 1000 },
	/* The clock changes its sign, or wraps, in the middle of it all */
	{ "sign",		S64_MAX - 4 * SIM_MS, SIM_GBIT, 7 },
	{ "wrap",		U64_MAX - 4 * SIM_MS, SIM_GBIT, 7 },
	{ "wrap of one",	U64_MAX - 4 * SIM_MS, SIM_GBIT, 1 },
	{ "negative",		BIT_ULL(63) + 4 * SIM_MS, SIM_GBIT, 2 },
};

KUNIT_ARRAY_PARAM_DESC(sim_saturated, sim_saturated, name);

/* One packet too much, or missing, for all together; and turns are taken, as
 * long as they should be
 */
static void rate_group_test_saturated(struct kunit *test)
{
	const struct sim_saturated *p = test->param_value;
	struct sim *s = sim_new_at(test, p->start, p->rate, p->n, &sim_equal,
				   p->n);
	u64 bound, quantum = sim_quantum(s);
	u32 i;

	sim_fill(s, 0, p->n, &sim_equal);
	sim_run(s, sim_ns(s, 6 * quantum * p->n));
	sim_run_anew(s, sim_ns(s, 60 * quantum * p->n));

	sim_expect_on_time(s);
	sim_expect_fair(s, 999900);
	sim_expect_exact(s);
	bound = sim_ns(s, (quantum + SIM_MTU) * p->n) + p->n +
		2 * s->member->part.slack;
	for (i = 0; i < p->n; i++)
		SIM_EXPECT(s, s->member[i].wait, LE, bound);
	sim_expect_near(s, s->moves * quantum, s->sent,
			div_u64(s->sent, 50) + p->n * quantum, "turns");
}

static const struct sim_load sim_big = { .len = SIM_LEN(9000) };
static const struct sim_load sim_more = { .len = SIM_ANY, .overhead = 150 };
static const struct sim_load sim_less = { .len = SIM_ANY, .overhead = -60 };

/* Members with other packets get the same in bytes; debts are paid */
static void rate_group_test_fair(struct kunit *test)
{
	static const struct sim_load *mixes[][2] = {
		{ &sim_any, &sim_any },
		{ &sim_mixed, &sim_mixed },
		{ &sim_gso, &sim_equal },
		{ &sim_big, &sim_equal },
		{ &sim_small, &sim_equal },
		{ &sim_more, &sim_less },
		{ &sim_huge, &sim_big },
		{ &sim_gso, &sim_huge },
	};
	static const u64 rates[] = { SIM_GBIT / 10, SIM_GBIT, 10 * SIM_GBIT };
	const struct sim_load *one, *others;
	struct sim_member *m;
	struct sim *s;
	u32 i, len;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(mixes); i++) {
		one = mixes[i / ARRAY_SIZE(rates)][0];
		others = mixes[i / ARRAY_SIZE(rates)][1];
		len = max(sim_longest(one), sim_longest(others));
		s = sim_new_full(test, rates[i % ARRAY_SIZE(rates)], 8, others,
				 i);
		sim_fill(s, 0, 1, one);
		sim_fill(s, 4, 5, one);
		sim_run(s, sim_ns(s, 250ULL * s->n * len));
		sim_expect_fair(s, 998000);
		sim_expect_on_time(s);
		sim_expect_exact(s);
		/* Clocks stand still while siblings have their turns */
		for (m = s->member; m < s->member + s->n; m++)
			sim_expect_near(s, m->clock - s->start,
					sim_ns(s, m->sent), m->part.slack +
					sim_ns(s, sim_longest(m->load)) + 200,
					"clock");
	}
}

static const struct sim_load sim_mice[] = {
	{ .len = SIM_LEN(300), .burst = 1, .pause = 400000 },
	{ .len = SIM_LEN(1514), .burst = 20, .pause = 10000000 },
	{ .len = SIM_LEN(300), .burst = 1, .pause = 60000 },
};

/* A late timer costs no rate, whatever light members skipped meanwhile */
static void rate_group_test_skipped(struct kunit *test)
{
	static const struct sim_load elephants[] = {
		{ .len = SIM_LEN(1514), .late = 800000 },
		{ .len = SIM_ANY, .late = 800000 },
		{ .len = SIM_MIXED, .late = 800000 },
		{ .len = SIM_LEN(1514), .late = 800000, .take = 20000 },
	};
	struct sim *s;
	u32 i, n;
	u64 ns;

	for (i = 0; i < ARRAY_SIZE(elephants) * 12; i++) {
		n = i % 4 / 2 + 1;
		s = sim_new(test, i % 2 ? 10 * SIM_GBIT : SIM_GBIT, 40,
			    &sim_equal, i);
		sim_fill(s, 0, n, &elephants[i / 12]);
		sim_begin(s, n, s->n, &sim_mice[i % 12 / 4]);
		/* The first time may be lost */
		sim_run(s, 10 * SIM_MS);
		sim_run_anew(s, 200 * SIM_MS);
		/* It may have been late then, and may be now */
		ns = 200 * SIM_MS - 2 * elephants->late;
		SIM_EXPECT(s, s->sent * 1000, GE, sim_bytes(s, ns) * 999);
	}
}

/* All together make up for no more than the horizon: of the time that a light
 * member skipped while they were stopped, and of what nobody used since
 */
static void rate_group_test_claims(struct kunit *test)
{
	struct sim *s;
	u32 i, j;

	for (i = 0; i < 2; i++) {
		s = sim_new_full(test, SIM_GBIT, 4, &sim_equal, i);
		sim_drop(s, &s->member[3]);
		sim_run(s, SIM_MS);
		for (j = 0; j < 3; j++)
			sim_stop(s, &s->member[j],
				 100 * SIM_MS - j * 10 * NSEC_PER_USEC);
		sim_drop(s, &s->member[2]);
		for (j = 0; j < 850; j++) {
			sim_add(s, &s->member[3], 1);
			sim_run(s, 100 * NSEC_PER_USEC);
		}
		/* In the second run, one waited for 15 ms and goes first */
		if (i)
			sim_fill(s, 2, 3, &sim_equal);
		s->excess.max = 0;
		sim_run(s, 20 * SIM_MS);
		sim_expect_near(s, sim_max(&s->excess), sim_max_late(s),
				sim_bound(s, false), "claims");
	}
}

/* Slack follows how late calls are on average, and goes back with it */
static void rate_group_test_lateness(struct kunit *test)
{
	static const struct {
		u32	tick, least, most;	/* ns */
	} sets[] = {
		{ 0, 5000, 5000 },
		{ 40000, 10000, 40000 },
		{ NSEC_PER_MSEC, 40000, RATE_GROUP_MAX_SLACK },
		{ 0, 5000, 5000 },
	};
	struct sim_load load = sim_equal;
	struct sim *s;
	u32 i;

	s = sim_new_full(test, SIM_GBIT, 2, &load, 1);
	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		load.tick = sets[i].tick;
		sim_run(s, 200 * SIM_MS);
		SIM_EXPECT(s, s->member->part.slack, GE, sets[i].least);
		SIM_EXPECT(s, s->member->part.slack, LE, sets[i].most);
	}
}

static const struct sim_lateness {
	const char	*name;
	u32		tick;	/* as in a load, */
	u32		late;	/* ns */
	u32		stop;	/* of members, every 100 ms, ns */
	u32		stops;	/* how many of them */
} sim_lateness[] = {
	{ "ticks of 4 ms",	.tick = 4 * NSEC_PER_MSEC },
	{ "ticks of 10 ms",	.tick = 10 * NSEC_PER_MSEC },
	{ "300 us late",	.late = 2400 * NSEC_PER_USEC },
	{ "one stops",		.stop = 5 * NSEC_PER_MSEC, .stops = 1 },
	{ "all stop",		.stop = 5 * NSEC_PER_MSEC, .stops = U32_MAX },
	{ "for longer",		.stop = 60 * NSEC_PER_MSEC, .stops = U32_MAX },
};

KUNIT_ARRAY_PARAM_DESC(sim_lateness, sim_lateness, name);

/* Lateness of less than the horizon costs no rate, whoever is late. It is made
 * up for at once, and those who are called together still take turns.
 */
static void rate_group_test_late_calls(struct kunit *test)
{
	const struct sim_lateness *p = test->param_value;
	static const u32 n[] = { 1, 2, 8, 40 };
	struct sim_load load = sim_equal;
	u64 late, lost = 0;
	u32 i, j, k;
	struct sim *s;

	load.tick = p->tick;
	load.late = p->late;
	late = p->tick + 2ULL * p->late + p->stop;
	if (late > RATE_GROUP_MAX_LATE) {
		lost = late - RATE_GROUP_MAX_LATE;
		late = RATE_GROUP_MAX_LATE;
	}
	for (i = 0; i < ARRAY_SIZE(n); i++) {
		s = sim_new_full(test, SIM_GBIT, n[i], &load, i);
		for (j = 0; j < 10; j++) {
			for (k = 0; k < min(p->stops, n[i]); k++)
				sim_stop(s, &s->member[k], p->stop);
			sim_run(s, 100 * SIM_MS);
		}
		SIM_EXPECT(s, s->sent * 100, GE,
			   sim_bytes(s, NSEC_PER_SEC - 10 * lost) * 99);
		/* It may be late again before it has made up for that */
		SIM_EXPECT(s, sim_max(&s->excess), LE, sim_bound(s, false) +
			   sim_bytes(s, late));
		if (p->tick)
			sim_expect_fair(s, 999000);
	}
}

/* One token bucket for all: what the group did not use may go at once */
static void rate_group_test_burst(struct kunit *test)
{
	static const struct sim_load loads[] = {
		{ .len = SIM_LEN(1514), .credit = 100 * 1514 },
		{ .len = SIM_ANY, .credit = 100 * 1514 },
		{ .len = SIM_MIXED, .credit = 100 * 1514 },
		{ .len = SIM_LEN(200), .overhead = 24, .credit = 100 * 1514 },
	};
	static const struct sim_load light = {
		.len = SIM_LEN(300), .burst = 1, .pause = 50000
	};
	struct sim_load half = loads[0];
	u64 bound, burst = half.credit;
	u32 i, j, k, ns;
	struct sim *s;

	for (i = 0; i < ARRAY_SIZE(loads) * 2; i++) {
		s = sim_new(test, SIM_GBIT, i % 2 ? 20 : 1, &loads[i / 2], i);
		ns = sim_ns(s, 10 * sim_longest(&loads[i / 2]));
		for (j = 0; j < 10; j++) {
			sim_run(s, 10 * SIM_MS);
			/* At 10 to 90 % it remains full, but for a packet */
			sim_trickle(s, s->member, i & 1 ? 0 : 500,
				    ns / (j % 9 + 1));
			s->excess.max = 0;
			sim_fill(s, 0, s->n, &loads[i / 2]);
			sim_run_anew(s, NSEC_PER_USEC);
			bound = sim_bound(s, true) + 2 * SIM_MTU;
			sim_expect_near(s, s->sent, burst, bound, "burst");
			sim_run(s, 10 * SIM_MS);
			sim_expect(s, burst + bound, bound);
			for (k = 0; k < s->n; k++)
				sim_drop(s, &s->member[k]);
		}
	}
	/* It is not late: below the rate, no member lets others go first */
	half.burst = 1;
	half.pause = 4 * sim_ns(s, 1514);
	s = sim_new(test, SIM_GBIT, 2, &half, 1);
	sim_begin(s, 0, 2, &half);
	sim_run(s, 50 * SIM_MS);
	sim_run_anew(s, 50 * SIM_MS);
	SIM_EXPECT(s, 100 * s->calls, LE, 115 * s->packets);

	/* Nor does it need all of the unused time: others pay in advance */
	half.burst = 32;
	half.pause = 128 * sim_ns(s, 1514);
	s = sim_new(test, SIM_GBIT, 2, &half, 1);
	sim_begin(s, 0, 1, &half);
	sim_begin(s, 1, 2, &light);
	sim_run(s, 50 * SIM_MS);
	sim_run_anew(s, 50 * SIM_MS);
	SIM_EXPECT(s, 5 * s->moves, LE, s->packets);
}

/* A member that waits for something else does not lose its time */
static void rate_group_test_patience(struct kunit *test)
{
	static const struct sim_load loads[] = {
		{ .len = SIM_LEN(1514), .patience = 64 * 1514 },
		{ .len = SIM_MIXED, .patience = 64 * 1514 },
	};
	struct rate_group_member *part;
	struct sim_member *m;
	struct sim *s;
	u32 i, j;
	u64 when;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = sim_new(test, SIM_GBIT / 100, 1, &loads[i], i);
		m = s->member;
		part = &m->part;
		sim_stop(s, m, SIM_NEVER);
		sim_run(s, 50 * SIM_MS);
		sim_add(s, m, 2);
		/* As far as it had something to send, */
		rate_group_wait(part, sim_now(s), m->backlog, 0, &when);
		SIM_EXPECT(s, part->left, LE, sim_quantum(s));
		sim_drop(s, m);
		sim_add(s, m, 2);
		sim_run(s, 50 * SIM_MS);
		/* and has, but not in turns that it passes; */
		part->surplus = 5 * sim_quantum(s);
		rate_group_wait(part, sim_now(s), m->backlog, 0, &when);
		SIM_EXPECT(s, part->left, LE, m->backlog);
		SIM_EXPECT(s, part->surplus, LT, sim_quantum(s));
		sim_drop(s, m);
		sim_add(s, m, 2);
		/* it may send all of a slot at once */
		rate_group_wait(part, sim_now(s), m->backlog, m->backlog,
				&when);
		for (j = 0; j < 2; j++)
			rate_group_charge(part, sim_now(s), m->backlog / 2);
		SIM_EXPECT(s, part->unpaid, EQ, 0);
		sim_fill(s, 0, 1, &loads[i]);
		/* And has it in one slot */
		for (j = 0; j < 20; j++) {
			sim_stop(s, s->member, sim_ns(s, 50 * SIM_MTU));
			sim_run(s, sim_ns(s, 100 * SIM_MTU));
		}
		sim_expect_near(s, s->sent, 2000ULL * SIM_MTU,
				2 * sim_longest(&loads[i]), "time");
		SIM_EXPECT(s, s->moves * 10, LE, s->packets * 6);
	}
}

/* Packets that were paid for in advance need no reservation. That is for a ms,
 * for packets that do not come in a burst, and not while others are late.
 */
static void rate_group_test_prepay(struct kunit *test)
{
	struct sim *s = sim_new(test, 10 * SIM_GBIT, 3, &sim_equal, 1);
	struct sim_member *m = s->member;
	u64 moves, when;
	u32 i;

	/* Eight packets in advance, at 40 % of the rate */
	sim_trickle(s, m, 900, 3 * NSEC_PER_USEC);
	sim_expect_near(s, s->moves, 100, 0, "reservations");
	sim_expect_on_time(s);

	for (i = 0; i < 4; i++) {
		m->part.credit = 0;
		sim_trickle(s, m, 1, 3 * NSEC_PER_USEC);
		SIM_EXPECT(s, m->part.credit, EQ, s->group.prepay);
		moves = s->moves;
		sim_run(s, RATE_GROUP_CREDIT_TIME * (i + 7) / 9);
		sim_trickle(s, m, 1, 3 * NSEC_PER_USEC);
		SIM_EXPECT(s, s->moves - moves, EQ, i / 2);
	}

	/* A burst pays anew, and keeps it for later */
	moves = s->moves;
	sim_trickle(s, m, 4, 1);
	SIM_EXPECT(s, s->moves - moves, EQ, 2);
	SIM_EXPECT(s, m->part.credit, GT, SIM_MTU);

	/* Who has more to send than a slot is no longer below the rate */
	sim_add(s, m, 64);
	sim_run(s, 5 * NSEC_PER_USEC);
	SIM_EXPECT(s, m->part.credit, EQ, 0);
	sim_run(s, 10 * SIM_MS);

	/* Not while others wait, or were late of late */
	sim_fill(s, 1, 3, &sim_equal);
	for (i = 0; i < 300; i++) {
		sim_trickle(s, m, 1, 30 * NSEC_PER_USEC);
		if (i > 2)
			SIM_EXPECT(s, m->part.credit, EQ, 0);
	}
	sim_expect_on_time(s);
	sim_stop(s, &s->member[1], SIM_MS);
	sim_stop(s, &s->member[2], SIM_MS);
	sim_run(s, 2 * SIM_MS);
	for (i = 1; i < 3; i++)
		sim_drop(s, &s->member[i]);
	when = s->now + RATE_GROUP_MEMORY * BIT(RATE_GROUP_STAMP);
	for (i = 0; i < 4; i++) {
		sim_run(s, (i > 1 ? when : s->now) + SIM_MS - s->now);
		moves = s->moves;
		sim_trickle(s, m, 2, 3 * NSEC_PER_USEC);
		SIM_EXPECT(s, s->moves - moves, EQ, i > 1 ? 1 : 2);
		when += 10 * SIM_MS;
	}

	/* A change of the rate does not bring back what is lost */
	s = sim_new(test, 10 * SIM_GBIT, 3, &sim_equal, 1);
	m = s->member;
	sim_trickle(s, m, 1, 3 * NSEC_PER_USEC);
	sim_run(s, 2 * RATE_GROUP_CREDIT_TIME);
	SIM_EXPECT(s, m->part.credit, GT, SIM_MTU);
	sim_set_rate(s, SIM_GBIT);
	sim_update(s);
	rate_group_arrive(&m->part, sim_now(s));
	SIM_EXPECT(s, m->part.credit, EQ, 0);
}

static const struct sim_flood {
	const char	*name;
	u32		n;	/* who do that */
	struct sim_load	load;
} sim_floods[] = {
	{ "64", 1, { .len = SIM_LEN(64), .ahead = 1 } },
	{ "300", 1, { .len = SIM_LEN(300), .ahead = 1 } },
	{ "1514", 1, { .len = SIM_LEN(1514), .ahead = 1 } },
	{ "20 x 64", 20, { .len = SIM_LEN(64), .ahead = 1 } },
	{ "20 x 300", 20, { .len = SIM_LEN(300), .ahead = 1 } },
	{ "20 x 1514", 20, { .len = SIM_LEN(1514), .ahead = 1 } },
	{ "overhead", 1,
	  { .len = SIM_LEN(64), .overhead = 600, .ahead = 1 } },
	{ "lone 64", 1, { .len = SIM_LEN(64), .ahead = 1, .single = true } },
	{ "lone", 1, { .len = SIM_LEN(1514), .ahead = 1, .single = true } },
	{ "lone, pauses", 1, { .len = SIM_LEN(1514), .ahead = 1,
			       .single = true, .pause = 100000 } },
	/* One that goes ahead, one that has its turn, and so on */
	{ "rhythm", 1, { .len = SIM_LEN(1514), .ahead = 2, .single = true } },
	{ "10 x rhythm", 10, { .len = SIM_LEN(1514), .ahead = 2,
			       .single = true } },
};

KUNIT_ARRAY_PARAM_DESC(sim_floods, sim_floods, name);

/* Those that go ahead do no harm: they take what they may at once, and of the
 * rate; and, but for a few quanta, no more than their share
 */
static void rate_group_test_flood(struct kunit *test)
{
	const struct sim_flood *p = test->param_value;
	struct sim *s = sim_new(test, SIM_GBIT, 20, &sim_equal, 1);
	u32 part, most = RATE_GROUP_AHEAD;
	struct sim_member *m;

	sim_fill(s, 0, 20, &sim_equal);
	if (p->load.single)
		sim_begin(s, 0, p->n, &p->load);
	else
		sim_fill(s, 0, p->n, &p->load);
	sim_run(s, 20 * SIM_MS);
	sim_run_anew(s, 200 * SIM_MS);

	if (p->load.len[0] > RATE_GROUP_SMALL)
		most /= 2;
	SIM_EXPECT(s, sim_max(&s->ahead), LE, most);
	SIM_EXPECT(s, sim_max(&s->ahead), GT, 0);
	/* Of what is granted: some 18 slots */
	if (most == RATE_GROUP_AHEAD)
		SIM_EXPECT(s, s->went * 18 * SIM_MTU, LE, s->sent * most);
	part = SIM_GBIT / 5 / 20;
	most = 2 * RATE_GROUP_AHEAD + RATE_GROUP_AHEAD_QUANTA * SIM_MTU;
	for (m = s->member; m < s->member + s->n; m++) {
		SIM_EXPECT(s, m->sent, LE, part + most);
		if (m >= s->member + p->n || !p->load.single)
			SIM_EXPECT(s, m->sent, GE, part - most);
	}
	sim_expect_on_time(s);
	sim_expect_exact(s);
}

/* A sparse flow does not wait, and pays what it cost more, or less, than it
 * asked for. After a flood the rest has its turn again soon.
 */
static void rate_group_test_sparse(struct kunit *test)
{
	static const struct sim_load loads[] = {
		{ .len = SIM_LEN(64), .ahead = 1, .overhead = 300 },
		{ .len = SIM_LEN(1514), .ahead = 1, .overhead = -14 },
	};
	struct sim_member *m;
	struct sim *s;
	u64 bytes;
	u32 i, j;
	bool ahead;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = sim_new(test, SIM_GBIT, 32, &loads[i], i);
		m = s->member;
		ahead = rate_group_go_ahead(&m->part, s->start, 64);
		SIM_EXPECT(s, ahead, EQ, false);
		sim_fill(s, 1, 32, &sim_equal);
		sim_run(s, 5 * SIM_MS);
		for (j = 0; j < 500; j++) {
			sim_trickle(s, m, 1, 400 * NSEC_PER_USEC);
			SIM_EXPECT(s, abs(m->part.unpaid), LE,
				   sim_longest(&loads[i]));
		}
		SIM_EXPECT(s, m->wait, EQ, 0);
		sim_expect_on_time(s);

		sim_fill(s, 0, 1, &loads[i]);
		sim_run(s, 100 * SIM_MS);
		sim_fill(s, 0, 1, &sim_equal);
		m->wait = 0;
		sim_run(s, 50 * SIM_MS);
		bytes = (RATE_GROUP_AHEAD_QUANTA + 2ULL) * s->n * SIM_MTU;
		SIM_EXPECT(s, m->wait, LE, sim_ns(s, bytes));
	}
}

/* One packet goes ahead, which takes all of a slot to come. Then all lose their
 * backlog. Nobody waits for the time at which that slot was.
 */
static void rate_group_test_all_drop(struct kunit *test)
{
	struct sim *s = sim_new(test, SIM_GBIT, 16, &sim_huge, 1);
	struct sim_member *last = &s->member[15];
	struct sim_member *m;
	u64 tat;

	sim_fill(s, 0, 15, &sim_huge);
	sim_run(s, 50 * SIM_MS);
	last->load = &sim_equal;
	sim_add(s, last, 1);
	sim_run(s, 1);
	SIM_EXPECT(s, last->part.left, EQ, SIM_MTU);
	SIM_EXPECT(s, rate_group_go_ahead(&last->part, sim_now(s), SIM_MTU), EQ,
		   true);
	sim_send(s, last, sim_now(s));
	for (m = s->member; m < last; m++)
		sim_drop(s, m);
	tat = max(sim_tat(s), sim_now(s));
	sim_add(s, last, 2);
	sim_run(s, 1);
	SIM_EXPECT(s, sim_tat(s) - tat, LE, sim_ns(s, 2 * SIM_MTU) + 2);
}

/* A packet that goes ahead comes out of the slot that its member waits for, if
 * there is enough left of it; then nobody else waits for it. It takes nothing
 * of what was paid for in advance: that is for others.
 */
static void rate_group_test_own(struct kunit *test)
{
	struct sim *s = sim_new(test, SIM_GBIT, 8, &sim_equal, 1);
	struct rate_group_member *part = &s->member->part;
	s64 left, surplus;
	u64 tat, paid;
	u32 i;

	sim_fill(s, 0, 8, &sim_equal);
	sim_run(s, SIM_MS);
	while (!time_after64(part->next_at, sim_now(s) + 20000))
		sim_run(s, NSEC_PER_USEC);
	SIM_EXPECT(s, part->left, EQ, 2 * SIM_MTU);
	part->credit = 1000;
	for (i = 1; i <= 12; i++) {
		left = part->left;
		surplus = part->surplus;
		tat = sim_tat(s);
		SIM_EXPECT(s, rate_group_go_ahead(part, sim_now(s), 300), EQ,
			   true);
		rate_group_charge(part, sim_now(s), 300);
		paid = i <= 10 ? 0 : 300;
		SIM_EXPECT(s, part->unpaid, EQ, 0);
		SIM_EXPECT(s, part->left, EQ, left - 300 + paid);
		SIM_EXPECT(s, part->surplus, EQ, surplus + paid);
		sim_expect_near(s, sim_tat(s), tat + sim_ns(s, paid), 1,
				"TAT");
		SIM_EXPECT(s, part->credit, EQ, 1000);
	}
	rate_group_charge(part, sim_now(s), 300);
	SIM_EXPECT(s, part->credit, EQ, 700);
	SIM_EXPECT(s, part->unpaid, EQ, 0);

	/* It is not late, because a backlog that waited is gone */
	sim_drop(s, s->member);
	sim_run(s, SIM_MS);
	SIM_EXPECT(s, rate_group_go_ahead(part, sim_now(s), 300), EQ, true);
	rate_group_charge(part, sim_now(s), 300);
	SIM_EXPECT(s, part->lateness, EQ, 0);
}

/* What a member has had too much, others have had after a quantum a round; and
 * if there are no others, nobody misses it
 */
static void rate_group_test_surplus(struct kunit *test)
{
	struct rate_group_member *part;
	struct sim *s;
	s64 surplus;
	u32 i, q;

	for (i = 0; i < 10; i++) {
		s = sim_new(test, SIM_GBIT, 8, &sim_mixed, i);
		part = &s->member->part;
		sim_fill(s, 1, 8, &sim_big);
		sim_run(s, SIM_MS);
		q = sim_quantum(s);
		for (surplus = 0; surplus < 5 * q; surplus += 9000)
			rate_group_charge(part, sim_now(s), 9000);
		SIM_EXPECT(s, part->surplus, EQ, surplus);
		part->next_at = sim_now(s);
		sim_run(s, i * sim_ns(s, 7 * q / 2));
		rate_group_arrive(part, sim_now(s));
		/* The slots of the others are rounded */
		sim_expect_near(s, surplus - part->surplus,
				min(surplus, i * q / 2), q + SIM_MTU / 2,
				"pause");
	}
	/* Who owes a quantum passes a turn, which takes nothing off it if it
	 * was not passed
	 */
	for (i = 0; i < 2; i++) {
		sim_add(s, s->member, 1);
		part->surplus = i ? 5 * q : q - 1;
		sim_run(s, 1);
		SIM_EXPECT(s, part->no_slot, EQ, i);
		sim_drop(s, s->member);
	}
	SIM_EXPECT(s, part->surplus, EQ, 5 * q);

	for (i = 1; i < s->n; i++)
		sim_drop(s, &s->member[i]);
	sim_run(s, 10 * SIM_MS);
	part->surplus = 9000;
	part->next_at = sim_now(s) - 9000;
	rate_group_arrive(part, sim_now(s));
	SIM_EXPECT(s, part->surplus, EQ, 0);

	/* Where a round takes a second, a pause of 20 seconds is 20 of them */
	s = sim_new(test, SIM_GBIT / 10000, 8, &sim_equal, 1);
	sim_fill(s, 1, 8, &sim_equal);
	sim_run(s, 3000 * SIM_MS);
	part = &s->member->part;
	part->surplus = 8 * SIM_MTU;
	part->next_at = sim_now(s) - 20000 * SIM_MS;
	rate_group_arrive(part, sim_now(s));
	SIM_EXPECT(s, part->surplus, EQ, 0);
}

/* What is left of a slot goes back, as far as there is time to use it */
static void rate_group_test_refund(struct kunit *test)
{
	struct sim *s = sim_new(test, SIM_GBIT, 2, &sim_equal, 1);
	struct sim_member *other = &s->member[1];
	u64 tat, slot;
	u32 i;

	sim_fill(s, 0, 1, &sim_equal);
	sim_run(s, 5 * SIM_MS);
	for (i = 0; i < 1000; i++) {
		tat = sim_tat(s);
		sim_add(s, other, i % 2 ? 8 : 1);
		sim_run(s, 1);
		slot = sim_tat(s) - tat;
		SIM_EXPECT(s, slot, GE, sim_ns(s, i % 2 ? 7 * SIM_MTU : 1500));
		sim_drop(s, other);
		sim_expect_near(s, sim_tat(s), tat, 2, "back");
		sim_run(s, 60 * NSEC_PER_USEC + sim_random(s, 60000));
	}
	sim_expect_on_time(s);

	/* Time that has passed is gone, though; at a new rate as well */
	for (i = 0; i < 2; i++) {
		s = sim_new(test, SIM_GBIT, 1, &sim_equal, i);
		sim_add(s, s->member, 64);
		sim_run(s, 1);
		sim_stop(s, s->member, NSEC_PER_SEC);
		sim_set_rate(s, i ? SIM_GBIT / 10 : SIM_GBIT);
		sim_update(s);
		sim_run(s, sim_ns(s, 7 * SIM_MTU));
		SIM_EXPECT(s, sim_tat(s), GT, sim_now(s));
		sim_drop(s, s->member);
		sim_expect_near(s, sim_tat(s), sim_now(s), 1, "gone");
	}
}

/* A member that leaves takes nothing along, and leaves no debt */
static void rate_group_test_leave(struct kunit *test)
{
	static const struct sim_load debt = {
		.len = SIM_LEN(1514), .overhead = 6000,
	};
	struct sim_member *m;
	struct sim *s;
	u32 i, j;
	u64 tat;

	/* In the middle of a slot or before it; with something not paid for */
	for (j = 0; j < 2; j++) {
		s = sim_new(test, SIM_GBIT, 2, j ? &debt : &sim_equal, j);
		sim_fill(s, 0, 1, &sim_equal);
		m = &s->member[1];
		for (i = 0; i < 1000; i++) {
			sim_add(s, m, j ? 1 : 64);
			sim_run(s, j ? 400000 : sim_random(s, 300000));
			if (j)
				SIM_EXPECT(s, m->backlog, EQ, 0);
			rtnl_lock();
			rate_group_leave(&m->part, sim_clock(s, m));
			sim_drop(s, m);
			sim_run(s, sim_random(s, j ? 0 : 300000));
			rate_group_join(&s->group, &m->part, true,
					sim_clock(s, m));
			rtnl_unlock();
		}
		/* Slots that others took after the one given back stay there */
		sim_expect(s, sim_bound(s, true) + RATE_GROUP_QUANTUM, j ?
			   sim_bound(s, true) : 1000 * sim_quantum(s) / 2);
	}

	/* What is too old to be given back */
	sim_drop(s, s->member);
	sim_run(s, SIM_MS);
	m->part.unpaid = -SIM_MTU;
	tat = sim_tat(s);
	rtnl_lock();
	rate_group_leave(&m->part, sim_clock(s, m));
	rtnl_unlock();
	SIM_EXPECT(s, sim_tat(s), EQ, tat);
}

/* The rate changes all the time, from and to anything. What is measured is what
 * all those rates add up to. Whoever comes before it knows of a change waits.
 */
static void rate_group_test_rates(struct kunit *test)
{
	static const struct sim_load load = {
		.len = SIM_LEN(1514), .burst = 8, .pause = 500000,
	};
	struct sim *s = sim_new(test, SIM_GBIT, 8, &load, 1);
	u64 bound = 0, rate, tat, when, now;
	struct sim_member *m;
	bool limited, may;
	s64 surplus;
	u32 i, x;

	sim_begin(s, 0, s->n, &load);
	for (i = 0; i < 1000; i++) {
		bound = max(bound, sim_bound(s, true));
		x = sim_random(s, 16);
		rate = x ? 10000ULL << x : 0;
		rate += sim_random(s, rate);
		limited = s->rate;
		sim_set_rate(s, rate);
		now = sim_now(s);
		tat = sim_tat(s);
		for (m = s->member; limited && m < s->member + s->n; m++) {
			may = rate_group_go_ahead(&m->part, now, 64);
			SIM_EXPECT(s, may, EQ, false);
			if (m->part.left > 0)
				continue;
			surplus = m->part.surplus;
			may = !rate_group_wait(&m->part, now, 5000, 0, &when);
			SIM_EXPECT(s, may, EQ, false);
			SIM_EXPECT(s, m->part.surplus, EQ, surplus);
			SIM_EXPECT(s, when, EQ, now + SIM_MS);
		}
		SIM_EXPECT(s, sim_tat(s), EQ, tat);
		sim_update(s);
		for (m = s->member; rate && m < s->member + s->n; m++) {
			if (!limited)
				SIM_EXPECT(s, m->part.left, EQ, 0);
			SIM_EXPECT(s, (s64)(tat - m->part.slot_end), GE, 0);
		}
		/* So that there is no backlog without end */
		for (m = s->member; m < s->member + s->n; m++)
			if (m->backlog > 1000000)
				sim_drop(s, m);
		sim_run(s, sim_random(s, 2000000));
	}
	/* Slots whose backlog vanished are made up for when others were sent */
	bound += s->n * RATE_GROUP_QUANTUM;
	sim_expect(s, bound, bound);
}

/* Who is late makes up for its turns, even if nobody else is late, but not for
 * all of them at once
 */
static void rate_group_test_missed(struct kunit *test)
{
	static const struct {
		u64	rate;
		u32	n;		/* members, */
		u32	late;		/* of which so many are late */
		u32	delay;		/* by that, each time, ns */
		bool	fair;
	} sets[] = {
		{ 10 * SIM_GBIT, 2, 2, 30 * NSEC_PER_USEC, true },
		{ 40 * SIM_GBIT, 8, 8, 30 * NSEC_PER_USEC, true },
		{ SIM_GBIT, 2, 1, NSEC_PER_MSEC, true },
		{ SIM_GBIT, 8, 1, NSEC_PER_MSEC, true },
		{ 10 * SIM_GBIT, 8, 1, NSEC_PER_MSEC, true },
		{ 10 * SIM_GBIT, 2, 1, 150 * NSEC_PER_USEC, true },
		{ 25 * SIM_GBIT, 8, 1, 50 * NSEC_PER_USEC, true },
		{ 100 * SIM_GBIT, 8, 1, 50 * NSEC_PER_USEC, true },
		{ SIM_GBIT, 2, 1, 20 * NSEC_PER_MSEC },
	};
	struct sim_load load = sim_equal;
	struct rate_group_member *part;
	u32 i, round;
	struct sim *s;
	u64 when;

	for (i = 0; i < ARRAY_SIZE(sets); i++) {
		load.delay = sets[i].delay;
		s = sim_new_full(test, sets[i].rate, sets[i].n, &sim_equal, i);
		sim_fill(s, 0, sets[i].late, &load);
		sim_run(s, 50 * SIM_MS);
		sim_run_anew(s, 200 * SIM_MS);
		if (sets[i].fair)
			sim_expect_fair(s, 999000);
		SIM_EXPECT(s, s->sent * 100, GE,
			   sim_bytes(s, 200 * SIM_MS) * 99);
		SIM_EXPECT(s, sim_max(&s->excess), LE, sim_bound(s, true) +
			   sim_bytes(s, RATE_GROUP_MISSED * sets[i].late /
					sets[i].n + load.delay * sets[i].fair) +
			   2 * sim_quantum(s));
	}

	/* Who sends little, ahead of its turns, begins no rounds */
	s = sim_new_full(test, SIM_GBIT, 8, &sim_equal, 1);
	sim_drop(s, &s->member[7]);
	part = &s->member[7].part;
	sim_run(s, SIM_MS);
	rate_group_arrive(part, sim_now(s));
	round = s->group.round;
	for (i = 0; i < 1000; i++) {
		sim_run(s, 20 * NSEC_PER_USEC);
		rate_group_wait(part, sim_now(s), 64, 0, &when);
		if (rate_group_go_ahead(part, sim_now(s), 64))
			rate_group_charge(part, sim_now(s), 64);
	}
	SIM_EXPECT(s, s->group.round - round, LE,
		   div64_u64(20 * SIM_MS, sim_ns(s, 6 * sim_quantum(s))));

	/* Also where ranks are in use, but nobody goes first */
	load.delay = NSEC_PER_MSEC;
	s = sim_new_full(test, SIM_GBIT, 8, &sim_equal, 1);
	sim_fill(s, 0, 1, &load);
	for (i = 0; i < 8; i++)
		s->member[i].part.rank = RATE_GROUP_DEFAULT_RANK + (i > 6);
	sim_run(s, 50 * SIM_MS);
	sim_run_anew(s, 200 * SIM_MS);
	sim_expect_near(s, s->member[0].sent, s->member[1].sent,
			s->member[1].sent / 20, "turns");

	/* What all make up for together is not long to wait for */
	load.delay = 0;
	load.tick = NSEC_PER_MSEC;
	s = sim_new_full(test, SIM_GBIT, 64, &sim_equal, 1);
	sim_fill(s, 0, 63, &load);
	for (i = 0; i < 200; i++) {
		sim_run(s, SIM_MS);
		SIM_EXPECT(s, (s64)(sim_tat(s) - sim_now(s)), LE,
			   RATE_GROUP_MISSED + 2 * NSEC_PER_MSEC);
	}
	load.tick = 0;

	/* A slot that is given back before its time is no turn */
	s = sim_new_full(test, SIM_GBIT, 8, &sim_equal, 1);
	sim_drop(s, &s->member[7]);
	part = &s->member[7].part;
	sim_run(s, SIM_MS);
	round = s->group.round;
	for (i = 0; i < 1000; i++) {
		sim_run(s, 20 * NSEC_PER_USEC);
		rate_group_arrive(part, sim_now(s));
		rate_group_wait(part, sim_now(s), SIM_MTU, 0, &when);
		rate_group_idle(part, sim_now(s));
	}
	SIM_EXPECT(s, s->group.round - round, LE,
		   div64_u64(20 * SIM_MS, sim_ns(s, 6 * sim_quantum(s))));

	/* The first slot of a backlog makes up for nothing */
	s = sim_new_full(test, SIM_GBIT, 2, &sim_equal, 1);
	sim_drop(s, s->member);
	sim_run(s, 10 * SIM_MS);
	sim_fill(s, 0, 1, &sim_equal);
	sim_stop(s, s->member, 20 * NSEC_PER_USEC);
	sim_run(s, 60 * NSEC_PER_USEC);
	SIM_EXPECT(s, s->member->part.last_quantum, EQ, sim_quantum(s));
	SIM_EXPECT(s, s->member->part.surplus, GT, -(s64)SIM_MTU);
	SIM_EXPECT(s, s->member->part.left, LE, sim_quantum(s) + SIM_MTU);

	/* Nor do slots whose length the owner decides on */
	load.take = 2 * SIM_MTU;
	load.delay = NSEC_PER_MSEC;
	s = sim_new_full(test, SIM_GBIT, 2, &sim_equal, 1);
	sim_fill(s, 0, 1, &load);
	sim_run(s, 50 * SIM_MS);
	SIM_EXPECT(s, s->member->part.surplus, GT, -(s64)SIM_MTU);
}

/* It is too late to give a slot back, but late siblings may use it */
static void rate_group_test_too_late(struct kunit *test)
{
	struct sim *s = sim_new_full(test, SIM_GBIT, 4, &sim_equal, 1);
	struct sim_member *other = &s->member[3];
	s64 skipped, left;
	u32 i;

	sim_run(s, SIM_MS);
	sim_drop(s, other);
	sim_add(s, other, 4);
	sim_run(s, 1);
	left = other->part.left;
	SIM_EXPECT(s, left, GE, 2 * SIM_MTU);
	sim_stop(s, other, SIM_MS);
	sim_run(s, SIM_MS / 2);
	skipped = atomic64_read(&s->group.skipped);
	sim_drop(s, other);
	skipped = atomic64_read(&s->group.skipped) - skipped;
	sim_expect_near(s, skipped, sim_ns(s, left), 2, "skipped");

	/* It lets siblings go first, and then has nothing to send */
	sim_run(s, SIM_MS);
	sim_fill(s, 3, 4, &sim_equal);
	for (i = 0; i < 4; i++)
		sim_stop(s, &s->member[i], 5 * SIM_MS);
	sim_run(s, 4 * SIM_MS);
	sim_call(s, &s->member[0]);
	sim_call(s, other);
	SIM_EXPECT(s, other->part.yield, EQ, 1);
	sim_drop(s, other);
	SIM_EXPECT(s, other->part.yield, EQ, 0);
}

/* Changes of the rate forgive nothing, and keep nobody waiting, whatever was
 * asked for in between
 */
static void rate_group_test_change(struct kunit *test)
{
	static const struct {
		u64	from, to, ns;
		u32	times;
	} changes[] = {
		{ 125000, SIM_GBIT, 20 * SIM_MS, 2 },
		{ 125000, 64, 40000 * SIM_MS, 20 },
		{ SIM_GBIT, 100 * SIM_GBIT, SIM_MS, 20 },
		{ 64, SIM_GBIT, SIM_MS, 2 },
	}, *p;
	struct sim *s;
	u32 i, j;
	u64 bound;

	for (p = changes; p < changes + ARRAY_SIZE(changes); p++) {
		s = sim_new(test, p->from, 16, &sim_equal, p - changes);
		bound = sim_bound(s, true);
		sim_fill(s, 0, 8, &sim_equal);
		sim_run(s, sim_ns(s, 20 * SIM_MTU));
		for (i = 0; i < p->times; i++) {
			sim_set_rate(s, i % 2 ? p->from : p->to);
			bound = max(bound, sim_bound(s, true));
			for (j = 8; j < s->n; j++) {
				sim_add(s, &s->member[j], 1);
				sim_call(s, &s->member[j]);
			}
			sim_update(s);
			sim_run(s, i % 2 ? sim_ns(s, 40 * SIM_MTU) : p->ns);
		}
		sim_expect(s, bound, bound);
	}

	/* A backlog that began long after it has nothing to wait for */
	s = sim_new(test, 100 * SIM_GBIT, 1, &sim_equal, 4);
	sim_set_rate(s, 64);
	sim_run(s, 1000 * 1000 * SIM_MS);
	sim_add(s, s->member, 1);
	sim_update(s);
	SIM_EXPECT(s, s->member->part.next_at, EQ, sim_now(s));
}

/* Owing something, which takes its time at the new rate */
static void sim_drop_out(struct sim *s, struct sim_member *m)
{
	u64 tail;

	rate_group_idle(&m->part, sim_clock(s, m));
	m->part.unpaid = 1000;
	tail = sim_tat(s);
	rtnl_lock();
	rate_group_leave(&m->part, sim_clock(s, m));
	rtnl_unlock();
	sim_expect_near(s, sim_tat(s), tail + sim_ns(s, 1000), 1, "debt");
	sim_drop(s, m);
}

/* What is given back between a change of the rate and the update, by a backlog
 * that vanishes or a member that leaves, is of the old rate, too; and who may
 * not go ahead at the old one may at the new one
 */
static void rate_group_test_between(struct kunit *test)
{
	struct sim_member *m;
	struct sim *s;
	u64 now, tat;
	u32 i, j;

	for (i = 0; i < 8; i++) {
		s = sim_new(test, i & 1 ? SIM_GBIT : SIM_GBIT / 1000, 9,
			    &sim_equal, i);
		m = &s->member[8];
		sim_fill(s, 0, 8, &sim_equal);
		sim_run(s, sim_ns(s, 20 * SIM_MTU));
		now = sim_now(s);
		for (j = 0; rate_group_go_ahead(&m->part, now, 64); j++)
			rate_group_charge(&m->part, now, 64);
		SIM_EXPECT(s, j, GE, 10);
		sim_set_rate(s, s->rate);
		SIM_EXPECT(s, rate_group_go_ahead(&m->part, now, 64), EQ,
			   false);
		sim_set_rate(s, i & 1 ? SIM_GBIT / 1000 : SIM_GBIT);
		tat = sim_tat(s);
		for (j = 0; j < 4; j++) {
			if (i & 2)
				sim_drop(s, &s->member[j]);
			else
				sim_drop_out(s, &s->member[j]);
		}
		if (i & 2)
			SIM_EXPECT(s, sim_tat(s), EQ, tat);
		sim_update(s);
		SIM_EXPECT(s, rate_group_go_ahead(&m->part, now, 64), EQ, true);
		rate_group_charge(&m->part, now, 64);
		s->excess.level = 0;
		sim_run(s, sim_ns(s, 100 * SIM_MTU));
		sim_expect(s, sim_bound(s, true) + 4096, U64_MAX);
	}

	/* A TAT that a member has read is not one to reserve with any more */
	s = sim_new(test, SIM_GBIT / 1000, 1, &sim_equal, i);
	atomic64_set(&s->group.tat, sim_now(s));
	sim_set_rate(s, SIM_GBIT);
	SIM_EXPECT(s, sim_tat(s), NE, sim_now(s));

	/* What was not used before is not time at the new rate */
	s = sim_new(test, SIM_GBIT / 1000, 1, &sim_equal, i);
	sim_fill(s, 0, 1, &sim_equal);
	sim_run(s, 100 * SIM_MS);
	sim_stop(s, s->member, 40 * SIM_MS);
	sim_run(s, 40 * SIM_MS - 1);
	sim_set_rate(s, SIM_GBIT);
	sim_update(s);
	sim_run(s, 10 * SIM_MS);
	sim_expect(s, 2 * SIM_MTU + sim_bound(s, true), U64_MAX);
}

/* Slots of its own length: who takes them gets as much more, or less */
static void rate_group_test_take(struct kunit *test)
{
	static const struct sim_load loads[] = {
		{ .len = SIM_LEN(1514), .take = 1514 },
		{ .len = SIM_LEN(1514), .take = 3 * 1514 },
		{ .len = SIM_LEN(1514), .take = 40 * 1514 },
		{ .len = SIM_ANY, .take = 8 * 1514 },
	};
	u64 others, want;
	struct sim *s;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		s = sim_new(test, SIM_GBIT, 41, &sim_equal, i);
		sim_fill(s, 0, 1, &loads[i]);
		sim_fill(s, 1, 41, &sim_equal);
		sim_run(s, 100 * SIM_MS);
		sim_run_anew(s, 400 * SIM_MS);

		others = s->sent - s->member->sent;
		want = mul_u64_u64_div_u64(others, loads[i].take, 40 * SIM_MTU);
		sim_expect_near(s, s->member->sent, want, div_u64(want, 33),
				"more or less");
		sim_expect_on_time(s);
	}
}

/* Shares are as weights. A member of little weight gets a frame every few
 * rounds, which last no longer.
 */
static void rate_group_test_weights(struct kunit *test)
{
	static const u32 weights[][8] = { /* in tenths */
		{ 50, 30, 20, 20, 20, 10, 10, 10 },
		{ 5000, 10, 10, 10, 10, 10, 10, 10 },
		{ 1, 1, 1, 1, 1, 1, 1, 10 },
		{ 80, 80, 80, 80, 80, 80, 80, 80 },
	};
	static const u64 rates[] = { SIM_GBIT / 100, SIM_GBIT, 100 * SIM_GBIT };
	u64 all, want, share;
	struct sim_member *m;
	struct sim *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(weights); i++) {
		s = sim_new(test, rates[i % ARRAY_SIZE(rates)], 8, &sim_equal,
			    i);
		for (j = 0, all = 0; j < 8; j++) {
			want = weights[i / ARRAY_SIZE(rates)][j];
			s->member[j].part.weight =
				want * RATE_GROUP_WEIGHT / 10;
			all += want;
		}
		sim_fill(s, 0, 8, &sim_equal);
		sim_run(s, 100 * SIM_MS);
		sim_run_anew(s, sim_ns(s, 8 * 1000 * RATE_GROUP_QUANTUM));
		for (j = 0; j < 8; j++) {
			want = weights[i / ARRAY_SIZE(rates)][j];
			share = div64_u64(s->sent * want, all);
			sim_expect_near(s, s->member[j].sent, share,
					share / 100 + 2 * RATE_GROUP_QUANTUM,
					"share");
		}
		sim_expect_on_time(s);

		/* Without a backlog, a weight counts on until it is 0 */
		m = s->member + 1;
		want = weights[i / ARRAY_SIZE(rates)][1];
		share = div64_u64(sim_ns(s, SIM_MTU) * all, want);
		sim_drop(s, s->member);
		sim_expect_near(s, rate_group_round(&m->part, m->part.weight),
				share, share / 100, "round");
		s->member[0].part.weight = 0;
		rate_group_idle(&s->member[0].part, sim_now(s));
		all -= weights[i / ARRAY_SIZE(rates)][0];
		share = div64_u64(sim_ns(s, SIM_MTU) * all, want);
		sim_expect_near(s, rate_group_round(&m->part, m->part.weight),
				share, share / 100, "round");
		sim_run_anew(s, sim_ns(s, 8 * 1000 * RATE_GROUP_QUANTUM));
		want = weights[i / ARRAY_SIZE(rates)][1];
		share = div64_u64(s->sent * want, all);
		sim_expect_near(s, m->sent, share,
				share / 100 + 2 * RATE_GROUP_QUANTUM, "share");

		for (j = 1; j < 8; j++) {
			s->member[j].part.weight = 0;
			sim_drop(s, &s->member[j]);
		}
		SIM_EXPECT(s, atomic64_read(&s->group.weights), EQ, 0);
	}
}

/* A member with less than half a packet left of its slot gives up its turn, and
 * gets the rest later, but not before its siblings have had theirs.
 */
static void rate_group_test_weights_lengths(struct kunit *test)
{
	static const struct sim_load long_ones = { .len = SIM_LEN(9018) };
	static const struct sim_load *loads[][3] = {
		{ &sim_equal, &long_ones, &sim_equal },
		{ &sim_huge, &sim_huge, &sim_small },
		{ &long_ones, &sim_equal, &sim_huge },
	};
	static const u64 rates[] = { SIM_GBIT / 100, SIM_GBIT, 10 * SIM_GBIT };
	struct sim *s;
	u64 share;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(rates) * ARRAY_SIZE(loads); i++) {
		s = sim_new(test, rates[i % 3], 3, &sim_equal, i);
		for (j = 0; j < 3; j++) {
			s->member[j].part.weight = (j + 1) * RATE_GROUP_WEIGHT;
			sim_fill(s, j, j + 1, loads[i / 3][j]);
		}
		sim_run(s, 100 * SIM_MS);
		sim_run_anew(s, sim_ns(s, 600 * 65102));
		for (j = 0; j < 3; j++) {
			share = div_u64(s->sent * (j + 1), 6);
			sim_expect_near(s, s->member[j].sent, share,
					share / 100 + 2 * 65102, "share");
		}
	}
}

/* Two of 64 members have flows of hosts that have many more: what the idle ones
 * could have does not matter. Beside them a light one goes ahead at once.
 */
static void rate_group_test_light(struct kunit *test)
{
	struct sim_load load = { .len = SIM_LEN(200), .ahead = 1 };
	struct sim_member *m;
	struct sim *s;
	u32 i, j;

	for (i = 0; i < 4; i++) {
		s = sim_new(test, i & 1 ? SIM_GBIT / 10 : SIM_GBIT, 64,
			    &sim_equal, i);
		m = s->member;
		m[0].part.weight = RATE_GROUP_WEIGHT * (i & 2 ? 1000 : 3) / 100;
		m[1].part.weight = RATE_GROUP_WEIGHT / 100;
		sim_fill(s, 0, 2, &sim_equal);
		sim_run(s, 100 * SIM_MS);
		sim_run_anew(s, sim_ns(s, 4000000));
		sim_expect_near(s, s->sent, m[1].sent * (i & 2 ? 1001 : 4),
				div_u64(s->sent, i & 2 ? 2 : 50), "by weight");
		sim_expect_on_time(s);

		m[2].load = &load;
		m[2].part.weight = m[1].part.weight;
		for (j = 0; j < 20; j++) {
			sim_drop(s, &m[2]);
			m[2].wait = 0;
			sim_add(s, &m[2], 1);
			sim_run(s, 20 * SIM_MS);
			SIM_EXPECT(s, m[2].wait, LE,
				   sim_ns(s, 2 * SIM_MTU));
		}
	}
}

/* Who always asks for less than a quantum does not save up the rest */
static void rate_group_test_credit(struct kunit *test)
{
	struct sim *s = sim_new(test, SIM_GBIT, 2, &sim_small, 1);
	struct sim_member *m = &s->member[1];
	u32 i;

	sim_fill(s, 0, 1, &sim_equal);
	for (i = 0; i < 1000; i++) {
		if (m->backlog <= 64)
			sim_add(s, m, 1);
		sim_run(s, NSEC_PER_USEC);
		SIM_EXPECT(s, m->part.surplus, GE, -64);
	}
	sim_fill(s, 1, 2, &sim_equal);
	sim_run_anew(s, SIM_MS);
	sim_expect_near(s, m->sent, s->member->sent, 2 * sim_quantum(s),
			"half");
}

/* A rank gets what smaller ones do not want, all of that, and at once */
static void rate_group_test_ranks(struct kunit *test)
{
	struct sim_load half = { .len = SIM_LEN(1514), .burst = 1 };
	struct sim_member *m;
	struct sim *s;
	u64 hold;
	u32 i;

	for (i = 0; i < 12; i++) {
		s = sim_new(test, i & 1 ? SIM_GBIT / 10 : 10 * SIM_GBIT, 6,
			    &sim_equal, i);
		m = s->member;
		m[1].part.rank = RATE_GROUP_DEFAULT_RANK + 1;
		m[2].part.rank = RATE_GROUP_DEFAULT_RANK + 1;
		m[3].part.rank = RATE_GROUP_DEFAULT_RANK + 3;
		sim_fill(s, 0, 4, &sim_equal);
		sim_run(s, SIM_MS);
		sim_run_anew(s, sim_ns(s, 1000 * RATE_GROUP_QUANTUM));
		SIM_EXPECT(s, s->sent - m[0].sent, EQ, 0);
		sim_expect_on_time(s);
		hold = sim_bytes(s, RATE_GROUP_HOLD);

		/* 2 x 25 percent, packet by packet */
		half.pause = sim_ns(s, 8 * 1514);
		sim_begin(s, 0, 1, &half);
		sim_begin(s, 4, 5, &half);
		sim_run(s, SIM_MS);
		sim_run_anew(s, sim_ns(s, 1000 * RATE_GROUP_QUANTUM));
		sim_expect_near(s, m[0].sent, s->sent / 4, s->sent / 20,
				"a quarter");
		sim_expect_near(s, m[1].sent, m[2].sent, s->sent / 50, "turns");
		SIM_EXPECT(s, m[3].sent, EQ, 0);
		/* They may make up for what they waited for in vain */
		sim_expect(s, sim_bound(s, true) + hold,
			   sim_bound(s, true) + hold);

		for (m = s->member; m < s->member + 5; m++) {
			m->arrive = SIM_NEVER;
			if (m - s->member != 3)
				sim_drop(s, m);
		}
		sim_run(s, SIM_MS);
		sim_run_anew(s, sim_ns(s, 1000 * RATE_GROUP_QUANTUM));
		sim_expect_near(s, s->member[3].sent, 1000 * RATE_GROUP_QUANTUM,
				2 * RATE_GROUP_QUANTUM, "all");
	}
}

/* Who has nothing to send lets nobody wait. Bursts of a slot, every 50 us,
 * would hold all later ranks for ever.
 */
static void rate_group_test_hold(struct kunit *test)
{
	static const u64 rates[] = { 1, 10, 25, 100, 400 };
	struct sim_load burst = { .len = SIM_LEN(1490), .burst = 1 };
	struct sim *s;
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(rates); i++) {
		s = sim_new(test, rates[i] * SIM_GBIT, 2, &sim_equal, i);
		s->member[0].load = &burst;
		s->member[0].part.rank = i & 1 ? 0 :
						 RATE_GROUP_DEFAULT_RANK - 2;
		sim_fill(s, 1, 2, &sim_equal);
		sim_run_anew(s, SIM_MS);
		for (j = 0; j < 100; j++) {
			sim_add(s, &s->member[0], 11);
			sim_run(s, 50 * NSEC_PER_USEC);
		}
		sim_expect_near(s, s->sent, sim_bytes(s, 6 * SIM_MS),
				sim_bytes(s, 30 * NSEC_PER_USEC) +
				sim_bound(s, false), "all of the rate");
		/* If any rank is used, the smaller one goes first */
		SIM_EXPECT(s, s->member[0].wait, LE,
			   sim_ns(s, 13 * SIM_MTU) +
			   sim_ns(s, RATE_GROUP_QUANTUM));
	}
}

/* A hold ends when its backlog is gone, or its member takes another rank. Who
 * has waited for long would not look again before it is over, 50 us later.
 */
static void rate_group_test_release(struct kunit *test)
{
	const struct sim_load burst = { .len = SIM_LEN(1490), .burst = 1 };
	struct sim_member *m;
	struct sim *s;
	u64 sent;
	u32 i, j;

	for (i = 0; i < 2; i++) {
		s = sim_new(test, 10 * SIM_GBIT, 3, &sim_equal, i);
		m = s->member;
		sim_fill(s, 1, 2, &sim_equal);
		for (j = 0; j < 20; j++) {
			m[0].part.rank = RATE_GROUP_DEFAULT_RANK - 2;
			sim_fill(s, 0, 1, &sim_equal);
			sim_run(s, SIM_MS);
			if (i)
				m[0].part.rank = RATE_GROUP_DEFAULT_RANK + 2;
			else
				sim_drop(s, &m[0]);
			sim_run(s, 200 * NSEC_PER_USEC);
		}
		/* For a slot, and a 128th of the time */
		SIM_EXPECT(s, m[1].wait, LE, SIM_MS + 20 * NSEC_PER_USEC);
	}

	/* Siblings of that rank still go before later ones */
	m[0].part.rank = RATE_GROUP_DEFAULT_RANK - 2;
	m[2].part.rank = RATE_GROUP_DEFAULT_RANK - 2;
	m[2].load = &burst;
	sim_run(s, SIM_MS);
	sent = m[1].sent;
	for (j = 0; j < 100; j++) {
		sim_add(s, &m[2], 11);
		sim_run(s, 50 * NSEC_PER_USEC);
	}
	SIM_EXPECT(s, m[1].sent, EQ, sent);

	/* Nobody waits because an earlier backlog has waited for long */
	for (i = 0; i < 3; i++)
		sim_drop(s, &m[i]);
	sim_run(s, SIM_MS);
	sim_add(s, &m[2], 11);
	sim_run(s, NSEC_PER_USEC);
	m[1].wait = 0;
	sim_add(s, &m[1], 1);
	sim_run(s, SIM_MS);
	SIM_EXPECT(s, m[1].wait, LE, sim_ns(s, 12 * SIM_MTU));
}

/* What the group knows of its members is forgotten after a while */
static void rate_group_test_forget(struct kunit *test)
{
	struct sim *s = sim_new_full(test, SIM_GBIT / 100, 4, &sim_equal, 1);
	static const struct sim_load huge = { .len = SIM_LEN(65102) };
	u32 i;

	for (i = 0; i < 3; i++) {
		sim_fill(s, 0, 1, i == 1 ? &sim_big : &huge);
		s->member[0].part.rank = RATE_GROUP_DEFAULT_RANK + 1 - i;
		sim_run(s, 1500 * SIM_MS);
		SIM_EXPECT(s, s->group.longest, EQ,
			   i == 1 ? 9000 : 65102);
		if (i == 1)
			SIM_EXPECT(s,
				   (u32)(sim_now(s) >> RATE_GROUP_STAMP) -
					   s->group.ranked_stamp,
				   GT, RATE_GROUP_MEMORY);
	}
	/* Whoever is of rank 5 is the only one who sends */
	SIM_EXPECT(s,
		   (u32)(sim_now(s) >> RATE_GROUP_STAMP) -
			   s->group.ranked_stamp,
		   LE, RATE_GROUP_MEMORY);
	sim_fill(s, 0, 1, &sim_equal);
	sim_run(s, 4000 * SIM_MS);
	SIM_EXPECT(s, s->group.longest, EQ, SIM_MTU);
}

/* What a user is told about who has how much of the rate */
static void rate_group_test_share(struct kunit *test)
{
	struct sim *s = sim_new(test, SIM_GBIT, 4, &sim_equal, 1);
	struct rate_group_member *part = &s->member->part;
	u64 share, now;

	SIM_EXPECT(s, rate_group_share(part, s->start), EQ, 0);
	sim_fill(s, 0, 4, &sim_equal);
	sim_run(s, 500 * SIM_MS);
	now = sim_now(s);
	share = rate_group_share(part, now);
	sim_expect_near(s, share, SIM_GBIT / 4, SIM_GBIT / 400, "share");
	SIM_EXPECT(s, rate_group_recent(part, now), EQ, true);
	/* By somebody who looked at the clock before it sent the last packet */
	SIM_EXPECT(s, rate_group_recent(part, now - SIM_MS), EQ, true);
	now -= 150 * SIM_MS;
	SIM_EXPECT(s, rate_group_share(part, now), EQ, share);

	sim_drop(s, s->member);
	sim_run(s, 2 * SIM_MS);
	now = sim_now(s);
	SIM_EXPECT(s, rate_group_recent(part, now), EQ, false);
	sim_run(s, 500 * SIM_MS);
	now = sim_now(s);
	SIM_EXPECT(s, rate_group_share(part, now), EQ, 0);
	share = rate_group_share(&s->member[1].part, now);
	sim_expect_near(s, share, SIM_GBIT / 3, SIM_GBIT / 300, "share");
	sim_fill(s, 0, 1, &sim_equal);
	sim_run(s, SIM_MS);
	SIM_EXPECT(s, rate_group_share(part, sim_now(s)), EQ, 0);
	/* It need not send again to be told of */
	sim_drop(s, s->member);
	sim_run(s, BIT(27));
	SIM_EXPECT(s, rate_group_share(part, sim_now(s)), GT, 0);
}

/* Any load; all ask for 20 to 220 percent together */
static void sim_any_load(struct sim *s, struct sim_load *load, u32 seed)
{
	u64 bytes;

	*load = *sim_loads[sim_random(s, ARRAY_SIZE(sim_loads))];
	load->burst = 1 + sim_random(s, 32);
	if (seed & 1)
		load->late = sim_random(s, 3 * SIM_MS);
	if (seed & 2)
		load->stop = sim_random(s, 10 * SIM_MS);
	if (seed & 4)
		load->drop = 2 + sim_random(s, 8);
	load->ahead = seed & 8 ? sim_random(s, 4) : 0;
	load->exempt = (seed & 768) == 768 ? 2 : 0;
	if (seed & 64)
		load->overhead = sim_random(s, 200) - 50;
	bytes = load->len[2] * (load->burst + 1ULL) * s->n;
	load->pause = sim_ns(s, div_u64(bytes * 100, 20 + sim_random(s, 200)));
}

/* Anything at all: the bounds that the comment states, over all windows. What
 * CPUs disagree about the time is sent early or late, and no more.
 */
static void rate_group_test_random(struct kunit *test)
{
	bool full, on_time;
	struct sim_load load[2];
	u64 bound, skew;
	u32 i, seed;
	struct sim *s;

	for (seed = 1; seed <= 1024; seed++) {
		full = seed & 16;
		on_time = !(seed & 7);
		s = sim_new(test, 1, seed & 32 ? 41 : 3, &sim_equal, seed);
		sim_set_rate(s, (SIM_GBIT / 100) << sim_random(s, 14));
		sim_update(s);
		sim_any_load(s, &load[0], seed);
		sim_any_load(s, &load[1], seed);
		skew = seed & 128 ? SIM_MS : 0;
		for (i = 0; i < s->n; i++) {
			s->member[i].skew = sim_random(s, skew);
			s->member[i].seen = false;
			sim_begin(s, i, i + 1, &load[sim_random(s, 2)]);
		}
		if (full)
			sim_fill(s, 0, 1, &sim_equal);
		sim_run(s, sim_ns(s, 3000000));

		bound = sim_bound(s, on_time) + sim_bytes(s, skew);
		SIM_EXPECT(s, sim_max(&s->excess), LE,
			   bound + (on_time ? 0 : sim_max_late(s)));
		/* Unless all are late, or slots are granted in vain */
		if (on_time || (full && !(seed & 4)))
			SIM_EXPECT(s, sim_max(&s->shortage), LE, bound);
		for (i = 0; i < s->n; i++)
			SIM_EXPECT(s, (s64)s->member[i].part.waited, GE, 0);
	}
}

static struct kunit_case sim_cases[] = {
	KUNIT_CASE(rate_group_test_numbers),
	KUNIT_CASE(rate_group_test_alone),
	KUNIT_CASE_PARAM(rate_group_test_saturated, sim_saturated_gen_params),
	KUNIT_CASE(rate_group_test_fair),
	KUNIT_CASE(rate_group_test_skipped),
	KUNIT_CASE(rate_group_test_claims),
	KUNIT_CASE(rate_group_test_lateness),
	KUNIT_CASE_PARAM(rate_group_test_late_calls, sim_lateness_gen_params),
	KUNIT_CASE(rate_group_test_burst),
	KUNIT_CASE(rate_group_test_patience),
	KUNIT_CASE(rate_group_test_prepay),
	KUNIT_CASE_PARAM(rate_group_test_flood, sim_floods_gen_params),
	KUNIT_CASE(rate_group_test_sparse),
	KUNIT_CASE(rate_group_test_all_drop),
	KUNIT_CASE(rate_group_test_own),
	KUNIT_CASE(rate_group_test_surplus),
	KUNIT_CASE(rate_group_test_refund),
	KUNIT_CASE(rate_group_test_missed),
	KUNIT_CASE(rate_group_test_too_late),
	KUNIT_CASE(rate_group_test_leave),
	KUNIT_CASE(rate_group_test_rates),
	KUNIT_CASE(rate_group_test_change),
	KUNIT_CASE(rate_group_test_between),
	KUNIT_CASE(rate_group_test_take),
	KUNIT_CASE(rate_group_test_weights),
	KUNIT_CASE(rate_group_test_weights_lengths),
	KUNIT_CASE(rate_group_test_light),
	KUNIT_CASE(rate_group_test_credit),
	KUNIT_CASE(rate_group_test_ranks),
	KUNIT_CASE(rate_group_test_hold),
	KUNIT_CASE(rate_group_test_release),
	KUNIT_CASE(rate_group_test_forget),
	KUNIT_CASE(rate_group_test_share),
	KUNIT_CASE(rate_group_test_random),
	{}
};

/* Timers become better with the first tick, and not in the middle of a case */
static int sim_init_suite(struct kunit_suite *suite)
{
	u32 i;

	for (i = 0; i < 10 && hrtimer_resolution >= TICK_NSEC; i++)
		msleep(20);

	return 0;
}

static int sim_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct sim), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static void sim_exit(struct kunit *test)
{
	struct sim *s = test->priv;

	if (s)
		kvfree(s->member);
}

static struct kunit_suite sim_suite = {
	.name = "rate_group",
	.suite_init = sim_init_suite,
	.init = sim_init,
	.exit = sim_exit,
	.test_cases = sim_cases,
};

kunit_test_suite(sim_suite);

MODULE_DESCRIPTION("KUnit tests for the rate group");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

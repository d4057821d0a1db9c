// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Classes with a rate, a ceil and a priority, shared by many queues */

#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/if_ether.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>
#include <net/net_debug.h>
#include <net/sch_rate_tree.h>

/**
 * DOC: rate tree
 *
 * A tree of classes, as HTB has it, for queues that run under locks of their
 * own. A scheduler under a lock of the tree grants *slots*, not packets. A slot
 * allows a *member*, which is a class on one queue, to send a number of bytes
 * from a given time on, paced at the rate of the root. A queue takes that lock
 * about once per slot, and sends what it was granted under its own.
 *
 * Slots follow each other without a gap as long as any member that may have one
 * waits, and queues ask in time. They are granted only shortly before they
 * begin, when it is known which members wait: at most RATE_TREE_AHEAD, or the
 * time of two packets if that is longer. Any queue that asks grants what is
 * due, to whichever member. The queue with the last slot asks before that ends.
 * If its member becomes idle, that grants one more, and another queue has the
 * last. That queue may be stopped, or no member may have a slot, as all classes
 * are above their ceils. So each queue asks at least once per half of the
 * lateness limit, below.
 *
 * If no slot is to come when a member becomes idle, and its class and those
 * above are below their ceils, it is *free* for RATE_TREE_HORIZON: it needs no
 * slot for what takes half of RATE_TREE_SLACK in all, or as long as half a
 * packet if that is shorter. It is charged for that when it becomes idle after
 * half of it, or after that time, or with its next slot. Below the rate, small
 * packets hardly take the lock.
 *
 * A slot is granted from the root down. Of the children that have members
 * waiting and are not above their ceil, a child below its rate goes first, the
 * one that is furthest behind before others. If none is below its rate, the
 * first priority goes first, and within it the child that had least beyond its
 * rate, divided by its quantum. The priority of a class with children is the
 * first of those that wait below it.
 *
 * Members of a class take turns. If a class has both children and waiting
 * members of its own, the first priority goes first; they get slots alternately
 * if it is the same, or a child is below its rate. A class that did not use its
 * rate for some time can catch up on RATE_TREE_HORIZON of it, or on as much as
 * the child that is furthest behind. Where rates add up to more than there is,
 * each gets less in proportion: that is so if a child lags by more than two
 * RATE_TREE_HORIZON and a round. A round is the sum, over the classes above it,
 * of the time of one slot for each member that waits below them, or did of
 * late, at the rate of that class or, if they add up to more, at those of its
 * children; at most a second. A class may be ahead of its ceil by half a
 * RATE_TREE_HORIZON, two packets, or a round of up to RATE_TREE_SLOT_MAX, or up
 * to the longest packet of its siblings, whichever is longest, and by what its
 * members owe.
 *
 * A slot is rounded down to packets of the largest size in this backlog, cut to
 * the backlog, and increased by what the member overdrew in earlier slots. What
 * it overdrew in its last slot is charged when its backlog ends. All slots of
 * one round last about RATE_TREE_ROUND together, but no slot is longer
 * than RATE_TREE_SLOT_MAX or a packet. A member that was late for its slot
 * sends it at once when it comes, unless the slot ended more than the lateness
 * limit ago: then it is lost. The limit is RATE_TREE_HORIZON, or the time of
 * four packets if that is longer.
 *
 * In any interval t, the bytes sent do not exceed what the rate of the root
 * allows in t and in the time that slots are granted ahead, plus one packet and
 * RATE_TREE_SLACK per member. Late queues add up to the lateness limit, and
 * slots that were given back up to the time that they are granted ahead.
 *
 * A queue asks again when the first of its slots begins: what is granted until
 * then begins later. If it has none, it asks when a member is likely to have
 * been granted one, which it knows from how long the last turns took. Whoever
 * grants a slot wakes the queue only if it would otherwise ask more than
 * RATE_TREE_LATE after the slot begins, as when other classes have become idle.
 */

static bool after(u64 a, u64 b)
{
	return time_after64(a, b);
}

static u64 later(u64 a, u64 b)
{
	return after(a, b) ? a : b;
}

static void rate_tree_speed(struct rate_tree_speed *s, u64 rate)
{
	s->frac = 0;
	s->shift = 34;
	s->mult = div64_u64((u64)NSEC_PER_SEC << 34, rate);
	while (s->mult >> 34) {
		s->mult >>= 1;
		s->shift--;
	}
}

/* Good for 2^29 bytes */
static u64 to_ns(const struct rate_tree_speed *s, u64 bytes)
{
	return (bytes * s->mult) >> s->shift;
}

/* The same, without losing what is less than a ns */
static u64 to_ns_exact(struct rate_tree_speed *s, u64 bytes)
{
	u64 fxp = bytes * s->mult + s->frac;

	s->frac = fxp & (BIT_ULL(s->shift) - 1);
	return fxp >> s->shift;
}

/* What could be sent in a time, bytes */
static u64 to_bytes(u64 rate, u64 ns)
{
	return mul_u64_u64_div_u64(rate, ns, NSEC_PER_SEC);
}

#define rate_node_class(node)					\
	rb_entry(node, struct rate_tree_class, rate_node)
#define over_node_class(node)					\
	rb_entry(node, struct rate_tree_class, over_node)
#define due_member(node)					\
	rb_entry(node, struct rate_tree_member, due)

static bool by_rate(struct rb_node *a, const struct rb_node *b)
{
	return after(rate_node_class(b)->rate_until,
		     rate_node_class(a)->rate_until);
}

static bool by_ceil(struct rb_node *a, const struct rb_node *b)
{
	return after(rate_node_class(b)->ceil_until,
		     rate_node_class(a)->ceil_until);
}

static bool by_over(struct rb_node *a, const struct rb_node *b)
{
	struct rate_tree_class *one = over_node_class(a);
	struct rate_tree_class *other = over_node_class(b);

	return after(other->over[other->at_prio], one->over[one->at_prio]);
}

static bool by_ask(struct rb_node *a, const struct rb_node *b)
{
	return after(due_member(b)->ask, due_member(a)->ask);
}

/* How far a slot may lie in the past */
static u64 rate_tree_lateness(const struct rate_tree_speed *root)
{
	return max(RATE_TREE_HORIZON, to_ns(root, 4 * ETH_FRAME_LEN));
}

static u64 rate_tree_ahead(const struct rate_tree_speed *root)
{
	return max(RATE_TREE_AHEAD, to_ns(root, 2 * ETH_FRAME_LEN));
}

static bool rate_tree_wants(const struct rate_tree_class *c)
{
	return c->prios || !list_empty(&c->waiting);
}

static u8 rate_tree_prio(const struct rate_tree_class *c)
{
	u8 prio = c->prios ? __ffs(c->prios) : c->prio;

	return list_empty(&c->waiting) ? prio : min(prio, c->prio);
}

/* Take a class out of the trees that it is in */
static void rate_tree_detach(struct rate_tree_class *c)
{
	struct rate_tree_class *p = c->parent;

	if (c->state == RATE_TREE_IDLE)
		return;

	p->sum -= c->rate;
	if (c->state == RATE_TREE_BLOCKED) {
		rb_erase_cached(&c->rate_node, &c->tree->blocked);
	} else {
		rb_erase_cached(&c->rate_node, &p->by_rate);
		rb_erase_cached(&c->over_node, &p->by_over[c->at_prio]);
		if (!rb_first_cached(&p->by_over[c->at_prio]))
			p->prios &= ~BIT(c->at_prio);
	}
	c->state = RATE_TREE_IDLE;
}

/* How long a slot is if there are packets for it */
static u32 rate_tree_most(const struct rate_tree *t)
{
	u32 members = max(t->root.members, 1U);

	return min(t->root.most / members, RATE_TREE_SLOT_MAX);
}

/* How long a class may wait for its next slot although all classes have their
 * rates
 */
static u64 rate_tree_round(const struct rate_tree_class *c)
{
	const struct rate_tree_class *p = c->parent;
	u64 rate, ns = 0;

	/* As if it were in the trees */
	rate = p->sum + (c->state == RATE_TREE_IDLE ? c->rate : 0);
	for (; p; p = p->parent) {
		rate = p->parent ? max3(rate, p->rate, p->sum) : p->ceil;
		ns += div64_u64(p->round * NSEC_PER_SEC, rate);
	}
	return min(ns, NSEC_PER_SEC);
}

/* Put a class where it belongs at a time. A @fresh one, that could have had no
 * slot before, has no claim to what it did not want, but as the first of others
 * that have waited.
 */
static void rate_tree_attach(struct rate_tree_class *c, u64 at, bool fresh)
{
	struct rate_tree_class *p = c->parent;
	u8 prio = rate_tree_prio(c);
	struct rb_node *first;
	u64 oldest;

	if (!rate_tree_wants(c))
		return;

	p->sum += c->rate;
	if (after(c->ceil_until, at)) {
		c->state = RATE_TREE_BLOCKED;
		rb_add_cached(&c->rate_node, &c->tree->blocked, by_ceil);
		return;
	}

	if (fresh) {
		oldest = at - p->behind - RATE_TREE_HORIZON;
		first = rb_first_cached(&p->by_rate);
		if (first && after(oldest, rate_node_class(first)->rate_until))
			oldest = rate_node_class(first)->rate_until;
		c->rate_until = later(c->rate_until, oldest);
	}
	/* It is ahead of others by its last slot at most, or this is old */
	if (c->over[prio] - p->served[prio] > BIT_ULL(60))
		c->over[prio] = p->served[prio];
	c->at_prio = prio;
	c->state = RATE_TREE_READY;
	rb_add_cached(&c->rate_node, &p->by_rate, by_rate);
	rb_add_cached(&c->over_node, &p->by_over[prio], by_over);
	p->prios |= BIT(prio);
}

/* What waits in or below a class has changed, or it may be below its ceil by
 * now. That may change where it belongs, and its parents.
 */
static void rate_tree_settle(struct rate_tree_class *c, u64 at)
{
	bool fresh;

	for (; c->parent; c = c->parent) {
		fresh = c->state != RATE_TREE_READY;
		if (!rate_tree_wants(c)) {
			if (c->state == RATE_TREE_IDLE)
				return;
		} else if (after(c->ceil_until, at)) {
			if (c->state == RATE_TREE_BLOCKED)
				return;
		} else if (!fresh && c->at_prio == rate_tree_prio(c)) {
			return;
		}
		rate_tree_detach(c);
		rate_tree_attach(c, at, fresh);
	}
}

static void rate_tree_unblock(struct rate_tree *t, u64 at)
{
	struct rate_tree_class *c;
	struct rb_node *node;

	while ((node = rb_first_cached(&t->blocked))) {
		c = rate_node_class(node);
		if (after(c->ceil_until, at))
			return;
		rate_tree_settle(c, at);
	}
}

static bool rate_tree_assured(const struct rate_tree_class *c, u64 at)
{
	return !after(c->rate_until, at - c->parent->behind);
}

/* Which child gets the next slot? @lags is set if one lags no more than a round
 * explains.
 */
static struct rate_tree_class *rate_tree_pick(struct rate_tree_class *p, u64 at,
					      bool *lags)
{
	struct rb_root_cached *first;
	struct rate_tree_class *c;
	u64 lag;

	c = rate_node_class(rb_first_cached(&p->by_rate));
	/* Less is no sign that rates add up to more than there is */
	lag = at - c->rate_until - 2 * RATE_TREE_HORIZON;
	if (after(lag, p->behind)) {
		lag -= rate_tree_round(c);
		*lags |= !after(lag, p->behind);
		p->behind = later(p->behind, lag);
	}
	if (rate_tree_assured(c, at))
		return c;

	first = &p->by_over[__ffs(p->prios)];
	return over_node_class(rb_first_cached(first));
}

/* Do members of a class with children that wait get the next slot? */
static bool rate_tree_own(const struct rate_tree_class *c, u64 at)
{
	u8 prio = __ffs(c->prios);

	if (list_empty(&c->waiting) || c->prio > prio)
		return false;
	if (c->prio < prio &&
	    !rate_tree_assured(rate_node_class(rb_first_cached(&c->by_rate)),
			       at))
		return true;
	return !c->own;
}

/* How many levels up the first class is that has its rate to pay with */
static u8 rate_tree_payer(const struct rate_tree_class *c, u64 at)
{
	u8 level = 0;

	for (; c->parent && !rate_tree_assured(c, at); c = c->parent)
		level++;

	return min(level, RATE_TREE_LEVELS - 1);
}

/* Which classes are above their ceil then, a bit for each level up? The root
 * has no other than the end of all slots.
 */
static u8 rate_tree_above(const struct rate_tree_class *c, u64 then, bool busy)
{
	u8 level = 0, above = 0;

	for (; c->parent; c = c->parent, level++)
		if (c->ceil < c->parent->ceil && after(c->ceil_until, then))
			above |= BIT(level);

	return busy ? above | BIT(level) : above;
}

/* A class got a slot */
static void rate_tree_account(struct rate_tree_class *c, u64 start, u64 at,
			      u32 len)
{
	struct rate_tree_class *p = c->parent;
	u64 *served = &p->served[c->at_prio];
	u64 *over = &c->over[c->at_prio];
	u64 burst;
	u32 most;

	if (rate_tree_assured(c, at)) {
		c->rate_until += to_ns_exact(&c->rate_ns, len);
	} else {
		*served = later(*served, *over);
		*over += div_u64((u64)len << 32, c->quantum);
	}
	if (c->ceil < p->ceil) {
		burst = max(RATE_TREE_HORIZON / 2,
			    to_ns(&c->ceil_ns, 2 * ETH_FRAME_LEN));
		if (after(start - burst, c->ceil_until)) {
			/* Its next slot may be a round away */
			most = max(RATE_TREE_SLOT_MAX, p->longest);
			burst = max(burst, min(rate_tree_round(c),
					       to_ns(&c->ceil_ns, most)));
			c->ceil_until = later(c->ceil_until, start - burst);
		}
		c->ceil_until += to_ns_exact(&c->ceil_ns, len);
	}
}

/* More, or fewer, members of a class wait */
static void rate_tree_count(struct rate_tree_class *c, int more)
{
	for (; c; c = c->parent)
		c->members += more;
}

/* Does a slot go on with the last one of a member, or is there no room for one
 * more? Not for long, or it is never lost.
 */
static bool rate_tree_extends(const struct rate_tree_member *m, u64 start)
{
	const struct rate_tree_slot *last;

	if (!m->slots)
		return false;

	last = &m->slot[m->slots - 1];
	return (last->end == start || m->slots == RATE_TREE_SLOTS) &&
	       !after(start, last->start + RATE_TREE_HORIZON);
}

static void rate_tree_book(struct rate_tree_member *m, u64 start, u64 end,
			   u32 len)
{
	struct rate_tree_queue *q = m->queue;
	struct rate_tree_slot *s;

	WRITE_ONCE(q->grants, q->grants + 1);
	/* Pairs with rate_tree_next(): the queue sees this, or @wake is new */
	smp_mb();
	if (after(atomic64_read(&q->wake), start + RATE_TREE_LATE))
		q->kick(q);

	WRITE_ONCE(m->booked, m->booked + len);
	if (rate_tree_extends(m, start)) {
		s = &m->slot[m->slots - 1];
		s->end = end;
		s->len += len;
		return;
	}
	if (!m->slots)
		list_add_tail(&m->granted, &q->granted);
	s = &m->slot[m->slots++];
	s->start = start;
	s->end = end;
	s->len = len;
}

/* Grant a slot to a member. Return false if none may have one. */
static bool rate_tree_grant(struct rate_tree *t, u64 now)
{
	struct rate_tree_speed *ns = &t->root.ceil_ns;
	struct rate_tree_class *c = &t->root, *n;
	u64 at = later(t->tail, now), start;
	u32 wanted, longest, slot, most;
	struct rate_tree_member *m;
	bool lags = false;
	u64 round;
	u8 payer;

	/* Nobody has a claim to time in which all were above their ceils */
	if (!rate_tree_wants(c))
		t->tail = later(t->tail, now);
	rate_tree_unblock(t, at);
	if (!rate_tree_wants(c))
		return false;

	start = later(t->tail, now - rate_tree_lateness(ns));
	slot = rate_tree_most(t);
	most = slot;
	while (c->prios) {
		c->own = rate_tree_own(c, at);
		if (c->own)
			break;
		c = rate_tree_pick(c, at, &lags);
		most = min(most, c->most);
	}
	for (n = c; n->parent; n = n->parent)
		rate_tree_detach(n);

	m = list_first_entry(&c->waiting, struct rate_tree_member, waiting);
	wanted = READ_ONCE(m->wanted);
	wanted -= min(wanted, m->booked);
	/* Whole packets, or members are ahead and behind by one each */
	longest = READ_ONCE(m->longest);
	most = max(rounddown(most, longest), longest) + READ_ONCE(m->owed);
	most = min(most, wanted);
	/* A member that has many slots asks again when it has used one */
	if (m->slots == RATE_TREE_SLOTS && !rate_tree_extends(m, start))
		most = 0;
	list_del(&m->waiting);
	if (most && wanted > most)
		list_add_tail(&m->waiting, &c->waiting);
	else
		WRITE_ONCE(m->waits, false);

	/* What explains a lag is not forgotten before that is made up for. Who
	 * has had its turn is no longer a member, but others waited for it.
	 */
	for (n = c; n; n = n->parent) {
		if (!lags) {
			n->longest -= n->longest / 256;
			n->round -= n->round / 256;
		}
		n->longest = max(n->longest, longest);
		round = (u64)n->members * max(slot, n->longest);
		n->round = max(n->round, min(round, BIT(28)));
	}
	payer = rate_tree_payer(c, at);
	for (n = c; n->parent; n = n->parent) {
		if (most)
			rate_tree_account(n, start, at, most);
		rate_tree_attach(n, at, false);
	}
	if (!m->waits)
		rate_tree_count(c, -1);
	if (most) {
		t->tail = start + to_ns_exact(ns, most);
		t->last = m;
		rate_tree_book(m, start, t->tail, most);
		m->pays[payer] += most;
		m->exceeds |= rate_tree_above(c, t->tail, after(start, now));
	}

	return true;
}

static void rate_tree_wait(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->queue->tree;

	if (m->waits)
		return;

	/* Nobody has a claim to time in which none could be granted */
	if (!rate_tree_wants(&t->root))
		t->tail = later(t->tail, now);
	if (!m->slots && m->left <= 0)
		m->since = now;
	m->free = false;
	rate_tree_count(m->class, 1);
	WRITE_ONCE(m->waits, true);
	list_add_tail(&m->waiting, &m->class->waiting);
	rate_tree_settle(m->class, later(t->tail, now));
}

/* Out of the lists of those that wait for a slot, or have one */
static void rate_tree_unwait(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->queue->tree;

	if (m->waits) {
		WRITE_ONCE(m->waits, false);
		rate_tree_count(m->class, -1);
		list_del(&m->waiting);
		rate_tree_settle(m->class, later(t->tail, now));
	}
	if (m->slots)
		list_del(&m->granted);
	m->slots = 0;
	m->queue->booked = !list_empty(&m->queue->granted);
}

static void rate_tree_due(struct rate_tree_member *m, u64 ask)
{
	struct rb_root_cached *due = &m->queue->due;

	if (!RB_EMPTY_NODE(&m->due))
		rb_erase_cached(&m->due, due);
	m->ask = ask;
	rb_add_cached(&m->due, due, by_ask);
}

static void rate_tree_not_due(struct rate_tree_member *m)
{
	if (RB_EMPTY_NODE(&m->due))
		return;

	rb_erase_cached(&m->due, &m->queue->due);
	RB_CLEAR_NODE(&m->due);
}

/* When a member is likely to have been granted its next slot */
static u64 rate_tree_expect(const struct rate_tree_member *m)
{
	return m->since + m->turn - rate_tree_ahead(&m->queue->ns);
}

/* Does a member need no slot for so many bytes? */
static bool rate_tree_free(const struct rate_tree_member *m, u64 now, u32 bytes)
{
	return m->free && !after(now, m->since + RATE_TREE_HORIZON) &&
	       to_ns(&m->queue->ns, bytes) <= m->queue->slack / 2;
}

/* Whose rate pays for the next packet? What was overdrawn, the last one did. */
static void rate_tree_next_payer(struct rate_tree_member *m)
{
	int i;

	for (i = 0; i < RATE_TREE_LEVELS; i++) {
		if (m->paid[i] > 0) {
			m->payer = i;
			return;
		}
	}
}

/* Tell the owner what the slots that were granted do */
static void rate_tree_tell(struct rate_tree_member *m)
{
	int i;

	for (i = 0; i < RATE_TREE_LEVELS; i++)
		m->paid[i] += m->pays[i];
	memset(m->pays, 0, sizeof(m->pays));
	rate_tree_next_payer(m);
	m->above |= m->exceeds;
	m->exceeds = 0;
}

static void rate_tree_begin(struct rate_tree_member *m,
			    const struct rate_tree_slot *s)
{
	s64 turn = after(s->start, m->since) ? s->start - m->since : 0;

	if (m->left <= 0)
		m->next = s->start;
	m->left += s->len;
	WRITE_ONCE(m->owed, max(-m->left, 0));
	WRITE_ONCE(m->wanted, m->wanted - min(m->wanted, s->len));
	m->turn += (min_t(s64, turn, NSEC_PER_SEC) - m->turn) / 4;
	m->since = s->start;
	rate_tree_tell(m);
}

/* Let a member begin the slots whose time has come */
static void rate_tree_begin_slots(struct rate_tree_member *m, u64 now)
{
	struct rate_tree_queue *q = m->queue;
	u64 lost = now - rate_tree_lateness(&q->ns);
	struct rate_tree_slot *s = m->slot;
	int i;

	/* The tail has moved back if others gave up slots, or the rate rose */
	for (i = 0; i < m->slots; i++)
		if (after(s[i].start, q->tree->tail))
			s[i].start = q->tree->tail;

	while (m->slots && !after(s->start, now + q->slack)) {
		WRITE_ONCE(m->booked, m->booked - s->len);
		if (!after(lost, s->end))
			rate_tree_begin(m, s);
		memmove(s, s + 1, --m->slots * sizeof(*s));
	}
	if (m->wanted > m->booked && m->slots < RATE_TREE_SLOTS)
		rate_tree_wait(m, now);

	m->known = m->slots;
	if (m->slots) {
		rate_tree_not_due(m);
		if (after(q->ask, s->start))
			q->ask = s->start;
	} else {
		list_del(&m->granted);
	}
	if (m->left > 0) {
		rate_tree_not_due(m);
		if (list_empty(&m->open))
			list_add_tail(&m->open, &q->open);
	} else if (!m->slots && RB_EMPTY_NODE(&m->due)) {
		rate_tree_due(m, rate_tree_expect(m));
	}
}

/* See what the members of a queue were granted, and grant what is due */
static void rate_tree_ask(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree_member *m, *next;
	int grants = RATE_TREE_GRANTS;
	struct rate_tree *t = q->tree;
	struct rb_node *node;
	s64 waited, soon;
	u64 ahead, due;

	atomic64_set(&q->wake, now);
	spin_lock(&t->lock);
	q->ns = t->root.ceil_ns;
	q->slack = min_t(u64, RATE_TREE_SLACK, to_ns(&q->ns, ETH_FRAME_LEN));
	ahead = rate_tree_ahead(&q->ns);
	/* Some may not wait although they should, or have paused */
	for (node = rb_first_cached(&q->due); node; node = rb_next(node)) {
		m = due_member(node);
		if (after(m->ask, now))
			break;
		m->paused = false;
		if (m->wanted > m->booked)
			rate_tree_wait(m, now);
	}
	while (grants && !after(t->tail, now + ahead) &&
	       rate_tree_grant(t, now))
		grants--;

	/* Others may want the lock meanwhile. Else it may be the only one that
	 * asks, although it expects no slot.
	 */
	q->ask = grants ? now + rate_tree_lateness(&q->ns) / 2 : now;
	q->seen = q->grants;
	list_for_each_entry_safe(m, next, &q->granted, granted)
		rate_tree_begin_slots(m, now);
	q->booked = !list_empty(&q->granted);
	/* Who is in the last slot sees to it that another one follows */
	due = t->tail - ahead;
	if (!q->booked && t->root.members && t->last && t->last->queue == q &&
	    after(due, now) && after(q->ask, due + q->slack))
		q->ask = due + q->slack;
	spin_unlock(&t->lock);

	/* The others ask again soon, the later the longer they have waited */
	while ((node = rb_first_cached(&q->due))) {
		m = due_member(node);
		if (after(m->ask, now))
			break;
		/* Less than 0 if its slot began early */
		waited = now - m->since;
		soon = max_t(s64, ahead / 4, waited / 32);
		rate_tree_due(m, later(rate_tree_expect(m), now + soon));
	}
}

/* The root has another rate. That changes how long turns take. */
static void rate_tree_changed(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree_member *m;
	struct rb_node *node;

	q->changes = READ_ONCE(q->tree->changes);
	q->ask = now;
	list_for_each_entry(m, &q->open, open) {
		m->turn = 0;
		if (after(m->next, now))
			m->next = now;
	}
	for (node = rb_first_cached(&q->due); node; node = rb_next(node)) {
		due_member(node)->turn = 0;
		due_member(node)->ask = now;
	}
}

/**
 * rate_tree_next - which member of a queue may send a packet now
 * @q: the queue
 * @now: time, ns
 * @when: set to the time at which to ask again if there is none, ns
 *
 * Context: lock of the queue held, bottom halves disabled.
 * Return: the member, or NULL. What it sends has to be charged, and its backlog
 * told. If it cannot send after all, see rate_tree_pause().
 */
struct rate_tree_member *rate_tree_next(struct rate_tree_queue *q, u64 now,
					u64 *when)
{
	struct rate_tree_member *m, *first;
	struct rb_node *node;
	u64 at;

	if (q->changes != READ_ONCE(q->tree->changes))
		rate_tree_changed(q, now);

	for (;;) {
		first = NULL;
		list_for_each_entry(m, &q->open, open)
			if (!first || after(first->next, m->next))
				first = m;
		if (first && !after(first->next, now + q->slack))
			return first;

		at = q->ask - q->slack;
		/* What is granted before a slot begins comes after it */
		node = q->booked ? NULL : rb_first_cached(&q->due);
		if (node && after(at, due_member(node)->ask))
			at = due_member(node)->ask;
		if (!after(at, now)) {
			rate_tree_ask(q, now);
			continue;
		}
		if (first && after(at, first->next - q->slack))
			at = first->next - q->slack;
		atomic64_set(&q->wake, at);
		smp_mb(); /* pairs with that in rate_tree_book() */
		if (READ_ONCE(q->grants) == q->seen)
			break;
		rate_tree_ask(q, now);
	}

	*when = at;
	return NULL;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_next, "NET_SCHED_INTERNAL");

/**
 * rate_tree_charge - a packet was sent
 * @m: the member, which rate_tree_next() has returned
 * @len: of the packet, bytes
 *
 * The owner then calls rate_tree_backlog().
 *
 * Context: lock of the queue held.
 */
void rate_tree_charge(struct rate_tree_member *m, u32 len)
{
	if (len > m->longest)
		WRITE_ONCE(m->longest, len);
	m->next += to_ns(&m->queue->ns, len);
	m->paid[m->payer] -= len;
	if (m->paid[m->payer] <= 0)
		rate_tree_next_payer(m);
	m->left -= len;
	if (m->left <= 0) {
		WRITE_ONCE(m->owed, -m->left);
		list_del_init(&m->open);
	}
}
EXPORT_SYMBOL_NS_GPL(rate_tree_charge, "NET_SCHED_INTERNAL");

/* What a member was granted and did not send goes back to the root, and to
 * ceils, but it stays charged to the rates of its classes.
 */
static void rate_tree_give_back(struct rate_tree_member *m, u64 now, u32 bytes)
{
	struct rate_tree *t = m->queue->tree;
	struct rate_tree_class *c;
	bool fresh;
	u64 at;

	if (after(t->tail, now))
		t->tail = later(t->tail - to_ns(&t->root.ceil_ns, bytes), now);
	for (c = m->class; c->parent; c = c->parent) {
		if (c->ceil >= c->parent->ceil)
			continue;
		fresh = c->state != RATE_TREE_READY;
		at = later(t->tail, now);
		rate_tree_detach(c);
		c->ceil_until -= to_ns(&c->ceil_ns, bytes);
		rate_tree_attach(c, at, fresh);
		rate_tree_settle(c->parent, at);
	}
}

/* It sent more than it was granted, and no slot of its own follows */
static void rate_tree_overdrawn(struct rate_tree_member *m, u64 now, u32 bytes)
{
	struct rate_tree *t = m->queue->tree;
	u64 at = later(t->tail, now), start;
	struct rate_tree_class *c;
	bool fresh;

	/* What went without a slot has taken time that is over */
	start = m->free ? later(t->tail, m->since) : at;
	for (c = m->class; c; c = c->parent)
		c->longest = max(c->longest, bytes);
	for (c = m->class; c->parent; c = c->parent) {
		fresh = c->state != RATE_TREE_READY;
		rate_tree_detach(c);
		rate_tree_account(c, start, at, bytes);
		rate_tree_attach(c, at, fresh);
	}
	t->tail = start + to_ns_exact(&t->root.ceil_ns, bytes);
}

/* Is there room for packets without a slot? A queue that has never asked does
 * not know for how many.
 */
static bool rate_tree_room(const struct rate_tree_member *m, u64 now)
{
	const struct rate_tree *t = m->queue->tree;
	const struct rate_tree_class *c;

	if (!m->queue->slack || after(t->tail, now + RATE_TREE_SLACK))
		return false;
	for (c = m->class; c->parent; c = c->parent)
		if (after(c->ceil_until, now))
			return false;
	return true;
}

/* A member has nothing to send */
static void rate_tree_idle(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->queue->tree;
	s64 unsent;
	bool was;

	rate_tree_not_due(m);
	m->known = false;
	m->paused = false;
	m->backlogged = false;
	WRITE_ONCE(m->longest, ETH_FRAME_LEN);
	list_del_init(&m->open);
	/* It has had no slot, and as much again may follow */
	if (rate_tree_free(m, now, -2 * m->left)) {
		WRITE_ONCE(m->wanted, 0);
		return;
	}

	spin_lock(&t->lock);
	was = rate_tree_wants(&t->root);
	rate_tree_unwait(m, now);
	unsent = m->left + m->booked;
	if (unsent > 0)
		rate_tree_give_back(m, now, unsent);
	else if (unsent < 0)
		rate_tree_overdrawn(m, now, -unsent);
	m->left = 0;
	WRITE_ONCE(m->owed, 0);
	WRITE_ONCE(m->wanted, 0);
	WRITE_ONCE(m->booked, 0);
	if (!was && rate_tree_wants(&t->root))
		t->tail = later(t->tail, now);
	/* It will not ask for the slot that follows its own */
	if (t->last == m) {
		t->last = NULL;
		if (t->root.members)
			rate_tree_grant(t, now);
	}
	m->free = rate_tree_room(m, now);
	memset(m->paid, 0, sizeof(m->paid));
	memset(m->pays, 0, sizeof(m->pays));
	m->payer = rate_tree_payer(m->class, now);
	m->since = now;
	spin_unlock(&t->lock);
}

/**
 * rate_tree_pause - a member has a backlog, but cannot send
 * @m: the member, which rate_tree_next() has returned
 * @now: time, ns
 * @until: when to try again, ns
 *
 * It gives back what it was granted.
 *
 * Context: lock of the queue held, bottom halves disabled.
 */
void rate_tree_pause(struct rate_tree_member *m, u64 now, u64 until)
{
	m->free = false;
	rate_tree_idle(m, now);
	m->paused = true;
	m->backlogged = true;
	/* The rest is told when a packet was sent: else the time of the slots
	 * that it gives back is lost again and again.
	 */
	WRITE_ONCE(m->wanted, 1);
	rate_tree_due(m, until);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_pause, "NET_SCHED_INTERNAL");

/**
 * rate_tree_backlog - tell the backlog of a member
 * @m: the member
 * @now: time, ns
 * @backlog: what it has to send, bytes
 *
 * To be called whenever that has changed. The owner then asks by
 * rate_tree_next().
 *
 * Context: lock of the queue held, bottom halves disabled.
 */
void rate_tree_backlog(struct rate_tree_member *m, u64 now, u32 backlog)
{
	struct rate_tree *t = m->queue->tree;
	u32 wanted;

	if (!backlog) {
		/* A leaf that drops may say so before its packet is charged */
		if (m->backlogged || m->left < 0)
			rate_tree_idle(m, now);
		return;
	}

	m->backlogged = true;
	if (m->paused)
		return;

	wanted = clamp_t(s64, backlog - m->left, 0, BIT(28));
	WRITE_ONCE(m->wanted, wanted);
	if (rate_tree_free(m, now, wanted)) {
		if (list_empty(&m->open)) {
			m->next = later(m->next, now);
			list_add_tail(&m->open, &m->queue->open);
		}
		return;
	}
	if (m->left <= 0)
		list_del_init(&m->open);
	if (wanted > READ_ONCE(m->booked) && !READ_ONCE(m->waits)) {
		spin_lock(&t->lock);
		if (!m->slots && m->left <= 0)
			rate_tree_due(m, now);
		rate_tree_wait(m, now);
		spin_unlock(&t->lock);
	}
	/* A slot may have been granted since the queue looked */
	if (m->left <= 0 && !m->known && RB_EMPTY_NODE(&m->due))
		rate_tree_due(m, rate_tree_expect(m));
}
EXPORT_SYMBOL_NS_GPL(rate_tree_backlog, "NET_SCHED_INTERNAL");

static u64 sooner(u64 t, u64 from, u64 to)
{
	return after(t, to) && !after(t, from) ? to : t;
}

/* Nobody waits for the end of slots, at @from, that is earlier now. What a
 * class has used beyond that it has used. The order in the trees is the same.
 */
static void rate_tree_sooner(struct rate_tree *t, u64 from)
{
	struct rate_tree_class *c;
	u64 behind;

	list_for_each_entry(c, &t->classes, node) {
		behind = c->parent->behind;
		c->rate_until = sooner(c->rate_until + behind, from, t->tail) -
				behind;
		c->ceil_until = sooner(c->ceil_until, from, t->tail);
	}
}

/**
 * rate_tree_set - configure a class
 * @c: the class
 * @rate: bytes/s, more than 0
 * @ceil: bytes/s, more than 0
 * @quantum: bytes, more than 0
 * @prio: below RATE_TREE_PRIOS
 * @now: time, ns
 *
 * Context: RTNL held, in process context.
 * Return: true if the owner has to let all queues ask, as the root has another
 * rate: what they wait for may come much sooner.
 */
bool rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		   u8 prio, u64 now)
{
	u64 most = to_bytes(ceil, c->parent ? RATE_TREE_HORIZON / 2 :
					      RATE_TREE_ROUND);
	bool was, changed = !c->parent && c->ceil && c->ceil != ceil;
	struct rate_tree *t = c->tree;
	u64 at, booked = 0;

	if (rate == c->rate && ceil == c->ceil && quantum == c->quantum &&
	    prio == c->prio)
		return false;

	spin_lock_bh(&t->lock);
	was = rate_tree_wants(&t->root);
	/* Nothing is booked at the rate of a new root */
	if (!c->parent && !c->ceil)
		t->tail = now;
	at = later(t->tail, now);
	rate_tree_detach(c);
	if (changed)
		booked = min(to_bytes(c->ceil, at - now), BIT(28));
	if (rate != c->rate) {
		rate_tree_speed(&c->rate_ns, rate);
		if (c->parent)
			c->rate_until = at - c->parent->behind;
	}
	if (ceil != c->ceil) {
		rate_tree_speed(&c->ceil_ns, ceil);
		c->ceil_until = at;
	}
	if (booked) {
		/* What was granted takes longer or shorter now */
		t->tail = now + min(to_ns(&c->ceil_ns, booked),
				    rate_tree_lateness(&c->ceil_ns));
		if (after(at, t->tail))
			rate_tree_sooner(t, at);
		at = t->tail;
	}
	/* What it had is no longer counted in the same unit */
	if (quantum != c->quantum && c->parent)
		memcpy(c->over, c->parent->served, sizeof(c->over));
	c->rate = rate;
	c->ceil = ceil;
	c->quantum = quantum;
	c->prio = prio;
	c->most = min(most, U32_MAX);
	rate_tree_settle(c, at);
	if (!was && rate_tree_wants(&t->root))
		t->tail = later(t->tail, now);
	WRITE_ONCE(t->changes, t->changes + changed);
	spin_unlock_bh(&t->lock);

	return changed;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_set, "NET_SCHED_INTERNAL");

/**
 * rate_tree_tokens - what a class could send at once, for statistics
 * @c: the class
 * @now: time, ns
 * @tokens: set to the time for which it has not used its rate, ns; negative: to
 *	that until it may use it again
 * @ctokens: the same of its ceil
 *
 * The root has one rate, which is also its ceil. No burst limits these.
 *
 * Context: RTNL held, in process context.
 */
void rate_tree_tokens(struct rate_tree_class *c, u64 now, s64 *tokens,
		      s64 *ctokens)
{
	struct rate_tree *t = c->tree;

	spin_lock_bh(&t->lock);
	*tokens = now - (c->parent ? c->rate_until + c->parent->behind :
				     t->tail);
	*ctokens = now - (c->parent ? c->ceil_until : t->tail);
	spin_unlock_bh(&t->lock);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_tokens, "NET_SCHED_INTERNAL");

/**
 * rate_tree_add - add a class
 * @t: the tree
 * @c: the class, which rate_tree_set() has to configure
 * @parent: NULL for the root
 *
 * Context: RTNL held.
 */
void rate_tree_add(struct rate_tree *t, struct rate_tree_class *c,
		   struct rate_tree_class *parent)
{
	int i;

	memset(c, 0, sizeof(*c));
	c->tree = t;
	c->parent = parent;
	if (parent)
		list_add_tail(&c->node, &t->classes);
	INIT_LIST_HEAD(&c->waiting);
	c->by_rate = RB_ROOT_CACHED;
	for (i = 0; i < RATE_TREE_PRIOS; i++)
		c->by_over[i] = RB_ROOT_CACHED;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_add, "NET_SCHED_INTERNAL");

/**
 * rate_tree_remove - remove a class
 * @c: the class, which has no children and no members any more
 *
 * The owner may free it then.
 *
 * Context: RTNL held.
 */
void rate_tree_remove(struct rate_tree_class *c)
{
	DEBUG_NET_WARN_ON_ONCE(rate_tree_wants(c));
	DEBUG_NET_WARN_ON_ONCE(c->state != RATE_TREE_IDLE);
	if (c->parent)
		list_del(&c->node);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_remove, "NET_SCHED_INTERNAL");

/**
 * rate_tree_init - a tree with nothing but a root
 * @t: the tree
 *
 * Context: any; nobody else uses it yet.
 */
void rate_tree_init(struct rate_tree *t)
{
	memset(t, 0, sizeof(*t));
	spin_lock_init(&t->lock);
	t->blocked = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&t->classes);
	rate_tree_add(t, &t->root, NULL);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_init, "NET_SCHED_INTERNAL");

/**
 * rate_tree_queue_init - a queue that will send for classes of a tree
 * @q: the queue
 * @t: the tree
 * @kick: see &struct rate_tree_queue
 *
 * Context: RTNL held.
 */
void rate_tree_queue_init(struct rate_tree_queue *q, struct rate_tree *t,
			  void (*kick)(struct rate_tree_queue *q))
{
	memset(q, 0, sizeof(*q));
	q->tree = t;
	q->kick = kick;
	INIT_LIST_HEAD(&q->granted);
	INIT_LIST_HEAD(&q->open);
	q->due = RB_ROOT_CACHED;
	/* The first look at the tree tells the rest */
	q->changes = t->changes - 1;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_queue_init, "NET_SCHED_INTERNAL");

/**
 * rate_tree_join - a class is used on one more queue
 * @q: the queue
 * @m: what the queue has of the class
 * @c: the class
 *
 * Context: RTNL held.
 */
void rate_tree_join(struct rate_tree_queue *q, struct rate_tree_member *m,
		    struct rate_tree_class *c)
{
	memset(m, 0, sizeof(*m));
	m->class = c;
	m->queue = q;
	m->longest = ETH_FRAME_LEN;
	INIT_LIST_HEAD(&m->open);
	RB_CLEAR_NODE(&m->due);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_join, "NET_SCHED_INTERNAL");

/**
 * rate_tree_leave - a class is not used on a queue any more
 * @m: what the queue has of the class; may be freed then
 * @now: time, ns
 *
 * Context: RTNL and the lock of the queue held, bottom halves disabled; or
 * nobody sending through the queue any more, bottom halves disabled.
 */
void rate_tree_leave(struct rate_tree_member *m, u64 now)
{
	m->free = false;
	rate_tree_idle(m, now);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_leave, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("Classes with rates, shared by many queues");
MODULE_LICENSE("Dual BSD/GPL");

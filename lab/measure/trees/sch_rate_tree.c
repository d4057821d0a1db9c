// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Classes with a rate, a ceil and a priority, shared by many queues */

#include <linux/if_ether.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <net/sch_rate_tree.h>

/**
 * DOC: rate tree
 *
 * A tree of classes, as HTB has it, for queues that have locks of their own. A
 * scheduler under a lock of the tree grants *slots*, not packets: a slot is a
 * time from which on a member, which is a leaf class on one queue, may send
 * some bytes at the rate of the root. A queue takes that lock once per slot, and
 * sends what it was granted under its own.
 *
 * Slots follow each other without a gap as long as anybody waits for one. Each is
 * granted at most RATE_TREE_AHEAD before it begins, so that it is known who
 * waits. Any queue that asks grants what is due, to whichever member.
 *
 * A slot is granted from the root down. Of the children that have somebody
 * waiting and are not above their ceil,
 *
 * - one below its rate goes first, of several the one that is furthest behind;
 * - else, of the first priority, the one that had least beyond its rate, divided
 *   by its quantum.
 *
 * Members of a leaf take turns. A child that did not use its rate for some time
 * makes up for RATE_TREE_HORIZON of it. Where rates add up to more than there is,
 * each gets less in proportion.
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

#define rate_node_class(node)					\
	rb_entry(node, struct rate_tree_class, rate_node)
#define over_node_class(node)					\
	rb_entry(node, struct rate_tree_class, over_node)

static bool by_rate(struct rb_node *a, const struct rb_node *b)
{
	return time_before64(rate_node_class(a)->rate_until,
			     rate_node_class(b)->rate_until);
}

static bool by_ceil(struct rb_node *a, const struct rb_node *b)
{
	return time_before64(rate_node_class(a)->ceil_until,
			     rate_node_class(b)->ceil_until);
}

static bool by_over(struct rb_node *a, const struct rb_node *b)
{
	return time_before64(over_node_class(a)->over,
			     over_node_class(b)->over);
}

static bool rate_tree_wants(const struct rate_tree_class *c)
{
	return c->prios || !list_empty(&c->waiting);
}

/* Take a class out of the trees that it is in */
static void rate_tree_detach(struct rate_tree_class *c)
{
	struct rate_tree_class *p = c->parent;

	if (c->state == RATE_TREE_BLOCKED) {
		rb_erase_cached(&c->rate_node, &c->tree->blocked);
	} else if (c->state == RATE_TREE_READY) {
		rb_erase_cached(&c->rate_node, &p->by_rate);
		rb_erase_cached(&c->over_node, &p->by_over[c->prio]);
		if (!rb_first_cached(&p->by_over[c->prio]))
			p->prios &= ~BIT(c->prio);
	}
	c->state = RATE_TREE_IDLE;
}

/* Put a class where it belongs at a time */
static void rate_tree_attach(struct rate_tree_class *c, u64 at)
{
	struct rate_tree_class *p = c->parent;

	if (!rate_tree_wants(c))
		return;

	if (after(c->ceil_until, at)) {
		c->state = RATE_TREE_BLOCKED;
		rb_add_cached(&c->rate_node, &c->tree->blocked, by_ceil);
		return;
	}
	c->state = RATE_TREE_READY;
	rb_add_cached(&c->rate_node, &p->by_rate, by_rate);
	rb_add_cached(&c->over_node, &p->by_over[c->prio], by_over);
	p->prios |= BIT(c->prio);
}

/* A class wants a slot again, or is not above its ceil any more. So may be its
 * parent then. It has no claim to what it did not want.
 */
static void rate_tree_activate(struct rate_tree_class *c, u64 at)
{
	for (; c->parent && c->state == RATE_TREE_IDLE; c = c->parent) {
		c->rate_until = later(c->rate_until, at - c->parent->behind -
				      RATE_TREE_HORIZON);
		c->over = later(c->over, c->parent->served[c->prio]);
		rate_tree_attach(c, at);
		if (c->state == RATE_TREE_BLOCKED)
			return;
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
		rate_tree_detach(c);
		rate_tree_activate(c, at);
	}
}

/* Which child gets the next slot? */
static struct rate_tree_class *rate_tree_pick(struct rate_tree_class *p, u64 at)
{
	struct rate_tree_class *c = rate_node_class(rb_first_cached(&p->by_rate));

	p->behind = later(p->behind, at - RATE_TREE_HORIZON - c->rate_until);
	c->assured = !after(c->rate_until, at - p->behind);
	if (!c->assured) {
		c = over_node_class(rb_first_cached(
					&p->by_over[__ffs(p->prios)]));
		c->assured = false;
	}

	return c;
}

/* A class got a slot */
static void rate_tree_account(struct rate_tree_class *c, u64 start, u32 len)
{
	struct rate_tree_class *p = c->parent;
	u64 *served = &p->served[c->prio];
	u64 burst;

	if (c->assured) {
		c->rate_until += to_ns_exact(&c->rate_ns, len);
	} else {
		*served = later(*served, c->over);
		c->over += div_u64((u64)len << 16, c->quantum);
	}
	if (c->ceil < p->ceil) {
		burst = max(RATE_TREE_HORIZON / 2,
			    to_ns(&c->ceil_ns, 2 * ETH_FRAME_LEN));
		c->ceil_until = later(c->ceil_until, start - burst) +
				to_ns_exact(&c->ceil_ns, len);
	}
}

static void rate_tree_book(struct rate_tree_member *m, u64 start, u64 end,
			   u32 len)
{
	struct rate_tree_slot *s = &m->slot[m->slots];

	WRITE_ONCE(m->booked, m->booked + len);
	if (m->slots && s[-1].end == start) {
		s[-1].end = end;
		s[-1].len += len;
		return;
	}
	if (!m->slots++)
		list_add_tail(&m->granted, m->granted_to);
	s->start = start;
	s->end = end;
	s->len = len;
}

/* What could be sent in a time, bytes */
static u64 rate_tree_bytes(u64 rate, u64 ns)
{
	return mul_u64_u64_div_u64(rate, ns, NSEC_PER_SEC);
}

/* Grant a slot to somebody. Return false if nobody may have one. */
static bool rate_tree_grant(struct rate_tree *t, u64 now)
{
	u64 horizon = max(RATE_TREE_HORIZON,
			  to_ns(&t->root.ceil_ns, 4 * ETH_FRAME_LEN));
	u64 start = later(t->tail, now - horizon);
	struct rate_tree_class *c = &t->root, *n;
	u64 at = later(t->tail, now), most;
	struct rate_tree_member *m;
	u32 wanted, longest;

	rate_tree_unblock(t, at);
	if (!rate_tree_wants(c))
		return false;

	most = rate_tree_bytes(c->ceil, RATE_TREE_ROUND);
	most = min(div_u64(most, t->waiting), RATE_TREE_QUANTUM);
	while (c->prios) {
		c = rate_tree_pick(c, at);
		most = min(most, rate_tree_bytes(c->ceil, RATE_TREE_HORIZON / 2));
	}
	for (n = c; n->parent; n = n->parent)
		rate_tree_detach(n);

	m = list_first_entry(&c->waiting, struct rate_tree_member, waiting);
	wanted = READ_ONCE(m->wanted);
	wanted -= min(wanted, m->booked);
	/* Whole frames, or members are ahead and behind by a frame each */
	longest = READ_ONCE(t->longest);
	most = min_t(u64, max(rounddown((u32)most, longest), longest), wanted);
	/* A member that has many slots asks again when it has used one */
	if (m->slots == RATE_TREE_SLOTS &&
	    m->slot[m->slots - 1].end != start)
		most = 0;
	list_del(&m->waiting);
	if (most && wanted > most) {
		list_add_tail(&m->waiting, &c->waiting);
	} else {
		WRITE_ONCE(m->waits, false);
		t->waiting--;
	}

	for (n = c; n->parent; n = n->parent) {
		if (most)
			rate_tree_account(n, start, most);
		rate_tree_attach(n, at);
	}
	if (most) {
		t->tail = start + to_ns_exact(&t->root.ceil_ns, most);
		rate_tree_book(m, start, t->tail, most);
	}

	return true;
}

static void rate_tree_began(struct rate_tree_member *m, u64 start)
{
	s64 turn = after(start, m->since) ? start - m->since : 0;

	m->turn += (min_t(s64, turn, NSEC_PER_SEC) - m->turn) / 4;
	m->since = start;
}

static u64 rate_tree_ahead(const struct rate_tree *t)
{
	return max(RATE_TREE_AHEAD,
		   to_ns(&t->root.ceil_ns, 2 * ETH_FRAME_LEN));
}

/**
 * rate_tree_due - when to ask about a member that waits
 * @m: the member
 * @now: time, ns
 *
 * Context: lock of the queue held.
 * Return: the time, judged from how long it waited before, ns
 */
u64 rate_tree_due(const struct rate_tree_member *m, u64 now)
{
	u64 ahead = rate_tree_ahead(m->class->tree);

	return later(m->since + m->turn - ahead,
		     now + clamp(m->turn / 8, ahead / 4, ahead / 2));
}

/**
 * rate_tree_ask - see who of a queue may send
 * @t: the tree
 * @granted: of the queue: its members that have slots
 * @open: of the queue: its members with something left to send are added
 * @now: time, ns
 * @when: set to the time at which the first slot begins that was granted and
 *	has not begun, ns; ask then, and when it is due for members without one
 *
 * Context: lock of the queue held.
 * Return: true if members were added to @open.
 */
bool rate_tree_ask(struct rate_tree *t, struct list_head *granted,
		   struct list_head *open, u64 now, u64 *when)
{
	const struct rate_tree_speed *speed = &t->root.ceil_ns;
	u64 ahead = rate_tree_ahead(t);
	u64 slack = min(RATE_TREE_SLACK, to_ns(speed, ETH_FRAME_LEN));
	struct rate_tree_member *m, *next;
	bool any = false, was;

	spin_lock(&t->lock);
	while (!after(t->tail, now + ahead) && rate_tree_grant(t, now))
		;

	*when = now + NSEC_PER_SEC;
	list_for_each_entry_safe(m, next, granted, granted) {
		was = m->left > 0;
		while (m->slots && !after(m->slot[0].start, now + slack)) {
			if (m->left <= 0)
				m->next = m->slot[0].start;
			rate_tree_began(m, m->slot[0].start);
			m->left += m->slot[0].len;
			WRITE_ONCE(m->booked, m->booked - m->slot[0].len);
			memmove(m->slot, m->slot + 1,
				--m->slots * sizeof(*m->slot));
		}
		if (!m->slots)
			list_del(&m->granted);
		else if (after(*when, m->slot[0].start))
			*when = m->slot[0].start;
		if (!was && m->left > 0) {
			list_add_tail(&m->open, open);
			any = true;
		}
	}
	spin_unlock(&t->lock);

	return any;
}

/**
 * rate_tree_want - a member has more to send than it was granted
 * @m: the member
 * @now: time, ns
 *
 * To be called if @m->wanted is more than @m->booked and @m->waits is not set.
 * The queue then asks.
 *
 * Context: lock of the queue held.
 */
void rate_tree_want(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->class->tree;

	spin_lock(&t->lock);
	if (!m->waits) {
		if (!m->slots && m->left <= 0)
			m->since = now;
		WRITE_ONCE(m->waits, true);
		t->waiting++;
		list_add_tail(&m->waiting, &m->class->waiting);
		rate_tree_activate(m->class, later(t->tail, now));
	}
	spin_unlock(&t->lock);
}

/**
 * rate_tree_charge - a packet was sent
 * @m: the member
 * @len: of the packet, bytes
 *
 * Context: lock of the queue held.
 */
void rate_tree_charge(struct rate_tree_member *m, u32 len)
{
	struct rate_tree *t = m->class->tree;

	if (len > READ_ONCE(t->longest))
		WRITE_ONCE(t->longest, len);
	m->next += to_ns(&t->root.ceil_ns, len);
	m->left -= len;
}

/**
 * rate_tree_idle - the backlog of a member is gone
 * @m: the member
 * @now: time, ns
 *
 * What it was granted goes back.
 *
 * Context: lock of the queue held.
 */
void rate_tree_idle(struct rate_tree_member *m, u64 now)
{
	struct rate_tree_class *c = m->class;
	struct rate_tree *t = c->tree;
	u64 bytes = 0;

	spin_lock(&t->lock);
	WRITE_ONCE(m->wanted, 0);
	if (m->waits) {
		WRITE_ONCE(m->waits, false);
		t->waiting--;
		list_del(&m->waiting);
		for (; c->parent && !rate_tree_wants(c); c = c->parent)
			rate_tree_detach(c);
	}
	if (m->slots)
		list_del(&m->granted);
	if (m->left > 0) {
		bytes = m->left;
		m->left = 0;
	}
	bytes += m->booked;
	m->slots = 0;
	WRITE_ONCE(m->booked, 0);
	if (after(t->tail, now))
		t->tail = later(t->tail - to_ns(&t->root.ceil_ns, bytes), now);
	for (c = m->class; c->parent; c = c->parent)
		if (c->state != RATE_TREE_BLOCKED)
			c->ceil_until -= to_ns(&c->ceil_ns, bytes);
	spin_unlock(&t->lock);
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
 * If that changes the ceil of the root, the caller then sets @turn of all members
 * to 0 and lets their queues ask, as what they expect has become wrong.
 *
 * Context: RTNL held.
 */
void rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u32 quantum,
		   u8 prio, u64 now)
{
	struct rate_tree *t = c->tree;
	u64 at, booked;

	spin_lock(&t->lock);
	at = later(t->tail, now);
	rate_tree_detach(c);
	if (!c->parent && c->ceil) {
		/* What was granted takes longer or shorter now */
		booked = rate_tree_bytes(c->ceil, at - now);
		at = now + mul_u64_u64_div_u64(booked, NSEC_PER_SEC, ceil);
		t->tail = at;
	}
	c->rate = rate;
	c->ceil = ceil;
	c->quantum = quantum;
	c->prio = prio;
	rate_tree_speed(&c->rate_ns, rate);
	rate_tree_speed(&c->ceil_ns, ceil);
	c->ceil_until = at;
	if (c->parent) {
		c->rate_until = at - c->parent->behind;
		c->over = c->parent->served[prio];
		if (rate_tree_wants(c))
			rate_tree_activate(c, at);
	}
	spin_unlock(&t->lock);
}

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
	INIT_LIST_HEAD(&c->waiting);
	c->by_rate = RB_ROOT_CACHED;
	for (i = 0; i < RATE_TREE_PRIOS; i++)
		c->by_over[i] = RB_ROOT_CACHED;
}

/**
 * rate_tree_init - a tree with nothing but a root
 * @t: the tree
 */
void rate_tree_init(struct rate_tree *t)
{
	memset(t, 0, sizeof(*t));
	spin_lock_init(&t->lock);
	t->blocked = RB_ROOT_CACHED;
	t->longest = ETH_FRAME_LEN;
	rate_tree_add(t, &t->root, NULL);
}

/**
 * rate_tree_join - a leaf class is used on one more queue
 * @m: what that queue has of it
 * @c: the class
 * @granted_to: of the queue, for rate_tree_ask()
 */
void rate_tree_join(struct rate_tree_member *m, struct rate_tree_class *c,
		    struct list_head *granted_to)
{
	memset(m, 0, sizeof(*m));
	m->class = c;
	m->granted_to = granted_to;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Classes with a rate, a ceil and a priority, shared by many queues */

#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/if_ether.h>
#include <linux/llist.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/net_debug.h>
#include <net/sch_rate_tree.h>
#include "sch_rate.h"

/**
 * DOC: rate tree
 *
 * A tree of classes, as HTB has it, for queues that run under locks of their
 * own. A scheduler under a lock of the tree grants *slots*, not packets. A slot
 * allows a *member*, which is a class on one queue, to send a number of bytes
 * from a given time on, paced at the rate of the root. Slots follow each other
 * without a gap as long as any member that may have one waits.
 *
 * The lock is taken from time to time, not for each packet or slot. The queue
 * that has it grants slots to members of all queues, up to a *lookahead* from
 * now::
 *
 *	max(RATE_TREE_LOOKAHEAD, 2 packets,
 *	    min(6 packets, RATE_TREE_MIN_BURST))
 *
 * When a quarter of that is left, the lock is taken again by the queue that got
 * the last slot, or by any queue with a backlog that dequeues before that.
 * Sending takes no lock:
 *
 * Wanting slots
 *	A member that begins to want slots is posted in a list of its queue. The
 *	next queue that has the lock looks at all of these lists. A queue takes
 *	the lock for a new post only if no other member of the tree waits for
 *	a slot that it can get.
 *
 * Slots
 *	A queue reads in a ring of its own what its members were granted. If
 *	there is nothing, it looks again after its average wait for a slot, and
 *	then a little later each time. While all that wait are at their ceil, it
 *	looks when the first of them may have a slot, or after
 *	RATE_TREE_LOOK_AGAIN. The queue that grants a slot wakes the one that
 *	gets it only if that would look RATE_TREE_KICK_LATE after the slot
 *	begins, or the time of a full-size frame if that is longer.
 *
 * Debts
 *	The last packet of a slot may be longer than what is left. Slots that
 *	the member was granted already pay for the rest of it. What they do not
 *	pay is charged to the classes and to the root with its next slot; or at
 *	once, if the backlog ends and the member owes more than the credit below
 *	and RATE_TREE_SLOT_MAX. If more than a frame is left of its slot, that
 *	goes back at once, too, as do all slots that have not begun: the time to
 *	the root, unless it has passed, and the bytes to the ceil of its
 *	classes, but not to their rate. Less goes back with the next slot of the
 *	queue if somebody waits; else it is credit.
 *
 * Credit
 *	A queue that takes the lock while no member waits gets credit: bytes
 *	that its members may send without a slot. With the root's rate R::
 *
 *		max(packet, min(R x RATE_TREE_ROUND / 4,
 *				max(RATE_TREE_SLOT_MAX, R x RATE_TREE_SLACK)))
 *
 *	Unused time pays for them, up to half of RATE_TREE_ROUND or four
 *	packets. Of what a ceil allows, each member may use an equal part for
 *	its queue, or up to three frames. Classes are charged when the queue has
 *	the lock again.
 *	Credit is gone after RATE_TREE_CREDIT_TIME, or when the queue has to
 *	wait for a slot.
 *
 * A slot is granted from the root down, at each level among the children that
 * have members waiting and are not above their ceil:
 *
 * - If children are below their rate, the one that is furthest behind goes
 *   first.
 * - If none is, the first priority goes first, and within it the child that had
 *   least beyond its rate, divided by its quantum.
 *
 * The priority of a class with children is the first of those that wait below
 * it. What a class gets counts as part of its rate until it is ahead of that by
 * half a RATE_TREE_MIN_BURST.
 *
 * Of the members of a class, the one that was served least bytes goes first. So
 * all get the same, whatever the lengths of their packets. A member that was
 * idle does not catch up on what others got in that time. If it had got more
 * than its share before, that still counts. If a class has both children and
 * waiting members of its own, the first priority goes first. They alternate if
 * the priorities are equal, or a child of a later one is below its rate.
 *
 * A class that did not use its rate for some time can catch up on its burst, at
 * least RATE_TREE_MIN_BURST. If the sibling that is furthest behind can catch
 * up on more, so can this class.
 *
 * Where rates add up to more than there is, each class gets less in proportion.
 * A sign of that is a *lag*, by which a class is behind its rate, of more than
 * its burst, RATE_TREE_MIN_BURST and a round together. A *round* is the longest
 * wait of a class for its next slot. Add up one slot for each member that
 * waits, or did of late, below the parent. Divide by the rate of the parent, or
 * by the sum of its children's rates if that is more. Do the same for each
 * class above, by no smaller rate than below it, and add the times. A round is
 * at most a second.
 *
 * A class may be ahead of its ceil by::
 *
 *	max(cburst, RATE_TREE_MIN_BURST / 2, 2 packets,
 *	    min(round, max(RATE_TREE_SLOT_MAX, longest packet of siblings)))
 *	+ a slot + what its members owe
 *
 * A slot is rounded down to packets of the largest size of late, and cut to the
 * backlog. One slot for each member that waits takes about RATE_TREE_ROUND, but
 * no slot is longer than RATE_TREE_SLOT_MAX or a packet. If slots are granted
 * late, as with slow timers or on a busy CPU, they begin in the past, and are
 * longer. A member that comes late uses its slot at once. The slot is lost if
 * it ended longer ago than RATE_TREE_MAX_LATE, or than four packets take if
 * that is more. A queue that does not come for a slot within
 * RATE_TREE_PATIENCE gets no more slots until it comes. Then its members catch
 * up on two slots only. A packet may go early by RATE_TREE_SLACK, or by the
 * time of a packet if that is less; or by how late its queue is called on
 * average, if that is more.
 *
 * Each time a queue stops for longer than RATE_TREE_MAX_LATE, the others lose
 * what it was granted, in RATE_TREE_PATIENCE and the lookahead at most.
 *
 * In any interval t, the bytes sent do not exceed::
 *
 *	rate of the root x (t + lookahead + burst of the root)
 *	+ for each queue: credit + rate of the root x slack
 *	+ for each member: a packet
 *
 * Late queues add up to RATE_TREE_MAX_LATE to t, and slots that were given back
 * up to the lookahead. When the rate falls, what was granted may be sent in
 * addition.
 */

static void rate_tree_speed(struct rate_tree_speed *s, u64 rate)
{
	s->frac = 0;
	rate_precompute(rate, &s->mult, &s->shift);
}

static u64 to_ns(const struct rate_tree_speed *s, u64 bytes)
{
	return rate_to_ns(s->mult, s->shift, bytes);
}

static u64 to_ns_exact(struct rate_tree_speed *s, u64 bytes)
{
	return rate_to_ns_exact(s->mult, s->shift, &s->frac, bytes);
}

/* What could be sent in a time, bytes */
static u64 to_bytes(u64 rate, u64 ns)
{
	/* x86 traps if the result is longer than 64 bits */
	return mul_u64_u64_div_u64(min(rate, BIT_ULL(50)), ns, NSEC_PER_SEC);
}

#define rate_node_class(node)					\
	rb_entry(node, struct rate_tree_class, rate_node)
#define vtime_node_class(node)					\
	rb_entry(node, struct rate_tree_class, vtime_node)
#define waiting_member(node)					\
	rb_entry(node, struct rate_tree_member, waiting)

static bool by_rate(struct rb_node *a, const struct rb_node *b)
{
	return rate_after64(rate_node_class(b)->rate_until,
			    rate_node_class(a)->rate_until);
}

static bool by_ceil(struct rb_node *a, const struct rb_node *b)
{
	return rate_after64(rate_node_class(b)->ceil_until,
			    rate_node_class(a)->ceil_until);
}

static bool by_vtime(struct rb_node *a, const struct rb_node *b)
{
	struct rate_tree_class *one = vtime_node_class(a);
	struct rate_tree_class *other = vtime_node_class(b);

	return rate_after64(other->vtime[other->cur_prio],
			    one->vtime[one->cur_prio]);
}

static bool by_served(struct rb_node *a, const struct rb_node *b)
{
	return rate_after64(waiting_member(b)->served,
			    waiting_member(a)->served);
}

/* How far a slot may lie in the past */
static u64 rate_tree_max_late(const struct rate_tree_speed *root)
{
	return max(RATE_TREE_MAX_LATE, to_ns(root, 4 * ETH_FRAME_LEN));
}

static u64 rate_tree_lookahead(const struct rate_tree_speed *root)
{
	u64 frame = to_ns(root, ETH_FRAME_LEN);

	return max3(RATE_TREE_LOOKAHEAD, 2 * frame,
		    min(6 * frame, RATE_TREE_MIN_BURST));
}

static bool rate_tree_has_waiting(const struct rate_tree_class *c)
{
	return c->prios || rb_first_cached(&c->waiting);
}

static u8 rate_tree_prio(const struct rate_tree_class *c)
{
	u8 prio = c->prios ? __ffs(c->prios) : c->prio;

	return rb_first_cached(&c->waiting) ? min(prio, c->prio) : prio;
}

/* How much of its unused rate may a class make up for? */
static u64 rate_tree_burst(const struct rate_tree_class *c)
{
	return max(c->burst, RATE_TREE_MIN_BURST);
}

/* Take a class out of the trees that it is in */
static void rate_tree_detach(struct rate_tree_class *c)
{
	struct rate_tree_class *p = c->parent;

	if (c->state == RATE_TREE_IDLE)
		return;

	p->wanted_rate -= c->rate;
	if (c->state == RATE_TREE_BLOCKED) {
		rb_erase_cached(&c->rate_node, &c->tree->blocked);
	} else {
		rb_erase_cached(&c->rate_node, &p->by_rate);
		rb_erase_cached(&c->vtime_node, &p->by_vtime[c->cur_prio]);
		if (!rb_first_cached(&p->by_vtime[c->cur_prio]))
			p->prios &= ~BIT(c->cur_prio);
	}
	c->state = RATE_TREE_IDLE;
}

/* How long a slot is if there are packets for it */
static u32 rate_tree_max_slot(const struct rate_tree *t)
{
	u32 members = max(t->root.nwaiting, 1U);

	return min(t->root.max_slot / members, RATE_TREE_SLOT_MAX);
}

/* How long a class may wait for its next slot although all classes have their
 * rates
 */
static u64 rate_tree_round(const struct rate_tree_class *c)
{
	const struct rate_tree_class *p = c->parent;
	u64 rate, ns = 0;

	/* As if it were in the trees */
	rate = p->wanted_rate + (c->state == RATE_TREE_IDLE ? c->rate : 0);
	for (; p; p = p->parent) {
		rate = p->parent ? max3(rate, p->rate, p->wanted_rate) :
				   p->ceil;
		ns += div64_u64(p->round_bytes * NSEC_PER_SEC, rate);
	}
	return min(ns, NSEC_PER_SEC);
}

/* Put a class where it belongs at a time. A @fresh one was idle, or was not
 * called for long. It has no claim to what it did not want, or no more than the
 * first sibling, which has waited.
 */
static void rate_tree_attach(struct rate_tree_class *c, u64 at, bool fresh)
{
	struct rate_tree_class *p = c->parent;
	u8 prio = rate_tree_prio(c);
	struct rb_node *first;
	u64 oldest, late;

	if (!rate_tree_has_waiting(c))
		return;

	p->wanted_rate += c->rate;
	if (rate_after64(c->ceil_until, at)) {
		/* Nor has a fresh one to what its ceil will keep it from */
		oldest = c->ceil_until - p->rate_lag - rate_tree_burst(c);
		if (fresh)
			c->rate_until = later(c->rate_until, oldest);
		c->state = RATE_TREE_BLOCKED;
		rb_add_cached(&c->rate_node, &c->tree->blocked, by_ceil);
		return;
	}

	if (fresh) {
		oldest = at - p->rate_lag;
		first = rb_first_cached(&p->by_rate);
		if (first) {
			late = rate_node_class(first)->rate_until +
			       rate_tree_burst(rate_node_class(first));
			oldest = rate_after64(oldest, late) ? late : oldest;
		}
		oldest -= rate_tree_burst(c);
		c->rate_until = later(c->rate_until, oldest);
	}
	/* It is ahead of others by its last slot at most, or this is old */
	if (c->vtime[prio] - p->max_vtime[prio] > c->max_lead)
		c->vtime[prio] = p->max_vtime[prio];
	c->cur_prio = prio;
	c->state = RATE_TREE_READY;
	rb_add_cached(&c->rate_node, &p->by_rate, by_rate);
	rb_add_cached(&c->vtime_node, &p->by_vtime[prio], by_vtime);
	p->prios |= BIT(prio);
}

/* Was a class idle, or not called for long since it was below its ceil again? A
 * class that others keep waiting waits for a round at most.
 */
static bool rate_tree_fresh(const struct rate_tree_class *c, u64 at)
{
	u64 late = at - c->ceil_until;

	if (c->state != RATE_TREE_BLOCKED)
		return c->state == RATE_TREE_IDLE;

	/* Mostly it takes no division to see */
	return rate_after64(late, RATE_TREE_MAX_LATE) &&
	       rate_after64(late, RATE_TREE_MAX_LATE + rate_tree_round(c));
}

/* Other members wait in or below a class than before, or it may be below its
 * ceil by now. That may change where it belongs, and where its parents do.
 */
static void rate_tree_requeue(struct rate_tree_class *c, u64 at)
{
	bool fresh;

	for (; c->parent; c = c->parent) {
		fresh = rate_tree_fresh(c, at);
		if (!rate_tree_has_waiting(c)) {
			if (c->state == RATE_TREE_IDLE)
				return;
		} else if (rate_after64(c->ceil_until, at)) {
			if (c->state == RATE_TREE_BLOCKED)
				return;
		} else if (c->state == RATE_TREE_READY &&
			   c->cur_prio == rate_tree_prio(c)) {
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
		if (rate_after64(c->ceil_until, at))
			return;
		rate_tree_requeue(c, at);
	}
}

static bool rate_tree_below_rate(const struct rate_tree_class *c, u64 at)
{
	return !rate_after64(c->rate_until, at - c->parent->rate_lag);
}

/* Which child gets the next slot? @lags is set if the first one lags, but by no
 * more than a round explains.
 */
static struct rate_tree_class *rate_tree_pick(struct rate_tree_class *p, u64 at,
					      bool *lags)
{
	struct rb_root_cached *first;
	struct rate_tree_class *c;
	u64 lag;

	c = rate_node_class(rb_first_cached(&p->by_rate));
	/* Less is no sign that rates add up to more than there is */
	lag = at - c->rate_until - RATE_TREE_MIN_BURST - rate_tree_burst(c);
	if (rate_after64(lag, p->rate_lag)) {
		lag -= rate_tree_round(c);
		*lags |= !rate_after64(lag, p->rate_lag);
		p->rate_lag = later(p->rate_lag, lag);
	}
	if (rate_tree_below_rate(c, at))
		return c;

	first = &p->by_vtime[__ffs(p->prios)];
	return vtime_node_class(rb_first_cached(first));
}

/* Do members of a class with children that wait get the next slot? */
static bool rate_tree_pick_own(const struct rate_tree_class *c, u64 at)
{
	u8 prio = __ffs(c->prios);

	if (!rb_first_cached(&c->waiting) || c->prio > prio)
		return false;
	if (c->prio < prio &&
	    !rate_tree_below_rate(rate_node_class(rb_first_cached(&c->by_rate)),
				  at))
		return true;
	return !c->own_last;
}

/* How many levels up is the first class that can pay with its rate? */
static u8 rate_tree_payer(const struct rate_tree_class *c, u64 at)
{
	u8 level = 0;

	at += RATE_TREE_MIN_BURST / 2; /* as in rate_tree_account() */
	for (; c->parent && !rate_tree_below_rate(c, at); c = c->parent)
		level++;

	return level;
}

/* Which classes are above their ceil at @then? A bit for each level up. The
 * root is if all slots so far end later, which @busy tells.
 */
static u8 rate_tree_above_ceil(const struct rate_tree_class *c, u64 then,
			       bool busy)
{
	u8 level = 0, above = 0;

	for (; c->parent; c = c->parent, level++)
		if (c->ceil < c->parent->ceil &&
		    rate_after64(c->ceil_until, then))
			above |= BIT(level);

	return busy ? above | BIT(level) : above;
}

/* What a class may send above its ceil after it had less */
static u64 rate_tree_cburst(const struct rate_tree_class *c)
{
	return max3(c->cburst, RATE_TREE_MIN_BURST / 2,
		    to_ns(&c->ceil_speed, 2 * ETH_FRAME_LEN));
}

/* A class got a slot. If @len is less than 0, it did not use that much of one:
 * this goes back to its ceil, but stays charged to its rate.
 */
static void rate_tree_account(struct rate_tree_class *c, u64 start, u64 at,
			      s64 len, bool granted)
{
	struct rate_tree_class *p = c->parent;
	u64 *top = &p->max_vtime[c->cur_prio];
	u64 *vtime = &c->vtime[c->cur_prio];
	bool beyond;
	u64 burst;
	u32 most;

	if (len < 0) {
		c->ceil_until -= to_ns(&c->ceil_speed, -len);
		return;
	}

	/* Others of a first priority must not leave the rate to later ones */
	beyond = !rate_tree_below_rate(c, at + RATE_TREE_MIN_BURST / 2);
	if (!beyond) {
		c->rate_until += to_ns_exact(&c->rate_speed, len);
	} else {
		/* Who is charged a debt may be far ahead of those that wait */
		if (granted || !rb_first_cached(&p->by_vtime[c->cur_prio]))
			*top = later(*top, *vtime);
		*vtime += div_u64((u64)len << 32, c->quantum);
	}
	if (c->ceil < p->ceil) {
		burst = rate_tree_cburst(c);
		if (rate_after64(start - burst, c->ceil_until)) {
			/* Its next slot may be a round away */
			most = max(RATE_TREE_SLOT_MAX, p->longest);
			burst = max(burst, min(rate_tree_round(c),
					       to_ns(&c->ceil_speed, most)));
			c->ceil_until = later(c->ceil_until, start - burst);
		}
		c->ceil_until += to_ns_exact(&c->ceil_speed, len);
		/* While this blocks it, it has had its rate already */
		if (beyond && rate_after64(c->ceil_until, at))
			c->rate_until = later(c->rate_until,
					      c->ceil_until - p->rate_lag);
	}
}

/* More, or fewer, members of a class wait */
static void rate_tree_count(struct rate_tree_class *c, int more)
{
	for (; c; c = c->parent)
		c->nwaiting += more;
}

/* No member wants a slot, or may have one, before @until. Members that come
 * later have no claim to that time, except for the burst of the root.
 */
static void rate_tree_skip_time(struct rate_tree *t, u64 until)
{
	u64 at = until - t->root.cburst;

	if (!rate_after64(at, t->tat))
		return;

	t->unused = min(t->unused + at - t->tat,
			max(RATE_TREE_ROUND / 2,
			    to_ns(&t->root.ceil_speed, 4 * ETH_FRAME_LEN)));
	t->tat = at;
}

/* Bytes that a member has sent and is not charged for */
static s32 rate_tree_debt(const struct rate_tree_member *m)
{
	return m->beyond - READ_ONCE(m->settled);
}

/* Bytes that a member has sent beyond its slots, to be charged to its classes
 * now. The root is charged for what its queue had no credit for.
 */
static s32 rate_tree_take_debt(struct rate_tree_member *m)
{
	struct rate_tree_queue *q = m->queue;
	struct rate_tree *t = q->tree;
	s32 unpaid = READ_ONCE(q->beyond) - q->settled;
	s32 owed = READ_ONCE(m->beyond) - m->settled;

	WRITE_ONCE(q->settled, q->settled + unpaid);
	if (unpaid < 0)
		t->tat -= to_ns(&t->root.ceil_speed, -unpaid);
	else if (unpaid)
		t->tat += to_ns_exact(&t->root.ceil_speed, unpaid);
	if (!owed)
		return 0;

	WRITE_ONCE(m->settled, m->settled + owed);
	/* Nobody of its class has waited for what it sent */
	if (owed > 0 && !rb_first_cached(&m->class->waiting))
		m->class->last_served = later(m->class->last_served, m->served);
	if (!RB_EMPTY_NODE(&m->waiting))
		rb_erase_cached(&m->waiting, &m->class->waiting);
	m->served += owed;
	if (!RB_EMPTY_NODE(&m->waiting))
		rb_add_cached(&m->waiting, &m->class->waiting, by_served);
	return owed;
}

/* Charge what a member owes, as no slot follows now */
static void rate_tree_charge_debt(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->queue->tree;
	u64 start = t->tat, at = later(start, now);
	s32 owed = rate_tree_take_debt(m);
	struct rate_tree_class *c;
	bool fresh;

	if (!owed)
		return;

	for (c = m->class; c; c = c->parent)
		c->longest = max(c->longest, READ_ONCE(m->longest));
	for (c = m->class; c->parent; c = c->parent) {
		fresh = rate_tree_fresh(c, at);
		rate_tree_detach(c);
		rate_tree_account(c, start, at, owed, false);
		rate_tree_attach(c, at, fresh);
	}
}

/* How much may a member send without a slot, and from when on? Others do not
 * know what it uses of what a ceil allows, so it gets a part. With a low ceil,
 * or many queues, that is less than a packet. So they may exceed the ceil
 * together, by three packets each and their queue's credit at most, until they
 * are charged.
 */
static u32 rate_tree_room(const struct rate_tree_member *m, u64 now, u64 *from)
{
	const struct rate_tree *t = m->queue->tree;
	const struct rate_tree_class *c;
	u64 room = m->queue->max_credit, bytes, at, ns;

	for (c = m->class; c->parent; c = c->parent) {
		if (c->ceil >= c->parent->ceil)
			continue;
		at = c->ceil_until + to_ns(&c->ceil_speed, 2 * ETH_FRAME_LEN);
		at = later(at, now);
		*from = later(*from, at);
		ns = min(at - c->ceil_until, rate_tree_cburst(c));
		bytes = to_bytes(c->ceil, ns);
		room = min(room, max(div_u64(bytes, t->nqueues),
				     min(bytes, 3 * ETH_FRAME_LEN)));
	}
	return room;
}

/* Tell a member how much it may send without a slot, and who pays */
static void rate_tree_allow(struct rate_tree_member *m, u64 now)
{
	u64 from = now;

	WRITE_ONCE(m->room, rate_tree_room(m, now, &from));
	/* If one is new and one is old, it sends a bit early or late */
	WRITE_ONCE(m->room_from, from);
	WRITE_ONCE(m->lender, rate_tree_payer(m->class, now));
}

static void rate_tree_line_up(struct rate_tree_member *m, u64 now)
{
	rate_tree_count(m->class, 1);
	rb_add_cached(&m->waiting, &m->class->waiting, by_served);
	rate_tree_requeue(m->class, later(m->queue->tree->tat, now));
}

static void rate_tree_wait(struct rate_tree_member *m, u64 now)
{
	struct rate_tree *t = m->queue->tree;

	if (m->waits)
		return;

	rate_tree_charge_debt(m, now);
	rate_tree_allow(m, now);
	if (!rate_tree_has_waiting(&t->root)) {
		u64 since = READ_ONCE(m->since);

		/* A torn value, on 32 bits, must not be one to come */
		rate_tree_skip_time(t, rate_after64(since, now) ? now : since);
	}
	/* It has no claim to what others had when it did not wait */
	m->served = later(m->served, m->class->last_served);
	WRITE_ONCE(m->waits, true);
	rate_tree_line_up(m, now);
}

/* The queue of a member goes on. The member may catch up on two slots, no more,
 * or it would have its class for itself for as long as it was away.
 */
static void rate_tree_return(struct rate_tree_member *m, u64 now)
{
	u32 slot = min(rate_tree_max_slot(m->queue->tree), m->class->max_slot);

	rate_tree_charge_debt(m, now);
	slot = max(slot, READ_ONCE(m->longest));
	m->served = later(m->served, m->class->last_served - 2ULL * slot);
	rate_tree_line_up(m, now);
}

/* Out of the list of those that wait for a slot */
static void rate_tree_unqueue(struct rate_tree_member *m, u64 now)
{
	if (!list_empty(&m->stuck)) {
		list_del_init(&m->stuck);
		return;
	}
	rb_erase_cached(&m->waiting, &m->class->waiting);
	RB_CLEAR_NODE(&m->waiting);
	rate_tree_count(m->class, -1);
	rate_tree_requeue(m->class, later(m->queue->tree->tat, now));
}

static void rate_tree_unwait(struct rate_tree_member *m, u64 now)
{
	rate_tree_unqueue(m, now);
	WRITE_ONCE(m->waits, false);
}

/* Find the members that have begun to want slots */
static void rate_tree_collect(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree_member *m, *next;
	struct llist_node *posts;

	if (llist_empty(&q->posts))
		return;

	posts = llist_reverse_order(llist_del_all(&q->posts));
	llist_for_each_entry_safe(m, next, posts, post) {
		rate_tree_wait(m, now);
		/* From here on it may be posted again */
		smp_store_release(&m->posted, false);
	}
}

/* Does a queue leave its slots unused? */
static bool rate_tree_stopped(const struct rate_tree_queue *q, u64 now)
{
	/* The slots before that have been read */
	u32 begun = smp_load_acquire(&q->slots_begun);
	const struct rate_tree_slot *s = &q->slot[begun % RATE_TREE_SLOTS];
	u32 slots = q->slots_granted - begun;

	return slots && (slots == RATE_TREE_SLOTS ||
			 rate_after64(now, later(s->granted_at, s->start) +
					   RATE_TREE_PATIENCE));
}

static void rate_tree_push_slot(struct rate_tree_member *m, u64 start, u64 now,
				u32 len)
{
	struct rate_tree_queue *q = m->queue;
	struct rate_tree_slot *s = &q->slot[q->slots_granted % RATE_TREE_SLOTS];
	u64 late;

	s->m = m;
	s->start = start;
	s->granted_at = now;
	s->len = len;
	s->payer = m->lender;
	s->above_ceil = rate_tree_above_ceil(m->class, q->tree->tat,
					     rate_after64(start, now));
	/* Pairs with rate_tree_next() */
	smp_store_release(&q->slots_granted, q->slots_granted + 1);
	/* The queue sees this, or @wake_at is new */
	smp_mb();
	late = atomic64_read(&q->wake_at) - start;
	if (rate_after64(late, RATE_TREE_KICK_LATE) &&
	    rate_after64(late, to_ns(&q->tree->root.ceil_speed, ETH_FRAME_LEN)))
		q->kick(q);
	WRITE_ONCE(q->tree->granter, q);
}

/* How many bytes does a member want that it was not granted? */
static u32 rate_tree_missing(const struct rate_tree_member *m)
{
	u32 pending = READ_ONCE(m->granted) - READ_ONCE(m->begun);
	u32 wanted = READ_ONCE(m->wanted);

	return wanted > pending ? wanted - pending : 0;
}

/* Grant a slot to a member, or find out that it needs none. Return false if no
 * member may have one.
 */
static bool rate_tree_grant(struct rate_tree *t, u64 now)
{
	struct rate_tree_speed *speed = &t->root.ceil_speed;
	struct rate_tree_class *c = &t->root, *n;
	u32 wanted, longest, slot, most, len;
	u64 at, start, round, late;
	struct rate_tree_member *m;
	bool lags = false;
	s64 owed;

	if (!rate_tree_has_waiting(c))
		rate_tree_skip_time(t, now);
	at = later(t->tat, now);
	rate_tree_unblock(t, at);
	if (!rate_tree_has_waiting(c))
		return false;

	slot = rate_tree_max_slot(t);
	if (rate_after64(now, t->tat)) {
		late = max(rate_tree_max_late(speed), c->cburst);
		t->tat = later(t->tat, now - late);
		/* Where all come late, there is more to grant at a time */
		slot += min(div_u64(to_bytes(c->ceil, now - t->tat),
				    2 * c->nwaiting), BIT(28));
	}
	most = slot;
	while (c->prios) {
		c->own_last = rate_tree_pick_own(c, at);
		if (c->own_last)
			break;
		c = rate_tree_pick(c, at, &lags);
		most = min(most, c->max_slot);
	}

	m = waiting_member(rb_first_cached(&c->waiting));
	if (rate_tree_stopped(m->queue, now)) {
		rate_tree_unqueue(m, now);
		list_add_tail(&m->stuck, &m->queue->stuck);
		return true;
	}
	wanted = rate_tree_missing(m);
	if (!wanted) {
		rate_tree_unwait(m, now);
		rate_tree_charge_debt(m, now);
		/* Pairs with rate_tree_post(): it sees that, or this its new
		 * backlog
		 */
		smp_mb();
		if (rate_tree_missing(m))
			rate_tree_wait(m, now);
		return true;
	}
	longest = READ_ONCE(m->longest);
	/* Whole packets, or it is granted less than it sends */
	len = min(max(rounddown(most, longest), longest), wanted);

	c->last_served = later(c->last_served, m->served);
	owed = rate_tree_take_debt(m);
	for (n = c; n->parent; n = n->parent)
		rate_tree_detach(n);
	/* Do not forget what explains a lag before that is made up for. A
	 * member that has had its turn waits no longer, but others waited for
	 * it.
	 */
	for (n = c; n; n = n->parent) {
		if (!lags) {
			n->longest -= n->longest / 256;
			n->round_bytes -= n->round_bytes / 256;
		}
		n->longest = max(n->longest, longest);
		round = (u64)n->nwaiting * max(slot, n->longest);
		n->round_bytes = max(n->round_bytes, min(round, BIT(28)));
	}
	rb_erase_cached(&m->waiting, &c->waiting);
	m->served += len;
	/* Before @waits: a member that no longer waits has slots */
	WRITE_ONCE(m->granted, m->granted + len);
	if (wanted == len) {
		RB_CLEAR_NODE(&m->waiting);
		/* Pairs with rate_tree_busy() */
		smp_store_release(&m->waits, false);
		rate_tree_count(c, -1);
	} else {
		rb_add_cached(&m->waiting, &c->waiting, by_served);
	}
	start = t->tat;
	at = later(start, now);
	WRITE_ONCE(m->lender, rate_tree_payer(c, at));
	for (n = c; n->parent; n = n->parent) {
		rate_tree_account(n, start, at, len + owed, true);
		rate_tree_attach(n, at, false);
	}
	t->tat += to_ns_exact(speed, len);
	rate_tree_push_slot(m, start, now, len);
	return true;
}

/* Set when slots are to be granted again, and by which queue: the one that was
 * granted the last slot, or else @q.
 */
static void rate_tree_set_granter(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree *t = q->tree;
	struct rb_node *first = rb_first_cached(&t->blocked);
	u64 due = t->tat - q->lookahead / 4;

	if (!t->root.nwaiting) {
		due = now + BIT_ULL(62);
		WRITE_ONCE(t->idle, true);
	} else if (!rate_tree_has_waiting(&t->root)) {
		due = later(due, rate_node_class(first)->ceil_until);
	}
	/* Pairs with rate_tree_post(): if nobody grants, that sees @idle */
	atomic64_set_release(&t->grant_at, due);
	if (!t->root.nwaiting)
		WRITE_ONCE(t->granter, NULL);
	else if (!t->granter)
		WRITE_ONCE(t->granter, q);
	WRITE_ONCE(t->idle, !rate_tree_has_waiting(&t->root));
}

/* Time that nobody has used pays for packets to come */
static void rate_tree_give_credit(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree *t = q->tree;
	s64 most = q->max_credit;

	if (rate_after64(now, q->credit_at + RATE_TREE_CREDIT_TIME))
		q->credit = 0;
	if (t->root.nwaiting || rate_after64(t->tat, now + q->slack))
		return;

	most = min_t(s64, most - q->credit, to_bytes(t->root.ceil, t->unused));
	if (most <= 0)
		return;
	t->unused -= min(t->unused, to_ns(&t->root.ceil_speed, most));
	q->credit += most;
	q->credit_at = now;
}

/* Grant slots, to members of whatever queues */
static void rate_tree_visit(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree_member *m, *next;
	struct rate_tree_queue *other;
	struct rate_tree *t = q->tree;
	int grants = RATE_TREE_GRANTS;

	atomic64_set(&q->wake_at, now);
	spin_lock(&t->lock);
	list_for_each_entry_safe(m, next, &q->owing, owing) {
		rate_tree_charge_debt(m, now);
		rate_tree_allow(m, now);
		list_del_init(&m->owing);
	}
	WRITE_ONCE(t->idle, true);
	/* A queue that posts a member sees that, or its post is seen below */
	smp_mb();
	list_for_each_entry(other, &t->queues, node)
		rate_tree_collect(other, now);
	if (!rate_tree_stopped(q, now)) {
		list_for_each_entry_safe(m, next, &q->stuck, stuck) {
			list_del_init(&m->stuck);
			rate_tree_return(m, now);
		}
	}
	while (grants && !rate_after64(t->tat, now + q->lookahead) &&
	       rate_tree_grant(t, now))
		grants--;
	rate_tree_set_granter(q, now);
	rate_tree_give_credit(q, now);
	spin_unlock(&t->lock);
}

/* A member may begin to want slots, or more of them */
static void rate_tree_post(struct rate_tree_member *m)
{
	struct rate_tree_queue *q = m->queue;
	u64 start;

	/* Within a slot, it looks again with each packet */
	if (q->sender != m)
		smp_mb(); /* pairs with that in rate_tree_grant() */
	m->asked = true;
	/* Pairs with rate_tree_collect(): what that has set is seen */
	if (smp_load_acquire(&m->posted) || READ_ONCE(m->waits) ||
	    !rate_tree_missing(m))
		return;

	WRITE_ONCE(m->posted, true);
	llist_add(&m->post, &q->posts);
	/* Pairs with rate_tree_set_granter() */
	start = atomic64_read_acquire(&q->tree->grant_at) + q->lookahead / 4;
	if (q->nbacklogged <= 1 || rate_after64(q->look_at, start))
		q->look_at = start;
}

/* A slot is over. What was sent too much is owed. What is left goes back if
 * somebody waits, and else is credit.
 */
static void rate_tree_end(struct rate_tree_queue *q)
{
	struct rate_tree_member *m = q->sender;

	WRITE_ONCE(m->beyond, m->beyond - q->left);
	if (q->left < 0 || READ_ONCE(q->tree->granter))
		WRITE_ONCE(q->beyond, q->beyond - q->left);
	else
		q->credit = min_t(s64, q->credit + q->left, q->max_credit);
	q->sender = NULL;
}

/* Begin the next slot of a queue if its time has come, or leave it out */
static bool rate_tree_begin(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree_slot *s = &q->slot[q->slots_begun % RATE_TREE_SLOTS];
	struct rate_tree_member *m = s->m;
	u8 payer = s->payer, above = s->above_ceil;
	u64 start = s->start;
	u32 len = s->len;
	s32 owed;
	s64 wait;

	if (m && rate_after64(start, now + q->slack))
		return false;

	q->lost_at = later(s->granted_at, start + to_ns(&q->speed, len)) +
		     rate_tree_max_late(&q->speed);
	/* Pairs with rate_tree_stopped(): the slot has been read */
	smp_store_release(&q->slots_begun, q->slots_begun + 1);
	if (!m)
		return true;

	/* It became idle while it was granted this */
	if (!m->backlog) {
		WRITE_ONCE(m->begun, m->begun + len);
		WRITE_ONCE(m->beyond, m->beyond - len);
		return true;
	}
	/* The member has sent more than its last slots allowed: this one pays
	 * for that first. Else a packet longer than all before would exceed
	 * each slot that was granted already.
	 */
	owed = min_t(s32, rate_tree_debt(m), q->beyond - READ_ONCE(q->settled));
	owed = clamp_t(s32, owed, 0, len);
	WRITE_ONCE(m->begun, m->begun + owed);
	WRITE_ONCE(m->beyond, m->beyond - owed);
	WRITE_ONCE(q->beyond, q->beyond - owed);
	len -= owed;
	if (!len) {
		WRITE_ONCE(m->wanted, m->backlog);
		rate_tree_post(m);
		return true;
	}

	/* Others use the time that would pay for it */
	if (rate_after64(start, m->since + q->slack))
		q->credit = 0;
	q->sender = m;
	q->next_at = start;
	q->left = len;
	m->payer = payer;
	m->above_ceil |= above;
	WRITE_ONCE(m->wanted, m->backlog - min(m->backlog, len));
	WRITE_ONCE(m->begun, m->begun + len);
	/* Long packets of the past count less and less */
	WRITE_ONCE(m->longest,
		   max(m->longest - m->longest / 64, ETH_FRAME_LEN));
	wait = rate_after64(start, q->since) ? start - q->since : 0;
	wait = min_t(s64, wait, NSEC_PER_SEC) - q->slot_wait;
	q->slot_wait += wait < 0 ? wait / 2 : wait / 8;
	q->since = start;
	q->look_at = start + q->slot_wait;
	return true;
}

static void rate_tree_set_slack(struct rate_tree_queue *q)
{
	q->slack = rate_slack(to_ns(&q->speed, ETH_FRAME_LEN), RATE_TREE_SLACK,
			      q->lateness);
}

/* The queue wanted a call at @q->call_at: keep the mean of how late it is */
static void rate_tree_note_lateness(struct rate_tree_queue *q, u64 now)
{
	u32 mean;

	if (!q->call_at || rate_after64(q->call_at, now))
		return;

	mean = rate_lateness(q->lateness, now - q->call_at,
			     RATE_TREE_MAX_SLACK);
	q->call_at = 0;
	if (mean == q->lateness)
		return;

	q->lateness = mean;
	rate_tree_set_slack(q);
}

/* The root has another rate. That changes how long turns take. */
static void rate_tree_follow_rate(struct rate_tree_queue *q, u64 now)
{
	struct rate_tree *t = q->tree;
	u64 *start, most;
	u32 i;

	spin_lock(&t->lock);
	/* The sender does not wait for a packet at the old rate */
	if (q->sender && rate_after64(q->next_at, t->tat))
		q->next_at = t->tat;
	q->rate_changes = t->rate_changes;
	q->speed = t->root.ceil_speed;
	q->lookahead = rate_tree_lookahead(&q->speed);
	most = max(to_bytes(t->root.ceil, RATE_TREE_SLACK), RATE_TREE_SLOT_MAX);
	q->max_credit = clamp(to_bytes(t->root.ceil, RATE_TREE_ROUND / 4),
			      ETH_FRAME_LEN, min(most, BIT(20)));
	q->credit = min_t(s64, q->credit, q->max_credit);
	for (i = q->slots_begun; i != q->slots_granted; i++) {
		start = &q->slot[i % RATE_TREE_SLOTS].start;
		if (rate_after64(*start, t->tat))
			*start = t->tat;
	}
	spin_unlock(&t->lock);
	q->lateness = 0;
	rate_tree_set_slack(q);
	q->slot_wait = 0;
	q->look_at = now;
}

/* Which member may send now? */
static struct rate_tree_member *rate_tree_ready(struct rate_tree_queue *q,
						u64 now)
{
	struct rate_tree_member *m, *next;
	u32 granted;

	list_for_each_entry_safe(m, next, &q->paused, list) {
		if (rate_after64(m->paused_until, now))
			continue;
		list_del_init(&m->list);
		m->paused = false;
		WRITE_ONCE(m->since, now);
		/* The rest is told when a packet was sent: else the time of the
		 * slots that it gives back is lost again and again.
		 */
		WRITE_ONCE(m->wanted, 1);
		q->nbacklogged++;
		rate_tree_post(m);
	}
	list_for_each_entry_safe(m, next, &q->free, list) {
		if (q->credit > 0) {
			m->payer = READ_ONCE(m->lender);
			return m;
		}
		list_del_init(&m->list);
		rate_tree_post(m);
	}
	for (;;) {
		m = q->sender;
		if (m && rate_after64(now, q->lost_at)) {
			WRITE_ONCE(m->beyond, m->beyond - q->left);
			WRITE_ONCE(m->wanted, m->backlog);
			q->sender = NULL;
			rate_tree_post(m);
		}
		/* Pairs with rate_tree_push_slot() */
		granted = smp_load_acquire(&q->slots_granted);
		if (q->sender || q->slots_begun == granted ||
		    !rate_tree_begin(q, now))
			break;
	}
	return q->sender && !rate_after64(q->next_at, now + q->slack) ?
	       q->sender : NULL;
}

/* Does a queue have to take the lock and grant slots? */
static bool rate_tree_must_visit(const struct rate_tree_queue *q, u64 now)
{
	const struct rate_tree_queue *next = READ_ONCE(q->tree->granter);

	if (READ_ONCE(q->tree->idle) && !llist_empty(&q->posts))
		return true;
	if (!list_empty(&q->stuck) &&
	    q->slots_begun == READ_ONCE(q->slots_granted))
		return true;
	return (next == q || q->nbacklogged) &&
	       !rate_after64(atomic64_read(&q->tree->grant_at), now);
}

/* When a queue has to be called again */
static u64 rate_tree_wake_time(struct rate_tree_queue *q, u64 now, u32 granted)
{
	const struct rate_tree *t = q->tree;
	u64 never = now + BIT_ULL(62), at = never;
	u64 most = max(4 * q->lookahead, RATE_TREE_MIN_BURST);
	u64 due = atomic64_read(&t->grant_at), waited, latest;
	struct rate_tree_member *m;

	if (q->sender) {
		at = q->next_at - q->slack;
	} else if (q->slots_begun != granted) {
		at = q->slot[q->slots_begun % RATE_TREE_SLOTS].start - q->slack;
	} else if (q->nbacklogged) {
		/* No slot so far: the longer it has waited, the later it looks
		 */
		if (!rate_after64(q->look_at, now)) {
			waited = rate_after64(now, q->since) ?
				 now - q->since : 0;
			waited = max(q->lookahead / 4, waited / 32);
			q->look_at = now + min(waited, most);
			q->look_at = later(q->look_at, due + q->lookahead / 4);
		}
		at = q->look_at;
		latest = now + most;
		/* Nobody gets a slot before @due, if anybody waits */
		if (rate_after64(due, now) && due - now < BIT_ULL(61))
			latest = later(latest, now + q->lookahead / 4 +
				       min(due - now, RATE_TREE_LOOK_AGAIN));
		if (rate_after64(at, latest))
			at = latest;
	}
	if (READ_ONCE(t->granter) == q && rate_after64(at, due))
		at = due;
	list_for_each_entry(m, &q->paused, list)
		if (rate_after64(at, m->paused_until))
			at = m->paused_until;
	return at;
}

/**
 * rate_tree_next - which member of a queue may send a packet now
 * @q: the queue
 * @now: time, ns
 * @when: set to the time at which to ask again if there is none, ns, or to
 *	RATE_TREE_NEVER
 *
 * To be called if a member has a backlog, or if rate_tree_grants() says so.
 *
 * Context: lock of the queue held, bottom halves disabled.
 * Return: the member, or NULL. What it sends has to be charged, and its backlog
 * told. If it cannot send after all, see rate_tree_pause().
 */
struct rate_tree_member *rate_tree_next(struct rate_tree_queue *q, u64 now,
					u64 *when)
{
	struct rate_tree_member *m;
	bool visited = false;
	u32 granted;
	u64 at;

	while (!list_empty(&q->fresh)) {
		m = list_first_entry(&q->fresh, struct rate_tree_member, list);
		list_del_init(&m->list);
		rate_tree_backlog(m, now, m->wanted);
	}
	rate_tree_note_lateness(q, now);
	if (q->rate_changes != READ_ONCE(q->tree->rate_changes))
		rate_tree_follow_rate(q, now);

	for (;;) {
		m = rate_tree_ready(q, now);
		if (m)
			return m;
		if (!visited && rate_tree_must_visit(q, now)) {
			rate_tree_visit(q, now);
			visited = true;
			continue;
		}
		/* Pairs with rate_tree_push_slot() */
		granted = smp_load_acquire(&q->slots_granted);
		at = rate_tree_wake_time(q, now, granted);
		if (!rate_after64(at, now))
			at = now + NSEC_PER_USEC;
		atomic64_set(&q->wake_at, at);
		smp_mb(); /* pairs with that in rate_tree_push_slot() */
		if (READ_ONCE(q->slots_granted) == granted)
			break;
	}

	if (rate_after64(at, now + BIT_ULL(61))) {
		*when = RATE_TREE_NEVER;
		q->call_at = 0;
	} else {
		*when = at;
		q->call_at = at;
	}
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
	struct rate_tree_queue *q = m->queue;

	if (len > m->longest)
		WRITE_ONCE(m->longest, len);
	if (m == q->sender) {
		q->next_at += to_ns(&q->speed, len);
		q->left -= len;
		if (q->left <= 0)
			rate_tree_end(q);
		return;
	}

	WRITE_ONCE(m->beyond, m->beyond + len);
	q->credit -= len;
	if (q->credit < 0) {
		WRITE_ONCE(q->beyond, q->beyond - q->credit);
		q->credit = 0;
	}
	if (list_empty(&m->owing))
		list_add_tail(&m->owing, &q->owing);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_charge, "NET_SCHED_INTERNAL");

/* What a member was granted and will not send goes back. It waits no more. */
static void rate_tree_withdraw(struct rate_tree_member *m, u64 now, u32 bytes)
{
	struct rate_tree_queue *q = m->queue;
	struct rate_tree *t = q->tree;
	struct rate_tree_queue *other;
	struct rate_tree_slot *s;
	bool last = false;
	u32 i, pending;

	spin_lock(&t->lock);
	rate_tree_collect(q, now);
	if (m->waits) {
		rate_tree_unwait(m, now);
		last = !rate_tree_has_waiting(&t->root);
	}
	pending = m->granted - m->begun;
	bytes += pending;
	WRITE_ONCE(m->begun, m->begun + pending);
	for (i = q->slots_begun; pending && i != q->slots_granted; i++) {
		s = &q->slot[i % RATE_TREE_SLOTS];
		if (s->m == m)
			s->m = NULL;
	}
	/* Or the queue would seem to be stopped */
	while (q->slots_begun != q->slots_granted &&
	       !q->slot[q->slots_begun % RATE_TREE_SLOTS].m)
		/* Pairs with rate_tree_stopped() */
		smp_store_release(&q->slots_begun, q->slots_begun + 1);
	if (bytes && rate_after64(t->tat, now))
		t->tat = later(t->tat - to_ns(&t->root.ceil_speed, bytes), now);
	WRITE_ONCE(m->beyond, m->beyond - bytes);
	rate_tree_charge_debt(m, now);
	rate_tree_set_granter(q, now);
	if (last) {
		/* A queue that posts a member sees @idle, or gets a call */
		smp_mb();
		list_for_each_entry(other, &t->queues, node)
			if (!llist_empty(&other->posts))
				other->kick(other);
	}
	spin_unlock(&t->lock);
}

/* Does a member want slots, or has it some that have not begun? Each of these
 * is set before the one that is read before it is cleared.
 */
static bool rate_tree_busy(struct rate_tree_member *m)
{
	/* Below the rate it has not asked, and this takes no barriers. The lock
	 * holder may still grant what it finds wanted just after it had seen
	 * nothing.
	 */
	if (!m->asked && !READ_ONCE(m->waits) &&
	    READ_ONCE(m->granted) == m->begun)
		return false;

	/* Pairs with rate_tree_collect() */
	if (smp_load_acquire(&m->posted))
		return true;
	/* Pairs with rate_tree_grant() */
	m->asked = smp_load_acquire(&m->waits) ||
		   READ_ONCE(m->granted) != m->begun;
	return m->asked;
}

/* Does a member owe much? */
static bool rate_tree_in_debt(const struct rate_tree_member *m)
{
	s32 much = max(m->queue->max_credit, RATE_TREE_SLOT_MAX);

	return rate_tree_debt(m) > much;
}

/* A member has nothing to send */
static void rate_tree_idle(struct rate_tree_member *m, u64 now)
{
	struct rate_tree_queue *q = m->queue;
	u32 left = 0;

	if (m->backlog && !m->paused)
		q->nbacklogged--;
	m->backlog = 0;
	m->paused = false;
	list_del_init(&m->list);
	WRITE_ONCE(m->wanted, 0);
	WRITE_ONCE(m->longest, max(m->longest - m->longest / 8, ETH_FRAME_LEN));
	if (q->sender == m && q->left > ETH_FRAME_LEN) {
		left = q->left;
		q->sender = NULL;
	}
	if (q->sender == m)
		rate_tree_end(q);
	if (left || rate_tree_busy(m) || rate_tree_in_debt(m))
		rate_tree_withdraw(m, now, left);
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
	rate_tree_idle(m, now);
	m->paused = true;
	m->backlog = 1;
	m->paused_until = until;
	list_add_tail(&m->list, &m->queue->paused);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_pause, "NET_SCHED_INTERNAL");

/* Does a member need no slot for so many bytes? */
static bool rate_tree_free(struct rate_tree_member *m, u64 now, u32 bytes)
{
	const struct rate_tree_queue *q = m->queue;

	return q->sender != m && !rate_tree_busy(m) &&
	       (s64)bytes <= q->credit &&
	       (s64)rate_tree_debt(m) + bytes <= READ_ONCE(m->room) &&
	       !rate_after64(READ_ONCE(m->room_from), now) &&
	       !rate_after64(now, q->credit_at + RATE_TREE_CREDIT_TIME);
}

static void rate_tree_more(struct rate_tree_member *m, u32 backlog)
{
	const struct rate_tree_queue *q = m->queue;
	u32 left = 0;

	m->backlog = min(backlog, BIT(28));
	if (q->sender == m)
		left = min_t(u32, q->left, m->backlog);
	WRITE_ONCE(m->wanted, m->backlog - left);
}

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
	struct rate_tree_queue *q = m->queue;
	u32 settled;

	if (!backlog) {
		/* A leaf that drops may say so before its packet is charged */
		if (m->backlog || !list_empty(&m->list) || rate_tree_in_debt(m))
			rate_tree_idle(m, now);
		return;
	}
	if (m->paused)
		return;

	if (!m->backlog) {
		WRITE_ONCE(m->since, now);
		if (!q->nbacklogged++) {
			/* The call that it wanted before that is not late */
			q->call_at = 0;
			settled = READ_ONCE(q->settled);
			/* As with credit, time given back is gone by then */
			if (rate_after64(now,
					 q->since + RATE_TREE_CREDIT_TIME) &&
			    (s32)(q->beyond - settled) < 0)
				WRITE_ONCE(q->beyond, settled);
			q->since = now;
		}
	}
	rate_tree_more(m, backlog);
	if (rate_tree_free(m, now, m->backlog)) {
		if (list_empty(&m->list))
			list_add_tail(&m->list, &q->free);
		return;
	}
	list_del_init(&m->list);
	rate_tree_post(m);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_backlog, "NET_SCHED_INTERNAL");

/**
 * rate_tree_arrive - tell that a packet has arrived
 * @m: the member
 * @backlog: what it has to send now, bytes
 *
 * Does what rate_tree_backlog() does, but needs no time: rate_tree_next() adds
 * that, and the owner has to call it in any case. So the clock is read once per
 * packet, not twice.
 *
 * Context: lock of the queue held, bottom halves disabled.
 */
void rate_tree_arrive(struct rate_tree_member *m, u32 backlog)
{
	if (m->paused)
		return;

	if (backlog && m->backlog && list_empty(&m->list)) {
		/* It has a slot, or waits for one */
		rate_tree_more(m, backlog);
		rate_tree_post(m);
		return;
	}
	WRITE_ONCE(m->wanted, backlog);
	list_move_tail(&m->list, &m->queue->fresh);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_arrive, "NET_SCHED_INTERNAL");

static u64 sooner(u64 t, u64 from, u64 to)
{
	return rate_after64(t, to) && !rate_after64(t, from) ? to : t;
}

/* The end of all slots was @from and is earlier now: do not make classes wait
 * for the old one. What a class has used beyond that stays used. The order in
 * the trees is the same.
 */
static void rate_tree_sooner(struct rate_tree *t, u64 from)
{
	struct rate_tree_class *c;
	u64 rate_lag;

	list_for_each_entry(c, &t->classes, node) {
		rate_lag = c->parent->rate_lag;
		c->rate_until = sooner(c->rate_until + rate_lag, from, t->tat) -
				rate_lag;
		c->ceil_until = sooner(c->ceil_until, from, t->tat);
	}
}

/**
 * rate_tree_set - configure a class
 * @c: the class
 * @rate: bytes/s, more than 0; of a rate above @ceil, @ceil counts
 * @ceil: bytes/s, more than 0
 * @burst: what it may send at once of @rate after it has sent less, ns
 * @cburst: the same, of @ceil, ns
 * @quantum: bytes, more than 0
 * @prio: below RATE_TREE_PRIOS
 * @now: time, ns
 *
 * Context: RTNL held, in process context.
 * Return: true if the rate of the root has changed: the caller must then
 * schedule all queues, as the slots that they wait for may come much sooner.
 */
bool rate_tree_set(struct rate_tree_class *c, u64 rate, u64 ceil, u64 burst,
		   u64 cburst, u32 quantum, u8 prio, u64 now)
{
	u64 most = to_bytes(ceil, c->parent ? RATE_TREE_MIN_BURST / 2 :
					      RATE_TREE_ROUND);
	bool was, changed, other = !c->parent && c->ceil != ceil;
	struct rate_tree *t = c->tree;
	u64 at, pending = 0;

	ASSERT_RTNL();

	rate = min(rate, ceil); /* else it would lag more and more */
	if (rate == c->rate && ceil == c->ceil && burst == c->burst &&
	    cburst == c->cburst && quantum == c->quantum && prio == c->prio)
		return false;

	spin_lock_bh(&t->lock);
	was = rate_tree_has_waiting(&t->root);
	/* Nothing is granted at the rate of a new root */
	if (!c->parent && !c->ceil)
		t->tat = now;
	at = later(t->tat, now);
	rate_tree_detach(c);
	changed = other && c->ceil;
	if (changed)
		pending = min(to_bytes(c->ceil, at - now), BIT(28));
	if (rate != c->rate) {
		rate_tree_speed(&c->rate_speed, rate);
		if (c->parent)
			c->rate_until = at - c->parent->rate_lag;
	}
	if (ceil != c->ceil) {
		rate_tree_speed(&c->ceil_speed, ceil);
		c->ceil_until = at;
	}
	if (pending) {
		/* What was granted takes longer or shorter now */
		t->tat = now + min(to_ns(&c->ceil_speed, pending),
				   rate_tree_max_late(&c->ceil_speed));
		if (rate_after64(at, t->tat))
			rate_tree_sooner(t, at);
		at = t->tat;
	}
	/* What it had is no longer counted in the same unit */
	if (quantum != c->quantum && c->parent)
		memcpy(c->vtime, c->parent->max_vtime, sizeof(c->vtime));
	c->rate = rate;
	c->ceil = ceil;
	c->burst = burst;
	c->cburst = cburst;
	c->quantum = quantum;
	c->prio = prio;
	c->max_slot = min(most, U32_MAX);
	c->max_lead = div_u64(BIT_ULL(60), max(quantum, 1U));
	rate_tree_requeue(c, at);
	if (!was && rate_tree_has_waiting(&t->root))
		t->tat = later(t->tat, now);
	/* Slots that nobody could have before may be due now */
	if (t->granter) {
		rate_tree_set_granter(t->granter, now);
		t->granter->kick(t->granter);
	}
	WRITE_ONCE(t->rate_changes, t->rate_changes + other);
	spin_unlock_bh(&t->lock);

	return changed;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_set, "NET_SCHED_INTERNAL");

/**
 * rate_tree_tokens - what a class could send at once, for statistics
 * @c: the class
 * @now: time, ns
 * @tokens: set to the unused time of its rate, ns; negative: the time until it
 *	is below its rate
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
	*tokens = now - (c->parent ? c->rate_until + c->parent->rate_lag :
				     t->tat);
	*ctokens = now - (c->parent ? c->ceil_until : t->tat);
	spin_unlock_bh(&t->lock);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_tokens, "NET_SCHED_INTERNAL");

/**
 * rate_tree_add - add a class
 * @t: the tree
 * @c: the class, which rate_tree_set() has to configure
 * @parent: NULL for the root. A tree has 8 levels at most
 *
 * Context: RTNL held.
 */
void rate_tree_add(struct rate_tree *t, struct rate_tree_class *c,
		   struct rate_tree_class *parent)
{
	int i;

	ASSERT_RTNL();

	memset(c, 0, sizeof(*c));
	c->tree = t;
	c->parent = parent;
	if (parent)
		list_add_tail(&c->node, &t->classes);
	c->waiting = RB_ROOT_CACHED;
	c->by_rate = RB_ROOT_CACHED;
	for (i = 0; i < RATE_TREE_PRIOS; i++)
		c->by_vtime[i] = RB_ROOT_CACHED;
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
	ASSERT_RTNL();
	DEBUG_NET_WARN_ON_ONCE(rate_tree_has_waiting(c));
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
	t->idle = true;
	t->blocked = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&t->classes);
	INIT_LIST_HEAD(&t->queues);
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
	INIT_LIST_HEAD(&q->fresh);
	INIT_LIST_HEAD(&q->free);
	INIT_LIST_HEAD(&q->paused);
	INIT_LIST_HEAD(&q->owing);
	INIT_LIST_HEAD(&q->stuck);
	init_llist_head(&q->posts);
	/* The first look at the tree tells the rest */
	q->rate_changes = t->rate_changes - 1;
}
EXPORT_SYMBOL_NS_GPL(rate_tree_queue_init, "NET_SCHED_INTERNAL");

/**
 * rate_tree_join - a class is used on one more queue
 * @q: the queue
 * @m: the class on this queue
 * @c: the class
 *
 * Context: RTNL held, in process context.
 */
void rate_tree_join(struct rate_tree_queue *q, struct rate_tree_member *m,
		    struct rate_tree_class *c)
{
	struct rate_tree *t = q->tree;

	ASSERT_RTNL();

	memset(m, 0, sizeof(*m));
	m->class = c;
	m->queue = q;
	m->longest = ETH_FRAME_LEN;
	INIT_LIST_HEAD(&m->list);
	INIT_LIST_HEAD(&m->owing);
	INIT_LIST_HEAD(&m->stuck);
	RB_CLEAR_NODE(&m->waiting);
	spin_lock_bh(&t->lock);
	if (!q->nmembers++) {
		list_add_tail(&q->node, &t->queues);
		t->nqueues++;
	}
	spin_unlock_bh(&t->lock);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_join, "NET_SCHED_INTERNAL");

/**
 * rate_tree_leave - a class is not used on a queue any more
 * @m: the class on this queue; may be freed then
 * @now: time, ns
 *
 * The last one of a queue takes the queue out of the tree.
 *
 * Context: RTNL and the lock of the queue held, bottom halves disabled; or
 * nobody sending through the queue any more, bottom halves disabled.
 */
void rate_tree_leave(struct rate_tree_member *m, u64 now)
{
	struct rate_tree_queue *q = m->queue;
	struct rate_tree *t = q->tree;

	ASSERT_RTNL();

	rate_tree_idle(m, now);
	/* rate_tree_idle() does not look under the lock */
	rate_tree_withdraw(m, now, 0);
	list_del_init(&m->owing);
	spin_lock(&t->lock);
	if (!--q->nmembers) {
		list_del(&q->node);
		t->nqueues--;
		/* As long as somebody waits, some queue is to grant slots */
		if (t->granter == q) {
			q = list_first_entry(&t->queues, struct rate_tree_queue,
					     node);
			WRITE_ONCE(t->granter, q);
			q->kick(q);
		}
	}
	spin_unlock(&t->lock);
}
EXPORT_SYMBOL_NS_GPL(rate_tree_leave, "NET_SCHED_INTERNAL");

MODULE_DESCRIPTION("Classes with rates, shared by many queues");
MODULE_LICENSE("Dual BSD/GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: tree FIRST COUNT
 *
 * Do at random what a scheduler may do with the classes of net/sched/sch_rate_tree.c,
 * COUNT times from seed FIRST on. After each step all must be consistent, at the
 * end all packets must leave within a bound, and then all classes and queues.
 * Print a line for each seed that fails.
 *
 *        tree trace SEED
 *
 * Show what is done.
 *
 * The last line is "N ok, M failed, P packets". Code takes no time. With races,
 * another queue asks wherever it may while one is being served.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
#include <net/sch_rate_tree.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define QUEUES		6
#define CLASSES		14
#define DEPTH		6	/* of the tree, when it is built */
#define WAITING		256	/* packets of a class on a queue */
#define OVERHEAD	38U	/* charged for each packet, in some scenarios */
#define LONGEST		(65100U + OVERHEAD)
#define LENGTH		(20 * NSEC_PER_MSEC)
#define KICK		(3 * NSEC_PER_USEC)	/* until a queue runs that was kicked */
#define ENDLESS		2000000U	/* packets of a queue at one time */
#define NEVER		U64_MAX
#define PATIENCE	20U	/* s of CPU time that a scenario may take */

/* What is there of a class on a queue */
struct flow {
	struct rate_tree_member m;
	u32	class;
	u32	queue;
	u32	len[WAITING];
	u32	first;		/* of @len */
	u32	packets;
	u32	bytes;
	bool	paused;		/* it cannot send, and has told nothing since */
};

struct class {
	struct rate_tree_class *c;	/* @own, or the root of the tree */
	struct rate_tree_class own;
	int	parent;		/* -1: none */
	u32	children;
};

struct queue {
	struct rate_tree_queue q;
	u64	wake;
	bool	hung;
	bool	kicked;
};

/* What happens in a scenario */
static struct {
	bool	hangs;		/* queues do not run for some time */
	bool	drops;		/* packets are dropped in dequeue, as by CoDel */
	bool	pauses;		/* a leaf has packets, and does not give one */
	bool	changes;	/* of rates */
	bool	races;
	u32	late;		/* timers are late by up to that, ns */
	u32	overhead;
	u64	gap;		/* between operations, on average */
} with;

static struct rate_tree tree;
static struct class classes[CLASSES];
static struct queue queues[QUEUES];
static struct flow *flows[QUEUES][CLASSES];
static u32 nclasses, nqueues;
static u64 at_seed, start, now, step, sent, random_state;
static struct queue *running;	/* under its lock */
static bool in_race, tracing;
static jmp_buf failed;

unsigned long locks;

#define for_each_flow(f, i, j)						\
	for (i = 0; i < nqueues; i++)					\
		for (j = 0; j < nclasses; j++)				\
			for (f = flows[i][j]; f; f = NULL)

#define trace(fmt, ...)							\
	do {								\
		if (tracing)						\
			printf("%8.3f us: " fmt "\n", (now - start) / 1e3, \
			       ##__VA_ARGS__);				\
	} while (0)

/* splitmix64 */
static u64 below(u64 n)
{
	u64 z = (random_state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return mul_u64_u64_shr(z ^ (z >> 31), n, 64);
}

static bool one_in(u64 n)
{
	return !below(n);
}

/* ------------------------------------------------------------ what is wrong */

static void fail(const char *what, s64 figure)
{
	printf("FAIL seed %llu tree: %s %lld, in step %llu, at %llu ns\n",
	       (unsigned long long)at_seed, what, (long long)figure,
	       (unsigned long long)step, (unsigned long long)(now - start));
	fflush(stdout);
	longjmp(failed, 1);
}

void shim_overflow(const char *what)
{
	shim_failed(what);
}

void shim_failed(const char *what)
{
	fail(what, 0);
}

/* It ends in a way that nothing can be run after */
static void ends(int signal)
{
	printf("\nFAIL seed %llu tree: %s %d\n", (unsigned long long)at_seed,
	       signal == SIGPROF ? "no end within the patience, signal" :
				   "crash, signal", signal);
	fflush(stdout);
	_exit(3);
}

#ifdef __SANITIZE_ADDRESS__
static void sanitizer_ends(void)
{
	printf("\nFAIL seed %lu tree: a sanitizer, in step %lu\n", at_seed, step);
	fflush(stdout);
}

/* That for undefined behaviour does not know what the other one calls */
void __ubsan_on_report(void);
void __ubsan_on_report(void)
{
	sanitizer_ends();
}
#endif

static void must(bool holds, const char *otherwise, s64 figure)
{
	if (!holds)
		fail(otherwise, figure);
}

static bool in_order(u64 a, u64 b)
{
	return !time_after64(a, b);
}

#define check_order(root, type, node, key)				\
	do {								\
		struct rb_node *_n;					\
									\
		shim_check_tree(root);					\
		for (_n = (root)->first; _n && _n->behind; _n = _n->behind) \
			must(in_order(rb_entry(_n, type, node)->key,	\
				      rb_entry(_n->behind, type, node)->key), \
			     "not in order of " #key ":", 0);		\
	} while (0)

/* What waits in a class or below it */
static bool wants(const struct rate_tree_class *c)
{
	return c->prios || c->waiting.first;
}

static void check_trees(struct rate_tree_class *c, u32 i)
{
	unsigned long prios = 0;
	u32 prio;

	check_order(&c->by_rate, struct rate_tree_class, rate_node, rate_until);
	for (prio = 0; prio < RATE_TREE_PRIOS; prio++) {
		check_order(&c->by_vtime[prio], struct rate_tree_class,
			    vtime_node, vtime[prio]);
		if (c->by_vtime[prio].first)
			prios |= BIT(prio);
	}
	must(c->prios == prios, "wrong priorities below class", i);
}

/* A class is where its state says, and that is what it should be */
static void check_state(struct rate_tree_class *c, u32 i)
{
	struct rate_tree_class *p = c->parent;
	u8 prio = c->prios ? __ffs(c->prios) : c->prio;

	if (c->waiting.first && c->prio < prio)
		prio = c->prio;
	must(wants(c) == (c->state != RATE_TREE_IDLE),
	     "wrong state of class", i);
	switch (c->state) {
	case RATE_TREE_IDLE:
		must(!c->rate_node.root && !c->vtime_node.root,
		     "idle, but in a tree: class", i);
		break;
	case RATE_TREE_BLOCKED:
		must(c->rate_node.root == &tree.blocked && !c->vtime_node.root,
		     "blocked, but not in that tree: class", i);
		break;
	case RATE_TREE_READY:
		must(c->cur_prio == prio, "wrong priority of class", i);
		must(c->rate_node.root == &p->by_rate &&
		     c->vtime_node.root == &p->by_vtime[prio],
		     "ready, but not in the trees: class", i);
	}
}

static void check_classes(void)
{
	struct rate_tree_class *c, *child;
	struct rate_tree_member *m;
	struct rb_node *node;
	u32 members, i, j;
	u64 sum;

	check_order(&tree.blocked, struct rate_tree_class, rate_node,
		    ceil_until);
	for (i = 0; i < nclasses; i++) {
		c = classes[i].c;
		check_trees(c, i);
		check_order(&c->waiting, struct rate_tree_member, waiting, served);
		members = 0;
		sum = 0;
		for (node = c->waiting.first; node; node = node->behind) {
			m = rb_entry(node, struct rate_tree_member, waiting);
			must(m->waits && m->class == c,
			     "a stranger waits in class", i);
			members++;
		}
		for (j = 0; j < nclasses; j++) {
			child = classes[j].c;
			if (child->parent != c)
				continue;
			members += child->nwaiting;
			if (child->state != RATE_TREE_IDLE)
				sum += child->rate;
		}
		must(c->wanted_rate == sum, "wrong sum of its children's rates: class", i);
		must(c->nwaiting == members,
		     "wrong number of waiting members: class", i);
		if (c->parent)
			check_state(c, i);
	}
}

/* A member is in the lists that it says it is in */
static void check_lists(struct rate_tree_member *m, s64 i)
{
	struct rate_tree_queue *q = m->queue;
	bool stuck = m->stuck.head;

	must(m->waiting.root == (m->waits && !stuck ? &m->class->waiting : NULL),
	     "waits, and in no tree, or the reverse: member", i);
	must(!stuck || (m->waits && m->stuck.head == &q->stuck),
	     "stuck, and does not wait, or elsewhere: member", i);
	must(m->list.head == (m->paused ? &q->paused : NULL) ||
	     m->list.head == &q->free || m->list.head == &q->fresh,
	     "paused, and in no list, or the reverse: member", i);
	must(!m->owing.head || m->owing.head == &q->owing,
	     "owes to another queue: member", i);
}

/* What was granted to a member and has not begun */
static u32 slots(const struct rate_tree_member *m, u32 *bytes)
{
	const struct rate_tree_queue *q = m->queue;
	u32 i, slots = 0;

	*bytes = 0;
	must(q->slots_granted - q->slots_begun <= RATE_TREE_SLOTS, "slots beyond the ring:",
	     q->slots_granted - q->slots_begun);
	for (i = q->slots_begun; i != q->slots_granted; i++) {
		if (q->slot[i % RATE_TREE_SLOTS].m != m)
			continue;
		*bytes += q->slot[i % RATE_TREE_SLOTS].len;
		slots++;
	}
	return slots;
}

static void check_sums(const struct flow *f, s64 i)
{
	const struct rate_tree_member *m = &f->m;
	const struct rate_tree_queue *q = m->queue;
	s64 owed = (s32)(m->beyond - m->settled);
	s64 left = q->sender == m ? q->left : 0;
	u32 pending;

	slots(m, &pending);
	must(m->granted - m->begun == pending,
	     "slots have not what is granted: member", i);
	must(owed < (s64)(LONGEST + RATE_TREE_SLOT_MAX) * 4,
	     "owes too much: member", i);
	must(q->sender != m || q->left > 0, "is in a slot that is over: member", i);
	must(q->credit >= 0 && q->credit <= (s64)max(q->max_credit, ETH_FRAME_LEN),
	     "has a strange credit: queue", i);
	must(!!m->backlog == !!f->packets || m->list.head == &q->fresh,
	     "wrong about the backlog: member", i);
	must(f->paused ||
	     m->wanted == (f->packets ? max(f->bytes - left, 0) : 0),
	     "wants another sum: member", i);
}

/* Whoever has something to send comes to send it */
static void check_progress(const struct flow *f, s64 i)
{
	const struct rate_tree_member *m = &f->m;
	u32 pending, granted = slots(m, &pending);

	if (!f->packets) {
		must(!m->waits && !granted && !m->posted && !m->list.head &&
		     m->queue->sender != m,
		     "has nothing to send, and is in a list: member", i);
		return;
	}
	must(m->queue->sender == m || granted || m->posted || m->waits ||
	     m->list.head,
	     "has a backlog, no slot, and waits for none: member", i);
}

static void check(void)
{
	struct flow *f;
	u32 i, j;
	s64 id;

	must(!tree.lock.held, "the lock is held after step", step);
	check_classes();
	for (i = 0; i < nqueues; i++) {
		shim_check_list(&queues[i].q.fresh);
		shim_check_list(&queues[i].q.free);
		shim_check_list(&queues[i].q.paused);
		shim_check_list(&queues[i].q.owing);
		shim_check_list(&queues[i].q.stuck);
	}
	for_each_flow(f, i, j) {
		id = i * 100 + j;
		check_lists(&f->m, id);
		check_sums(f, id);
		check_progress(f, id);
	}
}

/* --------------------------------------------------------- what a queue does */

static void kick(struct rate_tree_queue *q)
{
	must(tree.lock.held, "kicked without the lock, in step", step);
	container_of(q, struct queue, q)->kicked = true;
}

static void tell(struct flow *f)
{
	rate_tree_backlog(&f->m, now, f->bytes);
	f->paused = f->m.paused;
}

static void enqueue(struct flow *f, u32 len)
{
	if (f->packets == WAITING)
		return;
	f->len[(f->first + f->packets++) % WAITING] = len;
	f->bytes += len;
}

static u32 dequeue(struct flow *f)
{
	u32 len = f->len[f->first];

	f->first = (f->first + 1) % WAITING;
	f->packets--;
	f->bytes -= len;
	return len;
}

static void charge(struct flow *f, u32 len)
{
	len += with.overhead;
	trace("class %u sends %u on queue %u", f->class, len, f->queue);
	rate_tree_charge(&f->m, len);
	sent++;
}

/* The leaf of a class is asked for a packet */
static void serve(struct flow *f)
{
	u32 drop, len = 0;

	must(f->packets, "to send, and has nothing: class", f->class);
	if (with.pauses && one_in(6)) {
		trace("class %u pauses on queue %u", f->class, f->queue);
		rate_tree_pause(&f->m, now, now + NSEC_PER_MSEC);
		must(f->m.queue->sender != &f->m,
		     "pauses, and has not settled: class", f->class);
		f->paused = true;
		return;
	}

	if (with.drops && one_in(6))
		for (drop = below(f->packets + 1); drop; drop--)
			dequeue(f);
	if (f->packets)
		len = dequeue(f);
	/* A leaf that drops tells it before its last packet is charged */
	if (!f->packets && with.drops && one_in(2))
		tell(f);
	if (len)
		charge(f, len);
	tell(f);
}

static bool backlogged(u32 i)
{
	u32 j;

	for (j = 0; j < nclasses; j++)
		if (flows[i][j] && flows[i][j]->packets)
			return true;
	return false;
}

static void run_queue(u32 i)
{
	struct queue *q = &queues[i], *outer = running;
	struct rate_tree_member *m;
	u64 when = RATE_TREE_NEVER;
	u32 packets = 0;

	if (q->hung)
		return;

	running = q;
	q->wake = NEVER;
	q->kicked = false;
	while ((backlogged(i) || rate_tree_grants(&q->q)) &&
	       (m = rate_tree_next(&q->q, now, &when))) {
		serve(container_of(m, struct flow, m));
		must(++packets < ENDLESS, "sends without end: queue", i);
	}
	must(when == RATE_TREE_NEVER || time_after64(when, now),
	     "is to ask again at once: queue", i);
	must(when != RATE_TREE_NEVER || !backlogged(i),
	     "has a backlog, and is not called again: queue", i);
	if (when != RATE_TREE_NEVER)
		q->wake = when + (one_in(4) ? below(with.late) : 0);
	running = outer;
}

/* What another CPU may do where no lock of the tree is held */
void shim_meanwhile(void)
{
	u32 i;

	if (!with.races || in_race || !running || tree.lock.held || below(8))
		return;

	i = below(nqueues);
	if (&queues[i] == running)
		return;

	in_race = true;
	run_queue(i);
	in_race = false;
}

/* The queue that runs next, or NULL */
static struct queue *next_queue(void)
{
	struct queue *q, *first = NULL;
	u32 i;

	for (i = 0; i < nqueues; i++) {
		q = &queues[i];
		if (q->kicked && !q->hung)
			q->wake = min(q->wake, now + below(KICK));
		q->kicked = false;
		if (q->wake != NEVER && (!first || q->wake < first->wake))
			first = q;
	}
	return first;
}

static void run_next(struct queue *q)
{
	now = max(now, q->wake);
	q->wake = NEVER;
	run_queue(q - queues);
}

/* --------------------------------------------------- what is changed by whom */

static void configure(u32 i)
{
	static const u64 rates[] = { 12500, 125000, 1250000, 12500000,
				     125000000, 1250000000 };
	u64 rate, ceil = tree.root.ceil;

	if (!i) {
		rate = ceil = rates[below(ARRAY_SIZE(rates))] + below(1000);
	} else {
		if (one_in(3))
			ceil = ceil / (1 + below(50)) + 1;
		rate = ceil / (1 + below(30)) + 1;
	}
	trace("class %u: rate %lu ceil %lu", i, rate, ceil);
	rate_tree_set(classes[i].c, rate, ceil, below(NSEC_PER_MSEC),
		      below(NSEC_PER_MSEC), 1 + below(one_in(3) ? 10 : 200000),
		      below(RATE_TREE_PRIOS), now);
}

static void add_class(u32 i, int parent)
{
	struct class *c = &classes[i];

	c->parent = parent;
	if (parent < 0) {
		c->c = &tree.root;
	} else {
		c->c = &c->own;
		classes[parent].children++;
		rate_tree_add(&tree, c->c, classes[parent].c);
	}
	configure(i);
}

/* Memory is not what it was, so that nothing old seems to be right */
static void join(u32 i, u32 j)
{
	struct flow *f;

	if (flows[i][j])
		return;

	f = calloc(1, sizeof(*f));
	memset(&f->m, 0x5a, sizeof(f->m));
	f->class = j;
	f->queue = i;
	rate_tree_join(&queues[i].q, &f->m, classes[j].c);
	flows[i][j] = f;
}

static void leave(u32 i, u32 j)
{
	struct flow *f = flows[i][j];

	if (!f)
		return;

	rate_tree_leave(&f->m, now);
	must(f->m.beyond == f->m.settled && f->m.queue->sender != &f->m &&
	     !f->m.list.head && !f->m.owing.head && !f->m.posted,
	     "leaves, and has not settled: class", j);
	memset(f, 0xdd, sizeof(*f));
	free(f);
	flows[i][j] = NULL;
}

static u32 some_length(void)
{
	if (one_in(40))
		return 60 + below(65000);
	return one_in(2) ? 1514 : 60 + below(1455);
}

static void op_packets(u32 i, u32 j)
{
	u32 n = 1 + below(one_in(8) ? 60 : 4);

	if (!flows[i][j])
		return;

	while (n--)
		enqueue(flows[i][j], some_length());
	running = &queues[i];
	if (one_in(2))
		rate_tree_arrive(&flows[i][j]->m, flows[i][j]->bytes);
	else
		tell(flows[i][j]);
	run_queue(i);
}

/* A purge, a reset, another leaf */
static void op_purge(u32 i, u32 j)
{
	if (!flows[i][j])
		return;

	while (flows[i][j]->packets)
		dequeue(flows[i][j]);
	running = &queues[i];
	tell(flows[i][j]);
}

static void op_hang(u32 i, u32 j)
{
	(void)j;
	if (!with.hangs)
		return;

	queues[i].hung = !queues[i].hung;
	run_queue(i);
}

static void op_change(u32 i, u32 j)
{
	if (!with.changes)
		return;

	configure(j);
	for (i = 0; i < nqueues; i++)
		queues[i].wake = now;
}

/* A class is removed everywhere, and comes back elsewhere */
static void op_move(u32 i, u32 j)
{
	u32 parent, each;

	if (!j || classes[j].children)
		return;

	for (each = 0; each < nqueues; each++)
		leave(each, j);
	rate_tree_remove(classes[j].c);
	classes[classes[j].parent].children--;
	memset(classes[j].c, 0xdd, sizeof(*classes[j].c));
	do
		parent = below(nclasses);
	while (parent == j);
	add_class(j, parent);
	join(i, j);
}

/* A queue has another qdisc */
static void op_replace(u32 i, u32 j)
{
	for (j = 0; j < nclasses; j++)
		leave(i, j);
	memset(&queues[i].q, 0xdd, sizeof(queues[i].q));
	rate_tree_queue_init(&queues[i].q, &tree, kick);
	queues[i].wake = NEVER;
	for (j = 0; j < nclasses; j++)
		if (one_in(2))
			join(i, j);
}

static const struct {
	const char *name;
	u32 often;	/* of 100 */
	void (*act)(u32 i, u32 j);
} operations[] = {
	{ "packets",		75,	op_packets },
	{ "purge",		5,	op_purge },
	{ "leave",		5,	leave },
	{ "join",		6,	join },
	{ "hang, or go on",	3,	op_hang },
	{ "change",		3,	op_change },
	{ "class moves",	2,	op_move },
	{ "queue is replaced",	1,	op_replace },
};

static void operate(void)
{
	u32 i = below(nqueues), j = below(nclasses), n = below(100), kind = 0;

	while (n >= operations[kind].often)
		n -= operations[kind++].often;
	trace("%s: queue %u, class %u", operations[kind].name, i, j);
	operations[kind].act(i, j);
	running = NULL;
}

/* -------------------------------------------------------------- a scenario */

static u32 depth(int i)
{
	u32 depth = 0;

	for (; i >= 0; i = classes[i].parent)
		depth++;
	return depth;
}

static void build(void)
{
	u32 i, j, parent, wanted = 2 + below(CLASSES - 1);

	rate_tree_init(&tree);
	memset(classes, 0, sizeof(classes));
	memset(queues, 0, sizeof(queues));
	add_class(0, -1);
	for (nclasses = 1; nclasses < wanted; nclasses++) {
		do
			parent = below(nclasses);
		while (depth(parent) == DEPTH);
		add_class(nclasses, parent);
	}
	nqueues = 1 + below(QUEUES);
	for (i = 0; i < nqueues; i++) {
		rate_tree_queue_init(&queues[i].q, &tree, kick);
		queues[i].wake = NEVER;
		/* Inner classes have members while HTB moves them */
		for (j = 0; j < nclasses; j++)
			if (classes[j].children ? one_in(8) : below(3))
				join(i, j);
	}
}

static void disturb(void)
{
	u64 next = now, end = now + LENGTH;
	struct queue *q;

	for (step = 0; now < end; step++) {
		q = next_queue();
		if (q && q->wake <= next) {
			run_next(q);
		} else {
			now = next;
			next += 1 + below(2 * with.gap);
			operate();
		}
		check();
	}
}

/* All is sent by then: by the slowest class alone, with a packet for each that
 * goes too much, and what had been granted
 */
static u64 time_to_drain(void)
{
	u64 bytes = QUEUES * CLASSES * 2 * LONGEST, slowest = U64_MAX;
	struct flow *f;
	u32 i, j;

	for_each_flow(f, i, j) {
		bytes += f->bytes + f->packets * with.overhead;
		slowest = min(slowest, classes[j].c->ceil);
	}
	for (j = 0; j < nclasses; j++)
		slowest = min(slowest, classes[j].c->ceil);
	return mul_u64_u64_div_u64(bytes + bytes / 10, NSEC_PER_SEC, slowest) +
	       3LL * NSEC_PER_SEC;
}

static void drain(void)
{
	u64 end = now + time_to_drain();
	u32 i, left = nqueues;
	struct queue *q;

	trace("from here on all is sent");
	with.pauses = false;
	with.drops = false;
	for (i = 0; i < nqueues; i++) {
		queues[i].hung = false;
		run_queue(i);
		check();
	}
	for (; left; step++) {
		for (i = 0, left = 0; i < nqueues; i++)
			left += backlogged(i);
		if (!left)
			break;
		q = next_queue();
		must(q, "packets are left, and nobody wakes: queues", left);
		run_next(q);
		must(now < end, "packets are left for too long: queues", left);
		if (!(step % 64))
			check();
	}
}

static void take_down(void)
{
	u32 i, j;

	for (i = 0; i < nqueues; i++)
		for (j = 0; j < nclasses; j++)
			leave(i, j);
	check();
	must(!tree.root.nwaiting && !wants(&tree.root) && !tree.blocked.first,
	     "all have left, and some wait:", tree.root.nwaiting);
}

/* Nothing looks at what a scenario leaves behind that has failed */
static void forget(void)
{
	struct flow *f;
	u32 i, j;

	for_each_flow(f, i, j)
		free(f);
	memset(flows, 0, sizeof(flows));
	running = NULL;
	in_race = false;
}

static void scenario(u64 seed)
{
	at_seed = seed;
	random_state = seed;
	step = 0;
	now = NSEC_PER_SEC + below(BIT_ULL(50));
	start = now;
	with.hangs = one_in(2);
	with.drops = one_in(2);
	with.pauses = one_in(4);
	with.changes = one_in(2);
	with.races = one_in(2);
	with.late = one_in(4) ? NSEC_PER_MSEC : 30 * NSEC_PER_USEC;
	with.overhead = one_in(3) ? OVERHEAD : 0;
	with.gap = 2000 + below(100000);
	build();
	trace("%u classes, %u queues%s%s%s%s%s", nclasses, nqueues,
	      with.hangs ? ", hung queues" : "", with.drops ? ", drops" : "",
	      with.pauses ? ", pauses" : "", with.changes ? ", changes" : "",
	      with.races ? ", races" : "");
	disturb();
	drain();
	take_down();
}

static bool run_one(u64 seed)
{
	/* A busy host is no reason to end it, as it were for alarm() */
	struct itimerval patience = { .it_value.tv_sec = PATIENCE };

	setitimer(ITIMER_PROF, &patience, NULL);
	if (setjmp(failed)) {
		forget();
		return false;
	}
	scenario(seed);
	return true;
}

int main(int argc, char **argv)
{
	u64 first, count, i, ok = 0;

	if (argc < 3)
		return 2;

	signal(SIGPROF, ends);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_death_callback(sanitizer_ends);
#else
	signal(SIGSEGV, ends);
#endif
	tracing = !strcmp(argv[1], "trace");
	first = strtoull(argv[tracing ? 2 : 1], NULL, 10);
	count = tracing ? 1 : strtoull(argv[2], NULL, 10);
	for (i = 0; i < count; i++)
		ok += run_one(first + i);
	printf("FAMILY tree %llu %llu\n", (unsigned long long)count,
	       (unsigned long long)(count - ok));
	printf("%llu ok, %llu failed, %llu packets\n", (unsigned long long)ok,
	       (unsigned long long)(count - ok), (unsigned long long)sent);
	return ok < count;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What net/sched/sch_rate_tree.c needs of the kernel, beside kernel.h: lists,
 * sorted lists in place of red-black trees, and a lock. All know who is in what
 * and who holds what, and say so when they are used in a way that corrupts
 * memory or deadlocks in the kernel.
 *
 * A user defines shim_must(condition), or has a function shim_failed(); and
 * SHIM_RACES, if its function shim_meanwhile() is to be called before each
 * READ_ONCE(), where other CPUs may have done something.
 */
#ifndef SHIM_CHECKED_H
#define SHIM_CHECKED_H

#include "kernel.h"

#ifndef shim_must
void shim_failed(const char *what);
#define shim_must(cond)		((cond) ? (void)0 : shim_failed(#cond))
#endif

#undef DEBUG_NET_WARN_ON_ONCE
#define DEBUG_NET_WARN_ON_ONCE(cond)	shim_must(!(cond))

#define __ffs(x)		__builtin_ctzl(x)
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))

#ifdef SHIM_RACES
void shim_meanwhile(void);
#undef READ_ONCE
#define READ_ONCE(x)							\
	(shim_meanwhile(), __atomic_load_n(&(x), __ATOMIC_RELAXED))
#define smp_load_acquire(p)						\
	(shim_meanwhile(), __atomic_load_n(p, __ATOMIC_ACQUIRE))
#else
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#endif

#define smp_mb()		__sync_synchronize()
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_store_mb(v, x)	((void)((v) = (x)), smp_mb())

/* A lock. Nobody else can release it, so it must not be taken twice */
typedef struct {
	bool held;
} spinlock_t;

extern unsigned long locks;	/* how often any was taken */

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->held = false;
}

static inline void spin_lock(spinlock_t *lock)
{
	shim_must(!lock->held);
	lock->held = true;
	locks++;
}

static inline void spin_unlock(spinlock_t *lock)
{
	shim_must(lock->held);
	lock->held = false;
}

#define spin_lock_bh(lock)	spin_lock(lock)
#define spin_unlock_bh(lock)	spin_unlock(lock)

/* Lists. @head: of the list that an entry is in */
struct list_head {
	struct list_head *next, *prev, *head;
};

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
	head->head = NULL;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

/* Put an entry of no list into one, between two others of it */
static inline void shim_link(struct list_head *one, struct list_head *prev,
			     struct list_head *next, struct list_head *head)
{
	shim_must(!one->head);
	one->head = head;
	one->prev = prev;
	one->next = next;
	prev->next = one;
	next->prev = one;
}

static inline void list_add_tail(struct list_head *one, struct list_head *head)
{
	shim_link(one, head->prev, head, head);
}

static inline void list_add(struct list_head *one, struct list_head *head)
{
	shim_link(one, head, head->next, head);
}

static inline void list_del(struct list_head *one)
{
	shim_must(one->head);
	one->prev->next = one->next;
	one->next->prev = one->prev;
	one->next = one->prev = one->head = NULL;
}

/* It may be in none, if it was initialized */
static inline void list_del_init(struct list_head *one)
{
	if (one->next != one)
		list_del(one);
	INIT_LIST_HEAD(one);
}

static inline void list_move_tail(struct list_head *one, struct list_head *head)
{
	list_del_init(one);
	list_add_tail(one, head);
}

static inline void shim_check_list(const struct list_head *head)
{
	const struct list_head *one, *prev = head;

	for (one = head->next; one != head; one = one->next) {
		shim_must(one->head == head);
		shim_must(one->prev == prev);
		prev = one;
	}
	shim_must(head->prev == prev);
}

/* Lists that are added to without a lock */
struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

static inline void init_llist_head(struct llist_head *head)
{
	head->first = NULL;
}

static inline bool llist_empty(const struct llist_head *head)
{
	return !READ_ONCE(head->first);
}

static inline void llist_add(struct llist_node *one, struct llist_head *head)
{
	struct llist_node *other;

	for (other = head->first; other; other = other->next)
		shim_must(other != one);
	one->next = head->first;
	head->first = one;
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	struct llist_node *first = head->first;

	head->first = NULL;
	return first;
}

static inline struct llist_node *llist_reverse_order(struct llist_node *node)
{
	struct llist_node *next, *reversed = NULL;

	for (; node; node = next) {
		next = node->next;
		node->next = reversed;
		reversed = node;
	}
	return reversed;
}

#define llist_for_each_entry_safe(p, n, node, m)			\
	for (p = (node) ? container_of(node, __typeof__(*p), m) : NULL;	\
	     p && (n = p->m.next ? container_of(p->m.next, __typeof__(*p), m) : \
				   NULL, true);				\
	     p = n)

#define list_entry(p, t, m)	container_of(p, t, m)
#define list_first_entry(head, t, m) list_entry((head)->next, t, m)
#define list_for_each_entry(p, head, m)					\
	for (p = list_entry((head)->next, __typeof__(*p), m); &p->m != (head); \
	     p = list_entry(p->m.next, __typeof__(*p), m))
#define list_for_each_entry_safe(p, n, head, m)				\
	for (p = list_entry((head)->next, __typeof__(*p), m),		\
	     n = list_entry(p->m.next, __typeof__(*p), m);		\
	     &p->m != (head);						\
	     p = n, n = list_entry(n->m.next, __typeof__(*n), m))

/* Sorted lists. @root: what an entry is in; @less: how that is sorted */
struct rb_root_cached;

struct rb_node {
	struct rb_node *before, *behind;
	struct rb_root_cached *root;
};

struct rb_root_cached {
	struct rb_node *first;
	bool (*less)(struct rb_node *, const struct rb_node *);
};

#define RB_CLEAR_NODE(n)	((n)->before = (n))
#define RB_EMPTY_NODE(n)	((n)->before == (n))
#define rb_next(n)		((n)->behind)
#define RB_ROOT_CACHED		((struct rb_root_cached){ NULL, NULL })
#define rb_entry(p, t, m)	container_of(p, t, m)

static inline struct rb_node *rb_first_cached(const struct rb_root_cached *root)
{
	return root->first;
}

static inline void rb_add_cached(struct rb_node *one, struct rb_root_cached *root,
				 bool (*less)(struct rb_node *, const struct rb_node *))
{
	struct rb_node *before = NULL, *behind = root->first;

	shim_must(!one->root);
	shim_must(!root->less || root->less == less);
	while (behind && !less(one, behind)) {
		before = behind;
		behind = behind->behind;
	}
	one->before = before;
	one->behind = behind;
	one->root = root;
	root->less = less;
	if (behind)
		behind->before = one;
	if (before)
		before->behind = one;
	else
		root->first = one;
}

static inline void rb_erase_cached(struct rb_node *one, struct rb_root_cached *root)
{
	shim_must(one->root == root);
	one->root = NULL;
	if (one->before)
		one->before->behind = one->behind;
	else
		root->first = one->behind;
	if (one->behind)
		one->behind->before = one->before;
}

/* The key of an entry must not change while it is in a tree */
static inline void shim_check_tree(const struct rb_root_cached *root)
{
	struct rb_node *one, *before = NULL;

	for (one = root->first; one; one = one->behind) {
		shim_must(one->root == root);
		shim_must(one->before == before);
		shim_must(!before || !root->less(one, before));
		before = one;
	}
}

#endif /* SHIM_CHECKED_H */

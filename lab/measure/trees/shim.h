/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What sch_rate_tree.c needs of the kernel, in user space, beside lab/gates/fuzz/shim:
 * lists, sorted lists in place of red-black trees, and a lock that only counts.
 */
#ifndef TREES_SHIM_H
#define TREES_SHIM_H

#include "../../gates/fuzz/shim/kernel.h"

#define __ffs(x)		__builtin_ctzl(x)
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))

typedef struct { } spinlock_t;
extern unsigned long locks;
#define spin_lock_init(l)	((void)(l))
#define spin_lock(l)		((void)(l), (void)locks++)
#define spin_unlock(l)		((void)(l))

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_add_tail(struct list_head *one, struct list_head *head)
{
	one->prev = head->prev;
	one->next = head;
	head->prev->next = one;
	head->prev = one;
}

static inline void list_del(struct list_head *one)
{
	one->prev->next = one->next;
	one->next->prev = one->prev;
}

#define list_entry(p, t, m)	container_of(p, t, m)
#define list_first_entry(head, t, m) list_entry((head)->next, t, m)
#define list_for_each_entry_safe(p, n, head, m)				\
	for (p = list_entry((head)->next, __typeof__(*p), m),		\
	     n = list_entry(p->m.next, __typeof__(*p), m);		\
	     &p->m != (head);						\
	     p = n, n = list_entry(n->m.next, __typeof__(*n), m))

struct rb_node {
	struct rb_node *before, *behind;
};

struct rb_root_cached {
	struct rb_node *first;
};

#define RB_ROOT_CACHED		((struct rb_root_cached){ NULL })
#define rb_entry(p, t, m)	container_of(p, t, m)

static inline struct rb_node *rb_first_cached(const struct rb_root_cached *root)
{
	return root->first;
}

static inline void rb_add_cached(struct rb_node *one, struct rb_root_cached *root,
				 bool (*less)(struct rb_node *, const struct rb_node *))
{
	struct rb_node *before = NULL, *behind = root->first;

	while (behind && !less(one, behind)) {
		before = behind;
		behind = behind->behind;
	}
	one->before = before;
	one->behind = behind;
	if (behind)
		behind->before = one;
	if (before)
		before->behind = one;
	else
		root->first = one;
}

static inline void rb_erase_cached(struct rb_node *one, struct rb_root_cached *root)
{
	if (one->before)
		one->before->behind = one->behind;
	else
		root->first = one->behind;
	if (one->behind)
		one->behind->before = one->before;
}

#endif /* TREES_SHIM_H */

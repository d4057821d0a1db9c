/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What net/sched/sch_rate_group_test.c needs of the kernel, beside kernel.h: as much of
 * KUnit as it uses, and the same random numbers, so that it does the same as in the kernel.
 */
#ifndef SHIM_KUNIT_H
#define SHIM_KUNIT_H

#include <stdio.h>
#include "kernel.h"

/* Failures are printed with this in front */
extern const char *shim_case;

#define KTIME_MAX		INT64_MAX
#define GFP_KERNEL		0
#define ENOMEM			12
#define TICK_NSEC		10000000U
#define hrtimer_resolution	1U
#define MODULE_IMPORT_NS(ns)	_Static_assert(1, "")
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))
#define check_mul_overflow(a, b, d)	__builtin_mul_overflow(a, b, d)
#define roundup_u64(x, y)	(((x) + (y) - 1) / (y) * (y))
#define hash_32(x, bits)	((u32)((u32)(x) * 0x61C88647U) >> (32 - (bits)))
#define rtnl_lock()		do { } while (0)
#define rtnl_unlock()		do { } while (0)
#define msleep(ms)		do { } while (0)
#define kvcalloc(n, size, gfp)	calloc(n, size)
#define kvfree(p)		free(p)

/* As lib/random32.c has them */
struct rnd_state {
	u32 s1, s2, s3, s4;
};

static inline u32 prandom_u32_state(struct rnd_state *state)
{
#define SHIM_TAUS(s, a, b, c, d) ((((s) & (c)) << (d)) ^ ((((s) << (a)) ^ (s)) >> (b)))
	state->s1 = SHIM_TAUS(state->s1,  6U, 13U, 4294967294U, 18U);
	state->s2 = SHIM_TAUS(state->s2,  2U, 27U, 4294967288U,  2U);
	state->s3 = SHIM_TAUS(state->s3, 13U, 21U, 4294967280U,  7U);
	state->s4 = SHIM_TAUS(state->s4,  3U, 12U, 4294967168U, 13U);

	return state->s1 ^ state->s2 ^ state->s3 ^ state->s4;
}

static inline void prandom_seed_state(struct rnd_state *state, u64 seed)
{
	u32 i = ((seed >> 32) ^ (seed << 10) ^ seed) & 0xffffffffUL;

	state->s1 = i < 2 ? i + 2 : i;
	state->s2 = i < 8 ? i + 8 : i;
	state->s3 = i < 16 ? i + 16 : i;
	state->s4 = i < 128 ? i + 128 : i;
}

/* Timers: of those that expire first, the one that was added first */
struct timerqueue_node {
	struct timerqueue_node *next, **at;
	s64 expires;
};

struct timerqueue_head {
	struct timerqueue_node *first, **end;
};

static inline void timerqueue_init_head(struct timerqueue_head *head)
{
	head->first = NULL;
	head->end = &head->first;
}

static inline void timerqueue_init(struct timerqueue_node *node)
{
	node->at = NULL;
}

static inline bool timerqueue_node_queued(struct timerqueue_node *node)
{
	return node->at;
}

static inline void timerqueue_add(struct timerqueue_head *head,
				  struct timerqueue_node *node)
{
	node->next = NULL;
	node->at = head->end;
	*head->end = node;
	head->end = &node->next;
}

static inline void timerqueue_del(struct timerqueue_head *head,
				  struct timerqueue_node *node)
{
	*node->at = node->next;
	if (node->next)
		node->next->at = node->at;
	else
		head->end = node->at;
	node->at = NULL;
}

static inline struct timerqueue_node *
timerqueue_getnext(const struct timerqueue_head *head)
{
	struct timerqueue_node *one, *first = head->first;

	for (one = first; one; one = one->next)
		if (one->expires < first->expires)
			first = one;

	return first;
}

/* KUnit */
struct kunit {
	void		*priv;
	const void	*param_value;
	u32		failed;
};

struct kunit_case {
	void		(*run)(struct kunit *test);
	const char	*name;
	const void	*(*next)(const void *param, char *desc);
};

struct kunit_suite {
	const char	*name;
	int		(*suite_init)(struct kunit_suite *suite);
	int		(*init)(struct kunit *test);
	void		(*exit)(struct kunit *test);
	struct kunit_case *test_cases;
};

#define shim_expect(test, a, op, b, format, ...) ({			\
	__auto_type _is = (a);						\
	__auto_type _to = (b);						\
									\
	if (!(_is op _to) && !(test)->failed++)				\
		printf("FAIL seed 0 KUnit: %s 1, line %d: %s " #op " %s, %ld and %ld; " \
		       format "\n", shim_case, __LINE__, #a, #b, (long)_is, \
		       (long)_to, ## __VA_ARGS__); })
#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...) shim_expect(test, a, ==, b, __VA_ARGS__)
#define KUNIT_EXPECT_NE_MSG(test, a, b, ...) shim_expect(test, a, !=, b, __VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(test, a, b, ...) shim_expect(test, a, <=, b, __VA_ARGS__)
#define KUNIT_EXPECT_LT_MSG(test, a, b, ...) shim_expect(test, a, <, b, __VA_ARGS__)
#define KUNIT_EXPECT_GE_MSG(test, a, b, ...) shim_expect(test, a, >=, b, __VA_ARGS__)
#define KUNIT_EXPECT_GT_MSG(test, a, b, ...) shim_expect(test, a, >, b, __VA_ARGS__)
#define KUNIT_ASSERT_NOT_NULL(test, p)	do { (void)(test); if (!(p)) abort(); } while (0)
#define kunit_kzalloc(test, size, gfp)	calloc(1, size)

#define KUNIT_CASE(f)		{ .run = f, .name = #f }
#define KUNIT_CASE_PARAM(f, n)	{ .run = f, .name = #f, .next = n }
#define KUNIT_ARRAY_PARAM_DESC(list, array, desc_field)			\
static const void *list##_gen_params(const void *prev, char *desc)	\
{									\
	const __typeof__((array)[0]) *one = prev;			\
									\
	one = one ? one + 1 : (array);					\
	if (one == (array) + ARRAY_SIZE(array))				\
		return NULL;						\
	strcpy(desc, one->desc_field);					\
	return one;							\
}

#define kunit_test_suite(suite)	struct kunit_suite *shim_suite = &(suite)

#endif /* SHIM_KUNIT_H */

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What net/sched/sch_rate_group.c needs of the kernel, in user space. Every
 * <linux/...> that it includes is this file (lab/sim/fuzz.py sees to that).
 */
#ifndef SHIM_KERNEL_H
#define SHIM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wide.h"

/* What the C library of some machines takes from <linux/types.h> */
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
#ifdef __s390x__
typedef struct {
	__u32	u[4];
} __vector128;
#endif

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define U16_MAX		UINT16_MAX
#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define S64_MAX		INT64_MAX
#define ETH_FRAME_LEN	1514

#define NSEC_PER_USEC	1000L
#define NSEC_PER_MSEC	1000000L
#define NSEC_PER_SEC	1000000000L

#define BUILD_BUG_ON_NOT_POWER_OF_2(n)	_Static_assert(!((n) & ((n) - 1)), #n)
#define ilog2(n)	(63 - __builtin_clzll(n))
#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))
#define GENMASK_ULL(h, l)	((~0ULL >> (63 - (h))) & (~0ULL << (l)))

#define likely(x)	__builtin_expect(!!(x), 1)
#define ____cacheline_aligned_in_smp	__attribute__((aligned(64)))
#define __cacheline_group_begin(g)					\
	char __cacheline_group_begin__##g[0]
#define __cacheline_group_end(g)					\
	char __cacheline_group_end__##g[0]
#define CACHELINE_ASSERT_GROUP_MEMBER(type, g, member)	do { } while (0)
#define CACHELINE_ASSERT_GROUP_SIZE(type, g, size)	do { } while (0)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define rounddown(x, y)	({ __typeof__(x) _x = (x); _x - _x % (y); })

/* Relaxed, so that a thread sanitizer can tell them from plain accesses */
#define READ_ONCE(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

/* The thread sanitizer knows no fences, and the TAT is seen in order anyway */
#ifdef __SANITIZE_THREAD__
#define smp_rmb()	do { } while (0)
#else
#define smp_rmb()	__atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif

#define ASSERT_RTNL()	do { } while (0)

#define EXPORT_SYMBOL_NS_GPL(x, ns)	_Static_assert(1, "")
#define MODULE_DESCRIPTION(x)		_Static_assert(1, "")
#define MODULE_LICENSE(x)		_Static_assert(1, "")

#define shim_op(a, op, b) ({						\
	__auto_type _a = (a);						\
	__auto_type _b = (b);						\
	_a op _b ? _a : _b; })
#define min(a, b)	shim_op(a, <, b)
#define max(a, b)	shim_op(a, >, b)
#define min3(a, b, c)	min(min(a, b), c)
#define max3(a, b, c)	max(max(a, b), c)
#define min_t(t, a, b)	min((t)(a), (t)(b))
#define max_t(t, a, b)	max((t)(a), (t)(b))
#define clamp(v, l, h)	min(max(v, l), h)
#define clamp_t(t, v, l, h) clamp((t)(v), (t)(l), (t)(h))
#define abs(x)		({ __auto_type _v = (x); _v < 0 ? -_v : _v; })

/* A user has this function: a result does not fit */
void shim_overflow(const char *what);

/* Times wrap, but those that are compared are less than half of all apart, with some room */
static inline bool time_after64(u64 a, u64 b)
{
	s64 ns = b - a;

	if (ns > S64_MAX / 4 * 3 || ns < -(S64_MAX / 4 * 3))
		shim_overflow("times are too far apart");
	return ns < 0;
}

#define time_before64(a, b)	time_after64(b, a)

/* lab/sim/fuzz.py can put this in place of each product in the C files */
#define shim_mul(a, b) ({						\
	__typeof__((a) * (b)) _product;					\
									\
	if (__builtin_mul_overflow(a, b, &_product))			\
		shim_overflow(#a " * " #b);				\
	_product; })

#define DEBUG_NET_WARN_ON_ONCE(cond)	do { if (cond) abort(); } while (0)

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

/* On x86, this traps if the quotient does not fit */
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 d)
{
#ifdef __SIZEOF_INT128__
	unsigned __int128 n = (unsigned __int128)a * b / d;
	bool fits = n <= U64_MAX;
#else
	u64 n = shim_wide(a, b, d, 0);
	bool fits = n < U64_MAX;
#endif

	if (!fits)
		shim_overflow("the quotient of mul_u64_u64_div_u64()");
	return n;
}

static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
#ifdef __SIZEOF_INT128__
	return (u64)(((unsigned __int128)a * b) >> shift);
#else
	return shim_wide(a, b, 0, shift);
#endif
}

/* Cuts off what does not fit, as in the kernel, but not unnoticed */
static inline u64 mul_u64_u32_shr(u64 a, u32 b, unsigned int shift)
{
	u64 product;

	if (__builtin_mul_overflow(a >> shift, b, &product))
		shim_overflow("the product of mul_u64_u32_shr()");
	return mul_u64_u64_shr(a, b, shift);
}

/*
 * Atomics. Those of the TAT of a group, shim_watched, tell what they did, and
 * before an exchange shim_race() may let siblings in, as if on another CPU.
 */
typedef struct {
	s64 counter;
} atomic64_t;

extern const atomic64_t *shim_watched;
extern bool shim_racing;
/* How often something that members share was written; no program need define it */
__thread u64 shim_writes __attribute__((weak));
void shim_moved(s64 from, s64 to);
void shim_race(void);

static inline void shim_tell(const atomic64_t *v, s64 from, s64 to)
{
	if (v == shim_watched)
		shim_moved(from, to);
}

static inline s64 atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic64_set(atomic64_t *v, s64 to)
{
	shim_writes++;
	__atomic_store_n(&v->counter, to, __ATOMIC_RELAXED);
}

static inline s64 atomic64_read_acquire(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);
}

static inline void atomic64_set_release(atomic64_t *v, s64 to)
{
	shim_writes++;
	__atomic_store_n(&v->counter, to, __ATOMIC_RELEASE);
}

static inline bool atomic64_try_cmpxchg(atomic64_t *v, s64 *old, s64 to)
{
	shim_writes++;
	if (shim_racing)
		shim_race();
	if (!__atomic_compare_exchange_n(&v->counter, old, to, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	shim_tell(v, *old, to);
	return true;
}

static inline s64 atomic64_fetch_add(s64 by, atomic64_t *v)
{
	s64 from = __atomic_fetch_add(&v->counter, by, __ATOMIC_SEQ_CST);

	shim_writes++;
	shim_tell(v, from, from + by);
	return from;
}

static inline s64 atomic64_add_return(s64 by, atomic64_t *v)
{
	return atomic64_fetch_add(by, v) + by;
}

static inline void atomic64_add(s64 by, atomic64_t *v)
{
	atomic64_fetch_add(by, v);
}

#endif /* SHIM_KERNEL_H */

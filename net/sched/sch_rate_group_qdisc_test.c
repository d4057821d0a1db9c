// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* KUnit tests for the memory of groups: who allocates and frees what */

#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/string.h>
#include <net/sch_rate_group_qdisc.h>

#define RGQ_TABLES	(96 << 10)	/* bytes */

struct rgq {
	struct rate_group_block	block;
	struct rate_group_qdisc	plain[2];	/* of a kind without tables */
	struct rate_group_qdisc	wide[3];	/* of one that needs tables */
	struct Qdisc		*sch;		/* one for each of them */
};

static int rgq_check(struct kunit *test, struct rate_group_qdisc *m,
		     const struct rate_group_qdisc *old, u32 number)
{
	struct netlink_ext_ack extack = {};
	struct rgq *t = test->priv;
	int err;

	rtnl_lock();
	err = rate_group_qdisc_check(m, &t->block, old ? old->sch : NULL,
				     number, 0, &extack);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, !!err, !!extack._msg);
	return err;
}

static void rgq_move(struct kunit *test, struct rate_group_qdisc *m, u32 number)
{
	rtnl_lock();
	rate_group_qdisc_move(m, number);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, rate_group_qdisc_number(m), number);
	KUNIT_EXPECT_NULL(test, m->spare);
	KUNIT_EXPECT_NULL(test, m->spare_tables);
}

/* It joins as if it were attached in place of another, which then leaves */
static void rgq_replace(struct kunit *test, struct rate_group_qdisc *m,
			struct rate_group_qdisc *old, u32 number)
{
	KUNIT_ASSERT_EQ(test, rgq_check(test, m, old, number), 0);
	rgq_move(test, m, number);
	if (old)
		rgq_move(test, old, 0);
}

static void rgq_join(struct kunit *test, struct rate_group_qdisc *m, u32 number)
{
	rgq_replace(test, m, NULL, number);
}

static void rgq_test_group(struct kunit *test)
{
	struct rgq *t = test->priv;
	struct rate_group_pool *pool;

	rgq_join(test, &t->plain[0], 1);
	pool = t->plain[0].pool;
	rgq_join(test, &t->plain[1], 1);
	KUNIT_EXPECT_PTR_EQ(test, t->plain[1].pool, pool);
	rgq_join(test, &t->plain[1], 2);
	KUNIT_EXPECT_PTR_NE(test, t->plain[1].pool, pool);
	rgq_move(test, &t->plain[0], 0);
	rgq_join(test, &t->plain[0], 2);
	KUNIT_EXPECT_PTR_EQ(test, t->plain[0].pool, t->plain[1].pool);
	KUNIT_EXPECT_NULL(test, t->plain[0].pool->tables);
}

/* Tables come with the first member that needs any, and go with the last */
static void rgq_test_tables(struct kunit *test)
{
	struct rgq *t = test->priv;
	struct rate_group_pool *pool;
	void *tables;
	int i;

	rgq_join(test, &t->plain[0], 1);
	pool = t->plain[0].pool;
	for (i = 0; i < 3; i++) {
		rgq_join(test, &t->wide[0], 1);
		tables = pool->tables;
		KUNIT_ASSERT_NOT_NULL(test, tables);
		KUNIT_EXPECT_NULL(test, memchr_inv(tables, 0, RGQ_TABLES));
		memset(tables, 0xa5, RGQ_TABLES);

		rgq_join(test, &t->wide[1], 1);
		KUNIT_EXPECT_PTR_EQ(test, pool->tables, tables);
		rgq_move(test, &t->wide[0], 0);
		KUNIT_EXPECT_PTR_EQ(test, pool->tables, tables);
		rgq_move(test, &t->wide[1], 0);
		KUNIT_EXPECT_NULL(test, pool->tables);
	}
}

/* The new one joins before the old one leaves */
static void rgq_test_replace(struct kunit *test)
{
	struct rgq *t = test->priv;
	struct rate_group_pool *pool;
	void *tables;

	rgq_join(test, &t->plain[0], 1);
	pool = t->plain[0].pool;
	rgq_replace(test, &t->wide[0], &t->plain[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, t->wide[0].pool, pool);
	tables = pool->tables;
	KUNIT_EXPECT_NOT_NULL(test, tables);
	rgq_replace(test, &t->wide[1], &t->wide[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, pool->tables, tables);
	rgq_join(test, &t->plain[0], 1);
	rgq_replace(test, &t->wide[0], &t->wide[1], 1);
	KUNIT_EXPECT_PTR_EQ(test, pool->tables, tables);
	rgq_replace(test, &t->plain[1], &t->wide[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, t->plain[1].pool, pool);
	KUNIT_EXPECT_NULL(test, pool->tables);
}

/* A sibling that joins first allocates for those that follow */
static void rgq_test_follow(struct kunit *test)
{
	struct rgq *t = test->priv;
	int i;

	for (i = 0; i < 3; i++) {
		t->wide[i].follows = i > 0;
		KUNIT_EXPECT_EQ(test, rgq_check(test, &t->wide[i], NULL, 1), 0);
		KUNIT_EXPECT_EQ(test, !t->wide[i].spare, i > 0);
		KUNIT_EXPECT_EQ(test, !t->wide[i].spare_tables, i > 0);
	}
	for (i = 0; i < 3; i++) {
		rgq_move(test, &t->wide[i], 1);
		KUNIT_EXPECT_PTR_EQ(test, t->wide[i].pool, t->wide[0].pool);
	}
	KUNIT_EXPECT_NOT_NULL(test, t->wide[0].pool->tables);
}

/* No memory for tables, more of which would be wanted than there can be */
static void rgq_test_no_memory(struct kunit *test)
{
	struct rgq *t = test->priv;
	struct rate_group_pool *pool;

	t->wide[0].tables_size = INT_MAX + 1UL;
	KUNIT_EXPECT_EQ(test, rgq_check(test, &t->wide[0], NULL, 1), -ENOMEM);
	KUNIT_EXPECT_NULL(test, t->wide[0].spare);
	KUNIT_EXPECT_TRUE(test, hlist_empty(&t->block.pools));

	rgq_join(test, &t->plain[0], 1);
	pool = t->plain[0].pool;
	KUNIT_EXPECT_EQ(test, rgq_check(test, &t->wide[0], NULL, 1), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rgq_check(test, &t->wide[0], &t->plain[0], 1),
			-ENOMEM);
	KUNIT_EXPECT_NULL(test, t->wide[0].spare);
	KUNIT_EXPECT_NULL(test, pool->tables);
	KUNIT_EXPECT_EQ(test, pool->users, 1);

	t->wide[0].tables_size = RGQ_TABLES;
	rgq_join(test, &t->wide[0], 1);
	KUNIT_EXPECT_NOT_NULL(test, pool->tables);
}

/* It was allowed to join, and does not */
static void rgq_test_cancel(struct kunit *test)
{
	struct rgq *t = test->priv;

	KUNIT_EXPECT_EQ(test, rgq_check(test, &t->wide[0], NULL, 1), 0);
	KUNIT_EXPECT_NOT_NULL(test, t->wide[0].spare);
	KUNIT_EXPECT_NOT_NULL(test, t->wide[0].spare_tables);
	rate_group_qdisc_cancel(&t->wide[0]);
	KUNIT_EXPECT_NULL(test, t->wide[0].spare);
	KUNIT_EXPECT_NULL(test, t->wide[0].spare_tables);
	rate_group_qdisc_cancel(&t->wide[0]);
	rgq_join(test, &t->wide[0], 1);
}

static struct kunit_case rgq_cases[] = {
	KUNIT_CASE(rgq_test_group),
	KUNIT_CASE(rgq_test_tables),
	KUNIT_CASE(rgq_test_replace),
	KUNIT_CASE(rgq_test_follow),
	KUNIT_CASE(rgq_test_no_memory),
	KUNIT_CASE(rgq_test_cancel),
	{}
};

static int rgq_init(struct kunit *test)
{
	struct rgq *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	size_t i;

	if (!t)
		return -ENOMEM;
	t->sch = kunit_kcalloc(test, ARRAY_SIZE(t->plain) + ARRAY_SIZE(t->wide),
			       sizeof(*t->sch), GFP_KERNEL);
	if (!t->sch)
		return -ENOMEM;

	rtnl_lock();
	for (i = 0; i < ARRAY_SIZE(t->plain); i++)
		rate_group_qdisc_assign(&t->plain[i], t->sch + i, &t->block);
	for (i = 0; i < ARRAY_SIZE(t->wide); i++) {
		t->wide[i].tables_size = RGQ_TABLES;
		rate_group_qdisc_assign(&t->wide[i],
					t->sch + ARRAY_SIZE(t->plain) + i,
					&t->block);
	}
	rtnl_unlock();
	test->priv = t;
	return 0;
}

/* Also after a case that failed */
static void rgq_exit(struct kunit *test)
{
	struct rgq *t = test->priv;
	size_t i;

	if (!t)
		return;
	rtnl_lock();
	for (i = 0; i < ARRAY_SIZE(t->plain); i++)
		rate_group_qdisc_move(&t->plain[i], 0);
	for (i = 0; i < ARRAY_SIZE(t->wide); i++)
		rate_group_qdisc_move(&t->wide[i], 0);
	for (i = 0; i < ARRAY_SIZE(t->wide); i++)
		rate_group_qdisc_cancel(&t->wide[i]);
	rtnl_unlock();
	KUNIT_EXPECT_TRUE(test, hlist_empty(&t->block.pools));
}

static struct kunit_suite rgq_suite = {
	.name = "rate_group_qdisc",
	.init = rgq_init,
	.exit = rgq_exit,
	.test_cases = rgq_cases,
};

kunit_test_suite(rgq_suite);

MODULE_DESCRIPTION("KUnit tests for qdiscs that share a rate");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_IMPORT_NS("NET_SCHED_INTERNAL");

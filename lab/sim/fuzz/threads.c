// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that move one TAT for real. Each has members and a virtual clock of
 * its own, and waits for the others when that is far ahead of theirs. In every
 * other run the rate changes meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include "fuzz.h"

#define THREADS		3
#define EACH		4	/* members of a thread, at most */
#define CALLS		100000	/* of a thread */
#define APART		(200 * NSEC_PER_USEC)	/* clocks of threads */
#define RATES		20	/* changes of the rate */

struct part {
	struct rate_group_member m;
	pthread_mutex_t	lock;
	u64		call;
	u32		packets;	/* backlog; U32_MAX: without end */
	u32		len;
	bool		sparse;
};

static struct worker {
	pthread_t	id;
	struct part	part[EACH];
	u32		n;
	u64		random;
	u64		clock;
	s64		moved;
	u64		sent;
} workers[THREADS];

static struct rate_group group;
static bool stop;

__thread bool shim_in_thread;
__thread s64 shim_thread_moved;

/* A dequeue, with the lock of the member held */
static void serve(struct worker *w, struct part *p)
{
	u64 now = w->clock, when = now + NSEC_PER_USEC;
	u32 most = 64;

	while (p->packets && most--) {
		u32 backlog = min(p->packets, 1000U) * p->len;

		if (p->m.rate &&
		    !rate_group_may_send(&p->m, now, backlog) &&
		    !(p->sparse && rate_group_go_ahead(&p->m, now, p->len)) &&
		    rate_group_wait(&p->m, now, backlog, 0, &when)) {
			p->call = when;
			return;
		}
		if (p->packets != U32_MAX)
			p->packets--;
		w->sent += p->len;
		if (p->m.rate)
			rate_group_charge(&p->m, now, p->len);
	}
	if (!p->packets && p->m.rate)
		rate_group_idle(&p->m, now);
	/* More comes a little later */
	p->call = now + 1 + (p->packets ? 0 : below(&w->random, 20000));
}

static bool far_ahead(const struct worker *w)
{
	u32 i;

	for (i = 0; i < THREADS; i++)
		if (time_after64(w->clock, READ_ONCE(workers[i].clock) + APART))
			return !READ_ONCE(stop);

	return false;
}

static void *work(void *data)
{
	struct worker *w = data;
	u32 i, calls = 0;

	shim_in_thread = true;
	shim_thread_moved = 0;
	while (calls++ < CALLS && !READ_ONCE(stop)) {
		struct part *p = w->part;

		for (i = 1; i < w->n; i++)
			if (time_before64(w->part[i].call, p->call))
				p = &w->part[i];
		if (time_after64(p->call, w->clock))
			WRITE_ONCE(w->clock, p->call);
		while (far_ahead(w))
			sched_yield();
		pthread_mutex_lock(&p->lock);
		if (!p->packets) {
			p->packets = 1 + below(&w->random, 30);
			if (p->m.rate)
				rate_group_arrive(&p->m, w->clock);
		}
		serve(w, p);
		pthread_mutex_unlock(&p->lock);
	}
	w->moved = shim_thread_moved;
	WRITE_ONCE(stop, true);
	return NULL;
}

/* As an administrator does, while the others send */
static void change_rates(u64 *random)
{
	u32 i, j, k;

	for (i = 0; i < RATES && !READ_ONCE(stop); i++) {
		u64 rate = GBIT << below(random, 6), now;

		now = READ_ONCE(workers[0].clock);
		rate_group_set_rate(&group, i % 5 ? rate : 0, now);
		for (j = 0; j < THREADS; j++) {
			for (k = 0; k < workers[j].n; k++) {
				struct part *p = &workers[j].part[k];

				pthread_mutex_lock(&p->lock);
				rate_group_update(&p->m, now);
				pthread_mutex_unlock(&p->lock);
			}
		}
		for (j = 0; j < 100; j++)
			sched_yield();
	}
}

static void prepare(struct worker *w, u64 *random, u64 start)
{
	u32 i;

	memset(w, 0, sizeof(*w));
	w->random = next_random(random);
	w->clock = start;
	w->n = 1 + below(random, EACH);
	for (i = 0; i < w->n; i++) {
		struct part *p = &w->part[i];

		pthread_mutex_init(&p->lock, NULL);
		rate_group_join(&group, &p->m, true, start);
		p->call = start;
		p->len = 64 + below(random, MTU - 63);
		p->sparse = below(random, 2);
		/* The first is saturated, so that no time is unused */
		if (!i) {
			p->packets = U32_MAX;
			rate_group_arrive(&p->m, start);
		}
	}
}

static bool within(u64 seed, const char *what, s64 figure, s64 bound)
{
	if (figure <= bound)
		return true;
	printf("FAIL seed %lu threads: %s %ld, bound %ld\n", seed, what, figure,
	       bound);
	return false;
}

/* Nothing was lost of what threads did to the TAT; and the bounds hold */
static bool judge_run(u64 seed, u64 start, s64 tat, s64 moved, bool steady)
{
	u64 sent = 0, least = U64_MAX, most = 0, bound, apart;
	u32 i, n = 0;
	bool good;

	for (i = 0; i < THREADS; i++) {
		moved += workers[i].moved;
		sent += workers[i].sent;
		n += workers[i].n;
		least = min(least, workers[i].clock - start);
		most = max(most, workers[i].clock - start);
	}
	good = within(seed, "lost moves",
		      abs(atomic64_read(&group.tat) - tat - moved), 0);
	if (!steady)
		return good;
	/* Threads are late by what they wait for each other */
	apart = APART + RATE_GROUP_MAX_LATE;
	bound = bound_of_group() + n * bound_of_member(MTU, 0) +
		bytes_in(group.rate, apart);
	good &= within(seed, "excess", sent - bytes_in(group.rate, most), bound);
	good &= within(seed, "shortage", bytes_in(group.rate, least) - sent,
		       bound);
	return good;
}

bool run_threads(u64 seed)
{
	u64 random = seed, start;
	bool steady = seed & 1;
	s64 tat;
	u32 i;

	begin_patience();
	start = below(&random, 2) ? U64_MAX - below(&random, NSEC_PER_MSEC) :
				    1 + below(&random, BIT_ULL(40));
	memset(&group, 0, sizeof(group));
	stop = false;
	shim_racing = false;
	shim_watched = &group.tat;
	shim_in_thread = true;
	rate_group_set_rate(&group, GBIT << below(&random, 6), start);
	for (i = 0; i < THREADS; i++)
		prepare(&workers[i], &random, start);
	tat = atomic64_read(&group.tat);
	shim_thread_moved = 0;
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].id, NULL, work, &workers[i]))
			return false;
	if (!steady)
		change_rates(&random);
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].id, NULL);
	shim_in_thread = false;

	return judge_run(seed, start, tat, shim_thread_moved, steady);
}

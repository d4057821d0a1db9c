// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into QEMU: lets the thread of its main loop run only while that of the
 * virtual CPU waits, so that a run with -icount is the same each time.
 *
 * When the CPU halts, the main loop moves the clock on to the next timer. It sees that
 * the CPU has halted a little before the CPU has accounted for the instructions that it
 * executed last; if it is awake just then, the clock goes wrong by those. That happens a
 * few times in a run, and from there on two runs differ.
 *
 * The first mutex that the main thread waits with on a condition is QEMU's big lock; the
 * CPU's thread is the other one that does so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define OURS	__attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t halted = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t *big;
static bool cpu_known, cpu_waits;

static int (*next_wait)(pthread_cond_t *cond, pthread_mutex_t *mutex);
static int (*next_ppoll)(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			 const sigset_t *mask);

static void __attribute__((constructor)) setup(void)
{
	next_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
	next_ppoll = dlsym(RTLD_NEXT, "ppoll");
	if (!next_wait || !next_ppoll)
		abort();
}

static bool is_main(void)
{
	return gettid() == getpid();
}

OURS int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int ret;

	if (is_main() && !big)
		big = mutex;
	if (is_main() || mutex != big)
		return next_wait(cond, mutex);

	pthread_mutex_lock(&lock);
	cpu_known = true;
	cpu_waits = true;
	pthread_cond_signal(&halted);
	pthread_mutex_unlock(&lock);
	ret = next_wait(cond, mutex);
	pthread_mutex_lock(&lock);
	cpu_waits = false;
	pthread_mutex_unlock(&lock);
	return ret;
}

OURS int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
	       const sigset_t *mask)
{
	int ret = next_ppoll(fds, n, timeout, mask);

	if (!is_main())
		return ret;
	pthread_mutex_lock(&lock);
	while (cpu_known && !cpu_waits)
		next_wait(&halted, &lock);
	pthread_mutex_unlock(&lock);
	return ret;
}

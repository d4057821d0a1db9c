/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fuzzer of the rate group: what a scenario is, and what came of it.
 *
 * Times are in ns since the start of the scenario, sizes in bytes, rates in
 * bytes/s, unless a comment says otherwise.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <sys/time.h>
#include <kernel.h>
#include <net/sch_rate_group.h>

#define NEVER		S64_MAX
#define MEMBERS		128
#define SOURCES		4	/* of packets, per member */
#define CHANGES		64	/* of the rate */
#define MTU		1514
#define GBIT		125000000ULL
#define PATIENCE	20U	/* s of CPU time that a run may take */

typedef __int128 s128;

enum traffic {
	NONE,
	SATURATED,	/* always more, from @from on */
	PACED,		/* @count packets every @pause */
	POISSON,	/* the same, with random pauses of that mean */
	ONOFF,		/* one every @pause for @gap, then nothing for @gap */
	SINGLE,		/* one at a time: the next @gap after it was sent */
	RHYTHM,		/* a lone packet; when it was sent, @count; and so on */
};

enum size {
	FIXED,		/* @lo */
	UNIFORM,	/* @lo to @hi */
	MIXED,		/* 64, 300, 1514 or 9000 */
};

/* Where packets come from */
struct source {
	u8	kind;
	u8	size;
	bool	sparse;		/* each packet is a flow: it may go ahead */
	u32	lo;
	u32	hi;
	u32	count;
	u64	pause;
	u64	gap;
	u64	from;
};

/* A member, and all that may happen to it */
struct spec {
	u32	id;
	bool	tbf;		/* else cake */
	bool	root;		/* or one cake at the root, in no group */
	bool	fair;		/* is to get as much as others that are */
	bool	greedy;		/* is to get no more than 1/n, whatever it does */
	u32	tins;		/* cake: one per source, 0: all in one */
	struct source src[SOURCES];
	s32	overhead;	/* each packet costs that in addition, */
	bool	atm;		/* and goes in cells of 53 bytes that carry 48 */
	u32	burst;
	u32	weight;		/* in the units of the rate group */
	u32	rank;		/* plus 1; 0: that of best effort */
	u64	late;		/* timers are late by up to that */
	u32	late_one_in;	/* but only one in so many; 1: by all of it; 0:
				 * always by a random part of it
				 */
	u64	stop_every;	/* mean time between stops of its TX queue */
	u64	stop;		/* their mean length */
	bool	together;	/* at the same times as others */
	u32	bql;		/* its TX queue holds so many bytes, 0: any; */
	u64	line;		/* it sends them at that rate, */
	u64	irq;		/* and says at multiples of that what is gone */
	u64	hang;		/* from then on it is stopped for ever */
	u64	reset_every;	/* its backlog vanishes */
	u64	leave_every;	/* it leaves, or joins again */
	u32	leave_after;	/* so many packets, to join again at once */
	u64	skew;		/* of its clock */
};

/* The members are updated one by one, @gap after each other */
struct change {
	u64	at;
	u64	rate;
	u64	gap;
	u32	mtu;
};

struct scenario;

struct family {
	const char	*name;
	u32		often;		/* of 1000 */
	void		(*make)(struct scenario *s);
	u32		checks;		/* besides those that always hold */
};

struct scenario {
	u64			seed;
	const struct family	*family;
	u64			rate;
	u32			mtu;
	u64			start;	/* clock at time 0 */
	u64			ns;	/* length */
	u64			warm;	/* what was before does not count as share */
	u32			race;	/* siblings come in between, one in so many */
	u64			tick;	/* timers fire at multiples of that */
	bool			singly;	/* a packet may go before the next comes */
	u32			cpus;	/* 0: code takes no time. Otherwise */
	u64			call_ns; /* a wake-up takes that of a CPU, */
	u64			packet_ns; /* and a packet */
	u64			events;	/* at most; 0: a limit for fuzzing */
	u32			n;
	u32			changes;
	struct spec		m[MEMBERS];
	struct change		change[CHANGES];
};

enum check {
	EXCESS,		/* more than the upper bound, since the last change */
	EXCESS_ALL,	/* or over changes of the rate */
	SHORTAGE,	/* less than the lower bound */
	SHARE_HIGH,	/* of a member */
	SHARE_LOW,
	JAIN,
	GREEDY,		/* one that tries has too much */
	STARVED,	/* waits for too many rounds */
	UNPAID,		/* less was taken from the TAT than was sent */
	OVERPAID,	/* or more */
	CLOCK,		/* of a member went back */
	LIVELOCK,	/* it is told to ask again now, without end */
	LOSS,		/* of rate, because of timers that are late */
	OVERFLOW,	/* a product, a quotient or a time does not fit */
	CHECKS,
};

/* Flags of a family */
#define C_FAIR		BIT(0)	/* shares of those that are fair */
#define C_GREEDY	BIT(1)	/* shares of those that are greedy */
#define C_STARVED	BIT(2)
#define C_NO_MAX_LATE	BIT(3)	/* the bound is that without max_late */
#define C_NO_LOSS	BIT(4)	/* lateness costs no rate */
#define C_WEIGHTS	BIT(5)	/* members may have any weight */
#define C_ON_TIME	BIT(6)	/* nobody is late: the bounds are narrower */

/* What came of a scenario: of each check the figure that was worst, and what
 * it may be, in permille as well; and the first that was too much
 */
struct outcome {
	s64	figure[CHECKS];
	s64	bound[CHECKS];
	u32	permille[CHECKS];
	bool	failed;
	enum check check;	/* the first that failed */
	u64	at;
	u64	packets;
	u64	events;
	u64	calls;
	u64	writes;		/* to the TAT */
	u64	most;		/* excess, with C_NO_MAX_LATE or not */
	u64	sent[MEMBERS];	/* after the warm-up, */
	u64	all;		/* of all members, */
	u64	could;		/* and what could have been sent, bytes */
};

extern const char * const check_names[CHECKS];
extern bool tracing;
extern bool stop_at_failure;
extern enum check only;	/* that counts; CHECKS: any */

/* sim.c */
void simulate(const struct scenario *s, struct outcome *o);
/* Jain's index of n figures, in millionths */
u64 jain_index(const u64 *of, u32 n);

/* families.c */
extern const struct family families[];
extern const u32 n_families;
void make_scenario(struct scenario *s, u64 seed, const char *family);
void print_scenario(const struct scenario *s);

/* shrink.c */
u32 shrink(struct scenario *s, const struct outcome *was);

/* rows.c */
bool run_rows(void);

/* threads.c */
extern __thread bool shim_in_thread;
extern __thread s64 shim_thread_moved;
bool run_threads(u64 seed);

/* A busy host is no reason to end a run, as it were for alarm() */
static inline void begin_patience(void)
{
	struct itimerval one = { .it_value.tv_sec = PATIENCE };

	setitimer(ITIMER_PROF, &one, NULL);
}

/* Random numbers: splitmix64 */
static inline u64 next_random(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline u64 below(u64 *state, u64 n)
{
	return n ? mul_u64_u64_shr(next_random(state), n, 64) : 0;
}

static inline u64 bytes_in(u64 rate, u64 ns)
{
	return mul_u64_u64_div_u64(rate, ns, NSEC_PER_SEC);
}

static inline u64 ns_of(u64 rate, u64 bytes)
{
	return mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, rate);
}

/* The bounds that the comment in sch_rate_group.c states: what the group may
 * send beyond its rate without max_late, what is for all,
 */
static inline u64 bound_of_group(void)
{
	return 2 * RATE_GROUP_AHEAD + RATE_GROUP_QUANTUM + ETH_FRAME_LEN;
}

/* and for each member; slot: the longest, if its owner decides on it */
static inline u64 bound_of_member(u32 longest, u32 slot)
{
	return max(slot, RATE_GROUP_QUANTUM) + 2 * longest;
}

#endif /* FUZZ_H */

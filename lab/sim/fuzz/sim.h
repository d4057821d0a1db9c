/* SPDX-License-Identifier: GPL-2.0 */
/* What the simulator and its models of the qdiscs share */
#ifndef FUZZ_SIM_H
#define FUZZ_SIM_H

#include "fuzz.h"

#define FIFO		1024		/* packets that a source may have queued */
#define ENDLESS		(4U << 20)	/* backlog of one that always has more */

struct fifo {
	u32	len[FIFO];
	u32	head;
	u32	n;		/* two if it is endless */
	u32	bytes;
	bool	endless;
};

/* What cake keeps of a tin */
struct tin {
	struct rate_group_member limit;	/* in the group of its threshold */
	struct rate_group_member turn;	/* in the group of the rate */
	u64	rate;
	u64	next;		/* packet may go by the schedule of tins */
	bool	backlogged;	/* as far as the groups know */
};

struct member {
	struct rate_group_member part;
	struct tin	*served;	/* whose turn it is, NULL: that of part */
	struct tin	tin[SOURCES];
	u32		slot;		/* longest that a tin takes */
	u32		mtu;		/* of the device */
	u64		wait;		/* cake: nothing goes before; 0: ask */
	u64		frac;		/* of that, root: in bytes * s / rate */
	const struct spec *spec;
	u64		random;
	struct fifo	q[SOURCES];
	u32		packets;	/* in all queues */
	u32		bytes;
	bool		joined;
	bool		prompt;		/* is always called when it asked to be */
	bool		active;		/* is being called right now */
	bool		lone;		/* phase of a rhythm */
	bool		backlogged;	/* as far as the group knows */
	u64		arrive[SOURCES];
	u64		phase[SOURCES];	/* end of it, if a source is on and off */
	u64		call;		/* because packets have come, or so */
	u64		timer;		/* when it asked to be called, or later */
	u64		stopped;	/* no call before that */
	u64		holds;		/* its TX queue, bytes, */
	u64		held_at;	/* then */
	u64		step;		/* on a CPU: goes on then */
	u32		visit;		/* packets since it has its CPU */
	bool		queued;		/* waits for a CPU */
	u32		yields;		/* since it has sent a packet */
	bool		woken;		/* by a timer */
	u64		stop_random;
	u64		stop_at;
	u64		reset_at;
	u64		toggle_at;	/* joins, or leaves */
	u32		stays;		/* for so many packets; 0: any */
	u64		update_at;	/* follows a change of the rate */
	u64		key;		/* the first of all these */
	u64		clock;		/* by rate_group_clock(), when last seen */
	bool		seen;
	u64		busy_since;
	u64		waits_since;
	u64		sent;		/* since the end of the warm-up */
	u32		longest;	/* packet, as it is charged */
};

/* The models of qdiscs. They return the source to serve; -1: wait until *when,
 * by the member's clock; -2: go on waiting.
 */
int cake_turn(struct member *m, u64 now, u64 *when);
int tbf_turn(struct member *m, u64 now, u64 *when);
int root_turn(struct member *m, u64 now, u64 *when);
/* A packet of source i was taken out of its queue: charge it */
void charge_packet(struct member *m, int i, u64 now, u32 cost);
/* See at once when the next one may go: true if *when is to be waited for */
bool look_ahead(struct member *m, u64 now, u64 *when);
/* The backlog of source i has changed */
void backlog_changed(struct member *m, int i, u64 now);
void follow_rate(struct member *m, struct rate_group *g,
		 struct rate_group *tins, u32 mtu, u64 now);
void leave_tins(struct member *m, u64 now);

/* sim.c */
u32 head_len(const struct member *m, int i);
u32 cost_of(const struct spec *spec, u32 len);

#endif /* FUZZ_SIM_H */

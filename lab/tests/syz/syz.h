/* SPDX-License-Identifier: GPL-2.0 */
/* make syz in the guest: programs of operations, see ops.c, and who makes them up, syz.c */
#ifndef SYZ_H
#define SYZ_H

#include <stdbool.h>
#include <stdint.h>

#define ARGS 9		/* of an operation, at most */
#define LENGTH 40	/* of a program, operations */

struct step {
	uint8_t op;		/* in ops[] */
	uint8_t arg[ARGS];	/* each less than what ops[] says */
};

struct program {
	unsigned int len;
	struct step step[LENGTH];
};

struct op {
	const char *name;
	int (*run)(const uint8_t *arg);	/* 0, or a negative errno: refused */
	unsigned int weight;		/* how often it is made up */
	unsigned int args;
	uint16_t below[ARGS];		/* of each argument */
	/* Counted: */
	unsigned int done, refused;
};

extern struct op ops[];
extern const unsigned int nops;
extern bool several;		/* CPUs: time is real, and other threads send */
extern char stuck[200];		/* what the operation "drain" has found */

void die(const char *what);
void begin(void);		/* devices as after boot, in a namespace */
void end(void);			/* their qdiscs go, or the namespace with whatever is queued */
void run(struct program *p);	/* all operations, with the packets of them */

#endif

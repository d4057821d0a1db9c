// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: fuzz FIRST COUNT SHRINK FAMILY
 *
 * Run scenarios of seeds FIRST, FIRST + 1, ...: COUNT of them. Print a line for
 * each that fails; the first SHRINK of a family and a check are made as small
 * as they get. FAMILY: take this one only; "-": any.
 *
 *        fuzz trace SEED FAMILY
 *
 * Show what happens in a scenario, made small if it fails.
 *
 *        fuzz rows
 *
 * What lateness costs, beside one cake, and writes below the rate: two tables.
 *
 *        fuzz threads FIRST COUNT
 *
 * Let threads move one TAT.
 *
 * The last line is "N ok, M failed, P packets", before it one per family.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fuzz.h"

#define FAMILIES	32

static struct scenario scenario;
static struct outcome outcome;

static struct {
	u32	runs;
	u32	failed;
	u32	shrunk[CHECKS];
	u32	permille[CHECKS];
} totals[FAMILIES];

static u64 at_seed;

/* It is the group that loops: the simulator counts its events */
static void hangs(int signal)
{
	(void)signal;
	printf("\nFAIL seed %lu: a call does not return within %u s of CPU time\n", at_seed,
	       PATIENCE);
	fflush(stdout);
	_exit(3);
}

static void report(struct scenario *s, struct outcome *o, bool small)
{
	u32 runs, i;

	printf("FAIL seed %lu %s: %s %ld, bound %ld, at %lu", s->seed,
	       s->family->name, check_names[o->check], o->figure[o->check],
	       o->bound[o->check], o->at);
	for (i = 0; i < CHECKS; i++)
		if (o->figure[i] > o->bound[i] && i != o->check)
			printf("; %s %ld, bound %ld", check_names[i],
			       o->figure[i], o->bound[i]);
	if (small) {
		runs = shrink(s, o);
		printf(" | after %u runs: ", runs);
		print_scenario(s);
	}
	printf("\n");
	fflush(stdout);
}

static bool run_one(u64 seed, const char *family, u32 shrinks)
{
	u32 f, i;

	at_seed = seed;
	make_scenario(&scenario, seed, family);
	simulate(&scenario, &outcome);
	f = scenario.family - families;
	totals[f].runs++;
	for (i = 0; i < CHECKS; i++)
		totals[f].permille[i] = max(totals[f].permille[i],
					    outcome.permille[i]);
	if (!outcome.failed)
		return true;
	totals[f].failed++;
	report(&scenario, &outcome,
	       totals[f].shrunk[outcome.check]++ < shrinks);
	return false;
}

static void print_totals(void)
{
	u32 f, i;

	for (f = 0; f < n_families; f++) {
		printf("FAMILY %s %u %u", families[f].name, totals[f].runs,
		       totals[f].failed);
		for (i = 0; i < CHECKS; i++)
			if (totals[f].permille[i])
				printf(" %s=%u", check_names[i],
				       totals[f].permille[i]);
		printf("\n");
	}
}

static int trace(u64 seed, const char *family)
{
	at_seed = seed;
	make_scenario(&scenario, seed, family);
	simulate(&scenario, &outcome);
	if (outcome.failed)
		shrink(&scenario, &outcome);
	printf("seed %lu %s: ", seed, scenario.family->name);
	print_scenario(&scenario);
	printf("\n");
	tracing = true;
	simulate(&scenario, &outcome);
	return outcome.failed;
}

static u64 number(int argc, char **argv, int i)
{
	return i < argc ? strtoull(argv[i], NULL, 10) : 0;
}

static const char *name(int argc, char **argv, int i)
{
	return i < argc && strcmp(argv[i], "-") ? argv[i] : NULL;
}

int main(int argc, char **argv)
{
	u64 first, count, i, ok = 0, packets = 0;
	bool threads = argc > 1 && !strcmp(argv[1], "threads");

	signal(SIGPROF, hangs);
	if (argc > 1 && !strcmp(argv[1], "trace"))
		return trace(number(argc, argv, 2), name(argc, argv, 3));

	if (argc > 1 && !strcmp(argv[1], "rows"))
		return !run_rows();

	first = number(argc, argv, 1 + threads);
	count = number(argc, argv, 2 + threads);
	for (i = 0; i < count; i++) {
		at_seed = first + i;
		if (threads)
			ok += run_threads(first + i);
		else
			ok += run_one(first + i, name(argc, argv, 4),
				      number(argc, argv, 3));
		packets += outcome.packets;
	}
	if (!threads)
		print_totals();
	printf("%lu ok, %lu failed, %lu packets\n", ok, count - ok, packets);
	return ok < count;
}

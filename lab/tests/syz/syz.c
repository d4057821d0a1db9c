// SPDX-License-Identifier: GPL-2.0
/* make syz in the guest: makes up programs, runs them, and keeps those that reach new code.
 *
 *	syz SEED MAP MAP_START MAP_BYTES [several] [replay]
 *
 * Reads programs of /run/job/corpus, one operation a line and an empty line after each, and runs
 * them. Then, unless it only replays them, changes them at random, until /run/job/stop is there.
 * What reached code that no program before had reached goes to /run/job/found, without the
 * operations that this does not take. With several CPUs, what is reached is up to chance: nothing
 * is kept.
 *
 * The programs that ran last are in /run/job/ring, so that whoever looks at a kernel that has died
 * finds them. Ends with 3 and a sentence in /run/job/trouble if the log has a splat, if memory
 * leaked, or if a qdisc keeps what it has queued.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "syz.h"

#define CORPUS 20000
#define MAP_MAX (1 << 20)
#define SLOTS 1024	/* programs in the ring, of SLOT bytes */
#define SLOT 2048
#define LEAKS 500	/* programs between two looks for leaks */

static struct program corpus[CORPUS];
static unsigned int ncorpus;
static uint64_t map[MAP_MAX / 8], known[MAP_MAX / 8], fresh[MAP_MAX / 8];
static unsigned long map_start, map_bytes, programs, reached;
static int map_fd, log_fd, ring_fd;
static uint64_t state;

void die(const char *what)
{
	perror(what);
	exit(2);
}

static void report(void);

static void trouble(const char *what)
{
	FILE *file = fopen("/run/job/trouble", "w");

	if (!file)
		die("trouble");
	fprintf(file, "%s\n", what);
	fclose(file);
	report();
	exit(3);
}

static unsigned int below(unsigned int n)
{
	state += 0x9e3779b97f4a7c15;
	uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;

	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z >> 33) % n;
}

/* ---------------------------------------------------------------- as text */

static unsigned int print(const struct program *p, char *to, unsigned int size)
{
	const struct op *op;
	unsigned int i, j, at = 0;

	for (i = 0; i < p->len; i++) {
		op = &ops[p->step[i].op];
		at += snprintf(to + at, size - at, "%s", op->name);
		for (j = 0; j < op->args; j++)
			at += snprintf(to + at, size - at, " %u", p->step[i].arg[j]);
		at += snprintf(to + at, size - at, "\n");
	}
	return at + snprintf(to + at, size - at, "\n");
}

static void add(const struct program *p)
{
	if (p->len && ncorpus < CORPUS)
		corpus[ncorpus++] = *p;
}

static void parse(const char *line, struct program *p)
{
	struct step *step = &p->step[p->len];
	char name[32];
	unsigned int i;
	int used = 0;
	char *end;

	if (p->len == LENGTH || sscanf(line, "%31s%n", name, &used) != 1)
		return;
	for (step->op = 0; step->op < nops; step->op++)
		if (!strcmp(name, ops[step->op].name))
			break;
	if (step->op == nops) {
		fprintf(stderr, "there is no operation '%s'\n", name);
		exit(2);
	}
	line += used;
	for (i = 0; i < ops[step->op].args; i++) {
		step->arg[i] = strtoul(line, &end, 10) % ops[step->op].below[i];
		line = end;
	}
	p->len++;
}

static void load(const char *path)
{
	FILE *file = fopen(path, "r");
	struct program p = { 0 };
	char line[256];

	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		if (line[0] != '\n') {
			parse(line, &p);
			continue;
		}
		add(&p);
		p.len = 0;
	}
	add(&p);
	fclose(file);
}

/* --------------------------------------------------------------- making up */

static void random_step(struct step *step)
{
	unsigned int all = 0, i, n;

	for (i = 0; i < nops; i++)
		all += ops[i].weight;
	n = below(all);
	for (i = 0; n >= ops[i].weight; i++)
		n -= ops[i].weight;
	step->op = i;
	for (i = 0; i < ARGS; i++)	/* often 0, the plain one */
		step->arg[i] = ops[step->op].below[i] && below(3) ?
			       below(ops[step->op].below[i]) : 0;
	if (ops[step->op].args)		/* much about one device, so that it adds up */
		step->arg[0] = below(4) ? 0 : below(ops[step->op].below[0]);
}

static void insert(struct program *p, unsigned int at, const struct step *step)
{
	if (p->len == LENGTH)
		return;
	memmove(&p->step[at + 1], &p->step[at], (p->len - at) * sizeof(*step));
	p->step[at] = *step;
	p->len++;
}

static void leave_out(struct program *p, unsigned int at)
{
	p->len--;
	memmove(&p->step[at], &p->step[at + 1], (p->len - at) * sizeof(p->step[0]));
}

static void mutate(struct program *p)
{
	const struct program *other = &corpus[below(ncorpus)];
	unsigned int at = below(p->len), i;
	struct step step;

	switch (below(10)) {
	case 0 ... 2:
		random_step(&step);
		insert(p, below(p->len + 1), &step);
		break;
	case 3 ... 5:
		step = p->step[at];
		i = below(ARGS);
		if (ops[step.op].below[i])
			p->step[at].arg[i] = below(2) ? below(ops[step.op].below[i]) :
				(step.arg[i] ^ 1U << below(8)) % ops[step.op].below[i];
		break;
	case 6:
		if (p->len > 1)
			leave_out(p, at);
		break;
	case 7:
		insert(p, below(p->len + 1), &p->step[at]);
		break;
	default:	/* the rest is another's, from some operation on */
		for (i = below(other->len); i < other->len; i++)
			insert(p, below(2) ? p->len : below(p->len + 1), &other->step[i]);
	}
}

static void make_up(struct program *p)
{
	unsigned int n = 1 + below(6);

	/* What was found last leads on more often than the rest */
	*p = corpus[below(2) ? below(ncorpus) : ncorpus - 1 - below((ncorpus + 7) / 8)];
	if (!below(20))
		p->len = 1;
	while (n--)
		mutate(p);
}

/* ---------------------------------------------------------------- judging */

static void look_at_log(void)
{
	static const char *const words[] = { "BUG: ", "WARNING: ", "INFO: ", "refcount_t", "KASAN",
		"corruption", "suspicious", "unregister_netdevice: waiting", "UBSAN", "ODEBUG" };
	char line[4096];
	unsigned int i;
	ssize_t got;

	while ((got = read(log_fd, line, sizeof(line) - 1)) > 0) {
		line[got] = 0;
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strstr(line, words[i])) {
				sleep(2);	/* it goes on */
				trouble(strchr(line, ';') ? strchr(line, ';') + 1 : line);
			}
	}
}

static void look_for_leaks(void)
{
	int fd = open("/sys/kernel/debug/kmemleak", O_RDWR);
	char text[4096] = "leaked: ";
	ssize_t got;

	if (fd < 0)
		return;
	sleep(7);	/* what is younger than 5 s does not count */
	if (write(fd, "scan", 4) < 0 || write(fd, "scan", 4) < 0)
		die("kmemleak");
	lseek(fd, 0, SEEK_SET);
	got = read(fd, text + 8, sizeof(text) - 9);
	close(fd);
	if (got > 0)
		trouble(text);
}

/* Run a program in a namespace of its own; map[] is what code it reached */
static void carry_out(struct program *p)
{
	char text[SLOT] = "";

	print(p, text, sizeof(text));
	if (pwrite(ring_fd, text, sizeof(text), programs % SLOTS * SLOT) < 0)
		die("ring");
	begin();
	if (map_fd >= 0 && pread(map_fd, map, map_bytes, map_start) < 0)
		die("map");
	run(p);
	if (map_fd >= 0 && pread(map_fd, map, map_bytes, map_start) < 0)
		die("map");
	end();
	programs++;
	look_at_log();
	if (stuck[0])
		trouble(stuck);
	if (programs % 16 == 0)
		usleep(several ? 1000 : 100000);	/* namespaces go */
	if (programs % LEAKS == 0)
		look_for_leaks();
}

/* Is there code in map[] that was not reached before? fresh[] is that. */
static bool new_code(void)
{
	bool any = false;
	unsigned long i;

	for (i = 0; i < map_bytes / 8; i++) {
		fresh[i] = map[i] & ~known[i];
		any |= fresh[i];
	}
	return any;
}

static bool has_fresh(void)
{
	unsigned long i;

	for (i = 0; i < map_bytes / 8; i++)
		if (fresh[i] & ~map[i])
			return false;
	return true;
}

/* Keep a program that reached new code; shorten: without the operations that this can do without */
static void keep(struct program *p, bool shorten)
{
	char text[SLOT];
	struct program less;
	unsigned long i;
	FILE *file;

	for (i = 0; i < map_bytes / 8; i++) {
		known[i] |= fresh[i];
		reached += __builtin_popcountll(fresh[i]);
	}
	for (i = p->len; shorten && i-- && p->len > 1;) {
		less = *p;
		leave_out(&less, i);
		carry_out(&less);
		if (has_fresh())
			*p = less;
	}
	add(p);
	file = fopen("/run/job/found", "a");
	if (!file)
		die("found");
	print(p, text, sizeof(text));
	fputs(text, file);
	fclose(file);
}

static void report(void)
{
	FILE *file = fopen("/run/job/progress", "a");
	unsigned int i;

	if (!file)
		die("progress");
	fprintf(file, "{\"programs\": %lu, \"corpus\": %u, \"reached\": %lu, \"ops\": {", programs,
		ncorpus, reached);
	for (i = 0; i < nops; i++)
		fprintf(file, "%s\"%s\": [%u, %u]", i ? ", " : "", ops[i].name, ops[i].done,
			ops[i].refused);
	fprintf(file, "}}\n");
	fclose(file);
}

int main(int argc, char **argv)
{
	bool replay = false;
	struct program p;
	unsigned int i, n;

	if (argc < 5)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	map_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	map_start = strtoul(argv[3], NULL, 10);
	map_bytes = strtoul(argv[4], NULL, 10);
	for (i = 5; i < (unsigned int)argc; i++) {
		several |= !strcmp(argv[i], "several");
		replay |= !strcmp(argv[i], "replay");
	}
	if (map_bytes > MAP_MAX || map_bytes % 8)
		return 2;
	log_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ring_fd = open("/run/job/ring", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (log_fd < 0 || ring_fd < 0)
		die("begin");
	lseek(log_fd, 0, SEEK_END);
	load("/run/job/corpus");
	n = ncorpus;
	ncorpus = 0;
	for (i = 0; i < n; i++) {
		p = corpus[i];
		carry_out(&p);
		if (several || map_fd < 0)
			add(&p);
		else if (new_code())
			keep(&p, false);
	}
	if (!replay)
		look_for_leaks();	/* at the end, if that is here */
	while (!replay && access("/run/job/stop", F_OK)) {
		make_up(&p);
		carry_out(&p);
		if (!several && new_code())
			keep(&p, true);
		if (programs % 64 == 0)
			report();
	}
	look_for_leaks();
	look_at_log();
	report();
	return 0;
}

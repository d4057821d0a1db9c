// SPDX-License-Identifier: GPL-2.0
/* The first and only process of a guest of another architecture: does what /job says.
 *
 *	run WORDS...			a program; its output stays on the console
 *	write PATH WORDS...		a line into a file
 *	show PATH			the first bytes of a file
 *	load NAME SETTLE WINDOW PRIO...	UDP through the device d0 for SETTLE + WINDOW ms, from a
 *					socket for each PRIO, as much as they take up to a
 *					packet a ms each; the mark of the n-th is n
 *
 * After each line it prints "RC n", or "LOAD name ns bytes", what d0 has sent in WINDOW; at the
 * end the kernel's log, and END. There is one CPU, and its instructions are the time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS	64
#define BUFFER	40000	/* bytes of memory of a socket */
#define BURST	4	/* datagrams of a socket per ms, at most */
#define SENT	"/sys/class/net/d0/statistics/tx_bytes"

static void fail(const char *what)
{
	perror(what);
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

static uint64_t sent(void)
{
	FILE *file = fopen(SENT, "r");
	uint64_t bytes;

	if (!file || fscanf(file, "%" SCNu64, &bytes) != 1)
		fail(SENT);
	fclose(file);
	return bytes;
}

static void run(char **words)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		execv(words[0], words);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		fail("fork");
	printf("\nRC %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void write_line(char **words)
{
	FILE *file = fopen(words[0], "w");
	int i, err;

	if (!file)
		fail(words[0]);
	for (i = 1; words[i]; i++)
		fprintf(file, "%s%s", i > 1 ? " " : "", words[i]);
	fputc('\n', file);
	err = fclose(file);
	printf("\nRC %d\n", err);
}

static void show(const char *path)
{
	static char text[400];
	FILE *file = fopen(path, "r");
	size_t got;

	if (!file)
		fail(path);
	got = fread(text, 1, sizeof(text), file);
	fclose(file);
	printf("%.*s\nRC 0\n", (int)got, text);
}

static int open_socket(int mark, int priority)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = BUFFER;

	inet_pton(AF_INET, "10.0.0.2", &to.sin_addr);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) ||
	    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("socket");
	return fd;
}

static void load(int count, char **words)
{
	uint64_t settle = atoi(words[1]) * UINT64_C(1000000), begin, bytes, end;
	uint64_t window = atoi(words[2]) * UINT64_C(1000000);
	struct timespec tick = { .tv_nsec = 1000000 };
	static char data[1400];
	int fds[WORDS], i, j;

	for (i = 3; i < count; i++)
		fds[i] = open_socket(i - 2, strtol(words[i], NULL, 0));
	begin = now() + settle;
	bytes = 0;
	while ((end = now()) < begin + window) {
		if (!bytes && end >= begin) {
			bytes = sent();
			begin = end;
		}
		/* As much as fits: cake drops of what does not respond */
		for (i = 3; i < count; i++)
			for (j = 0; j < BURST; j++)
				send(fds[i], data, sizeof(data), MSG_DONTWAIT);
		nanosleep(&tick, NULL);
	}
	bytes = sent() - bytes;
	end = now();
	for (i = 3; i < count; i++)
		close(fds[i]);
	printf("LOAD %s %" PRIu64 " %" PRIu64 "\n", words[0], end - begin, bytes);
}

int main(void)
{
	static char line[4096], log[1 << 20];
	char *words[WORDS];
	FILE *job;
	int count;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	job = fopen("/job", "r");
	if (!job)
		fail("/job");
	while (fgets(line, sizeof(line), job)) {
		for (count = 0; count < WORDS - 1; count++) {
			words[count] = strtok(count ? NULL : line, " \n");
			if (!words[count])
				break;
		}
		words[count] = NULL;
		if (count > 1 && !strcmp(words[0], "run"))
			run(words + 1);
		else if (count > 2 && !strcmp(words[0], "write"))
			write_line(words + 1);
		else if (count > 1 && !strcmp(words[0], "show"))
			show(words[1]);
		else if (count > 3 && !strcmp(words[0], "load"))
			load(count - 1, words + 1);
		else if (count)
			fail(words[0]);
		fflush(stdout);
	}
	count = klogctl(3, log, sizeof(log) - 1);
	printf("%.*s\nEND\n", count > 0 ? count : 0, log);
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}

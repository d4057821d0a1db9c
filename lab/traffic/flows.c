// SPDX-License-Identifier: GPL-2.0
/* All load of the TCP bed in one process: TCP and UDP flows from a client to a
 * server namespace, and a UDP echo that measures the way there and back.
 *
 * One thread and one epoll loop: under time-travel=inf-cpu code takes no time,
 * so a single process serves both ends of every flow exactly when it should.
 * What reached a TCP receiver the kernel counts; the process empties sockets
 * only now and then, as its system calls are what costs the host most.
 * Nothing here is random, and no loop waits by reading the clock (each read
 * moves the virtual clock by 256 ns).
 *
 *	flows client=NS server=NS addr=A.B.C.D [from=A.B.C.D] warm=US window=US
 *	      [probe=US,port=P,probes=N,step=N,tos=T]
 *	      [tcp=NAME,count=N,port=P,per=N,step=N,tos=T,start=US,stagger=US,
 *	       bin=US,host=N]...
 *	      [udp=NAME,... as tcp,rate=BPS]...
 *
 * All times are microseconds. Flow i of a group has the source port
 * port + i / per * step + i % per, so that the ports say which TX queue it is
 * for. host: sent from the address from + N, unless 0. It starts at
 * start + i * stagger. rate is that of the whole group, as
 * frames on Ethernet without FCS. bin: note what arrived in each so many us,
 * from the start of the group to the end of the window. The window begins warm
 * us after the start. Echo request i goes out i * probe / probes us after the
 * start and every probe us from then on, from source port port + i * step.
 *
 * Prints one JSON object; exits with 1 and a sentence on stderr on an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define NSEC_PER_USEC	UINT64_C(1000)
#define NSEC_PER_SEC	UINT64_C(1000000000)

#define MAX_GROUPS	64
#define MAX_PROBES	64
#define MAX_ECHOES	(1 << 18)
#define SEND_BYTES	(128 << 10)
#define DATAGRAM	1472	/* bytes of payload: a full-size frame */
#define UDP_FRAME	(14 + 20 + 8)	/* bytes of headers around it */
#define READ_BYTES	(32 << 10)	/* what a TCP receiver waits for */
#define UDP_TICK	(100 * NSEC_PER_USEC)
#define BATCH		64	/* datagrams in one system call */

enum { PORT_TCP = 5001, PORT_UDP, PORT_ECHO };

/* A file descriptor in the loop and what to do when it is ready. */
struct source {
	int fd;
	void (*ready)(struct source *s);
};

struct flow {
	struct group *group;
	struct source tx, rx;
	uint64_t bytes;		/* UDP: of payload that arrived */
	uint64_t bytes_warm;	/* of them, and with TCP, before the window */
};

/* Something to do at a time, and again every so many ns unless that is 0. */
struct alarm {
	uint64_t at, every;
	void (*ring)(struct alarm *a);
	void *what;
};

struct group {
	const char *name;
	bool udp;
	uint64_t count, port, per, step, tos, start, stagger, rate, bin, host;
	struct flow *flows;
	uint64_t started;
	uint64_t sent, sent_at;		/* UDP: frames per flow, first time */
	uint64_t binned;		/* bytes that are in bins */
	uint64_t *bins;
	size_t nbins;
};

struct probe {
	struct source socket;
	uint64_t seq, first, last;	/* of requests; echoes in the window */
	uint64_t count;
};

struct echo {
	uint64_t sent, seq;
	char padding[48];
};

static struct group groups[MAX_GROUPS];
static int ngroups;
static struct flow *by_port[65536];
static struct alarm alarms[3 * MAX_GROUPS + MAX_PROBES + 2];
static int nalarms;

static const char *client, *server, *address, *own;
static uint64_t warm, window, probe, probe_port, probe_step, probe_tos;
static uint64_t nprobes = 1;

static int loop, timer;
static bool measuring, over;
static uint64_t window_start, window_end;
static char zeros[SEND_BYTES], scratch[SEND_BYTES];

static int sink;		/* all UDP flows end here */
static struct probe probes[MAX_PROBES];
static struct source echo_server;
static uint64_t echoes[MAX_ECHOES];	/* ns, those that came in the window */
static size_t nechoes;
static uint64_t echo_base = UINT64_MAX;	/* ns, the shortest of all */

__attribute__((noreturn, format(printf, 1, 2)))
static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("flows: ", stderr);
	vfprintf(stderr, format, args);
	if (errno)
		fprintf(stderr, ": %s", strerror(errno));
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* --- the loop: sources and alarms --- */

static void watch(struct source *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (epoll_ctl(loop, EPOLL_CTL_ADD, s->fd, &e))
		die("epoll_ctl");
}

static struct alarm *set_alarm(uint64_t at, uint64_t every,
			       void (*ring)(struct alarm *a), void *what)
{
	struct alarm *a = &alarms[nalarms++];

	*a = (struct alarm){ at, every, ring, what };
	return a;
}

static void arm(void)
{
	struct itimerspec when = {};
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < nalarms; i++)
		if (alarms[i].at < next)
			next = alarms[i].at;
	when.it_value.tv_sec = next / NSEC_PER_SEC;
	when.it_value.tv_nsec = next % NSEC_PER_SEC;
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
		die("timerfd_settime");
}

static void on_timer(struct source *s)
{
	uint64_t expirations, t = now();

	if (read(s->fd, &expirations, sizeof(expirations)) < 0)
		return;
	for (int i = 0; i < nalarms; i++) {
		struct alarm *a = &alarms[i];

		if (a->at > t)
			continue;
		a->at = a->every ? a->at + a->every : UINT64_MAX;
		a->ring(a);
	}
	arm();
}

static void run(void)
{
	struct source tick = { .fd = timer, .ready = on_timer };
	struct epoll_event events[256];

	watch(&tick, EPOLLIN);
	arm();
	while (!over) {
		int n = epoll_wait(loop, events, ARRAY_SIZE(events), -1);

		for (int i = 0; i < n; i++) {
			struct source *s = events[i].data.ptr;

			s->ready(s);
		}
	}
}

/* --- sockets --- */

static void enter(const char *netns)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die("network namespace %s", netns);
	close(fd);
}

static struct sockaddr_in at_port(const char *addr, uint64_t port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(port),
	};

	if (addr && !inet_aton(addr, &a.sin_addr)) {
		errno = 0;
		die("%s is no IPv4 address", addr);
	}
	return a;
}

static void set_option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt %d %d", level, name);
}

/* A socket bound to a port of the namespace that the process is in, and to the
 * address own + host unless that is 0.
 */
static int bound(int type, uint64_t port, uint64_t host)
{
	struct sockaddr_in a = at_port(host ? own : NULL, port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(ntohl(a.sin_addr.s_addr) + host);
	if (fd < 0)
		die("socket");
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		die("bind to port %" PRIu64, port);
	return fd;
}

static int connected(int type, uint64_t from, uint64_t host, uint64_t to,
		     int tos)
{
	struct sockaddr_in a = at_port(address, to);
	int fd = bound(type, from, host);

	set_option(fd, IPPROTO_IP, IP_TOS, tos);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		die("connect from port %" PRIu64, from);
	return fd;
}

static void make_nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		die("fcntl");
}

/* What is still queued must not go on after the end: reset on close. */
static void reset_on_close(int fd)
{
	struct linger l = { .l_onoff = 1 };

	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)))
		die("SO_LINGER");
}

/* --- flows --- */

static void on_tcp_writable(struct source *s)
{
	if (send(s->fd, zeros, sizeof(zeros), MSG_NOSIGNAL) < 0 &&
	    errno != EAGAIN)
		die("send");
}

static void on_tcp_readable(struct source *s)
{
	/* MSG_TRUNC: drop the data without copying them */
	ssize_t n = recv(s->fd, NULL, 4 << 20, MSG_TRUNC);

	if (!n)
		errno = 0;
	if (n == 0 || (n < 0 && errno != EAGAIN))
		die("a TCP flow ended early");
}

/* Take what arrived of UDP flows, which nothing waits for. */
static void empty_sink(void)
{
	static struct sockaddr_in from[BATCH];
	static struct mmsghdr messages[BATCH];
	int n;

	do {
		for (int i = 0; i < BATCH; i++)
			messages[i].msg_hdr = (struct msghdr){
				.msg_name = &from[i],
				.msg_namelen = sizeof(from[i]),
			};
		n = recvmmsg(sink, messages, BATCH, MSG_TRUNC, NULL);
		for (int i = 0; i < n; i++) {
			struct flow *f = by_port[ntohs(from[i].sin_port)];

			if (f)
				f->bytes += DATAGRAM;
		}
	} while (n == BATCH);
}

static void get_tcp_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len))
		die("TCP_INFO");
}

/* Bytes of payload that arrived so far. */
static uint64_t arrived(const struct flow *f)
{
	struct tcp_info info;

	if (f->group->udp)
		return f->bytes;
	get_tcp_info(f->rx.fd, &info);
	return info.tcpi_bytes_received;
}

/* Send count datagrams; what does not fit is lost. */
static void send_datagrams(int fd, unsigned int count)
{
	static struct iovec datagram = { zeros, DATAGRAM };
	static struct mmsghdr messages[BATCH];

	while (count) {
		unsigned int n = count < BATCH ? count : BATCH;

		for (unsigned int i = 0; i < n; i++)
			messages[i].msg_hdr = (struct msghdr){
				.msg_iov = &datagram, .msg_iovlen = 1,
			};
		if (sendmmsg(fd, messages, n, 0) < 0 && errno != EAGAIN &&
		    errno != ENOBUFS)
			die("sendmmsg");
		count -= n;
	}
}

/* Send what is due of a UDP group, the same number from each flow. */
static void on_udp_tick(struct alarm *a)
{
	struct group *g = a->what;
	double frames = (a->at - g->sent_at) * (g->rate / 8e9) /
			(DATAGRAM + UDP_FRAME);
	uint64_t due = frames / g->count;

	for (uint64_t i = 0; i < g->started; i++)
		send_datagrams(g->flows[i].tx.fd, due - g->sent);
	g->sent = due;
	empty_sink();
}

static void on_bin(struct alarm *a)
{
	struct group *g = a->what;
	uint64_t bytes = 0;

	if (g->udp)
		empty_sink();
	for (uint64_t i = 0; i < g->count; i++)
		bytes += arrived(&g->flows[i]);
	g->bins[g->nbins++] = bytes - g->binned;
	g->binned = bytes;
}

/* Start the next flow of a group; the first one starts its clocks as well. */
static void on_start(struct alarm *a)
{
	struct group *g = a->what;
	uint64_t t = a->at - a->every;
	struct flow *f = &g->flows[g->started++];

	if (g->started == 1) {
		if (g->bin)
			set_alarm(t + g->bin, g->bin, on_bin, g);
		if (g->udp) {
			g->sent_at = t;
			set_alarm(t + UDP_TICK, UDP_TICK, on_udp_tick, g);
		}
	}
	if (!g->udp)
		watch(&f->tx, EPOLLOUT);
	if (g->started == g->count)
		a->at = UINT64_MAX;
}

static void open_flow(struct group *g, uint64_t i, int listener)
{
	uint64_t port = g->port + i / g->per * g->step + i % g->per;
	struct flow *f = &g->flows[i];

	if (port > 65535 || by_port[port]) {
		errno = 0;
		die("port %" PRIu64 " of group %s is taken or too high", port,
		    g->name);
	}
	by_port[port] = f;
	f->group = g;
	if (g->udp) {
		f->tx.fd = connected(SOCK_DGRAM, port, g->host, PORT_UDP, g->tos);
	} else {
		f->tx.fd = connected(SOCK_STREAM, port, g->host, PORT_TCP,
				     g->tos);
		f->rx.fd = accept(listener, NULL, NULL);
		if (f->rx.fd < 0)
			die("accept");
		make_nonblocking(f->rx.fd);
		set_option(f->rx.fd, SOL_SOCKET, SO_RCVLOWAT, READ_BYTES);
		reset_on_close(f->rx.fd);
		reset_on_close(f->tx.fd);
		f->tx.ready = on_tcp_writable;
		f->rx.ready = on_tcp_readable;
		watch(&f->rx, EPOLLIN);
	}
	make_nonblocking(f->tx.fd);
}

/* --- the echo --- */

static void on_probe(struct alarm *a)
{
	struct probe *p = a->what;
	struct echo e = { .seq = p->seq++ };

	e.sent = now();
	send(p->socket.fd, &e, sizeof(e), 0);
}

static void on_echo_server(struct source *s)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n = recvfrom(s->fd, scratch, sizeof(scratch), 0,
			     (struct sockaddr *)&from, &len);

	if (n > 0)
		sendto(s->fd, scratch, n, 0, (struct sockaddr *)&from, len);
}

static void on_echo(struct source *s)
{
	struct probe *p = (struct probe *)s;	/* its first member */
	struct echo e;
	uint64_t took;

	if (recv(s->fd, &e, sizeof(e), 0) != sizeof(e))
		return;
	took = now() - e.sent;
	if (took < echo_base)
		echo_base = took;
	if (!measuring)
		return;
	if (nechoes == MAX_ECHOES) {
		errno = 0;
		die("more than %d echoes", MAX_ECHOES);
	}
	if (!p->count++)
		p->first = e.seq;
	p->last = e.seq;
	echoes[nechoes++] = took;
}

/* --- phases --- */

static void on_warm(struct alarm *a)
{
	(void)a;
	empty_sink();
	for (struct group *g = groups; g < groups + ngroups; g++)
		for (uint64_t i = 0; i < g->count; i++)
			g->flows[i].bytes_warm = arrived(&g->flows[i]);
	window_start = now();
	measuring = true;
}

static void on_end(struct alarm *a)
{
	(void)a;
	empty_sink();
	window_end = now();
	over = true;
}

static void set_up(void)
{
	struct rlimit files = { 65536, 65536 };
	int listener;
	uint64_t t;

	setrlimit(RLIMIT_NOFILE, &files);
	loop = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop < 0 || timer < 0)
		die("epoll or timer");

	enter(server);
	listener = bound(SOCK_STREAM, PORT_TCP, 0);
	if (listen(listener, 4096))
		die("listen");
	sink = bound(SOCK_DGRAM, PORT_UDP, 0);
	set_option(sink, SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20);
	make_nonblocking(sink);
	echo_server = (struct source){ bound(SOCK_DGRAM, PORT_ECHO, 0),
				       on_echo_server };
	make_nonblocking(echo_server.fd);
	watch(&echo_server, EPOLLIN);

	enter(client);
	for (struct group *g = groups; g < groups + ngroups; g++)
		for (uint64_t i = 0; i < g->count; i++)
			open_flow(g, i, listener);
	for (uint64_t i = 0; probe && i < nprobes; i++) {
		struct source *s = &probes[i].socket;

		s->fd = connected(SOCK_DGRAM, probe_port + i * probe_step, 0,
				  PORT_ECHO, probe_tos);
		s->ready = on_echo;
		make_nonblocking(s->fd);
		watch(s, EPOLLIN);
	}

	t = now();
	set_alarm(t + warm, 0, on_warm, NULL);
	set_alarm(t + warm + window, 0, on_end, NULL);
	for (uint64_t i = 0; probe && i < nprobes; i++)
		set_alarm(t + i * probe / nprobes, probe, on_probe,
			  &probes[i]);
	for (struct group *g = groups; g < groups + ngroups; g++)
		set_alarm(t + g->start, g->stagger, on_start, g);
}

/* --- the result --- */

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double above_base(unsigned int permille)
{
	uint64_t took = echoes[(nechoes * permille + 999) / 1000 - !!permille];

	return (took - echo_base) / 1e3;
}

static void print_echo(void)
{
	uint64_t lost = 0;

	for (uint64_t i = 0; i < nprobes; i++)
		if (probes[i].count)
			lost += probes[i].last - probes[i].first + 1 -
				probes[i].count;
	printf("\"echo\": {\"base_us\": %.3f, \"count\": %zu",
	       echo_base / 1e3, nechoes);
	if (nechoes) {
		qsort(echoes, nechoes, sizeof(*echoes), ascending);
		printf(", \"lost\": %" PRIu64 ", \"min_us\": %.3f", lost,
		       above_base(0));
		printf(", \"p50_us\": %.3f, \"p99_us\": %.3f, \"p99.9_us\": %.3f",
		       above_base(500), above_base(990), above_base(999));
		printf(", \"max_us\": %.3f", above_base(1000));
	}
	printf("}, ");
}

static uint64_t retransmissions(const struct group *g)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < g->count; i++) {
		struct tcp_info info;

		get_tcp_info(g->flows[i].tx.fd, &info);
		sum += info.tcpi_total_retrans;
	}
	return sum;
}

static void print_group(const struct group *g)
{
	double factor = 8e9 / (window_end - window_start);
	double sum = 0, squares = 0, least = 0, most = 0;

	for (uint64_t i = 0; i < g->count; i++) {
		const struct flow *f = &g->flows[i];
		double bps = (arrived(f) - f->bytes_warm) * factor;

		sum += bps;
		squares += bps * bps;
		if (!i || bps < least)
			least = bps;
		if (bps > most)
			most = bps;
	}
	printf("{\"name\": \"%s\", \"kind\": \"%s\", \"flows\": %" PRIu64,
	       g->name, g->udp ? "udp" : "tcp", g->count);
	printf(", \"bps\": %.0f, \"min_bps\": %.0f, \"max_bps\": %.0f",
	       sum, least, most);
	printf(", \"jain\": %.5f",
	       squares > 0 ? sum * sum / (g->count * squares) : 0);
	if (g->udp)
		printf(", \"frames_bps\": %.0f",
		       sum * (DATAGRAM + UDP_FRAME) / DATAGRAM);
	else
		printf(", \"retransmissions\": %" PRIu64, retransmissions(g));
	if (g->bin) {
		printf(", \"bin_us\": %" PRIu64 ", \"bin_bytes\": [",
		       g->bin / NSEC_PER_USEC);
		for (size_t i = 0; i < g->nbins; i++)
			printf("%s%" PRIu64, i ? ", " : "", g->bins[i]);
		putchar(']');
	}
	putchar('}');
}

static void print_result(void)
{
	putchar('{');
	if (probe)
		print_echo();
	printf("\"groups\": [");
	for (int i = 0; i < ngroups; i++) {
		if (i)
			printf(", ");
		print_group(&groups[i]);
	}
	printf("]}\n");
	if (fflush(stdout))
		die("stdout");
}

/* --- arguments --- */

struct option {
	const char *key;
	uint64_t *value;
	uint64_t unit;
};

/* Read "key=value,..." into options. */
static void read_options(char *text, const struct option *options, int count)
{
	char *save, *word, *end;

	for (word = strtok_r(text, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		char *value = strchr(word, '=');
		int i = 0;

		if (!value)
			die("'%s' is not key=value", word);
		*value++ = '\0';
		while (i < count && strcmp(options[i].key, word))
			i++;
		if (i == count)
			die("there is no option '%s'", word);
		*options[i].value = strtoull(value, &end, 0) * options[i].unit;
		if (end == value || *end)
			die("'%s' of %s is no number", value, word);
	}
}

static void read_group(char *text, bool udp)
{
	struct group *g = &groups[ngroups++];
	struct option options[] = {
		{ "count", &g->count, 1 },
		{ "port", &g->port, 1 },
		{ "per", &g->per, 1 },
		{ "step", &g->step, 1 },
		{ "tos", &g->tos, 1 },
		{ "start", &g->start, NSEC_PER_USEC },
		{ "stagger", &g->stagger, NSEC_PER_USEC },
		{ "bin", &g->bin, NSEC_PER_USEC },
		{ "host", &g->host, 1 },
		{ "rate", &g->rate, 1 },
	};
	char *rest;

	if (ngroups == MAX_GROUPS)
		die("more than %d groups", MAX_GROUPS - 1);
	g->name = strtok_r(text, ",", &rest);
	*g = (struct group){ .name = g->name, .udp = udp, .count = 1,
			     .per = 1, .step = 1,
			     .stagger = 300 * NSEC_PER_USEC };
	read_options(rest, options, ARRAY_SIZE(options));
	if (!g->name || !g->port || !g->count || !g->per || !g->stagger)
		die("a group needs name, port, count, per and stagger");
	if (udp && !g->rate)
		die("the UDP group %s needs a rate", g->name);
}

static void read_arguments(int argc, char **argv)
{
	struct option times[] = {
		{ "warm", &warm, NSEC_PER_USEC },
		{ "window", &window, NSEC_PER_USEC },
		{ "probe", &probe, NSEC_PER_USEC },
		{ "port", &probe_port, 1 },
		{ "probes", &nprobes, 1 },
		{ "step", &probe_step, 1 },
		{ "tos", &probe_tos, 1 },
	};

	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "client=", 7))
			client = argv[i] + 7;
		else if (!strncmp(argv[i], "server=", 7))
			server = argv[i] + 7;
		else if (!strncmp(argv[i], "addr=", 5))
			address = argv[i] + 5;
		else if (!strncmp(argv[i], "from=", 5))
			own = argv[i] + 5;
		else if (!strncmp(argv[i], "tcp=", 4))
			read_group(argv[i] + 4, false);
		else if (!strncmp(argv[i], "udp=", 4))
			read_group(argv[i] + 4, true);
		else
			read_options(argv[i], times, ARRAY_SIZE(times));
	}
	if (!client || !server || !address || !window)
		die("client, server, addr and window are needed");
	if (!nprobes || nprobes > MAX_PROBES)
		die("probes must be 1 to %d", MAX_PROBES);
	for (struct group *g = groups; g < groups + ngroups; g++) {
		uint64_t length = warm + window;

		if (g->host && !own)
			die("a group with a host needs from");

		g->flows = calloc(g->count, sizeof(*g->flows));
		if (g->bin && g->start < length)
			g->bins = calloc((length - g->start) / g->bin + 2,
					 sizeof(*g->bins));
		if (!g->flows || (g->bin && !g->bins))
			die("no memory, or bins after the end");
	}
}

int main(int argc, char **argv)
{
	errno = 0;
	read_arguments(argc, argv);
	set_up();
	run();
	print_result();
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/* The operations of make syz: requests of rtnetlink, and packets.
 *
 * An operation has a few small numbers as arguments. What they stand for, tables here say; what
 * a request is about depends on what is there, as far as the requests that were accepted tell:
 * "class" with any numbers finds an htb, and a parent in it, if there is one. So most requests
 * are accepted, and those of a program still make sense when others are left out.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/gen_stats.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "syz.h"

#define SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define DEVICES 3	/* a dummy, and two ends of a veth */
#define QUEUES 8	/* that have children, of a device */
#define ROOT QUEUES	/* as a number of a queue: the qdisc at the root */
#define MINORS 8	/* classes of an htb: 1 to 8 */
#define SENDERS 2	/* threads, beside what a program does, with several CPUs */
#define ALL 15U		/* as an argument of "fail": each allocation in turn */

enum kind { NONE, MQ, MQPRIO, CAKE_MQ, CAKE, TBF, HTB, PFIFO, BFIFO, FQ_CODEL, PRIO, NETEM,
	    NOQUEUE };
static const char *const names[] = { "", "mq", "mqprio", "cake_mq", "cake", "tbf", "htb",
	"pfifo", "bfifo", "fq_codel", "prio", "netem", "noqueue" };
static const enum kind roots[] = { MQ, MQ, MQ, MQPRIO, MQPRIO, CAKE_MQ, CAKE_MQ, CAKE, TBF, HTB,
	PFIFO, FQ_CODEL, PRIO, NOQUEUE, MQ, MQ };
static const enum kind children[] = { CAKE, CAKE, CAKE, TBF, TBF, HTB, HTB, HTB, HTB, FQ_CODEL,
	PFIFO, PRIO, NETEM, CAKE_MQ, MQ, TBF };
static const enum kind leaves[] = { PFIFO, BFIFO, FQ_CODEL, CAKE, TBF, HTB, PRIO, NETEM };
#define UNLIMITED (~0ULL - 1)
static const uint64_t rates[] = {	/* bytes/s; 0: see rate_or() */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2500000, UNLIMITED, 12500, 125000, 625000, 1250000,
	12500000, 125000000, 1250000000, 12500000000, 50000000000, 64, 125, 1, 1ULL << 32,
	(1ULL << 32) - 1, 1ULL << 40, ~0ULL };
static const unsigned int groups[] = { ~0U, 1, 1, 1, 1, 2, 3, 0 };	/* ~0: not given */
static const uint32_t bursts[] = { 3000, 15000, 15000, 1000000, 1514, 100, ~0U, 1U << 31 };
static const int overheads[] = { 0, 20, -20, 64 };
static const unsigned int sizes[] = { 0, 20, 100, 300, 600, 1000, 1400, 1460 };
static const unsigned int counts[] = { 1, 2, 4, 8, 16, 32, 64, 250 };
static const unsigned int queues[] = { 4, 1, 2, 3, 8, 16, 64, 4 };
/* As arguments of a request about what need not be there: NLM_F_* */
enum verb { DELETE = 0, CHANGE = NLM_F_REPLACE, REPLACE = NLM_F_CREATE | NLM_F_REPLACE,
	    ADD = NLM_F_CREATE | NLM_F_EXCL };
static const enum verb verbs[] = { REPLACE, REPLACE, REPLACE, ADD, ADD, CHANGE, CHANGE, DELETE };

bool several;
char stuck[200];
#define EACH ~0U
static unsigned int failing;	/* see "fail" */
static bool spoilt;		/* the namespace is not as it was at the beginning */
static bool estimate;		/* the next qdisc has an estimator */
static int rtnl = -1, packet = -1, nth = -1, preset = -1;

static struct qdisc {
	enum kind kind;
	unsigned int major;
	bool may_stop;			/* has or had what keeps packets for ever */
	uint8_t parent[MINORS + 1];	/* of each class: 0 none, 255 the qdisc, else a minor */
} qdiscs[DEVICES][QUEUES + 1];
static uint64_t common[4];		/* rates of groups, as far as known: what a tbf says */
static int indices[DEVICES], width[DEVICES];	/* width: queues, QUEUES at most */
static unsigned int wide[DEVICES];		/* all of them */

/* ---------------------------------------------------------------- requests */

static struct {
	struct nlmsghdr head;
	char body[8192];
} msg;

static void *put(const void *data, unsigned int len)
{
	void *at = (char *)&msg + NLMSG_ALIGN(msg.head.nlmsg_len);

	memcpy(at, data, len);
	msg.head.nlmsg_len = NLMSG_ALIGN(msg.head.nlmsg_len) + len;
	return at;
}

static struct rtattr *attr(int type, const void *data, unsigned int len)
{
	struct rtattr head = { .rta_type = type, .rta_len = RTA_LENGTH(len) }, *at;

	at = put(&head, sizeof(head));
	if (len)
		put(data, len);
	return at;
}

static void attr_u32(int type, uint32_t value)
{
	attr(type, &value, sizeof(value));
}

static void attr_u64(int type, uint64_t value)
{
	attr(type, &value, sizeof(value));
}

static struct rtattr *nest(int type)
{
	return attr(type, NULL, 0);
}

static void nested(struct rtattr *at)
{
	msg.head.nlmsg_len = NLMSG_ALIGN(msg.head.nlmsg_len);
	at->rta_len = (char *)&msg + msg.head.nlmsg_len - (char *)at;
}

static void start(int type, int flags, const void *data, unsigned int len)
{
	msg.head = (struct nlmsghdr){ .nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = type,
				      .nlmsg_flags = NLM_F_REQUEST | flags };
	put(data, len);
}

static void start_tc(int type, int flags, int dev, uint32_t handle, uint32_t parent,
		     uint32_t info)
{
	struct tcmsg tcm = { .tcm_family = AF_UNSPEC, .tcm_ifindex = indices[dev],
			     .tcm_handle = handle, .tcm_parent = parent, .tcm_info = info };

	start(type, flags, &tcm, sizeof(tcm));
}

static int talk(void)
{
	static char reply[65536];
	const struct nlmsghdr *head = (void *)reply;
	int got;

	msg.head.nlmsg_flags |= NLM_F_ACK;
	msg.head.nlmsg_seq++;
	if (send(rtnl, &msg, msg.head.nlmsg_len, 0) < 0)
		return -errno;
	/* The kernel has answered by now */
	while ((got = recv(rtnl, reply, sizeof(reply), MSG_DONTWAIT)) > 0)
		if (head->nlmsg_type == NLMSG_ERROR)
			return *(int *)NLMSG_DATA(head);
	return -EIO;	/* carried out, or not; the answer is lost */
}

/* Of a request that has made something new: let that go, so that it can be asked for again */
static void undo(void)
{
	static const int opposite[][2] = { { RTM_NEWQDISC, RTM_DELQDISC },
					   { RTM_NEWTCLASS, RTM_DELTCLASS } };
	struct nlmsghdr head = msg.head;
	unsigned int i;

	for (i = 0; i < SIZE(opposite); i++) {
		if (head.nlmsg_type != opposite[i][0] || !(head.nlmsg_flags & NLM_F_EXCL))
			continue;
		msg.head.nlmsg_type = opposite[i][1];
		msg.head.nlmsg_flags = NLM_F_REQUEST;
		msg.head.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg));
		talk();
	}
	msg.head = head;
}

/* Send what was put together; with allocations that fail, if the program says so */
static int request(void)
{
	unsigned int from = failing == EACH ? 1 : failing, n;
	unsigned int to = failing == EACH ? 100 : failing;
	char text[16];
	bool lost = false;
	int err = 0, got;

	failing = 0;
	if (!from)
		return talk();
	for (n = from; n <= to; n++) {
		snprintf(text, sizeof(text), "%u", n);
		if (pwrite(nth, text, strlen(text), 0) < 0)
			return talk();
		err = talk();
		lost |= err == -EIO || !err;
		got = pread(nth, text, sizeof(text) - 1, 0);
		if (pwrite(nth, "0", 1, 0) < 0 || got <= 0 || text[0] != '0')
			break;
		/* Some can be done without, or only the answer could not be sent: once more */
		if (n < to && (!err || err == -EIO))
			undo();
	}
	if (getenv("SYZ_V"))
		fprintf(stderr, "%u allocations failed\n", n - from);
	while (recv(rtnl, text, sizeof(text), MSG_DONTWAIT) > 0)
		; /* answers to requests that were told to have failed */
	/* It was carried out, if only its answer failed: the next time, it was there already */
	if (msg.head.nlmsg_flags & NLM_F_EXCL)
		lost = err == -EIO;
	return lost ? 0 : err;
}

static void receive_all(void (*see)(const struct nlmsghdr *head))
{
	static char reply[65536];
	const struct nlmsghdr *head;
	int got;

	msg.head.nlmsg_flags |= NLM_F_DUMP;
	if (send(rtnl, &msg, msg.head.nlmsg_len, 0) < 0)
		return;
	while ((got = recv(rtnl, reply, sizeof(reply), MSG_DONTWAIT)) > 0)
		for (head = (void *)reply; NLMSG_OK(head, (unsigned int)got);
		     head = NLMSG_NEXT(head, got)) {
			if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR)
				return;
			if (see)
				see(head);
		}
}

/* ------------------------------------------------------------------ qdiscs */

static uint64_t rate_or(unsigned int number, uint64_t other)
{
	uint64_t rate = rates[number % SIZE(rates)] ?: other;

	return rate == UNLIMITED ? 0 : rate;
}

static uint32_t ticks(uint64_t bytes, uint64_t rate)
{
	uint64_t ns = (unsigned __int128)bytes * 1000000000 / (rate ?: 1);

	return ns >> 6 > ~0U ? ~0U : ns >> 6;
}

static struct tc_ratespec spec(uint64_t rate, unsigned int wire)
{
	return (struct tc_ratespec){
		.rate = rate > ~0U ? ~0U : rate,
		.linklayer = wire / 4 % 4 == 3 ? TC_LINKLAYER_ATM : TC_LINKLAYER_ETHERNET,
		.overhead = overheads[wire % 4], .mpu = wire / 16 % 4 == 3 ? 84 : 0,
	};
}

/* Of cake: an attribute, and the bits of x (0), y (1) or z (2) that say what is in it: 0 that it
 * is not given, else one of values[], or a number from 0 on
 */
static const struct {
	uint8_t type, of, from, bits;
	int32_t values[4];
} cake[] = {
	{ TCA_CAKE_DIFFSERV_MODE, 0, 0, 3 }, { TCA_CAKE_FLOW_MODE, 0, 3, 4 },
	{ TCA_CAKE_NAT, 0, 7, 1, { 0, 1, 0, 1 } }, { TCA_CAKE_ACK_FILTER, 1, 0, 2 },
	{ TCA_CAKE_SPLIT_GSO, 1, 2, 2 }, { TCA_CAKE_INGRESS, 1, 4, 2 }, { TCA_CAKE_WASH, 1, 6, 2 },
	{ TCA_CAKE_MEMORY, 2, 0, 2, { 0, 20000, 4000000, 1 } },
	{ TCA_CAKE_OVERHEAD, 2, 2, 2, { 0, 20, -20, 64 } }, { TCA_CAKE_ATM, 2, 4, 2 },
	{ TCA_CAKE_MPU, 2, 4, 1, { 0, 84, 0, 1 } }, { TCA_CAKE_RTT, 2, 6, 2, { 0, 1, 1000, 300000 } },
	{ TCA_CAKE_AUTORATE, 0, 0, 8 },
};

static void cake_options(uint64_t rate, const uint8_t *xyz)
{
	unsigned int i, v;

	if (rate)
		attr_u64(TCA_CAKE_BASE_RATE64, rate == UNLIMITED ? 0 : rate);
	for (i = 0; i < SIZE(cake); i++) {
		v = xyz[cake[i].of] >> cake[i].from & ((1 << cake[i].bits) - 1);
		if (v && (cake[i].type != TCA_CAKE_AUTORATE || v > 250))
			attr_u32(cake[i].type, cake[i].values[3] ? cake[i].values[v] : (int)v - 1);
	}
}

static void tbf_options(uint64_t rate, unsigned int x, unsigned int y, unsigned int z)
{
	static const uint32_t limits[] = { 100000, 10000, 1000000, 1600 };
	struct tc_tbf_qopt opt = { .rate = spec(rate, z), .limit = limits[x / 8 % 4] };

	opt.buffer = ticks(bursts[x % 8], rate);
	if (y % 16 == 15) {
		opt.peakrate = spec(2 * rate, z);
		opt.mtu = ticks(2000, 2 * rate);
	}
	if (y % 32 != 14)
		attr(TCA_TBF_PARMS, &opt, sizeof(opt));
	attr_u32(TCA_TBF_BURST, bursts[x % 8]);
	if (y % 16 == 15 && y / 16 % 2)
		attr_u32(TCA_TBF_PBURST, bursts[x / 32 % 8]);
	if (rate > ~0U)
		attr_u64(TCA_TBF_RATE64, rate);
}

static void mqprio_options(unsigned int x, unsigned int y)
{
	unsigned int tcs = 1 + x % 4, i, each = 1 + x / 4 % 2;
	struct tc_mqprio_qopt opt = { .num_tc = tcs, .hw = y % 16 == 15 };

	for (i = 0; i < 16; i++)
		opt.prio_tc_map[i] = i % tcs;
	for (i = 0; i < tcs; i++) {
		opt.count[i] = each;
		opt.offset[i] = i * each + (y % 16 == 14);
	}
	put(&opt, sizeof(opt));
}

/* TCA_OPTIONS of a qdisc: what the bits of x, y and z stand for depends on the kind */
static void options(enum kind kind, const uint8_t *arg)
{
	unsigned int group = groups[arg[1] % SIZE(groups)], x = arg[2], y = arg[3], z = arg[4];
	struct tc_htb_glob htb = { .version = 3, .rate2quantum = 10, .defcls = y % 8 };
	struct tc_prio_qopt prio = { .bands = 3, .priomap = { 1, 2, 2, 2, 1, 2, 0, 0 } };
	struct tc_netem_qopt netem = { .latency = 1000000 / 64, .limit = 100 };
	struct tc_fifo_qopt fifo = { .limit = 4 << x % 8 };
	struct rtattr *at = nest(TCA_OPTIONS);

	switch (kind) {
	case CAKE_MQ:
	case CAKE:
		cake_options(rates[arg[0] % SIZE(rates)], arg + 2);
		if (group != ~0U && kind == CAKE)
			attr_u32(TCA_CAKE_SHARED, group);
		break;
	case TBF:
		tbf_options(rate_or(arg[0], group < 4 && common[group] ? common[group] : 2500000),
			    x, y, z);
		if (group != ~0U)
			attr_u32(TCA_TBF_SHARED, group);
		break;
	case HTB:
		attr(TCA_HTB_INIT, &htb, sizeof(htb));
		if (x % 8 == 7)
			attr_u32(TCA_HTB_DIRECT_QLEN, x / 8);
		if (x % 64 == 62)
			attr(TCA_HTB_OFFLOAD, NULL, 0);
		if (x % 64 == 61)
			attr(TCA_HTB_LOCAL, NULL, 0);
		if (group != ~0U)
			attr_u32(TCA_HTB_SHARED, group);
		break;
	case MQPRIO:
		mqprio_options(x, y);
		break;
	case PRIO:
		put(&prio, sizeof(prio));
		break;
	case NETEM:
		put(&netem, sizeof(netem));
		break;
	case BFIFO:
		fifo.limit *= 100;
		/* fall through */
	case PFIFO:
		put(&fifo, sizeof(fifo));
		break;
	default:
		break;
	}
	nested(at);
}

/* Ask for a qdisc; arg: rate, group, x, y, z */
static int ask_qdisc(int dev, uint32_t handle, uint32_t parent, enum verb verb, enum kind kind,
		     const uint8_t *arg)
{
	static const struct tc_estimator estimator = { .interval = -2, .ewma_log = 1 };
	bool plain = kind == MQ || kind == NOQUEUE || kind == FQ_CODEL;

	if (verb == DELETE) {
		start_tc(RTM_DELQDISC, 0, dev, 0, parent, 0);
		return request();
	}
	start_tc(RTM_NEWQDISC, verb, dev, handle, parent, 0);
	attr(TCA_KIND, names[kind], strlen(names[kind]) + 1);
	if (!plain)
		options(kind, arg);
	if (estimate)
		attr(TCA_RATE, &estimator, sizeof(estimator));
	estimate = false;
	return request();
}

static bool multi(const struct qdisc *q)
{
	return q->kind == MQ || q->kind == MQPRIO || q->kind == CAKE_MQ;
}

/* Keep in mind what a request that was accepted has led to */
static void remember(struct qdisc *q, enum verb verb, enum kind kind, unsigned int major,
		     const uint8_t *arg)
{
	bool same = verb != ADD && q->kind == kind && q->major == major;
	unsigned int group = groups[arg[1] % SIZE(groups)];

	if (verb != DELETE && (kind == TBF || kind == CAKE) && group < 4)
		common[group] = rate_or(arg[0], common[group]);
	if (verb == DELETE)
		*q = (struct qdisc){ 0 };
	else if (!same)
		*q = (struct qdisc){ .kind = kind, .major = major };
	/* A burst that packets do not fit into is no burst, of a tbf of its own */
	if (verb != DELETE && (kind == TBF || kind == NETEM || kind == PRIO))
		q->may_stop |= kind != TBF || group + 1 < 2 ||
			       arg[3] % 16 == 15;
}

/* dev verb kind again rate group x y z */
static int do_root(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES, i, err;
	struct qdisc *q = &qdiscs[dev][ROOT];
	enum verb verb = verbs[arg[1] % SIZE(verbs)];
	enum kind kind = verb == CHANGE ? q->kind : roots[arg[2] % SIZE(roots)];
	unsigned int major = q->major ?: 1;

	/* A new one, even of the same kind, has another handle */
	if (q->major && verb != CHANGE && (kind != q->kind || arg[3] % 4))
		major = 3 - major;
	estimate = arg[3] >= 6;
	err = ask_qdisc(dev, major << 16, TC_H_ROOT, verb, kind, arg + 4);
	if (err)
		return err;
	if (verb == DELETE || q->kind != kind || q->major != major)
		for (i = 0; i < QUEUES; i++)
			qdiscs[dev][i] = (struct qdisc){ 0 };
	remember(q, verb, kind, major, arg + 4);
	return 0;
}

static int child(int dev, int queue, enum verb verb, unsigned int number, unsigned int again,
		 const uint8_t *arg)
{
	struct qdisc *q = &qdiscs[dev][queue], *root = &qdiscs[dev][ROOT];
	enum kind kind = verb == CHANGE && q->kind ? q->kind : children[number % SIZE(children)];
	unsigned int major = q->major ?: 0x10U + queue;
	const uint8_t mq[ARGS] = { dev };
	int err;

	/* Mostly below something that has classes */
	if (!multi(root) && root->kind != PRIO && number % SIZE(children) < 13)
		do_root(mq);
	if (q->major && verb != CHANGE && (kind != q->kind || again % 2))
		major ^= 0x30;	/* from 0x10 on, or from 0x20 on */
	if (verb == CHANGE && !q->major)
		major = 0;	/* what its parent has made, such as cake_mq, has no handle */
	estimate = again >= 2;
	err = ask_qdisc(dev, major << 16, root->major << 16 | (queue + 1), verb, kind, arg);
	if (!err && major)
		remember(q, verb, kind, major, arg);
	return err;
}

/* dev queue+verb kind again rate group x y z */
static int do_child(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES;

	return child(dev, arg[1] % QUEUES % width[dev], verbs[arg[1] / QUEUES % SIZE(verbs)],
		     arg[2], arg[3], arg + 4);
}

/* dev queues kind again rate group x y z: the same on many queues */
static int do_fill(const uint8_t *arg)
{
	int i, err = -EINVAL;

	for (i = 0; i < width[arg[0] % DEVICES]; i++)
		if (arg[1] >> i & 1 && !child(arg[0] % DEVICES, i, REPLACE, arg[2], arg[3] % 2,
					      arg + 4))
			err = 0;
	return err;
}

/* dev verb kind again rate group x y z: the same on all queues, of which there may be 64 */
static int do_wide(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES, err = -EINVAL;
	enum verb verb = verbs[arg[1] % SIZE(verbs)];
	enum kind kind = children[arg[2] % SIZE(children)];
	uint32_t major = qdiscs[dev][ROOT].major << 16;
	unsigned int i;

	for (i = 0; i < wide[dev]; i++)
		if (!(i < QUEUES ? child(dev, i, verb, arg[2], arg[3] % 2, arg + 4) :
		      ask_qdisc(dev, (0x100 + 0x40 * kind + i) << 16, major | (i + 1), verb, kind,
				arg + 4)))
			err = 0;
	return err;
}

/* ----------------------------------------------------------- htb's classes */

/* The first htb from a queue on, NULL if there is none */
static struct qdisc *find_htb(int dev, unsigned int queue)
{
	unsigned int i;

	for (i = 0; i <= QUEUES; i++)
		if (qdiscs[dev][(queue + i) % (QUEUES + 1)].kind == HTB)
			return &qdiscs[dev][(queue + i) % (QUEUES + 1)];
	return NULL;
}

/* The same; one is made if there is none */
static struct qdisc *some_htb(int dev, unsigned int queue)
{
	static const uint8_t shared[] = { 0, 1, 0, 2, 0 };

	if (!find_htb(dev, queue))
		child(dev, queue % width[dev], REPLACE, 5, 0, shared);
	return find_htb(dev, queue);
}

/* All qdiscs of a kind may have packets that do not leave within an hour */
static void keeps_packets(int dev, enum kind kind)
{
	int i;

	for (i = 0; i <= QUEUES; i++)
		qdiscs[dev][i].may_stop |= qdiscs[dev][i].kind == kind;
}

/* arg: rate ceil bursts prio wire */
static int class(int dev, struct qdisc *q, enum verb verb, unsigned int minor,
		 unsigned int parent, const uint8_t *arg)
{
	static const uint32_t buffers[] = { 0, 0, 0, 0, 1, 2, 1000000, ~0U };
	uint64_t rate = rate_or(arg[0], 1250000), ceil = rate_or(arg[1], 2 * rate);
	bool top = minor == 1;
	struct tc_htb_opt opt = { .rate = spec(rate, top ? arg[4] : 0),
				  .ceil = spec(ceil, top ? arg[4] : 0),
				  .prio = arg[3] % 8, .quantum = arg[3] / 8 * 500 };
	uint32_t id = q->major << 16 | minor, above;
	struct rtattr *at;
	int err;

	opt.buffer = buffers[arg[2] % 8] ?: ticks(1600 + rate / 250, rate);
	opt.cbuffer = buffers[arg[2] / 8 % 8] ?: ticks(1600 + ceil / 250, ceil);
	if (verb == DELETE && q->parent[minor]) {
		start_tc(RTM_DELTCLASS, 0, dev, id, 0, 0);
		err = request();
		if (!err)
			q->parent[minor] = 0;
		return err;
	}
	/* One that is there keeps its parent; others go below one that is */
	if (q->parent[minor])
		parent = q->parent[minor];
	else if (top || !q->parent[1] || parent == 13)
		parent = 255;
	else if (parent < 13)
		parent = q->parent[parent % MINORS + 1] ? parent % MINORS + 1 : 1;
	above = parent == 255 ? q->major << 16 : q->major << 16 | parent;
	start_tc(RTM_NEWTCLASS, q->parent[minor] ? REPLACE : ADD, dev, id, above, 0);
	attr(TCA_KIND, "htb", 4);
	at = nest(TCA_OPTIONS);
	attr(TCA_HTB_PARMS, &opt, sizeof(opt));
	if (rate > ~0U)
		attr_u64(TCA_HTB_RATE64, rate);
	if (ceil > ~0U)
		attr_u64(TCA_HTB_CEIL64, ceil);
	if (!top && arg[4] % 8 == 7)
		attr(TCA_HTB_LOCAL, NULL, 0);
	if (arg[4] == 62)
		attr_u32(TCA_HTB_SHARED, 1);
	nested(at);
	err = request();
	if (err)
		return err;
	q->parent[minor] = parent;
	/* Long packets of classes that go first take hours then, also on other queues */
	if (rate < 1000 || ceil < 1000)
		keeps_packets(dev, HTB);
	return 0;
}

/* dev queue minor+verb parent rate ceil bursts prio wire */
static int do_class(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES;
	struct qdisc *q = some_htb(dev, arg[1] % (QUEUES + 1));

	return q ? class(dev, q, verbs[arg[2] / MINORS % SIZE(verbs)], arg[2] % MINORS + 1, arg[3],
			 arg + 4) : -ENOENT;
}

/* dev classes minor parent rate ceil bursts prio wire: on the htb of each queue :1 and,
 * below it, one more
 */
static int do_tree(const uint8_t *arg)
{
	static const uint8_t plain[5];
	int dev = arg[0] % DEVICES, i, err = -ENOENT;
	struct qdisc *q;

	for (i = 0; i <= QUEUES; i++) {
		q = &qdiscs[dev][i];
		if (q->kind != HTB)
			continue;
		if (!q->parent[1])
			err = class(dev, q, ADD, 1, 0, plain);
		if (arg[1] >> i % 8 & 1)
			err = class(dev, q, REPLACE, arg[2] % MINORS + 1, arg[3], arg + 4);
	}
	return err;
}

/* dev queue minor+verb kind rate group x y z: below a class; NETEM and TBF may stop it */
static int do_leaf(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES, err;
	struct qdisc *q = some_htb(dev, arg[1] % (QUEUES + 1));
	enum kind kind = leaves[arg[3] % SIZE(leaves)];
	unsigned int minor = arg[2] % MINORS + 1, i;

	if (!q)
		return -ENOENT;
	if (!q->parent[1])
		class(dev, q, ADD, 1, 0, (const uint8_t[5]){ 0 });
	for (i = 0; i < MINORS && !q->parent[minor]; i++)	/* the next that is there */
		minor = minor % MINORS + 1;
	/* A handle for each kind, as one that is there keeps its kind */
	err = ask_qdisc(dev, (0x1000 * kind + 0x100 * dev + 0x10 * (q->major & 0xf) + minor) << 16,
			q->major << 16 | minor, verbs[arg[2] / MINORS % SIZE(verbs)], kind,
			arg + 4);
	if (!err)
		q->may_stop |= kind != PFIFO && kind != BFIFO && kind != FQ_CODEL;
	return err;
}

/* dev queue verb kind rate group x y z: below a tbf, or another qdisc with one class */
static int do_inner(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES, err;
	struct qdisc *q = &qdiscs[dev][arg[1] % (QUEUES + 1)];
	enum kind kind = leaves[arg[3] % SIZE(leaves)];
	unsigned int i;

	for (i = 0; i <= QUEUES && q->kind != TBF; i++)
		q = &qdiscs[dev][(arg[1] + i) % (QUEUES + 1)];
	if (!q->major)
		return -ENOENT;
	err = ask_qdisc(dev, (0x1000 * kind + 0x100 * dev + 0xf0 + (q->major & 0xf)) << 16,
			q->major << 16 | 1, verbs[arg[2] % SIZE(verbs)], kind, arg + 4);
	if (!err)
		q->may_stop |= kind != PFIFO && kind != BFIFO && kind != FQ_CODEL;
	return err;
}

/* dev queue kind prio minor of: send what matches to a class, which has one name here, one with
 * the handle of the root, and one with that of a sibling
 */
static int do_filter(const uint8_t *arg)
{
	static const char *const kinds[] = { "matchall", "basic", "u32", "" };
	int dev = arg[0] % DEVICES, queue = arg[1] % (QUEUES + 1), kind = arg[2] % 4;
	const struct qdisc *q = &qdiscs[dev][queue], *of[] = {
		q, q, &qdiscs[dev][ROOT], &qdiscs[dev][(queue + 1) % QUEUES] };
	uint32_t id = of[arg[5] % 4]->major << 16 | arg[4] % (MINORS + 1);
	struct { struct tc_u32_sel sel; struct tc_u32_key key; } u32 = {
		.sel = { .flags = TC_U32_TERMINAL, .nkeys = 1 },
		.key = { .mask = htonl(0x00800000), .val = htonl(arg[3] & 4 ? 0x00800000 : 0) } };
	uint32_t info = (arg[3] % 4 + 1) << 16 | htons(ETH_P_ALL);
	struct rtattr *at;

	if (q->kind != HTB && q->kind != CAKE && some_htb(dev, queue)) {
		q = find_htb(dev, queue);
		id = (arg[5] % 4 > 1 ? of[arg[5] % 4] : q)->major << 16 | arg[4] % (MINORS + 1);
	}
	if (kind == 3) {
		start_tc(RTM_DELTFILTER, 0, dev, 0, q->major << 16, 0);
		return request();
	}
	start_tc(RTM_NEWTFILTER, NLM_F_CREATE, dev, 0, q->major << 16, info);
	attr(TCA_KIND, kinds[kind], strlen(kinds[kind]) + 1);
	at = nest(TCA_OPTIONS);
	attr_u32(kind == 0 ? (int)TCA_MATCHALL_CLASSID : kind == 1 ? (int)TCA_BASIC_CLASSID :
		 (int)TCA_U32_CLASSID, id);
	if (kind == 2)
		attr(TCA_U32_SEL, &u32, sizeof(u32));
	nested(at);
	return request();
}

/* ------------------------------------------------------------------ devices */

static void link_message(int type, int flags, int index, unsigned int up, unsigned int change)
{
	struct ifinfomsg info = { .ifi_index = index, .ifi_flags = up, .ifi_change = change };

	start(type, flags, &info, sizeof(info));
}

static void link_name(int number, unsigned int n)
{
	char name[] = { 'e', '0' + number, 0 };

	attr(IFLA_IFNAME, name, sizeof(name));
	attr_u32(IFLA_NUM_TX_QUEUES, n);
	attr_u32(IFLA_NUM_RX_QUEUES, n);
}

static void make_device(int dev, unsigned int n)
{
	struct rtattr *info, *data, *peer;
	struct ifinfomsg none = { 0 };
	char name[] = "e0";
	int i, number = dev ? 1 : 0;

	link_message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0, IFF_UP, IFF_UP);
	link_name(number, n);
	info = nest(IFLA_LINKINFO);
	attr(IFLA_INFO_KIND, dev ? "veth" : "dummy", dev ? 4 : 5);
	if (dev) {
		data = nest(IFLA_INFO_DATA);
		peer = nest(VETH_INFO_PEER);
		put(&none, sizeof(none));
		link_name(2, n);
		nested(peer);
		nested(data);
	}
	nested(info);
	talk();
	for (i = number; i <= (dev ? 2 : 0); i++) {
		name[1] = '0' + i;
		indices[i] = if_nametoindex(name);
		width[i] = n < QUEUES ? n : QUEUES;
		wide[i] = n;
		memset(qdiscs[i], 0, sizeof(qdiscs[i]));
		link_message(RTM_NEWLINK, 0, indices[i], IFF_UP, IFF_UP);
		talk();
	}
}

/* dev queues: it goes, with what it has queued, and comes back */
static int do_device(const uint8_t *arg)
{
	int dev = arg[0] % DEVICES, err;

	spoilt = true;
	link_message(RTM_DELLINK, 0, indices[dev], 0, 0);
	err = request();
	make_device(dev, queues[arg[1] % SIZE(queues)]);
	return err;
}

/* dev what value */
static int do_link(const uint8_t *arg)
{
	static const uint32_t mtus[] = { 1500, 100, 9000, 65535 };
	int index = indices[arg[0] % DEVICES], err = 0;

	spoilt = true;
	if (arg[1] % 4 < 2) {
		link_message(RTM_NEWLINK, 0, index, 0, IFF_UP);
		err = request();
	}
	if (arg[1] % 4 == 1)
		return err;
	link_message(RTM_NEWLINK, 0, index, IFF_UP, IFF_UP);
	if (arg[1] % 4 == 2) {
		attr_u32(IFLA_TXQLEN, arg[2] % 4 * 100);
		/* pfifo_fast of 7.3.4 drops what does not fit any more, and still counts it */
		keeps_packets(arg[0] % DEVICES, NONE);
	}
	if (arg[1] % 4 == 3)
		attr_u32(IFLA_MTU, mtus[arg[2] % 4]);
	return request();
}

/* dev tx rx */
static int do_channels(const uint8_t *arg)
{
	struct ethtool_channels ch = { .cmd = ETHTOOL_SCHANNELS, .tx_count = arg[1],
				       .rx_count = arg[2] };
	struct ifreq ifr = { .ifr_data = (void *)&ch };

	spoilt = true;
	ifr.ifr_name[0] = 'e';
	ifr.ifr_name[1] = '1' + arg[0] % 2;
	return ioctl(packet, SIOCETHTOOL, &ifr) ? -errno : 0;
}

/* Which bit of ETHTOOL_SFEATURES is that of hardware for qdiscs? */
static unsigned int offload_bit(struct ifreq *ifr)
{
	static struct {
		struct ethtool_gstrings head;
		char name[256][ETH_GSTRING_LEN];
	} list = { .head = { .cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES } };
	unsigned int i;

	ifr->ifr_data = (void *)&list;
	if (!list.head.len && ioctl(packet, SIOCETHTOOL, ifr))
		return 0;
	for (i = 0; i < list.head.len; i++)
		if (!strcmp(list.name[i], "hw-tc-offload"))
			return i;
	return 0;
}

/* dev on refuse: hardware for tbf, htb and mqprio, and rings that fill up, see lab/series/offload.h */
static int do_offload(const uint8_t *arg)
{
	static const uint32_t every[] = { 0, 0x100, 0x100, 1, 2, 3, 0x105, 0x108 };
	struct {
		struct ethtool_sfeatures head;
		struct ethtool_set_features_block block[2];
	} set = { .head = { .cmd = ETHTOOL_SFEATURES, .size = SIZE(set.block) } };
	int dev = arg[0] % DEVICES, err;
	struct ifreq ifr = { .ifr_name = { 'e', '0' + dev } };
	unsigned int bit = offload_bit(&ifr);

	spoilt = true;
	set.block[bit / 32].valid = 1U << bit % 32;
	set.block[bit / 32].requested = arg[1] % 4 ? 1U << bit % 32 : 0;
	ifr.ifr_data = (void *)&set;
	err = ioctl(packet, SIOCETHTOOL, &ifr) < 0 ? -errno : 0;
	link_message(RTM_NEWLINK, 0, indices[dev], IFF_UP, IFF_UP);
	attr_u32(IFLA_GROUP, every[arg[2] % SIZE(every)]);
	return err ?: request();
}

/* kind: the qdisc of queues that nobody has said anything about, from now on */
static int do_default(const uint8_t *arg)
{
	const char *name = names[arg[0] % SIZE(names)];

	spoilt = true;
	return pwrite(preset, name, strlen(name), 0) < 0 ? -errno : 0;
}

/* ------------------------------------------------------------------ packets */

static unsigned int fill_ip(uint8_t *at, unsigned int proto, unsigned int dscp,
			    unsigned int flow, unsigned int len, bool six)
{
	unsigned int size = six ? 40 : 20;

	len += six ? 0 : size;
	memcpy(at, six ? "\x60\0\0\0\0\0\0\x40\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xfd\0\0\0\0\0\0\0\0\0\0"
			 "\0\0\0\0" : "\x45\0\0\0\0\0\0\0\x40\0\0\0\x0a\0\0\0\x0a\0\0", size);
	at[0] |= six ? dscp >> 2 : 0;
	at[1] = six ? dscp << 6 : dscp << 2;
	at[six ? 4 : 2] = len >> 8;
	at[six ? 5 : 3] = len;
	at[six ? 6 : 9] = proto;
	at[six ? 23 : 15] = 1 + flow % 4;
	at[size - 1] = 1 + flow / 4 % 4;
	return size;
}

enum shape { UDP, TCP, ACK, SACK, GSO, GSO_UDP, UDP6, TCP6, ACK6, GSO6, ARP, NOISE, CUT, SHORT,
	     FRAGMENT, BAD_GSO };

/* A virtio_net_hdr and a frame; its length */
static unsigned int frame(uint8_t *to, enum shape shape, unsigned int flow, unsigned int size,
			  unsigned int dscp, unsigned int count)
{
	bool six = shape >= UDP6 && shape <= GSO6, gso = shape == GSO || shape == GSO6 ||
		   shape == GSO_UDP || shape == BAD_GSO;
	bool udp = shape == UDP || shape == UDP6 || shape == GSO_UDP || shape == FRAGMENT;
	bool ack = shape == ACK || shape == SACK || shape == ACK6;
	unsigned int head = udp ? 8 : shape == SACK ? 44 : shape == ACK ? 32 : 20, i, ip;
	struct virtio_net_hdr *v = (void *)to;
	uint8_t *at = to + sizeof(*v);

	size = gso ? size * 12 : ack ? 0 : size;
	memset(to, 0, sizeof(*v) + 14 + 40 + head + size);
	at[5] = at[11] = 2;
	at[12] = six ? 0x86 : 0x08;
	at[13] = six ? 0xdd : shape == ARP ? 0x06 : 0x00;
	ip = 14 + fill_ip(at + 14, udp ? 17 : 6, dscp, flow, head + size, six);
	at[ip] = flow >> 4;
	at[ip + 1] = flow;
	at[ip + 3] = 80;
	if (udp) {
		at[ip + 4] = (8 + size) >> 8;
		at[ip + 5] = 8 + size;
	} else {
		at[ip + 7] = 1;
		at[ip + 11] = count;	/* what is acknowledged, more each time */
		at[ip + 12] = head / 4 << 4;
		at[ip + 13] = 0x10;
	}
	if (shape == ACK || shape == SACK) {
		memcpy(at + ip + 20, "\1\1\10\12\0\0\0\1\0\0\0\1", 12);
		at[ip + 27] = count;
	}
	if (shape == SACK)
		memcpy(at + ip + 32, "\1\1\5\12\0\0\1\0\0\0\2\0", 12);
	if (gso) {
		v->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		v->gso_type = shape == GSO6 ? VIRTIO_NET_HDR_GSO_TCPV6 : shape == GSO_UDP ?
			      VIRTIO_NET_HDR_GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_TCPV4;
		v->gso_size = shape == BAD_GSO ? 1 + flow * 8 : 1000;
		v->hdr_len = ip + head;
		v->csum_start = ip;
		v->csum_offset = udp ? 6 : 16;
	}
	if (shape == FRAGMENT)
		at[20] = 0x20;
	if (shape == NOISE)
		for (i = 12; i < ip + head + size; i++)
			at[i] = i * (flow + 7) * 2654435761U >> 24;
	if (shape == CUT)
		at[14] = 0x4f;	/* a header that is longer than the packet */
	return sizeof(*v) + (shape == CUT ? 14 + 20 + flow % 24 : shape == SHORT ? 14 + flow % 20 :
			     ip + head + size);
}

/* dev shape flow size dscp prio count spread */
static int do_packets(const uint8_t *arg)
{
	static __thread uint8_t data[32768];
	int dev = arg[0] % DEVICES, prio = arg[5] % 16;
	const struct qdisc *q = &qdiscs[dev][arg[5] % QUEUES];
	unsigned int n = counts[arg[6] % SIZE(counts)], i, flow = arg[2], len, sent = 0;
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = indices[dev],
				  .sll_halen = 6, .sll_protocol = htons(ETH_P_IP) };

	if (arg[1] % 16 >= UDP6 && arg[1] % 16 <= GSO6)
		to.sll_protocol = htons(ETH_P_IPV6);
	if (arg[5] >= 16)	/* a class: of its queue, or by the name at the root */
		prio = (arg[5] & 32 ? qdiscs[dev][ROOT].major : q->major) << 16 |
		       (arg[5] / 64 * 2 + (arg[5] & 1));
	setsockopt(packet, SOL_SOCKET, SO_PRIORITY, &prio, sizeof(prio));
	for (i = 0; i < n; i++) {
		len = frame(data, arg[1] % 16, flow, sizes[arg[3] % SIZE(sizes)], arg[4] % 64, i);
		sent += sendto(packet, data, len, MSG_DONTWAIT, (void *)&to, sizeof(to)) > 0;
		flow += arg[7] % 4;
	}
	return sent ? 0 : -ENOBUFS;
}

/* dev shape queues size dscp gap count class: a while of packets of several queues, or classes */
static int do_stream(const uint8_t *arg)
{
	static const long gaps[] = { 100, 1000, 10000, 30 };	/* us between two rounds */
	struct timespec time = { .tv_nsec = 1000 * gaps[arg[5] % 4] };
	uint8_t one[ARGS] = { arg[0], arg[1], 0, arg[3], arg[4], 0, arg[6] % 3, 0 };
	unsigned int round, i;

	for (round = 0; round < 100; round++) {
		for (i = 0; i < QUEUES; i++) {
			if (!(arg[2] >> i & 1))
				continue;
			one[2] = i;
			one[5] = arg[7] >= 8 ? 16 + 64 * (arg[7] % 4) + i : i;
			do_packets(one);
		}
		nanosleep(&time, NULL);
	}
	return 0;
}

/* -------------------------------------------------------- looking, waiting */

/* how long */
static int do_sleep(const uint8_t *arg)
{
	static const long times[] = { 1, 10, 100, 1000, 5000, 20000, 100000, 1000000 };	/* us */
	long ns = 1000 * times[arg[0] % (several ? 4 : SIZE(times))];
	struct timespec time = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	nanosleep(&time, NULL);
	return 0;
}

/* dev what */
static int do_dump(const uint8_t *arg)
{
	static const int types[] = { RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER, RTM_GETQDISC };
	int dev = arg[0] % DEVICES, what = arg[1] % 4;

	start_tc(types[what], 0, dev, 0, what == 2 ? qdiscs[dev][0].major << 16 : 0, 0);
	if (what == 3) {
		msg.head.nlmsg_type = RTM_GETQDISC;
		((struct tcmsg *)NLMSG_DATA(&msg.head))->tcm_parent = TC_H_ROOT;
		return request();
	}
	receive_all(NULL);
	return 0;
}

/* nth allocation of the next request, ALL: one after the other */
static int do_fail(const uint8_t *arg)
{
	failing = arg[0] == ALL ? EACH : arg[0] + 1;
	return 0;
}

/* The program ends with the namespace, and what is queued in it */
static int do_namespace(const uint8_t *arg)
{
	(void)arg;
	spoilt = true;
	return 0;
}

static struct { unsigned int waiting, done; } shown[DEVICES][QUEUES + 1], before;
static bool busy;

/* Of a qdisc, in a dump: what it has queued, and what has left it */
static void see_queue(const struct nlmsghdr *head)
{
	const struct tcmsg *tcm = NLMSG_DATA(head);
	const struct rtattr *at = TCA_RTA(tcm), *sub;
	int len = TCA_PAYLOAD(head), dev, queue = -1, left;

	for (dev = 0; dev < DEVICES; dev++)
		if (indices[dev] == tcm->tcm_ifindex)
			break;
	if (dev == DEVICES)
		return;
	if (tcm->tcm_parent == TC_H_ROOT)
		queue = ROOT;
	else if (multi(&qdiscs[dev][ROOT]) &&
		 tcm->tcm_parent >> 16 == qdiscs[dev][ROOT].major)
		queue = (tcm->tcm_parent & 0xffff) - 1;
	if (queue < 0 || queue > ROOT || (queue == ROOT && multi(&qdiscs[dev][ROOT])))
		return;
	before.waiting = before.done = 0;
	for (; RTA_OK(at, len); at = RTA_NEXT(at, len)) {
		if (at->rta_type != TCA_STATS2)
			continue;
		left = RTA_PAYLOAD(at);
		for (sub = RTA_DATA(at); RTA_OK(sub, left); sub = RTA_NEXT(sub, left))
			if (sub->rta_type == TCA_STATS_BASIC)
				before.done += ((struct gnet_stats_basic *)RTA_DATA(sub))->packets;
			else if (sub->rta_type == TCA_STATS_QUEUE) {
				before.waiting = ((struct gnet_stats_queue *)RTA_DATA(sub))->qlen;
				before.done += ((struct gnet_stats_queue *)RTA_DATA(sub))->drops;
			}
	}
	busy |= before.waiting;
	if (before.waiting && before.waiting == shown[dev][queue].waiting &&
	    before.done == shown[dev][queue].done && !qdiscs[dev][queue].may_stop && !stuck[0])
		snprintf(stuck, sizeof(stuck), "device e%d, parent %x: %s has had %u packets and "
			 "has sent none for an hour", dev, tcm->tcm_parent,
			 names[qdiscs[dev][queue].kind], before.waiting);
	shown[dev][queue].waiting = before.waiting;
	shown[dev][queue].done = before.done;
}

/* What is queued leaves, in the end: at 512 bit/s a packet takes 24 s, and a long one of several
 * queues that share this rate an hour
 */
static int do_drain(const uint8_t *arg)
{
	static const unsigned int waits[] = { 0, 1, 10, 100, 3600 };
	unsigned int i;

	(void)arg;
	if (several) {
		usleep(5000);	/* in which others send */
		return 0;
	}
	for (i = 0; i < SIZE(waits); i++) {
		sleep(waits[i]);
		if (i < SIZE(waits) - 1)
			memset(shown, 0, sizeof(shown));
		if (i == SIZE(waits) - 1 || i == SIZE(waits) - 2)
			stuck[0] = 0;
		busy = false;
		start_tc(RTM_GETQDISC, 0, 0, 0, 0, 0);
		((struct tcmsg *)NLMSG_DATA(&msg.head))->tcm_ifindex = 0;
		receive_all(see_queue);
		if (!busy)
			return 0;
	}
	return 0;
}

#define PER_QDISC 32, 8, 256, 256, 256
struct op ops[] = {
	{ "root", do_root, 4, 9, { 3, 8, 16, 8, PER_QDISC } },
	{ "child", do_child, 12, 9, { 3, 64, 16, 4, PER_QDISC } },
	{ "fill", do_fill, 4, 9, { 3, 256, 16, 2, PER_QDISC } },
	{ "wide", do_wide, 1, 9, { 3, 8, 16, 2, PER_QDISC } },
	{ "class", do_class, 14, 9, { 3, 9, 64, 16, 32, 32, 64, 256, 64 } },
	{ "tree", do_tree, 5, 9, { 3, 256, 8, 16, 32, 32, 64, 256, 64 } },
	{ "leaf", do_leaf, 4, 9, { 3, 9, 64, 8, PER_QDISC } },
	{ "inner", do_inner, 2, 9, { 3, 9, 8, 8, PER_QDISC } },
	{ "filter", do_filter, 5, 6, { 3, 9, 4, 8, 9, 4 } },
	{ "device", do_device, 1, 2, { 3, 8 } },
	{ "link", do_link, 3, 3, { 3, 4, 4 } },
	{ "channels", do_channels, 2, 3, { 2, 6, 6 } },
	{ "offload", do_offload, 2, 3, { 2, 4, 8 } },
	{ "default", do_default, 1, 1, { 13 } },
	{ "packets", do_packets, 25, 8, { 3, 16, 256, 8, 64, 256, 8, 4 } },
	{ "stream", do_stream, 4, 8, { 3, 16, 256, 8, 64, 4, 3, 16 } },
	{ "sleep", do_sleep, 10, 1, { 8 } },
	{ "dump", do_dump, 4, 2, { 3, 4 } },
	{ "fail", do_fail, 5, 1, { 16 } },
	{ "namespace", do_namespace, 1, 0, { 0 } },
	{ "drain", do_drain, 2, 0, { 0 } },
};
const unsigned int nops = SIZE(ops);

/* ---------------------------------------------------------------- programs */

static void new_namespace(void)
{
	int size = 64 << 20, one = 1;

	if (unshare(CLONE_NEWNET))
		die("unshare");
	rtnl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	packet = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (rtnl < 0 || packet < 0)
		die("socket");
	setsockopt(rtnl, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(packet, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	setsockopt(packet, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one));
	make_device(0, queues[0]);
	make_device(1, queues[0]);
}

void begin(void)
{
	if (nth < 0)
		nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (preset < 0)	/* only the first namespace has it */
		preset = open("/proc/sys/net/core/default_qdisc", O_WRONLY | O_CLOEXEC);
	if (rtnl < 0)
		new_namespace();
	spoilt = false;
	failing = 0;
	stuck[0] = 0;
	memset(qdiscs, 0, sizeof(qdiscs));
	memset(common, 0, sizeof(common));
}

void end(void)
{
	int dev;

	for (dev = 0; dev < DEVICES && !spoilt; dev++) {
		start_tc(RTM_DELQDISC, 0, dev, 0, TC_H_ROOT, 0);
		talk();
	}
	if (!spoilt)
		return;
	if (pwrite(preset, "pfifo_fast", 10, 0) < 0)
		die("default_qdisc");
	close(rtnl);
	close(packet);
	rtnl = packet = -1;
}

static struct program *sending;
static bool over;

/* With several CPUs: the packets of a program, over and over, while the rest of it runs */
static void *sender(void *unused)
{
	const struct step *step;
	unsigned int i;
	bool any;

	(void)unused;
	do {
		any = false;
		for (i = 0; i < sending->len; i++) {
			step = &sending->step[i];
			if (ops[step->op].run != do_packets && ops[step->op].run != do_stream)
				continue;
			ops[step->op].run(step->arg);
			any = true;
		}
	} while (any && !__atomic_load_n(&over, __ATOMIC_RELAXED));
	return NULL;
}

void run(struct program *p)
{
	pthread_t thread[SENDERS];
	struct op *op;
	unsigned int i;
	int err;

	if (several) {
		over = false;
		sending = p;
		for (i = 0; i < SENDERS; i++)
			if (pthread_create(&thread[i], NULL, sender, NULL))
				die("pthread_create");
	}
	for (i = 0; i < p->len; i++) {
		op = &ops[p->step[i].op];
		err = op->run(p->step[i].arg);
		*(err ? &op->refused : &op->done) += 1;
		if (getenv("SYZ_V"))
			fprintf(stderr, "%s: %s\n", op->name, strerror(-err));
	}
	if (several) {
		__atomic_store_n(&over, true, __ATOMIC_RELAXED);
		for (i = 0; i < SENDERS; i++)
			pthread_join(thread[i], NULL);
	}
}

// SPDX-License-Identifier: GPL-2.0
/*
 * hop0: a device with many TX queues that is its own load generator and its own
 * next hop.  Lab use only.
 *
 * One kernel thread per CPU drives streams of packets into the qdiscs of hop0.
 * What the qdiscs let out arrives at ndo_start_xmit, which meters and frees it.
 * /proc/hop takes commands, one a line ("run" blocks until the run is over),
 * and reads as one JSON object.  hop_commands[] is the command language.
 *
 * Times are in ns, sizes in bytes, rates in bytes per second.  Levels of the
 * virtual next hop are in nanobytes: ns * bytes/s is then exact, without any
 * division.
 *
 * Under a virtual clock that moves at each look at it (UML's time-travel), what
 * a thread does between two sleeps happens at one instant: the clock stands
 * still while bottom halves are off.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debug_locks.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/int_log.h>
#include <linux/kthread.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/timerqueue.h>
#include <net/ip.h>
#include <net/sch_generic.h>
#include <net/tcp.h>
#include <net/udp.h>

#define HOP_QUEUES	4096
#define HOP_STREAMS	8192
#define HOP_BINS	100000
#define HOP_LATE	NSEC_PER_MSEC	/* a paced stream forgets what is older */
#define HOP_BATCH	64		/* events between two chances to reschedule */
#define HOP_LINEAR	9216		/* larger packets are made of pages */
#define HOP_REFUSED	BIT(31)		/* of a packet's mark: it was, once */

/* Log-linear histogram: 32 buckets per power of two, 0 .. 2^40 ns. */
#define HIST_BITS	5
#define HIST_SUB	BIT(HIST_BITS)
#define HIST_MAX	40
#define HIST_SIZE	((HIST_MAX - HIST_BITS + 1) * HIST_SUB)

static unsigned int queues = 1;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "Number of TX queues");
static unsigned int unused;
module_param(unused, uint, 0444);
MODULE_PARM_DESC(unused, "Number of TX queues beyond these, which are not in use");
static bool lockdep = true;
module_param(lockdep, bool, 0444);
MODULE_PARM_DESC(lockdep, "0: lockdep looks at nothing any more, until the kernel ends");

enum hop_mode { HOP_PACED, HOP_POISSON, HOP_SATURATE };

static const char * const hop_modes[] = { "paced", "poisson", "saturate" };

/* What the stream command sets; all u64, so that one parser does for all. */
struct hop_conf {
	u64 queue;
	u64 mode;
	u64 rate;	/* bytes/s, not for saturate */
	u64 size;	/* of the frame, with its Ethernet header */
	u64 tos;
	u64 priority;	/* of the skb: a class of htb */
	u64 flows;	/* source ports in turn; 0: each packet a new one */
	u64 src, dst;	/* hosts: 10.1.0.0 + src, 10.2.0.0 + dst */
	u64 start, stop;/* since the start of the run; stop 0: its end */
	u64 on, off;	/* on 0: always on */
	u64 gso;	/* payload of a segment; 0: no GSO */
	u64 depth;	/* saturate: packets kept in the qdisc */
	u64 look;	/* saturate: how soon to retry what did not fill up */
	u64 refuse;	/* till stop, the device refuses each packet once, and is busy so long */
};

struct hop_hist {
	u64 sum, max;
	u32 n[HIST_SIZE];
};

struct hop_worker;

struct hop_stream {
	struct hop_conf c;
	struct hop_worker *worker;
	u32 index;
	atomic_t inflight;	/* skbs that exist */

	/* Of the worker. */
	struct timerqueue_node node;	/* next event */
	u64 frac;		/* of a ns or less, carried to the next gap */
	u64 rng;
	u64 filled;		/* when it was refilled last */
	u64 sent, sent_bytes, refused, nomem;

	/* Refill wanted: set while queued in kicks or in the timer queue. */
	struct llist_node kick;
	unsigned long kicked;

	/* Of the meter. */
	u64 packets, bytes;
	struct hop_hist delay;	/* from before the qdisc to the device */
	struct hop_hist total;	/* with the wait at the next hop */
};

struct hop_worker {
	struct task_struct *task;
	struct timerqueue_head events;
	struct llist_head kicks;
	bool poked;		/* wake up, something changed */
	bool busy;		/* has not yet seen the end of the run */
};

struct hop_level {
	u64 now, max, at;	/* nanobytes, nanobytes, ns since the start */
};

/* What the meter and fault commands set. */
struct hop_meter_conf {
	u64 rate;		/* of the next hop; 0: no levels */
	u64 from;		/* meter from here on, since the start of the run */
	u64 bins;		/* width of a bin; 0: no bins */
	u64 stream;		/* of the second set of bins; HOP_STREAMS: none */
	u64 overhead;		/* added to each segment */
};

struct hop_fault_conf {
	u64 stall, stall_ns;	/* one in stall transmits takes stall_ns longer */
	u64 stopq, stopq_ns;	/* one in stopq stops its queue for stopq_ns */
};

struct hop_queue {
	u64 packets, bytes;
	struct hrtimer wake;
};

static struct {
	spinlock_t lock;	/* all below but the conf, which is set at rest */
	struct hop_meter_conf c;
	struct hop_fault_conf f;
	bool active;
	u64 begin, from, end;	/* of the run, absolute */
	u64 last;		/* when the levels were brought up to date */
	struct hop_level queue, lack;
	u64 packets, bytes, first_at, last_at;
	u64 rng;
	u64 nbins;
	u64 *bin, *stream_bin;
	u64 stalls, stops;
	u64 host_ns;		/* CPU time that the host spent on the run */
} meter = {
	.lock = __SPIN_LOCK_UNLOCKED(meter.lock),
	.c.stream = HOP_STREAMS,
};

static DEFINE_MUTEX(hop_mutex);		/* commands, runs and reading */
static DECLARE_WAIT_QUEUE_HEAD(hop_idle);
static struct net_device *hop_dev;
static struct hop_queue *hop_queue;
static struct hop_stream *hop_stream[HOP_STREAMS];
static u32 hop_streams;			/* in use; those above may have skbs yet */
static struct hop_worker *hop_worker;
static u32 hop_workers;
static u64 hop_seed = 1;
static bool hop_running;
static u64 hop_begin, hop_end;

static u64 hop_random(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* 32 bits have no operator for it */
static u64 hop_rest(u64 number, u64 divisor)
{
	u64 rest;

	div64_u64_rem(number, divisor, &rest);
	return rest;
}

/* ---------------------------------------------------------------- packets */

static void hop_kick(struct hop_stream *s)
{
	struct hop_worker *w = s->worker;

	if (!test_and_set_bit(0, &s->kicked)) {
		llist_add(&s->kick, &w->kicks);
		wake_up_process(w->task);
	}
}

static bool hop_low(const struct hop_stream *s)
{
	return atomic_read(&s->inflight) < s->c.depth;
}

/* An skb of a stream has left the qdisc, one way or the other. */
static void hop_destruct(struct sk_buff *skb)
{
	struct hop_stream *s = skb_shinfo(skb)->destructor_arg;

	atomic_dec(&s->inflight);
	smp_mb__after_atomic();		/* pairs with the one in hop_saturate() */
	if (READ_ONCE(hop_running) && s->c.mode == HOP_SATURATE && !s->c.gso &&
	    hop_low(s))
		hop_kick(s);
}

static struct sk_buff *hop_alloc(u32 head, u32 size)
{
	struct sk_buff *skb;
	int err;

	if (size <= HOP_LINEAR) {
		skb = alloc_skb(NET_SKB_PAD + size, GFP_ATOMIC | __GFP_NOWARN);
		if (!skb)
			return NULL;
		skb_reserve(skb, NET_SKB_PAD);
		skb_put(skb, size);
		return skb;
	}
	skb = alloc_skb_with_frags(NET_SKB_PAD + head, size - head,
				   PAGE_ALLOC_COSTLY_ORDER, &err,
				   GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, NET_SKB_PAD);
	skb_put(skb, head);
	skb->data_len = size - head;
	skb->len = size;
	return skb;
}

static struct sk_buff *hop_skb(struct hop_stream *s)
{
	bool tcp = s->c.gso;
	u32 head = ETH_HLEN + sizeof(struct iphdr) +
		   (tcp ? sizeof(struct tcphdr) : sizeof(struct udphdr));
	u32 size = s->c.size, flow = s->sent, len = size - ETH_HLEN;
	struct sk_buff *skb = hop_alloc(head, size);
	struct ethhdr *eth;
	struct iphdr *ip;

	if (!skb)
		return NULL;
	if (s->c.flows)
		flow = hop_rest(s->sent, s->c.flows);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, ETH_HLEN + sizeof(*ip));

	eth = eth_hdr(skb);
	ether_addr_copy(eth->h_dest, hop_dev->dev_addr);
	ether_addr_copy(eth->h_source, hop_dev->dev_addr);
	eth->h_proto = htons(ETH_P_IP);

	/* A port has 16 bits; what a flow number has more goes to the host. */
	ip = ip_hdr(skb);
	*ip = (struct iphdr) {
		.version = 4, .ihl = 5, .tos = s->c.tos, .ttl = 64,
		.tot_len = htons(len > IP_MAX_MTU ? 0 : len),
		.frag_off = htons(IP_DF),
		.protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP,
		.saddr = htonl(0x0a010000 + s->c.src + (flow >> 16)),
		.daddr = htonl(0x0a020000 + s->c.dst),
	};
	ip_send_check(ip);
	if (tcp) {
		u32 segs = DIV_ROUND_UP(size - head, (u32)s->c.gso);

		*tcp_hdr(skb) = (struct tcphdr) {
			.source = htons(flow), .dest = htons(5001),
			.seq = htonl((u32)s->sent_bytes), .doff = 5, .ack = 1,
			.window = htons(0xffff),
			.check = ~tcp_v4_check(len - sizeof(*ip), ip->saddr,
					       ip->daddr, 0),
		};
		skb->ip_summed = CHECKSUM_PARTIAL;
		skb->csum_start = skb_transport_header(skb) - skb->head;
		skb->csum_offset = offsetof(struct tcphdr, check);
		if (segs > 1) {
			skb_shinfo(skb)->gso_size = s->c.gso;
			skb_shinfo(skb)->gso_segs = segs;
			skb_shinfo(skb)->gso_type = SKB_GSO_TCPV4;
		}
	} else {
		*udp_hdr(skb) = (struct udphdr) {
			.source = htons(flow), .dest = htons(5001),
			.len = htons(len - sizeof(*ip)),
		};
	}

	skb->protocol = htons(ETH_P_IP);
	skb->dev = hop_dev;
	skb->mark = s->index + 1;
	skb->priority = s->c.priority;
	skb_set_queue_mapping(skb, s->c.queue);
	skb->destructor = hop_destruct;
	skb_shinfo(skb)->destructor_arg = s;
	atomic_inc(&s->inflight);
	return skb;
}

/* Hand one packet to the qdisc. */
static bool hop_send(struct hop_stream *s, u64 now)
{
	struct sk_buff *skb = hop_skb(s);

	if (!skb) {
		s->nomem++;
		return false;
	}
	/* Of no meaning to qdiscs but fq, etf and taprio, and past for fq. */
	skb->tstamp = now;
	s->sent++;
	s->sent_bytes += s->c.size;
	if (dev_queue_xmit(skb) != NET_XMIT_SUCCESS)
		s->refused++;
	return true;
}

/* -------------------------------------------------------------- generator */

/* Packets that the stream has in its qdisc. */
static u64 hop_held(const struct hop_stream *s)
{
	struct Qdisc *q;

	if (!s->c.gso)
		return atomic_read(&s->inflight);
	/* A segment that the qdisc makes has no destructor: all packets then. */
	q = rcu_dereference_bh(netdev_get_tx_queue(hop_dev, s->c.queue)->qdisc_sleeping);
	return qdisc_qlen_sum(q);
}

/*
 * Refill when fewer than depth packets are left, which hop_destruct() tells.
 * Returns when to look again, 0 if hop_destruct() will say.  A stream that
 * drains as fast as it is filled, or that is refilled twice at one instant,
 * waits for look, so that time can pass.
 */
static u64 hop_saturate(struct hop_stream *s, u64 now)
{
	u64 high = s->c.depth + s->c.depth / 4 + 1;
	bool again = s->filled == now;
	u64 i;

	s->filled = now;
	for (i = 0; i < high && hop_held(s) < high; i++)
		if (!hop_send(s, now))
			break;
	if (s->c.gso || again || hop_low(s))
		return now + s->c.look;
	clear_bit(0, &s->kicked);
	smp_mb__after_atomic();		/* pairs with the one in hop_destruct() */
	if (hop_low(s) && !test_and_set_bit(0, &s->kicked))
		return now + s->c.look;
	return 0;
}

/* The gap to the next packet of a paced or Poisson stream. */
static u64 hop_gap(struct hop_stream *s)
{
	u64 bits = s->c.size * NSEC_PER_SEC, gap;

	if (s->c.mode == HOP_PACED) {
		gap = div64_u64_rem(bits + s->frac, s->c.rate, &s->frac);
	} else {
		/* -ln of (0, 1], as 16.16: the mean is 1 */
		u32 u = hop_random(&s->rng) >> 32 | 1;
		u64 ln = mul_u64_u64_shr((32ULL << 24) - intlog2(u),
					 2977044472ULL /* ln 2 << 32 */, 40);

		gap = mul_u64_u64_div_u64(bits, ln, s->c.rate) + s->frac;
		s->frac = gap & 0xffff;
		gap >>= 16;
	}
	return gap;
}

/* Do what is due; returns the time of the next event, 0 if there is none. */
static u64 hop_event(struct hop_stream *s, u64 now, u64 due)
{
	u64 since = due - hop_begin, phase;

	if (s->c.stop && since >= s->c.stop)
		return 0;
	if (s->c.on) {
		div64_u64_rem(since - s->c.start, s->c.on + s->c.off, &phase);
		if (phase >= s->c.on)
			return due - phase + s->c.on + s->c.off;
	}
	if (s->c.mode == HOP_SATURATE)
		return hop_saturate(s, now);
	hop_send(s, now);
	due += hop_gap(s);
	return due + HOP_LATE < now ? now : due;
}

static void hop_schedule(struct hop_worker *w, struct hop_stream *s, u64 at)
{
	if (at && at < hop_end) {
		s->node.expires = ns_to_ktime(at);
		timerqueue_add(&w->events, &s->node);
	}
}

/* Do a batch of what is due; returns the next event, 0: more is due, KTIME_MAX: none. */
static ktime_t hop_work(struct hop_worker *w)
{
	struct timerqueue_node *node = NULL;
	struct hop_stream *s, *next;
	struct llist_node *kicks;
	int batch = HOP_BATCH;
	u64 now;

	if (!READ_ONCE(hop_running)) {
		if (w->busy) {
			timerqueue_init_head(&w->events);
			w->busy = false;
			wake_up(&hop_idle);
		}
		return KTIME_MAX;
	}

	local_bh_disable();
	now = ktime_get_ns();
	kicks = llist_reverse_order(llist_del_all(&w->kicks));
	llist_for_each_entry_safe(s, next, kicks, kick)
		hop_schedule(w, s, hop_event(s, now, now));
	while ((node = timerqueue_getnext(&w->events)) &&
	       ktime_to_ns(node->expires) <= now && batch--) {
		s = container_of(node, struct hop_stream, node);
		timerqueue_del(&w->events, node);
		hop_schedule(w, s, hop_event(s, now, ktime_to_ns(node->expires)));
	}
	local_bh_enable();
	if (!node)
		return KTIME_MAX;
	return ktime_to_ns(node->expires) <= now ? 0 : node->expires;
}

static int hop_thread(void *data)
{
	struct hop_worker *w = data;
	ktime_t next;

	while (!kthread_should_stop()) {
		WRITE_ONCE(w->poked, false);
		smp_mb();	/* before hop_work() looks */
		next = hop_work(w);

		set_current_state(TASK_INTERRUPTIBLE);
		if (!READ_ONCE(w->poked) && !kthread_should_stop() &&
		    (llist_empty(&w->kicks) || !READ_ONCE(hop_running)))
			schedule_hrtimeout(next == KTIME_MAX ? NULL : &next, HRTIMER_MODE_ABS);
		__set_current_state(TASK_RUNNING);
		cond_resched();
	}
	return 0;
}

static void hop_poke(void)
{
	u32 i;

	smp_mb();	/* what the caller set, before poked */
	for (i = 0; i < hop_workers; i++) {
		/* pairs with the one in hop_thread() */
		smp_store_mb(hop_worker[i].poked, true);
		wake_up_process(hop_worker[i].task);
	}
}

static bool hop_all_idle(void)
{
	u32 i;

	for (i = 0; i < hop_workers; i++)
		if (READ_ONCE(hop_worker[i].busy))
			return false;
	return true;
}

/* ------------------------------------------------------------------ meter */

static u64 hop_mul(u64 a, u64 b)
{
	u64 r;

	return check_mul_overflow(a, b, &r) ? U64_MAX : r;
}

static u64 hop_add(u64 a, u64 b)
{
	u64 r;

	return check_add_overflow(a, b, &r) ? U64_MAX : r;
}

static void hop_peak(struct hop_level *l, u64 now)
{
	if (l->now > l->max) {
		l->max = l->now;
		l->at = now - meter.begin;
	}
}

/* Let the next hop drain until now. */
static void hop_drain(u64 now)
{
	u64 drained = hop_mul(now - meter.last, meter.c.rate);

	meter.last = now;
	meter.queue.now -= min(meter.queue.now, drained);
	meter.lack.now = hop_add(meter.lack.now, drained);
	hop_peak(&meter.lack, now);
}

static void hop_count(struct hop_hist *h, u64 v)
{
	u32 e = v ? fls64(v) - 1 : 0, i;

	h->sum += v;
	h->max = max(h->max, v);
	if (e < HIST_BITS)
		i = v;
	else if (e < HIST_MAX)
		i = (e - HIST_BITS + 1) * HIST_SUB + ((v >> (e - HIST_BITS)) & (HIST_SUB - 1));
	else
		i = HIST_SIZE - 1;
	h->n[i]++;
}

/* The lowest value of a bucket, and of the one after it for i + 1. */
static u64 hop_bucket(u32 i)
{
	if (i < HIST_SUB)
		return i;
	return (u64)(HIST_SUB + i % HIST_SUB) << (i / HIST_SUB - 1);
}

/* The stream of a packet; what was sent in an earlier run is no stream's of this one. */
static struct hop_stream *hop_stream_of(const struct sk_buff *skb)
{
	u32 number = skb->mark & ~HOP_REFUSED;

	if (!number || number > hop_streams || skb->tstamp < meter.begin)
		return NULL;
	return hop_stream[number - 1];
}

static void hop_meter(struct sk_buff *skb, u32 len, u64 now)
{
	struct hop_queue *q = &hop_queue[skb_get_queue_mapping(skb)];
	struct hop_stream *s = hop_stream_of(skb);
	u64 wait = 0, bin;

	if (meter.c.bins) {
		bin = div64_u64(now - meter.begin, meter.c.bins);
		meter.bin[bin] += len;
		if (s && s->index == meter.c.stream)
			meter.stream_bin[bin] += len;
	}
	if (now < meter.from)
		return;

	if (meter.c.rate) {
		u64 bytes = len * (u64)NSEC_PER_SEC;

		hop_drain(now);
		wait = div64_u64(meter.queue.now, meter.c.rate);
		meter.queue.now = hop_add(meter.queue.now, bytes);
		hop_peak(&meter.queue, now);
		meter.lack.now -= min(meter.lack.now, bytes);
	}
	if (!meter.packets++)
		meter.first_at = now - meter.begin;
	meter.last_at = now - meter.begin;
	meter.bytes += len;
	q->packets++;
	q->bytes += len;
	if (s) {
		u64 delay = now - skb->tstamp;

		s->packets++;
		s->bytes += len;
		hop_count(&s->delay, delay);
		hop_count(&s->total, delay + wait);
	}
}

static void hop_meter_start(u64 begin, u64 end)
{
	spin_lock_bh(&meter.lock);
	meter.begin = begin;
	meter.from = begin + meter.c.from;
	meter.end = end;
	meter.last = meter.from;
	memset(&meter.queue, 0, sizeof(meter.queue));
	memset(&meter.lack, 0, sizeof(meter.lack));
	meter.packets = meter.bytes = meter.first_at = meter.last_at = 0;
	meter.stalls = meter.stops = 0;
	meter.rng = hop_seed;
	meter.active = true;
	spin_unlock_bh(&meter.lock);
}

static void hop_meter_stop(u64 end)
{
	spin_lock_bh(&meter.lock);
	meter.active = false;
	meter.end = min(end, meter.end);
	if (meter.c.rate && meter.end > meter.last)
		hop_drain(meter.end);
	spin_unlock_bh(&meter.lock);
}

/* ----------------------------------------------------------------- device */

static enum hrtimer_restart hop_wake(struct hrtimer *t)
{
	struct hop_queue *q = container_of(t, struct hop_queue, wake);

	netif_tx_wake_queue(netdev_get_tx_queue(hop_dev, q - hop_queue));
	return HRTIMER_NORESTART;
}

static void hop_stop_queue(u32 q, u64 ns)
{
	netif_tx_stop_queue(netdev_get_tx_queue(hop_dev, q));
	hrtimer_start(&hop_queue[q].wake, ns_to_ktime(ns), HRTIMER_MODE_REL);
}

/* How long the device is too busy for a packet, which is requeued then; 0: not at all. */
static u64 hop_refuse(struct sk_buff *skb, u64 now)
{
	const struct hop_stream *s = hop_stream_of(skb);

	if (!s || !s->c.refuse || skb->mark & HOP_REFUSED ||
	    (s->c.stop && now - hop_begin >= s->c.stop))
		return 0;
	skb->mark |= HOP_REFUSED;
	return s->c.refuse;
}

static netdev_tx_t hop_xmit(struct sk_buff *skb, struct net_device *dev)
{
	u32 q = skb_get_queue_mapping(skb), segs = 1, len = skb->len;
	bool stall = false, stop = false, counts;
	u64 now, refuse = 0;

	if (skb_is_gso(skb)) {
		segs = max(1, skb_shinfo(skb)->gso_segs);
		len = qdisc_pkt_len(skb);
	}

	spin_lock(&meter.lock);
	now = ktime_get_ns();
	/* What an earlier run left may come out before this one begins. */
	counts = meter.active && now >= meter.begin && now < meter.end;
	if (counts)
		refuse = hop_refuse(skb, now);
	if (counts && !refuse) {
		hop_meter(skb, len + segs * (u32)meter.c.overhead, now);
		stall = meter.f.stall && !hop_rest(hop_random(&meter.rng), meter.f.stall);
		stop = meter.f.stopq && !hop_rest(hop_random(&meter.rng), meter.f.stopq);
		meter.stalls += stall;
		meter.stops += stop;
	}
	spin_unlock(&meter.lock);

	if (refuse) {
		hop_stop_queue(q, refuse);
		return NETDEV_TX_BUSY;
	}
	dev_sw_netstats_tx_add(dev, segs, len);
	consume_skb(skb);
	if (stop)
		hop_stop_queue(q, meter.f.stopq_ns);
	if (stall)
		udelay(DIV_ROUND_UP((u32)meter.f.stall_ns, NSEC_PER_USEC));
	return NETDEV_TX_OK;
}

static u16 hop_select(struct net_device *dev, struct sk_buff *skb,
		      struct net_device *sb_dev)
{
	return skb_get_queue_mapping(skb);
}

static int hop_open(struct net_device *dev)
{
	netif_tx_start_all_queues(dev);
	return 0;
}

static int hop_stop(struct net_device *dev)
{
	u32 i;

	netif_tx_stop_all_queues(dev);
	for (i = 0; i < queues; i++)
		hrtimer_cancel(&hop_queue[i].wake);
	return 0;
}

static const struct net_device_ops hop_ops = {
	.ndo_open		= hop_open,
	.ndo_stop		= hop_stop,
	.ndo_start_xmit		= hop_xmit,
	.ndo_select_queue	= hop_select,
	.ndo_validate_addr	= eth_validate_addr,
};

static void hop_setup(struct net_device *dev)
{
	ether_setup(dev);
	eth_hw_addr_random(dev);
	dev->netdev_ops = &hop_ops;
	dev->flags |= IFF_NOARP;
	dev->flags &= ~IFF_MULTICAST;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA |
			 NETIF_F_HW_CSUM | NETIF_F_TSO;
	dev->hw_features |= dev->features;
	dev->max_mtu = ETH_MAX_MTU;
	netif_set_tso_max_size(dev, GSO_MAX_SIZE);
	WRITE_ONCE(dev->gso_max_size, GSO_MAX_SIZE);
	WRITE_ONCE(dev->gso_ipv4_max_size, GSO_MAX_SIZE);
}

/* --------------------------------------------------------------- commands */

struct hop_key {
	const char *name;
	u32 offset;
	u64 min, max;
};

#define KEY(type, field, lo, hi) { #field, offsetof(type, field), lo, hi }
#define HOP_FOREVER	(1ULL << 50)	/* ns: 13 days */

static const struct hop_key hop_stream_keys[] = {
	KEY(struct hop_conf, queue, 0, HOP_QUEUES - 1),
	KEY(struct hop_conf, mode, HOP_PACED, HOP_SATURATE),
	KEY(struct hop_conf, rate, 1, 1ULL << 40),
	KEY(struct hop_conf, size, 42, GSO_MAX_SIZE),
	KEY(struct hop_conf, tos, 0, 255),
	KEY(struct hop_conf, priority, 0, U32_MAX),
	KEY(struct hop_conf, flows, 0, U32_MAX),
	KEY(struct hop_conf, src, 0, 0xffff),
	KEY(struct hop_conf, dst, 0, 0xffff),
	KEY(struct hop_conf, start, 0, HOP_FOREVER),
	KEY(struct hop_conf, stop, 0, HOP_FOREVER),
	KEY(struct hop_conf, on, 0, HOP_FOREVER),
	KEY(struct hop_conf, off, 0, HOP_FOREVER),
	KEY(struct hop_conf, gso, 0, U16_MAX),
	KEY(struct hop_conf, depth, 1, 1 << 20),
	KEY(struct hop_conf, look, 500, HOP_FOREVER),
	KEY(struct hop_conf, refuse, 0, HOP_FOREVER),
	{ }
};

static const struct hop_key hop_meter_keys[] = {
	KEY(struct hop_meter_conf, rate, 0, 1ULL << 40),
	KEY(struct hop_meter_conf, from, 0, HOP_FOREVER),
	KEY(struct hop_meter_conf, bins, 0, HOP_FOREVER),
	KEY(struct hop_meter_conf, stream, 0, HOP_STREAMS),
	KEY(struct hop_meter_conf, overhead, 0, U16_MAX),
	{ }
};

static const struct hop_key hop_fault_keys[] = {
	KEY(struct hop_fault_conf, stall, 0, U32_MAX),
	KEY(struct hop_fault_conf, stall_ns, 0, NSEC_PER_MSEC),
	KEY(struct hop_fault_conf, stopq, 0, U32_MAX),
	KEY(struct hop_fault_conf, stopq_ns, 0, HOP_FOREVER),
	{ }
};

/* For commands with a single number: "run ns=5", "seed n=1". */
static const struct hop_key hop_run_keys[] = { { "ns", 0, 1, HOP_FOREVER }, { } };
static const struct hop_key hop_seed_keys[] = { { "n", 0, 1, U64_MAX }, { } };

/* Parse "key=value ..." into a struct of u64. */
static int hop_parse(char *args, const struct hop_key *keys, void *conf)
{
	const struct hop_key *k;
	char *arg, *value = NULL;
	u64 number;
	int mode;

	while ((arg = strsep(&args, " \t"))) {
		if (!*arg)
			continue;
		value = strchr(arg, '=');
		if (!value)
			goto bad;
		*value++ = '\0';
		for (k = keys; k->name && strcmp(k->name, arg); k++)
			;
		if (!k->name)
			goto bad;
		mode = strcmp(arg, "mode") ? -1 :
		       match_string(hop_modes, ARRAY_SIZE(hop_modes), value);
		if (mode >= 0)
			number = mode;
		else if (kstrtou64(value, 0, &number))
			goto bad;
		if (number < k->min || number > k->max)
			goto bad;
		*(u64 *)(conf + k->offset) = number;
	}
	return 0;
bad:
	pr_err("bad argument '%s=%s'\n", arg, value ?: "");
	return -EINVAL;
}

static int hop_cmd_clear(char *args)
{
	hop_streams = 0;
	hop_seed = 1;
	meter.c = (struct hop_meter_conf) { .stream = HOP_STREAMS };
	memset(&meter.f, 0, sizeof(meter.f));
	return 0;
}

static int hop_cmd_stream(char *args)
{
	struct hop_conf c = {
		.queue = U64_MAX, .mode = HOP_PACED, .size = 1514, .flows = 1,
		.src = 1, .dst = U64_MAX, .depth = 64, .look = 20000,
	};
	struct hop_stream *s;

	if (hop_streams == HOP_STREAMS) {
		pr_err("more than %u streams\n", HOP_STREAMS);
		return -EINVAL;
	}
	if (hop_parse(args, hop_stream_keys, &c))
		return -EINVAL;
	if (c.queue >= queues || (c.mode != HOP_SATURATE && !c.rate) ||
	    (c.gso ? c.size <= 54 || c.size > GSO_MAX_SIZE - 1 :
		     c.size > IP_MAX_MTU + ETH_HLEN) ||
	    (c.on && !c.off) || (c.gso && div64_u64(c.size - 54, c.gso) >= U16_MAX)) {
		pr_err("queue %lld, rate %llu, size %llu, gso %llu or on %llu is out of range\n",
		       c.queue, c.rate, c.size, c.gso, c.on);
		return -EINVAL;
	}
	if (c.dst == U64_MAX)
		c.dst = c.queue + 1;

	/* An old stream may have skbs that point to it: keep its counter. */
	s = hop_stream[hop_streams];
	if (!s) {
		s = kvzalloc_obj(*s);
		if (!s)
			return -ENOMEM;
		s->index = hop_streams;
		s->worker = hop_worker;
		hop_stream[hop_streams] = s;
	}
	s->c = c;
	hop_streams++;
	return 0;
}

static int hop_cmd_meter(char *args)
{
	struct hop_meter_conf c = { .stream = HOP_STREAMS };

	if (hop_parse(args, hop_meter_keys, &c))
		return -EINVAL;
	meter.c = c;
	return 0;
}

static int hop_cmd_fault(char *args)
{
	struct hop_fault_conf f = { };

	if (hop_parse(args, hop_fault_keys, &f))
		return -EINVAL;
	meter.f = f;
	return 0;
}

static int hop_cmd_seed(char *args)
{
	return hop_parse(args, hop_seed_keys, &hop_seed);
}

static int hop_bins(u64 ns)
{
	kvfree(meter.bin);
	meter.bin = NULL;
	meter.nbins = 0;
	if (!meter.c.bins)
		return 0;
	meter.nbins = div64_u64(ns - 1, meter.c.bins) + 1;
	if (meter.nbins > HOP_BINS) {
		pr_err("%llu bins are more than %u\n", meter.nbins, HOP_BINS);
		meter.nbins = 0;
		return -EINVAL;
	}
	meter.bin = kvcalloc(2 * meter.nbins, sizeof(u64), GFP_KERNEL);
	if (!meter.bin) {
		meter.nbins = 0;
		return -ENOMEM;
	}
	meter.stream_bin = meter.bin + meter.nbins;
	return 0;
}

static void hop_stream_start(struct hop_stream *s)
{
	s->worker = &hop_worker[hop_rest(s->c.queue, hop_workers)];
	s->frac = 0;
	s->rng = hop_seed ^ (s->index + 1) * 0x9e3779b97f4a7c15ULL ?: 1;
	s->filled = 0;
	s->sent = s->sent_bytes = s->refused = s->nomem = 0;
	s->packets = s->bytes = 0;
	memset(&s->delay, 0, sizeof(s->delay));
	memset(&s->total, 0, sizeof(s->total));
	/* Its first event is in the timer queue, nobody need kick it yet. */
	s->kicked = 1;
	timerqueue_init(&s->node);
	hop_random(&s->rng);
	hop_schedule(s->worker, s, hop_begin + s->c.start);
}

/* The CPU time that the process which this kernel is has had of its host */
static u64 hop_host_time(void)
{
#ifdef CONFIG_UML
	struct __kernel_timespec t = {};
	long ret = __NR_clock_gettime;

	asm volatile("syscall" : "+a" (ret)
		     : "D" (CLOCK_PROCESS_CPUTIME_ID), "S" (&t)
		     : "rcx", "r11", "memory");
	return ret ? 0 : t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
#else
	return 0;
#endif
}

static int hop_cmd_run(char *args)
{
	u64 before = hop_host_time();
	ktime_t end;
	u64 ns = 0;
	int err;
	u32 i;

	if (hop_parse(args, hop_run_keys, &ns))
		return -EINVAL;
	if (!ns || ns <= meter.c.from || !netif_running(hop_dev)) {
		pr_err("nothing to run: ns %llu, meter from %llu, device %s\n", ns,
		       meter.c.from, netif_running(hop_dev) ? "up" : "down");
		return -EINVAL;
	}
	err = hop_bins(ns);
	if (err)
		return err;

	for (i = 0; i < hop_workers; i++)
		init_llist_head(&hop_worker[i].kicks);
	for (i = 0; i < queues; i++)
		hop_queue[i].packets = hop_queue[i].bytes = 0;
	hop_begin = ktime_get_ns() + 10 * NSEC_PER_USEC;
	hop_end = hop_begin + ns;
	for (i = 0; i < hop_streams; i++)
		hop_stream_start(hop_stream[i]);
	hop_meter_start(hop_begin, hop_end);
	for (i = 0; i < hop_workers; i++)
		hop_worker[i].busy = true;
	WRITE_ONCE(hop_running, true);
	hop_poke();

	end = ns_to_ktime(hop_end);
	while (!fatal_signal_pending(current) && ktime_get_ns() < hop_end) {
		set_current_state(TASK_KILLABLE);
		schedule_hrtimeout(&end, HRTIMER_MODE_ABS);
	}
	__set_current_state(TASK_RUNNING);
	hop_meter_stop(ktime_get_ns());
	WRITE_ONCE(hop_running, false);
	hop_poke();
	wait_event(hop_idle, hop_all_idle());
	synchronize_net();	/* nobody is in hop_kick() any more */
	meter.host_ns = hop_host_time() - before;
	return fatal_signal_pending(current) ? -EINTR : 0;
}

static const struct {
	const char *name;
	int (*run)(char *args);
} hop_commands[] = {
	/* back to no streams, meter off, no faults, seed 1 */
	{ "clear", hop_cmd_clear },
	/* add a stream; its number is the count of those before it */
	{ "stream", hop_cmd_stream },
	{ "meter", hop_cmd_meter },
	{ "fault", hop_cmd_fault },
	{ "seed", hop_cmd_seed },
	{ "run", hop_cmd_run },
};

static int hop_command(char *line)
{
	char *args = strim(line), *word = strsep(&args, " \t");
	u32 i;

	if (!*word)
		return 0;
	for (i = 0; i < ARRAY_SIZE(hop_commands); i++)
		if (!strcmp(word, hop_commands[i].name)) {
			int err = hop_commands[i].run(args);

			if (err == -EINVAL)
				pr_err("command '%s' refused\n", word);
			return err;
		}
	pr_err("no command '%s'\n", word);
	return -EINVAL;
}

static ssize_t hop_write(struct file *file, const char __user *from, size_t n,
			 loff_t *pos)
{
	char *text = memdup_user_nul(from, n), *rest = text, *line;
	int err = 0;

	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&hop_mutex);
	while (!err && (line = strsep(&rest, "\n")))
		err = hop_command(line);
	mutex_unlock(&hop_mutex);
	kfree(text);
	return err ?: n;
}

/* ---------------------------------------------------------------- results */

/* Items: 0 the totals, then the queues, the streams, chunks of bins, the end. */
#define CHUNK	128

static u64 hop_items(void)
{
	return 1 + queues + hop_streams + DIV_ROUND_UP(meter.nbins, CHUNK) + 1;
}

static void *hop_seq_start(struct seq_file *m, loff_t *pos)
{
	mutex_lock(&hop_mutex);
	return *pos < hop_items() ? pos : NULL;
}

static void *hop_seq_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return *pos < hop_items() ? pos : NULL;
}

static void hop_seq_stop(struct seq_file *m, void *v)
{
	mutex_unlock(&hop_mutex);
}

static void hop_show_hist(struct seq_file *m, const char *name,
			  const struct hop_hist *h)
{
	const char *comma = "";
	u32 i;

	seq_printf(m, ",\"%s\":{\"sum\":%llu,\"max\":%llu,\"hist\":[", name, h->sum, h->max);
	for (i = 0; i < HIST_SIZE; i++)
		if (h->n[i]) {
			seq_printf(m, "%s[%llu,%llu,%u]", comma, hop_bucket(i),
				   hop_bucket(i + 1), h->n[i]);
			comma = ",";
		}
	seq_puts(m, "]}");
}

static void hop_show_stream(struct seq_file *m, const struct hop_stream *s)
{
	seq_printf(m, "{\"queue\":%llu,\"mode\":\"%s\",\"tos\":%llu,\"sent\":%llu,\"sent_bytes\":%llu,\"refused\":%llu,\"nomem\":%llu,\"inflight\":%d,\"packets\":%llu,\"bytes\":%llu",
		   s->c.queue, hop_modes[s->c.mode], s->c.tos, s->sent, s->sent_bytes,
		   s->refused, s->nomem, atomic_read(&s->inflight), s->packets, s->bytes);
	hop_show_hist(m, "delay", &s->delay);
	hop_show_hist(m, "total", &s->total);
	seq_putc(m, '}');
}

static void hop_show_level(struct seq_file *m, const char *name,
			   const struct hop_level *l)
{
	seq_printf(m, "\"%s\":{\"max_nanobytes\":%llu,\"at\":%llu,\"last_nanobytes\":%llu},",
		   name, l->max, l->at, l->now);
}

static int hop_seq_show(struct seq_file *m, void *v)
{
	u64 item = *(loff_t *)v, i;

	if (!item) {
		seq_printf(m, "{\"clock_now\":%llu,\"begin\":%llu,\"from\":%llu,\"end\":%llu,\"rate\":%llu,\"packets\":%llu,\"bytes\":%llu,\"first\":%llu,\"last\":%llu,\"stalls\":%llu,\"stops\":%llu,\"host_ns\":%llu,",
			   ktime_get_ns(), meter.begin, meter.from, meter.end, meter.c.rate,
			   meter.packets, meter.bytes, meter.first_at, meter.last_at,
			   meter.stalls, meter.stops, meter.host_ns);
		hop_show_level(m, "excess", &meter.queue);
		hop_show_level(m, "shortage", &meter.lack);
		seq_puts(m, "\"queues\":[\n");
		return 0;
	}
	if (--item < queues) {
		seq_printf(m, "%s[%llu,%llu]", item ? "," : "", hop_queue[item].packets,
			   hop_queue[item].bytes);
		return 0;
	}
	item -= queues;
	if (!item)
		seq_puts(m, "],\n\"streams\":[");
	if (item < hop_streams) {
		seq_puts(m, item ? ",\n" : "\n");
		hop_show_stream(m, hop_stream[item]);
		return 0;
	}
	item -= hop_streams;
	if (!item)
		seq_printf(m, "],\n\"bin_ns\":%llu,\"bins\":[", meter.c.bins);
	for (i = item * CHUNK; i < min((item + 1) * CHUNK, meter.nbins); i++)
		seq_printf(m, "%s[%llu,%llu]", i ? "," : "", meter.bin[i], meter.stream_bin[i]);
	if (item * CHUNK >= meter.nbins)
		seq_puts(m, "]}\n");
	return 0;
}

static const struct seq_operations hop_seq_ops = {
	.start	= hop_seq_start,
	.next	= hop_seq_next,
	.stop	= hop_seq_stop,
	.show	= hop_seq_show,
};

static int hop_proc_open(struct inode *inode, struct file *file)
{
	return seq_open(file, &hop_seq_ops);
}

static const struct proc_ops hop_proc_ops = {
	.proc_open	= hop_proc_open,
	.proc_read	= seq_read,
	.proc_write	= hop_write,
	.proc_lseek	= seq_lseek,
	.proc_release	= seq_release,
};

/* ---------------------------------------------------------------- loading */

static int hop_workers_start(void)
{
	u32 cpu;

	hop_worker = kcalloc(num_online_cpus(), sizeof(*hop_worker), GFP_KERNEL);
	if (!hop_worker)
		return -ENOMEM;
	for_each_online_cpu(cpu) {
		struct hop_worker *w = &hop_worker[hop_workers];

		init_llist_head(&w->kicks);
		timerqueue_init_head(&w->events);
		w->task = kthread_create_on_cpu(hop_thread, w, cpu, "hop/%u");
		if (IS_ERR(w->task))
			return PTR_ERR(w->task);
		hop_workers++;
		wake_up_process(w->task);
	}
	return 0;
}

static void hop_workers_stop(void)
{
	u32 i;

	for (i = 0; i < hop_workers; i++)
		kthread_stop(hop_worker[i].task);
	kfree(hop_worker);
}

/* Free the streams once no skb refers to one: one may be in another qdisc. */
static void hop_streams_free(void)
{
	u32 i, waited;

	for (i = 0; i < HOP_STREAMS && hop_stream[i]; i++)
		for (waited = 0; atomic_read(&hop_stream[i]->inflight); waited++) {
			if (waited == 1000)
				pr_warn("stream %u: %d packets are still somewhere\n", i,
					atomic_read(&hop_stream[i]->inflight));
			msleep(20);
		}
	synchronize_net();	/* the last hop_destruct() has returned */
	for (i = 0; i < HOP_STREAMS && hop_stream[i]; i++)
		kvfree(hop_stream[i]);
}

static int __init hop_init(void)
{
	int err;
	u32 i;

	if (!queues || queues > HOP_QUEUES) {
		pr_err("queues=%u: 1 to %u are possible\n", queues, HOP_QUEUES);
		return -EINVAL;
	}
	if (!lockdep)
		debug_locks = 0;
	err = -ENOMEM;
	hop_queue = kvcalloc(queues, sizeof(*hop_queue), GFP_KERNEL);
	if (!hop_queue)
		return err;
	for (i = 0; i < queues; i++)
		hrtimer_setup(&hop_queue[i].wake, hop_wake, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	hop_dev = alloc_netdev_mqs(0, "hop0", NET_NAME_USER, hop_setup, queues + unused, 1);
	if (!hop_dev)
		goto free_queues;
	netif_set_real_num_tx_queues(hop_dev, queues);
	err = hop_workers_start();
	if (err)
		goto stop_workers;
	err = register_netdev(hop_dev);
	if (err)
		goto stop_workers;
	err = -ENOMEM;
	if (!proc_create("hop", 0600, NULL, &hop_proc_ops))
		goto unregister;
	return 0;

unregister:
	unregister_netdev(hop_dev);
stop_workers:
	hop_workers_stop();
	free_netdev(hop_dev);
free_queues:
	kvfree(hop_queue);
	return err;
}
module_init(hop_init);

static void __exit hop_exit(void)
{
	remove_proc_entry("hop", NULL);		/* waits for a run */
	unregister_netdev(hop_dev);		/* hop_stop(), frees what is queued */
	hop_streams_free();
	hop_workers_stop();
	free_netdev(hop_dev);
	kvfree(hop_queue);
	kvfree(meter.bin);
}
module_exit(hop_exit);

MODULE_DESCRIPTION("Load generator and exact next hop for shapers (lab use)");
MODULE_LICENSE("GPL");

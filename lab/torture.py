# SPDX-License-Identifier: GPL-2.0
"""Trees of qdiscs in random order, under traffic: nothing may break, hang or leak.

Usage: torture.py [SEED=n] [SEEDS=n] [OPS=n] [KERNEL=folder] [REPLAY=file]

Each seed is a boot of the patched kernel (lockdep, RCU checks; poisoned and tracked
slabs) under virtual time. The guest carries out OPS operations that follow from the
seed, lines of tc, ip, ethtool and the few words of Guest.run(), while pktgen sends to
all queues of all devices. Operations may be refused; that is counted, not judged.
Judged are

- the kernel log, after each operation;
- that each operation ends, within LIMIT s of virtual time;
- that lockdep is still on at the end;
- what is left when all devices are gone: no call site in JUDGED may own one slab
  object more than before, and no more than SPARE KiB of large allocations and
  memory per CPU may have been added. A tour of all kinds goes ahead of the first
  count, so that what is allocated once and kept does not count.

A seed that fails is shrunk: parts are left out, a boot each, as long as it still
fails. REPLAY=build/guest/torture/failing.txt runs what is left. The last line is
'N passed, N failed', one per seed. SEED: the first (1). SEEDS: how many (4).
"""

import collections
import ctypes
import json
import os
import random
import re
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

from boot import run_script, splats
from common import BUILD, Die, arguments, guard, say
from traffic import pktgen

FOLDER = BUILD / "guest/torture"
FAILING = FOLDER / "failing.txt"
BOOTS = 12  # at most, to shrink a failure
LIMIT = 300  # virtual s for one operation: shapers may be slow, RTNL must not be
HOST_LIMIT = 90  # host s for one boot
SPARE = 512  # KiB

# Beside boot.SPLAT: SLUB's own reports, and lockdep that gives up.
MORE = re.compile(r"BUG \S+ \(|\bBUG: MAX_|turning off the locking"
                  r"|Slab \S+ Err|blocked for more than")
# pktgen says so when a device goes, or has less queues than a stream was set up for.
ALLOWED = (r"pktgen: WARNING: (trying to remove a running|Requested queue_map_m)",)
# Functions that own what must be freed with a tree, its device or its namespace.
JUDGED = re.compile(r"_*(qdisc|cake|tbf|mq|mqprio|rate_group|fq_codel|pfifo|bfifo|fifo|htb"
                    r"|netem|tc|tcf|cls|mall|gen|gnet|attach|alloc_netdev|netif_alloc"
                    r"|nsim|dummy|setup_net|copy_net_ns|net_alloc|pktgen)_")

QUEUES = {"d0": 4, "d1": 3, "e0": 4, "s0": 4}  # e0 is made in the namespace n0
DUMMY = "numtxqueues {} numrxqueues 1 type dummy"

# ------------------------------------------------------------ the operations

SETUP = [
    "sysctl -q net.core.default_qdisc=pfifo_fast",
    "ip netns add n0",
    f"ip link add d0 {DUMMY.format(4)}", "ip link set d0 up", "send d0",
    f"ip link add d1 {DUMMY.format(3)}", "ip link set d1 up", "send d1",
    f"ip link add e0 netns n0 {DUMMY.format(4)}", "ip -n n0 link set e0 up", "send e0 n0",
    "nsim add", "ip link set s0 up", "send s0",
]
CLEANUP = [
    "sysctl -q net.core.default_qdisc=pfifo_fast", "nsim del", "ip link del d0",
    "ip link del d1", "ip netns del n0",
]
MQPRIO = "mqprio num_tc 2 map {} queues 2@0 {}@2 hw 0"
PRIORITIES = " ".join("0" * 8 + "1" * 8)
ROOTS = {  # how often each: a tree, or something that may be in a tree's place
    "mq": 40, "mqprio": 25, "cake_mq": 18, "delete": 8, "noqueue": 3, "cake": 3,
    "fq_codel": 2, "pfifo": 2, "htb": 2,
}
TREES = ("mq", "mqprio", "cake_mq")
CHILDREN = {"cake shared": 40, "tbf shared": 20, "cake": 12, "tbf": 8, "fq_codel": 7,
            "pfifo": 7, "netem": 3, "htb": 2}
REFUSED = (  # each is refused below {parent} of a tree, or at the root
    "parent {parent} tbf rate 1gbit burst 15k limit 1m peakrate 2gbit mtu 2000 shared",
    "parent {parent} cake shared autorate-ingress",
    "parent {parent} cake shared 4294967295",
    "parent {parent} cake_mq",
    "parent {parent} cake bandwidth 1gbit shared wash memlimit 1 rtt 0",
    "root handle 9: cake shared",
    "root handle 9: tbf rate 1gbit burst 15k limit 1m shared",
    "root handle 9: cake_mq shared",
    "root handle 9: mqprio num_tc 2 map 0 1 queues 9@0 9@9 hw 0",
)


def pick(rng, weights):
    """One key of {key: weight}."""
    return rng.choices(list(weights), list(weights.values()))[0]


def cake_words(rng, shared):
    """Options of a cake; any of them may be left out. shared: None for cake_mq."""
    words = []
    if rng.random() < .5:
        words.append(rng.choice(["unlimited", "bandwidth 1gbit", "bandwidth 20mbit",
                                 "bandwidth 5mbit", "bandwidth 100kbit"]))
    if shared:
        words.append(rng.choice(["shared", "shared 1", "shared 2", "shared 3"]))
    elif shared is not None and rng.random() < .5:
        words.append("noshared")
    for chance, choices in (
        (.4, ["diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"]),
        (.1, ["split-gso", "no-split-gso", "ack-filter", "ingress", "nat"]),
        (.1, ["memlimit 20000", "memlimit 4000000"]),
        (.1, ["atm overhead 20", "noatm", "overhead -20", "rtt 1ms"]),
    ):
        if rng.random() < chance:
            words.append(rng.choice(choices))
    return " ".join(words)


def tbf_words(rng, shared):
    """Options of a tbf."""
    rate = rng.choice(["1gbit", "20mbit", "5mbit", "100kbit"])
    words = f"rate {rate} burst {rng.choice(['3k', '15k', '1m'])} limit 100k"
    if shared:
        return f"{words} {rng.choice(['shared', 'shared 2', 'shared 3'])}"
    return words + rng.choice(["", " noshared", " peakrate 2gbit mtu 2000"])


def qdisc_words(rng, kind):
    """Kind and options of a qdisc."""
    name, _, shared = kind.partition(" ")
    options = {
        "cake": lambda: cake_words(rng, bool(shared)),
        "cake_mq": lambda: cake_words(rng, None),
        "tbf": lambda: tbf_words(rng, bool(shared)),
        "pfifo": lambda: f"limit {rng.choice([10, 100])}",
        "netem": lambda: "delay 1ms",
        "htb": lambda: "default 1",
    }.get(name, lambda: "")()
    return f"{name} {options}".strip()


class Plan:
    """Makes operations from a seed; keeps in mind what they should have led to."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.space = {"d0": None, "d1": None, "e0": "n0", "s0": None}
        self.root = dict.fromkeys(QUEUES)  # (kind, major number), None if unknown

    def tool(self, dev, tool):
        """tc or ip for the namespace that a device is in."""
        return f"{tool} -n {self.space[dev]}" if self.space[dev] else tool

    def new_root(self, dev):
        """Put a qdisc at the root, under a new handle as the kinds may differ."""
        old = self.root[dev]
        kind = pick(self.rng, ROOTS)
        start = f"{self.tool(dev, 'tc')} qdisc"
        if kind == "delete":
            self.root[dev] = None
            return [f"{start} del dev {dev} root"]
        major = 3 - old[1] if old else 1
        if old and old[0] == kind and self.rng.random() < .3:
            major = old[1]  # a change, if the kind has that
        self.root[dev] = (kind, major)
        words = qdisc_words(self.rng, kind)
        if kind == "mqprio":
            words = MQPRIO.format(PRIORITIES, QUEUES[dev] - 2)
        verb = "add" if not old and self.rng.random() < .5 else "replace"
        return [f"{start} {verb} dev {dev} root handle {major}: {words}"]

    def tree(self, dev):
        """Whether a device should have a root with a child per queue."""
        return self.root[dev] and self.root[dev][0] in TREES

    def parent(self, dev):
        """A class of the root; the queue that it stands for."""
        queue = self.rng.randrange(QUEUES[dev]) + 1
        return f"{self.root[dev][1]}:{queue}", queue

    def child(self, dev):
        """Add, replace, change or delete the qdisc of a queue."""
        if not self.tree(dev) or self.root[dev][0] == "cake_mq" and self.rng.random() < .7:
            return self.new_root(dev)
        parent, queue = self.parent(dev)
        verb = pick(self.rng, {"replace": 45, "change": 30, "add": 15, "del": 10})
        words = "" if verb == "del" else qdisc_words(self.rng, pick(self.rng, CHILDREN))
        handle = ""
        if verb in ("replace", "add") and self.rng.random() < .6:
            # now and then that of another queue's: one qdisc for two queues
            owner = queue if self.rng.random() < .93 else queue % QUEUES[dev] + 1
            handle = f"handle {owner}0: "
        return [f"{self.tool(dev, 'tc')} qdisc {verb} dev {dev} parent {parent} "
                f"{handle}{words}".strip()]

    def below(self, dev):
        """Something below or beside a child: a grandchild, a filter, its removal."""
        handle = f"{self.rng.randrange(QUEUES[dev]) + 1}0:"
        tc = self.tool(dev, "tc")
        return [self.rng.choice([
            f"{tc} qdisc add dev {dev} parent {handle}1 fq_codel",
            f"{tc} qdisc replace dev {dev} parent {handle}1 cake unlimited",
            f"{tc} qdisc add dev {dev} parent {handle}1 cake shared",
            f"{tc} filter add dev {dev} parent {handle} prio 1 matchall classid {handle}1",
            f"{tc} filter del dev {dev} parent {handle}",
        ])]

    def refusal(self, dev):
        """Ask for what must be refused."""
        parent = self.parent(dev)[0] if self.tree(dev) else "root"
        words = self.rng.choice(REFUSED).replace("parent {parent}", f"parent {parent}")
        return [f"{self.tool(dev, 'tc')} qdisc replace dev {dev} "
                + words.replace("parent root", "root")]

    def look(self, dev):
        """Dump."""
        what = self.rng.choice(["-s qdisc", "-s class", "filter", "-j -s qdisc"])
        return [f"{self.tool(dev, 'tc')} {what} show dev {dev}"]

    def flap(self, dev):
        """The link goes down and, mostly at once, up again."""
        ip = self.tool(dev, "ip")
        ups = [f"{ip} link set {dev} up"]
        between = self.child(dev) if self.rng.random() < .4 else []
        return [f"{ip} link set {dev} down", *between, *ups]

    def channels(self, _):
        """Queues of s0 come into use and go out of it."""
        return [f"ethtool -L s0 combined {self.rng.randrange(4) + 1}"]

    def length(self, dev):
        """Two settings that qdiscs are told of or born with."""
        return [self.rng.choice([
            f"{self.tool(dev, 'ip')} link set {dev} txqueuelen {self.rng.choice([5, 1000])}",
            "sysctl -q net.core.default_qdisc="
            + self.rng.choice(["cake", "fq_codel", "pfifo_fast"]),
        ])]

    def anew(self, dev):
        """A device goes, with all that is on it, and comes back."""
        self.root[dev] = None
        if dev == "s0":
            return ["nsim del", "nsim add", "ip link set s0 up", "send s0"]
        if dev == "e0":
            return self.namespace(dev)
        gone = f"{self.tool(dev, 'ip')} link del {dev}"
        self.space[dev] = None
        first = self.new_root(dev) if self.rng.random() < .5 else []  # while it is down
        return [gone, f"ip link add {dev} {DUMMY.format(QUEUES[dev])}", *first,
                f"ip link set {dev} up", f"send {dev}"]

    def move(self, dev):
        """d1 moves into the namespace, or out of it: its qdiscs go."""
        dev = "d1"
        self.root[dev] = None
        if self.space[dev]:
            self.space[dev] = None
            return ["ip -n n0 link set d1 netns 1", "ip link set d1 up", "send d1"]
        self.space[dev] = "n0"
        return ["ip link set d1 netns n0", "ip -n n0 link set d1 up", "send d1 n0"]

    def namespace(self, _):
        """The namespace goes, with the devices in it and their qdiscs; a new one comes."""
        lines = ["ip netns del n0", "ip netns add n0",
                 f"ip link add e0 netns n0 {DUMMY.format(4)}", "ip -n n0 link set e0 up",
                 "send e0 n0"]
        self.root["e0"] = None
        if self.space["d1"]:
            self.root["d1"] = self.space["d1"] = None
            lines += [f"ip link add d1 {DUMMY.format(3)}", "ip link set d1 up", "send d1"]
        return lines

    def lines(self, count):
        """So many operations."""
        what = {self.child: 62, self.new_root: 10, self.flap: 3, self.look: 5,
                self.refusal: 4, self.below: 5, self.channels: 3, self.length: 2,
                self.anew: 1, self.move: 1, self.namespace: 1}
        lines = []
        while len(lines) < count:
            lines += pick(self.rng, what)(self.rng.choice(["d0", "d0", "d1", "e0", "s0"]))
        return lines[:count]


def tour():
    """Each kind once, on each kind of device, to warm up: not judged but for splats."""
    plan = Plan(0)
    lines = []
    for dev in QUEUES:
        tc = plan.tool(dev, "tc")
        for major, root in enumerate(("mq", MQPRIO.format(PRIORITIES, QUEUES[dev] - 2)), 1):
            lines.append(f"{tc} qdisc replace dev {dev} root handle {major}: {root}")
            lines += [f"{tc} qdisc replace dev {dev} parent {major}:{number % 3 + 1} "
                      + qdisc_words(plan.rng, kind)
                      for number, kind in enumerate(CHILDREN)]
        lines += [f"{tc} qdisc replace dev {dev} root handle 3: cake_mq bandwidth 1gbit",
                  f"{tc} -s qdisc show dev {dev}", f"{tc} -s class show dev {dev}"]
    return [*lines, "ethtool -L s0 combined 2", *Plan(1).lines(60)]


# ---------------------------------------------------------------- guest side

def enter(path):
    """Move this thread into the network namespace of a file."""
    with open(path, "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), path)


def tell_pktgen(space, *commands):
    """Write (file, line) pairs to pktgen's files in a namespace.

    space: its name or a file of it, None for the first one.

    The files act on the namespace of the thread that writes. Whatever the kernel
    refuses is left out: a device may be gone by now.
    """
    def work():
        try:
            if space:
                enter(space if "/" in space else f"/run/netns/{space}")
            for target, line in commands:
                with open(f"/proc/thread-self/net/pktgen/{target}", "w",
                          encoding="ascii") as file:
                    file.write(line)
        except OSError:
            pass

    thread = threading.Thread(target=work, daemon=True)  # and so back out of it
    thread.start()
    thread.join()


def send_on(dev, space):
    """Add two streams, of a priority each, to those that pktgen sends."""
    for number, (priority, tos) in enumerate(((0, "00"), (9, "b8"))):
        stream = f"{dev}@{number}"
        tell_pktgen(space, ("kpktgend_0", f"add_device {stream}"), *(
            (stream, line) for line in (
                "count 0", "min_pkt_size 64", "max_pkt_size 1500", "flag TXSIZE_RND",
                "xmit_mode queue_xmit", "delay 500000", "dst 10.0.0.1",
                "dst_mac 02:00:00:00:00:01", "flag UDPSRC_RND", "udp_src_min 1",
                "udp_src_max 500", f"tos {tos}", f"skb_priority {priority}",
                "queue_map_min 0", f"queue_map_max {QUEUES[dev] - 1}", "flag QUEUE_MAP_RND",
            )))


class Sender(threading.Thread):
    """Runs pktgen in a namespace, again and again: a link that goes down stops it."""

    def __init__(self, space):
        super().__init__(daemon=True)
        self.space = space
        self.quit = False
        self.start()

    def run(self):
        while not self.quit:
            try:
                with open(f"/run/netns/{self.space}" if self.space else
                          "/proc/self/ns/net", "rb") as file:
                    self.round(f"/proc/self/fd/{file.fileno()}")
            except OSError:  # a namespace that is not there
                time.sleep(.05)

    def round(self, space):
        """Send for a while. The file keeps the namespace until the end of it.

        pktgen is stopped from outside: having counted to the end, it would wait for
        its last packet to leave a queue, which takes as long as the qdisc likes.
        """
        timer = threading.Timer(.25, tell_pktgen, (space, ("pgctrl", "stop")))
        timer.start()
        tell_pktgen(space, ("pgctrl", "start"))
        timer.join()

    def stop(self):
        """Forget all streams, when those that are running have sent what they had."""
        self.quit = True
        self.join()
        tell_pktgen(self.space, ("pgctrl", "reset"))


class Log:
    """The kernel log, read on from where the last look ended."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)

    def trouble(self):
        """The first line since the last look that reports trouble, or None."""
        found = None
        while True:
            try:
                line = os.read(self.file, 8192).decode(errors="replace").partition(";")[2]
            except BlockingIOError:
                return found
            except BrokenPipeError:  # lines were overwritten: go on with the oldest
                continue
            line = line.split("\n")[0]
            if splats(line, ALLOWED) or MORE.search(line):
                found = found or line


class Hang(Exception):
    """An operation did not end."""


def nsim(word):
    """Create s0, a netdevsim of four queues that ethtool -L can take away, or delete it.

    Whether that was accepted.
    """
    try:
        if word == "del":
            Path("/sys/bus/netdevsim/del_device").write_text("1")
            return True
        Path("/sys/bus/netdevsim/new_device").write_text("1 1 4")
        name = os.listdir("/sys/bus/netdevsim/devices/netdevsim1/net")[0]
        subprocess.run(["ip", "link", "set", name, "name", "s0"], check=True)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


class Batch:
    """A tc that stays, which saves the time of starting one for each line.

    Only for the first namespace, as it would keep another one alive, and as long
    as no device comes or goes, as tc remembers their numbers.
    """

    def __init__(self):
        self.process = subprocess.Popen(
            ["tc", "-force", "-batch", "-"], stdin=subprocess.PIPE, bufsize=0,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.count = 0

    def do(self, words):
        """Whether a line was accepted. What is unknown marks its end."""
        self.process.stdin.write(f"{words}\nend\n".encode())
        self.count += 2
        text, until = b"", time.monotonic() + LIMIT
        while b"Command failed -:%d\n" % self.count not in text:
            pipe = self.process.stderr
            if not select.select([pipe], [], [], max(0, until - time.monotonic()))[0]:
                hang()
            more = os.read(pipe.fileno(), 65536)
            if not more:
                raise Hang("tc has ended")
            text += more
        return b"Command failed -:%d\n" % (self.count - 1) not in text

    def end(self):
        """Let it end."""
        self.process.stdin.close()
        self.process.stderr.close()
        self.process.wait()


def hang():
    """Have the kernel log who waits for what, and give up."""
    Path("/proc/sysrq-trigger").write_text("w")
    raise Hang(f"no end after {LIMIT} s of virtual time")


class Operator:
    """Carries out lines."""

    def __init__(self):
        self.batch = None

    def do(self, line):
        """Whether a line was accepted. Hang if it does not end."""
        words = line.split()
        if words[0] == "tc" and words[1] != "-n":
            self.batch = self.batch or Batch()
            return self.batch.do(" ".join(words[1:]))
        if self.batch and words[0] in ("ip", "nsim"):
            self.batch.end()
            self.batch = None
        if words[0] == "send":
            send_on(words[1], words[2] if len(words) > 2 else None)
            return True
        if words[0] == "nsim":
            return nsim(words[1])
        done = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            done.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            hang()
        return done.returncode == 0


def owners():
    """Slab objects of each function that allocated some: Counter."""
    count = collections.Counter()
    for path in Path("/sys/kernel/debug/slab").glob("*/alloc_traces"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        for number, owner in re.findall(r"^ *(\d+) (\w[\w.]*)\+0x", text, re.M):
            count[owner] += int(number)
    return count


def large():
    """KiB of slabs, large allocations and memory per CPU."""
    text = Path("/proc/meminfo").read_text()
    return sum(int(re.search(rf"^{key}: *(\d+)", text, re.M)[1])
               for key in ("SUnreclaim", "Percpu", "VmallocUsed"))


def lockdep_on():
    """Whether lockdep still checks."""
    return re.search(r"debug_locks: +1", Path("/proc/lockdep_stats").read_text())


def leaks(before, size):
    """What is there beyond the first count, as text; "" if nothing is."""
    more = owners() - before
    found = [f"{owner} +{number}" for owner, number in sorted(more.items())
             if JUDGED.match(owner)]
    grown = large() - size
    if grown > SPARE:
        found.append(f"{grown} KiB of memory")
    return ", ".join(found)


def settle(before, size):
    """leaks(), once what is on its way to be freed has been: at most 20 s."""
    for _ in range(20):
        time.sleep(1)  # grace periods, and the work that frees a namespace
        Path("/proc/sys/vm/drop_caches").write_text("2")
        found = leaks(before, size)
        if not found:
            break
    return found


def packets():
    """Packets that the qdiscs of devices in the first namespace have seen."""
    shown = subprocess.run(["tc", "-s", "-j", "qdisc", "show"], capture_output=True,
                           check=True, text=True).stdout
    return sum(qdisc["packets"] for qdisc in json.loads(shown))


def whole_run(lines, log, on_line=None):
    """Set up, carry out, clean up. Stops at the first trouble: yields its row.

    on_line: called with whether each of the lines was accepted.
    """
    stages = ((SETUP, None), (lines, on_line), (CLEANUP, None))
    senders = [Sender(None), Sender("n0")]
    operator = Operator()
    for stage, report in stages:
        if stage is CLEANUP:
            if not on_line and not packets():
                yield {"trouble": "pktgen sends nothing", "at": None}
            for sender in senders:
                sender.stop()
        for number, line in enumerate(stage):
            try:
                good = operator.do(line)
                bad = log.trouble()
            except Hang as hang:
                good, bad = False, str(hang)
            if report:
                report(good)
            if bad:
                yield {"trouble": f"{bad.strip()} (after '{line}')",
                       "at": number if stage is lines else None}
                return


def guest(_):
    """Carry out the lines of /run/job/lines.txt and judge. Runs in the guest.

    Rows: {"trouble": text, "at": index of the line or None}, and at the end
    {"done": accepted, "refused": number}.
    """
    lines = Path("/run/job/lines.txt").read_text().splitlines()
    log = Log()
    pktgen("pgctrl", "reset")
    log.trouble()  # from boot
    for row in whole_run(tour(), log):
        yield {**row, "at": None}
        return
    time.sleep(5)
    before, size = owners(), large()
    count = collections.Counter()

    def report(good):
        count[good] += 1

    bad = False
    for row in whole_run(lines, log, report):
        bad = True
        yield row
    if not bad:
        found = settle(before, size)
        if found:
            yield {"trouble": f"not freed: {found}", "at": None}
        elif not before:
            yield {"trouble": "the kernel does not say who owns slab objects", "at": None}
        if not lockdep_on():
            yield {"trouble": "lockdep has switched itself off", "at": None}
    yield {"accepted": count[True], "refused": count[False]}


# ----------------------------------------------------------------- host side

def attempt(kernel, lines):
    """Boot and carry out the lines: (what is wrong or None, index or None, last row)."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    rows, boot = run_script(kernel, "torture-run", "torture", {}, files=(path,), virtual=True,
                            timeout=HOST_LIMIT, params=("slab_debug=FZPU",))
    for row in rows:
        if "trouble" in row:
            return row["trouble"], row["at"], rows[-1]
    bad = boot.complaint(ALLOWED)
    if not bad and not (rows and "accepted" in rows[-1]):
        bad = "the guest did not come to its end"
    return bad, None, rows[-1] if rows else {}


def save(title, lines):
    """Write what REPLAY reads."""
    FAILING.write_text(f"# {title}\n" + "".join(f"{line}\n" for line in lines))


def shrink(kernel, title, lines):
    """The shortest failing sequence that BOOTS boots find, by leaving parts out."""
    save(title, lines)
    boots, size = BOOTS, max(1, len(lines) // 2)
    while boots and len(lines) > 1:
        start = 0
        while start < len(lines) and boots:
            less = lines[:start] + lines[start + size:]
            boots -= 1
            bad, at, _ = attempt(kernel, less)
            if bad:
                lines = less[:at + 1] if at is not None else less
                save(title, lines)
                say(f"{len(lines)} operations still fail: {bad[:120]}")
            else:
                start += size
        if size == 1:
            break
        size = max(1, min(size // 2, len(lines) // 2))
    return lines


def judge(kernel, name, lines, shrinking=True):
    """Run lines, report, shrink and save them if they fail; whether they passed."""
    start = time.monotonic()
    bad, at, row = attempt(kernel, lines)
    took = time.monotonic() - start
    if not bad:
        print(f"ok    {name}: {len(lines)} operations, {row['refused']} refused "
              f"({took:.0f} s)", flush=True)
        return True
    print(f"FAIL  {name}: {bad}" + (f"; operation {at + 1}" if at is not None else ""),
          flush=True)
    if at is not None:
        lines = lines[:at + 1]
    if shrinking:
        lines = shrink(kernel, f"{name}: {bad}", lines)
        print(f"      {len(lines)} operations are enough, in {FAILING}:")
        for line in lines:
            print(f"      {line}")
    return False


def main():
    """Run the seeds, or the file of REPLAY."""
    words, settings = arguments(sys.argv[1:])
    unknown = set(settings) - {"SEED", "SEEDS", "OPS", "KERNEL", "REPLAY"}
    if words or unknown:
        raise Die("usage: torture.py [SEED=n] [SEEDS=n] [OPS=n] [KERNEL=folder] "
                  "[REPLAY=file]")
    kernel = settings.get("KERNEL", "um")
    if "REPLAY" in settings:
        text = Path(settings["REPLAY"]).read_text().splitlines()
        lines = [line for line in text if line and line[0] != "#"]
        results = [judge(kernel, settings["REPLAY"], lines, shrinking=False)]
    else:
        try:
            first, seeds, count = (int(settings.get(key, default)) for key, default in
                                   (("SEED", 1), ("SEEDS", 4), ("OPS", 500)))
        except ValueError:
            raise Die("SEED, SEEDS and OPS are numbers") from None
        say(f"{seeds} seeds of {count} operations on trees of qdiscs (about 20 s each)")
        results = [judge(kernel, f"seed {seed}", Plan(seed).lines(count))
                   for seed in range(first, first + seeds)]
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    guard(main)

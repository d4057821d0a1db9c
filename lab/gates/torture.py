# SPDX-License-Identifier: GPL-2.0
"""Trees of qdiscs in random order, under traffic: nothing may break, hang or leak.

Each seed is a boot of the debug kernel (KASAN, lockdep, RCU and object checks;
poisoned and tracked slabs) under virtual time. The guest carries out operations
that follow from the seed, while pktgen sends to all queues of all devices (with several
CPUs, as in make gauntlet: packet sockets, and time is real): lines of tc, ip, ethtool,
rmmod, and the few words of Operator, among them

    fail 7 tc ...       the 7th allocation of slab memory in it fails
    fail all tc ...     the 1st fails, the 2nd, and so on until nothing failed
    both tc ... | tc ...    two processes at once
    unload sch_cake     delete all users of a module; then it must go

Operations may be refused; that is counted, not judged. Judged are

- the kernel log, after each operation;
- that each operation ends, within LIMIT s of virtual time;
- that a module goes with its last user;
- that lockdep is still on at the end;
- that no block of shared state was freed without a grace period;
- what is left when all devices are gone: no call site in JUDGED may own one slab
  object more than before, and no more than SPARE KiB of large allocations and
  memory per CPU may have been added. A tour of all kinds goes ahead of the first
  count, so that what is allocated once and kept does not count.

A seed that fails is shrunk: parts are left out, a boot each, as long as it still
fails. --replay build/guest/torture/failing.txt runs what is left. --faults plants those
of lab/tree/faults.txt instead, one after the other: each has to make a seed fail. The last
line is 'N passed, N failed', one per seed or fault.
"""

import collections
import ctypes
import enum
import json
import os
import random
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from guest.boot import Guest, run_script, splats
from load.traffic import pktgen, random_stream
from tree.common import BUILD, command_line, keep_result, say, shrunk
from tree.kernel import BROKEN, build, emulated, image
from tree.mutate import read_list

FOLDER = BUILD / "guest/torture"
FAILING = FOLDER / "failing.txt"
BOOTS = 12  # at most, to shrink a failure
LIMIT = 300  # virtual s for one operation: shapers may be slow, RTNL must not be
PATIENCE = 5  # s, with an answer for which there may have been no memory
SWEEP = 100  # allocations of an operation that are made to fail in turn, at most
SPARE = 512  # KiB
TRACKED = "FZPU,kmalloc-*,net_namespace"  # slabs; KASAN looks after all

# Beside boot.SPLAT: SLUB's own reports, and lockdep that gives up.
MORE = re.compile(r"BUG \S+ \(|\bBUG: MAX_|turning off the locking"
                  r"|Slab \S+ Err|blocked for more than")
# pktgen says so when a device goes, or has less queues than a stream was set up for.
ALLOWED = (r"pktgen: WARNING: (trying to remove a running|Requested queue_map_m)",)
# Functions that own what must be freed with a tree, its device or its namespace.
JUDGED = re.compile(r"_*(qdisc|cake|tbf|mq|mqprio|rate_group|fq_codel|pfifo|bfifo|fifo|htb"
                    r"|netem|tc|tcf|cls|mall|gen|gnet|attach|alloc_netdev|netif_alloc"
                    r"|nsim|dummy|setup_net|copy_net_ns|net_alloc|pktgen)_")


class Attempt(NamedTuple):
    """What is wrong (None: nothing), after which line, the last row of guest(), the Guest."""

    bad: str | None
    at: int | None
    row: dict
    guest: Guest



LIBC = ctypes.CDLL(None, use_errno=True)
TRACING = Path("/sys/kernel/debug/tracing")
QUEUES = {"d0": 4, "d1": 3, "e0": 4, "s0": 4}  # e0 is made in the namespace n0
DEVICES = tuple(QUEUES)
INDEX = {"d0": 100, "d1": 101, "e0": 102}  # kept for ever, as tc remembers it

# ------------------------------------------------------------ the operations

def link_add(dev: str) -> str:
    """The operation that makes a dummy device."""
    space = "netns n0 " if dev == "e0" else ""
    return (f"ip link add {dev} index {INDEX[dev]} {space}numtxqueues {QUEUES[dev]} "
            "numrxqueues 1 type dummy")


SETUP = [
    "sysctl -q net.core.default_qdisc=pfifo_fast",
    "ip netns add n0",
    link_add("d0"), "ip link set d0 up", "send d0",
    link_add("d1"), "ip link set d1 up", "send d1",
    link_add("e0"), "ip -n n0 link set e0 up", "send e0 n0",
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
CHILDREN = {"cake shared": 40, "tbf shared": 20, "htb shared": 20, "cake": 12, "tbf": 8,
            "fq_codel": 7, "pfifo": 7, "netem": 3, "htb": 2}
REFUSED = (  # each is refused below {parent} of a tree, or at the root
    "parent {parent} tbf rate 1gbit burst 15k limit 1m peakrate 2gbit mtu 2000 shared",
    "parent {parent} cake shared autorate-ingress",
    "parent {parent} cake shared 4294967295",
    "parent {parent} cake_mq",
    "parent {parent} cake bandwidth 1gbit shared wash memlimit 1 rtt 0",
    "root handle 9: cake shared",
    "root handle 9: tbf rate 1gbit burst 15k limit 1m shared",
    "root handle 9: cake_mq shared",
    "root handle 9: htb shared",
    "root handle 9: mqprio num_tc 2 map 0 1 queues 9@0 9@9 hw 0",
)


# How often each: operations that are carried out as they are, whose nth allocation is
# made to fail, and that are tried with n = 1, 2, 3, ... until nothing fails any more.
FAILURES = {"": 890, "fail {nth}": 100, "fail all": 10}
MODULES = ("sch_cake", "sch_tbf", "sch_mqprio", "sch_rate_group_qdisc", "sch_rate_group",
           "sch_htb", "sch_rate_tree")


def pick(rng: random.Random, weights: dict) -> Any:
    """One key of {key: weight}."""
    return rng.choices(list(weights), list(weights.values()))[0]


def cake_words(rng: random.Random, shared: bool | None) -> str:
    """Options of a cake; any of them may be left out. shared: None for cake_mq.

    A rate that is not the group's keeps a qdisc out of it, so few give one.
    """
    words = []
    if rng.random() < (.2 if shared else .5):
        words.append(rng.choice(["unlimited", "bandwidth 1gbit", "bandwidth 20mbit",
                                 "bandwidth 5mbit", "bandwidth 100kbit"]))
    if shared:
        words.append(rng.choice(["shared", "shared 1", "shared 2", "shared 3"]))
    elif shared is not None and rng.random() < .5:
        words.append("noshared")
    for chance, choices in (
        (.4, ["diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"]),
        (.3, ["flowblind", "flows", "hosts", "dual-srchost", "triple-isolate"]),
        (.1, ["split-gso", "no-split-gso", "ack-filter", "ingress", "nat"]),
        (.1, ["memlimit 20000", "memlimit 4000000"]),
        (.1, ["atm overhead 20", "noatm", "overhead -20", "rtt 1ms"]),
    ):
        if rng.random() < chance:
            words.append(rng.choice(choices))
    return " ".join(words)


def tbf_words(rng: random.Random, shared: bool) -> str:
    """Options of a tbf."""
    rates = ["1gbit", "20mbit", "5mbit", "100kbit"]
    rate = rng.choice(rates + ["20mbit"] * 8 * shared)
    words = f"rate {rate} burst {rng.choice(['3k', '15k', '1m'])} limit 100k"
    if shared:
        return f"{words} {rng.choice(['shared', 'shared 2', 'shared 3'])}"
    return words + rng.choice(["", " noshared", " peakrate 2gbit mtu 2000"])


def qdisc_words(rng: random.Random, kind: str) -> str:
    """Kind and options of a qdisc."""
    name, _, shared = kind.partition(" ")
    options = {
        "cake": lambda: cake_words(rng, bool(shared)),
        "cake_mq": lambda: cake_words(rng, None),
        "tbf": lambda: tbf_words(rng, bool(shared)),
        "pfifo": lambda: f"limit {rng.choice([10, 100])}",
        "netem": lambda: "delay 1ms",
        "htb": lambda: f"default {rng.choice([1, 2, 3])}" + rng.choice(
            [" shared", " shared", " shared 2"] if shared else [""]),
    }.get(name, lambda: "")()
    return f"{name} {options}".strip()


class Plan:
    """Makes operations from a seed; keeps in mind what they should have led to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.space = {"d0": None, "d1": None, "e0": "n0", "s0": None}
        self.root = dict.fromkeys(QUEUES)  # (kind, major number), None if unknown

    def tool(self, dev: str, tool: str) -> str:
        """tc or ip for the namespace that a device is in."""
        return f"{tool} -n {self.space[dev]}" if self.space[dev] else tool

    def new_root(self, dev: str) -> list[str]:
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

    def tree(self, dev: str) -> bool:
        """Whether a device should have a root with a child per queue."""
        return bool(self.root[dev]) and self.root[dev][0] in TREES

    def parent(self, dev: str) -> tuple[str, int]:
        """A class of the root; the queue that it stands for."""
        queue = self.rng.randrange(QUEUES[dev]) + 1
        return f"{self.root[dev][1]}:{queue}", queue

    def child(self, dev: str) -> list[str]:
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

    def below(self, dev: str) -> list[str]:
        """Something below or beside a child: a grandchild, a filter, its removal."""
        handle = f"{self.rng.randrange(QUEUES[dev]) + 1}0:"
        tc = self.tool(dev, "tc")
        return [self.rng.choice([
            f"{tc} qdisc add dev {dev} parent {handle}1 fq_codel",
            f"{tc} qdisc replace dev {dev} parent {handle}1 cake unlimited",
            f"{tc} qdisc add dev {dev} parent {handle}1 cake shared",
            f"{tc} qdisc add dev {dev} parent {handle}3 fq_codel",
            f"{tc} qdisc add dev {dev} parent {handle}2 netem delay 1ms",
            f"{tc} filter add dev {dev} parent {handle} prio 1 matchall classid {handle}1",
            f"{tc} filter del dev {dev} parent {handle}",
        ])]

    def classes(self, dev: str) -> list[str]:
        """Add, change or delete a class of an htb, if the qdisc of the queue is one."""
        handle = f"{self.rng.randrange(QUEUES[dev]) + 1}0:"
        verb = pick(self.rng, {"add": 30, "replace": 50, "del": 20})
        above, minor = self.rng.choice([("", 1), ("", 1), ("1", 2), ("1", 3), ("1", 3),
                                        ("3", 4), ("2", 4), ("", 5)])
        start = f"{self.tool(dev, 'tc')} class {verb} dev {dev}"
        if verb == "del":
            return [f"{start} classid {handle}{minor}"]
        rate, ceil = self.rng.choice([(1, 20), (20, 20), (5, 100), (1000, 1000)])
        words = f"rate {rate}mbit ceil {ceil}mbit prio {self.rng.choice([0, 0, 1, 7])}"
        local = " noshared" if self.rng.random() < .15 else ""
        return [f"{start} parent {handle}{above} classid {handle}{minor} htb {words}{local}"]

    def refusal(self, dev: str) -> list[str]:
        """Ask for what must be refused."""
        parent = self.parent(dev)[0] if self.tree(dev) else "root"
        words = self.rng.choice(REFUSED).replace("parent {parent}", f"parent {parent}")
        return [f"{self.tool(dev, 'tc')} qdisc replace dev {dev} "
                + words.replace("parent root", "root")]

    def look(self, dev: str) -> list[str]:
        """Dump."""
        what = self.rng.choice(["qdisc", "class", "filter"])
        return [f"{self.tool(dev, 'tc')} {what} show dev {dev}"]

    def flap(self, dev: str) -> list[str]:
        """The link goes down and, mostly at once, up again."""
        ip = self.tool(dev, "ip")
        ups = [f"{ip} link set {dev} up"]
        between = self.child(dev) if self.rng.random() < .4 else []
        return [f"{ip} link set {dev} down", *between, *ups]

    def channels(self, _: str) -> list[str]:
        """Queues of s0 come into use and go out of it."""
        return [f"ethtool -L s0 combined {self.rng.randrange(4) + 1}"]

    def length(self, dev: str) -> list[str]:
        """Two settings that qdiscs are told of or born with."""
        return [self.rng.choice([
            f"{self.tool(dev, 'ip')} link set {dev} txqueuelen {self.rng.choice([5, 1000])}",
            "sysctl -q net.core.default_qdisc="
            + self.rng.choice(["cake", "fq_codel", "pfifo_fast"]),
        ])]

    def anew(self, dev: str) -> list[str]:
        """A device goes, with all that is on it, and comes back."""
        self.root[dev] = None
        if dev == "s0":
            return ["nsim del", "nsim add", "ip link set s0 up", "send s0"]
        if dev == "e0":
            return self.namespace(dev)
        gone = f"{self.tool(dev, 'ip')} link del {dev}"
        self.space[dev] = None
        first = self.new_root(dev) if self.rng.random() < .5 else []  # while it is down
        return [gone, link_add(dev), *first,
                f"ip link set {dev} up", f"send {dev}"]

    def move(self, dev: str) -> list[str]:
        """d1 moves into the namespace, or out of it: its qdiscs go."""
        dev = "d1"
        self.root[dev] = None
        if self.space[dev]:
            self.space[dev] = None
            return ["ip -n n0 link set d1 netns 1", "ip link set d1 up", "send d1"]
        self.space[dev] = "n0"
        return ["ip link set d1 netns n0", "ip -n n0 link set d1 up", "send d1 n0"]

    def namespace(self, _: str) -> list[str]:
        """The namespace goes, with the devices in it and their qdiscs; a new one comes."""
        lines = ["ip netns del n0", "ip netns add n0", link_add("e0"),
                 "ip -n n0 link set e0 up", "send e0 n0"]
        self.root["e0"] = None
        if self.space["d1"]:
            self.root["d1"] = self.space["d1"] = None
            lines += [link_add("d1"), "ip link set d1 up", "send d1"]
        return lines

    def together(self, dev: str) -> list[str]:
        """Two processes at once: one finds the RTNL taken, and what it looked up gone."""
        pair = [self.child(dev)[0],
                self.rng.choice([self.child, self.below, self.below, self.look])(dev)[0]]
        return [f"both {' | '.join(self.rng.sample(pair, 2))}"]

    def module(self, _: str) -> list[str]:
        """Unload a module that may be in use, or that nothing uses any more."""
        name = self.rng.choice(MODULES)
        if self.rng.random() < .5:
            return [f"rmmod {name}"]
        self.root = dict.fromkeys(QUEUES)
        return [f"unload {name}"]

    def failing(self, lines: list[str]) -> list[str]:
        """The same lines; an allocation fails in one of them, mostly in none.

        If there are more, that one is repeated until it has succeeded.
        """
        number = self.rng.randrange(len(lines))
        how = pick(self.rng, FAILURES).format(nth=self.rng.randrange(1, 30))
        if how and lines[number].split()[0] in ("tc", "ip"):
            how = how if len(lines) == 1 else "fail all"
            lines[number] = f"{how} {lines[number]}"
        return lines

    def lines(self, count: int) -> list[str]:
        """So many operations."""
        what = {self.child: 62, self.new_root: 10, self.flap: 3, self.look: 5,
                self.refusal: 4, self.classes: 14, self.below: 5, self.channels: 3, self.length: 2,
                self.anew: 1, self.move: 1, self.namespace: 1, self.together: 6,
                self.module: 1}
        lines = []
        while len(lines) < count:
            dev = self.rng.choice(["d0", "d0", "d1", "e0", "s0"])
            lines += self.failing(pick(self.rng, what)(dev))
        return lines[:count]


def tour() -> list[str]:
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
                  f"{tc} qdisc show dev {dev}", f"{tc} class show dev {dev}"]
    return [*lines, "ethtool -L s0 combined 2", *Plan(1).lines(60)]


# ---------------------------------------------------------------- guest side

def enter(path: str) -> None:
    """Move this thread into the network namespace of a file."""
    with open(path, "rb") as file:
        if LIBC.setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), path)


def tell_pktgen(space: str | None, *commands: tuple[str, str]) -> None:
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


def send_on(dev: str, space: str | None) -> None:
    """Add two streams, of a priority each, to those that pktgen sends."""
    for number, (priority, tos) in enumerate(((0, "00"), (9, "b8"))):
        stream = f"{dev}@{number}"
        tell_pktgen(space, (f"kpktgend_{number % os.cpu_count()}", f"add_device {stream}"), *(
            (stream, line) for line in (*random_stream(QUEUES[dev], tos, 500_000),
                                        f"skb_priority {priority}")))


class Sender(threading.Thread):
    """Runs pktgen in a namespace, again and again: a link that goes down stops it."""

    def __init__(self, space: str | None) -> None:
        super().__init__(daemon=True)
        self.space = space
        self.quit = False
        self.start()

    def run(self) -> None:
        while not self.quit:
            try:
                with open(f"/run/netns/{self.space}" if self.space else
                          "/proc/self/ns/net", "rb") as file:
                    self.round(f"/proc/self/fd/{file.fileno()}")
            except OSError:  # a namespace that is not there, or only its name
                time.sleep(.05)

    def stop(self) -> None:
        """Forget all streams, when those that are running have sent what they had."""
        self.quit = True
        self.join()
        tell_pktgen(self.space, ("pgctrl", "reset"))

    def round(self, space: str) -> None:
        """Send for a while. The file keeps the namespace until the end of it.

        pktgen is stopped from outside: having counted to the end, it would wait for
        its last packet to leave a queue, which takes as long as the qdisc likes.
        """
        timer = threading.Timer(.25, tell_pktgen, (space, ("pgctrl", "stop")))
        timer.start()
        tell_pktgen(space, ("pgctrl", "start"))
        timer.join()


def frame(rng: random.Random) -> tuple[int, bytes]:
    """(skb priority, Ethernet frame) of random size and flow: UDP, as pktgen's."""
    priority, tos = rng.choice(((0, 0), (9, 0xb8)))
    size = rng.randrange(64, 1500)
    ip = bytes([0x45, tos]) + size.to_bytes(2) + bytes.fromhex("00000000401100000a0000020a000001")
    udp = rng.randbytes(4) + (size - 20).to_bytes(2)
    return priority, (bytes.fromhex("0200000000010200000000020800") + ip + udp).ljust(
        size + 14, b"\0")


class Flood(Sender):
    """Sends by packet sockets instead: with several CPUs, pktgen itself breaks where
    streams are added and devices go while it is told to start and stop.
    """

    def __init__(self, space: str | None) -> None:
        self.rng = random.Random(0)
        self.frames = [frame(self.rng) for _ in range(64)]
        super().__init__(space)

    def round(self, space: str) -> None:
        """Send for a while, from a thread that enters the namespace; OSError if it can't."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self.work, space).result()

    def work(self, space: str) -> None:
        """Send to all devices that are there, each now and then, as time is real."""
        enter(space)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            for _ in range(50):
                priority, data = self.rng.choice(self.frames)
                try:
                    sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
                    sender.sendto(data, (self.rng.choice(DEVICES), 0x0800))
                except OSError:  # it is not here, down, or its queue is full
                    pass
                time.sleep(.01)


class Log:
    """The kernel log, read on from where the last look ended.

    allowed: beside ALLOWED.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        self.allowed = (*ALLOWED, *allowed)

    def trouble(self) -> str | None:
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
            if splats(line, self.allowed) or MORE.search(line):
                found = found or line


class Answer(enum.Enum):
    """What became of a line that a tc or ip was told."""

    YES = "accepted"
    NO = "refused"
    GONE = "the tool has ended"


class Trouble(Exception):
    """An operation did not end, or was refused though it must not be."""


def write(path: Path | str, text: str) -> bool:
    """Whether the kernel took a text for one of its files."""
    try:
        Path(path).write_text(text)
        return True
    except OSError:
        return False


def unload_module(name: str) -> bool:
    """Whether a module was there and went."""
    return not LIBC.syscall(176, name.encode(), os.O_NONBLOCK)  # delete_module() of x86-64


class Batch:
    """A tc or ip that stays, which saves the time of starting one for each line.

    It keeps its namespace alive, and remembers the numbers of devices by name.
    """

    def __init__(self, tool: str, space: str | None, limit: float) -> None:
        self.process = subprocess.Popen(
            [tool, *(["-n", space] if space else []), "-s", "-force", "-batch", "-"],
            stdin=subprocess.PIPE, bufsize=0, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        self.fail_nth = Path(f"/proc/{self.process.pid}/fail-nth")
        self.limit = limit
        self.count = 0

    def start(self, words: Sequence[str]) -> None:
        """Have it begin with a line. What is unknown marks its end."""
        self.process.stdin.write(f"{' '.join(words)}\nend\n".encode())
        self.count += 2

    def finish(self, patience: float = 0) -> Answer:
        """What became of the line.

        patience: s after which an answer that the kernel could not send does not
        come any more; 0 if that must not happen.
        """
        text, until = b"", time.monotonic() + self.limit
        while b"Command failed -:%d\n" % self.count not in text:
            pipe, left = self.process.stderr, until - time.monotonic()
            if left <= 0:
                hang(self.limit, self.process)
            if not select.select([pipe], [], [], patience or left)[0]:
                if patience and "netlink_recvmsg" in stack(self.process):
                    return Answer.GONE
                continue
            more = os.read(pipe.fileno(), 65536)
            if not more:
                return Answer.GONE
            text += more
        return Answer.NO if b"Command failed -:%d\n" % (self.count - 1) in text else Answer.YES

    def fail(self, nth: int, words: Sequence[str]) -> tuple[Answer, bool]:
        """Do a line whose nth allocation fails: as finish(), and whether it had so many.

        It must not be an allocation of the tool's own beginning, which may be its end.
        """
        if not self.count:
            self.start(["end"])
            self.finish()
        self.fail_nth.write_text(f"{nth}")
        self.start(words)
        answer = self.finish(PATIENCE)
        if answer is Answer.GONE:
            return answer, True
        failed = self.fail_nth.read_text().strip() == "0"
        self.fail_nth.write_text("0")
        return answer, failed

    def end(self) -> None:
        """Let it end."""
        self.process.stdin.close()
        self.process.stderr.close()
        if "netlink_recvmsg" in stack(self.process):
            self.process.kill()
        self.process.wait()


def stack(process: subprocess.Popen) -> list[str]:
    """The functions that a process sleeps in, the innermost one first."""
    return re.findall(r"(\w+)\+0x", Path(f"/proc/{process.pid}/stack").read_text())


def hang(limit: float, process: subprocess.Popen) -> NoReturn:
    """Have the kernel log who waits for what, and give up."""
    Path("/proc/sysrq-trigger").write_text("w")
    raise Trouble(f"no end after {limit} s, in {' < '.join(stack(process)[:12])}")


class Operator:
    """Carries out lines.

    limit: s that one may take. several: whether there are CPUs, and pktgen does not
    send. fail_nth: whether the kernel has allocations fail. failed: how many did.
    """

    def __init__(self, limit: float, several: bool) -> None:
        self.limit = limit
        self.several = several
        self.fail_nth = os.path.exists("/proc/self/fail-nth")
        self.failed = 0
        self.batches = {}

    def do(self, line: str) -> bool:
        """Whether a line was accepted. Trouble if it does not end."""
        words = line.split()
        if words[0] == "nsim":
            self.end(None)
        if words[-3:] == ["netns", "del", "n0"]:
            self.end("n0")
        good = self.carry_out(words)
        if "netns" in words and ("ip", None, 0) in self.batches:  # it keeps that open
            self.batches.pop(("ip", None, 0)).end()
        return good

    def carry_out(self, words: list[str]) -> bool:
        """do() for words."""
        if words[0] in ("tc", "ip"):
            return self.finish(self.start(words))
        if words[0] == "fail":
            return self.fail(words[1], words[2:])
        if words[0] == "both":
            middle = words.index("|")
            keys = self.start(words[1:middle]), self.start(words[middle + 1:], 1)
            done = [self.finish(key) for key in keys]  # wait for both, whatever the first did
            return all(done)
        if words[0] == "send":
            if not self.several:
                send_on(words[1], words[2] if len(words) > 2 else None)
            return True
        if words[0] == "nsim":
            return self.nsim(words[1])
        if words[0] == "rmmod":
            return unload_module(words[1])
        if words[0] == "unload":
            return self.unload(words[1])
        if words[0] == "sysctl":
            name, _, value = words[2].partition("=")
            return write(Path("/proc/sys", *name.split(".")), value)
        done = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            done.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            hang(self.limit, done)
        return done.returncode == 0

    def batch(self, words: list[str], number: int = 0) -> tuple[tuple, list[str]]:
        """The key of the process that a line of tc or ip is for, and what to tell it.

        number: 1 for a second process of this kind.
        """
        space, rest = (words[2], words[3:]) if words[1] == "-n" else (None, words[1:])
        key = words[0], space, number
        if key not in self.batches:
            self.batches[key] = Batch(words[0], space, self.limit)
        return key, rest

    def start(self, words: list[str], number: int = 0) -> tuple:
        """Begin with a line; the key of the process that carries it out."""
        key, rest = self.batch(words, number)
        self.batches[key].start(rest)
        return key

    def finish(self, key: tuple) -> bool:
        """Whether the line was accepted."""
        answer = self.batches[key].finish()
        if answer is Answer.GONE:
            raise Trouble(f"{key[0]} has ended")
        return answer is Answer.YES

    def fail(self, nth: str, words: list[str]) -> bool:
        """Do a line whose nth allocation fails, or the 1st, 2nd, 3rd and so on in turn."""
        if not self.fail_nth:
            return self.carry_out(words)
        for number in range(1, SWEEP) if nth == "all" else [int(nth)]:
            key, rest = self.batch(words)
            answer, failed = self.batches[key].fail(number, rest)
            if answer is Answer.GONE or "netns" in words:  # it needed that, or is in the wrong one
                self.batches.pop(key).end()
            if not failed:
                return answer is Answer.YES
            self.failed += 1
        return answer is Answer.YES if nth != "all" else self.carry_out(words)

    def nsim(self, word: str) -> bool:
        """Whether s0 was created, with queues that ethtool -L can take away, or deleted."""
        if word == "del":
            return write("/sys/bus/netdevsim/del_device", "1")
        if not write("/sys/bus/netdevsim/new_device", "1 1 4"):
            return False
        name = os.listdir("/sys/bus/netdevsim/devices/netdevsim1/net")[0]
        return self.carry_out(f"ip link set {name} name s0".split())

    def unload(self, module: str) -> bool:
        """Unload a module that nothing uses any more; Trouble if that is refused.

        Whether it was loaded.
        """
        write("/proc/sys/net/core/default_qdisc", "pfifo_fast")
        for space in ("", "-n n0 "):
            for dev in QUEUES:
                self.carry_out(f"tc {space}qdisc replace dev {dev} root pfifo".split())
        users = Path(f"/sys/module/{module}/refcnt")
        for _ in range(20):
            if module.startswith("sch_rate_group"):
                unload_module("sch_cake")
                unload_module("sch_tbf")
            if module == "sch_rate_group":
                unload_module("sch_rate_group_qdisc")
            if not users.exists():
                return False
            if unload_module(module):
                return True
            time.sleep(.25)  # a namespace that went takes its time
        raise Trouble(f"{module} cannot be unloaded: " + "; ".join(re.findall(
            r"^(sch_\w+ \d+ \d+ \S+)", Path("/proc/modules").read_text(), re.M)))

    def end(self, space: str | None) -> None:
        """End all processes in a namespace."""
        for key in [key for key in self.batches if key[1] == space]:
            self.batches.pop(key).end()


def allow_failures() -> None:
    """Have fail-nth act on all allocations from slabs, without a word in the log."""
    folder = Path("/sys/kernel/debug/failslab")
    for file, value in (("ignore-gfp-wait", "N"), ("cache-filter", "N"), ("verbose", "0")):
        write(folder / file, value)


def load_on_demand(folder: str) -> None:
    """Have the kernel find the modules that it was built with, in a folder."""
    script = Path("/run/modprobe")
    script.write_text(f"""#!/bin/sh
for module in sch_rate_group sch_rate_group_qdisc; do
	[ -e /sys/module/$module ] || insmod {folder}/$module.ko
done
case $3 in
*cake*) insmod {folder}/sch_cake.ko ;;
*tbf) insmod {folder}/sch_tbf.ko ;;
*mqprio) insmod {folder}/sch_mqprio.ko ;;
esac
""")
    script.chmod(0o755)
    write("/proc/sys/kernel/modprobe", str(script))


def owners() -> collections.Counter:
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


def large() -> int:
    """KiB of allocations too large for a slab, and of memory per CPU.

    The kernel counts the former with the slabs, which grow by being half empty.
    """
    text = Path("/proc/meminfo").read_text()
    slabs = [line.split() for line in Path("/proc/slabinfo").read_text().splitlines()[2:]]
    return sum(int(re.search(rf"^{key}: *(\d+)", text, re.M)[1])
               for key in ("Slab", "Percpu", "VmallocUsed")) - sum(
        4 * int(words[5]) * int(words[14]) for words in slabs)


def watch_frees() -> None:
    """Have the kernel trace what the code of shared blocks allocates and frees."""
    names = set(re.findall(r" (qdisc_shared_\w+)$", Path("/proc/kallsyms").read_text(), re.M))
    (TRACING / "buffer_size_kb").write_text("8192")
    for event in ("kmalloc", "kfree"):
        folder = TRACING / "events/kmem" / event
        (folder / "filter").write_text(
            " || ".join(f"call_site.function == {name}" for name in sorted(names)))
        (folder / "enable").write_text("1")


def freed_at_once() -> str:
    """Who freed a block that had had members without a grace period, or "" if nobody.

    One CPU shows no reader that suffers from this. A block is what takes more than
    a cache line; a new one may be freed where it was made.
    """
    large_ones, seen = set(), 0
    for event, site, pointer, size in re.findall(
            r"(kmalloc|kfree): call_site=(\w+)\S* ptr=(\S+)(?: bytes_req=(\d+))?",
            (TRACING / "trace").read_text()):
        seen += 1
        if event == "kmalloc" and int(size) > 64:
            large_ones.add(pointer)
        elif event == "kfree" and pointer in large_ones and site != "qdisc_shared_prepare":
            return site
        else:
            large_ones.discard(pointer)
    return "" if seen else "nobody, as nothing was traced"


def lockdep_on() -> bool:
    """Whether lockdep still checks, if there is one."""
    stats = Path("/proc/lockdep_stats")
    return not stats.exists() or bool(re.search(r"debug_locks: +1", stats.read_text()))


def free_all() -> None:
    """Free what is kept for its own sake: dentries, and KASAN's quarantine."""
    write("/proc/sys/vm/drop_caches", "2")
    for cache in Path("/sys/kernel/slab").iterdir():
        write(cache / "shrink", "1")


def leaks(before: collections.Counter, size: int) -> str:
    """What is there beyond the first count, as text; "" if nothing is."""
    more = owners() - before
    found = [f"{owner} +{number}" for owner, number in sorted(more.items())
             if JUDGED.match(owner)]
    grown = large() - size
    if grown > SPARE:
        found.append(f"{grown} KiB of memory")
    return ", ".join(found)


def settle(before: collections.Counter, size: int) -> str:
    """leaks(), once what is on its way to be freed has been: at most 20 s."""
    for _ in range(20):
        time.sleep(1)  # grace periods, and the work that frees a namespace
        free_all()
        found = leaks(before, size)
        if not found:
            break
    return found


def packets() -> int:
    """Packets that the qdiscs of devices in the first namespace have seen."""
    time.sleep(0.1)  # they may be new
    shown = subprocess.run(["tc", "-s", "-j", "qdisc", "show"], capture_output=True,
                           check=True, text=True).stdout
    return sum(qdisc["packets"] for qdisc in json.loads(shown))


def whole_run(lines: Sequence[str], log: Log, operator: Operator,
              on_line: Callable[[bool], None] | None = None) -> Iterator[dict]:
    """Set up, carry out, clean up. Stops at the first trouble: yields its row.

    on_line: called with whether each of the lines was accepted.
    """
    stages = ((SETUP, None), (lines, on_line), (CLEANUP, None))
    senders = [(Flood if operator.several else Sender)(space) for space in (None, "n0")]
    for stage, report in stages:
        if stage is CLEANUP:
            if not on_line and not packets():
                yield {"trouble": "nothing is sent", "at": None}
            for sender in senders:
                sender.stop()
        for number, line in enumerate(stage):
            try:
                good = operator.do(line)
                bad = log.trouble()
            except Trouble as trouble:
                good, bad = False, str(trouble)
            if report:
                report(good)
            if bad:
                yield {"trouble": f"{bad.strip()} (after '{line}')",
                       "at": number if stage is lines else None}
                return
    operator.end("n0")
    operator.end(None)


def guest(spec: dict) -> Iterator[dict]:
    """Carry out the lines of /run/job/lines.txt and judge. Runs in the guest.

    spec: limit (s that an operation may take), modules (the folder that has them,
    None if they are built in), allowed (lines of the log that the caller looks at,
    beside ALLOWED), several (CPUs, in real time). Rows: {"trouble": text, "at": index
    of the line or None}, and at the end {"accepted": number, "refused": number,
    "failed": allocations that were made to}.
    """
    lines = Path("/run/job/lines.txt").read_text().splitlines()
    words = subprocess.run(["tc", "qdisc", "add", "cake", "help"], capture_output=True,
                           check=False).stderr
    if b"shared" not in words:
        yield {"trouble": "this tc does not know what is to be tested", "at": None}
        return
    log, operator = Log(spec["allowed"]), Operator(spec["limit"], spec["several"])
    pktgen("pgctrl", "reset")
    allow_failures()
    watch_frees()
    if spec["modules"]:
        load_on_demand(spec["modules"])
    else:  # none to look for, which takes long where devices are not there
        write("/proc/sys/kernel/modprobe", "\n")  # of which Flood asks a lot
    log.trouble()  # from boot
    for row in whole_run(tour(), log, operator):
        yield {**row, "at": None}
        return
    time.sleep(5)
    free_all()
    before, size = owners(), large()
    operator.failed = 0
    count = collections.Counter()

    def report(good):
        count[good] += 1

    bad = False
    for row in whole_run(lines, log, operator, report):
        bad = True
        yield row
    if not bad:
        found = settle(before, size)
        if found:
            yield {"trouble": f"not freed: {found}", "at": None}
        elif not before:
            yield {"trouble": "the kernel does not say who owns slab objects", "at": None}
        if who := freed_at_once():
            yield {"trouble": f"a block was freed without a grace period, by {who}",
                   "at": None}
        if not lockdep_on():
            yield {"trouble": "lockdep has switched itself off", "at": None}
    yield {"accepted": count[True], "refused": count[False], "failed": operator.failed}


# ----------------------------------------------------------------- host side

def attempt(kernel: str, lines: Sequence[str], params: Sequence[str] = (),
            allowed: Sequence[str] = (), **more: Any) -> Attempt:
    """Boot and carry out the lines: an Attempt.

    kernel: its folder. params: more for its command line. allowed: as for guest().
    more: as for boot.boot().
    """
    name = f"torture-{Path(kernel).name}"
    path = FOLDER / name / "lines.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    modules = BUILD / kernel / "net/sched"
    spec = {"limit": LIMIT, "allowed": allowed,
            "modules": str(modules) if (modules / "sch_cake.ko").exists() else None}
    slow = spec["several"] = emulated(image(kernel))
    rows, guest = run_script(kernel, name, "gates.torture", spec, files=(path,),
                             virtual=not slow, timeout=(8 if slow else 1) * (120 + len(lines) // 4),
                             params=(f"slab_debug={TRACKED}", *params), **more)
    for row in rows:
        if "trouble" in row:
            return Attempt(row["trouble"], row["at"], rows[-1], guest)
    bad = guest.complaint((*ALLOWED, *allowed))
    if not bad and not (rows and "accepted" in rows[-1]):
        bad = "the guest did not come to its end"
    return Attempt(bad, None, rows[-1] if rows else {}, guest)


def upto(lines: list[str], at: int | None) -> list[str]:
    """The lines up to the one of an index; all if that is None."""
    return lines if at is None else lines[:at + 1]


def save(title: str, lines: Sequence[str]) -> None:
    """Write what REPLAY reads."""
    FAILING.write_text(f"# {title}\n" + "".join(f"{line}\n" for line in lines))


def replayed(path: str) -> list[str]:
    """The lines that save() wrote."""
    text = Path(path).read_text().splitlines()
    return [line for line in text if line and line[0] != "#"]


def shrink(kernel: str, title: str, lines: list[str]) -> list[str]:
    """The shortest failing sequence that BOOTS boots find, by leaving parts out."""
    def fails(less):
        bad, at, *_ = attempt(kernel, less)
        if not bad:
            return None
        less = upto(less, at)
        save(title, less)
        say(f"{len(less)} operations still fail: {bad[:120]}")
        return less

    save(title, lines)
    return shrunk(lines, 1, BOOTS, fails)


def judge(kernel: str, name: str, lines: list[str], shrinking: bool = True) -> dict | None:
    """Run lines, report, shrink and save them if they fail; their row, None if so."""
    start = time.monotonic()
    bad, at, row, guest = attempt(kernel, lines)
    took = time.monotonic() - start
    if not bad:
        print(f"ok    {name}: {len(lines)} operations, {row['refused']} refused, "
              f"{row['failed']} failed allocations ({took:.0f} s)", flush=True)
        return {**row, "seconds": round(took, 1)}
    print(f"FAIL  {name}: {bad}" + (f"; operation {at + 1}" if at is not None else ""),
          flush=True)
    if trace := guest.trace(ALLOWED):
        print(trace, flush=True)
    lines = upto(lines, at)
    if shrinking:
        lines = shrink(kernel, f"{name}: {bad}", lines)
        print(f"      {len(lines)} operations are enough, in {FAILING}:")
        for line in lines:
            print(f"      {line}")
    return None


def record(seeds: range, count: int, rows: list[dict]) -> None:
    """Write torture.json, for a run of many operations."""
    keep_result("torture.json", {
        "what": "random operations on trees of qdiscs under traffic, none of them with a "
                "splat, hang or leak; one core, under KASAN and lockdep",
        "seeds": f"{seeds[0]} to {seeds[-1]}",
        "operations": len(seeds) * count,
        **{key: round(sum(row[key] for row in rows), 1)
           for key in ("accepted", "refused", "failed", "seconds")}})


def find(fault: dict, seeds: range, count: int) -> bool:
    """Whether one of the seeds fails with a fault in the kernel, as it has to."""
    for seed in seeds:
        bad, at, *_ = attempt("faults/um-debug", Plan(seed).lines(count),
                             (f"shared_mutant={fault['number']}",))
        if bad:
            print(f"found     {fault['rule']}: {bad[:200]} (seed {seed}"
                  + (f", operation {at + 1})" if at is not None else ")"), flush=True)
            return True
    print(f"NOT FOUND {fault['rule']}", flush=True)
    return False


def main(argv: Sequence[str]) -> None:
    """Run the seeds, with each of the faults if asked for, or the file to replay."""
    parser = command_line("torture", __doc__, record=True)
    parser.add_argument("--seed", type=int, default=1, help="the first (1)")
    parser.add_argument("--seeds", type=int, help="how many (4)")
    parser.add_argument("--ops", type=int, help="operations of a seed (500)")
    parser.add_argument("--long", action="store_true",
                        help="20 seeds of 5,000, and write torture.json")
    parser.add_argument("--faults", action="store_true", help="plant faults, to be found")
    parser.add_argument("--replay", metavar="FILE", help="run these operations instead")
    parser.add_argument("--kernel", default="um-debug", metavar="FOLDER",
                        help="in build/ (um-debug)")
    args = parser.parse_args(argv)
    kernel = args.kernel
    number = args.seeds or (20 if args.long else 4)
    count = args.ops or (5000 if args.long else 500)
    seeds = range(args.seed, args.seed + number)
    if args.replay:
        results = [judge(kernel, args.replay, replayed(args.replay), shrinking=False)]
    elif args.faults:
        build("faults")
        faults = read_list(BROKEN["faults"])
        say(f"{len(faults)} faults, up to {number} seeds of {count} operations for each")
        results = [find(fault, seeds, count) for fault in faults]
    else:
        say(f"{number} seeds of {count} operations on trees of qdiscs")
        results = [judge(kernel, f"seed {seed}", Plan(seed).lines(count)) for seed in seeds]
        if args.long and all(results):
            record(seeds, count, results)
    failed = sum(not result for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)

# SPDX-License-Identifier: GPL-2.0
"""The operations of make torture: what follows from a seed."""

import random
import tomllib
from pathlib import Path
from typing import Any

QUEUES = {"d0": 4, "d1": 3, "e0": 4, "s0": 4}  # e0 is made in the namespace n0
DEVICES = tuple(QUEUES)
INDEX = {"d0": 100, "d1": 101, "e0": 102}  # kept for ever, as tc remembers it


def link_add(dev: str) -> str:
    """The operation that makes a dummy device."""
    space = "netns n0 " if dev == "e0" else ""
    return (f"ip link add {dev} index {INDEX[dev]} {space}numtxqueues {QUEUES[dev]} "
            "numrxqueues 1 type dummy")

TABLES = tomllib.loads(Path(__file__).with_name("torture.toml").read_text())
SETUP = [*TABLES["before"], *(line for dev in ("d0", "d1", "e0") for line in (
    link_add(dev), *TABLES["up"][dev])), *TABLES["up"]["s0"]]
CLEANUP = TABLES["cleanup"]
MQPRIO = "mqprio num_tc 2 map {} queues 2@0 {}@2 hw 0"
PRIORITIES = " ".join("0" * 8 + "1" * 8)
TREES = ("mq", "mqprio", "cake_mq")
CHILDREN = TABLES["children"]


def pick(rng: random.Random, weights: dict) -> Any:
    """One key of {key: weight}."""
    return rng.choices(list(weights), list(weights.values()))[0]


def cake_words(rng: random.Random, shared: bool | None) -> str:
    """Options of a cake; any of them may be left out. shared: None for cake_mq.

    A rate that is not the group's keeps a qdisc out of it, so few give one.
    """
    words, table = [], TABLES["cake"]
    if rng.random() < (.2 if shared else .5):
        words.append(rng.choice(table["rates"]))
    if shared:
        words.append(rng.choice(table["shared"]))
    elif shared is not None and rng.random() < .5:
        words.append("noshared")
    words += [rng.choice(choices) for chance, choices in table["options"]
              if rng.random() < chance]
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
        kind = pick(self.rng, TABLES["roots"])
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
        return [f"{tc} " + self.rng.choice(TABLES["below"]).format(dev=dev, handle=handle)]

    def classes(self, dev: str) -> list[str]:
        """Add, change or delete a class of an htb, if the qdisc of the queue is one."""
        handle = f"{self.rng.randrange(QUEUES[dev]) + 1}0:"
        verb = pick(self.rng, {"add": 30, "replace": 50, "del": 20})
        above, minor = self.rng.choice(TABLES["classes"])
        start = f"{self.tool(dev, 'tc')} class {verb} dev {dev}"
        if verb == "del":
            return [f"{start} classid {handle}{minor}"]
        # mostly the same on all queues: others are refused when a class is added
        by = random.Random(minor) if self.rng.random() < .8 else self.rng
        rate, ceil = by.choice([(1, 20), (20, 20), (5, 100), (1000, 1000)])
        words = f"rate {rate}mbit ceil {ceil}mbit prio {by.choice([0, 0, 1, 7])}"
        local = " local" if self.rng.random() < .15 else ""
        return [f"{start} parent {handle}{above} classid {handle}{minor} htb {words}{local}"]

    def refusal(self, dev: str) -> list[str]:
        """Ask for what must be refused."""
        parent = self.parent(dev)[0] if self.tree(dev) else "root"
        words = self.rng.choice(TABLES["refused"]).replace("parent {parent}", f"parent {parent}")
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
        name = self.rng.choice(TABLES["modules"])
        if self.rng.random() < .5:
            return [f"rmmod {name}"]
        self.root = dict.fromkeys(QUEUES)
        return [f"unload {name}"]

    def failing(self, lines: list[str]) -> list[str]:
        """The same lines; an allocation fails in one of them, mostly in none.

        If there are more, that one is repeated until it has succeeded.
        """
        number = self.rng.randrange(len(lines))
        how = pick(self.rng, TABLES["failures"]).format(nth=self.rng.randrange(1, 30))
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

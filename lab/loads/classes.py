# SPDX-License-Identifier: GPL-2.0
"""Trees of classes, as htb has them, and the loads of their leaves, over many queues: classes.txt.

What each class should get is its rate, then, by priority and quantum, its part of what
others leave (ideal()). The same tree runs in the simulator of lab/sim/trees, and in a
kernel: run_trees() puts it on the device hop0 below one of CONTENDERS and meters classes.
"""

import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

from host.common import sections
from traffic.hop import NAME, Hop
from traffic.tcp import SEGMENT
from traffic.traffic import FRAME, tc

GBIT, MBIT = 1e9, 1e6
SECOND, MS, US = 10**9, 10**6, 10**3  # ns
NEVER = 2**62  # ns
GSO, HEADER = 65226, 54  # bytes, of a packet that is not split, and of each segment's header
BURST = 65536  # bytes, of each class of an htb that does not share its classes: with less, it
# loses what a class may send while others do
LOCKS = {10 * GBIT: 0.15, GBIT: 0.3, 100 * MBIT: 1}  # per packet, at most, from which rate on


@dataclass
class Class:
    """A class: bit/s, quantum in bytes. wants: bit/s of its flows, inf if they always send."""

    parent: int
    rate: float
    ceil: float
    quantum: int
    prio: int
    wants: float = 0
    children: list[int] = field(default_factory=list)


@dataclass
class Flow:
    """Packets of a leaf on a queue: their bytes, and ns from one to the next (0: always one more).

    They are sent from begin to stop, and then for `on` of each on + off; all ns.
    """

    leaf: int
    queue: int
    length: int
    gap: int
    on: int
    off: int
    begin: int
    stop: int


@dataclass
class Tree:
    """A tree, the loads of its leaves, and when they are looked at.

    end, start: that time, ns; start 0: the last four fifths of it. late: how late timers are
    on average, ns. bound: how much a class may be off what it should get, %; None: that is not
    known. used: of the rate at least, %. over: what the next hop may have to queue, KB; None:
    shown, not judged. locks: how often its lock may be taken per packet; None: as its ceil
    says. even: the members of each class that always send get the same within 1 %. changes:
    of classes, (ns, number, rate, ceil). sparse: numbers of flows whose waits count. tick:
    timers fire with the next one of their queue, ns. stop, every: a queue stops for so long,
    once in that time, ns. wake: what it costs to run a queue, ns, if one CPU runs them all.
    burst: of each class, bytes.
    """

    ceil: float
    end: int = SECOND
    start: int = 0
    late: int = 3 * US
    bound: float | None = 0.5
    used: float = 99.9
    over: float | None = 64
    locks: float | None = None
    even: bool = False
    tick: int = 0
    stop: int = 0
    every: int = 0
    wake: int = 0
    burst: int = 1600
    classes: list[Class] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    changes: list[tuple[int, int, int, int]] = field(default_factory=list)
    sparse: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.start or self.end // 5
        if self.locks is None:
            self.locks = next((most for least, most in LOCKS.items() if self.ceil >= least), None)
        self.classes.append(Class(-1, self.ceil, self.ceil, FRAME, 0))

    def add(self, parent: int, rate: float, ceil: float = 0, quantum: int = 20000,
            prio: int = 0) -> int:
        """Add a class (bit/s; ceil 0: that of the root) and return its number."""
        self.classes.append(Class(parent, rate, ceil or self.ceil, quantum, prio))
        self.classes[parent].children.append(len(self.classes) - 1)
        return len(self.classes) - 1

    def load(self, leaf: int, queues: Sequence[int], bps: float = 0, on: int = 0, off: int = 0,
             length: int = FRAME, begin: int = 0, stop: int = NEVER) -> None:
        """Flows of a leaf, one on each queue: bit/s each while on (ns), 0: always something."""
        gap = round(8e9 * length / bps) if bps else 0
        for queue in queues:
            self.flows.append(Flow(leaf, queue, length, gap, on, off, begin, stop))
            if stop >= self.end:
                part = on / (on + off) if off else 1
                self.classes[leaf].wants += bps * part if bps else float("inf")

    @property
    def due(self) -> float:
        """What all classes together should get, bit/s: the rate, or what they may send."""
        return wanted(self, max(one.prio for one in self.classes))[0]

    def text(self, seed: int) -> str:
        """What sim.c reads."""
        lines = [f"run {self.end} {self.start} {self.late} {seed}",
                 f"world {self.tick} {self.stop} {self.every} {self.wake} {self.burst}"]
        lines += [f"class {c.parent} {c.rate:.0f} {c.ceil:.0f} {c.quantum} {c.prio}"
                  for c in self.classes]
        lines += ["flow " + " ".join(map(str, astuple(flow))) for flow in self.flows]
        lines += ["change " + " ".join(map(str, change)) for change in self.changes]
        return "\n".join(lines) + "\n"


# ------------------------------------------------------- what it should be

def divided(amount: float, parts: Sequence[tuple[float, float]]) -> list[float]:
    """An amount by weight, to each no more than it wants; parts: (weight, wants)."""
    got = [0.0] * len(parts)
    open_ = [i for i, (_, wants) in enumerate(parts) if wants > 0]
    while open_ and amount > 1:
        level = amount / sum(parts[i][0] for i in open_)
        full = [i for i in open_ if parts[i][1] - got[i] <= level * parts[i][0]]
        for i in full or open_:
            more = parts[i][1] - got[i] if full else level * parts[i][0]
            got[i] += more
            amount -= more
        open_ = [i for i in open_ if i not in full] if full else []
    return got


def wanted(tree: Tree, prio: int) -> list[float]:
    """What each class would take, bit/s, if leaves of a later priority had their rate only."""
    wants = [0.0] * len(tree.classes)
    for number, one in reversed(list(enumerate(tree.classes))):  # children come after parents
        if one.children:
            inside = sum(wants[child] for child in one.children)
        elif one.prio <= prio:
            inside = one.wants
        else:
            inside = min(one.rate, one.wants)
        wants[number] = min(one.ceil, inside)
    return wants


def ideal(tree: Tree) -> list[float]:
    """What each class should get, bit/s: its max-min share.

    From the root down, what a class gets goes to its children: to each its rate, then the rest
    by quantum to those of the first priority, then to those of the next. The priority of a class
    with children is the first of those that want more below it.
    """
    prios = sorted({one.prio for one in tree.classes if not one.children})
    wants = [wanted(tree, prio) for prio in prios]  # the last: what they want in all
    gets = [0.0] * len(tree.classes)
    gets[0] = wants[-1][0]
    for number, one in enumerate(tree.classes):
        kids = [(child, tree.classes[child]) for child in one.children]
        rates = divided(gets[number], [(kid.rate, min(kid.rate, wants[-1][child]))
                                       for child, kid in kids])
        left = gets[number] - sum(rates)
        for (child, _), rate in zip(kids, rates):
            gets[child] = rate
        for want in wants:
            rest = divided(left, [(kid.quantum, max(want[child] - gets[child], 0))
                                  for child, kid in kids])
            left -= sum(rest)
            for (child, _), more in zip(kids, rest):
                gets[child] += more
    return gets


CONTENDERS = ("mq + htb shared", "htb", "mq + htb")
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "us": US, "ms": MS, "s": SECOND}
QUEUES = 8  # that "all" and "one" are of


def flat(count: int, queues: int, ceil: float) -> Tree:
    """Classes of the same rate, which always send on all queues; ceil: bit/s of all."""
    tree = Tree(ceil)
    for _ in range(count):
        tree.load(tree.add(0, ceil / count / 4), range(queues))
    return tree


def isp(busy: int = 2, queues: int = 8, light: bool = False) -> Tree:
    """Four sites of 2.5 to 3 Gbit with 50 customers of 10 to 500 Mbit, on queues at random.

    One of `busy` sends. light: three of four send 20 Mbit.
    """
    dice = random.Random(1)
    tree = Tree(10 * GBIT)
    for _ in range(4):
        site = tree.add(0, 2.5 * GBIT, 3 * GBIT)
        for number in range(50):
            leaf = tree.add(site, 10 * MBIT, 500 * MBIT, 4000)
            if number % busy:
                continue
            where = dice.sample(range(queues), dice.randrange(1, queues + 1))
            tree.load(leaf, where, bps=20 * MBIT / len(where) if light and number % 4 else 0)
    return tree


def deep() -> Tree:
    """Five levels, 216 leaves, 16 queues."""
    tree = Tree(10 * GBIT)
    level = [0]
    for depth, (children, part) in enumerate(((6, 1), (6, 1), (3, 1), (2, 1)), 1):
        below = []
        for parent in level:
            own = tree.classes[parent].rate * part / children
            below += [tree.add(parent, own * 0.8, own * (3 if depth > 1 else 2), 4000)
                      for _ in range(children)]
        level = below
    for number, leaf in enumerate(level):
        if number % 3:
            tree.load(leaf, range(16) if number % 2 else [number % 16])
    return tree


def at_random(seed: int, ceil: float = 10 * GBIT) -> Tree:
    """Five sites, up to 30 customers each, whatever the dice say."""
    dice = random.Random(seed)
    tree = Tree(ceil, end=SECOND if ceil > GBIT else 20 * SECOND, bound=2)
    mbit = ceil / 10000
    for _ in range(5):
        site = tree.add(0, dice.choice((0.5, 1, 1.5)) * 1000 * mbit,
                        dice.choice((2, 3, 10)) * 1000 * mbit,
                        dice.choice((2000, 10000, 50000)))
        for _ in range(dice.randrange(2, 30)):
            leaf = tree.add(site, dice.choice((5, 20)) * mbit,
                            dice.choice((100, 500, 2000)) * mbit,
                            dice.choice((1514, 4000, 20000)), dice.choice((0, 1)))
            where = dice.sample(range(8), dice.randrange(1, 9))
            tree.load(leaf, where, bps=dice.choice((0, 0, 1)) * dice.uniform(1, 40) * mbit)
    return tree


# ------------------------------------------------------------- the table

def value_of(text: str) -> float | None:
    """A figure of the table: bit/s, ns or without a unit, None for "none"."""
    if text == "none":
        return None
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", text).groups()
    value = float(number) * UNITS[unit]
    return round(value) if unit in ("us", "ms", "s") or number.isdigit() else value


def queues_of(text: str, number: int) -> Sequence[int]:
    """The queues that a class sends on, which is the number-th of its line."""
    one = text.split("/")
    one = one[number % len(one)]
    if one.startswith("one"):
        return [(number + int(one[3:] or 0)) % QUEUES]
    first, _, last = one.partition("-")
    return range(QUEUES) if one == "all" else range(int(first), int(last or first) + 1)


def add(tree: Tree, parent: int, number: int, words: Sequence[str]) -> int:
    """Add a class and what it sends; its number. number: in its line."""
    said = dict(zip(words[1::2], words[2::2]))
    leaf = tree.add(parent, value_of(words[0]), **{
        key: value_of(said[key]) for key in ("ceil", "quantum", "prio") if key in said})
    if "on" in said:
        queues = queues_of(said["on"], number)
        lengths = [int(length) for length in said.get("of", f"{FRAME}").split("/")]
        if words[-1] == "sparse":
            tree.sparse += range(len(tree.flows), len(tree.flows) + len(queues))
        times = {key: value_of(said[word]) for key, word in
                 (("begin", "from"), ("stop", "until"), ("on", "for"), ("off", "for"))
                 if word in said}
        for queue in queues:
            tree.load(leaf, [queue], value_of(said.get("sends", "0")),
                      length=lengths[queue % len(lengths)], **times)
    return leaf


def grow(tree: Tree, parent: int, lines: Sequence[str]) -> None:
    """Add what indented lines say below a class."""
    deep = [len(line) - len(line.lstrip()) for line in lines]
    tops = [at for at, here in enumerate(deep) if here == deep[0]]
    for start, end in itertools.pairwise([*tops, len(lines)]):
        words, inner = lines[start].split(), lines[start + 1:end]
        if words[1:] == ["times"]:
            for _ in range(int(words[0])):
                grow(tree, parent, inner)
            continue
        count, words = (int(words[0]), words[2:]) if words[1:2] == ["x"] else (1, words)
        for number in range(count):
            leaf = add(tree, parent, number, words)
            if inner:
                grow(tree, leaf, inner)


@dataclass
class Entry:
    """A tree of the table: what is behind its name, flags, and the lines below it."""

    words: dict[str, str]
    what: str
    flags: set[str]
    lines: list[str]

    def __call__(self) -> Tree:
        """The tree."""
        more = {key: value_of(value) for key, value in self.words.items()}
        if not self.lines:
            return {"isp": isp, "deep": deep, "at_random": at_random}[self.what](**more)
        other = more.pop("changes", None)  # the rate of all is this one, or its ceil, by turns
        tree = Tree(value_of(self.what), even="even" in self.flags, **more)
        grow(tree, 0, self.lines)
        if other:
            tree.changes = [(at, 0, int(rate), int(rate)) for at, rate in zip(
                range(10 * MS, tree.end, 10 * MS), itertools.cycle((other, tree.ceil)))]
        return tree


def read_trees() -> dict[str, Entry]:
    """{name: tree} of classes.txt."""
    found = {}
    for head, lines in sections(Path(__file__).with_suffix(".txt")):
        name, _, rest = head.partition(" = ")
        what, *words = rest.split()
        found[name] = Entry(dict(word.split("=") for word in words if "=" in word), what,
                            {word for word in words if "=" not in word}, lines)
    return found


TREES = read_trees()


# ------------------------------------------------------------- in a kernel

def above(tree: Tree, number: int) -> Iterator[int]:
    """A class and all above it."""
    while number >= 0:
        yield number
        number = tree.classes[number].parent


def class_lines(tree: Tree, handle: int, queue: int | None, shared: bool) -> list[str]:
    """What tc -batch reads to add the classes that are used on a queue (None: all) to an htb."""
    used = {0}
    for flow in tree.flows:
        if queue in (None, flow.queue):
            used.update(above(tree, flow.leaf))
    lines = []
    for number in sorted(used):
        one = tree.classes[number]
        burst = tree.burst if shared else BURST
        parent = f"{one.parent + 1:x}" if number else ""
        lines.append(f"class add dev {NAME} parent {handle:x}:{parent} classid "
                     f"{handle:x}:{number + 1:x} htb rate {one.rate:.0f}bit ceil "
                     f"{one.ceil:.0f}bit quantum {one.quantum} prio {one.prio} "
                     f"burst {burst} cburst {burst}")
        if any(flow.leaf == number and flow.length > FRAME for flow in tree.flows):
            lines.append(f"qdisc add dev {NAME} parent {handle:x}:{number + 1:x} pfifo limit 16")
    return lines


def handle(contender: str, queue: int) -> int:
    """Major number of the htb that a queue has."""
    return 0x10 + queue if " + " in contender else 1


def tree_lines(tree: Tree, contender: str, queues: int) -> list[str]:
    """What tc -batch reads to put a tree on hop0."""
    parent, _, shaper = contender.rpartition(" + ")
    if not parent:
        return [f"qdisc replace dev {NAME} root handle 1: {shaper}",
                *class_lines(tree, 1, None, False)]
    lines = [f"qdisc replace dev {NAME} root handle 1: {parent}"]
    for queue in range(queues):
        major = handle(contender, queue)
        lines += [f"qdisc add dev {NAME} parent 1:{queue + 1:x} handle {major:x}: {shaper}",
                  *class_lines(tree, major, queue, "shared" in shaper)]
    return lines


def priority(contender: str, queue: int, leaf: int) -> int:
    """That of an skb of a leaf: the class of htb that it is in on a queue."""
    return (handle(contender, queue) << 16) + leaf + 1


def run(tree: Tree, contender: str, hop: Hop) -> dict:
    """What the classes of a tree get: {"bps": of each, "used": of all, "excess": bytes that a
    next hop has to queue, "wait": the longest of each flow, s}."""
    hop.clear()
    tc(f"qdisc del dev {NAME} root", check=False)
    tc("-batch -", "\n".join(tree_lines(tree, contender, hop.queues)))
    # Packets that wait: those of 70 us, or what fits into the guest
    depth = max(64, min(int(tree.ceil / 8 * 70e-6 / FRAME), 8192 // len(tree.flows)))
    for flow in tree.flows:
        more = {"on": flow.on / 1e9, "off": flow.off / 1e9} if flow.off else {}
        if flow.gap:
            more |= {"mode": "paced", "rate": 8e9 * flow.length / flow.gap}
        if flow.length > FRAME:
            more["gso"] = SEGMENT
            if flow.gap:  # which is of the bytes that count, with the headers of all segments
                segments = math.ceil((flow.length - HEADER) / SEGMENT)
                more["rate"] /= 1 + (segments - 1) * HEADER / flow.length
            else:  # a saturating one would count the packets of all classes of the queue
                more |= {"mode": "paced", "rate": 1.5 * tree.ceil / len(tree.flows)}
        hop.stream(flow.queue, size=flow.length,
                   priority=priority(contender, flow.queue, flow.leaf), start=flow.begin / 1e9,
                   stop=flow.stop / 1e9 if flow.stop < tree.end else None,
                   depth=16 if flow.gap else depth, **more)
    hop.meter(tree.ceil, from_s=tree.start / 1e9)
    got = hop.run(tree.end / 1e9)
    bps = [0.0] * len(tree.classes)
    for flow, stream in zip(tree.flows, got["streams"]):
        for number in above(tree, flow.leaf):
            bps[number] += stream["bps"]
    return {"bps": bps, "excess": got["excess"]["bytes"],
            "wait": [stream["delay"]["max"] for stream in got["streams"]]}


def run_trees(spec: dict) -> Iterator[dict]:
    """Run the trees of a spec below its contenders. Runs in the guest.

    Those of others run what is shown of them only.
    """
    for name in spec["trees"]:
        tree = TREES[name]()
        hop = Hop(max(2, 1 + max(flow.queue for flow in tree.flows)))
        for contender, flag in zip(CONTENDERS, (None, "root", "each")):
            if contender in spec["contenders"] and (not flag or flag in TREES[name].flags):
                yield {"tree": name, "contender": contender, **run(tree, contender, hop)}
        hop.remove()

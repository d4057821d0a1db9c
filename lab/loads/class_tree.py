# SPDX-License-Identifier: GPL-2.0
"""Trees of classes, as htb has them, the loads of their leaves, and what each class should get.

That is its rate, then, by priority and quantum, its part of what others leave: ideal(). The
same tree runs in the simulator of lab/sim/trees, and in a kernel (class_run). class_table reads
trees from a list.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

from traffic.traffic import FRAME

GBIT, MBIT = 1e9, 1e6
SECOND, MS, US = 10**9, 10**6, 10**3  # ns
NEVER = 2**62  # ns
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
class ClassTree:
    """Classes, the root first, the loads of their leaves, and when they are looked at.

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

    def for_simulator(self, seed: int) -> str:
        """What lab/sim/trees/sim.c reads."""
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
    hungry = [i for i, (_, wants) in enumerate(parts) if wants > 0]
    while hungry and amount > 1:
        level = amount / sum(parts[i][0] for i in hungry)
        full = [i for i in hungry if parts[i][1] - got[i] <= level * parts[i][0]]
        for i in full or hungry:
            more = parts[i][1] - got[i] if full else level * parts[i][0]
            got[i] += more
            amount -= more
        hungry = [i for i in hungry if i not in full] if full else []
    return got


def wanted(tree: ClassTree, prio: int) -> list[float]:
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


def ideal(tree: ClassTree) -> list[float]:
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

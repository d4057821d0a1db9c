# SPDX-License-Identifier: GPL-2.0
"""make trees: a study for HTB over many queues. Nothing of it is in the series.

lab/measure/trees/sch_rate_tree.c is a scheduler that grants slots instead of packets: it
has a lock of its own, which a queue takes once per slot. Here it is compiled in user space,
and queues with loads of their own take slots from it in simulated time. What each class
gets is compared with what it should get: its rate, then, by priority and quantum, its
part of what others leave. RECORD=1 puts the table into results/trees.md.

What it does not show: CPU time, contention for the lock, a qdisc around it.
"""

import json
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tree.common import (
    BUILD,
    JOBS,
    RESULTS,
    ROOT,
    Die,
    command_line,
    result_file,
    run,
    say,
    verdict,
)

HERE = ROOT / "lab/measure/trees"
OUT = BUILD / "trees"
REPORT = "trees.md"
FRAME = 1514  # bytes
GBIT, MBIT = 1e9, 1e6
SECOND, MS, US = 10**9, 10**6, 10**3  # ns
NEVER = 2**62  # ns
USED = 99.9  # %, of the rate at least
SPARSE = 200  # us, that a packet of a class below its rate may wait at most
NAN = float("nan")


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
class Tree:
    """A tree, the loads of its leaves, and for how long they are looked at (ns).

    late: how late timers are on average, ns. bound: how much a class may be off what it
    should get, %; nan: that is not known. over: what the next hop may have to queue, KB; nan:
    shown, not judged. sparse: numbers of flows whose waits count.
    """

    ceil: float
    end: int = SECOND
    late: int = 3 * US
    bound: float = 0.5
    over: float = 64
    classes: list[Class] = field(default_factory=list)
    flows: list[tuple] = field(default_factory=list)
    changes: list[tuple] = field(default_factory=list)
    sparse: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
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
            self.flows.append((leaf, queue, length, gap, on, off, begin, stop))
            if stop >= self.end:
                part = on / (on + off) if off else 1
                self.classes[leaf].wants += bps * part if bps else float("inf")

    def text(self, seed: int) -> str:
        """What sim.c reads."""
        lines = [f"run {self.end} {self.end // 5} {self.late} {seed}"]
        lines += [f"class {c.parent} {c.rate:.0f} {c.ceil:.0f} {c.quantum} {c.prio}"
                  for c in self.classes]
        lines += ["flow " + " ".join(map(str, flow)) for flow in self.flows]
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


def ideal(tree: Tree) -> list[float]:
    """What each class should get, bit/s: rates first, then the rest by priority and quantum."""
    classes = tree.classes
    wants = [0.0] * len(classes)
    for number in reversed(range(len(classes))):
        one = classes[number]
        inside = sum(wants[child] for child in one.children) if one.children else one.wants
        wants[number] = min(one.ceil, inside)
    gets = [0.0] * len(classes)
    gets[0] = wants[0]
    for number, one in enumerate(classes):
        kids = one.children
        assured = divided(gets[number], [(classes[k].rate, min(classes[k].rate, wants[k]))
                                         for k in kids])
        gets_here = dict(zip(kids, assured))
        for prio in sorted({classes[k].prio for k in kids}):
            some = [k for k in kids if classes[k].prio == prio]
            rest = divided(gets[number] - sum(gets_here.values()),
                           [(classes[k].quantum, wants[k] - gets_here[k]) for k in some])
            for k, more in zip(some, rest):
                gets_here[k] += more
        for k, amount in gets_here.items():
            gets[k] = amount
    return gets


# ------------------------------------------------------------- the trees

def flat(count: int, queues: int = 8, every: int = 1, length: int = FRAME, **more) -> Tree:
    """Classes of the same rate that always send, on all queues or, of `every`, on one."""
    tree = Tree(10 * GBIT, end=SECOND // 2, **more)
    for number in range(count):
        leaf = tree.add(0, 10 * GBIT / count / 4)
        where = range(queues) if number % every == 0 else [number % queues]
        tree.load(leaf, where, length=length)
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


def overcommitted() -> Tree:
    """Rates of 24 Gbit below 10."""
    tree = Tree(10 * GBIT)
    for number, rate in enumerate((12, 6, 4, 2)):
        tree.load(tree.add(0, rate * GBIT), range(8) if number % 2 else [number])
    return tree


def crowded_site() -> Tree:
    """A site of 2.5 Gbit with 50 customers of 200 Mbit, beside one that takes the rest."""
    tree = Tree(10 * GBIT)
    site = tree.add(0, 2.5 * GBIT, 2.5 * GBIT)
    for number in range(50):
        tree.load(tree.add(site, 200 * MBIT, 1 * GBIT, 4000), range(8) if number % 2 else [0])
    tree.load(tree.add(0, 5 * GBIT), range(8))
    return tree


def ceils() -> Tree:
    """Eight classes, four of them with a ceil of 1 Gbit."""
    tree = Tree(10 * GBIT)
    for number in range(8):
        tree.load(tree.add(0, 100 * MBIT, (1 + 9 * (number % 2)) * GBIT), range(8))
    return tree


def priorities(alone: bool) -> Tree:
    """A class of priority 0 on one queue that always sends, or two that send 5 of 10 Gbit."""
    tree = Tree(10 * GBIT, bound=2)
    if alone:
        tree.load(tree.add(0, 100 * MBIT, prio=0), [0])
        for number in range(30):
            tree.load(tree.add(0, 100 * MBIT, prio=1), range(8) if number % 2 else [number % 8])
        return tree
    tree.load(tree.add(0, 100 * MBIT, prio=0), [0], bps=3 * GBIT)
    tree.load(tree.add(0, 100 * MBIT, prio=0), range(8), bps=GBIT / 4)
    tree.load(tree.add(0, 100 * MBIT, prio=1), range(8))
    tree.load(tree.add(0, 100 * MBIT, prio=2), range(8))
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


def on_off(period: int) -> Tree:
    """Four classes that always send beside four that are on for a time and off for as long."""
    tree = Tree(10 * GBIT, bound=NAN)
    for _ in range(4):
        tree.load(tree.add(0, 100 * MBIT), range(8))
    for _ in range(4):
        tree.load(tree.add(0, 100 * MBIT), range(8), on=period, off=period)
    return tree


def slow() -> Tree:
    """20 Mbit."""
    tree = Tree(20 * MBIT, end=5 * SECOND)
    for number in range(4):
        tree.load(tree.add(0, 2 * MBIT, 20 * MBIT if number else 5 * MBIT),
                  range(8) if number < 2 else [number])
    return tree


def fast() -> Tree:
    """100 Gbit, 64 queues."""
    tree = Tree(100 * GBIT, end=SECOND // 5, over=NAN)
    for number in range(16):
        tree.load(tree.add(0, 3 * GBIT, (5 if number % 4 == 0 else 100) * GBIT), range(64))
    return tree


def sparse(rate: float, busy: int, share: float = 0.25) -> Tree:
    """Two classes that send 1/10 of their rate, beside some that always send.

    share: of the rate of the root that the rates of the others add up to.
    """
    tree = Tree(rate)
    for _ in range(busy):
        tree.load(tree.add(0, rate * share / busy), range(8))
    for queue in range(2):
        leaf = tree.add(0, rate / 100)
        tree.sparse.append(len(tree.flows))
        tree.load(leaf, [queue], bps=rate / 1000)
    return tree


def sparse_site() -> Tree:
    """Four sites, each with 28 customers that always send and two that hardly do."""
    tree = Tree(10 * GBIT)
    for _ in range(4):
        site = tree.add(0, 2.5 * GBIT, 3 * GBIT)
        for number in range(30):
            leaf = tree.add(site, 10 * MBIT, 500 * MBIT)
            if number < 2:
                tree.sparse.append(len(tree.flows))
                tree.load(leaf, [number], bps=5 * MBIT)
            else:
                tree.load(leaf, range(8) if number % 2 == 0 else [number % 8])
    return tree


def at_random(seed: int) -> Tree:
    """Five sites, up to 30 customers each, whatever the dice say."""
    dice = random.Random(seed)
    tree = Tree(10 * GBIT, bound=2)
    for _ in range(5):
        site = tree.add(0, dice.choice((0.5, 1, 1.5)) * GBIT, dice.choice((2, 3, 10)) * GBIT,
                        dice.choice((2000, 10000, 50000)))
        for _ in range(dice.randrange(2, 30)):
            leaf = tree.add(site, dice.choice((5, 20)) * MBIT,
                            dice.choice((100, 500, 2000)) * MBIT,
                            dice.choice((1514, 4000, 20000)), dice.choice((0, 1)))
            where = dice.sample(range(8), dice.randrange(1, 9))
            tree.load(leaf, where, bps=dice.choice((0, 0, 1)) * dice.uniform(1, 40) * MBIT)
    return tree


def changing() -> Tree:
    """The rate of all goes from 10 to 1 Gbit and back every 10 ms."""
    tree = flat(8, bound=NAN, over=NAN)
    tree.changes = [(at * 10 * MS, 0, int(rate), int(rate)) for at, rate in
                    zip(range(1, 50), (GBIT, 10 * GBIT) * 25)]
    return tree


TREES: dict[str, Callable[[], Tree]] = {
    "2 classes on 8 queues": lambda: flat(2),
    "8 classes, every other on one queue": lambda: flat(8, every=2),
    "32 classes on 8 queues": lambda: flat(32),
    "128 classes, every other on one queue": lambda: flat(128, every=2),
    "8 classes, 64 KB GSO": lambda: flat(8, length=65226, over=NAN),
    "8 classes, timers late by 50 us": lambda: flat(8, late=50 * US, over=NAN),
    "rates of 24 Gbit below 10": overcommitted,
    "4 of 8 classes have a ceil of 1 Gbit": ceils,
    "a site of 2.5 Gbit, 50 customers of 200 Mbit": crowded_site,
    "4 sites, 50 customers each, half of them send": isp,
    "4 sites, all send, 32 queues": lambda: isp(busy=1, queues=32),
    "4 sites, three of four customers send 20 Mbit": lambda: isp(busy=1, light=True),
    "priority 0 sends 5 of 10 Gbit": lambda: priorities(alone=False),
    "priority 0 on one queue, 30 classes after it": lambda: priorities(alone=True),
    "five levels, 216 leaves, 16 queues": deep,
    "20 Mbit": slow,
    "100 Gbit, 64 queues": fast,
    **{f"at random, {seed}": lambda seed=seed: at_random(seed) for seed in range(1, 9)},
    "on and off every ms": lambda: on_off(MS),
    "on and off every 20 ms": lambda: on_off(20 * MS),
    "the rate changes 100 times a second": changing,
    "sparse beside 8, 1 Gbit": lambda: sparse(GBIT, 8),
    "sparse beside 32, 1 Gbit": lambda: sparse(GBIT, 32),
    "sparse beside rates of 32 Gbit below 10": lambda: sparse(10 * GBIT, 8, share=3.2),
    "sparse on busy sites": sparse_site,
}


# ----------------------------------------------------------- the simulator

def build() -> None:
    """Compile the simulator with the scheduler."""
    sources = [HERE / name for name in ("sch_rate_tree.c", "net/sch_rate_tree.h", "sim.c")]
    for source in sources:
        for header in re.findall(r"#include <(linux/[^>]+)>", source.read_text()):
            path = OUT / "include" / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#include <shim.h>\n")
    run(["gcc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wno-address-of-packed-member", "-I",
         OUT / "include", "-I", HERE, sources[0], sources[2], "-lm", "-o", OUT / "sim"],
        "trees-build", "building the simulator", 2)


@dataclass
class Row:
    """Of a tree: %, %, KB, us, per packet; nan where there is nothing to tell."""

    name: str
    tree: Tree
    used: float
    worst: float
    excess: float
    wait: float
    locks: float

    def wrong(self) -> list[str]:
        """What is out of its bound."""
        beyond = {"the rate is not used": USED - self.used,
                  "a class gets too little or too much": abs(self.worst) - self.tree.bound,
                  "too much is sent at once": self.excess - self.tree.over,
                  "a class below its rate waits too long": self.wait - SPARSE}
        return [f"{self.name}: {what}" for what, by in beyond.items() if by > 0]


def measure(name: str) -> Row:
    """Simulate a tree."""
    tree = TREES[name]()
    done = subprocess.run([OUT / "sim"], input=tree.text(seed=1), capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Die(f"{name}: the simulator ended with {done.returncode}: {done.stderr}")
    got = json.loads(done.stdout)
    should = ideal(tree)
    rates = [rate for at, *_, rate in tree.changes if at >= tree.end // 5] or [should[0]]
    off = [100 * (one["bps"] / want - 1)
           for c, one, want in zip(tree.classes, got["classes"], should)
           if not c.children and want > 0 and c.wants == float("inf")]
    return Row(name, tree, 100 * got["classes"][0]["bps"] * len(rates) / sum(rates),
               max(off, key=abs) if tree.bound == tree.bound else NAN,
               got["classes"][0]["peak"] / 1000,
               max((got["flows"][f]["longest"] / 1000 for f in tree.sparse), default=NAN),
               got["locks"] / got["packets"])


def table(rows: Sequence[Row]) -> list[str]:
    """As lines of text."""
    lines = [f"{'':<48}{'used, %':>9}{'worst class, %':>16}{'excess, KB':>12}"
             f"{'longest wait, us':>18}{'locks/packet':>14}"]
    for row in rows:
        cells = (f"{row.used:.3f}", f"{row.worst:+.3f}", f"{row.excess:.1f}", f"{row.wait:.0f}",
                 f"{row.locks:.2f}")
        lines.append(f"{row.name:<48}" + "".join(
            f"{'-' if 'nan' in cell else cell:>{width}}"
            for cell, width in zip(cells, (9, 16, 12, 18, 14))))
    return lines


def main(argv: Sequence[str]) -> None:
    """Simulate all trees, or those named; judge; all: put the table into the report."""
    parser = command_line("trees", __doc__, record=True)
    parser.add_argument("name", nargs="*", help="what the name of a tree contains (all)")
    wanted = parser.parse_args(argv).name
    build()
    names = [name for name in TREES if not wanted or any(w in name for w in wanted)]
    say(f"{len(names)} trees (about 40 s)")
    with ThreadPoolExecutor(JOBS) as pool:
        rows = list(pool.map(measure, names))
    print("\n".join(["", *table(rows), ""]))
    if not wanted:
        before, _, rest = (RESULTS / REPORT).read_text().partition("\n```\n")
        after = rest.partition("```\n")[2]
        result_file(REPORT).write_text("\n".join([before, "```", *table(rows), "```"])
                                       + "\n" + after)
    verdict(sum(not row.wrong() for row in rows), [line for row in rows for line in row.wrong()])

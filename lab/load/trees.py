# SPDX-License-Identifier: GPL-2.0
"""Trees of classes, as htb has them, and the loads of their leaves, over many queues.

What each class should get is its rate, then, by priority and quantum, its part of what
others leave (ideal()). The same tree runs in the simulator of lab/measure/trees, and in a
kernel: run_trees() puts it on the device hop0 below one of CONTENDERS and meters classes.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence

from load.hop import NAME, Hop
from load.shares import BURST, GBIT, GSO, HEADER, LOCKS, MBIT, MS, SECOND, US, Tree
from load.tcp import SEGMENT
from load.traffic import FRAME, tc

CONTENDERS = ("mq + htb shared", "htb", "mq + htb")


# ------------------------------------------------------------- the trees

def flat(count: int, queues: int = 8, every: int = 1, length: int = FRAME,
         ceil: float = 10 * GBIT, **more) -> Tree:
    """Classes of the same rate that always send, on all queues or, of `every`, on one."""
    tree = Tree(ceil, end=SECOND // 2, **more)
    for number in range(count):
        leaf = tree.add(0, ceil / count / 4)
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


def few_packets() -> Tree:
    """A site of 2.5 Gbit with two classes that always send and one that sends half its rate."""
    tree = Tree(10 * GBIT)
    tree.load(tree.add(0, 7.5 * GBIT, quantum=10000), range(4))
    site = tree.add(0, 2.5 * GBIT, quantum=10000)
    for rate, quantum in ((GBIT, 1514), (0.1 * GBIT, 60000)):
        tree.load(tree.add(site, rate, quantum=quantum), range(4))
    tree.load(tree.add(site, GBIT, quantum=1514), [0], bps=GBIT / 2)
    return tree


def long_rounds() -> Tree:
    """25 classes on 8 queues, 100 Mbit: a round takes 24 ms."""
    tree = Tree(100 * MBIT, end=10 * SECOND)
    for number in range(25):
        rate, quantum = ((1.2 * MBIT, 15140), (6 * MBIT, 1514))[number % 2]
        tree.load(tree.add(0, rate, quantum=quantum), range(8))
    return tree


def one_queue() -> Tree:
    """Priority 0 on one queue can have 59 of 100 Gbit."""
    tree = Tree(100 * GBIT, end=SECOND // 10, bound=2, over=None)
    tree.load(tree.add(0, GBIT, prio=0), [0])
    tree.load(tree.add(0, GBIT, prio=1), range(8))
    for queue in (1, 2):
        tree.load(tree.add(0, 20 * GBIT, prio=1), [queue])
    return tree


def low_ceil() -> Tree:
    """A site of 200 Mbit with four customers of 25, one of which has a ceil of 40."""
    tree = Tree(10 * GBIT, end=2 * SECOND)
    tree.load(tree.add(0, 9.8 * GBIT), range(4))
    site = tree.add(0, 200 * MBIT, 200 * MBIT)
    for queue in range(4):
        tree.load(tree.add(site, 25 * MBIT, (200 if queue else 40) * MBIT), [queue])
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
    tree = Tree(10 * GBIT, bound=None)
    for _ in range(4):
        tree.load(tree.add(0, 100 * MBIT), range(8))
    for _ in range(4):
        tree.load(tree.add(0, 100 * MBIT), range(8), on=period, off=period)
    return tree


def starts(queues: Sequence[int], rate: float = 10 * GBIT) -> Tree:
    """A class that starts beside eight that always send: its first 5 ms."""
    tree = Tree(rate, start=100 * MS, end=105 * MS, bound=10)
    for _ in range(8):
        tree.load(tree.add(0, rate / 40), range(8))
    tree.load(tree.add(0, rate / 40), queues, begin=tree.start)
    return tree


def relieved() -> Tree:
    """A site without a rate, for whose classes there was too little: soon after there is enough,
    one of priority 0 has its part."""
    tree = Tree(GBIT, start=550 * MS, end=650 * MS)
    tree.load(tree.add(0, 998 * MBIT), [0], stop=500 * MS)
    site = tree.add(0, 8000)
    tree.load(tree.add(site, 500 * MBIT, prio=1), [1])
    tree.load(tree.add(site, 400 * MBIT, prio=1), [2], begin=500 * MS)
    tree.load(tree.add(site, 8000, prio=0), [3], bps=50 * MBIT, begin=500 * MS)
    return tree


def goes_on() -> Tree:
    """A site of 100 Mbit on an idle link, of whose two classes the one that goes first stops."""
    tree = Tree(10 * GBIT, start=520 * MS, end=720 * MS, locks=LOCKS[100 * MBIT])
    site = tree.add(0, 100 * MBIT, 100 * MBIT)
    tree.load(tree.add(site, MBIT, 100 * MBIT, prio=7), [0])
    tree.load(tree.add(site, MBIT, 100 * MBIT), [1], stop=500 * MS)
    return tree


def slow_site() -> Tree:
    """A site of 20 Mbit on a link of 1 Gbit, one of whose classes sends 64 KB at a time."""
    tree = Tree(GBIT, end=10 * SECOND, bound=2, over=None)
    tree.load(tree.add(0, 980 * MBIT), [0])
    site = tree.add(0, 20 * MBIT)
    tree.load(tree.add(site, 10 * MBIT, prio=2), [1])
    tree.load(tree.add(site, 9 * MBIT, prio=2), [2], length=GSO)
    tree.load(tree.add(site, 0.5 * MBIT, prio=1), [3])
    return tree


def in_turn() -> Tree:
    """20 classes that send 64 KB at a time, below their rates, and one of a priority before."""
    tree = Tree(100 * MBIT, end=10 * SECOND, over=None)
    for number in range(20):
        tree.load(tree.add(0, 4 * MBIT, prio=1), [number % 8], bps=3.6 * MBIT, length=GSO)
    tree.load(tree.add(0, 10 * MBIT), range(2))
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
    tree = Tree(100 * GBIT, end=SECOND // 5, over=None)
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


def light(part: float, length: int) -> Tree:
    """Eight classes on as many queues that send a part of 10 Gbit, in packets of a length."""
    tree = Tree(10 * GBIT, end=SECOND // 4, bound=None)
    for _ in range(8):
        leaf = tree.add(0, GBIT)
        tree.sparse += range(len(tree.flows), len(tree.flows) + 8)
        tree.load(leaf, range(8), bps=part * tree.ceil / 64, length=length)
    return tree


def members(count: int, rate: float, part: float = 0, **more) -> Tree:
    """A class on so many queues that always send, or a part of the rate."""
    tree = Tree(rate, end=SECOND if rate < GBIT else SECOND // 4, bound=None if part else 1, **more)
    tree.load(tree.add(0, rate / 2), range(count), bps=part * rate / count)
    return tree


def lengths(*some: int) -> Tree:
    """Two classes on eight queues, each of which has packets of one of some lengths."""
    tree = Tree(10 * GBIT, end=SECOND // 2, over=None, even=True)
    for rate in (5 * GBIT, 2 * GBIT):
        leaf = tree.add(0, rate)
        for queue in range(8):
            tree.load(leaf, [queue], length=some[queue % len(some)])
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


def changing() -> Tree:
    """The rate of all goes from 10 to 1 Gbit and back every 10 ms."""
    tree = flat(8, bound=None, over=None)
    tree.changes = [(at * 10 * MS, 0, int(rate), int(rate)) for at, rate in
                    zip(range(1, 50), (GBIT, 10 * GBIT) * 25)]
    return tree


TREES: dict[str, Callable[[], Tree]] = {
    "2 classes on 8 queues": lambda: flat(2),
    "8 classes, every other on one queue": lambda: flat(8, every=2),
    "32 classes on 8 queues": lambda: flat(32),
    "128 classes, every other on one queue": lambda: flat(128, every=2),
    # 64 KB take longer than slots are granted ahead: one at a time
    "8 classes, 64 KB GSO": lambda: flat(8, length=GSO, over=None, locks=1.1),
    "rates of 24 Gbit below 10": overcommitted,
    "4 of 8 classes have a ceil of 1 Gbit": ceils,
    "a site of 2.5 Gbit, 50 customers of 200 Mbit": crowded_site,
    "4 sites, 50 customers each, half of them send": isp,
    "4 sites, all send, 32 queues": lambda: isp(busy=1, queues=32),
    "4 sites, three of four customers send 20 Mbit": lambda: isp(busy=1, light=True),
    "priority 0 sends 5 of 10 Gbit": lambda: priorities(alone=False),
    "priority 0 on one queue, 30 classes after it": lambda: priorities(alone=True),
    "a class of few packets in a site": few_packets,
    "25 classes on 8 queues, 100 Mbit": long_rounds,
    "priority 0 on one queue, 100 Gbit": one_queue,
    "a ceil of 40 Mbit in a site of 200": low_ceil,
    "a site without a rate, after others stop": relieved,
    "a site of 100 Mbit, one of two goes on": goes_on,
    "a site of 20 Mbit, 64 KB GSO, 1 Gbit": slow_site,
    "20 classes take turns, 64 KB GSO, 100 Mbit": in_turn,
    "five levels, 216 leaves, 16 queues": deep,
    "20 Mbit": slow,
    "100 Gbit, 64 queues": fast,
    **{f"at random, {seed}": lambda seed=seed: at_random(seed) for seed in range(1, 9)},
    **{f"at random, {seed}, 100 Mbit": lambda seed=seed: at_random(seed, 100 * MBIT)
       for seed in range(1, 4)},
    "on and off every ms": lambda: on_off(MS),
    "on and off every 20 ms": lambda: on_off(20 * MS),
    "a class starts on one queue: first 5 ms": lambda: starts([0]),
    "a class starts on all queues: first 5 ms": lambda: starts(range(8)),
    "the same on one queue, 1 Gbit": lambda: starts([0], GBIT),
    "sparse beside 8, 1 Gbit": lambda: sparse(GBIT, 8),
    "sparse beside 32, 1 Gbit": lambda: sparse(GBIT, 32),
    "sparse beside rates of 32 Gbit below 10": lambda: sparse(10 * GBIT, 8, share=3.2),
    "sparse on busy sites": sparse_site,
    "20 % of 10 Gbit in packets of 64 bytes": lambda: light(0.2, 64),
    "60 % of 10 Gbit in packets of 1514 bytes": lambda: light(0.6, FRAME),
}

# Not in the kernel: the lab changes no rates there, and its timers are not late
SIMULATED: dict[str, Callable[[], Tree]] = {
    "8 classes, timers late by 50 us": lambda: flat(8, late=50 * US, over=None),
    "the rate changes 100 times a second": changing,
    **{f"{count} of a class, {rate / GBIT:g} Gbit{f', {part:.0%} of it' if part else ''}":
       lambda count=count, rate=rate, part=part: members(count, rate, part)
       for rate in (100 * MBIT, GBIT, 10 * GBIT) for count in (1, 8, 40) for part in (0, 0.6)},
    "packets of 1450 and 1514 bytes": lambda: lengths(1450, FRAME),
    "packets of 1513 and 1514 bytes": lambda: lengths(1513, FRAME),
    "packets of 64 KB and 1514 bytes": lambda: lengths(GSO, FRAME),
    **{f"{count} of a class, ticks of {tick} ms": lambda count=count, tick=tick: members(
        count, 10 * GBIT, tick=tick * MS, used=99, over=None)
        for tick in (4, 10) for count in (1, 8, 40)},
    **{f"{count} of a class, stops of 5 ms": lambda count=count: members(
        count, 10 * GBIT, stop=5 * MS, every=100 * MS, used=99, over=None) for count in (1, 8, 40)},
    **{f"{count} of a class, one CPU, 40 us to run a queue": lambda count=count: members(
        count, 2 * GBIT, wake=40 * US, burst=65536, over=None) for count in (2, 8, 40)},
}
TREES.update(SIMULATED)


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

    only: {contender: the trees that it runs, if not all}.
    """
    for name in spec["trees"]:
        tree = TREES[name]()
        hop = Hop(max(2, 1 + max(flow.queue for flow in tree.flows)))
        for contender in spec["contenders"]:
            if contender not in spec["only"] or name in spec["only"][contender]:
                yield {"tree": name, "contender": contender,
                       **run(tree, contender, hop)}
        hop.remove()

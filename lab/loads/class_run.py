# SPDX-License-Identifier: GPL-2.0
"""Trees of classes in a kernel: on the device hop0 below one of CONTENDERS, and what they get.

run_trees() runs in the guest.
"""

import math
from collections.abc import Iterator
from typing import Any

from traffic.hop import NAME, Hop
from traffic.tcp import SEGMENT
from traffic.traffic import FRAME, tc

from loads.class_table import TREES
from loads.class_tree import ClassTree, Flow

CONTENDERS = ("mq + htb shared", "htb", "mq + htb")
FLAGS = (None, "root", "each")  # of a tree that is shown below these; None: all are
HEADER = 54  # bytes, of each segment
BURST = 65536  # bytes, of each class of an htb that does not share its classes: with less, it
# loses what a class may send while others do
WAITING = 70e-6  # s that packets of a class which always sends are to last
FITS = 8192  # packets that fit into the guest


def above(tree: ClassTree, number: int) -> Iterator[int]:
    """A class and all above it."""
    while number >= 0:
        yield number
        number = tree.classes[number].parent


# ---------------------------------------------------------------- for tc

def htb_major(contender: str, queue: int) -> int:
    """Major number of the htb that a queue has."""
    return 0x10 + queue if " + " in contender else 1


def skb_priority(contender: str, queue: int, leaf: int) -> int:
    """That of a leaf's packets on a queue: by it, htb knows their class."""
    return (htb_major(contender, queue) << 16) + leaf + 1


def class_lines(tree: ClassTree, major: int, queue: int | None, shared: bool) -> list[str]:
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
        lines.append(f"class add dev {NAME} parent {major:x}:{parent} classid "
                     f"{major:x}:{number + 1:x} htb rate {one.rate:.0f}bit ceil "
                     f"{one.ceil:.0f}bit quantum {one.quantum} prio {one.prio} "
                     f"burst {burst} cburst {burst}")
        if any(flow.leaf == number and flow.length > FRAME for flow in tree.flows):
            lines.append(f"qdisc add dev {NAME} parent {major:x}:{number + 1:x} pfifo limit 16")
    return lines


def tree_lines(tree: ClassTree, contender: str, queues: int) -> list[str]:
    """What tc -batch reads to put a tree on hop0."""
    parent, _, shaper = contender.rpartition(" + ")
    if not parent:
        return [f"qdisc replace dev {NAME} root handle 1: {shaper}",
                *class_lines(tree, 1, None, False)]
    lines = [f"qdisc replace dev {NAME} root handle 1: {parent}"]
    for queue in range(queues):
        major = htb_major(contender, queue)
        lines += [f"qdisc add dev {NAME} parent 1:{queue + 1:x} handle {major:x}: {shaper}",
                  *class_lines(tree, major, queue, "shared" in shaper)]
    return lines


# ------------------------------------------------------------ in the guest

def stream_of(tree: ClassTree, flow: Flow, contender: str) -> dict[str, Any]:
    """What Hop.stream() takes for a flow."""
    depth = max(64, min(int(tree.ceil / 8 * WAITING / FRAME), FITS // len(tree.flows)))
    words = {"queue": flow.queue, "size": flow.length,
             "priority": skb_priority(contender, flow.queue, flow.leaf),
             "start": flow.begin / 1e9, "stop": flow.stop / 1e9 if flow.stop < tree.end else None,
             "depth": 16 if flow.gap else depth}
    if flow.off:
        words |= {"on": flow.on / 1e9, "off": flow.off / 1e9}
    if flow.gap:
        words |= {"mode": "paced", "rate": 8e9 * flow.length / flow.gap}
    if flow.length > FRAME:
        words["gso"] = SEGMENT
        if flow.gap:  # which is of the bytes that count, with the headers of all segments
            segments = math.ceil((flow.length - HEADER) / SEGMENT)
            words["rate"] /= 1 + (segments - 1) * HEADER / flow.length
        else:  # a saturating one would count the packets of all classes of the queue
            words |= {"mode": "paced", "rate": 1.5 * tree.ceil / len(tree.flows)}
    return words


def run_tree(tree: ClassTree, contender: str, hop: Hop) -> dict:
    """What the classes of a tree get: {"bps": of each, "excess": bytes that a next hop has to
    queue, "wait": the longest of each flow, s}."""
    hop.clear()
    tc(f"qdisc del dev {NAME} root", check=False)
    tc("-batch -", "\n".join(tree_lines(tree, contender, hop.queues)))
    for flow in tree.flows:
        hop.stream(**stream_of(tree, flow, contender))
    got = hop.between(tree.ceil, tree.start / 1e9, tree.end / 1e9)
    bps = [0.0] * len(tree.classes)
    for flow, stream in zip(tree.flows, got["streams"]):
        for number in above(tree, flow.leaf):
            bps[number] += stream["bps"]
    return {"bps": bps, "excess": got["excess"]["bytes"],
            "wait": [stream["delay"]["max"] for stream in got["streams"]]}


def run_trees(spec: dict) -> Iterator[dict]:
    """Run the trees of a spec below its contenders. Runs in the guest.

    spec: "trees", names in TREES, and "contenders". Those but the first run only trees that have
    their flag.
    """
    for name in spec["trees"]:
        tree = TREES[name]()
        hop = Hop(max(2, 1 + max(flow.queue for flow in tree.flows)))
        for contender, flag in zip(CONTENDERS, FLAGS):
            if contender in spec["contenders"] and (not flag or flag in TREES[name].flags):
                yield {"tree": name, "contender": contender, **run_tree(tree, contender, hop)}
        hop.remove()

# SPDX-License-Identifier: GPL-2.0
"""make trees: classes with rates over many queues, against what they should get.

First the unchanged net/sched/sch_rate_tree.c, compiled in user space: queues with loads of
their own take slots from it in simulated time. Then the patched kernel in virtual time, where
the same trees are htb below mq, with "shared". --compare runs them as one htb at the root and
as unshared ones below mq as well, which is shown and not judged; that of all is recorded.

What it does not show: CPU time, and contention for the lock.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from guest.boot import boot_script
from host.common import BUILD, JOBS, ROOT, Die, parallel, run, say, told
from host.results import keep_result, verdict
from host.table import Table
from loads.class_run import CONTENDERS
from loads.class_table import TREES
from loads.class_tree import GBIT, ClassTree, ideal
from series import kernel
from sim import fuzz

HERE = ROOT / "lab/sim/trees"
OUT = BUILD / "trees"
OURS = CONTENDERS[0]
SPARSE = {10 * GBIT: 60, GBIT: 150, 0: 1000}  # us, that a packet of a class below its rate may
# wait at most, from which rate on
EVEN = 1  # %, that members of a class may differ


# ----------------------------------------------------------- the simulator

def build() -> None:
    """Compile the simulator. It ends where lists, trees or the lock are misused."""
    part = fuzz.Part("tree")
    part.shims()
    OUT.mkdir(parents=True, exist_ok=True)
    # One queue at a time: none comes between, as in make fuzz
    run([*part.compiler("-USHIM_RACES", "-include", "assert.h", "-Dshim_must=assert"),
         part.source, HERE / "sim.c", "-lm", "-o", OUT / "sim"],
        "trees-build", "building the simulator", 2)


@dataclass
class Row:
    """Of a tree: %, %, KB, us, per packet twice; None where there is nothing to tell.

    uneven: how far the worst member of a class that always sends is off the others, %. contender:
    what carries it, "" in the simulator.
    """

    name: str
    tree: ClassTree
    used: float
    worst: float | None
    excess: float
    wait: float | None
    locks: float | None = None
    kicks: float | None = None
    uneven: float | None = None
    contender: str = ""

    def figures(self) -> dict:
        """What is told of it."""
        return {key: value for key, value in vars(self).items() if key != "tree"}

    def wrong(self) -> list[str]:
        """What is out of its bound."""
        bad = {"the rate is not used": self.used < self.tree.used,
               "a class gets too little or too much":
                   self.tree.bound is not None and abs(self.worst) > self.tree.bound,
               "too much is sent at once":
                   self.tree.over is not None and self.excess > self.tree.over,
               "a class below its rate waits too long":
                   self.wait is not None and self.wait > next(
                       most for rate, most in SPARSE.items() if self.tree.ceil >= rate),
               "members of a class do not get the same":
                   self.uneven is not None and self.tree.even and self.uneven > EVEN,
               "the lock is taken too often":
                   None not in (self.tree.locks, self.locks) and self.locks > self.tree.locks}
        where = f"{self.name}, {self.contender}" if self.contender else self.name
        return [f"{where}: {what}" for what, so in bad.items() if so]


def off(tree: ClassTree, got: Sequence[float]) -> float | None:
    """How far the worst class that always sends is off what it should get, %, if that is known."""
    if tree.bound is None:
        return None
    return max((100 * (bps / want - 1) for c, bps, want in zip(tree.classes, got, ideal(tree))
                if not c.children and want > 0 and c.wants == float("inf")), key=abs)


def uneven(tree: ClassTree, got: Sequence[float]) -> float | None:
    """How far the worst member of a class that always sends is off the mean of these, %."""
    classes: dict[int, list[float]] = {}
    for flow, bps in zip(tree.flows, got):
        if not (flow.gap or flow.off):
            classes.setdefault(flow.leaf, []).append(bps)
    means = {leaf: sum(some) / len(some) for leaf, some in classes.items() if len(some) > 1}
    return max((100 * abs(bps / means[leaf] - 1) for leaf in means for bps in classes[leaf]
                if means[leaf]), default=None)


def simulate(name: str) -> Row:
    """A tree in the simulator."""
    tree = TREES[name]()
    done = told(OUT / "sim", input=tree.for_simulator(seed=1))
    if done.returncode:
        raise Die(f"{name}: the simulator ended with {done.returncode}: {done.stderr}")
    got = json.loads(done.stdout)
    bps = [one["bps"] for one in got["classes"]]
    rates = [rate for at, *_, rate in tree.changes if at >= tree.start] or [tree.due]
    return Row(name, tree, 100 * bps[0] * len(rates) / sum(rates),
               off(tree, bps),
               got["classes"][0]["peak"] / 1000,
               max((got["flows"][f]["longest"] / 1000 for f in tree.sparse), default=None),
               got["locks"] / got["packets"], got["kicks"] / got["packets"],
               uneven(tree, [flow["bps"] for flow in got["flows"]]))


def boot(names: Sequence[str], contenders: Sequence[str], job: int) -> list[Row]:
    """Trees in the patched kernel."""
    rows, _ = boot_script("um", f"trees-{job}", "loads.class_run:run_trees",
                          {"trees": names, "contenders": contenders},
                          hop=kernel.module("patched"), virtual=True, timeout=1500)
    return [in_kernel(row) for row in rows]


def in_kernel(row: dict) -> Row:
    """What loads.class_run.run_tree() has measured."""
    tree = TREES[row["tree"]]()
    return Row(row["tree"], tree, 100 * row["bps"][0] / tree.due,
               off(tree, row["bps"]), row["excess"] / 1000,
               max((row["wait"][f] * 1e6 for f in tree.sparse), default=None),
               contender=row["contender"])


FIGURES = (
    ("", "name", "", -48), ("used, %", "used", ".3f", 9), ("worst class, %", "worst", "+.3f", 16),
    ("excess, KB", "excess", ".1f", 12), ("longest wait, us", "wait", ".0f", 18),
    ("locks/packet", "locks", ".2f", 14), ("kicks/packet", "kicks", ".4f", 14))
CELLS = Table(  # of a contender
    ("used, %", "used", ".3f", 10), ("worst, %", "worst", "+.3f", 10),
    ("excess, KB", "excess", ".1f", 12), ("wait, us", "wait", ".0f", 9))


def table(rows: Sequence[dict]) -> list[str]:
    """As lines of text."""
    more = [("uneven, %", "uneven", ".2f", 11)] * any(row["uneven"] is not None for row in rows)
    return Table(*FIGURES, *more).lines(rows)


def kernel_table(rows: Sequence[dict]) -> list[str]:
    """As lines of text: a tree each, and what it is below each contender."""
    contenders = [c for c in CONTENDERS if any(row["contender"] == c for row in rows)]
    head, = CELLS.head()
    lines = [f"{'':<48}" + "".join(f"{c:^{len(head)}}" for c in contenders).rstrip(),
             f"{'':<48}" + head * len(contenders)]
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = {row["contender"]: CELLS.line(row) for row in rows if row["name"] == name}
        lines.append(f"{name:<48}" + "".join(mine.get(c, "") for c in contenders))
    return lines


def main(*name: str, brief: bool = False, compare: bool = False) -> None:
    """Simulate all trees, or those named, boot them; judge; put all tables into the report.

    name: what the name of a tree contains (all). brief: the trees that say most. compare: other
    htb in the kernel, too.
    """
    build()
    names = [one for one in TREES if (not name or any(word in one for word in name))
             and (not brief or "brief" in TREES[one].flags)]
    say(f"{len(names)} trees, simulated (about 40 s)")
    rows = list(parallel(simulate, names))
    print("\n".join(["", *table([row.figures() for row in rows]), ""]))
    contenders = CONTENDERS if compare else (OURS,)
    names = [one for one in names if "simulated" not in TREES[one].flags]
    say(f"{len(names)} trees in the kernel (about {len(names) * 5 * len(contenders)} s)")
    parts = parallel(lambda at: boot(names[at::JOBS], contenders, at), range(JOBS))
    booted = [row for part in parts for row in part]
    booted.sort(key=lambda row: names.index(row.name))
    print("\n".join(["", *kernel_table([row.figures() for row in booted]), ""]))
    if compare and not name and not brief:
        keep_result("trees.json", {
            "what": "classes with rates over many queues: of the rate, %; worst class and uneven "
            "members, %; what a next hop has to queue, KB; longest wait, us; per packet",
            "kernel": [row.figures() for row in booted],
            "simulated": [row.figures() for row in rows]})
    judged = [*rows, *(row for row in booted if row.contender == OURS)]
    verdict(sum(not row.wrong() for row in judged),
            [line for row in judged for line in row.wrong()])

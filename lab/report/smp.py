# SPDX-License-Identifier: GPL-2.0
"""Second half of make bench: two real CPUs, real time: does the bound hold, what does sharing cost.

The first table loads a group from two CPUs while transmits stall for 1 ms at
random, TX queues stop, and the rate changes under the load. The figure is the
largest excess over R x t of any window, measured at the device, beside the bound
that net/sched/sch_rate_group.c states; and how much of the rate is used, which late
timers must not reduce. The second counts what is written to the shared cache line, and
how far two CPUs get beyond one. Timings of the second table mean something on an
otherwise idle machine only. Writes smp.json.

A CPU of User-Mode Linux sometimes stands still for seconds when the host is busy,
with the unpatched kernel as well: RCU complains, and next to nothing is sent. Such
a run says nothing about the bound and is repeated; smp.json counts them.
"""

import math
import re
import statistics
import threading
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from guest.boot import run_script
from host.common import ROOT, Die, run
from host.results import keep_result
from host.table import Table
from loads import class_run, class_table
from series import kernel
from traffic.bed import install, shared_writes
from traffic.hop import NAME, Hop
from traffic.traffic import FRAME, tc

HEADER = ROOT / "include/net/sch_rate_group.h"
UNITS = {"NSEC_PER_USEC": 10**3, "NSEC_PER_MSEC": 10**6}  # ns
TRIES = 8


@dataclass(frozen=True)
class Load:
    """A case of the first table.

    rate: bit/s. stall, stopq: one in so many transmits takes 1 ms longer, or stops its
    queue for 5 ms. changes: the rate is changed under load. mice: packets/s of every
    queue but the first, which then has frames of two lengths; 0: all queues are saturated
    with full-size frames.
    """

    rate: float
    queues: int
    stall: int = 0
    stopq: int = 0
    changes: bool = False
    mice: float = 0


TABLES = tomllib.loads(Path(__file__).with_name("bench.toml").read_text())
BOUNDS = {case: Load(**words) for case, words in TABLES["bounds"].items()}
SPEEDS, SENDERS = TABLES["speeds"], TABLES["senders"]
ROUNDS = 5
SMALL = 300  # bytes, a frame
LEAST = 0.4  # of the rate: less is not sent if the CPUs run
LEAST_BLOCKED = 0.05  # the same with mice, beside which the unpatched kernel wastes most of
# it, and of root cake, which a stopped queue stops as a whole


def constant(name: str) -> int:
    """RATE_GROUP_<name> of the kernel's header, a product, in bytes or ns."""
    found = re.search(rf"#define RATE_GROUP_{name}\s+\(?(\w+(?: \* \w+)*)",
                      HEADER.read_text())
    if not found:
        raise Die(f"{HEADER} does not define RATE_GROUP_{name}; correct bound() in "
                  "lab/report/smp.py")
    return math.prod(UNITS.get(factor) or int(factor.rstrip("U"))
                     for factor in found[1].split(" * "))


def bound(rate: float, queues: int) -> float:
    """Most that any window may exceed rate * t by, bytes: the top of sch_rate_group.c.

    Of queues of best effort, each of which is in use; their weights may change.
    """
    a_round = rate / 8e9 * constant("ROUND") / queues
    quantum = max(min(a_round, constant("QUANTUM")), FRAME)
    return (rate / 8e9 * constant("MAX_LATE") + 2 * constant("AHEAD") + constant("QUANTUM") + FRAME
            + queues * (2 * quantum + FRAME / 2 + 2 * FRAME) + rate / 8e9 * constant("MISSED"))


def hold(case: str, contender: str) -> dict:
    """One line of the first table. Runs in the guest."""
    load = BOUNDS[case]
    hop = Hop(load.queues)
    install(contender, load.rate, load.queues)
    hop.stream(0, depth=256)
    if load.mice:
        hop.stream(0, depth=256, size=SMALL)
    for q in range(1, load.queues):
        if load.mice:
            hop.stream(q, mode="poisson", rate=load.mice * SMALL * 8, size=SMALL)
        else:
            hop.stream(q, depth=256)
    hop.meter(load.rate, from_s=0.2)
    hop.faults(load.stall, 1e-3, load.stopq, 5e-3)
    stop, count = threading.Event(), [0]

    def change():
        while not stop.is_set():
            for r in (500e6, 1e9):
                tc(f"qdisc change dev {NAME} root {contender} bandwidth {r:.0f}bit")
                count[0] += 1

    changer = threading.Thread(target=change)
    if load.changes:
        changer.start()
    got = hop.run(3)
    stop.set()
    if load.changes:
        changer.join()
    row = {"excess": got["excess"]["bytes"], "bps": got["bps"],
           "stalls": got["stalls"], "stops": got["stops"], "changes": count[0]}
    hop.remove()
    return row


def speed(case: str, contender: str) -> dict:
    """A run of the second table: packets per second of one CPU and of two.

    Each sends for a class of its own if the contender has classes.
    """
    rate, size = SPEEDS[case]
    row = {}
    for cpus in (1, 2):
        hop = Hop(2)
        classful = contender.removeprefix("mq + ").startswith("htb")
        if classful:
            two = class_table.flat(2, 2, rate)  # both classes are on both queues
            tc("-batch -", "\n".join(class_run.tree_lines(two, contender, 2)))
        else:
            install(contender, rate, 2)
        for q in range(cpus):
            hop.stream(q, mode="paced", rate=200e9, size=size,
                       priority=class_run.skb_priority(contender, q, q + 1) if classful else 0)
        hop.meter(0, from_s=0.2)
        before = None if classful else shared_writes()
        got = hop.run(1.2)
        row[f"pps_{cpus}"] = got["packets"] / got["seconds"]
        if before is not None:
            row[f"writes_{cpus}"] = (shared_writes() - before) / 1.2
        hop.remove()
    return row


def run_case(spec: dict) -> Iterator[dict]:
    """Measure one case, yield its row. Runs in the guest."""
    measure = {"bound": hold, "speed": speed}[spec["kind"]]
    yield {"case": spec["case"], **measure(spec["case"], spec["contender"])}


def once(which: str, hop: Path, kind: str, case: str, contender: str) -> dict | None:
    """One case in a boot of its own; its row, or None if a CPU stood still."""
    spec = {"kind": kind, "case": case, "contender": contender}
    rows, boot = run_script(kernel.KERNELS[which].out, f"smp-{which}", "report.smp:run_case", spec,
                           hop=hop, cpus=2, timeout=60)
    if "detected stall" in boot.console or "lab: no end after" in boot.console:
        return None
    boot.judge(kernel.known_splats(which))
    row, = rows
    if kind == "bound":
        load = BOUNDS[case]
        blocked = load.mice or contender == "cake"
        if row["bps"] < (LEAST_BLOCKED if blocked else LEAST) * load.rate:
            return None
    elif row["pps_2"] < LEAST_BLOCKED * row["pps_1"]:
        return None
    return row


def measure(which: str, hop: Path, kind: str, case: str,
            contender: str = "cake_mq") -> dict:
    """One case, repeated while a CPU of the guest stands still.

    hop: path of the hop module for the kernel `which`.
    """
    for stood_still in range(TRIES):
        row = once(which, hop, kind, case, contender)
        if row:
            return {**row, "stood_still": stood_still}
    raise Die(f"in {TRIES} runs of '{case}' on {which} a CPU of the guest stood still; "
              "the host is too busy, run this again when it is not")


def summary(runs: Sequence[dict]) -> dict:
    """The median of each figure, and of pps_2 / pps_1 all runs in order."""
    row = {key: statistics.median(one[key] for one in runs)
           for key in ("pps_1", "pps_2", "writes_1", "writes_2") if key in runs[0]}
    ratios = sorted(one["pps_2"] / one["pps_1"] for one in runs)
    return {**row, "ratio": statistics.median(ratios), "ratios": ratios}


def used(row: dict, key: str) -> float | None:
    """A figure of the first table, % of the rate; None if it is not there, or the rate changed."""
    if key not in row or row["changes"]:
        return None
    return 100 * row[key] / BOUNDS[row["case"]].rate


BOUND_TABLE = Table(
    ("two CPUs, real time; excess in bytes", "case", "", -48),
    ("excess", "excess", ".0f", 9), ("bound", "bound", ".0f", 9),
    ("of stock", lambda row: row.get("stock"), ".0f", 10),
    ("of root", lambda row: row.get("root"), ".0f", 9),
    ("% of rate", lambda row: used(row, "bps"), ".1f", 11),
    ("by stock", lambda row: used(row, "stock_bps"), ".1f", 10),
    ("by root", lambda row: used(row, "root_bps"), ".1f", 9),
    ("stalls", "stalls", "", 8), ("stops", "stops", "", 7), ("changes", "changes", "", 9))
SPEED_TABLE = Table(
    (f"packets per second, median of {ROUNDS}",
     lambda row: f"{row['case']:<32}{row['label']}", "", -48),
    ("1 CPU", "pps_1", ".0f", 10), ("2 CPUs", "pps_2", ".0f", 10), ("ratio", "ratio", ".2f", 7),
    ("from", lambda row: row["ratios"][0], ".2f", 7),
    ("to", lambda row: row["ratios"][-1], ".2f", 7),
    ("writes/packet", lambda row: f"{row['writes_2'] / row['pps_2']:.3f}" if "writes_2" in row
     else "", "", 15))


def of_rate(row: dict, cpus: int) -> float:
    """What so many CPUs send in a row of the second table, % of the rate."""
    rate, size = SPEEDS[row["case"]]
    return row[f"pps_{cpus}"] * size * 8 / rate * 100


def measure_bounds(patched: tuple[str, Path], stock: tuple[str, Path]) -> list[dict]:
    """The first table: (kernel, its hop module) of both; prints it."""
    print(*BOUND_TABLE.head())
    bounds = []
    for case, load in BOUNDS.items():
        row, *others = (measure(*which, "bound", case, contender) for which, contender in
                        ((patched, "cake_mq"), (stock, "cake_mq"), (stock, "cake")))
        row |= {"bound": bound(load.rate, load.queues)}
        for name, other in zip(("stock", "root"), others, strict=True):
            row |= {name: other["excess"], f"{name}_bps": other["bps"]}
        bounds.append(row)
        print(BOUND_TABLE.line(row), flush=True)
    print()
    return bounds


def measure_speeds(hops: dict[str, Path]) -> list[dict]:
    """The second table; hops: the hop module of each kernel. Prints it."""
    print(*SPEED_TABLE.head())
    speeds = []
    for case in SPEEDS:
        runs = {label: [] for label in SENDERS}
        for _ in range(ROUNDS):
            for label, (which, contender) in SENDERS.items():
                runs[label].append(measure(which, hops[which], "speed", case, contender))
        for label, some in runs.items():
            speeds.append({"case": case, "label": label, **summary(some)})
            print(SPEED_TABLE.line(speeds[-1]), flush=True)
    return speeds


def main() -> None:
    """Measure both tables, print and write them, judge the first."""
    hops = {}
    for which in ("smp-patched", "smp-base"):
        kernel.build(which)
        hops[which] = kernel.module(which)
    bounds = measure_bounds(*hops.items())
    keep_result("smp.json", {"what": "two CPUs, real time", "speeds": measure_speeds(hops),
                             "bounds": bounds})
    run(["/usr/bin/python3", "-B", ROOT / "lab", "plots", "cost"], "plots", "drawing", 5)
    failed = [row["case"] for row in bounds if row["excess"] > row["bound"]]
    if failed:
        raise Die(f"more was sent than the bound of sch_rate_group.c allows: {failed}; "
                  "look at build/guest/smp-smp-patched")

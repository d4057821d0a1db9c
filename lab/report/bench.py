# SPDX-License-Identifier: GPL-2.0
"""make bench: CPU time per packet, the unpatched kernel beside the series.

Virtual time: the load is exactly the same, and what differs is how much of the
host's CPU time the guest takes for it. Kernels without debugging. A host's speed
changes by half from one second to the next, so both kernels run at once, each on a
CPU of its own, and change places after each round; what counts is the ratio of runs
that went on at the same time: the median of all, and the range. A large part of the time
is the wake-ups, runs of the softirq that the qdiscs' timers raise: how many there are
per packet is counted as well, and the same in every run. Writes
bench.json.
"""

import os
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from guest.boot import boot_script
from host.results import keep_result
from host.table import Table
from series import kernel
from traffic.bed import EF, install, wakeups
from traffic.hop import Hop
from traffic.traffic import FRAME

ROUNDS = 4
RUNS = 5  # of a round


@dataclass(frozen=True)
class Case:
    """rate: bit/s. size: of a frame, bytes. load: bit/s in all, None: saturated; with
    options, in two tins. seconds: of a run."""

    rate: float
    queues: int
    size: int = FRAME
    load: float | None = None
    options: str = ""
    seconds: float = 0.5


CASES = {case: Case(**words) for case, words in tomllib.loads(
    Path(__file__).with_name("bench.toml").read_text())["virtual"].items()}


def run_load(spec: dict) -> Iterator[dict]:
    """RUNS rows of one load, after one that does not count. Runs in the guest."""
    hop = Hop(spec["queues"])
    install("cake_mq", spec["rate"], spec["queues"], spec["options"])
    for q in range(spec["queues"]):
        if spec["load"]:
            hop.stream(q, mode="paced", rate=spec["load"] / spec["queues"],
                       size=spec["size"], start=q * 1e-7)
        else:
            for tos in (0, EF) if spec["options"] else (0,):
                hop.stream(q, size=spec["size"], depth=16, tos=tos)
    hop.meter(spec["rate"])
    hop.run(spec["seconds"] / 5)
    for _ in range(RUNS):
        before = wakeups()
        got = hop.run(spec["seconds"])
        yield {"ns": 1e9 * got["host_s"] / got["packets"],
               "wakeups": (wakeups() - before) / got["packets"]}
    hop.remove()


def boot_on(cpu: int, which: str, hop: Path, spec: dict) -> list[dict]:
    """The rows of run_load() in a kernel that has that CPU of the host."""
    os.sched_setaffinity(0, {cpu})  # of this thread, and of what it starts
    rows, _ = boot_script(kernel.KERNELS[which].out, f"bench-{which}", "report.bench:run_load",
                          spec, hop=hop, virtual=True, mem="4G",  # 1024 cakes need 1.5
                          allowed=kernel.known_splats(which))
    return rows


def per_packet(kernels: dict[str, Path], label: str) -> dict:
    """The row of a case, per packet: {"ns", "wakeups"}: {kernel: median}; "ratios": of
    each pair of runs, in order.

    kernels: {kernel: path of its hop module}.
    """
    spec = asdict(CASES[label])
    cpus = sorted(os.sched_getaffinity(0))
    rows = {which: [] for which in kernels}
    for number in range(ROUNDS):
        with ThreadPoolExecutor(len(kernels)) as pool:
            jobs = {which: pool.submit(boot_on, cpus[(place + number) % len(cpus)], which,
                                       hop, spec)
                    for place, (which, hop) in enumerate(kernels.items())}
        for which, job in jobs.items():
            rows[which] += job.result()
    pairs = zip(rows["bench-patched"], rows["bench-base"])
    ratios = sorted(patched["ns"] / base["ns"] for patched, base in pairs)
    return {**{name: {which: median(row[name] for row in rows[which]) for which in kernels}
               for name in ("ns", "wakeups")}, "ratio": median(ratios), "ratios": ratios}


TABLE = Table(
    ("", "case", "", -51, "per packet"),
    ("stock", lambda row: row["ns"]["bench-base"], ".0f", 6, "CPU time, ns"),
    ("all", lambda row: row["ns"]["bench-patched"], ".0f", 6, "CPU time, ns"),
    ("ratio", "ratio", ".2f", 6, "CPU time, ns"),
    ("from", lambda row: row["ratios"][0], ".2f", 6, "CPU time, ns"),
    ("to", lambda row: row["ratios"][-1], ".2f", 6, "CPU time, ns"),
    ("stock", lambda row: row["wakeups"]["bench-base"], ".2f", 6, "wake-ups"),
    ("all", lambda row: row["wakeups"]["bench-patched"], ".2f", 6, "wake-ups"))


def main() -> None:
    """Measure, print, write."""
    kernels = {}
    for which in ("bench-base", "bench-patched"):
        kernel.build(which)
        kernels[which] = kernel.module(which)
    rows = []
    print("\n".join(TABLE.head()))
    for label in CASES:
        rows.append({"case": label, **per_packet(kernels, label)})
        print(TABLE.line(rows[-1]), flush=True)
    keep_result("bench.json", {
        "what": "per packet: CPU time of the host, ns, and wake-ups, medians of "
        f"{ROUNDS * RUNS} runs; ratios: of two at the same time",
        "rows": rows})

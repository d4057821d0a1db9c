# SPDX-License-Identifier: GPL-2.0
"""make figures: the evaluation, measured in virtual time and drawn.

Each figure is a list of points (figures.toml); a point says on which kernel what is measured (a
function of this module, run in the guest) and comes back as a row of
results/<figure>.json. lab/report/plots.py draws the rows. Rates are in
bit/s, times in seconds, sizes in bytes.

--check measures a few points of each figure again and compares them with what is stored.
"""

import itertools
import json
import random
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from guest.boot import boot_script
from host.common import ROOT, known, run, say
from host.results import keep_result, recorded, rows_of, verdict
from loads.rates import switch
from loads.tins import spread
from series import kernel
from traffic import tcp
from traffic.bed import Bed, deviation, jain, kept, offered, paced
from traffic.hop import NAME
from traffic.traffic import FRAME, tc

TABLES = tomllib.loads(Path(__file__).with_name("figures.toml").read_text())


# ---------------------------------------------------- guest side: measuring

def overload(bed: Bed, rate: float, queues: int = 40) -> dict:
    """Every queue is offered 1.5 times its share, in full-size frames."""
    hop = bed.prepare(rate, queues)
    gap = FRAME * 8 * queues / (1.5 * rate)
    for q in range(queues):
        hop.stream(q, mode="paced", rate=1.5 * rate / queues, start=q * gap / queues)
    seconds = max(0.2, min(40000 * FRAME * 8 / rate, 50))
    settle = max(0.1, seconds / 10)
    got = hop.between(rate, settle, settle + seconds)
    return {**kept(got, rate), "jain": jain([q["bytes"] for q in got["queues"]])}


def timeline(bed: Bed, rate: float, start: float = 4, end: int = 40, at: float = 0.2,
             bin_s: float = 50e-6, before: float = 0.002, after: float = 0.008) -> dict:
    """start saturated queues become end: bit/s in each bin from `before` s before that."""
    hop = bed.prepare(rate, end)
    for q in range(end):
        hop.stream(q, start=at if q >= start else 0)
    got = hop.between(rate, 0.05, at + after, bins_us=bin_s * 1e6)
    first = round((at - before) / bin_s)
    bins = got["bins"][first:round((at + after) / bin_s)]
    return {"bin_s": bin_s, "switch_s": before, "bps": [b * 8 / bin_s for b in bins],
            "excess": got["excess"]["bytes"]}


def turn(knob: str, value: float) -> None:
    """Set the constant that a kernel for sweeps has, a file below /sys/module."""
    Path("/sys/module", knob).write_text(str(value), encoding="ascii")


def sweep(bed: Bed, rate: float, knob: str, value: float) -> dict:
    """timeline()'s switch with another constant: what the next hop has to queue."""
    turn(knob, value)
    excess = switch(bed, rate)["excess"]
    return {"excess": excess, "delay": excess * 8 / rate}


def receive_queues(bed: Bed, queues: int, rate: float = 20e9, load: float = 25e9,
                   receive: int = 40, knob: str | None = None, value: float | None = None) -> dict:
    """40 receive queues of the same load feed so many TX queues in turn."""
    if knob:
        turn(knob, value)
    hop = bed.prepare(rate, max(queues, 2))
    for r in range(receive):
        hop.stream(r % queues, mode="paced", rate=load / receive, src=r + 1,
                   start=r * FRAME * 8 / load)
    return {"deviation": deviation(hop.between(rate, 0.05, 0.15), rate)}


def skewed(bed: Bed, skew: float, pps: float, rate: float = 10e9, heavy: int = 4,
           light: int = 36) -> dict:
    """Heavy queues offer 1.5 x the rate by weights k^-skew; light ones send pps packets."""
    weights = [(k + 1) ** -skew for k in range(heavy)]
    loads = [paced(1.5 * rate * w / sum(weights)) for w in weights]
    if pps:
        loads += [paced(pps * 64 * 8, size=64, start=q / pps / light) for q in range(light)]
    got = offered(bed, rate, loads, seconds=0.2, settle=0.1)
    return {"deviation": got["deviation"]}


def hashed(bed: Bed, flows: int, seed: int, queues: int = 8, rate: float = 1e9) -> dict:
    """Greedy flows fall on queues at random: fairness over flows (not over hosts)."""
    hop = bed.prepare(rate, queues, "flows")
    rng = random.Random(seed)
    for flow in range(flows):
        hop.stream(rng.randrange(queues), src=flow + 1, dst=flow + 1, depth=8)
    got = hop.between(rate, 0.3, 1.3)
    return {"jain": jain([s["bytes"] for s in got["streams"]]),
            "deviation": deviation(got, rate)}


def placement(bed: Bed, count: int, rate: float = 2350e6) -> dict:
    """Best effort on all of 4 queues, EF on some: what EF gets, % of the rate."""
    return {"ef": spread(bed, count, rate)["ef"]}


def classes(bed: Bed, count: int, size: int, rate: float = 20e6, cores: int = 4) -> dict:
    """Classes with a committed rate each, over 4 queues each, loaded unevenly with 2 x.

    Of what was sent from the sum of the committed rates and, of the class that is
    furthest from it, from its own rate: percent.
    """
    queues = count * cores
    hop = bed.prepare(1e9, max(queues, 2), contender="cake")
    lines = [f"qdisc del dev {NAME} root"]
    if bed.contender == "htb":
        lines.append(f"qdisc add dev {NAME} root handle 1: htb default 1")
        for c in range(count):
            lines += [f"class add dev {NAME} parent 1: classid 1:{c + 2:x} htb "
                      f"rate {rate:.0f}bit quantum 1514",
                      f"qdisc add dev {NAME} parent 1:{c + 2:x} pfifo limit 1000"]
        lines.append(f"filter add dev {NAME} parent 1: protocol ip prio 1 handle 1 flow map "
                     "key dst and 0xffff baseclass 1:1")
    else:
        lines.append(f"qdisc add dev {NAME} root handle 1: mq")
        shared = "shared" in bed.contender
        each = rate if shared else rate / cores
        for q in range(queues):
            group = f"shared {q // cores + 1}" if shared else ""
            lines.append(f"qdisc add dev {NAME} parent 1:{q + 1:x} tbf "
                         f"rate {each:.0f}bit burst 16kb limit 1mb {group}")
    tc("-batch -", "\n".join(lines))
    for q in range(queues):
        load = 2 * rate * (0.625, 0.25, 0.075, 0.05)[q % cores]
        hop.stream(q, mode="paced", rate=load, size=size, dst=q // cores + 1,
                   start=(q + 1) * size * 8 / load / (queues + 1))
    seconds = max(0.1, min(2, 400000 * size * 8 / (count * rate)))
    got = hop.between(0, 0.3, 0.3 + seconds)
    each = [sum(q["bps"] for q in got["queues"][c * cores:(c + 1) * cores])
            for c in range(count)]
    worst = max((100 * (bps / rate - 1) for bps in each), key=abs)
    return {"deviation": deviation(got, count * rate), "worst": worst}


MEASURES = {f.__name__: f for f in (overload, timeline, sweep, receive_queues, skewed,
                                    hashed, placement, classes)}


def run_points(points: list[dict]) -> Iterator[dict]:
    """Measure points that have the kernel and the contender in common."""
    bed = Bed(points[0]["contender"])
    for one in points:
        yield {**one, **MEASURES[one["what"]](bed, **one["args"])}
    bed.close()


# ------------------------------------------------------------- the figures

def points_of(figure: str) -> Iterator[dict]:
    """The points of a figure, as figures.toml has them."""
    for one in TABLES["points"][figure]:
        lists = [value if isinstance(value, list) else [value] for value in one.values()]
        for values in itertools.product(*lists):
            args = dict(zip(one, values))
            label, what, on = args.pop("label"), args.pop("what"), args.pop("on", None)
            usual, contender = TABLES["contenders"][label]
            yield {"label": label, "kernel": on or usual, "contender": contender, "what": what,
                   "args": args}


def checked() -> dict[str, list[dict]]:
    """{figure: points} that the test measures again: on the kernel that it builds anyway."""
    return {name: [p for p in points_of(name) if p["kernel"] == "patched" and all(
        p["args"].get(key, values[0]) in values for key, values in wanted.items())]
        for name, wanted in TABLES["check"].items()}


# ------------------------------------------------------------- host side

def measure(points: list[dict], on_row: Callable | None = None) -> list[dict]:
    """The points as rows, in their order; two guests at a time, by kernel and contender."""
    rows = [None] * len(points)
    jobs = {}
    for index, one in enumerate(points):
        jobs.setdefault((one["kernel"], one["contender"], one["what"]), []).append(index)
    modules = {which: kernel.module(which) for which in sorted({p["kernel"] for p in points})}

    def keep(index, row):
        rows[index] = {**points[index], **row}
        if on_row:
            on_row(rows[index])

    def work(number, which, what, indexes):
        name, folder = f"figures-{number}", kernel.KERNELS[which].out
        rest = iter(indexes)
        mine = [points[i] for i in indexes]
        options = {"allowed": kernel.known_splats(which)}
        if what == "tcp":
            cases = [tcp.echo(one["contender"], 8, 1e9, probes=8, probe_us=997, warm_us=1_200_000,
                              window_us=800_000, **one["args"]) for one in mine]
            tcp.run(folder, name, cases, lambda row: keep(next(rest), tcp_figures(row)), **options)
        else:
            boot_script(folder, name, "report.figures:run_points", mine, hop=modules[which],
                        virtual=True, timeout=1200, mem="3G",
                        on_row=lambda row: keep(next(rest), row), **options)

    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(work, number, which, what, indexes)
                   for number, ((which, _, what), indexes) in enumerate(jobs.items())]
        for job in started:
            job.result()
    return rows


def tcp_figures(row: dict) -> dict:
    """What the figure shows of a row of lab/traffic/tcp.py."""
    return {key: row["echo"][key] for key in ("p50_us", "p99_us", "p99.9_us", "max_us",
                                              "count", "lost")} | {
        "bulk_bps": row["bulk_bps"], "jain": row["jain"],
        "retransmissions": row["groups"][0]["retransmissions"]}


def store(name: str, rows: list[dict]) -> None:
    """Write a figure's rows."""
    keep_result(f"{name}.json", {
        "what": TABLES["what"][name], "rows": rows})


def same(new: dict, old: dict) -> bool:
    """Whether two rows say the same, to within what a frame at an edge can do.

    Of a maximum that is one packet's luck, with TCP.
    """
    for key, value in new.items():
        other = old.get(key)
        if isinstance(value, float) and isinstance(other, (int, float)):
            if abs(value - other) > max(TABLES["tolerance"].get(key, 0), 1e-9 * abs(other)):
                return False
        elif key in ("label", "what", "args") and value != other:
            return False
    return True


def measure_again() -> None:
    """Measure checked() again and compare with what is stored."""
    figures = checked()
    points = [one for some in figures.values() for one in some]
    say(f"{len(points)} points of results/*.json once more (about 40 s)")
    rows = iter(measure(points))
    passed, identical, failed = 0, 0, []
    for name, some in figures.items():
        stored = recorded(f"{name}.json")["rows"]
        for one in some:
            new = json.loads(rows_of(next(rows)))
            old = next((r for r in stored if r["label"] == one["label"]
                        and r["what"] == one["what"] and r["args"] == one["args"]), {})
            identical += new == old
            if same(new, old):
                passed += 1
            else:
                failed.append(f"{name}: {json.dumps(new)[:300]}, stored "
                              f"{json.dumps(old)[:300]}; if that is right, run make figures")
    print(f"{identical} of {len(points)} are identical to nine digits")
    verdict(passed, failed)


def main(*figure: str, check: bool = False) -> None:
    """Measure the figures named, or all; draw.

    figure: as figures.toml has them (all). check: a few points of each again, instead.
    """
    if check:
        measure_again()
        return
    names = known("figure", figure or TABLES["points"], TABLES["points"])
    for name in names:
        points = list(points_of(name))
        for which in sorted({one["kernel"] for one in points}):
            kernel.build(which)
        say(f"{name}: {len(points)} points")
        start, done = time.monotonic(), []

        def progress(row, start=start, done=done, total=len(points)):
            done.append(row)
            if sys.stdout.isatty():
                print(f"\r{len(done)} of {total}", end="", flush=True)

        store(name, measure(points, progress))
        say(f"{name}: {time.monotonic() - start:.0f} s")
    run(["/usr/bin/python3", "-B", ROOT / "lab", "plots", *names], "plots", "drawing", 20)

# SPDX-License-Identifier: GPL-2.0
"""make cost: instructions per packet, counted one by one, the unpatched kernel beside ours.

QEMU's TCG executes one instruction a nanosecond (-icount), so a run is the same on
every host, to the instruction, however busy that is; lab/report/cost/turns.c sees to what is
left to chance. Both kernels are minimal, with one CPU and the load generator lab/traffic/hop
built in; on x86_64 the guest believes that its CPU is SCALE times faster than that, so that it is
never what limits a load. Cases of 32-bit ARM have lower rates instead; without its compiler they
are skipped. A plugin counts per address while packets() leave the device; what the generator
does is in the count, and about the same in both kernels.

A row passes when patched / base is within its bound. Counts also have to be those
stored in results/cost.json, within TOLERANCE, if they were made by the same compiler;
a run of all writes them with --record. --case or V=1 show by function
where a difference is. A kernel that did not change is not run again.

What this does not see: what an instruction costs, caches, and other CPUs.
"""

import bisect
import collections
import hashlib
import json
import re
import shutil
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from guest import qemu
from guest.initramfs import cpio
from host.common import BUILD, JOBS, VERBOSE, Die, compiled, known, parallel, say, sha256, told
from host.results import keep_result, recorded, verdict
from host.setup import loudly
from host.table import Table
from loads import class_run, class_table
from loads.class_tree import ClassTree
from traffic.bed import EF
from traffic.traffic import FRAME

from report import cost_kernel
from report.cost_kernel import HERE, TC, TREES, Kernel

RECORD = "cost.json"
OUT = BUILD / "cost"
PACKETS = 20000  # counted, or more: see packets()
DEPTH = 16  # packets of a flow that wait, at least
REFILL = DEPTH // 4 + 2  # that come at once when less wait: see hop_saturate()
TOLERANCE = 0.01  # of a stored count
MISSED = 0.02  # of the load that a case is about, too little; stock may send too much
TOP = 25  # functions shown
TIMEOUT = 1200  # s for a boot


@dataclass(frozen=True)
class Case:
    """What is counted.

    kind: what the device has: see qdiscs(). bound: most that patched / base may be. rate
    and load: bit/s in all; load None: saturated, in two tins with options. size: bytes.
    flows: of each queue and tin. pauses: queue 0 is idle for 28 of 30 ms. classes: of htb,
    each with a flow on each queue. beside: what the base has instead, if not the same. arch: of
    cost_kernel.MACHINES. title: its name in results/bench.md.
    """

    title: str
    kind: str
    queues: int
    bound: float
    rate: float = 10e9
    size: int = FRAME
    load: float | None = None
    options: str = ""
    flows: int = 1
    pauses: bool = False
    classes: int = 0
    beside: str = ""
    arch: str = "x86_64"


CASES = {name: Case(**words) for name, words in
         tomllib.loads((HERE / "cases.toml").read_text()).items()}


def library(name: str) -> Path:
    """Path of lab/report/cost/<name>.c as a library, built when needed."""
    return compiled(OUT / f"{name}.so", HERE / f"{name}.c", "-shared", "-fPIC",
                    "-fvisibility=hidden", beside=[HERE / "qemu-plugin.h"])


def version(program: str) -> str:
    """The first line of what a program says of itself."""
    return told(program, "--version", check=True).stdout.splitlines()[0]


# ----------------------------------------------------------------------- cases

def kind(case: Case, kernel: Kernel) -> str:
    """What the device has in a kernel."""
    return case.beside if case.beside and kernel.which == "base" else case.kind


def flat(case: Case) -> ClassTree:
    """The classes of a case."""
    return class_table.flat(case.classes, case.queues, case.rate)


def qdiscs(case: Case, kernel: Kernel) -> list[str]:
    """Lines for tc -batch."""
    if case.classes:
        return class_run.tree_lines(flat(case), kind(case, kernel), case.queues)
    set_up = "qdisc replace dev hop0 root handle 1:"
    if case.kind in ("cake_mq", "cake"):
        return [f"{set_up} {case.kind} bandwidth {case.rate:.0f}bit {case.options}"]
    if case.kind == "tbf":
        return [f"{set_up} tbf rate {case.rate:.0f}bit burst 64kb limit 100mb"]
    child = case.kind.removeprefix("mq + ")
    if child == "cake":
        child += f" bandwidth {case.rate / case.queues:.0f}bit"
    return [f"{set_up} mq", *(f"qdisc replace dev hop0 parent 1:{q + 1:x} {child}"
                              for q in range(case.queues))]


def warm_up(case: Case) -> int:
    """Packets before the counted ones: at least 30 of each queue, and of each class on it."""
    return max(10000, 30 * case.queues * max(case.classes, 1))


def packets(case: Case) -> int:
    """Packets that are counted: with classes, a whole number of times that all flows refill.

    Else one kernel may send more than comes in that time, and need not receive it.
    """
    refill = REFILL * case.queues * case.classes
    return -(-PACKETS // refill) * refill if refill else PACKETS


def flows(case: Case, kernel: Kernel) -> list[str]:
    """What tells the flows of a case apart."""
    if case.classes:
        return [f"queue={one.queue} "
                f"priority={class_run.skb_priority(kind(case, kernel), one.queue, one.leaf)}"
                for one in flat(case).flows]
    return [f"queue={queue} tos={tos} flows={case.flows}" for queue in range(case.queues)
            for tos in ((0, EF) if case.options else (0,))]


def commands(case: Case, kernel: Kernel) -> list[str]:
    """Lines for /proc/hop."""
    all_ = flows(case, kernel)
    pace = f"mode=saturate depth={max(DEPTH, 2 * case.flows)}"
    lines = ["clear"]
    for number, flow in enumerate(all_):
        if case.load:
            pace = f"mode=paced start={number * 100} rate={case.load / 8 / len(all_):.0f}"
        on = " on=2000000 off=28000000" if case.pauses and not number else ""
        lines.append(f"stream {flow} size={case.size} look=20000 {pace}{on}")
    seconds = 1.15 * (warm_up(case) + packets(case)) * case.size * 8 / (case.load or case.rate)
    return [*lines, f"meter rate={case.rate / 8:.0f}", f"run ns={seconds * 1e9 + 2e6:.0f}"]


# -------------------------------------------------------------------- counting

def words_of(kernel: Kernel, case: Case, job: Path) -> list[str]:
    """The command that runs a case in a kernel. job: folder of its files."""
    at = {name: address for address, name in kernel.symbols()}
    first = warm_up(case)
    count = {"out": job / "count", "text": f"{at['_stext']:x}", "etext": f"{at['_etext']:x}",
             "at": f"{at['hop_xmit']:x}", "from": first, "to": first + packets(case)}
    return kernel.start(
        [f"hop.queues={case.queues}"], "-initrd", str(job / "initramfs"), "-plugin",
        ",".join([str(library("count")), *(f"{k}={v}" for k, v in count.items())]),
        mem="4G" if case.queues > 256 else "1G")


def boot(kernel: Kernel, name: str) -> Path:
    """Run a case; its raw counts are then in the job's folder. Die if it was not as meant."""
    case, job = CASES[name], OUT / f"{kernel.name}-{name}"
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir(parents=True)
    (job / "initramfs").write_bytes(cpio(kernel.files(qdiscs(case, kernel),
                                                      commands(case, kernel))))
    log = job / "console.log"
    text, ended = qemu.watch(words_of(kernel, case, job), log, TIMEOUT,
                             {"LD_PRELOAD": str(library("turns"))})
    if not ended:
        raise Die(f"{kernel.name} {name}: no end after {TIMEOUT} s: see {log}")
    (job / "initramfs").unlink()
    wrong = kernel.complaint(text) or complaint(case, text)
    if wrong or not (job / "count").exists():
        raise Die(f"{kernel.name} {name}: {wrong or 'nothing was counted'}: see {log}")
    return job


def complaint(case: Case, text: str) -> str | None:
    """What was wrong with a run, from its console, or None."""
    got = {key: int(value) for key, value in re.findall(r'"(\w+)":(\d+)', text)}
    rate = got["bytes"] * 8e9 / max(got["last"] - got["first"], 1)
    want = case.load or case.rate
    if rate < want * (1 - MISSED):
        return f"only {rate / 1e6:.0f} of {want / 1e6:.0f} Mbit/s were sent"
    return None


def by_function(kernel: Kernel, case: Case, job: Path) -> dict[str, list[float]]:
    """Raw counts as {function: [instructions, calls]} per packet; parts of one are one."""
    symbols = kernel.symbols()
    addresses = [at for at, _ in symbols]
    found = collections.defaultdict(lambda: [0, 0])
    for line in (job / "count").read_text().splitlines():
        word, times = line.split()
        at, times = int(word, 16), int(times)
        if not at:
            if times and kernel.machine.beside:
                found[kernel.machine.beside][0] = times
            elif times:
                raise Die(f"{job.name}: {times} instructions were not the kernel's; leave "
                          "the guest nothing else to do")
            continue
        start, name = symbols[bisect.bisect_right(addresses, at) - 1]
        row = found[re.sub(r"(\.(cold|part|isra|constprop)(\.\d+)?)+$", "", name)]
        row[0] += times
        row[1] += times if at == start else 0
    return {name: [value / packets(case) for value in row] for name, row in sorted(found.items())}


def state(kernel: Kernel, name: str) -> str:
    """What a count depends on, as one hash."""
    case = CASES[name]
    parts = [qdiscs(case, kernel), commands(case, kernel), words_of(kernel, case, OUT),
             version(kernel.machine.qemu[0]), sha256(kernel.image), sha256(TC),
             *(sha256(HERE / file) for file in ("count.c", "turns.c", "init.sh"))]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def counted(kernel: Kernel, name: str) -> dict[str, list[float]]:
    """{function: [instructions, calls]} per packet; from the last time if nothing changed."""
    kept = OUT / f"{kernel.name}-{name}.json"
    want = state(kernel, name)
    if kept.exists():
        last = json.loads(kept.read_text())
        if last["state"] == want:
            return last["functions"]
    start = time.monotonic()
    job = boot(kernel, name)
    functions = by_function(kernel, CASES[name], job)
    kept.write_text(json.dumps({"state": want, "functions": functions}) + "\n")
    say(f"counted {name} in {kernel.name}: {time.monotonic() - start:.0f} s")
    return functions


# --------------------------------------------------------------------- judging

def total(functions: dict[str, list[float]]) -> float:
    """Instructions per packet."""
    return sum(instructions for instructions, _ in functions.values())


TABLE = Table(
    ("instructions per packet", "case", "", -23), ("stock", "base", ".1f", 9),
    ("patched", "patched", ".1f", 9), ("ratio", "ratio", ".4f", 8), ("bound", "bound", ".3f", 8))
FUNCTIONS = Table(
    ("    function", lambda row: f"    {row['function']}", "", -44),
    ("patched - stock", "change", "+.1f", 16), ("stock", lambda row: row["base"][0], ".1f", 9),
    ("patched", lambda row: row["patched"][0], ".1f", 9),
    ("calls", lambda row: row["base"][1], ".3f", 9),
    ("calls", lambda row: row["patched"][1], ".3f", 9))


def differences(both: dict[str, dict]) -> list[str]:
    """Lines: the functions that differ most, patched less base."""
    rows = []
    for function in sorted({*both["base"], *both["patched"]}):
        pair = {which: both[which].get(function, (0, 0)) for which in ("base", "patched")}
        rows.append({"function": function, "change": pair["patched"][0] - pair["base"][0], **pair})
    rows.sort(key=lambda row: -abs(row["change"]))
    return FUNCTIONS.lines(row for row in rows[:TOP] if abs(row["change"]) >= 0.05)


def tools(arch: str) -> str:
    """What a count depends on besides the sources."""
    machine = cost_kernel.MACHINES[arch]
    return f"{version(machine.prefix + 'gcc')}; {version(machine.qemu[0])}"


def compared(rows: dict[str, dict]) -> tuple[int, list[str]]:
    """(how many stored counts are as they were, sentences about those that are not).

    rows: {case: {kernel: count}}.
    """
    stored = recorded(RECORD) or {"tools": {}, "rows": []}
    same = {arch for arch in {CASES[name].arch for name in rows}
            if stored["tools"].get(arch) == tools(arch)}
    for arch in {CASES[name].arch for name in rows} - same:
        print(f"{RECORD} was recorded with other tools, so {arch} is not compared")
    good, bad = 0, []
    for row in stored["rows"]:
        counts = rows.get(row["case"], {}) if CASES[row["case"]].arch in same else {}
        for which, count in counts.items():
            was = row[which]
            good += abs(count / was - 1) <= TOLERANCE
            if abs(count / was - 1) > TOLERANCE:
                bad.append(f"{row['case']}: {count:.1f} instructions per packet in {which}, "
                           f"stored are {was:.1f} ({count / was - 1:+.1%})")
    return good, bad


def record(rows: dict[str, dict]) -> None:
    """Write cost.json."""
    keep_result(RECORD, {
        "what": f"instructions per packet, over {PACKETS} packets or more, QEMU TCG; ratio: "
        "patched / base; bound: what it may be",
        "tools": {arch: tools(arch) for arch in cost_kernel.MACHINES},
        "rows": [{"case": name, **{which: round(count, 2) for which, count in row.items()},
                  "ratio": round(row["patched"] / row["base"], 4),
                  "bound": CASES[name].bound} for name, row in rows.items()]})


def attempt(kernel: Kernel, name: str) -> dict[str, list[float]] | Die:
    """counted(), or the Die that it ended with."""
    try:
        return counted(kernel, name)
    except Die as error:
        return error


def report(both: dict[str, dict]) -> tuple[int, list[str]]:
    """Print the table; (rows within their bound, sentences about the others)."""
    print(*TABLE.head())
    failed = []
    for name, found in both.items():
        row = {"case": name, "bound": CASES[name].bound,
               **{which: total(functions) for which, functions in found.items()}}
        row["ratio"] = row["patched"] / row["base"]
        over = row["ratio"] > row["bound"]
        print(TABLE.line(row) + " over" * over, flush=True)
        if VERBOSE or len(both) < len(CASES):
            print("\n".join(differences(found)))
        if over:
            failed.append(f"{name}: {row['ratio']:.4f} times the instructions of stock, at most "
                          f"{row['bound']} is the bound")
    return len(both) - len(failed), failed


def main(case: str = "", jobs: int = JOBS) -> None:
    """Build, count, print, judge.

    case: some of the table, with commas between them (all). jobs: at the same time.
    """
    names = known("case", case.split(",") if case else CASES, CASES)
    OUT.mkdir(parents=True, exist_ok=True)
    library("count"), library("turns")  # before there are threads
    absent = {arch for arch in cost_kernel.MACHINES if not cost_kernel.present(arch)}
    for arch in absent & {CASES[name].arch for name in names}:
        loudly(f"NOTHING COUNTED FOR {arch}: its cross compiler or QEMU is not here; "
               f"'make arches ARCH={arch} BOOT=1' installs them")
    skipped = [name for name in names if CASES[name].arch in absent]
    names = [name for name in names if name not in skipped]
    built = {(which, arch): Kernel(which, arch) for which in TREES
             for arch in {CASES[name].arch: None for name in names}}
    for kernel in built.values():
        kernel.build()
    pairs = [(name, which) for name in names for which in TREES]
    found = parallel(lambda job: attempt(built[job[1], CASES[job[0]].arch], job[0]), pairs, jobs)
    results = dict(zip(pairs, found, strict=True))
    failed = [str(result).removeprefix("error: ") for result in results.values()
              if isinstance(result, Die)]
    both = {name: {which: results[name, which] for which in TREES} for name in names}
    both = {name: row for name, row in both.items()
            if not any(isinstance(result, Die) for result in row.values())}
    rows = {name: {which: total(functions) for which, functions in row.items()}
            for name, row in both.items()}
    passed, over = report(both)
    if len(rows) == len(CASES):
        record(rows)
    good, unlike = compared(rows)
    verdict(passed + good, failed + over + unlike, len(skipped))

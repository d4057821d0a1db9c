# SPDX-License-Identifier: GPL-2.0
"""make cost: instructions per packet, counted one by one, the unpatched kernel beside ours.

QEMU's TCG executes one instruction a nanosecond (-icount), so a run is the same on
every host, to the instruction, however busy that is; lab/measure/cost/turns.c sees to what is
left to chance. Both kernels are minimal, with one CPU, the load generator lab/load/hop and
lab/measure/cost/clock.c built in; the guest believes that its CPU is SCALE times faster than
that, so that it is never what limits a load. A plugin counts per address while PACKETS
packets leave the device; what the generator does is in the count, and about the same
in both kernels.

A row passes when patched / base is within its bound. Counts also have to be those
stored in results/cost.json, within TOLERANCE, if they were made by the same compiler;
a run of all writes them with --record. --case or V=1 show by function
where a difference is. --tree is another patched tree, which is compared with the base
only. A kernel that did not change is not run again.

What this does not see: what an instruction costs, caches, and other CPUs.
"""

import bisect
import collections
import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest import qemu
from guest.initramfs import cpio
from load import trees
from load.bed import EF
from load.traffic import FRAME
from tree import common
from tree.common import (
    BUILD,
    ROOT,
    VERBOSE,
    Die,
    command_line,
    keep_result,
    kernel_env,
    make_args,
    need_disk,
    run,
    say,
    sha256,
    verdict,
)

HERE = ROOT / "lab/measure/cost"
RESULTS = ROOT / "results" / "cost.json"
OUT = BUILD / "cost"
TC = BUILD / "iproute2/tc/tc"
BUSYBOX = Path("/bin/busybox")
TREES = {"base": BUILD / "linux-base", "patched": BUILD / "linux"}
SCALE = 100  # instructions of a nanosecond in the guest
PACKETS = 20000  # counted
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
    each with a flow on each queue. beside: what the base has instead, if not the same. title:
    its name in results/bench.md.
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


# A bound is just above what the code reaches. It is not lower because
# - of saturated queues, few are the dearest: with 2, a slot halves timers and what they
#   lead to (-800), and asking for it and keeping account of it costs 200 a packet. Longer
#   slots would cost less, and delay the others; with many queues stock looks at them all.
# - at 60 percent a packet is a backlog of its own, so that both kernels set a timer for
#   each: +180, for its begin and end, and what it is charged; +270 with full-size packets,
#   as each uses up its flow's quantum, and every ninth needs a slot
# - the second tin has turns of its own: to choose between turns takes 170 more
# - a flow's hosts are looked up at each look at it, 140; dearest where a packet is one look
# - those without a group find that out: 55 in a root cake, 27 in one below mq, 19 in tbf,
#   and 9 in htb
# - with 1,024 members that all wait, and a slot of one packet for each, a queue looks at 12
#   of them each time that it asks
SMALL = {"rate": 20e9, "size": 200, "load": 12e9}
CASES = {
    **{f"saturated-{n}": Case(f"saturated, {n} queues", "cake_mq", n, 0.935)
       for n in (2, 8, 40, 256, 1024)},
    "eight-flows-each": Case("saturated, 8 flows on each of 8 queues", "cake_mq", 8, 0.935,
                             flows=8),
    "paused-flows": Case("120 flows on each of 8 queues, one queue idle for 28 of 30 ms, 1 Gbit",
                         "cake_mq", 8, 0.65, rate=1e9, flows=120, pauses=True),
    "60-percent": Case("60 % of the rate in packets of 200 bytes, 40 queues", "cake_mq", 40, 1.025,
                       **SMALL),
    "60-percent-full-size": Case("60 % of 100 Gbit in full-size packets, 8 queues", "cake_mq", 8,
                                 1.035, rate=100e9, load=60e9),
    "two-tins": Case("best effort and EF saturated, `diffserv4`, 40 queues", "cake_mq", 40, 0.96,
                     options="diffserv4"),
    # who shares nothing
    "root-cake": Case("`cake` at the root, saturated", "cake", 8, 1.01),
    "root-cake-60-percent": Case("`cake` at the root, 60 % of the rate in packets of 200 bytes",
                                 "cake", 40, 1.009, **SMALL),
    "unshared-cake": Case("`mq` + `cake`, which share nothing", "mq + cake", 8, 1.006),
    "fq_codel": Case("`mq` + `fq_codel`", "mq + fq_codel", 8, 1.001, load=5e9),
    "root-tbf": Case("`tbf` at the root", "tbf", 8, 1.006),
    "root-htb": Case("`htb` at the root, 8 classes", "htb", 8, 1.006, classes=8),
    # an htb that shares its classes, beside one at the root
    "shared-htb": Case("8 classes on 8 queues, saturated", "mq + htb shared", 8, 0.95, classes=8,
                       beside="htb"),
    "shared-htb-60-percent": Case("the same, 60 % of the rate in packets of 200 bytes",
                                  "mq + htb shared", 8, 0.95, **SMALL, classes=8, beside="htb"),
    "shared-htb-128-classes": Case("128 classes on 8 queues, saturated", "mq + htb shared", 8, 1.125,
                                   classes=128, beside="htb"),
}


# --------------------------------------------------------------------- kernels

class Kernel:
    """A kernel to count in: build/cost-<name>/linux and, made from it, .../out.

    The former is a folder of links to the tree's files, so always as that is, but for
    what lab/measure/cost adds: a folder lab/, and the line in Kbuild that names it. Below
    build/cost-<name> the names are the same for all kernels, for ccache.
    """

    def __init__(self, name: str, tree: Path) -> None:
        self.name, self.tree = name, tree
        self.dir = BUILD / f"cost-{name}"
        self.source, self.out = self.dir / "linux", self.dir / "out"
        self.image = self.out / "arch/x86/boot/bzImage"
        self.vmlinux = self.out / "vmlinux"

    def make(self, *args: str, **more: Any) -> None:
        """Run make for it."""
        run(["make", "-s", "ARCH=x86_64", f"O={self.out}", *make_args(), *args],
            f"cost-{self.name}", cwd=self.source, env=kernel_env(), **more)

    def link(self) -> None:
        """Bring the folder of links up to date."""
        lab = self.source / "lab"
        lab.mkdir(parents=True, exist_ok=True)
        links = {self.source / path.name: path for path in self.tree.iterdir()
                 if path.name not in ("Kbuild", ".git")}
        links |= {lab / path.name: path for path in
                  (HERE / "Kbuild", HERE / "clock.c", ROOT / "lab/load/hop/hop.c")}
        for link, path in links.items():
            if not link.is_symlink() or link.readlink() != path:
                link.unlink(missing_ok=True)
                link.symlink_to(path)
        update(self.source / "Kbuild", (self.tree / "Kbuild").read_bytes() + b"obj-y += lab/\n")

    def configure(self) -> None:
        """Write the configuration, if what it depends on changed; Die if some did not take."""
        fragment = HERE / "guest.config"
        state = hashlib.sha256(fragment.read_bytes() + (
            self.tree / "net/sched/Kconfig").read_bytes()).hexdigest()
        stamp = self.out / ".fragment"
        if stamp.exists() and stamp.read_text() == state:
            return
        self.make(f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig")
        got = (self.out / ".config").read_text().splitlines()
        for line in fragment.read_text().splitlines():
            if line.startswith("CONFIG_") and line not in got or (
                    line.endswith(" is not set") and f"{line.split()[1]}=y" in got):
                raise Die(f"the kernel configuration lost '{line}'; look at its "
                          f"dependencies in {self.tree}")
        stamp.write_text(state)

    def build(self) -> None:
        """Build it."""
        need_disk(1, BUILD)
        self.out.mkdir(parents=True, exist_ok=True)
        self.link()
        self.configure()
        self.make("bzImage", what=f"building the kernel to count in: {self.name}",
                  estimate=25 if self.image.exists() else 350)

    def symbols(self) -> list[tuple[int, str]]:
        """Functions: [(address, name)], sorted."""
        rows = map(str.split, (self.out / "System.map").read_text().splitlines())
        return sorted((int(at, 16), name) for at, kind, name in rows if kind in "tTwW")


def update(path: Path, content: bytes) -> None:
    """Write a file if that changes it."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def library(name: str) -> Path:
    """Path of lab/measure/cost/<name>.c as a library, built when needed."""
    made, source = OUT / f"{name}.so", HERE / f"{name}.c"
    if not made.exists() or made.stat().st_mtime < max(
            file.stat().st_mtime for file in (source, HERE / "qemu-plugin.h")):
        run(["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-o", made,
             source], f"cost-{name}")
    return made


def version(program: str) -> str:
    """The first line of what a program says of itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


# ----------------------------------------------------------------------- cases

def kind(case: Case, kernel: Kernel) -> str:
    """What the device has in a kernel."""
    return case.beside if case.beside and kernel.name == "base" else case.kind


def flat(case: Case) -> trees.Tree:
    """The classes of a case."""
    return trees.flat(case.classes, case.queues, ceil=case.rate)


def qdiscs(case: Case, kernel: Kernel) -> list[str]:
    """Lines for tc -batch."""
    if case.classes:
        return trees.tree_lines(flat(case), kind(case, kernel), case.queues)
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
    """Packets before the counted ones: at least 30 of each queue."""
    return max(10000, 30 * case.queues)


def flows(case: Case, kernel: Kernel) -> list[str]:
    """What tells the flows of a case apart."""
    if case.classes:
        return [f"queue={one.queue} "
                f"priority={trees.priority(kind(case, kernel), one.queue, one.leaf)}"
                for one in flat(case).flows]
    return [f"queue={queue} tos={tos} flows={case.flows}" for queue in range(case.queues)
            for tos in ((0, EF) if case.options else (0,))]


def commands(case: Case, kernel: Kernel) -> list[str]:
    """Lines for /proc/hop."""
    all_ = flows(case, kernel)
    pace = f"mode=saturate depth={max(16, 2 * case.flows)}"
    lines = ["clear"]
    for number, flow in enumerate(all_):
        if case.load:
            pace = f"mode=paced start={number * 100} rate={case.load / 8 / len(all_):.0f}"
        on = " on=2000000 off=28000000" if case.pauses and not number else ""
        lines.append(f"stream {flow} size={case.size} look=20000 {pace}{on}")
    seconds = 1.15 * (warm_up(case) + PACKETS) * case.size * 8 / (case.load or case.rate)
    return [*lines, f"meter rate={case.rate / 8:.0f}", f"run ns={seconds * 1e9 + 2e6:.0f}"]


def programs() -> dict[str, tuple[int, bytes]]:
    """What every guest has: {path: (mode, bytes)}."""
    listed = subprocess.run(["ldd", TC], capture_output=True, text=True, check=True).stdout
    files = {"init": HERE / "init.sh", "bin/busybox": BUSYBOX, "bin/tc": TC}
    files |= {path.lstrip("/"): Path(path) for path in re.findall(r"(/\S+) \(", listed)}
    return {path: (0o100755, file.read_bytes()) for path, file in files.items()}


def files_of(case: Case, kernel: Kernel) -> bytes:
    """That of a case."""
    texts = {"tc.batch": qdiscs(case, kernel), "hop.txt": commands(case, kernel)}
    return cpio({**programs(), **{path: (0o100644, ("\n".join(lines) + "\n").encode())
                                  for path, lines in texts.items()}})


# -------------------------------------------------------------------- counting

def words_of(kernel: Kernel, case: Case, job: Path) -> list[str]:
    """The command that runs a case in a kernel. job: folder of its files.

    Without instructions that repeat themselves. Those that give random numbers give the
    same ones each time: without them the kernel's own would never be ready, and cost a
    hundred times as much.
    """
    at = {name: address for address, name in kernel.symbols()}
    first = warm_up(case)
    count = {"out": job / "count", "text": f"{at['_stext']:x}", "etext": f"{at['_etext']:x}",
             "at": f"{at['hop_xmit']:x}", "from": first, "to": first + PACKETS}
    words = ["console=ttyS0", "quiet", "norandmaps", "panic=-1", "reboot=t", "tsc=reliable",
             f"tsc_early_khz={SCALE * 1000000}", f"cost_clock={SCALE}",
             f"hop.queues={case.queues}"]
    return qemu.command(
        kernel.image, words, "-icount", "shift=0,sleep=off", "-seed", "1",
        "-rtc", "base=2026-01-01,clock=vm", "-initrd", job / "initramfs",
        "-plugin", ",".join([str(library("count")), *(f"{k}={v}" for k, v in count.items())]),
        mem="4G" if case.queues > 256 else "1G", accel="tcg,thread=single", cpu="max,-erms,-fsrm")


def boot(kernel: Kernel, name: str) -> Path:
    """Run a case; its raw counts are then in the job's folder. Die if it was not as meant."""
    case, job = CASES[name], OUT / f"{kernel.name}-{name}"
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir(parents=True)
    (job / "initramfs").write_bytes(files_of(case, kernel))
    log = job / "console.log"
    text, ended = qemu.watch(words_of(kernel, case, job), log, TIMEOUT,
                             {"LD_PRELOAD": str(library("turns"))})
    if not ended:
        raise Die(f"{kernel.name} {name}: no end after {TIMEOUT} s: see {log}")
    (job / "initramfs").unlink()
    wrong = complaint(case, text)
    if wrong or not (job / "count").exists():
        raise Die(f"{kernel.name} {name}: {wrong or 'nothing was counted'}: see {log}")
    return job


def complaint(case: Case, text: str) -> str | None:
    """What was wrong with a run, from its console, or None."""
    if "DONE" not in text:
        return "the guest did not do all that it was told"
    if "CLOCK tsc\n" not in text:
        return "the guest's clock is not the TSC"
    got = {key: int(value) for key, value in re.findall(r'"(\w+)":(\d+)', text)}
    rate = got["bytes"] * 8e9 / max(got["last"] - got["first"], 1)
    want = case.load or case.rate
    if rate < want * (1 - MISSED):
        return f"only {rate / 1e6:.0f} of {want / 1e6:.0f} Mbit/s were sent"
    return None


def by_function(kernel: Kernel, job: Path) -> dict[str, list[float]]:
    """Raw counts as {function: [instructions, calls]} per packet; parts of one are one."""
    symbols = kernel.symbols()
    addresses = [at for at, _ in symbols]
    found = collections.defaultdict(lambda: [0, 0])
    for line in (job / "count").read_text().splitlines():
        word, times = line.split()
        at, times = int(word, 16), int(times)
        if not at:
            if times:
                raise Die(f"{job.name}: {times} instructions were not the kernel's; leave "
                          "the guest nothing else to do")
            continue
        start, name = symbols[bisect.bisect_right(addresses, at) - 1]
        row = found[re.sub(r"(\.(cold|part|isra|constprop)(\.\d+)?)+$", "", name)]
        row[0] += times
        row[1] += times if at == start else 0
    return {name: [value / PACKETS for value in row] for name, row in sorted(found.items())}


def state(kernel: Kernel, name: str) -> str:
    """What a count depends on, as one hash."""
    case = CASES[name]
    parts = [qdiscs(case, kernel), commands(case, kernel), words_of(kernel, case, OUT),
             version("qemu-system-x86_64"), sha256(kernel.image), sha256(TC),
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
    functions = by_function(kernel, job)
    kept.write_text(json.dumps({"state": want, "functions": functions}) + "\n")
    say(f"counted {name} in {kernel.name}: {time.monotonic() - start:.0f} s")
    return functions


# --------------------------------------------------------------------- judging

def total(functions: dict[str, list[float]]) -> float:
    """Instructions per packet."""
    return sum(instructions for instructions, _ in functions.values())


def calls(functions: dict[str, list[float]], pattern: str) -> float:
    """Calls per packet of the functions that match."""
    return sum(times for name, (_, times) in functions.items() if re.fullmatch(pattern, name))


HEAD = (f"{'':<23}{'instructions per packet':>34}{'timer interrupts':>25}{'dequeue calls':>18}\n"
        f"{'':<23}{'stock':>9}{'patched':>9}{'ratio':>8}{'bound':>8}"
        f"{'stock':>16}{'patched':>9}{'stock':>9}{'patched':>9}")


def told(name: str, both: dict[str, dict]) -> str:
    """A line of the table. both: {kernel: functions}."""
    base, ours = both["base"], both["patched"]
    ratio, bound = total(ours) / total(base), CASES[name].bound
    more = [calls(functions, pattern) for pattern in ("hrtimer_interrupt", r"(?!__)\w+_dequeue")
            for functions in (base, ours)]
    return (f"{name:<23}{total(base):>9.1f}{total(ours):>9.1f}{ratio:>8.4f}{bound:>8.3f}"
            f"{' over' if ratio > bound else '':<7}" + "".join(f"{x:>9.3f}" for x in more))


def differences(both: dict[str, dict]) -> list[str]:
    """Lines: the functions that differ most, patched less base."""
    none = (0, 0)
    rows = []
    for function in sorted({*both["base"], *both["patched"]}):
        pair = [both[which].get(function, none) for which in ("base", "patched")]
        rows.append((pair[1][0] - pair[0][0], function, *pair))
    rows.sort(key=lambda row: -abs(row[0]))
    lines = [f"    {'function':<40}{'patched - stock':>16}{'stock':>9}{'patched':>9}"
             f"{'calls':>9}{'calls':>9}"]
    for change, function, old, new in rows[:TOP]:
        if abs(change) >= 0.05:
            lines.append(f"    {function:<40}{change:>+16.1f}{old[0]:>9.1f}{new[0]:>9.1f}"
                         f"{old[1]:>9.3f}{new[1]:>9.3f}")
    return lines


def tools() -> dict[str, str]:
    """What a count depends on besides the sources."""
    return {"gcc": version("gcc"), "qemu": version("qemu-system-x86_64")}


def compared(rows: dict[str, dict], others: Iterable[str]) -> tuple[int, list[str]]:
    """(how many stored counts are as they were, sentences about those that are not).

    rows: {case: {kernel: count}}. others: kernels that are not compared.
    """
    if not RESULTS.exists():
        print(f"{RESULTS.name} is not there: no comparison (RECORD=1 writes it)")
        return 0, []
    stored = json.loads(RESULTS.read_text())
    if stored["tools"] != tools():
        print(f"{RESULTS.name} was recorded with other tools, so it is not compared: "
              f"{stored['tools']}")
        return 0, []
    known = {row["case"]: row for row in stored["rows"]}
    good, bad = 0, []
    for name, counts in rows.items():
        for which, count in counts.items():
            if which in others or name not in known:
                continue
            was = known[name][which]
            if abs(count / was - 1) <= TOLERANCE:
                good += 1
            else:
                bad.append(f"{name}: {count:.1f} instructions per packet in {which}, stored "
                           f"are {was:.1f} ({count / was - 1:+.1%})")
    return good, bad


def record(rows: dict[str, dict]) -> None:
    """Write cost.json."""
    keep_result(RESULTS.name, {
        "what": f"instructions per packet, over {PACKETS} packets, QEMU TCG; ratio: "
        "patched / base; bound: what it may be", "tools": tools(),
        "rows": [{"case": name, **{which: round(count, 2) for which, count in row.items()},
                  "ratio": round(row["patched"] / row["base"], 4),
                  "bound": CASES[name].bound} for name, row in rows.items()]})


def kernels(words: Sequence[str], tree: str | None) -> dict[str, Kernel]:
    """The kernels to count in, by what they stand for, built; the base, if only counted.

    words: which, all if empty. tree: another patched one, if any.
    """
    trees = dict(TREES)
    names = {which: which for which in trees}
    if tree:
        trees["patched"] = Path(tree).resolve()
        if not (trees["patched"] / "net/sched/sch_cake.c").exists():
            raise Die(f"TREE={tree} is not a Linux source tree; give the path of one")
        names["patched"] = "tree-" + re.sub(r"\W+", "-", str(trees["patched"])).strip("-")
    found = {which: Kernel(names[which], trees[which]) for which in words or trees}
    for kernel in found.values():
        kernel.build()
    return found


def attempt(kernel: Kernel, name: str) -> dict[str, list[float]] | Die:
    """counted(), or the Die that it ended with."""
    try:
        return counted(kernel, name)
    except Die as error:
        return error


def report(both: dict[str, dict]) -> tuple[int, list[str]]:
    """Print the table; (rows within their bound, sentences about the others)."""
    print(HEAD)
    passed, failed = 0, []
    for name, row in both.items():
        print(told(name, row), flush=True)
        if VERBOSE or len(both) < len(CASES):
            print("\n".join(differences(row)))
        ratio, bound = total(row["patched"]) / total(row["base"]), CASES[name].bound
        if ratio <= bound:
            passed += 1
        else:
            failed.append(f"{name}: {ratio:.4f} times the instructions of stock, at most "
                          f"{bound} is the bound")
    return passed, failed


def main(argv: Sequence[str]) -> None:
    """Build, count, print, judge."""
    parser = command_line("cost", __doc__, record=True)
    parser.add_argument("kernel", nargs="*", help=f"of {', '.join(TREES)} (both)")
    parser.add_argument("--case", default=",".join(CASES), metavar="NAME,...",
                        help="of the table (all)")
    parser.add_argument("--tree", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=common.JOBS, help="at the same time")
    args = parser.parse_args(argv)
    names = args.case.split(",")
    if unknown := set(args.kernel) - set(TREES):
        parser.error(f"there is no kernel '{unknown.pop()}'; they are {', '.join(TREES)}")
    if unknown := set(names) - set(CASES):
        parser.error(f"there is no case '{unknown.pop()}'; they are {', '.join(CASES)}")
    OUT.mkdir(parents=True, exist_ok=True)
    library("count"), library("turns")  # before there are threads
    built = kernels(args.kernel, args.tree)
    jobs = [(name, which) for name in names for which in built]
    with ThreadPoolExecutor(args.jobs) as pool:
        found = pool.map(lambda job: attempt(built[job[1]], job[0]), jobs)
        results = dict(zip(jobs, found, strict=True))
    failed = [str(result).removeprefix("error: ") for result in results.values()
              if isinstance(result, Die)]
    both = {name: {which: results[name, which] for which in built} for name in names
            if not any(isinstance(results[name, which], Die) for which in built)}
    rows = {name: {which: total(functions) for which, functions in row.items()}
            for name, row in both.items()}
    passed = 0
    if len(built) == len(TREES):
        passed, over = report(both)
        failed += over
    else:
        print("\n".join(f"{name:<23}{count:>9.1f}" for name, row in rows.items()
                        for count in row.values()))
    whole = len(rows) == len(CASES) and len(built) == len(TREES)
    if whole and not args.tree:
        record(rows)
    good, unlike = compared(rows, {"patched"} if args.tree else ())
    verdict(passed + good, failed + unlike)

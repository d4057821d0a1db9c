# SPDX-License-Identifier: GPL-2.0
"""make syz: requests of rtnetlink and packets, made up by what code they reach.

A program is a list of operations, one a line: "child 0 56 3 0 18 1 1 0 0" asks for a qdisc
below a class of the root, "packets 0 1 9 6 10 3 5 1" sends. lab/tests/syz/ops.c has them, and
lab/tests/syz/syz.c changes programs at random in a guest, thousands in a boot, and keeps those that
run code that none has run before. It begins with lab/tests/syz/seeds.txt, by hand, and
corpus.txt, what earlier runs kept (--distill writes it). Each program has a network namespace of
its own, which goes with all that is queued.

The guests have KASAN, lockdep, DEBUG_OBJECTS and kmemleak, and allocations fail when a program
says so. Most have one CPU and virtual time: there an hour in which a queue should have sent
something costs nothing, and a program does the same each time. Each third has two CPUs and real
time, two other threads send all the while, and code of the series is held up at random, which
makes a race likely (see lab/series/kcov.h). A finding is a splat, a leak, a hang, and a qdisc
that keeps packets for an hour of virtual time. It is shrunk, and --replay runs what is left.

The last line is 'N passed, N failed', by programs (--faults: by planted faults, each of which
has to be found within FIND s). Before it, which of the blocks of code (from one branch to the
next) in lines that the series add were run.
"""

import collections
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from guest.boot import Guest, boot
from host.common import BUILD, JOBS, ROOT, Die, known, run, say
from host.results import verdict
from series import kernel
from series.code import added
from series.mutate import read_list

from tests.coverage import explanations
from tests.shrink import shrunk

HERE = ROOT / "lab/tests/syz"
OUT = BUILD / "syz-run"
EXPLAINED = HERE / "unreached.txt"
CORPUS = (HERE / "seeds.txt", HERE / "corpus.txt")
FAILING = OUT / "failing.txt"
FIND = 300  # s for a planted fault
LONG = 60  # min of a run that has to reach what LEAST says
ROUND = 300  # s of a boot, at most
PATIENCE = 240  # s after that and 1 for each program, for what has begun, and to look for leaks
BOOTS = 40  # at most, to shrink a finding; twice: by programs, and by their lines
AGAIN = 20  # times that a boot to shrink runs its programs, where what happens is up to chance
SLOT = 2048  # bytes of a program in the ring
EDGES = ("/sys/kernel/debug/lab_edges", 0, 1 << 15)  # file, where in it, bytes: see kcov.h
FAULTS = "syz-faults"
SEVERAL = ("syz-smp", "syz-smp-faults")
ONLY_WRONG = re.compile(r"ASSERT_RTNL|WARN_ON")  # blocks there run if something is wrong
LEAST = {f"net/sched/sch_{name}.c": percent for names, percent in (  # lines that have to run
    (("generic-shared", "rate_group", "rate_group_qdisc", "rate_tree"), 95),
    (("cake", "tbf", "htb"), 90)) for name in names}


class Round(NamedTuple):
    """A boot: what is wrong (None: nothing), programs, text of those kept, the last progress."""

    bad: str | None
    programs: int
    found: str
    guest: Guest

    def recent(self) -> list[str]:
        """The programs that ran last, the last of them last."""
        ring = Path(self.guest.job, "ring").read_bytes()
        slots = [ring[at:at + SLOT].rstrip(b"\0").decode() for at in range(0, len(ring), SLOT)]
        last = self.programs % len(slots) if slots else 0
        return [text for text in slots[last:] + slots[:last] if text]


def program() -> Path:
    """Build what runs in the guest; its path."""
    OUT.mkdir(exist_ok=True)
    binary, headers = OUT / "fuzzer", OUT / "include/linux"
    sources = [HERE / name for name in ("syz.c", "ops.c")]
    headers.mkdir(parents=True, exist_ok=True)
    for name in ("pkt_sched", "virtio_net"):
        shutil.copy(BUILD / f"linux/include/uapi/linux/{name}.h", headers)
    run(["gcc", "-std=gnu11", "-O2", "-Wall", "-Werror", "-I", headers.parent, "-pthread",
         "-o", f"{binary}.new", *sources], "syz")
    os.replace(f"{binary}.new", binary)
    return binary


def split(text: str) -> list[str]:
    """Programs in a text, without comments."""
    text = re.sub(r"(?m)^#.*\n", "", text)
    return [f"{one.strip()}\n\n" for one in re.split(r"\n\n+", text) if one.strip()]


def attempt(which: str, programs: Sequence[str], seconds: float = 0, seed: int = 1,
            params: Sequence[str] = (), map_: Sequence = EDGES, name: str = "") -> Round:
    """Boot a kernel, run programs and, for so many s of host time, others made up from them."""
    name = f"{which}{name}"
    corpus = OUT / name / "corpus"
    corpus.parent.mkdir(parents=True, exist_ok=True)
    corpus.write_text("".join(programs))
    several = which in SEVERAL
    words = [OUT / "fuzzer", str(seed), *map(str, map_), *["several"] * several,
             *["replay"] * (not seconds)]
    folder = BUILD / "guest" / name
    setup = ("cd /sys/kernel; [ ! -w rcu_expedited ] || echo 1 >rcu_expedited; cd debug; "
             "echo N >failslab/ignore-gfp-wait; echo Y >failslab/cache-filter; "
             "echo 0 >failslab/verbose; "  # not those that kmemleak makes for itself
             "echo N >fail_page_alloc/ignore-gfp-wait; echo 0 >fail_page_alloc/verbose; "
             "for cache in /sys/kernel/slab/kmalloc-* /sys/kernel/slab/radix_tree_node; do "
             "echo 1 >$cache/failslab; done; "
             "echo 1 >/proc/sys/kernel/panic_on_rcu_stall; ")  # a kernel that hangs ends
    stop = threading.Timer(seconds, (folder / "stop").touch)
    if seconds:
        stop.start()
    guest = boot(
        kernel.image(kernel.KERNELS[which].out), name,
        f"{setup}{shlex.join(map(str, words))}; code=$?; cp lab_blocks /run/job/blocks; exit $code",
        files=(corpus,), virtual=not several, cpus=1 + several,
        timeout=seconds + PATIENCE + len(programs), mem="3G",
        params=("loglevel=5", *params))
    stop.cancel()
    job = Path(guest.job)
    trouble = job / "trouble"
    bad = trouble.read_text().strip() if trouble.exists() else guest.complaint()
    rows = (job / "progress").read_text().splitlines() if (job / "progress").exists() else []
    found = (job / "found").read_text() if (job / "found").exists() else ""
    count = int(re.search(r'"programs": (\d+)', rows[-1])[1]) if rows else 0
    return Round(bad, count, found, guest)


# ----------------------------------------------------------------- findings

def shrink(which: str, round_: Round, params: Sequence[str] = (), name: str = "") -> list[str]:
    """Lines of the fewest programs and operations that BOOTS boots find that still fail."""
    recent, again = round_.recent(), AGAIN if which in SEVERAL else 1

    def fails(programs):
        return programs if attempt(which, programs * again, params=params,
                                   name=f"{name}-shrink").bad else None

    last = next((last for last in (recent[-count:] for count in (1, 8, 64, len(recent)))
                 if fails(last)), [])
    last = shrunk(last, 1, BOOTS, fails)
    lines = "".join(last).rstrip().split("\n") if last else []
    return shrunk(lines, 1, BOOTS, lambda less: less if fails(split("\n".join(less))) else None)


def tell(which: str, round_: Round, params: Sequence[str] = (), name: str = "") -> str:
    """Report, shrink and save a finding; a sentence about it.

    params, name: of the boot that found it, as for attempt().
    """
    print(f"FINDING on {which}: {round_.bad}\n{round_.guest.trace()}", flush=True)
    ring = OUT / f"finding-{int(time.time())}.txt"
    ring.write_text("".join(round_.recent()))
    lines = shrink(which, round_, params, name)
    if not lines:
        return f"{round_.bad}: it does not happen again with the programs that ran last, in {ring}"
    FAILING.write_text(f"# {which}: {round_.bad.splitlines()[0]}\n" + "\n".join(lines) + "\n")
    print("\n".join(["", *lines, ""]), flush=True)
    return f"{round_.bad.splitlines()[0]}: {len(lines)} lines do it again, in {FAILING}"


# ----------------------------------------------------------------- coverage

class Code(NamedTuple):
    """The series' code in a kernel, from one branch to the next.

    blocks: {number of a block in lab_blocks: (file, line) that it begins with}. lines: {(file,
    line): blocks that have code of it}.
    """

    blocks: dict[int, tuple[str, int]]
    lines: dict[tuple[str, int], set[int]]


def code_of(which: str) -> Code:
    """Read it from a kernel's symbols and its code."""
    out = BUILD / kernel.KERNELS[which].out
    vmlinux = out / "vmlinux"
    symbols = subprocess.run(["nm", "-n", vmlinux], capture_output=True, text=True,
                             check=True).stdout.split("\n")
    place, twice = {}, set()
    for at, _, name in (line.split() for line in symbols if len(line.split()) == 3):
        twice |= {name} & place.keys()
        place[name] = int(at, 16)
    ours = [place[name] for file in kernel.OURS for name in
            re.findall(r" [tT] (\w+)$", subprocess.run(
                ["nm", out / f"net/sched/{file}.o"], capture_output=True, text=True,
                check=True).stdout, re.M)
            if name in place.keys() - twice]
    code = [at for at in ours if place["_stext"] <= at < place["_etext"]]
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--start-address={min(code)}",
         f"--stop-address={max(code) + 65536}", vmlinux], capture_output=True, text=True,
        check=True).stdout
    # UML calls by a register, which a function loads once
    starts, code, waiting, holds, called = [], {}, [], {}, False
    for label, at, register, value, call in re.findall(
            r"^(?:\w+ <(.*)>:"
            r"| *(\w+):\t(?:movabs \$(?:(?=.*,(%\w+)$)(0x\w+)).*|call +\*(%\w+)|.*))$",
            text, re.M):
        if label:
            waiting, called = [], False
            starts.append(None)
            continue
        where = int(at, 16)
        if called:
            starts.append(where)
            code.update(dict.fromkeys(waiting, where))
            waiting = []
        if starts and starts[-1] is not None:
            code[where] = starts[-1]
        else:
            waiting.append(where)  # before the first block of a function, of which it is
        if register:
            holds[register] = int(value, 16)
        called = holds.get(call) == place["__sanitizer_cov_trace_pc"]
    source = subprocess.run(["addr2line", "-e", vmlinux], capture_output=True, text=True,
                            check=True, input="\n".join(f"{at:x}" for at in code)
                            ).stdout.split("\n")
    known = Code({}, collections.defaultdict(set))
    for start, line in zip(code.values(), source, strict=False):
        if match := re.search(r"(net/sched/[\w-]+\.c):(\d+)", line):
            block, at_line = (start - place["_stext"]) // 2, (match[1], int(match[2]))
            known.lines[at_line].add(block)
            known.blocks.setdefault(block, at_line)
    return known


def ran(bits: bytes, block: int) -> bool:
    """Whether a block has run, by what lab_blocks says."""
    return bool(bits[block // 8] >> block % 8 & 1)


class Reached(NamedTuple):
    """Of a file: lines that the series add, how many ran, the same of blocks; rows of the
    lines that did not: number, function, text."""

    lines: int
    lines_run: int
    blocks: int
    blocks_run: int
    missed: list[tuple[int, str, str]]


def function_at(source: Sequence[str], number: int) -> str:
    """The function that a line, from 1, is in."""
    for line in reversed(source[:number]):
        if match := re.match(r"(?:[a-z][\w *]*?[ *])?(\w+)\(", line):
            return match[1]
    return "?"


def reached(which: str, bits: bytes) -> dict[str, Reached]:
    """What of each file of the series ran. bits: what the guest's lab_blocks says."""
    code, table = code_of(which), {}
    for file, numbers in sorted(added().items()):
        source = (BUILD / "linux" / file).read_text().splitlines()
        ours = {number for number in numbers if not ONLY_WRONG.search(source[number - 1])}
        lines = {number: any(ran(bits, block) for block in blocks)
                 for (name, number), blocks in code.lines.items()
                 if name == file and number in ours}
        blocks = [ran(bits, block) for block, (name, number) in code.blocks.items()
                  if name == file and number in ours]
        if lines:
            table[file] = Reached(
                len(lines), sum(lines.values()), len(blocks), sum(blocks),
                [(number, function_at(source, number), source[number - 1].strip())
                 for number in sorted(lines) if not lines[number]])
    return table


def show(which: str, bits: bytes) -> list[str]:
    """Print what ran, write which lines did not to unreached.txt; sentences about what is short.

    Those that EXPLAINED has are not counted as wanted there, and those that are not in it come
    first.
    """
    known, rest, short = explanations(EXPLAINED), {True: [], False: []}, []
    print(f"{'':<36}{'lines':>7}{'run':>7}{'%':>8}{'explained':>11}{'blocks':>8}{'run':>7}{'%':>8}")
    for file, of in reached(which, bits).items():
        why = [known.get((file, function, text)) for _, function, text in of.missed]
        for (number, function, text), reason in zip(of.missed, why, strict=True):
            rest[bool(reason)].append(
                f"{file}:{number}: {function}: {text}" + (f" ({reason})" if reason else "") + "\n")
        share = 100 * of.lines_run / of.lines
        print(f"{file:<36}{of.lines:>7}{of.lines_run:>7}{share:>8.1f}{sum(map(bool, why)):>11}"
              f"{of.blocks:>8}{of.blocks_run:>7}{100 * of.blocks_run / of.blocks:>8.1f}")
        if share < LEAST.get(file, 0):
            short.append(f"{file}: {share:.1f} % of the lines ran, not {LEAST[file]}")
    (OUT / "unreached.txt").write_text("".join(rest[False] + rest[True]))
    return short


# --------------------------------------------------------------------- runs

class Campaign:
    """Boots one after the other on each CPU of the host, which share what they find."""

    def __init__(self, seed: int, seconds: float, only: str = "") -> None:
        self.seed, self.end, self.only = seed, time.monotonic() + seconds, only
        self.known = dict.fromkeys(program for path in CORPUS if path.exists()
                                   for program in split(path.read_text()))
        self.lock = threading.Lock()
        self.programs, self.bits, self.bad = 0, bytes(1 << 21), []

    def work(self, number: int) -> None:
        """Boot until the time is over, or something is found."""
        while (left := self.end - time.monotonic()) > 20 and not self.bad:
            with self.lock:
                self.seed += 1
                seed, programs = self.seed, list(self.known)
            which = self.only or ("syz-smp" if seed % 3 == 0 else "syz")
            round_ = attempt(which, programs, min(left, ROUND), seed, name=f"-{number}")
            with self.lock:
                self.take(which, seed, round_)

    def take(self, which: str, seed: int, round_: Round) -> None:
        """Add up what a boot did."""
        self.programs += round_.programs
        self.known.update(dict.fromkeys(split(round_.found)))
        blocks = Path(round_.guest.job, "blocks")
        if which == "syz" and blocks.exists():
            self.bits = bytes(a | b for a, b in zip(self.bits, blocks.read_bytes(), strict=True))
        say(f"{which}, seed {seed}: {round_.programs} programs in {round_.guest.seconds:.0f} s, "
            f"{len(self.known)} kept: {round_.bad or 'nothing wrong'}")
        if round_.bad:
            self.bad.append((which, round_))


def fuzz(seed: int, minutes: float, only: str) -> None:
    """Make up programs for a while; report, and end with the verdict."""
    one = Campaign(seed, 60 * minutes, only)
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one.work, range(JOBS)))
    (OUT / "corpus.txt").write_text("".join(one.known))
    failed = [tell(*found) for found in one.bad]
    if any(one.bits):
        short = show("syz", one.bits)
        failed += short if minutes >= LONG else []
    verdict(one.programs, failed)


def run_again(which: str, paths: Sequence[Path]) -> None:
    """Run the programs of files; end with the verdict."""
    programs = [one for path in paths for one in split(path.read_text())]
    round_ = attempt(which, programs)
    if round_.bad:
        print(f"{round_.bad}\n{round_.guest.trace()}")
    elif which == "syz":
        show(which, Path(round_.guest.job, "blocks").read_bytes())
    verdict(round_.programs if not round_.bad else 0, [round_.bad] if round_.bad else [])


def distil() -> None:
    """Write corpus.txt: what the last run kept, less programs that reach nothing that seeds.txt,
    or shorter ones, do not."""
    seeds = split(CORPUS[0].read_text())
    programs = seeds + sorted(split((OUT / "corpus.txt").read_text()), key=len)
    blocks = Path("/sys/kernel/debug/lab_blocks")
    code = code_of("syz").blocks
    start, stop = min(code) // 64 * 8, max(code) // 64 * 8 + 8
    round_ = attempt("syz", programs, map_=(blocks, start, stop - start))
    if round_.bad:
        raise Die(round_.bad)
    kept = [one for one in split(round_.found) if one not in seeds]
    CORPUS[1].write_text("# SPDX-License-Identifier: GPL-2.0\n# What make syz has kept; "
                         "lab syz --distill writes this.\n\n" + "".join(kept).rstrip() + "\n")
    say(f"{len(kept)} of {len(programs)} programs are in {CORPUS[1]}")


def find(fault: dict, less: bool) -> str | None:
    """Fuzz a kernel with a fault in it; None if that is found, as it has to be, or a sentence.

    less: also shrink what finds it.
    """
    which = fault["kernel"] or FAULTS
    start = time.monotonic()
    params = (f"shared_mutant={fault['number']}",)
    programs = [one for path in CORPUS if path.exists() for one in split(path.read_text())]
    name = f"-{fault['number']}"
    round_ = attempt(which, programs, FIND, params=params, name=name)
    took = time.monotonic() - start
    if round_.bad and took <= FIND:
        print(f"found     {fault['rule']}: {round_.bad[:160].splitlines()[0]} ({took:.0f} s, "
              f"{round_.programs} programs)", flush=True)
        if less:
            say(tell(which, round_, params, name))
        return None
    return f"{fault['rule']}: not found in {took:.0f} s and {round_.programs} programs"


def main(*file: Path, minutes: float = 10, seed: int = 1, only: str = "", replay: bool = False,
         distill: bool = False, faults: str = "", small: bool = False) -> None:
    """Build, run, judge.

    file: with replay, programs to run (seeds.txt and corpus.txt). minutes: how long. seed: of what
    is made up. only: this kernel, syz or syz-smp; with replay, also patched, that of the loads.
    replay: run programs that are there, and nothing else. distill: write corpus.txt. faults: plant
    faults, to be found: all, or their numbers with commas. small: also shrink what finds
    them.
    """
    known("kernel", [only] if only else (), ("syz", "syz-smp", "patched"))
    program()
    if faults:
        wanted = [] if faults == "all" else [int(number) for number in faults.split(",")]
        listed = [fault for fault in read_list(kernel.SYZ_FAULTS)
                  if not wanted or fault["number"] in wanted]
        for which in sorted({fault["kernel"] or FAULTS for fault in listed}):
            kernel.build(which)
        with ThreadPoolExecutor(JOBS) as pool:
            failed = [bad for bad in pool.map(lambda fault: find(fault, small), listed)
                      if bad]
        verdict(len(listed) - len(failed), failed)
    which = only or "syz"
    kernel.build(which)
    if distill:
        distil()
    elif replay:
        run_again(which, file or [path for path in CORPUS if path.exists()])
    else:
        if not only:
            kernel.build("syz-smp")
        say(f"programs at random for {minutes:g} minutes")
        fuzz(seed, minutes, only)

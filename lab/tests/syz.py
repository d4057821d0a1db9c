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
has to be found within FIND s). Before it, which of the lines that the series add were run, and
of the blocks of code in them: lab/tests/syz_code.py.
"""

import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from guest.boot import Guest, boot
from host.common import BUILD, JOBS, ROOT, Die, known, parallel, run, say
from host.results import verdict
from series import kernel
from series.mutate import read_list

from tests.shrink import shrunk
from tests.syz_code import code_of, show

HERE = ROOT / "lab/tests/syz"
OUT = BUILD / "syz-run"
CORPUS = (HERE / "seeds.txt", HERE / "corpus.txt")
FAILING = OUT / "failing.txt"
MISSED = OUT / "unreached.txt"  # lines of the series that did not run
FIND = 300  # s for a planted fault
LONG = 60  # min of a run that has to reach what syz_code.LEAST says
ROUND = 300  # s of a boot, at most
PATIENCE = 240  # s after that and 1 for each program, for what has begun, and to look for leaks
BOOTS = 40  # at most, to shrink a finding; twice: by programs, and by their lines
AGAIN = 20  # times that a boot to shrink runs its programs, where what happens is up to chance
SLOT = 2048  # bytes of a program in the ring
EDGES = ("/sys/kernel/debug/lab_edges", 0, 1 << 15)  # file, where in it, bytes: see kcov.h
FAULTS = "syz-faults"
SEVERAL = ("syz-smp", "syz-smp-faults")


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
    words = ["sh", ROOT / "lab/tests/syz.sh", OUT / "fuzzer", seed, *map_,
             *["several"] * several, *["replay"] * (not seconds)]
    folder = BUILD / "guest" / name
    stop = threading.Timer(seconds, (folder / "stop").touch)
    if seconds:
        stop.start()
    guest = boot(
        kernel.image(kernel.KERNELS[which].out), name, shlex.join(map(str, words)),
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

def shrink(which: str, round_: Round) -> list[str]:
    """Lines of the fewest programs and operations that BOOTS boots find that still fail."""
    recent, again = round_.recent(), AGAIN if which in SEVERAL else 1

    def fails(programs):
        return programs if attempt(which, programs * again, name="-shrink").bad else None

    last = next((last for last in (recent[-count:] for count in (1, 8, 64, len(recent)))
                 if fails(last)), [])
    last = shrunk(last, 1, BOOTS, fails)
    lines = "".join(last).rstrip().split("\n") if last else []
    return shrunk(lines, 1, BOOTS, lambda less: less if fails(split("\n".join(less))) else None)


def tell(which: str, round_: Round) -> str:
    """Report, shrink and save a finding; a sentence about it."""
    print(f"FINDING on {which}: {round_.bad}\n{round_.guest.trace()}", flush=True)
    ring = OUT / f"finding-{int(time.time())}.txt"
    ring.write_text("".join(round_.recent()))
    lines = shrink(which, round_)
    if not lines:
        return f"{round_.bad}: it does not happen again with the programs that ran last, in {ring}"
    FAILING.write_text(f"# {which}: {round_.bad.splitlines()[0]}\n" + "\n".join(lines) + "\n")
    print("\n".join(["", *lines, ""]), flush=True)
    return f"{round_.bad.splitlines()[0]}: {len(lines)} lines do it again, in {FAILING}"


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
    list(parallel(one.work, range(JOBS)))
    (OUT / "corpus.txt").write_text("".join(one.known))
    failed = [tell(*found) for found in one.bad]
    if any(one.bits):
        short = show("syz", one.bits, MISSED)
        failed += short if minutes >= LONG else []
    verdict(one.programs, failed)


def run_again(which: str, paths: Sequence[Path]) -> None:
    """Run the programs of files; end with the verdict."""
    programs = [one for path in paths for one in split(path.read_text())]
    round_ = attempt(which, programs)
    if round_.bad:
        print(f"{round_.bad}\n{round_.guest.trace()}")
    elif which == "syz":
        show(which, Path(round_.guest.job, "blocks").read_bytes(), MISSED)
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


def find(fault: dict) -> str | None:
    """Fuzz a kernel with a fault in it; None if that is found, as it has to be, or a sentence."""
    which = fault["kernel"] or FAULTS
    start = time.monotonic()
    programs = [one for path in CORPUS if path.exists() for one in split(path.read_text())]
    round_ = attempt(which, programs, FIND, params=(f"shared_mutant={fault['number']}",),
                     name=f"-{fault['number']}")
    took = time.monotonic() - start
    if round_.bad and took <= FIND:
        print(f"found     {fault['rule']}: {round_.bad[:160].splitlines()[0]} ({took:.0f} s, "
              f"{round_.programs} programs)", flush=True)
        return None
    return f"{fault['rule']}: not found in {took:.0f} s and {round_.programs} programs"


def main(*file: Path, minutes: float = 10, seed: int = 1, only: str = "", replay: bool = False,
         distill: bool = False, faults: str = "") -> None:
    """Build, run, judge.

    file: with replay, programs to run (seeds.txt and corpus.txt). minutes: how long. seed: of what
    is made up. only: this kernel, syz or syz-smp; with replay, also patched, that of the loads.
    replay: run programs that are there, and nothing else. distill: write corpus.txt. faults: plant
    faults, to be found: all, or their numbers with commas.
    """
    known("kernel", [only] if only else (), ("syz", "syz-smp", "patched"))
    program()
    if faults:
        wanted = [] if faults == "all" else [int(number) for number in faults.split(",")]
        listed = [fault for fault in read_list(kernel.SYZ_FAULTS)
                  if not wanted or fault["number"] in wanted]
        for which in sorted({fault["kernel"] or FAULTS for fault in listed}):
            kernel.build(which)
        failed = list(filter(None, parallel(find, listed)))
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

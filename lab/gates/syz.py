# SPDX-License-Identifier: GPL-2.0
"""make syz: requests of rtnetlink and packets, made up by what code they reach.

A program is a list of operations, one a line: "child 0 56 3 0 18 1 1 0 0" asks for a qdisc
below a class of the root, "packets 0 1 9 6 10 3 5 1" sends. lab/gates/syz/ops.c has them, and
lab/gates/syz/syz.c changes programs at random in a guest, thousands in a boot, and keeps those that
run code that none has run before. It begins with lab/gates/syz/seeds.txt, by hand, and
corpus.txt, what earlier runs kept (--distill writes it). Each program has a network namespace of
its own, which goes with all that is queued.

The guests have KASAN, lockdep, DEBUG_OBJECTS and kmemleak, and allocations fail when a program
says so. Most have one CPU and virtual time: there an hour in which a queue should have sent
something costs nothing, and a program does the same each time. Each third has two CPUs and real
time, and another thread sends all the while. A finding is a splat, a leak, a hang, and a qdisc
that keeps packets for an hour of virtual time. It is shrunk, and --replay runs what is left.

The last line is 'N passed, N failed', by programs (--faults: by planted faults, each of which
has to be found within FIND s). Before it, which of the blocks of code (from one branch to the
next) in lines that the series add were run.
"""

import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from guest.boot import Guest, boot
from tree import kernel
from tree.common import BUILD, JOBS, ROOT, Die, command_line, run, say, verdict
from tree.mutate import read_list

from gates.coverage import added
from gates.shrink import shrunk

HERE = ROOT / "lab/gates/syz"
OUT = BUILD / "syz-run"
CORPUS = (HERE / "seeds.txt", HERE / "corpus.txt")
FAILING = OUT / "failing.txt"
FIND = 300  # s for a planted fault
ROUND = 300  # s of a boot, at most
PATIENCE = 240  # s after that, for what has begun, and for a look for leaks
BOOTS = 40  # at most, to shrink a finding
SLOT = 2048  # bytes of a program in the ring
EDGES = ("/sys/kernel/debug/lab_edges", 0, 1 << 15)  # file, where in it, bytes: see kcov.h
SEVERAL = ("syz-smp", "syz-smp-faults")
ONLY_WRONG = re.compile(r"ASSERT_RTNL|WARN_ON")  # blocks there run if something is wrong


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


def attempt(which: str, programs: Iterable[str], seconds: float = 0, seed: int = 1,
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
             "for cache in /sys/kernel/slab/kmalloc-*; do echo 1 >$cache/failslab; done; ")
    stop = threading.Timer(seconds, (folder / "stop").touch)
    if seconds:
        stop.start()
    guest = boot(
        kernel.image(kernel.KERNELS[which].out), name,
        f"{setup}{shlex.join(map(str, words))}; code=$?; cp lab_blocks /run/job/blocks; exit $code",
        files=(corpus,), virtual=not several, cpus=1 + several, timeout=seconds + PATIENCE,
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

def shrink(which: str, round_: Round, params: Sequence[str] = ()) -> list[str]:
    """Lines of the fewest programs and operations that BOOTS boots find that still fail."""
    recent, last = round_.recent(), None
    for count in (1, 8, 64, len(recent)):
        last = recent[-count:]
        if attempt(which, last, params=params, name="-shrink").bad:
            break
    else:
        return []

    def fails(less):
        return less if attempt(which, split("\n".join(less)), params=params,
                               name="-shrink").bad else None

    if len(last) > 1:
        last = shrunk(last, 1, BOOTS, lambda less: less if attempt(
            which, less, params=params, name="-shrink").bad else None)
    return shrunk("".join(last).rstrip().split("\n"), 1, BOOTS, fails)


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


# ----------------------------------------------------------------- coverage

def blocks_of(which: str) -> dict[int, tuple[str, int]]:
    """{address of a block of code in a kernel, from _stext: (file, line)}, of the series' files."""
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
    after, holds, called = [], {}, False
    for at, register, value, call in re.findall(
            r"^ *(\w+):\t(?:movabs \$(?:(?=.*,(%\w+)$)(0x\w+)).*|call +\*(%\w+)|.*)$", text, re.M):
        if called:
            after.append(int(at, 16))
        if register:
            holds[register] = int(value, 16)
        called = holds.get(call) == place["__sanitizer_cov_trace_pc"]
    lines = subprocess.run(["addr2line", "-e", vmlinux], capture_output=True, text=True, check=True,
                           input="\n".join(f"{at - 1:x}" for at in after)).stdout.split("\n")
    found = {}
    for at, line in zip(after, lines, strict=False):
        if match := re.search(r"(net/sched/[\w-]+\.c):(\d+)", line):
            found[(at - place["_stext"]) // 2] = (match[1], int(match[2]))
    return found


def reached(which: str, bits: bytes) -> dict[str, tuple[int, int, set[int]]]:
    """{file: (blocks in lines of the series, how many ran, lines of those that did not)}.

    bits: what the guest's lab_blocks says.
    """
    lines, table = added(), {}
    source = {file: (BUILD / "linux" / file).read_text().splitlines() for file in lines}
    for at, (file, line) in blocks_of(which).items():
        if line not in lines.get(file, ()) or ONLY_WRONG.search(source[file][line - 1]):
            continue
        total, ran, missed = table.setdefault(file, [0, 0, set()])
        hit = bits[at // 8] >> at % 8 & 1
        table[file][:2] = total + 1, ran + hit
        if not hit:
            missed.add(line)
    return table


def show(which: str, bits: bytes) -> None:
    """Print what ran, and write which lines did not to unreached.txt."""
    table = reached(which, bits)
    print(f"{'':<36}{'blocks':>7}{'run':>7}{'%':>8}")
    rest = []
    for file, (total, ran, missed) in sorted(table.items()):
        print(f"{file:<36}{total:>7}{ran:>7}{100 * ran / total:>8.1f}")
        source = (BUILD / "linux" / file).read_text().splitlines()
        rest += [f"{file}:{line}: {source[line - 1].strip()}\n" for line in sorted(missed)]
    (OUT / "unreached.txt").write_text("".join(rest))


# --------------------------------------------------------------------- runs

class Campaign:
    """Boots one after the other on each CPU of the host, which share what they find."""

    def __init__(self, seed: int, seconds: float, only: str | None = None) -> None:
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


def fuzz(seed: int, minutes: float, only: str | None) -> None:
    """Make up programs for a while; report, and end with the verdict."""
    one = Campaign(seed, 60 * minutes, only)
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(one.work, range(JOBS)))
    (OUT / "corpus.txt").write_text("".join(one.known))
    failed = [tell(*found) for found in one.bad]
    if any(one.bits):
        show("syz", one.bits)
    verdict(one.programs, failed)


def replay(which: str, paths: Sequence[Path]) -> None:
    """Run the programs of files; end with the verdict."""
    programs = [one for path in paths for one in split(path.read_text())]
    round_ = attempt(which, programs)
    if round_.bad:
        print(f"{round_.bad}\n{round_.guest.trace()}")
    verdict(round_.programs if not round_.bad else 0, [round_.bad] if round_.bad else [])


def distill() -> None:
    """Write corpus.txt: what the last run kept, less programs that reach nothing that seeds.txt,
    or shorter ones, do not."""
    seeds = split(CORPUS[0].read_text())
    programs = seeds + sorted(split((OUT / "corpus.txt").read_text()), key=len)
    blocks = Path("/sys/kernel/debug/lab_blocks")
    start = min(blocks_of("syz")) // 64 * 8
    stop = max(blocks_of("syz")) // 64 * 8 + 8
    round_ = attempt("syz", programs, map_=(blocks, start, stop - start))
    if round_.bad:
        raise Die(round_.bad)
    kept = [one for one in split(round_.found) if one not in seeds]
    CORPUS[1].write_text("# SPDX-License-Identifier: GPL-2.0\n# What make syz has kept; "
                         "lab syz --distill writes this.\n\n" + "".join(kept).rstrip() + "\n")
    say(f"{len(kept)} of {len(programs)} programs are in {CORPUS[1]}")


def find(fault: dict) -> str | None:
    """Fuzz a kernel with a fault in it; None if that is found, as it has to be, or a sentence."""
    which = fault["kernel"] or "syz-faults"
    start = time.monotonic()
    params = (f"shared_mutant={fault['number']}",)
    programs = [one for path in CORPUS if path.exists() for one in split(path.read_text())]
    round_ = attempt(which, programs, FIND, params=params, name=f"-{fault['number']}")
    took = time.monotonic() - start
    if round_.bad and took <= FIND:
        print(f"found     {fault['rule']}: {round_.bad[:160].splitlines()[0]} ({took:.0f} s, "
              f"{round_.programs} programs)", flush=True)
        return None
    return f"{fault['rule']}: not found in {took:.0f} s and {round_.programs} programs"


def main(argv: Sequence[str]) -> None:
    """Build, run, judge."""
    parser = command_line("syz", __doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--seed", type=int, default=1, help="of what is made up (1)")
    parser.add_argument("--only", choices=("syz", "syz-smp", "patched"),
                        help="this kernel; patched, for --replay: that of the loads")
    parser.add_argument("--replay", nargs="*", type=Path, metavar="FILE",
                        help="run these programs (seeds.txt and corpus.txt) and nothing else")
    parser.add_argument("--distill", action="store_true", help="write corpus.txt")
    parser.add_argument("--faults", action="store_true", help="plant faults, to be found")
    args = parser.parse_args(argv)
    program()
    if args.faults:
        faults = read_list(kernel.SYZ_FAULTS)
        kernel.build("syz-faults")
        kernel.build("syz-smp-faults")
        with ThreadPoolExecutor(JOBS) as pool:
            failed = [bad for bad in pool.map(find, faults) if bad]
        verdict(len(faults) - len(failed), failed)
    which = args.only or "syz"
    kernel.build(which)
    if args.distill:
        distill()
    elif args.replay is not None:
        replay(which, args.replay or [path for path in CORPUS if path.exists()])
    else:
        if not args.only:
            kernel.build("syz-smp")
        say(f"programs at random for {args.minutes:g} minutes")
        fuzz(args.seed, args.minutes, args.only)

# SPDX-License-Identifier: GPL-2.0
"""make fuzz: the rate group's C file, unchanged, in user space under random scenarios.

lab/gates/fuzz holds the simulator: members that send as cake and tbf do, in virtual time. It
checks the bounds that the comment in the C file states, over all windows, shares, waits,
and what the tail is moved by. A scenario that fails is made as small as it gets and
printed; its number repeats it. The last line counts scenarios. V=1 in the environment
shows how near each kind of scenario comes to its bounds; with --seeds 1, what happens in
that one, made small if it fails.
"""

import argparse
import collections
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tree.common import BUILD, JOBS, ROOT, VERBOSE, Die, command_line, run, say, verdict
from tree.mutate import read_list

HERE = ROOT / "lab/gates/fuzz"
OUT = BUILD / "fuzz"
SEEDS = 20000  # scenarios
CHUNK = 500  # scenarios of a process
FAULTS = HERE / "faults.txt"
REST = OUT / "rest.o"  # the simulator, when a fault is in the C file
FAULTY = 3000  # scenarios that have to find a fault
FILES = ("net/sched/sch_rate_group.c", "include/net/sch_rate_group.h")  # as in faults.txt
SHOWN = 3  # findings of a family and a check that are printed
SANITIZERS = {"": [], "1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
              "thread": ["-fsanitize=thread"]}
# -fwrapv and -fno-strict-aliasing as the kernel has them
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-sign-compare",
         "-Wno-missing-field-initializers", "-fwrapv", "-fno-strict-aliasing", "-pthread"]
# a line of the program's; what is after | is the scenario, made small
FINDING = re.compile(r"FAIL seed (\d+)(?: (\w+): (\D+?) -?\d)?")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = command_line("fuzz", __doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="the first scenario (1), made from its number")
    add("--seeds", type=int, help=f"how many ({SEEDS})")
    add("--time", type=int, metavar="S", help="go on for so many seconds instead")
    add("--family", default="-", metavar="NAME",
        help="only this kind of scenario; the names are in lab/gates/fuzz/families.c")
    add("--threads", type=int, default=40, metavar="N",
        help="runs in which threads move the tail (40)")
    add("--san", choices=[*SANITIZERS][1:], default="", help="1: with the address and undefined "
        "behaviour sanitizers; thread: threads only, with the thread sanitizer")
    add("--faults", action="store_true", help="plant those of lab/gates/fuzz/faults.txt, one at "
        f"a time: each must make one of the first {FAULTY} scenarios fail")
    add("--src", type=Path, default=ROOT / "net/sched/sch_rate_group.c", metavar="FILE",
        help="another sch_rate_group.c")
    add("--inc", type=Path, default=ROOT / "include", metavar="FOLDER",
        help="where net/sch_rate_group.h is")
    return parser.parse_args(argv)


def shims(sources: Iterable[Path]) -> None:
    """See to it that every header of the kernel that sources include is our own."""
    others = re.compile(r"#include <((?:linux|asm|net(?!/sch_rate_group))/[^>]+)>")
    for source in sources:
        for header in others.findall(source.read_text()):
            path = OUT / "include" / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#include <kernel.h>\n")


def compiler(header: Path, *more: Any) -> list:
    """The command that compiles for a rate group with this header, in a folder net."""
    return ["gcc", *FLAGS, "-I", OUT / "include", "-I", HERE / "shim",
            "-I", header.parent.parent, *more]


def simulator() -> list[Path]:
    """All but the rate group."""
    return sorted(HERE.glob("*.c"))


def build(source: Path, header: Path, sanitizer: str) -> Path:
    """Compile the fuzzer; returns the program."""
    program = OUT / ("fuzz" + (f"-{sanitizer}" if sanitizer else ""))
    shims([source, header])
    run(compiler(header, *SANITIZERS[sanitizer], source, *simulator(), "-o", program),
        "fuzz-build", "building the fuzzer", 3)
    return program


def ask(program: Path, *args: Any) -> list[str]:
    """What the program prints, as lines. It ends with 1 if it found something."""
    done = subprocess.run([str(word) for word in (program, *args)], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = done.stdout.splitlines()
    if done.returncode not in (0, 1, 3) or (done.returncode == 1 and "ok," not in lines[-1]):
        how = (signal.Signals(-done.returncode).name if done.returncode < 0
               else f"status {done.returncode}")
        print("\n".join(lines[-40:]))
        raise Die(f"the fuzzer ended with {how} in '{' '.join(map(str, args))}' (what it said "
                  "is above); --san 1 may tell more")
    return lines


def plant(fault: dict, files: dict[str, Path]) -> Path:
    """Compile the fuzzer with a fault in a copy of files, {name in the list: path}."""
    folder = OUT / f"fault-{fault['number']}"
    copies = {}
    for name, path in files.items():
        text = path.read_text()
        if name == fault["file"]:
            if fault["old"] not in text:
                raise Die(f"{FAULTS.name}: the text of fault {fault['number']} is not in {name}; "
                          "correct the list")
            text = text.replace(fault["old"], fault["new"])
        copies[name] = folder / name
        copies[name].parent.mkdir(parents=True, exist_ok=True)
        copies[name].write_text(text)
    source, header = (copies[name] for name in FILES)
    program = folder / "fuzz"
    rest = [REST] if fault["file"] == FILES[0] else simulator()
    run(compiler(header, source, *rest, "-o", program), f"fuzz-fault-{fault['number']}")
    return program


def first_finding(program: Path) -> tuple[str, int] | None:
    """What fails first, and in the how manieth scenario: (sentence, number), or None."""
    for seed in range(1, FAULTY + 1, CHUNK):
        for line in ask(program, seed, CHUNK, 0, "-"):
            if found := FINDING.match(line):
                return f"{found[2] or 'a call'}: {found[3] or 'hangs'}", int(found[1])
    return None


def faults(files: dict[str, Path]) -> None:
    """Plant each fault, and see if it is found."""
    listed = read_list(FAULTS)
    if strange := {fault["file"] for fault in listed} - set(FILES):
        raise Die(f"{FAULTS.name}: {strange.pop()} is not {' or '.join(FILES)}; correct the list")
    run(compiler(files[FILES[1]], "-r", *simulator(), "-o", REST), "fuzz-rest")
    say(f"planting {len(listed)} faults (about {len(listed) // JOBS} s)")
    with ThreadPoolExecutor(JOBS) as pool:
        found = list(pool.map(lambda fault: first_finding(plant(fault, files)), listed))
    failed = []
    for fault, finding in zip(listed, found, strict=True):
        told = f"{fault['number']:3}  {fault['rule']}"
        if finding:
            print(f"{told}: {finding[0]}, in scenario {finding[1]}")
        else:
            failed.append(f"{told}: not found in {FAULTY} scenarios")
    verdict(len(listed) - len(failed), failed)


def rounds(args: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """(first seed, how many) of one chunk after the other."""
    seed, left = args.seed, args.seeds or SEEDS
    end = time.time() + (args.time or 0)
    while (time.time() < end) if args.time else left > 0:
        count = CHUNK if args.time else min(CHUNK, left)
        yield seed, count
        seed, left = seed + count, left - count


def scenarios(program: Path, args: argparse.Namespace) -> Iterator[list[str]]:
    """Run them on all CPUs; yields the lines of each chunk."""
    with ThreadPoolExecutor(JOBS) as pool:
        jobs = collections.deque()
        for seed, count in rounds(args):
            jobs.append(pool.submit(ask, program, seed, count, 1, args.family))
            if len(jobs) >= 2 * JOBS:
                yield jobs.popleft().result()
        for job in jobs:
            yield job.result()


class Findings:
    """Counts scenarios, and keeps the first of each kind that failed."""

    def __init__(self) -> None:
        self.passed = self.failed = self.packets = 0
        self.kinds = collections.defaultdict(list)
        self.families = collections.defaultdict(collections.Counter)
        self.nearest = collections.defaultdict(collections.Counter)

    def add(self, lines: Sequence[str]) -> None:
        """The lines of a run of the program."""
        for line in lines:
            found = FINDING.match(line)
            if found:
                self.kinds[found[2] or "a call", found[3] or "hangs"].append(line)
            elif line.startswith("FAMILY "):
                _, name, runs, failed, *_ = line.split()
                self.families[name].update(runs=int(runs), failed=int(failed))
                for check, permille in re.findall(r" ([A-Za-z ]+)=(\d+)", line):
                    nearest = self.nearest[name]
                    nearest[check] = max(nearest[check], int(permille))
        total = re.match(r"(\d+) ok, (\d+) failed, (\d+) packets", lines[-1])
        if total:
            self.passed += int(total[1])
            self.failed += int(total[2])
            self.packets += int(total[3])
        else:  # it hung, and the rest of its scenarios was not run
            self.failed += 1

    def show(self) -> None:
        """Print them: small ones first."""
        for (family, check), lines in sorted(self.kinds.items()):
            lines.sort(key=lambda line: ("|" not in line, len(line)))
            print("\n".join(lines[:SHOWN]))
            if len(lines) > SHOWN:
                print(f"     and {len(lines) - SHOWN} more of {family}: {check}")
        if VERBOSE:
            for name, count in self.families.items():
                print(f"{name:10}{count['runs']:8} scenarios{count['failed']:8} failed; "
                      "of its bound, at most: " + ", ".join(
                          f"{check} {permille / 10:.0f} %" for check, permille
                          in self.nearest[name].most_common()))


def main(argv: Sequence[str]) -> None:
    """Build, run, print."""
    args = arguments(argv)
    source, header = args.src, args.inc / "net/sch_rate_group.h"
    for path in (source, header):
        if not path.exists():
            raise Die(f"{path} does not exist; --src names the C file, --inc the folder that "
                      "has net/sch_rate_group.h")
    program = build(source, header, args.san)
    if args.faults:
        if first_finding(program):
            raise Die("there are findings without a fault, so none would prove anything: run "
                      "this without --faults")
        faults(dict(zip(FILES, (source, header), strict=True)))
    if args.seeds == 1 and VERBOSE:
        sys.exit(subprocess.call([program, "trace", str(args.seed), args.family]))
    findings = Findings()
    if args.san != "thread":
        say("running scenarios" + ("" if args.time or args.seeds else " (about 10 s)"))
        for lines in scenarios(program, args):
            findings.add(lines)
    if args.family == "-":
        findings.add(ask(program, "threads", args.seed, args.threads))
    say(f"{findings.packets} packets sent")
    findings.show()
    print(f"{findings.passed} passed, {findings.failed} failed")
    sys.exit(bool(findings.failed))

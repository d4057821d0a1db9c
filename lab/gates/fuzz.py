# SPDX-License-Identifier: GPL-2.0
"""make fuzz: the C files of rate group and rate tree, unchanged, in user space.

lab/gates/fuzz holds the simulator: members that send as cake and tbf do, in virtual time. It
checks the bounds that the comment in the C file states, over all windows, shares, waits,
and what the TAT is moved by. A scenario that fails is made as small as it gets and
printed; its number repeats it. The last line counts scenarios. V=1 in the environment
shows how near each kind of scenario comes to its bounds; with --seeds 1, what happens in
that one, made small if it fails.

A quotient that does not fit in 64 bits, for which the kernel traps on x86, is a finding, and
so is a comparison of times so far apart that its result says nothing. --san 1, and --faults,
compile copies in which products are checked, too.

The rate tree has a program of its own, lab/gates/fuzz/tree.c: whatever a scheduler may do,
at random, and after each step all lists, trees and sums must be right. --family tree runs
only that; with --seeds 1 and V=1 it shows each step.
"""

import argparse
import collections
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tree.common import BUILD, JOBS, ROOT, VERBOSE, Die, command_line, run, say, verdict
from tree.mutate import read_list

HERE = ROOT / "lab/gates/fuzz"
SHIM = ROOT / "lab/load/shim"  # the kernel's headers in user space
OUT = BUILD / "fuzz"
SEEDS = {"group": 20000, "tree": 2000}  # scenarios
CHUNK = 500  # scenarios of a process
TEST = ROOT / "net/sched/sch_rate_group_test.c"  # cases of KUnit
FAULTS = HERE / "faults.txt"
FAULTY = {"group": 6000, "tree": 1000}  # scenarios that have to find a fault
COMMON = "net/sched/sch_rate.h"  # of both
FILES = {name: (f"net/sched/sch_rate_{name}.c", f"include/net/sch_rate_{name}.h", COMMON)
         for name in SEEDS}  # as in faults.txt
SHOWN = 3  # findings of a family and a check that are printed
# The end of a list, seen as an entry, need not be aligned as one
SANITIZERS = {"": [], "1": ["-fsanitize=address,undefined", "-fno-sanitize=alignment",
                           "-fno-sanitize-recover=all"],
              "thread": ["-fsanitize=thread"]}
# -fwrapv and -fno-strict-aliasing as the kernel has them
FLAGS = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-sign-compare",
         "-Wno-missing-field-initializers", "-fwrapv", "-fno-strict-aliasing", "-pthread"]
# what a product is made of; a * that is not one has no space behind it
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
OPERAND = rf"((?:\(\w+\))?(?:\w[\w.]*(?:->\w+)*(?:{PARENTHESES})?|{PARENTHESES}))"
PRODUCT = re.compile(rf"{OPERAND} \*\s+{OPERAND}")
# a line of the program's; what is after | is the scenario, made small
FINDING = re.compile(r"FAIL seed (\d+)(?: (\w+): (\D+?) -?\d)?")


def checked(text: str) -> str:
    """C code whose products must fit: its comments, macros and lengths stay as they are."""
    def product(match: re.Match) -> str:
        return f"shim_mul({checked(match[1])}, {checked(match[2])})"

    pieces = re.split(r"(/\*.*?\*/|^#[^\n]*|[^\n]*sizeof[^\n]*)", text, flags=re.S | re.M)
    for i in range(0, len(pieces), 2):
        while (more := PRODUCT.sub(product, pieces[i])) != pieces[i]:
            pieces[i] = more
    return "".join(pieces)


@dataclass(frozen=True)
class Part:
    """One of the C files: "group" or "tree", the file and its header, in a folder net."""

    name: str
    source: Path
    header: Path

    @property
    def files(self) -> dict[str, Path]:
        """What can have faults, by its name in faults.txt."""
        return dict(zip(FILES[self.name], (self.source, self.header, ROOT / COMMON), strict=True))

    @property
    def rest(self) -> Path:
        """The simulator, compiled, for when a fault is in the C file."""
        return OUT / f"rest-{self.name}.o"

    def simulator(self) -> list[Path]:
        """All but the C file."""
        tree, kunit = HERE / "tree.c", HERE / "kunit.c"
        return [tree] if self.name == "tree" else sorted({*HERE.glob("*.c")} - {tree, kunit})

    def shims(self, name: str = "", *more: Path) -> None:
        """See to it that every header of the kernel that the files include is our own.

        name: of the program, if it is not that of the part; more: files of its own.
        """
        shim = {"tree": "checked.h", "kunit": "kunit.h"}.get(name or self.name, "kernel.h")
        others = re.compile(r"#include <((?:linux|asm|kunit|net(?!/sch_rate_))/[^>]+)>")
        for file in (*self.files.values(), *more):
            for header in others.findall(file.read_text()):
                path = OUT / f"include-{name or self.name}" / header
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"#include <{shim}>\n")

    def compiler(self, *more: Any, header: Path | None = None, name: str = "") -> list:
        """The command that compiles with this header, or another one; name: as in shims()."""
        races = ["-DSHIM_RACES"] if self.name == "tree" else []
        return ["gcc", *FLAGS, *races, "-I", OUT / f"include-{name or self.name}", "-I", SHIM,
                "-I", (header or self.header).parent.parent, "-I", (ROOT / COMMON).parent, *more]

    def copy(self, folder: Path, fault: dict | None = None) -> tuple[Path, Path]:
        """Copies of source and header whose products are checked, with a fault in one."""
        copies = []
        for name, path in self.files.items():
            text = path.read_text()
            if fault and name == fault["file"]:
                if fault["old"] not in text:
                    raise Die(f"{FAULTS.name}: the text of fault {fault['number']} is not in "
                              f"{name}; correct the list")
                text = text.replace(fault["old"], fault["new"])
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(checked(text))
            copies.append(copy)
        return copies[0], copies[1]

    def build(self, sanitizer: str) -> Path:
        """Compile the fuzzer; returns the program. With --san 1, products are checked, too."""
        program = OUT / f"fuzz-{self.name}{sanitizer and '-'}{sanitizer}"
        self.shims()
        source, header = self.source, self.header
        if sanitizer == "1":
            source, header = self.copy(OUT / f"checked-{self.name}")
        run(self.compiler(*SANITIZERS[sanitizer], source, *self.simulator(), "-o", program,
                          header=header),
            f"fuzz-build-{self.name}", f"building the fuzzer of the rate {self.name}", 3)
        return program


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = command_line("fuzz", __doc__)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="the first scenario (1), made from its number")
    add("--seeds", type=int, help="how many ({group}; {tree} of the rate tree)".format(**SEEDS))
    add("--time", type=int, metavar="S", help="go on for so many seconds instead")
    add("--family", default="-", metavar="NAME",
        help="only this kind of scenario; tree: those of the rate tree; rows: two tables, what "
        "lateness costs and what is written below the rate; the names of others are in "
        "lab/gates/fuzz/families.c")
    add("--threads", type=int, default=40, metavar="N",
        help="runs in which threads move the TAT (40)")
    add("--san", choices=[*SANITIZERS][1:], default="", help="1: with the address and undefined "
        "behaviour sanitizers, products that do not fit are found, and the KUnit cases of the "
        "rate group run as well; thread: threads only, with the thread sanitizer")
    add("--faults", action="store_true", help="plant those of lab/gates/fuzz/faults.txt, one at "
        "a time: each must make one of the first {group} scenarios fail, of the rate tree "
        "{tree}".format(**FAULTY))
    add("--src", type=Path, metavar="FILE", help="another sch_rate_group.c, and nothing else; "
        "with --family tree, another sch_rate_tree.c")
    add("--inc", type=Path, default=ROOT / "include", metavar="FOLDER",
        help="where net/sch_rate_group.h is, and net/sch_rate_tree.h")
    args = parser.parse_args(argv)
    if args.san == "thread" and args.family == "tree":
        parser.error("the rate tree is not run with threads")
    return args


def parts(args: argparse.Namespace) -> list[Part]:
    """What the command line asks for."""
    names = [*SEEDS]
    if args.family == "tree":
        names = ["tree"]
    elif args.family != "-" or args.src or args.san == "thread":
        names = ["group"]
    found = [Part(name, args.src or ROOT / f"net/sched/sch_rate_{name}.c",
                  args.inc / f"net/sch_rate_{name}.h") for name in names]
    for path in (file for part in found for file in part.files.values()):
        if not path.exists():
            raise Die(f"{path} does not exist; --src names the C file, --inc the folder that "
                      "has its header in a folder net")
    return found


def kunit(part: Part, sanitizer: str) -> Path:
    """Compile the KUnit cases of the rate group for user space; returns the program."""
    program = OUT / f"kunit-{sanitizer}"
    part.shims("kunit", TEST)
    source, header = part.copy(OUT / f"checked-{part.name}")
    # The kernel's u64 has another format
    run(part.compiler(*SANITIZERS[sanitizer], "-Wno-format", source, TEST, HERE / "kunit.c",
                      "-o", program, header=header, name="kunit"),
        "fuzz-build-kunit", "building the KUnit cases of the rate group for user space", 5)
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


def plant(fault: dict, part: Part) -> Path:
    """Compile the fuzzer with a fault in a copy of the files."""
    folder = OUT / f"fault-{fault['number']}"
    source, header = part.copy(folder, fault)
    program = folder / "fuzz"
    rest = [part.rest] if fault["file"] == FILES[part.name][0] else part.simulator()
    run(part.compiler(source, *rest, "-o", program, header=header),
        f"fuzz-fault-{fault['number']}")
    return program


def first_finding(program: Path, part: Part) -> tuple[str, int] | None:
    """What fails first, and in the how manieth scenario: (sentence, number), or None."""
    for seed in range(1, FAULTY[part.name] + 1, CHUNK):
        for line in ask(program, seed, CHUNK, 0, "-"):
            if found := FINDING.match(line):
                return f"{found[2] or 'a call'}: {found[3] or 'hangs'}", int(found[1])
    return None


def faults(tested: Sequence[Part]) -> None:
    """Plant each fault, and see if it is found."""
    listed = read_list(FAULTS)
    if strange := {fault["file"] for fault in listed} - {*sum(FILES.values(), ())}:
        raise Die(f"{FAULTS.name}: {strange.pop()} is no file of rate group or rate tree; "
                  "correct the list")
    of = {name: part for part in tested for name in part.files}
    listed = [fault for fault in listed if fault["file"] in of]
    for part in tested:
        run(part.compiler("-r", *part.simulator(), "-o", part.rest), f"fuzz-rest-{part.name}")
    say(f"planting {len(listed)} faults (about {len(listed) // JOBS} s)")

    def find(fault: dict) -> tuple[str, int] | None:
        part = of[fault["file"]]
        return first_finding(plant(fault, part), part)

    with ThreadPoolExecutor(JOBS) as pool:
        found = list(pool.map(find, listed))
    failed = []
    for fault, finding in zip(listed, found, strict=True):
        told = f"{fault['number']:3}  {fault['rule']}"
        if finding:
            print(f"{told}: {finding[0]}, in scenario {finding[1]}")
        else:
            failed.append(f"{told}: not found in {FAULTY[of[fault['file']].name]} scenarios")
    verdict(len(listed) - len(failed), failed)


def rounds(part: Part, args: argparse.Namespace) -> Iterator[tuple[int, int]]:
    """(first seed, how many) of one chunk after the other."""
    seed, left = args.seed, args.seeds or SEEDS[part.name]
    end = time.time() + (args.time or 0)
    while (time.time() < end) if args.time else left > 0:
        count = CHUNK if args.time else min(CHUNK, left)
        yield seed, count
        seed, left = seed + count, left - count


def scenarios(program: Path, part: Part, args: argparse.Namespace) -> Iterator[list[str]]:
    """Run them on all CPUs; yields the lines of each chunk."""
    with ThreadPoolExecutor(JOBS) as pool:
        jobs = collections.deque()
        for seed, count in rounds(part, args):
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
                nearest = ", ".join(f"{check} {permille / 10:.0f} %" for check, permille
                                    in self.nearest[name].most_common())
                print(f"{name:10}{count['runs']:8} scenarios{count['failed']:8} failed"
                      + (nearest and f"; of its bound, at most: {nearest}"))


def main(argv: Sequence[str]) -> None:
    """Build, run, print."""
    args = arguments(argv)
    tested = parts(args)
    programs = {part: part.build(args.san) for part in tested}
    if args.family == "rows":
        sys.exit(subprocess.call([programs[tested[0]], "rows"]))
    if args.faults:
        if any(first_finding(program, part) for part, program in programs.items()):
            raise Die("there are findings without a fault, so none would prove anything: run "
                      "this without --faults")
        faults(tested)
    if args.seeds == 1 and VERBOSE:
        sys.exit(subprocess.call([programs[tested[0]], "trace", str(args.seed), args.family]))
    findings = Findings()
    if args.san != "thread":
        say("running scenarios" + ("" if args.time or args.seeds else " (about 10 s)"))
        for part, program in programs.items():
            for lines in scenarios(program, part, args):
                findings.add(lines)
    if args.family == "-":
        findings.add(ask(programs[tested[0]], "threads", args.seed, args.threads))
    if args.family == "-" and args.san == "1":
        findings.add(ask(kunit(tested[0], args.san)))
    say(f"{findings.packets} packets sent")
    findings.show()
    print(f"{findings.passed} passed, {findings.failed} failed")
    sys.exit(bool(findings.failed))

# SPDX-License-Identifier: GPL-2.0
"""make fuzz: the C files of rate group and rate tree, unchanged, in user space.

lab/sim/fuzz holds the simulator: members that send as cake and tbf do, in virtual time. It
checks the bounds that the comment in the C file states, over all windows, shares, waits,
and what the TAT is moved by. A scenario that fails is made as small as it gets and
printed; its number repeats it. The last line counts scenarios. V=1 in the environment
shows how near each kind of scenario comes to its bounds; with --seeds 1, what happens in
that one, made small if it fails.

A quotient that does not fit in 64 bits, for which the kernel traps on x86, is a finding, and
so is a comparison of times so far apart that its result says nothing. --san 1, and --faults,
compile copies in which products are checked, too.

The rate tree has a program of its own, lab/sim/fuzz/tree.c: whatever a scheduler may do,
at random, and after each step all lists, trees and sums must be right. --family tree runs
only that; with --seeds 1 and V=1 it shows each step.
"""

import collections
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.common import BUILD, JOBS, ROOT, VERBOSE, Die, known, parallel, run, say
from host.results import verdict
from series.copies import write
from series.mutate import read_list

HERE = ROOT / "lab/sim/fuzz"
SHIM = ROOT / "lab/sim/shim"  # the kernel's headers in user space
OUT = BUILD / "fuzz"
SEEDS = {"group": 20000, "tree": 2000}  # scenarios
CHUNK = 500  # scenarios of a process
TEST = "net/sched/sch_rate_group_test.c"  # cases of KUnit
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
    """One of the C files with its header: "group" or "tree".

    root: the folder that they are in, at their kernel paths.
    """

    name: str
    root: Path = ROOT

    @property
    def out(self) -> Path:
        """Where it is compiled. Runs with other sources may go on at the same time."""
        return OUT if self.root == ROOT else self.root / "out"

    @property
    def files(self) -> dict[str, Path]:
        """What can have faults, by its name in faults.txt: the source and its headers."""
        return {name: self.root / name for name in FILES[self.name]}

    @property
    def source(self) -> Path:
        """The C file."""
        return self.root / FILES[self.name][0]

    @property
    def rest(self) -> Path:
        """The simulator, compiled, for when a fault is in the C file."""
        return self.out / f"rest-{self.name}.o"

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
                path = self.out / f"include-{name or self.name}" / header
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, f"#include <{shim}>\n".encode())  # others may be compiling with it

    def compiler(self, *more: Any, include: Path | None = None, name: str = "") -> list:
        """The command that compiles with the header below a folder; name: as in shims()."""
        races = ["-DSHIM_RACES"] if self.name == "tree" else []
        return ["gcc", *FLAGS, *races, "-I", self.out / f"include-{name or self.name}", "-I", SHIM,
                "-I", include or self.root / "include", "-I", (self.root / COMMON).parent, *more]

    def copy(self, folder: Path, fault: dict | None = None) -> tuple[Path, Path]:
        """(source, where its header is) of copies whose products are checked, a fault in one."""
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
        return folder / FILES[self.name][0], folder / "include"

    def build(self, sanitizer: str) -> Path:
        """Compile the fuzzer; returns the program. With --san 1, products are checked, too."""
        program = self.out / f"fuzz-{self.name}{sanitizer and '-'}{sanitizer}"
        self.shims()
        source, include = self.source, None
        if sanitizer == "1":
            source, include = self.copy(self.out / f"checked-{self.name}")
        run(self.compiler(*SANITIZERS[sanitizer], source, *self.simulator(), "-o", program,
                          include=include),
            f"fuzz-build-{self.name}", f"building the fuzzer of the rate {self.name}", 3)
        return program


def kunit(part: Part, sanitizer: str) -> Path:
    """Compile the KUnit cases of the rate group for user space; returns the program."""
    program = part.out / f"kunit-{sanitizer}"
    part.shims("kunit", part.root / TEST)
    source, include = part.copy(part.out / f"checked-{part.name}")
    # The kernel's u64 has another format
    run(part.compiler(*SANITIZERS[sanitizer], "-Wno-format", source, part.root / TEST,
                      HERE / "kunit.c", "-o", program, include=include, name="kunit"),
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
    source, include = part.copy(folder, fault)
    program = folder / "fuzz"
    rest = [part.rest] if fault["file"] == FILES[part.name][0] else part.simulator()
    run(part.compiler(source, *rest, "-o", program, include=include),
        f"fuzz-fault-{fault['number']}")
    return program


def first_finding(program: Path, part: Part) -> tuple[str, int] | None:
    """What fails first, and in the how manieth scenario: (sentence, number), or None."""
    for seed in range(1, FAULTY[part.name] + 1, CHUNK):
        for line in ask(program, seed, CHUNK, 0, "-"):
            if found := FINDING.match(line):
                return f"{found[2] or 'a call'}: {found[3] or 'hangs'}", int(found[1])
    return None


def plant_all(tested: Sequence[Part]) -> None:
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

    failed = []
    for fault, finding in zip(listed, parallel(find, listed), strict=True):
        told = f"{fault['number']:3}  {fault['rule']}"
        if finding:
            print(f"{told}: {finding[0]}, in scenario {finding[1]}")
        else:
            failed.append(f"{told}: not found in {FAULTY[of[fault['file']].name]} scenarios")
    verdict(len(listed) - len(failed), failed)


def scenarios(program: Path, seeds: range, family: str) -> Iterator[list[str]]:
    """Run them on all CPUs; yields the lines of each chunk."""
    return parallel(lambda first: ask(program, first, min(CHUNK, seeds.stop - first), 1, family),
                    seeds[::CHUNK])


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


def parts_of(family: str, san: str) -> list[Part]:
    """What is tested; family, san: as for main()."""
    if family not in ("-", "tree") or san == "thread":
        return [Part("group")]
    return [Part(name) for name in (["tree"] if family == "tree" else SEEDS)]


def run_all(programs: dict[Part, Path], seed: int, seeds: int, family: str, threads: int,
            san: str) -> Findings:
    """Run scenarios, threads and KUnit cases; what they say.

    programs: {part: its fuzzer}. The rest: as for main().
    """
    findings, first = Findings(), next(iter(programs))
    if san != "thread":
        say("running scenarios" + ("" if seeds else " (about 10 s)"))
        for part, program in programs.items():
            some = range(seed, seed + (seeds or SEEDS[part.name]))
            for lines in scenarios(program, some, family):
                findings.add(lines)
    if family == "-":
        findings.add(ask(programs[first], "threads", seed, threads))
    if family == "-" and san == "1":
        findings.add(ask(kunit(first, san)))
    return findings


def main(seed: int = 1, seeds: int = 0, family: str = "-", threads: int = 40, san: str = "",
         faults: bool = False) -> None:
    """Build, run, print.

    seed: the first scenario, made from its number. seeds: how many (20000, and 2000 of the rate
    tree). family: only this kind of scenario; tree, those of the rate tree; rows, two tables,
    what lateness costs and what is written below the rate; the names of others are in
    lab/sim/fuzz/families.c. threads: runs in which threads move the TAT. san: 1, with the
    address and undefined behaviour sanitizers, products that do not fit are found, and the KUnit
    cases of the rate group run as well; thread, threads only, with the thread sanitizer. faults:
    plant those of lab/sim/fuzz/faults.txt, one at a time, each of which must make a scenario
    fail.
    """
    known("sanitizer", [san], SANITIZERS)
    tested = parts_of(family, san)
    programs = {part: part.build(san) for part in tested}
    if family == "rows":
        sys.exit(subprocess.call([programs[tested[0]], "rows"]))
    if faults:
        if any(first_finding(program, part) for part, program in programs.items()):
            raise Die("there are findings without a fault, so none would prove anything: run "
                      "this without --faults")
        plant_all(tested)
    if seeds == 1 and VERBOSE:
        sys.exit(subprocess.call([programs[tested[0]], "trace", str(seed), family]))
    findings = run_all(programs, seed, seeds, family, threads, san)
    say(f"{findings.packets} packets sent")
    findings.show()
    verdict(findings.passed, findings.failed)

# SPDX-License-Identifier: GPL-2.0
"""make litmus: the orderings that the series relies on, by the kernel's memory model.

Each file of lab/tests/litmus is a test for herd7 with the model of the base kernel
(tools/memory-model). It says what has to come out (Result), and for which barrier it is: of
each barrier in the C files that the series add there is a test that needs it (Orders: file
function barrier) and one that shows what happens without it (Without: ...), or it is in
untested.txt. That is looked up in the sources, also where there is no herd7: Debian has none.
HERD7=path names one. The last line is 'N passed, N failed'.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from host.common import BUILD, told
from host.results import verdict
from host.setup import loudly

HERE = Path(__file__).with_name("litmus")
LINUX = BUILD / "linux"
FILES = ("sch_rate_group.c", "sch_rate_group_qdisc.c", "sch_rate_tree.c",
         "sch_generic-shared.c")
BARRIER = re.compile(r"\b(smp_\w+|rcu_read_lock|atomic64_(?:read_acquire|set_release))\(")
SECONDS = 600  # that one test may take


def barriers(text: str) -> Iterator[tuple[str, str]]:
    """(function, barrier) of each barrier in a C file."""
    function = ""
    for line in re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text,
                       flags=re.DOTALL).splitlines():
        if found := re.match(r"[a-z].*?(\w+)\(", line):
            function = found[1]
        for barrier in BARRIER.findall(line):
            yield function, barrier


def claims(test: Path, word: str) -> set[tuple[str, ...]]:
    """{(file, function, barrier)} that a test names behind a word."""
    return {tuple(line.split()) for line in re.findall(rf"\* {word}: (.*)", test.read_text())}


def untested() -> set[tuple[str, ...]]:
    """{(file, function, barrier)} of those that have no test yet."""
    return {tuple(line.split()) for line in (HERE / "untested.txt").read_text().splitlines()
            if not line.startswith("#")}


def unclaimed() -> list[str]:
    """Sentences on barriers without a test, and on tests of barriers that there are not."""
    there = {(name, *found) for name in FILES
             for found in barriers((LINUX / "net/sched" / name).read_text())}
    said = [f"untested.txt has {' '.join(one)}, which is not in the code"
            for one in sorted(untested() - there)]
    there -= untested()
    for word in ("Orders", "Without"):
        named = set().union(*(claims(test, word) for test in HERE.glob("*.litmus")))
        said += [f"no test says '{word}: {' '.join(one)}'" for one in sorted(there - named)]
        said += [f"a test says '{word}: {' '.join(one)}', which is not in the code"
                 for one in sorted(named - there)]
    return said


def outcome(herd: str, test: Path) -> str:
    """A sentence on a test that came out another way than it says; "" if it did not."""
    want = re.search(r"\* Result: (\w+)", test.read_text())[1]
    try:
        done = told(herd, "-conf", "linux-kernel.cfg", test, cwd=LINUX / "tools/memory-model",
                    timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"{test.name}: no result within {SECONDS} s"
    found = re.search(r"^Observation \S+ (\w+)", done.stdout, re.MULTILINE)
    got = found[1] if found else (done.stderr.strip().splitlines() or ["nothing"])[-1]
    print(f"{test.stem:<24}{want:<12}{got}")
    return "" if got == want else f"{test.name}: {got}, not {want}"


def main() -> None:
    """Look the barriers up, run the tests."""
    failed = unclaimed()
    passed = not failed
    herd = os.environ.get("HERD7") or shutil.which("herd7")
    tests = sorted(HERE.glob("*.litmus"))
    loudly(f"{len(untested())} barriers have no litmus test: see {HERE / 'untested.txt'}")
    if not herd:
        loudly(f"{len(tests)} LITMUS TESTS DID NOT RUN: there is no herd7 here, and Debian has "
               "none; name one with HERD7=path")
        verdict(int(passed), failed, len(tests))
    sentences = [outcome(herd, test) for test in tests]
    verdict(passed + sentences.count(""), failed + [line for line in sentences if line])

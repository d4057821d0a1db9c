# SPDX-License-Identifier: GPL-2.0
"""make coverage: which lines of the series its tests run.

Boots a kernel that counts (gcov) with KUnit, tdc, YNL, compat and some scenarios, adds
the counts up, and compares them with the lines that the series add to the C files of
net/sched, tests left out. BOUND percent of those that are code must have run, and each
that has not is explained in lab/tests/coverage.txt. Writes coverage.json.
"""

import collections
import json
import os
import re
import shutil
import time
from pathlib import Path

from guest import boot
from host.common import BUILD, ROOT, Die, say, told
from host.results import keep_result, verdict
from host.table import Table
from loads.room import ALSO, SCENARIOS, USUAL
from series import kernel
from series.code import added

from tests import compat, tdc
from tests.kunit import judged

FOLDER = kernel.KERNELS["coverage"].out
EXPLAINED = ROOT / "lab/tests/coverage.txt"
BOUND = 95  # %
LOADS = {  # contender: scenarios
    contender: [one.name for one in SCENARIOS.values()
                if one.coverage and one.contender == contender] for contender in (USUAL, *ALSO)}


# ---------------------------------------------------------------- the tests

def kunit(name: str) -> None:
    """The suites of the series."""
    _, failed, _ = judged(FOLDER, name, timeout=300)
    if failed:
        raise Die(failed[0])


def suites(name: str) -> None:
    """tc-testing: of the series and the lab, and what the base has for the same qdiscs."""
    got, guest = tdc.run_suites(FOLDER, "linux", name, tdc.suites_beside(tdc.NEAR))
    guest.judge()
    bad = [ident for cases in got.values() for ident, (ended, _) in cases.items()
           if ended != "ok"]
    if bad:
        raise Die(f"tdc cases fail in the kernel for coverage: {' '.join(bad)}")


def ynl(name: str) -> None:
    """The netlink description's own tool."""
    rows, _ = boot.boot_script(FOLDER, name, "tests.ynl:run_checks", {}, timeout=300)
    if not all(row["ok"] for row in rows):
        raise Die("make ynl does not pass in the kernel for coverage")


def old_commands(name: str) -> None:
    """What users without the series do."""
    compat.unpatched_tc()
    compat.measure(FOLDER, name)


def traffic(name: str, contender: str) -> None:
    """Loads in virtual time."""
    spec = {"contender": contender, "scenarios": LOADS[contender]}
    boot.boot_script(FOLDER, name, "loads.scenarios:run_scenarios", spec,
                     hop=kernel.module("coverage"), virtual=True, timeout=900)


TESTS = {
    "KUnit": kunit,
    "tdc": suites,
    "YNL": ynl,
    "compat": old_commands,
    **{contender: lambda name, contender=contender: traffic(name, contender)
       for contender, loads in LOADS.items() if loads},
}


# ------------------------------------------------------------ what was run

def counted(job: Path) -> dict:
    """Add up a guest's counts: {file: {line: [count, function]}}."""
    files = collections.defaultdict(dict)
    data = sorted(job.glob("*.gcda"))
    if len(data) != len(kernel.GCOV):
        raise Die(f"{job} has the counts of {len(data)} objects, not of {len(kernel.GCOV)}; "
                  f"build the kernel anew (rm -r {BUILD / FOLDER})")
    for path in data:
        shutil.copy(BUILD / FOLDER / "net/sched" / f"{path.stem}.gcno", job)
        done = told("gcov", "--json-format", "--stdout", path.name, cwd=job)
        if done.returncode or "stamp mismatch" in done.stderr:
            raise Die(f"gcov cannot read {path}: {done.stderr.strip()[-200:]}")
        for file in json.loads(done.stdout)["files"]:
            name = os.path.relpath(os.path.join(BUILD / FOLDER, file["file"]), BUILD / "linux")
            for line in file["lines"]:
                had = files[name].setdefault(line["line_number"],
                                             [0, line.get("function_name")])
                had[0] += line["count"]
    return files


def job(test: str) -> str:
    """Name of a test's guest."""
    return f"coverage-{test.replace(' + ', '-').replace(' ', '-')}"


def measure() -> None:
    """Run all tests in the kernel that counts."""
    kernel.build("coverage")
    # The constructors that announce the counts run before the kernel does, on the host's
    # stack. lockdep looks at that up to the next multiple of 16 KB: let it be that long.
    boot.HOST_ENV["STACK"] = "-" * 65536
    for test, run in TESTS.items():
        start = time.monotonic()
        run(job(test))
        say(f"{test} ({time.monotonic() - start:.0f} s)")


def collect() -> dict[str, list]:
    """What they ran: {file: [[line number, function, text, tests that run it]]}."""
    counts = {test: counted(BUILD / "guest" / job(test)) for test in TESTS}
    figures = {}
    for file, numbers in sorted(added().items()):
        source = (BUILD / "linux" / file).read_text().splitlines()
        code = {number: had[1] for files in counts.values()
                for number, had in files[file].items() if number in numbers}
        figures[file] = [
            [number, code[number], source[number - 1].strip(),
             [test for test in counts if counts[test][file].get(number, [0])[0]]]
            for number in sorted(code)]
    return figures


# ----------------------------------------------------------------- judging

def explanations(path: Path = EXPLAINED) -> dict[tuple[str, str, str], str]:
    """{(file, function, text): why that does not run}."""
    known = {}
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M)
    for entry in filter(None, re.split(r"\n\n+", text.strip())):
        head, *rest = entry.split("\n")
        texts = [line[1:].strip() for line in rest if line.startswith("-")]
        reason = " ".join(line for line in rest if not line.startswith("-"))
        if len(head.split()) != 2 or not texts or not reason:
            raise Die(f"{path.name}: the entry '{head}' is not FILE FUNCTION, a reason, and "
                      "lines of the source after a -; correct it")
        known.update({(*head.split(), text): reason for text in texts})
    return known


def summary(figures: dict[str, list]) -> dict[str, dict]:
    """What is recorded of each file."""
    return {file: {"lines": len(rows), "run by": collections.Counter(
                       test for *_, tests in rows for test in tests),
                   "missed": [row[:3] for row in rows if not row[3]]}
            for file, rows in figures.items()}


TABLE = Table(
    ("", "file", "", -36), ("lines", "lines", "", 7), ("run", "run", "", 7),
    ("%", lambda row: 100 * row["run"] / max(row["lines"], 1), ".1f", 8),
    ("explained", "explained", "", 11))


def table(files: dict[str, dict], known: dict) -> list[str]:
    """Lines of text: per file of a summary() what the series add, what ran, what is explained."""
    rows = [{"file": file, "lines": found["lines"], "run": found["lines"] - len(found["missed"]),
             "explained": sum((file, function, text) in known
                              for _, function, text in found["missed"])}
            for file, found in files.items()]
    whole = {key: sum(row[key] for row in rows) for key in ("lines", "run", "explained")}
    return TABLE.lines([*rows, {"file": "all", **whole}])


def judge(figures: dict[str, list], known: dict) -> tuple[int, list[str]]:
    """(number of checks, what failed as sentences)."""
    missed = {(file, function, text): number for file, rows in figures.items()
              for number, function, text, tests in rows if not tests}
    code = sum(map(len, figures.values()))
    ran = sum(bool(row[3]) for rows in figures.values() for row in rows)
    failed = [f"{file}:{number}: {function}() does not run '{text}', and lab/tests/coverage.txt "
              "does not say why"
              for (file, function, text), number in missed.items()
              if (file, function, text) not in known]
    stale = [entry for entry in known.keys() - missed.keys()
             if not known[entry].startswith("sometimes")]
    failed += [f"lab/tests/coverage.txt: {file} {function}() '{text}': that runs, or is not there"
               for file, function, text in stale]
    if not code or 100 * ran < BOUND * code:
        failed.append(f"{ran} of {code} lines run, less than {BOUND} %")
    return len(missed) + len(stale) + 1, failed


def main() -> None:
    """Measure, store, print and judge."""
    known = explanations()
    say(f"{', '.join(TESTS)} in a kernel that counts lines (about 8 min)")
    measure()
    figures = collect()
    shown = summary(figures)
    keep_result("coverage.json", {
        "what": "lines that the series add to net/sched and that are code: how many, how many each "
        "test runs, and [number, function, text] of those that none runs", "files": shown})
    lines = table(shown, known)
    print("\n".join(["", *lines]))
    checks, failed = judge(figures, known)
    verdict(checks - len(failed), failed)

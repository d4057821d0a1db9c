# SPDX-License-Identifier: GPL-2.0
"""make check: what netdev asks of each patch alone, and of the series; one table.

--fast leaves out what needs more packages than the lab does, the other compilers and the words of
codespell, compiles once for each series what that touches, and writes nothing. The whole writes
check.json. The columns are made in lab/tests/check_patches.py, the lines below them
in lab/tests/check_series.py. No Debian suite has smatch, so there is no column for it.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from host.common import BUILD, Die, say
from host.results import keep_result
from series.kernel import tree_at

from tests import check_patches, check_series

FAST = ("form", "style", "api", "maint", "doc", "sparse", "um")
COLUMNS = (*FAST, "x86_64", "i386", "clang", "tc", "man")


def cell(said: dict, column: str, columns: Sequence[str]) -> str:
    """ok, FAIL, n/a, or - for what was not run."""
    if column not in columns:
        return "-"
    told = said.get(column)
    return "n/a" if told is None else "FAIL" if told else "ok"


def table_lines(results: dict) -> list[str]:
    """The table as lines of text; results as in results/check.json."""
    lines, folder = [], ""
    for name, said in results["patches"].items():
        if name.partition("/")[0] != folder:
            folder = name.partition("/")[0]
            lines.append(f"{folder:<46}" + "".join(f"{c:>{len(c) + 2}}" for c in COLUMNS))
        number, _, text = Path(name).stem.partition("-")
        lines.append(f"{int(number):>4} {text.removeprefix('net-sched-')[:40]:<41}" + "".join(
            f"{cell(said, c, results['columns']):>{len(c) + 2}}" for c in COLUMNS))
    lines.append("the series as a whole")
    for name, (what, said) in results["series"].items():
        lines.append(f"     {name:<14}{'FAIL' if said else 'ok':<6}{what}".rstrip())
    passed, failed = count(results)
    return [*lines, f"{passed} passed, {len(failed)} failed"]


def count(results: dict) -> tuple[int, list[str]]:
    """(number of cells and lines that are ok, the complaints of all others)."""
    told = [(f"{name}: {column}", said[column]) for name, said in results["patches"].items()
            for column in COLUMNS if said.get(column) is not None]
    told += [(name, said) for name, (_, said) in results["series"].items()]
    return (sum(not said for _, said in told),
            [f"{where}: {line}" for where, said in told for line in said])


def alone() -> None:
    """Lock the work trees, which two checks would spoil, until this ends; Die if they are."""
    lock = os.open(BUILD / "check-lock", os.O_CREAT | os.O_WRONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Die("another check is running, maybe in make test; wait for it") from None


def main(fast: bool = False) -> None:
    """Check everything, print the table; Die names the first complaint.

    fast: with this compiler and packages, each series compiled once.
    """
    alone()
    tree_at(check_patches.WORK, "base")
    results = {"what": "complaints by patch and check; null where a check does not apply",
               "columns": FAST if fast else COLUMNS, "patches": {}, "series": {}}
    check_patches.check_kernel(results["patches"], fast)
    check_patches.check_iproute2(results["patches"], fast)
    for name, job in check_series.jobs(fast).items():
        say(name)
        try:
            results["series"][name] = job()
        except Die as err:
            results["series"][name] = "", [str(err)]
    lines = table_lines(results)
    failed = count(results)[1]
    for line in failed:
        print("FAIL " + line)
    print("\n".join(["", *lines]))
    if not fast:
        keep_result("check.json", results)
    if failed:
        raise Die(f"{len(failed)} checks failed, the first: {failed[0]}")

# SPDX-License-Identifier: GPL-2.0
"""make ladder: every series passes with only those before it.

For the end of each series, or of those named by folder or number: its tree and its UML
kernel in build/ladder/<folder>, all KUnit suites that it has, and of tc-testing the suites
that the series so far touch and the base's for the qdiscs that they change.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from host.common import Die, say
from host.repo import KERNEL
from host.results import verdict
from host.table import Table
from series import kernel

from tests import kunit, tdc

TABLE = Table(
    ("series", "series", "", -20), ("patches", "patches", "", 8), ("KUnit", "kunit", "", 7),
    ("tdc", "tdc", "", 6), ("failed", lambda row: len(row["failed"]), "", 8),
    ("s", "seconds", "", 6))


@dataclass
class Rung:
    """A series' end.

    patches: how many it has. kunit, tdc: cases that passed. seconds: what that took.
    failed: sentences.
    """

    series: str
    patches: int
    kunit: int
    tdc: int
    seconds: int
    failed: list[str]


def run_kunit(which: str, touched: Sequence[str], failed: list[str]) -> int:
    """The KUnit suites of a kernel; how many cases passed. failed: gets sentences."""
    if not any(file.endswith("_test.c") for file in touched):
        return 0
    passed, bad, _ = kunit.judged(kernel.KERNELS[which].out, f"ladder-{which}-kunit",
                                  kernel.known_splats(which), timeout=300)
    failed += bad
    return passed


def run_tdc(which: str, touched: Sequence[str], failed: list[str]) -> int:
    """tc-testing of what the series so far touch; how many cases passed. failed: as above."""
    tree = kernel.KERNELS[which].tree
    suites = [suite for suite, name in tdc.NEAR.items() if f"net/sched/{name}.c" in touched]
    suites = list(dict.fromkeys([*suites, *tdc.touched_suites(tree)]))
    if not suites:
        return 0
    got, guest = tdc.run_suites(kernel.KERNELS[which].out, tree, f"ladder-{which}-tdc", suites)
    if complaint := guest.report(kernel.known_splats(which)):
        failed.append(complaint)
    passed, _, bad = tdc.compare(got, tdc.on_base())
    failed += bad
    return passed


def rung(which: str, start: str, end: str) -> Rung:
    """Build and try one series' end; start: that of the series before."""
    began, failed, counts = time.monotonic(), [], [0, 0]
    say(f"{which}: its kernel and tests (about 2 min, cold 7)")
    try:
        kernel.build(which)
        touched = KERNEL.git("diff", "--name-only", "base", end).split()
        for at, test in enumerate((run_kunit, run_tdc)):
            counts[at] = test(which, touched, failed)
    except Die as err:  # the other series are as much worth knowing
        failed.append(str(err))
    patches = int(KERNEL.git("rev-list", "--count", f"{start}..{end}"))
    return Rung(which, patches, *counts, round(time.monotonic() - began),
                [f"{which}: {sentence}" for sentence in failed])


def climb(names: Sequence[str] = ()) -> list[Rung]:
    """The rungs of the series named, or of all."""
    wanted = {KERNEL.upto(name)[-1].tag for name in names}
    ends = KERNEL.ends()
    folders = {series.tag: series.folder for series in KERNEL.series}
    return [rung(folders[tag], start, end)
            for start, (tag, end) in zip(["base", *ends.values()], ends.items())
            if not wanted or tag in wanted]


def main(*series: str) -> None:
    """Climb, print the table, judge.

    series: folders or numbers (all).
    """
    rungs = climb(series)
    print("\n".join(["", *TABLE.lines(map(vars, rungs))]))
    verdict(sum(one.kunit + one.tdc for one in rungs),
            [sentence for one in rungs for sentence in one.failed])

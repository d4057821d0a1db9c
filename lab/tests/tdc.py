# SPDX-License-Identifier: GPL-2.0
"""make tdc: tc-testing inside the guest, base and patched kernel side by side.

The base tree's own suites must end on the patched kernel as they end on the
unpatched one; what that was is kept in results/tdc-base.json, and BASE=1
measures it again. What the series add must pass, and so must the lab's own suites,
which lab/tests/cases.py makes from tables: they are too many for a series.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from guest.boot import Guest, boot
from host.common import BUILD, ROOT, Die, say
from host.results import keep_result, recorded, verdict
from host.table import Table
from series.kernel import STOCK_SPLAT, build, image

from tests import cases

# What the series change: suite of the base, object that it tests.
NEAR = {"cake": "sch_cake", "cake_mq": "sch_cake", "mq": "sch_mq", "mqprio": "sch_mqprio",
        "taprio": "sch_taprio", "tbf": "sch_tbf", "htb": "sch_htb"}
BASE_SUITES = (*NEAR, "fq_codel")
OWN = "cases"  # the folder that the lab's own suites are said to be in
SELFTESTS = "tools/testing/selftests/tc-testing"
RECORD = "tdc-base.json"
TABLE = Table(("suite", "suite", "", -24), ("tests", "tests", "", 7), ("base", "base", "", 7),
              ("patched", "patched", "", 9))
LINE = re.compile(r"^(ok|not ok) \d+ (?:- )?([0-9a-f]{4}) - (.*?)( # skipped.*)?$", re.M)

def suite_file(tree: str, suite: str) -> Path:
    """Where a suite is: `x` among a tree's qdiscs, `filters/x` there, `cases/x` of the lab."""
    folder, _, name = suite.rpartition("/")
    if folder == OWN:
        return cases.made(name)
    return BUILD / tree / SELFTESTS / "tc-tests" / (folder or "qdiscs") / f"{name}.json"


def touched_suites(tree: str = "linux") -> list[str]:
    """Names of a tree's suites that the base does not have, or has with other cases."""
    names = []
    for path in sorted((BUILD / tree / SELFTESTS / "tc-tests").glob("*/*.json")):
        suite = f"{path.parent.name}/{path.stem}".removeprefix("qdiscs/")
        base = suite_file("linux-base", suite)
        if not base.exists() or base.read_bytes() != path.read_bytes():
            names.append(suite)
    return names


def own_suites() -> list[str]:
    """Names of the suites of the lab itself."""
    return [f"{OWN}/{name}" for name in cases.names()]


def suites_beside(names: Iterable[str]) -> list[str]:
    """Some suites, those that the series touch, and the lab's own; each once."""
    return list(dict.fromkeys([*names, *touched_suites(), *own_suites()]))


def run_suites(kernel: str, tree: str, name: str, suites: Sequence[str], jobs: int = 2,
               timeout: int = 900, **more: Any) -> tuple[dict, Guest]:
    """Boot, run the suites: ({suite: {id: (verdict, title)}}, Guest), not judged.

    kernel: its folder. jobs: at the same time. more: as for boot().
    """
    files = " ".join(str(suite_file(tree, suite)) for suite in suites)
    run = boot(
        image(kernel), name, f". {ROOT}/lab/tests/tdc.sh", timeout=timeout, **more,
        env={
            "SUITE": BUILD / tree / SELFTESTS, "FILES": files, "JOBS": jobs,
            "TC_LIB_DIR": BUILD / "iproute2/netem",
            "PYTHONDONTWRITEBYTECODE": 1,
            "PATH": f"{BUILD}/venv/bin:{BUILD}/iproute2/tc:{BUILD}/iproute2/ip:"
            "/usr/sbin:/usr/bin:/sbin:/bin",
        },
    )
    try:
        with open(f"{run.job}/tap") as f:
            tap = f.read()
    except FileNotFoundError:
        run.judge()
        raise Die(f"tdc wrote no results: see {run.job}/tdc.log") from None
    verdicts = {
        ident: ("skip" if skipped else ended_as, title)
        for ended_as, ident, title, skipped in LINE.findall(tap)
    }
    outcome = {}
    for suite in suites:
        with open(suite_file(tree, suite)) as f:
            outcome[suite] = {
                case["id"]: verdicts.get(case["id"], ("missing", case["name"]))
                for case in json.load(f)
            }
    return outcome, run


def on_base() -> dict:
    """What the base gave: {suite: {id: verdict}}."""
    return recorded(RECORD)["suites"]


def compare(got: dict, base: dict) -> tuple[int, int, list[str]]:
    """(cases that passed, as they were on the base without, sentences about the rest).

    got: as of run_suites(). base: as of on_base().
    """
    passed = skipped = 0
    bad = []
    for suite, ended in got.items():
        stock = base.get(suite)
        for ident, (ended_as, title) in ended.items():
            want = "ok" if stock is None else stock.get(ident, "ok")
            passed += ended_as == "ok"
            if ended_as != want:
                bad.append(f"{suite} {ident} ({title}): {ended_as}, expected {want}")
            elif ended_as != "ok":
                skipped += 1
    return passed, skipped, bad


def owners(got: dict, base: dict) -> dict[str, int]:
    """{whose: how many cases}; got and base as for compare()."""
    there = [(suite, ident) for suite in got for ident in got[suite]]
    lab = sum(suite in own_suites() for suite, _ in there)
    old = sum(ident in base.get(suite, ()) for suite, ident in there)
    return {"the base": old, "the series": len(there) - old - lab, "the lab": lab}


def main(base: bool = False) -> None:
    """Measure what is missing, print the table, fail on a regression.

    base: measure the unpatched kernel again.
    """
    if base or not recorded(RECORD):
        build("base")
        say("tc-testing on the unpatched kernel (about 60 s)")
        found, guest = run_suites("um-base", "linux-base", "tdc-base", BASE_SUITES)
        guest.judge(STOCK_SPLAT)
        stock = {s: {i: v for i, (v, _) in c.items()} for s, c in found.items()}
        keep_result(RECORD, {
            "what": "tc-testing on the unpatched base kernel", "suites": stock})
    else:
        stock = on_base()
    say("tc-testing on the patched kernel (about 90 s)")
    got, guest = run_suites("um", "linux", "tdc", suites_beside(BASE_SUITES))
    guest.judge()

    print("\n".join(TABLE.lines(
        {"suite": suite, "tests": len(ended), "patched": sum(v == "ok" for v, _ in ended.values()),
         "base": sum(v == "ok" for v in stock[suite].values()) if suite in stock else None}
        for suite, ended in got.items())))
    passed, skipped, bad = compare(got, stock)
    keep_result("tdc.json", {
        "what": "tc-testing on the patched kernel", "suites":
        {s: {i: v for i, (v, _) in c.items()} for s, c in got.items()}})
    print(", ".join(f"{number} cases of {whose}" for whose, number in owners(got, stock).items()))
    verdict(passed, bad, skipped or None)  # as on the base

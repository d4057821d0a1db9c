# SPDX-License-Identifier: GPL-2.0
"""make kunit: the KUnit suites of the series in the patched kernel, through kunit.py."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import Guest, boot
from host.common import BUILD, VERBOSE, run, say
from host.results import keep_result, verdict
from series.kernel import image

SUITES = "qdisc_shared, rate_group and rate_tree"
RESULT = "kunit.json"  # of kunit.py, in the folder of the guest
TOOL = BUILD / "linux/tools/testing/kunit/kunit.py"


def cases(group: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(name, status) of each case in what kunit.py --json writes.

    A name has that of the suite before it, and that of a parameter behind it.
    """
    for case in group["test_cases"]:
        yield "/".join((*path, case["name"])), case["status"]
    for sub in group["sub_groups"]:
        yield from cases(sub, (*path, sub["name"]))


def read_json(path: Path) -> list[tuple[str, str]]:
    """cases() of a file; none if it is not there or empty.

    A suite of which kunit.py misses the beginning or the end is a case with the status ERROR.
    """
    text = path.read_text() if path.exists() else ""
    if not text:
        return []
    whole = json.loads(text)
    return [*cases(whole), *[("a suite that is not whole", "ERROR")] * whole["misc"]["errors"]]


def counted(found: list[tuple[str, str]]) -> tuple[int, int]:
    """How many cases passed, and how many neither passed nor were skipped."""
    passed = sum(status == "PASS" for _, status in found)
    return passed, sum(status not in ("PASS", "SKIP") for _, status in found)


def run_suites(kernel: str, name: str, params: Sequence[str] = (), timeout: float = 600,
               **more: Any) -> tuple[int, int, Guest]:
    """Boot a kernel with the suites built in: (passed, failed, Guest), not judged.

    They run before the guest's command does, which so begins late. kernel: its folder.
    params, timeout, more: as for boot(). A case may take as long as the boot.
    """
    guest = boot(image(kernel), name, "true", timeout=timeout, start=timeout,
                 params=("kunit.enable=1", f"kunit.timeout={timeout:.0f}", *params), **more)
    result = Path(guest.job, RESULT)
    return (*parsed(Path(guest.job, "dmesg"), result), guest)


def parsed(dmesg: Path, result: Path) -> tuple[int, int]:
    """counted() of a guest's log; result: the file for the JSON of kunit.py. Absolute paths."""
    run([sys.executable, TOOL, "parse", f"--json={result}", dmesg],
        "kunit-parse", env=dict(os.environ, TERM="dumb"), ok=range(256))
    return counted(read_json(result))


def judged(kernel: str, name: str, allowed: Sequence[str] = (),
           **more: Any) -> tuple[int, list[str], Guest]:
    """run_suites(): (cases that passed, sentences on what is wrong, Guest).

    allowed: as for splats().
    """
    passed, bad, guest = run_suites(kernel, name, **more)
    said = [guest.report(allowed) or ""]
    said.append(f"{bad} KUnit cases fail: see {guest.job}/dmesg" * bool(bad))
    said.append("no KUnit case ran" * (not passed))
    return passed, list(filter(None, said)), guest


def main() -> None:
    """Boot, parse, judge; writes kunit.json."""
    say("running the KUnit suites (about 5 s)")
    passed, failed, guest = run_suites("um", "kunit", timeout=120)
    if not VERBOSE:  # which shows it at once
        print((BUILD / "logs/kunit-parse.log").read_text())
    keep_result("kunit.json", {
        "what": "KUnit cases by outcome", "suite": SUITES, "passed": passed, "failed": failed,
        "cases": [f"{name}: {status}" for name, status in read_json(Path(guest.job, RESULT))]})
    guest.judge()
    verdict(passed, failed or (["no case ran"] if not passed else []))

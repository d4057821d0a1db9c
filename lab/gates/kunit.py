# SPDX-License-Identifier: GPL-2.0
"""make kunit: the KUnit suites of the series in the patched kernel, through kunit.py."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import Guest, boot, decoded, splats
from tree.common import BUILD, Die, run, say
from tree.kernel import image
from tree.results import command_line, keep_result

SUITES = "qdisc_shared, rate_group and rate_tree"
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
    """cases() of a file; none if it is not there or empty."""
    text = path.read_text() if path.exists() else ""
    return list(cases(json.loads(text))) if text else []


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
    result = Path(guest.job, "kunit.json")
    run([sys.executable, TOOL, "parse", f"--json={result}", Path(guest.job, "dmesg")],
        "kunit-parse", ok=range(256))
    return (*counted(read_json(result)), guest)


def main(argv: Sequence[str]) -> None:
    """Boot, parse, judge the log; writes kunit.json."""
    command_line("kunit", __doc__, record=True).parse_args(argv)
    out = BUILD / "um"
    result = out / "test.json"
    result.unlink(missing_ok=True)
    say("running the KUnit suite (about 5 s)")
    done = subprocess.run(
        [sys.executable, TOOL, "exec", f"--build_dir={out}", "--arch=um",
         f"--json={result}", "--timeout=120", "--kernel_args=loglevel=7"],
        cwd=BUILD / "linux", text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=dict(os.environ, TERM="dumb"),
    )
    output = re.sub(r"\x1b\[[0-9;]*m|^\[[0-9:]+\] ", "", done.stdout, flags=re.M)
    print(output)
    log = (out / "test.log").read_text(errors="replace")
    found = read_json(result)
    passed, failed = counted(found)
    bad = splats(log)
    keep_result("kunit.json", {
        "what": "KUnit cases by outcome", "suite": SUITES, "passed": passed, "failed": failed,
        "cases": [f"{name}: {status}" for name, status in found]})
    if bad:
        raise Die(f"kernel splat '{bad[0].strip()}' in a KUnit run: see {out}/test.log\n"
                  + decoded(log, out / "vmlinux"))
    if done.returncode or failed or not passed:
        raise Die(f"the KUnit suite failed: see {out}/test.log")
    print(f"{passed} passed, {failed} failed")

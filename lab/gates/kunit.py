# SPDX-License-Identifier: GPL-2.0
"""make kunit: the KUnit suites of the series in the patched kernel, through kunit.py."""

import json
import os
import re
import subprocess
import sys

from guest.boot import boot, decoded, splats
from tree.common import BUILD, Die, command_line, result_file, say
from tree.kernel import image

SUITES = "qdisc_shared and rate_group"


def run_suites(kernel, name, params=(), **more):
    """Boot a kernel with the suites built in: (passed, failed, Guest), not judged.

    They run before the guest's command does. kernel: its folder. params, more: as for
    boot().
    """
    guest = boot(image(kernel), name, "true", params=("kunit.enable=1", *params), **more)
    found = re.findall(r"# Totals: pass:(\d+) fail:(\d+)", guest.dmesg)
    return (sum(int(good) for good, _ in found), sum(int(bad) for _, bad in found), guest)


def main(argv):
    """Boot, parse, judge the log; writes kunit.json."""
    command_line("kunit", __doc__, record=True).parse_args(argv)
    out = BUILD / "um"
    tool = BUILD / "linux/tools/testing/kunit/kunit.py"
    say("running the KUnit suite (about 5 s)")
    done = subprocess.run(
        [sys.executable, tool, "exec", f"--build_dir={out}", "--arch=um",
         "--timeout=120", "--kernel_args=loglevel=7"],
        cwd=BUILD / "linux", text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=dict(os.environ, TERM="dumb"),
    )
    output = re.sub(r"\x1b\[[0-9;]*m|^\[[0-9:]+\] ", "", done.stdout, flags=re.M)
    print(output)
    log = (out / "test.log").read_text(errors="replace")
    cases = re.findall(r"^\[(PASSED|FAILED|CRASHED|SKIPPED)\] (.+)$", output, re.M)
    total = re.search(r"Ran (\d+) tests: passed: (\d+)", output)
    ran, passed = map(int, total.groups()) if total else (0, 0)
    bad = splats(log)
    result_file("kunit.json").write_text(json.dumps(
        {"what": "KUnit cases by outcome", "suite": SUITES,
         "passed": passed, "failed": ran - passed,
         "cases": [f"{name}: {verdict}" for verdict, name in cases]}, indent=1) + "\n")
    if bad:
        raise Die(f"kernel splat '{bad[0].strip()}' in a KUnit run: see {out}/test.log\n"
                  + decoded(log, out / "vmlinux"))
    if done.returncode or not ran:
        raise Die(f"the KUnit suite failed: see {out}/test.log")
    print(f"{passed} passed, {ran - passed} failed")

# SPDX-License-Identifier: GPL-2.0
"""make test: every gate in order; the last line is 'N passed, N failed'.

Each gate is a make target or a script of its own, so that what fails here can
be run alone. A gate that prints 'N passed, N failed' adds these numbers, any
other counts as one. Times go to times.json.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence

from tree.common import ROOT, command_line, record_time

PY = [sys.executable, "-B"]
LAB = ROOT / "lab"
GATES = (
    ("set-up", ("setup",)),
    ("series applies", ("tree", "apply")),
    ("copies in step", ("tree", "check-copies")),
    ("tc builds", ("setup", "iproute2")),
    ("kernel builds", ("kernel", "patched")),
    ("tooling", ("test_tooling.py",)),
    ("KUnit", ("kunit",)),
    ("fuzz", ("fuzz",)),
    ("fuzz finds faults", ("fuzz", "--faults")),
    ("tdc", ("tdc",)),
    ("YNL", ("ynl",)),
    ("compat", ("compat",)),
    ("debug kernel builds", ("kernel", "debug")),
    ("torture", ("torture",)),
    ("demo", ("demo",)),
    ("changes", ("changes",)),
    ("stock kernel", ("stock",)),
    ("figures", ("figures", "--check")),
    ("mutants", ("mutants",)),
    ("patches", ("check", "--fast")),
)
NEEDED = {"set-up", "series applies", "tc builds", "kernel builds"}


def where(name: str) -> list:
    """What Python runs for the first word of a gate: a verb of lab/, or a file in it."""
    return [LAB / name] if name.endswith(".py") else [LAB, name]


def run_gate(name: str, command: Sequence[str]) -> tuple[int, int, int]:
    """Run one gate, passing its output on; return (passed, failed, skipped)."""
    print(f"== {name}", flush=True)
    env = {key: value for key, value in os.environ.items() if key != "QDISC_KIND"}
    tail = ""
    with subprocess.Popen([*PY, *where(command[0]), *command[1:]], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace", env=env) as gate:
        for line in gate.stdout:
            found = re.match(r"\d+ passed, \d+ failed(, \d+ skipped.*)?$", line)
            tail = line if found else tail
            print(("   " if found else "") + line, end="", flush=True)
    numbers = [int(n) for n in re.findall(r"\d+", tail)]
    passed, failed, skipped = (numbers + [0, 0, 0])[:3]
    if not numbers:
        passed, failed = (1, 0) if gate.returncode == 0 else (0, 1)
    elif gate.returncode and not failed:
        failed = 1
    return passed, failed, skipped


def main(argv: Sequence[str]) -> None:
    """Run all gates; a gate that others stand on ends the run if it fails."""
    command_line("test", __doc__, record=True).parse_args(argv)
    total = [0, 0, 0]
    seconds = {}
    stopped = ""
    for name, command in GATES:
        start = time.monotonic()
        outcome = run_gate(name, command)
        seconds[name] = round(time.monotonic() - start, 1)
        total = [a + b for a, b in zip(total, outcome)]
        print(f"-- {name}: {'ok' if not outcome[1] else 'FAILED'}, {seconds[name]:.0f} s",
              flush=True)
        if outcome[1] and name in NEEDED:
            stopped = name
            break
    if not total[1]:
        record_time("test", gates_s=seconds)
    print(f"{os.environ.get('QDISC_KIND', '')} run, {sum(seconds.values()):.0f} s: "
          + ", ".join(f"{name} {s:.0f}" for name, s in seconds.items()))
    if stopped:
        print(f"stopped after '{stopped}', which everything else stands on")
    print(f"{total[0]} passed, {total[1]} failed"
          + (f", {total[2]} skipped" if total[2] else ""))
    sys.exit(1 if total[1] else 0)

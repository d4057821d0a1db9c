# SPDX-License-Identifier: GPL-2.0
"""make test: every gate in order; the last line is 'N passed, N failed'.

Each gate is a make target or a script of its own, so that what fails here can
be run alone. A gate that prints 'N passed, N failed' adds these numbers, any
other counts as one. Gates that leave a CPU idle run side by side; what they print
is shown when they and those before them have ended. Times go to times.json.
"""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tree.common import JOBS, ROOT, command_line, record_time

PY = [sys.executable, "-B"]
LAB = ROOT / "lab"
GATES = (  # (name, what runs)
    ("set-up", ("setup",)),
    ("series applies", ("tree", "apply")),
    ("copies in step", ("tree", "check-copies")),
    ("tc builds", ("setup", "iproute2")),
    ("kernel builds", ("kernel", "patched")),
    ("patches", ("check", "--fast")),
    ("tdc", ("tdc",)),
    ("mutants", ("mutants",)),
    ("stock kernel", ("stock",)),
    ("compat", ("compat",)),
    ("changes", ("changes",)),
    ("YNL", ("ynl",)),
    ("torture", ("torture", "--kernel", "um")),
    ("syz", ("syz", "--only", "patched", "--replay")),
    ("OpenWrt", ("openwrt",)),
    ("litmus", ("litmus",)),
    ("architectures", ("arches",)),
    ("tooling", ("test_tooling.py",)),
    ("KUnit", ("kunit",)),
    ("fuzz", ("fuzz",)),
    ("fuzz, sanitized", ("fuzz", "--san", "1", "--seeds", "300", "--threads", "4")),
    ("fuzz finds faults", ("fuzz", "--faults")),
    ("reported", ("reported", "--brief")),
    ("demo", ("demo",)),
    ("trees", ("trees", "--brief")),
    ("figures", ("figures", "--check")),
)
NEEDED = {"set-up", "series applies", "tc builds", "kernel builds"}
# Do not keep two CPUs busy; the longest come first
BESIDE = {"tdc", "stock kernel", "compat", "torture", "changes", "tooling", "YNL", "KUnit",
          "OpenWrt", "litmus", "architectures", "mutants", "patches", "syz"}


def where(name: str) -> list:
    """What Python runs for the first word of a gate: a verb of lab/, or a file in it."""
    return [LAB / name] if name.endswith(".py") else [LAB, name]


@dataclass
class Outcome:
    """Of a gate: (passed, failed, skipped), how long it took, and what it printed, if kept."""

    numbers: tuple[int, int, int]
    seconds: float
    text: str


def run_gate(command: Sequence[str], show: bool) -> Outcome:
    """Run one gate; show: pass its output on at once, instead of keeping it."""
    env = {key: value for key, value in os.environ.items() if key != "QDISC_KIND"}
    tail, kept, start = "", [], time.monotonic()
    with subprocess.Popen([*PY, *where(command[0]), *command[1:]], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          errors="replace", env=env) as gate:
        for line in gate.stdout:
            found = re.match(r"\d+ passed, \d+ failed(, \d+ skipped.*)?$", line)
            tail = line if found else tail
            shown = ("   " if found else "") + line
            if show:
                print(shown, end="", flush=True)
            else:
                kept.append(shown)
    numbers = [int(n) for n in re.findall(r"\d+", tail)]
    passed, failed, skipped = (numbers + [0, 0, 0])[:3]
    if not numbers:
        passed, failed = (1, 0) if gate.returncode == 0 else (0, 1)
    elif gate.returncode and not failed:
        failed = 1
    return Outcome((passed, failed, skipped), time.monotonic() - start, "".join(kept))


def outcomes() -> Iterator[tuple[str, Outcome]]:
    """Run all gates; (name, outcome) in order."""
    for beside, group in itertools.groupby(GATES, key=lambda gate: gate[0] in BESIDE):
        gates = list(group)
        if not beside:
            for name, command in gates:
                print(f"== {name}", flush=True)
                yield name, run_gate(command, show=True)
            continue
        print(f"== side by side: {', '.join(name for name, _ in gates)}", flush=True)
        with ThreadPoolExecutor(JOBS) as pool:
            running = [pool.submit(run_gate, command, False) for _, command in gates]
            for (name, _), job in zip(gates, running, strict=True):
                outcome = job.result()
                print(f"== {name}\n{outcome.text}", end="", flush=True)
                yield name, outcome


def main(argv: Sequence[str]) -> None:
    """Run all gates; a gate that others stand on ends the run if it fails."""
    command_line("test", __doc__, record=True).parse_args(argv)
    start = time.monotonic()
    total = [0, 0, 0]
    seconds = {}
    stopped = ""
    for name, outcome in outcomes():
        seconds[name] = round(outcome.seconds, 1)
        total = [a + b for a, b in zip(total, outcome.numbers)]
        print(f"-- {name}: {'ok' if not outcome.numbers[1] else 'FAILED'}, "
              f"{seconds[name]:.0f} s", flush=True)
        if outcome.numbers[1] and name in NEEDED:
            stopped = name
            break
    if not total[1]:
        record_time("test", gates_s=seconds)
    print(f"{os.environ.get('QDISC_KIND', '')} run, {time.monotonic() - start:.0f} s: "
          + ", ".join(f"{name} {s:.0f}" for name, s in seconds.items()))
    if stopped:
        print(f"stopped after '{stopped}', which everything else stands on")
    print(f"{total[0]} passed, {total[1]} failed"
          + (f", {total[2]} skipped" if total[2] else ""))
    sys.exit(1 if total[1] else 0)

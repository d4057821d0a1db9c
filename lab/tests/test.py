# SPDX-License-Identifier: GPL-2.0
"""make test: every gate in order, by pytest; the last line is 'N passed, N failed'.

Each gate is a verb of the lab or the lab's own tests, so that what fails here can be run alone. A
gate that prints 'N passed, N failed' adds these numbers, any other counts as one. Gates that leave
a CPU idle run side by side; what they print is shown when they and those before them have ended.
Words are a filter, as of pytest -k: 'lab test fuzz or demo'; --junit writes what happened as XML. A
run of all notes its times in times.json.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from host.common import JOBS, ROOT, START
from host.results import record_time, verdict
from host.setup import USUAL

LAB = (ROOT / "lab",)
GATES = {  # name: what Python runs: a verb and its options, if it is not a file or a module
    "set-up": ("setup", *USUAL, "reported"),
    "series applies": ("tree", "apply"),
    "copies in step": ("tree", "check-copies"),
    "tc builds": ("setup", "iproute2"),
    "kernel builds": ("kernel", "patched"),
    "patches": ("check", "--fast"),
    "tdc": ("tdc",),
    "mutants": ("mutants",),
    "stock kernel": ("stock",),
    "compat": ("compat",),
    "changes": ("changes",),
    "YNL": ("ynl",),
    "torture": ("torture", "--kernel", "um"),
    "syz": ("syz", "--only", "patched", "--replay"),
    "OpenWrt": ("openwrt",),
    "litmus": ("litmus",),
    "architectures": ("arches", "--all", "--arch", "mips"),  # 32 bits, big endian
    "tooling": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=3", "lab/tests/own"),
    "KUnit": ("kunit",),
    "fuzz": ("fuzz",),
    "fuzz, sanitized": ("fuzz", "--san", "1", "--seeds", "300", "--threads", "4"),
    "fuzz finds faults": ("fuzz", "--faults"),
    "reported": ("reported", "--brief"),
    "demo": ("demo",),
    "trees": ("trees", "--brief"),
    "figures": ("figures", "--check"),
}
NEEDED = {"set-up", "series applies", "tc builds", "kernel builds"}  # all else stands on them
# Do not keep two CPUs busy; the longest come first
BESIDE = {"tdc", "stock kernel", "compat", "torture", "changes", "tooling", "YNL", "KUnit",
          "OpenWrt", "litmus", "architectures", "mutants", "patches", "syz"}
# What a gate says at its end, or pytest does
TOLD = re.compile(r"(?:(\d+) failed, )?(\d+) passed(?:, (\d+) failed)?(?:, (\d+) skipped)?(?: |$)")
OUTCOMES = {}  # {gate: Outcome}


@dataclass
class Outcome:
    """Of a gate: (passed, failed, skipped), s that it took, and what it printed, if kept."""

    numbers: tuple[int, int, int]
    seconds: float
    text: str


def run_gate(name: str, show: bool) -> Outcome:
    """Run one gate; show: pass its output on at once, instead of keeping it."""
    command = GATES[name]
    env = {key: value for key, value in os.environ.items() if key != "QDISC_KIND"}
    numbers, kept, start = None, [], time.monotonic()
    words = [sys.executable, "-B", *(() if command[0] == "-m" else LAB), *command]
    with subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, errors="replace",
                          stderr=subprocess.STDOUT, env=env) as gate:
        for line in gate.stdout:
            if found := TOLD.match(line):
                before, passed, failed, skipped = (int(number or 0) for number in found.groups())
                numbers = passed, before + failed, skipped
            kept.append(("   " if found else "") + line)
            if show:
                print(kept[-1], end="", flush=True)
    passed, failed, skipped = numbers or (not gate.returncode, 0, 0)
    return Outcome((int(passed), failed or int(gate.returncode != 0), skipped),
                   time.monotonic() - start, "" if show else "".join(kept))


@pytest.fixture(scope="session")
def beside(request: pytest.FixtureRequest) -> Iterator[dict[str, Future]]:
    """{gate: its Outcome to come} of those that run side by side."""
    chosen = [item.callspec.params["name"] for item in request.session.items]
    with ThreadPoolExecutor(JOBS) as pool:
        yield {name: pool.submit(run_gate, name, False) for name in chosen if name in BESIDE}


@pytest.mark.parametrize("name", GATES)
def test_gate(name: str, request: pytest.FixtureRequest) -> None:
    """A gate passes if nothing in it fails."""
    print(f"== {name}", flush=True)
    outcome = (request.getfixturevalue("beside")[name].result() if name in BESIDE
               else run_gate(name, show=True))
    OUTCOMES[name] = outcome
    failed = outcome.numbers[1]
    print(f"{outcome.text}-- {name}: {'FAILED' if failed else 'ok'}, {outcome.seconds:.0f} s",
          flush=True)
    if failed and name in NEEDED:
        pytest.exit(f"'{name}' failed, which everything else stands on")
    assert not failed


def main(*word: str, junit: str = "") -> None:
    """Run the gates.

    word: a filter, as of pytest -k (all). junit: a file.
    """
    words = ["-p", "no:cacheprovider", "-q", "-s", "--no-header", "--tb=no", "--no-summary",
             __file__]
    words += ["-k", " ".join(word)] if word else []
    words += [f"--junitxml={junit}"] if junit else []
    pytest.main(words)
    passed, failed, skipped = map(sum, zip((0, 0, 0), *(
        outcome.numbers for outcome in OUTCOMES.values())))
    seconds = {name: round(outcome.seconds, 1) for name, outcome in OUTCOMES.items()}
    if not failed and len(OUTCOMES) == len(GATES):
        record_time("test", gates_s=seconds)
    print(f"{os.environ.get('QDISC_KIND', '')} run, {time.time() - START:.0f} s: "
          + ", ".join(f"{name} {s:.0f}" for name, s in seconds.items()))
    verdict(passed, failed or ["no gate was run, or all of it was skipped"] * (not passed),
            skipped or None)

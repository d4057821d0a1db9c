# SPDX-License-Identifier: GPL-2.0
"""cake's and tbf's options at random under load: afterwards the rate must be right.

A seed is a boot in virtual time. It chooses how many queues hop0 (lab/traffic/hop.py) has and
what is on them: a cake_mq, or below mq or mqprio cakes, tbfs, or both in turn. While all
queues have traffic, OPS changes are made: options of cake and tbf, groups joined and
left, qdiscs replaced, deleted and added, inner qdiscs of tbf, MTU and state of the
device. The last ones lead to a configuration that is known: one rate for each group.
Then all queues are saturated, and after SETTLE s each group has to use its rate, within
MOST_OFF %, to send no more than that, and to give all queues the same.

A line is of tc or ip, "sleep SECONDS", or "inner QUEUE WORDS", which replaces the inner
qdisc of the tbf of a queue; several are divided by "; ". Changes may be refused; that is
counted, not judged. The first seed that fails is shrunk: changes are left out, a boot
each, as long as it still fails. The last line is 'N passed, N failed', one per seed.
"""

import json
import random
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from guest.boot import boot_script
from host.common import Die, say
from host.results import verdict
from series.kernel import module
from traffic.bed import EF, deviation, jain, paced
from traffic.hop import NAME, Hop
from traffic.traffic import PARENTS, command, tc

from tests.shrink import shrunk

SETTLE = 0.1  # s, before the rate is measured
MEASURED = 8e6  # bytes that each group sends then
MOST_OFF = 0.1  # %
MOST_AHEAD = {"cake": 24e3, "tbf": 24e3 + 16e3}  # bytes at the next hop, of each group
LEAST_JAIN = 0.99
MARGIN = 0.02  # s: what all changes may take beside their sleeps
BOOTS = 12  # at most, to shrink a failure

# ----------------------------------------------------------------- the changes

TABLES = tomllib.loads(Path(__file__).with_name("changes.toml").read_text())
INNER, MODES, RATES, GROUPS = (TABLES[key] for key in ("inner", "modes", "rates", "groups"))
TBF_LAST = TABLES["tbf last"]
LOADS = [{key: EF if value == "EF" else value for key, value in load.items()}
         for load in TABLES["loads"]]
# What of these waits at the end still has the tin and overhead of when it came, so where
# they are, these stay as they are.
FLOODS = [paced(100e6), paced(300e6), paced(300e6, on=5e-3, off=20e-3), {"depth": 128}]


class Plan:
    """What follows from a seed: a device, loads, and the lines of three stages."""

    def __init__(self, seed: int, ops: int) -> None:
        self.rng = random.Random(seed)
        self.parent, _, kind = self.one(TABLES["kinds"]).rpartition(" + ")
        self.queues = self.one((4, 8))
        self.kinds = [("cake", "tbf")[q % 2] if kind == "both" else kind
                      for q in range(self.queues)]
        halves = self.parent != "" and self.rng.random() < .25
        self.numbers = [1 + (halves and q >= self.queues // 2) for q in range(self.queues)]
        self.rate = self.one(TABLES["last rates"])
        self.mode = self.one(MODES)
        self.floods = self.rng.random() < .5
        loads = LOADS + FLOODS * self.floods
        self.loads = [[self.one(loads) for _ in range(self.one((1, 1, 2)))]
                      for _ in range(self.queues)]
        self.first = self.lines_of_setup()
        self.ops = [f"{self.change()}; sleep {self.one((0, 1e-3, 3e-3, 10e-3, 20e-3))}"
                    for _ in range(ops)]
        self.last = self.lines_of_end()

    def one(self, choices: Sequence | dict) -> Any:
        """One of a sequence, or a key of {key: weight}."""
        if isinstance(choices, dict):
            return self.rng.choices(list(choices), list(choices.values()))[0]
        return self.rng.choice(choices)

    def lines_of_setup(self) -> list[str]:
        """The qdiscs before the first change, all in one group."""
        if not self.parent:
            return [f"tc qdisc replace dev {NAME} root handle 1: "
                    + self.words("cake_mq", rate="100mbit")]
        root = PARENTS[self.parent].format(queues=self.queues)
        return [f"tc qdisc replace dev {NAME} root handle 1: {root}"] + [
            f"{self.child('add', q)} {self.words(kind, rate='100mbit')} shared"
            for q, kind in enumerate(self.kinds)]

    def child(self, verb: str, q: int, handle: str = "") -> str:
        """The beginning of a line about the qdisc of a queue."""
        return f"tc qdisc {verb} dev {NAME} parent 1:{q + 1:x} {handle}".strip()

    def words(self, kind: str, rate: str | None = None) -> str:
        """A kind with options at random; rate: the one that it has to have."""
        if kind == "tbf":
            return (f"tbf rate {rate or self.one(RATES)} limit {self.one(('1mb', '10mb'))} "
                    f"burst {self.one(('10kb', '16kb', '64kb', '1mb'))}")
        tins = [] if self.floods else TABLES["tins"]
        some = [self.one(words) for chance, words in (*tins, *TABLES["cake"])
                if self.rng.random() < chance]
        if rate:
            some = [w for w in some if not w.startswith("band")] + [f"bandwidth {rate}"]
        return " ".join([kind, *[self.mode] * self.floods, *some])

    def change(self) -> str:
        """One change: of an option mostly, of a qdisc or the device now and then."""
        what = self.one({self.options: 70, self.anew: 14, self.device: 8, self.unlimited: 4,
                         self.inner: 12 if "tbf" in self.kinds else 0})
        return what(self.rng.randrange(self.queues))

    def options(self, q: int) -> str:
        """Options of a qdisc; a tbf is always told all it has, but for the group."""
        kind = self.kinds[q]
        if not self.parent:
            return f"tc qdisc change dev {NAME} root {self.words(kind)}"
        group = self.one(GROUPS) if self.rng.random() < .3 else ""
        return f"{self.child('change', q)} {self.words(kind)} {group}".strip()

    def anew(self, q: int) -> str:
        """A qdisc in another's place, at once or with the default one in between."""
        kind = self.kinds[q]
        if not self.parent:
            return (f"tc qdisc replace dev {NAME} root handle {self.one('12')}: "
                    + self.words(kind, rate="100mbit"))
        words = f"{self.words(kind)} {self.one(GROUPS)}"
        if self.rng.random() < .4:
            return f"{self.child('del', q)}; {self.child('add', q)} {words}"
        handle = f"handle {q + 1}{self.one('012')}:"
        return f"{self.child('replace', q, handle)} {words}"

    def device(self, _q: int) -> str:
        """The device's MTU, or its state."""
        return self.one((
            f"ip link set {NAME} mtu {self.one((576, 1500, 9000))}",
            f"ip link set {NAME} down; sleep 0.001; ip link set {NAME} up"))

    def unlimited(self, q: int) -> str:
        """No limit for a moment, which is enough to send a lot."""
        if self.kinds[q] == "tbf":
            return self.options(q)
        start = self.child("change", q) if self.parent else f"tc qdisc change dev {NAME} root"
        kind = self.kinds[q]
        return (f"{start} {kind} unlimited; sleep 0.0002; "
                f"{start} {kind} bandwidth {self.one(RATES)}")

    def inner(self, _q: int) -> str:
        """The qdisc inside a tbf."""
        q = self.one([q for q, kind in enumerate(self.kinds) if kind == "tbf"])
        return f"inner {q} {self.one(INNER)}"

    def lines_of_end(self) -> list[str]:
        """To the configuration that is measured: options and rates first, then groups."""
        mtu = [f"ip link set {NAME} mtu 1500"]
        cake = f"{TABLES['cake last']} bandwidth {self.rate:.0f}bit {self.mode}"
        if not self.parent:
            lines = [f"tc qdisc replace dev {NAME} root cake_mq {cake}"]
        else:
            full = {"cake": f"cake {cake}", "tbf": f"tbf rate {self.rate:.0f}bit {TBF_LAST}"}
            lines = [f"{self.child('replace', q)} {full[kind]}"
                     for q, kind in enumerate(self.kinds)]
            full["cake"] = "cake"
            lines += [f"{self.child('change', q)} {full[kind]} shared {number}"
                      for q, (kind, number) in enumerate(zip(self.kinds, self.numbers))]
            lines += [f"inner {q} {INNER[0]}"
                      for q, kind in enumerate(self.kinds) if kind == "tbf"]
        return mtu + lines if self.rng.random() < .5 else lines + mtu

    def groups(self) -> list[tuple[str, list[int]]]:
        """What is to share a rate: (kind, list of queues) of each group.

        kind: that of the group's qdiscs; of both, the one that may send more at once.
        """
        found = {}
        for q, number in enumerate(self.numbers):
            found.setdefault(number, []).append(q)
        kinds = [kind.removesuffix("_mq") for kind in self.kinds]
        return [(max((kinds[q] for q in queues), key=MOST_AHEAD.get), queues)
                for queues in found.values()]

    def spec(self, ops: Sequence[str]) -> dict:
        """What run_plan() needs, with these changes instead of all."""
        return {"queues": self.queues, "loads": self.loads, "first": self.first, "ops": ops,
                "last": self.last, "groups": self.groups(), "rate": self.rate}


# ------------------------------------------------------------------ guest side

def inner(q: str, words: str) -> bool:
    """Replace the inner qdisc of the tbf of a queue; whether that was accepted."""
    handles = {one.get("parent"): one["handle"]
               for one in json.loads(tc(f"-j qdisc show dev {NAME}"))}
    handle = handles.get(f"1:{int(q) + 1:x}", "none:")
    return carry_out(f"tc qdisc replace dev {NAME} parent {handle}1 {words}")


def carry_out(line: str) -> bool:
    """Do a line; whether it was accepted."""
    words = line.split()
    if words[0] == "sleep":
        time.sleep(float(words[1]))
        return True
    if words[0] == "inner":
        return inner(words[1], " ".join(words[2:]))
    return not subprocess.run(words, capture_output=True, check=False).returncode


def parts(lines: Sequence[str]) -> list[str]:
    """The single lines of lines."""
    return [part for line in lines for part in line.split("; ")]


def slept(lines: Sequence[str]) -> float:
    """Seconds that lines sleep in all."""
    return sum(float(part.split()[1]) for part in parts(lines) if part.startswith("sleep"))


def measured(hop: Hop, spec: dict, change: Callable) -> dict:
    """Load all queues and change; what is sent once all changes have been made."""
    changing = slept(spec["ops"]) + MARGIN
    for q, load in enumerate(spec["loads"]):
        for stream in load:
            hop.stream(q, stop=changing, **stream)
    for q in range(spec["queues"]):
        hop.stream(q, start=changing)
    begin = changing + SETTLE
    hop.meter(spec["rate"] * len(spec["groups"]), from_s=begin)
    other = threading.Thread(target=change, args=(time.monotonic() + changing,))
    other.start()
    got = hop.run(begin + MEASURED * 8 / spec["rate"])
    other.join()
    return got


def figures(got: dict, kind: str, queues: Sequence[int], rate: float) -> dict:
    """Of a group that has these queues."""
    sent = [got["queues"][q] for q in queues]
    return {"kind": kind, "deviation": deviation({"bps": sum(q["bps"] for q in sent)}, rate),
            "jain": jain([max(q["bytes"], 1) for q in sent])}


def run_plan(spec: dict) -> Iterator[dict]:
    """Carry out a Plan's spec(); yield the one row. Runs in the guest."""
    hop = Hop(spec["queues"])
    for line in spec["first"]:
        command(*line.split())
    refused = []

    def change(before):
        time.sleep(0.001)  # the run has begun
        refused.extend(part for part in parts(spec["ops"]) if not carry_out(part))
        for part in parts(spec["last"]):
            if not carry_out(part):
                raise RuntimeError(f"refused: {part}")
        if time.monotonic() > before:
            raise RuntimeError("the changes took longer than they sleep")
        refused.append(None)

    got = measured(hop, spec, change)
    yield {"refused": len(refused) - 1, "done": refused[-1:] == [None],
           "excess": got["excess"]["bytes"],
           "groups": [figures(got, *group, spec["rate"]) for group in spec["groups"]]}
    hop.remove()


# ------------------------------------------------------------------- host side

def wrong(row: dict) -> str:
    """What is wrong with a row of run_plan(), as text; "" if nothing is."""
    said = []
    for number, group in enumerate(row["groups"]):
        name = f"group {number + 1} of {len(row['groups'])}"
        if abs(group["deviation"]) > MOST_OFF:
            said.append(f"{name} is off its rate by {group['deviation']:+.3f} %")
        if group["jain"] < LEAST_JAIN:
            said.append(f"{name} has a Jain's index of {group['jain']:.3f}")
    if row["excess"] > sum(MOST_AHEAD[group["kind"]] for group in row["groups"]):
        said.append(f"the next hop has to queue {row['excess'] / 1e3:.1f} KB")
    return ", ".join(said)


def attempt(kernel: tuple, plan: Plan, ops: Sequence[str]) -> tuple[str, dict]:
    """Boot and carry out a plan with these changes: (what is wrong, the row)."""
    folder, ko = kernel
    rows, _ = boot_script(folder, "changes", "tests.changes:run_plan", plan.spec(ops), hop=ko,
                          virtual=True, lockdep=True, timeout=300)
    if not rows[-1]["done"]:
        raise Die("not all changes could be made: see build/guest/changes/console.log")
    return wrong(rows[-1]), rows[-1]


def shrink(kernel: tuple, plan: Plan, ops: list[str]) -> list[str]:
    """The shortest list of changes that BOOTS boots find and that still fails."""
    return shrunk(ops, 0, BOOTS,
                  lambda less: less if attempt(kernel, plan, less)[0] else None)


def judge(kernel: tuple, seed: int, count: int, shrinking: bool) -> bool:
    """Run a seed and report; whether it is good."""
    plan = Plan(seed, count)
    start = time.monotonic()
    bad, row = attempt(kernel, plan, plan.ops)
    what = f"seed {seed}: {plan.queues} queues, {'/'.join(sorted(set(plan.kinds)))}"
    if not bad:
        print(f"ok    {what}, {len(plan.ops)} changes, {row['refused']} refused "
              f"({time.monotonic() - start:.1f} s)", flush=True)
        return True
    print(f"FAIL  {what}: {bad}", flush=True)
    if shrinking:
        ops = shrink(kernel, plan, plan.ops)
        print(f"      {len(ops)} of {len(plan.ops)} changes are enough; under load:")
        for line in (*plan.first, "", *ops, "", *plan.last):
            print(f"      {line}".rstrip())
    return False


def main(seed: int = 1, seeds: int = 20, ops: int = 40) -> None:
    """Run the seeds; shrink the first that fails.

    seed: the first. seeds: how many. ops: changes of a seed.
    """
    kernel = "um", module("patched")
    say(f"{seeds} seeds of {ops} changes under load, in virtual time (about "
        f"{2 * seeds} s)")
    failed = 0
    for number in range(seed, seed + seeds):
        failed += not judge(kernel, number, ops, shrinking=not failed)
    verdict(seeds - failed, failed)

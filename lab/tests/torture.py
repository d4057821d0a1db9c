# SPDX-License-Identifier: GPL-2.0
"""Trees of qdiscs in random order, under traffic: nothing may break, hang or leak.

Each seed is a boot of the debug kernel (KASAN, lockdep, RCU and object checks;
poisoned and tracked slabs) under virtual time. The guest carries out operations
that follow from the seed, while pktgen sends to all queues of all devices (with several
CPUs, as in make gauntlet: packet sockets, and time is real): lines of tc, ip, ethtool,
rmmod, and the few words of Operator, among them

    fail 7 tc ...       the 7th allocation of slab memory in it fails
    fail all tc ...     the 1st fails, the 2nd, and so on until nothing failed
    both tc ... | tc ...    two processes at once
    unload sch_cake     delete all users of a module; then it must go

Operations may be refused; that is counted, not judged. Judged are

- the kernel log, after each operation;
- that each operation ends, within LIMIT s of virtual time;
- that a module goes with its last user;
- that lockdep is still on at the end;
- that no block of shared state was freed without a grace period;
- what is left when all devices are gone: no call site in JUDGED may own one slab
  object more than before, and no more than SPARE KiB of large allocations and
  memory per CPU may have been added. A tour of all kinds goes ahead of the first
  count, so that what is allocated once and kept does not count.

A seed that fails is shrunk: parts are left out, a boot each, as long as it still
fails. --replay build/guest/torture/failing.txt runs what is left. --faults plants those
of lab/series/faults.txt instead, one after the other: each has to make a seed fail. The last
line is 'N passed, N failed', one per seed or fault.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from guest.boot import Guest, run_script
from host.common import BUILD, say
from host.results import keep_result, verdict
from series.kernel import BROKEN, build, emulated, image
from series.mutate import read_list

from tests.shrink import shrunk
from tests.torture_guest import ALLOWED
from tests.torture_plan import Plan

FOLDER = BUILD / "guest/torture"
FAILING = FOLDER / "failing.txt"
BOOTS = 12  # at most, to shrink a failure
LIMIT = 300  # virtual s for one operation: shapers may be slow, RTNL must not be
TRACKED = "FZPU,kmalloc-*,net_namespace"  # slabs; KASAN looks after all


class Attempt(NamedTuple):
    """What is wrong (None: nothing), after which line, the last row of run_lines(), the Guest."""

    bad: str | None
    at: int | None
    row: dict
    guest: Guest


def attempt(kernel: str, lines: Sequence[str], params: Sequence[str] = (),
            allowed: Sequence[str] = (), **more: Any) -> Attempt:
    """Boot and carry out the lines: an Attempt.

    kernel: its folder. params: more for its command line. allowed: as for run_lines().
    more: as for boot.boot().
    """
    name = f"torture-{Path(kernel).name}"
    path = FOLDER / name / "lines.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    modules = BUILD / kernel / "net/sched"
    spec = {"limit": LIMIT, "allowed": allowed,
            "modules": str(modules) if (modules / "sch_cake.ko").exists() else None}
    slow = spec["several"] = emulated(image(kernel))
    rows, guest = run_script(kernel, name, "tests.torture_guest:run_lines", spec, files=(path,),
                             virtual=not slow, timeout=(8 if slow else 1) * (120 + len(lines) // 4),
                             params=(f"slab_debug={TRACKED}", *params), **more)
    for row in rows:
        if "trouble" in row:
            return Attempt(row["trouble"], row["at"], rows[-1], guest)
    bad = guest.complaint((*ALLOWED, *allowed))
    if not bad and not (rows and "accepted" in rows[-1]):
        bad = "the guest did not come to its end"
    return Attempt(bad, None, rows[-1] if rows else {}, guest)


def upto(lines: list[str], at: int | None) -> list[str]:
    """The lines up to the one of an index; all if that is None."""
    return lines if at is None else lines[:at + 1]


def save(title: str, lines: Sequence[str]) -> None:
    """Write what REPLAY reads."""
    FAILING.write_text(f"# {title}\n" + "".join(f"{line}\n" for line in lines))


def replayed(path: str) -> list[str]:
    """The lines that save() wrote."""
    text = Path(path).read_text().splitlines()
    return [line for line in text if line and line[0] != "#"]


def shrink(kernel: str, title: str, lines: list[str]) -> list[str]:
    """The shortest failing sequence that BOOTS boots find, by leaving parts out."""
    def fails(less):
        bad, at, *_ = attempt(kernel, less)
        if not bad:
            return None
        less = upto(less, at)
        save(title, less)
        say(f"{len(less)} operations still fail: {bad[:120]}")
        return less

    save(title, lines)
    return shrunk(lines, 1, BOOTS, fails)


def judge(kernel: str, name: str, lines: list[str], shrinking: bool = True) -> dict | None:
    """Run lines, report, shrink and save them if they fail; their row, None if so."""
    start = time.monotonic()
    bad, at, row, guest = attempt(kernel, lines)
    took = time.monotonic() - start
    if not bad:
        print(f"ok    {name}: {len(lines)} operations, {row['refused']} refused, "
              f"{row['failed']} failed allocations ({took:.0f} s)", flush=True)
        return {**row, "seconds": round(took, 1)}
    print(f"FAIL  {name}: {bad}" + (f"; operation {at + 1}" if at is not None else ""),
          flush=True)
    if trace := guest.trace(ALLOWED):
        print(trace, flush=True)
    lines = upto(lines, at)
    if shrinking:
        lines = shrink(kernel, f"{name}: {bad}", lines)
        print(f"      {len(lines)} operations are enough, in {FAILING}:")
        for line in lines:
            print(f"      {line}")
    return None


def record(seeds: range, count: int, rows: list[dict]) -> None:
    """Write torture.json, for a run of many operations."""
    keep_result("torture.json", {
        "what": "random operations on trees of qdiscs under traffic, none of them with a "
                "splat, hang or leak; one core, under KASAN and lockdep",
        "seeds": f"{seeds[0]} to {seeds[-1]}",
        "operations": len(seeds) * count,
        **{key: round(sum(row[key] for row in rows), 1)
           for key in ("accepted", "refused", "failed", "seconds")}})


def find(fault: dict, seeds: range, count: int) -> bool:
    """Whether one of the seeds fails with a fault in the kernel, as it has to."""
    for seed in seeds:
        bad, at, *_ = attempt("faults/um-debug", Plan(seed).lines(count),
                             (f"shared_mutant={fault['number']}",))
        if bad:
            print(f"found     {fault['rule']}: {bad[:200]} (seed {seed}"
                  + (f", operation {at + 1})" if at is not None else ")"), flush=True)
            return True
    print(f"NOT FOUND {fault['rule']}", flush=True)
    return False


def main(seed: int = 1, seeds: int = 0, ops: int = 0, long: bool = False, faults: bool = False,
         replay: str = "", kernel: str = "um-debug") -> None:
    """Run the seeds, with each of the faults if asked for, or the file to replay.

    seed: the first. seeds: how many (4, or 20). ops: operations of a seed (500, or 5,000). long:
    the larger ones, and write torture.json. faults: plant faults, to be found. replay: run the
    operations of a file instead. kernel: folder in build/.
    """
    number = seeds or (20 if long else 4)
    count = ops or (5000 if long else 500)
    chosen = range(seed, seed + number)
    if replay:
        results = [judge(kernel, replay, replayed(replay), shrinking=False)]
    elif faults:
        build("faults")
        planted = read_list(BROKEN["faults"])
        say(f"{len(planted)} faults, up to {number} seeds of {count} operations for each")
        results = [find(fault, chosen, count) for fault in planted]
    else:
        say(f"{number} seeds of {count} operations on trees of qdiscs")
        results = [judge(kernel, f"seed {one}", Plan(one).lines(count)) for one in chosen]
        if long and all(results):
            record(chosen, count, results)
    failed = sum(not result for result in results)
    verdict(len(results) - failed, failed)

# SPDX-License-Identifier: GPL-2.0
"""make demo: a table of loads that hurt, the series beside the unpatched kernel.

scenarios.txt and rows.txt of the room of loads say what is in it. --all measures all of its rows,
not only those that say most, and with lockdep; --compare also those of the other kernels. --quick,
for make smoke: two saturated queues of the patched kernel below root cake, mq with unshared cakes,
mq with shared cakes and cake_mq.
"""

import sys
from collections.abc import Container

from guest.boot import boot_script
from host.common import Die, say
from host.repo import KERNEL
from host.results import keep_result, record_time, recorded, verdict
from loads import scenarios
from loads.room import ALSO, ROWS, SCENARIOS
from series import kernel

RECORD = "scenarios.json"
# Kernels: the unpatched one, the one without a rate group, the one with all series.
COLUMNS = ("base", KERNEL.upto("1")[-1].folder, "patched")
# What make demo runs: of each kind of load what says most. ALL=1 runs all.
BRIEF = {name for name, one in SCENARIOS.items() if one.brief}
QUICK = ("cake", "mq + cake", "mq + cake shared", "cake_mq")
EXACT = ("cake", "mq + cake shared", "cake_mq")  # must keep the rate within BOUND
RATE = SCENARIOS["two queues"].args["rate"]
BOUND = 0.05  # %


# ---------------------------------------------------------------- the table

def is_slow(name: str) -> bool:
    """Whether a scenario takes minutes, so that make demo shows what is recorded of it."""
    return name in SCENARIOS and SCENARIOS[name].slow


def table(results: dict, only: Container[str] | None = None) -> list[str]:
    """The rows as lines of text; results: {kernel: figures}; only: of these scenarios."""
    lines = [f"{'':<42}{'Linux 7.3.4':>12}{'series 1':>12}{'all series':>12}{'bound':>12}"]
    for row in ROWS:
        cells = row.cells_of(only)
        lines += [row.title] * bool(cells)
        for cell in cells:
            bound = "" if cell.bound is None else f"{'>= ' * row.at_least}{cell.bound:g}"
            lines.append(f"    {cell.label:<38}" + "".join(
                f"{cell.text(results.get(which, {})):>12}" for which in COLUMNS)
                + f"{bound:>12}")
    return [line.rstrip() for line in lines]


def judged(figures: dict, only: Container[str] | None = None) -> tuple[int, list[str]]:
    """(cells with a bound, sentences about those that are not within it)."""
    cells = [cell for row in ROWS for cell in row.cells_of(only) if cell.bound is not None]
    return len(cells), [cell.told(figures) for cell in cells if not cell.good(figures)]


def also_table(figures: dict) -> tuple[list[str], list[str]]:
    """(lines of text, what is wrong): all scenarios with each contender in turn."""
    wide = max(map(len, ALSO)) + 2
    others = [f"{contender}: " for contender in ALSO]
    lines = [f"{'':<42}{'cake_mq':>12}" + "".join(f"{c:>{wide}}" for c in ALSO)]
    wrong = []
    for row in ROWS:
        there = [cell for cell in row.cells
                 if any(cell.value(figures, c) is not None for c in others)]
        lines += [row.title] * bool(there)
        for cell in there:
            lines.append(f"    {cell.label:<38}{cell.text(figures):>12}" + "".join(
                f"{cell.text(figures, c):>{wide}}" for c in others))
            wrong += [cell.told(figures, c) for c in others if not cell.good(figures, c)]
    return lines, wrong


def stored() -> dict:
    """{kernel: figures} of results/scenarios.json."""
    return recorded(RECORD).get("kernels", {})


def store(results: dict) -> None:
    """Write {kernel: figures}."""
    keep_result(RECORD, {
        "what": "scenarios in virtual time; rates in bit/s, waits in s or as the name says, "
        "excess in bytes", "kernels": results})


# ----------------------------------------------------------------- measuring

def two_queues() -> None:
    """Print a table of the patched kernel, and judge it."""
    print(f"Two saturated queues, {RATE / 1e9:g} Gbit, virtual time on real kernel code.\n"
          f"{'qdisc':<18}{'sent, Mbit':>12}{'off by':>10}")
    off = {}
    for contender in QUICK:
        (row,), _ = boot_script(
            "um", "demo", "loads.scenarios:run_scenarios",
            {"contender": contender, "scenarios": ["two queues"]},
            hop=kernel.module("patched"), virtual=True, timeout=400)
        off[contender] = row["deviation"]
        print(f"{contender:<18}{RATE / 1e6 * (1 + row['deviation'] / 100):>12.1f}"
              f"{row['deviation']:>+9.3f}%")
    print("\n'mq + cake' is one limit per queue.")
    for contender in EXACT:
        if abs(off[contender]) > BOUND:
            raise Die(f"{contender} is off by {off[contender]:+.3f} %, more than {BOUND} %; look "
                      "at build/guest/demo and the last change to sch_cake")


def other_kernels() -> dict:
    """Measure the unpatched kernel and the one without a rate group; stored() with that."""
    results = stored()
    for which in COLUMNS[:2]:
        kernel.build(which)
        say(f"the scenarios on kernel '{which}' (about 4 min)")
        results[which] = scenarios.measure(which, slow=True)
        store(results)
    say("all scenarios with all that share a rate (about 8 min)")
    figures = scenarios.measure("patched", everything=True, slow=True)
    results["patched"].update({name: row for name, row in figures.items()
                               if is_slow(name)})
    store(results)
    lines, wrong = also_table(figures)
    print("\n".join(["", *lines]))
    if wrong:
        raise Die(f"{len(wrong)} figures are out of their bounds: " + "; ".join(wrong))
    return results


def measure_patched(results: dict, only: Container[str] | None) -> tuple[int, list[str]]:
    """Measure the patched kernel, print the table; (cells within their bounds, the others).

    results: of the other kernels. only: the scenarios that are run, if not all.
    """
    seconds = 60 if only else 250
    say(f"loads that hurt, in virtual time on real kernel code (about {seconds} s)")
    done = []

    def progress(_name, _row, _seconds):
        done.append(1)
        if sys.stdout.isatty():
            print(f"\r{len(done)} loads", end="", flush=True)

    figures = scenarios.measure("patched", only, progress, lockdep=not only)
    kept = {name: row for name, row in results.get("patched", {}).items()
            if only or is_slow(name)}
    results["patched"] = {**kept, **figures}
    store(results)
    print("\n".join(["", *table(results, only)]))
    count, wrong = judged(results["patched"], only)
    return count - len(wrong), wrong


def main(quick: bool = False, all_: bool = False, compare: bool = False) -> None:
    """Measure what is asked for, print and judge it.

    quick: two queues, a minute. all: all rows of the table. compare: all rows, and measure the
    other kernels again.
    """
    if quick:
        two_queues()
        return
    brief = BRIEF if not all_ and not compare else None
    good, wrong = measure_patched(other_kernels() if compare else stored(), brief)
    if brief and not wrong:
        record_time("demo")
    verdict(good, wrong)

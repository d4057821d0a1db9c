# SPDX-License-Identifier: GPL-2.0
"""The table of make demo: what of the room of loads is printed, and how."""

import json
from collections.abc import Container

from host.repo import KERNEL
from host.results import RESULTS, keep_result

from loads.room import ALSO, ROWS, SCENARIOS

STORED = RESULTS / "scenarios.json"
# Kernels: the unpatched one, the one without a rate group, the one with all series.
COLUMNS = ("base", KERNEL.upto("1")[-1].folder, "patched")
# What make demo runs: of each kind of load what says most. ALL=1 runs all.
BRIEF = {name for name, one in SCENARIOS.items() if one.brief}


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
    return json.loads(STORED.read_text())["kernels"] if STORED.exists() else {}


def store(results: dict) -> None:
    """Write {kernel: figures}."""
    keep_result(STORED.name, {
        "what": "scenarios in virtual time; rates in bit/s, waits in s or as the name says, "
        "excess in bytes", "kernels": results})

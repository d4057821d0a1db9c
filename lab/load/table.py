# SPDX-License-Identifier: GPL-2.0
"""The table of make demo: what of the room of loads is printed, and how."""

import json
from collections.abc import Container, Sequence

from tree.common import KERNEL, RESULTS, command_line, keep_result

from load import cheap, fair, others, rates, tcp_loads, tins, trouble
from load.others import ALSO, bound_below
from load.room import SCENARIOS, Row
from load.scenarios import measure

ROWS = [row for module in (rates, fair, tins, trouble, cheap, tcp_loads, others)
        for row in vars(module).values() if isinstance(row, Row)]  # as they are defined there
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
    lines = [f"{'':<42}{'stock':>12}{'series 1':>12}{'all':>12}{'bound':>12}"]
    for row in ROWS:
        cells = row.cells_of(only)
        lines += [row.title] * bool(cells)
        for label, bound in cells:
            told = "" if bound is None else f"{'>= ' if row.at_least else ''}{bound:g}"
            lines.append(f"    {label:<38}" + "".join(
                f"{row.text(label, results.get(which, {})):>12}" for which in COLUMNS)
                + f"{told:>12}")
    return [line.rstrip() for line in lines]


def judged(figures: dict, only: Container[str] | None = None) -> tuple[int, list[str]]:
    """(cells with a bound, sentences about those that are not within it)."""
    cells = [(row, label, bound) for row in ROWS for label, bound in row.cells_of(only)
             if bound is not None]
    return len(cells), [f"{row.title}, {label}: {row.text(label, figures)}, bound {bound:g}"
                        for row, label, bound in cells if not row.good(label, bound, figures)]


def also_table(figures: dict) -> tuple[list[str], list[str]]:
    """(lines of text, what is wrong): all scenarios with each contender in turn."""
    wide = max(map(len, ALSO)) + 2
    lines = [f"{'':<42}{'cake_mq':>12}" + "".join(f"{c:>{wide}}" for c in ALSO)]
    wrong = []
    for row in ROWS:
        there = [label for label in row.cells if any(
            row.value(label, figures, f"{c}: ") is not None for c in ALSO)]
        lines += [row.title] * bool(there)
        for label in there:
            lines.append(f"    {label:<38}{row.text(label, figures):>12}" + "".join(
                f"{row.text(label, figures, f'{c}: '):>{wide}}" for c in ALSO))
        for label, own in row.cells_of():
            for c in ALSO:
                bound = bound_below(c, row.cells[label][1], own)
                if label in there and not row.good(label, bound, figures, f"{c}: "):
                    wrong.append(f"{c}: {row.title}, {label}: "
                                 f"{row.text(label, figures, f'{c}: ')}, bound {bound:g}")
    return lines, wrong


def stored() -> dict:
    """{kernel: figures} of results/scenarios.json."""
    return json.loads(STORED.read_text())["kernels"] if STORED.exists() else {}


def store(results: dict) -> None:
    """Write {kernel: figures}."""
    keep_result(STORED.name, {
        "what": "scenarios in virtual time; rates in bit/s, waits in s or as the name says, "
        "excess in bytes", "kernels": results})


def main(argv: Sequence[str]) -> None:
    """lab scenarios: some figures of a kernel, as they come; nothing is stored."""
    parser = command_line("scenarios", __doc__)
    parser.add_argument("kernel", help="its name, or a folder that has it and hop.ko")
    parser.add_argument("pattern", nargs="*", help="what a scenario's name contains (all)")
    args = parser.parse_args(argv)
    wanted = {name for name in SCENARIOS for text in args.pattern or [""] if text in name}
    measure(args.kernel, wanted, lambda name, row, s: print(
        f"{s:6.1f} {name}: " + json.dumps(row)[:300], flush=True), slow=True)

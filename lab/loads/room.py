# SPDX-License-Identifier: GPL-2.0
"""The room of loads: scenarios.txt, what there is, and rows.txt, what is shown and judged of it.

Whatever lists scenarios is made from here: the table of make demo and its short run, what make
coverage runs, the bounds that a mutant has to leave, the picture on the front page.
"""

import re
import shlex
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host.common import sections
from traffic import tcp
from traffic.bed import TOS

from loads import cheap, fair, rates, tins, trouble

USUAL = "cake_mq"  # what a scenario runs below, if it does not say
ALSO = ("mq + cake shared", "mqprio + cake shared", "mq + tbf shared")  # the same by other means
TBF_OFF = 0.25  # %: what a tbf promises of the rate
HERE = Path(__file__).parent


def whole(contender: str, name: str) -> str:
    """The name of a scenario below a contender, which is told unless it is the usual one."""
    return name if contender == USUAL else f"{contender}: {name}"


@dataclass
class Scenario:
    """A load: a line of scenarios.txt.

    run(bed, **args) is carried out in the guest and gives {key: figure}; without it, args is a
    case of lab/traffic/tcp.py, or, with parts, the figures are those of other scenarios. contender:
    below what. brief: in the short table, too. coverage: make coverage runs it. params: of the
    guest's kernel. slow: takes minutes, so make demo shows what is recorded. front: its name in
    the picture of the front page.
    """

    name: str
    run: Callable[..., dict] | None
    args: dict[str, Any]
    contender: str = USUAL
    brief: bool = False
    coverage: bool = False
    slow: bool = False
    params: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    front: str = ""


@dataclass
class Cell:
    """Where a figure goes: label in a row, bound in the unit shown (None: not judged), scenario
    by its whole name, key. front: its name on the front page, among what gets worse."""

    row: "Row"
    label: str
    bound: float | None
    scenario: str
    key: str
    front: str = ""

    def value(self, figures: dict, contender: str = "") -> float | None:
        """In the unit shown; None where a kernel or contender does not have it."""
        found = figures.get(contender + self.scenario, {}).get(self.key)
        return None if found is None else found * self.row.scale

    def text(self, figures: dict, contender: str = "") -> str:
        """As it is printed."""
        value = self.value(figures, contender)
        return "-" if value in (None, float("inf")) else format(value, self.row.form)

    def bound_below(self, contender: str) -> float | None:
        """What it may be below another contender: a tbf promises the rate only."""
        if self.bound is None or "tbf" not in contender:
            return self.bound
        return max(self.bound, TBF_OFF) if self.key == "deviation" else None

    def good(self, figures: dict, contender: str = "") -> bool:
        """Is it within its bound?"""
        value, bound = self.value(figures, contender), self.bound_below(contender)
        if bound is None or value is None:
            return bound is None
        return value >= bound if self.row.at_least else abs(value) <= bound

    def told(self, figures: dict, contender: str = "") -> str:
        """A sentence on it."""
        return (f"{contender}{self.row.title}, {self.label}: {self.text(figures, contender)}, "
                f"bound {self.bound_below(contender):g}")


@dataclass
class Row:
    """A row of the table. form: how a figure is printed, after it was multiplied with scale.
    at_least: bounds are the least that is good, not the most."""

    title: str
    form: str
    scale: float
    at_least: bool
    cells: list[Cell] = field(default_factory=list)

    def cells_of(self, only: Container[str] | None) -> list[Cell]:
        """Those of some scenarios, or all."""
        return [cell for cell in self.cells if only is None or cell.scenario in only]


def value_of(word: str) -> Any:
    """An argument: a number, True, a class of DiffServ, or text."""
    if re.fullmatch(r"\d+", word):
        return int(word)
    if re.fullmatch(r"[\d.]+(e-?\d+)?", word):
        return float(word)
    return True if word == "True" else TOS.get(word, word)


def read_scenarios() -> dict[str, Scenario]:
    """{whole name: scenario} of scenarios.txt."""
    found = {}
    for line, _ in sections(HERE / "scenarios.txt"):
        said, _, front = line.partition(" # ")
        name, _, rest = said.partition(" = ")
        what, *words = shlex.split(rest)
        contender, _, short = name.rpartition(": ")
        params = tuple(word[1:] for word in words if word.startswith("@"))
        flags = [word for word in words if word.isalpha()]
        args = {key: value_of(value) for key, sign, value in
                (word.partition("=") for word in words) if sign and not key.startswith("@")}
        run = next((getattr(module, what) for module in (rates, fair, tins, trouble, cheap)
                    if hasattr(module, what)), None)
        parts = [one for one in found if one.startswith(f"{name} ") and what == "starts"]
        if not run and not parts:
            args = getattr(tcp, what)(**args)
        found[name] = Scenario(
            short, run, args, contender or USUAL, parts=tuple(parts), front=front, params=params,
            **dict.fromkeys(flags, True))
    return found


def read_rows() -> list[Row]:
    """The rows of rows.txt."""
    rows = []
    for head, lines in sections(HERE / "rows.txt"):
        title, _, words = head.partition(" = ")
        key, form, *more = words.split()
        scale = float(more[more.index("x") + 1]) if "x" in more else 1
        row = Row(title, form, scale, more[-2:] == ["at", "least"])
        for line in lines:
            said, _, front = line.partition(" # ")
            label, bound, name, *own = (part.strip() for part in said.split("|"))
            row.cells.append(Cell(row, label, float(bound) if bound else None, name,
                                  own[0] if own else key, front))
        rows.append(row)
    return rows


SCENARIOS = read_scenarios()
ROWS = read_rows()
SHOWN = {cell.scenario for row in ROWS for cell in row.cells}

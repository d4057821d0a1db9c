# SPDX-License-Identifier: GPL-2.0
"""The room of loads: what a scenario is, and a row of the table that its figures go into.

Modules beside this one declare both: rates, fair, tins, trouble, cheap, tcp_loads and others.
Whatever lists scenarios is made from here: the table of make demo and its short run, what make
coverage runs, the bounds that a mutant has to leave, the picture on the front page.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

USUAL = "cake_mq"  # what a scenario runs below, if it does not say


def whole(contender: str, name: str) -> str:
    """The name of a scenario below a contender, which is told unless it is the usual one."""
    return name if contender == USUAL else f"{contender}: {name}"


@dataclass
class Cell:
    """Where a figure goes: row, label there, bound in the unit shown (None: not judged), key.

    front: what it is called on the front page, among what gets worse, if it is there.
    """

    row: "Row"
    label: str
    bound: float | None
    key: str
    front: str = ""


@dataclass
class Scenario:
    """A load, and what is shown of it.

    run(bed, **args) is carried out in the guest and gives {key: figure}; without it, args is a
    case of lab/load/tcp.py, or, with parts, the figures are those of other scenarios. contender:
    below what. brief: in the short table, too. coverage: make coverage runs it. params: of the
    guest's kernel. slow: takes minutes, so make demo shows what is recorded. front: its name in
    the picture of the front page.
    """

    name: str
    run: Callable[..., dict] | None
    args: dict[str, Any]
    cells: tuple[Cell, ...] = ()
    brief: bool = False
    contender: str = USUAL
    coverage: bool = False
    params: tuple[str, ...] = ()
    slow: bool = False
    parts: tuple[str, ...] = ()
    front: str = ""

    @property
    def whole(self) -> str:
        """Its name, with that of its contender."""
        return whole(self.contender, self.name)


@dataclass
class Row:
    """A row of the table: what its cells show.

    key: of the figure. form: how it is printed, after it was multiplied with scale. at_least:
    bounds are the least that is good, not the most.
    """

    title: str
    key: str
    form: str = "{:.4f}"
    scale: float = 1
    at_least: bool = False
    places: dict[str, tuple[str, Cell]] = field(default_factory=dict)

    def __call__(self, label: str, bound: float | None = None, key: str = "",
                 front: str = "") -> Cell:
        """A cell of this row; key: if it is not that of the row."""
        return Cell(self, label, bound, key or self.key, front)

    @property
    def cells(self) -> dict[str, tuple[str, str]]:
        """{label: (scenario, key)}."""
        return {label: (name, cell.key) for label, (name, cell) in self.places.items()}

    @property
    def bounds(self) -> tuple[float | None, ...]:
        """Of each cell."""
        return tuple(cell.bound for _, cell in self.places.values())

    def value(self, label: str, figures: dict, contender: str = "") -> float | None:
        """A cell in the unit shown; None where a kernel or contender does not have it."""
        name, cell = self.places[label]
        found = figures.get(contender + name, {}).get(cell.key)
        return None if found is None else found * self.scale

    def text(self, label: str, figures: dict, contender: str = "") -> str:
        """A cell as it is printed."""
        value = self.value(label, figures, contender)
        if value is None or value == float("inf"):
            return "-"
        return self.form.format(value)

    def cells_of(self, only: Container[str] | None = None) -> list[tuple[str, float | None]]:
        """(label, bound) of the cells; only: of these scenarios."""
        return [(label, cell.bound) for label, (name, cell) in self.places.items()
                if only is None or name in only]

    def good(self, label: str, bound: float | None, figures: dict, contender: str = "") -> bool:
        """Is a cell within its bound?"""
        value = self.value(label, figures, contender)
        if bound is None or value is None:
            return bound is None
        return value >= bound if self.at_least else abs(value) <= bound


SCENARIOS: dict[str, Scenario] = {}  # by their whole names


def scenario(name: str, run: Callable[..., dict] | None, *cells: Cell, args: dict | None = None,
             **more: Any) -> Scenario:
    """Add a scenario to the room; more: as of Scenario."""
    made = Scenario(name, run, args or {}, cells, **more)
    if made.whole in SCENARIOS:
        raise ValueError(f"there are two scenarios '{made.whole}'")
    SCENARIOS[made.whole] = made
    for cell in cells:
        if cell.label in cell.row.places:
            raise ValueError(f"'{cell.row.title}' has two cells '{cell.label}'")
        cell.row.places[cell.label] = made.whole, cell
    return made


def again(contender: str, name: str, *cells: Cell, **more: Any) -> Scenario:
    """Add a scenario that runs what another one does, below another contender."""
    same = SCENARIOS[name]
    return scenario(name, same.run, *cells, args=same.args, contender=contender,
                    params=same.params, **more)

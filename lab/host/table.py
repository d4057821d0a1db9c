# SPDX-License-Identifier: GPL-2.0
"""Tables of text. What a column has, and how wide it is, is said once for its heading and cells."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column of a table.

    head: its heading. value: key of a row, or what gives the cell, of a row. form: of the cell, as
    for format(). width: in characters; negative: flush left. over: heading above this column and
    those next to it that have the same.
    """

    head: str
    value: str | Callable[[Mapping[str, Any]], Any]
    form: str
    width: int
    over: str = ""


def put(text: str, width: int) -> str:
    """A text in so many characters; negative: flush left."""
    return text.ljust(-width) if width < 0 else text.rjust(width)


class Table:
    """Columns, each given as for Column. A row is a dict; a cell that is None is shown as "-"."""

    def __init__(self, *columns: tuple) -> None:
        self.columns = [Column(*column) for column in columns]

    def head(self) -> list[str]:
        """The line of headings, and that of those above them, if there are any."""
        lines = ["".join(put(column.head, column.width) for column in self.columns)]
        if any(column.over for column in self.columns):
            above = [(over, [column.width for column in some]) for over, some in
                     itertools.groupby(self.columns, lambda column: column.over)]
            lines.insert(0, "".join(put(over, sum(widths)) for over, widths in above))
        return [line.rstrip() for line in lines]

    def line(self, row: Mapping[str, Any]) -> str:
        """The line of a row."""
        found = ((column, row[column.value] if isinstance(column.value, str)
                  else column.value(row)) for column in self.columns)
        return "".join(put("-" if value is None else format(value, column.form), column.width)
                       for column, value in found).rstrip()

    def lines(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """The whole: head() and a line for each row."""
        return [*self.head(), *map(self.line, rows)]

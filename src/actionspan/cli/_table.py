"""A table of numbers with names beside them: when there is no room, it is the names that are shortened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.text import Text

from actionspan.cli._screen import Screen

__all__ = ["Column", "print_table"]

_GAP: Final = 2
_LEAST: Final = 8
"""Columns that a shortened name keeps."""


@dataclass(frozen=True, slots=True)
class Column:
    """How one column is set."""

    head: str
    align: Literal["left", "right"] = "right"
    most: int | None = None
    """At most so wide, and narrower where there is no room; None: as wide as it must be."""


def print_table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[Text | str]]) -> None:
    """Print the heads and the rows. A row may have fewer cells than there are columns."""
    heads = [Text(column.head, "dim") for column in columns]
    table = [heads, *([cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows)]
    widths = _widths(screen.console.width, columns, table)
    for row in table:
        line = Text()
        for column, width, cell in zip(columns, widths, row, strict=False):
            cell.truncate(width, overflow=screen.symbols.cut)
            cell.align(column.align, width)
            line.append_text(cell).append(" " * _GAP)
        line.rstrip()
        screen.line(line)


def _widths(room: int, columns: Sequence[Column], table: Sequence[Sequence[Text]]) -> list[int]:
    widths = [0] * len(columns)
    for row in table:
        for position, cell in enumerate(row):
            most = columns[position].most
            widths[position] = max(widths[position], cell.cell_len if most is None else min(most, cell.cell_len))
    flexible = [position for position, column in enumerate(columns) if column.most is not None]
    while sum(widths) + _GAP * (len(widths) - 1) > room:
        widest = max(flexible, key=lambda position: widths[position], default=None)
        if widest is None or widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    return widths

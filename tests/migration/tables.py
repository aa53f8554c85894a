"""The tables of docs/migration.md, by their headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
HEADING = re.compile(r"^##+ (.*)$", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    theirs: str
    """A name, or a pattern for names."""
    ours: str | None
    same_value: bool

    def is_about(self, name: str) -> bool:
        return fnmatchcase(name, self.theirs)


def table(heading: str) -> list[Row]:
    """The rows of the last table under that heading whose first column is a name."""
    pieces = HEADING.split(PAGE.read_text())
    section = pieces[pieces.index(heading) + 1]
    rows: list[Row] = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| `") else []
        if len(cells) == 3 or (len(cells) == 2 and line.endswith("| |")):
            ours = NAME.match(cells[1])
            said = cells[2] if len(cells) == 3 else ""
            rows.append(Row(cells[0].strip("`"), ours[1] if ours else None, said.startswith("same value")))
    return rows

"""The terminal: what it can show, how results and errors get there, and the exit codes."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, Final, Literal, NoReturn

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from actionspan.cli._text import ascii_json, cut, encodable, harmless, harmless_json

__all__ = [
    "DAMAGED",
    "INTERRUPTED",
    "NOTHING",
    "OUTCOME_STYLES",
    "USAGE",
    "Screen",
    "Symbols",
    "fail",
    "fail_nothing",
    "print_json",
]

NOTHING: Final = 1
"""Exit code: the command worked and found nothing."""
USAGE: Final = 2
"""Exit code: the arguments, or what they name, are not right."""
DAMAGED: Final = 3
"""Exit code: the record is damaged."""
INTERRUPTED: Final = 130
"""Exit code: Ctrl-C, as a shell has it."""

_EMPTY: Final = "(empty name)"
_LONGEST: Final = 200
"""Characters of a name, an id or a reason."""
_PIPED_WIDTH: Final = 120
"""Columns when nobody's terminal says how many there are."""


OUTCOME_STYLES: Final = {
    "success": "green",
    "error": "bold red",
    "cancelled": "yellow",
    "timeout": "bold magenta",
    "deferred": "bold blue",
}


@dataclass(frozen=True, slots=True)
class Symbols:
    """The characters that are not letters, for a terminal that has them and for one that has not."""

    outcomes: dict[str, str]
    unfinished: str
    started: str
    branch: str
    last: str
    trunk: str
    bar: tuple[str, str, str, str]
    """A cell of a bar: empty, its left half, its right half, whole."""
    cut: Literal["ellipsis", "crop"]
    """How rich shortens a text: its ellipsis is one character that not every terminal has."""
    dot: str


_UNICODE: Final = Symbols(
    {"success": "✓", "error": "✗", "cancelled": "⊘", "timeout": "⏱", "deferred": "⏸"},
    "◌", "▸", "├─ ", "└─ ", "│  ", (" ", "╸", "╺", "━"), "ellipsis", "·",
)  # fmt: skip
_ASCII: Final = Symbols(
    {"success": "+", "error": "x", "cancelled": "o", "timeout": "T", "deferred": "="},
    "?", ">", "|- ", "`- ", "|  ", (" ", "#", "#", "#"), "crop", "-",
)  # fmt: skip


class _Console(Console):
    """One that leaves a broken pipe to the command: rich would exit with the code that means that nothing was found."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """Standard output as a terminal or a pipe. Everything shown goes through `text`, never through markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.console = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.console.is_terminal:
            self.console.width = shutil.get_terminal_size((_PIPED_WIDTH, 25)).columns
        self.symbols = _UNICODE if _can_show(self.console.encoding, _UNICODE) else _ASCII
        _lose_nothing(sys.stderr if stderr else sys.stdout)

    def text(self, value: object, style: str = "", most: int = _LONGEST) -> Text:
        """Recorded text, harmless, in one style, at most so many characters of it."""
        shown = harmless(cut(str(value), most))
        encoding = self.console.encoding
        return Text(shown.encode(encoding, "backslashreplace").decode(encoding), style)

    def name(self, value: object, style: str = "", most: int = _LONGEST) -> Text:
        """A recorded name, as `text`; an empty one in words, because it is a name too."""
        return self.text(value, style, most) if value != "" else Text(_EMPTY, "italic")

    def line(self, *parts: Text | str, end: str = "\n") -> None:
        """Print `parts` after each other; a string is our own words, in the plain style."""
        self.console.print(Text.assemble(*parts), soft_wrap=True, end=end)

    def gap(self) -> None:
        """An empty line."""
        self.console.print()


def _can_show(encoding: str, symbols: Symbols) -> bool:
    signs = (*symbols.outcomes.values(), symbols.unfinished, symbols.started, symbols.branch, *symbols.bar)
    return encodable("".join(signs), encoding)


def _lose_nothing(stream: Any) -> None:
    """Have what the encoding lacks, as in the name of a directory, spelt out instead of ending the command."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def print_json(value: Any) -> None:
    """One JSON value on a line of its own; what the encoding of the output lacks is escaped as JSON has it."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:  # a name of a file that is no UTF-8
        encoded = json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"))
    plain = harmless_json(encoded) if encodable(encoded, sys.stdout.encoding) else ascii_json(encoded)
    sys.stdout.write(plain + "\n")


def fail(message: object, code: int = USAGE) -> NoReturn:
    """Say in one line what is wrong, and exit."""
    sys.stderr.write(f"actionspan: {harmless(message)}\n")
    raise typer.Exit(code)


def fail_nothing(message: str) -> NoReturn:
    """Say that there is nothing to show, and exit."""
    fail(message, NOTHING)

"""What every command shares: its arguments, and what it does with an error that is not its own."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from actionspan.cli._screen import INTERRUPTED, fail
from actionspan.recorder import Reader, RecorderError, read

__all__ = ["Directory", "JsonFlag", "command", "existing", "open_reader"]

P = ParamSpec("P")

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the record.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def command(function: Callable[P, None]) -> Callable[P, None]:
    """`function` with a wrong argument or an unreadable record as one line, and Ctrl-C as silence.

    So is a reader that goes away early: it has what it wanted.
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # What is still buffered would fail once more when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except (RecorderError, ValueError, TypeError, OSError) as error:
            fail(error)

    return guarded


def existing(directory: Path) -> Path:
    """`directory`; an exit that names it when there is none."""
    if not directory.exists():
        fail(f"there is no directory {directory}")
    return directory


def open_reader(directory: Path) -> Reader:
    """A reader of the record in `directory`."""
    return read(existing(directory))

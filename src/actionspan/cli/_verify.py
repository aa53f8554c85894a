"""`actionspan verify`: whether a record is whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import typer
from rich.text import Text

from actionspan.cli._command import Directory, JsonFlag, command, existing
from actionspan.cli._progress import by_segment
from actionspan.cli._screen import DAMAGED, Screen, fail_nothing, print_json
from actionspan.cli._text import many, number
from actionspan.recorder import VerifyReport, verify

__all__ = ["verify_command"]

_SHOWN: Final = 20
"""Of each list; `--json` has all."""


@command
def verify_command(directory: Directory, as_json: JsonFlag = False) -> None:
    """Read every line, and say what is missing, broken or altered. Exits with 3 when the record is damaged.

    What a crash leaves (a torn last line, actions that never ended) is reported, and is no damage. It cannot be
    seen whether the newest segment of a process was removed.

    [bold]Examples[/]

      actionspan verify record
      actionspan verify record --json | jq '.problems'
    """
    with by_segment("reading every line") as progress:
        report = verify(existing(directory), progress=progress)
    if as_json:
        print_json(asdict(report) | {"damaged": report.damaged})
    elif report.segments:
        _print(Screen(), report)
    if report.damaged:
        raise typer.Exit(DAMAGED)
    if not report.segments:
        fail_nothing(f"no segments in {directory}")


def _print(screen: Screen, report: VerifyReport) -> None:
    live = f", {report.live} being written" if report.live else ""
    screen.line(f"{many(report.segments, 'segment')}{live}, {many(report.events, 'event')}")
    for problem in report.problems[:_SHOWN]:
        screen.line(Text("damaged  ", "bold red"), screen.text(problem))
    _more(screen, len(report.problems))
    if report.unparseable:
        screen.line(Text("damaged  ", "bold red"), f"{many(report.unparseable, 'line')} that no event can be read from")
    for call in report.duplicates[:_SHOWN]:
        screen.line(Text("damaged  ", "bold red"), screen.text(f"{call} ended more than once"))
    _more(screen, len(report.duplicates))
    for words in _left_by_crashes(report):
        screen.line(Text("note     ", "yellow"), words)
    for start in report.unfinished[:_SHOWN]:
        screen.line(Text("         "), screen.text(_identified(start), "dim"))
    _more(screen, len(report.unfinished))
    screen.line(Text("damaged", "bold red") if report.damaged else Text("whole", "bold green"))


def _left_by_crashes(report: VerifyReport) -> Iterator[str]:
    if report.unclosed:
        segments = many(report.unclosed, "segment")
        yield f"{segments} never closed: the process was killed, or ended without its exit handlers (os._exit)"
    if report.torn:
        yield f"{many(report.torn, 'segment')} with a torn last line"
    if report.in_flight:
        yield f"{many(report.in_flight, 'action')} in flight"
    if report.without_outcome:
        yield f"{many(report.without_outcome, 'action')} without an outcome"
    if report.unfinished:
        yield f"{many(len(report.unfinished), 'action')} never ended:"


def _identified(start: Mapping[str, Any]) -> str:
    words = (start.get("kind", ""), start.get("name", ""), start.get("action_id") or start.get("span_id") or "")
    return "  ".join(str(word) for word in words if word)


def _more(screen: Screen, count: int) -> None:
    if count > _SHOWN:
        screen.line(Text(f"         and {number(count - _SHOWN)} more (--json)", "dim"))

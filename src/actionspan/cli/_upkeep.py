"""`actionspan compact` and `actionspan erase`: what changes a record on disk."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from actionspan.cli._command import Directory, JsonFlag, command, existing
from actionspan.cli._progress import by_segment
from actionspan.cli._screen import Screen, fail, fail_nothing, print_json
from actionspan.cli._text import many, number
from actionspan.cli._where import parse_where
from actionspan.recorder import compact, erase

__all__ = ["compact_command", "erase_command"]


@command
def compact_command(
    directory: Directory,
    level: Annotated[int, typer.Option(min=1, max=19, help="Effort: more is smaller and slower.")] = 3,
    as_json: JsonFlag = False,
) -> None:
    """Compress the closed segments of a record. Readers notice no difference; needs zstandard.

    [bold]Examples[/]

      actionspan compact record
      actionspan compact record --level 12
    """
    with by_segment("compressing") as progress:
        report = compact(existing(directory), level=level, progress=progress)
    if as_json:
        print_json(asdict(report))
        return
    if not report.segments:
        fail_nothing(f"nothing to compress in {directory}" + (f", {report.live} being written" if report.live else ""))
    share = report.bytes_after / report.bytes_before if report.bytes_before else 1
    Screen().line(
        f"{many(report.segments, 'segment')}: {number(report.bytes_before)} bytes are now "
        f"{number(report.bytes_after)} ({share:.0%})"
    )


@command
def erase_command(
    directory: Directory,
    where: Annotated[
        list[str],
        typer.Option(metavar="FIELD=VALUE", help="A field and its value, as for query. Repeatable: all must hold."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove events from a record for good, and leave a note of how many. What is being written is left alone.

    [bold]Examples[/]

      actionspan erase record --where conversation_id=4711
      actionspan erase record --where agent_id=support --where attributes.actionspan.tenant=acme --yes
    """
    conditions = parse_where(where)
    _confirm(f"Remove every event with {' and '.join(where)} from {existing(directory)} for good?", yes)
    with by_segment("erasing") as progress:
        report = erase(directory, conditions.filter, progress=progress)
    if as_json:
        print_json(asdict(report))
    else:
        screen = Screen()
        screen.line(f"{many(report.events, 'event')} removed, {many(report.segments, 'segment')} rewritten")
        if report.unreadable:
            screen.line(f"{many(report.unreadable, 'unreadable line')} of those segments went with them")
        for words, segments in (("being written, erase again later", report.live), ("unreadable lines", report.left)):
            for name in segments:
                screen.line(f"left alone ({words}): ", screen.text(name))
    if not report.events:
        raise typer.Exit(1)


def _confirm(question: str, yes: bool) -> None:
    """Go on only when somebody means it."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nobody can be asked here: say --yes to erase")
    Screen(stderr=True).line(question, " [y/N] ", end="")
    if input().strip().lower() not in ("y", "yes"):
        raise typer.Exit(1)

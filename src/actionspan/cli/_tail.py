"""`actionspan tail`: events as they happen."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Any, Final

import typer

from actionspan.cli._command import Directory, JsonFlag, command, existing
from actionspan.cli._events import print_event
from actionspan.cli._options import AgentOption, KindOption, WhereOption
from actionspan.cli._screen import Screen, print_json
from actionspan.cli._where import parse_where
from actionspan.recorder import follow

__all__ = ["tail"]

_POLL_SECONDS: Final = 0.25


@command
def tail(
    directory: Directory,
    kind: KindOption = None,
    agent_id: AgentOption = None,
    where: WhereOption = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Also what is already recorded.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Events as they happen, of every process that records to the directory, until Ctrl-C.

    [bold]Examples[/]

      actionspan tail record
      actionspan tail record --kind '*.error' --json
    """
    conditions = parse_where(where or ())

    def wanted(event: dict[str, Any]) -> bool:
        return (
            (kind is None or fnmatchcase(event["kind"], kind))
            and (agent_id is None or event.get("agent_id") == agent_id)
            and conditions.matches(event)
        )

    screen = None if as_json else Screen()
    events = follow(existing(directory), from_start=from_start, poll_seconds=_POLL_SECONDS)
    for event in islice(filter(wanted, events), limit):
        if screen is None:
            print_json(event)
        else:
            print_event(screen, event)
        sys.stdout.flush()

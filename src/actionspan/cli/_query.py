"""`actionspan query`: the events that satisfy every condition, in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Annotated, Any

import typer

from actionspan.cli._command import JsonFlag, command
from actionspan.cli._events import print_event
from actionspan.cli._options import (
    AgentOption,
    CallOption,
    Conditions,
    ConversationOption,
    KindOption,
    SinceOption,
    Source,
    UntilOption,
    WhereOption,
    conditions,
)
from actionspan.cli._progress import Watching, watching
from actionspan.cli._screen import Screen, fail_nothing, print_json
from actionspan.cli._sources import open_source
from actionspan.recorder import Reader

__all__ = ["query"]

_SOURCE_HELP = (
    "The directory of the record, or a backend: tempo://host:3200, jaeger://host:16686?service=NAME; encrypted "
    "tempo+https://, jaeger+https://."
)


@command
def query(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=_SOURCE_HELP, show_default=False)],
    kind: KindOption = None,
    agent_id: AgentOption = None,
    call_id: CallOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """The events that satisfy every condition, in time order. With --json one JSON object a line.

    [bold]Examples[/]

      actionspan query record --kind 'tool.*' --since 1h
      actionspan query record --where outcome=error --where name=lookup_order --json
      actionspan query record --where attributes.gen_ai.request.model=gpt-5 --where attempt=2
      actionspan query tempo://localhost:3200 --agent-id support --since 1h
    """
    wanted = conditions(
        where,
        kind=kind,
        agent_id=agent_id,
        call_id=call_id,
        conversation=conversation,
        since=since,
        until=until,
    )
    events = _matching(open_source(source), wanted)
    screen = None if as_json else Screen()
    found = 0
    for event in islice(events, limit):
        found += 1
        if screen is None:
            print_json(event)
        else:
            print_event(screen, event)
    if not found:
        fail_nothing(f"nothing in {source} satisfies that")


def _matching(source: Source, wanted: Conditions) -> Iterator[Mapping[str, Any]]:
    """The events of `source`, with a bar while none has been found yet."""
    with watching(source) if isinstance(source, Reader) else nullcontext(None) as watch:
        found = wanted.events(source) if watch is None else wanted.events(source, watch)
        first = next(found, None)
        if isinstance(watch, Watching):
            watch.stop()
        if first is not None:
            yield first
            yield from found

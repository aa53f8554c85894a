"""`actionspan query`: the events that satisfy every condition, in time order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Annotated, Any

import typer

from actionspan.cli._command import JsonFlag, command
from actionspan.cli._events import print_event
from actionspan.cli._progress import Watching, watching
from actionspan.cli._screen import Screen, fail_nothing, print_json
from actionspan.cli._sources import Source, open_source
from actionspan.cli._where import Where, moment, parse_where
from actionspan.recorder import Reader

__all__ = ["AgentOption", "CallOption", "KindOption", "WhereOption", "query"]

KindOption = Annotated[
    str | None, typer.Option(metavar="PATTERN", help="Kind of event: tool.execute.error, 'tool.*', '*.error'.")
]
AgentOption = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the agent.")]
CallOption = Annotated[str | None, typer.Option(metavar="ID", help="Id of an action, or a call id of your own.")]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=VALUE", help="A field and its value; fields within fields by dots. Repeatable."),
]
_SOURCE_HELP = (
    "The directory of the record, or a backend: tempo://host:3200, jaeger://host:16686?service=NAME; encrypted "
    "tempo+https://, jaeger+https://."
)
_TIME_HELP = "30s, 15m, 2h or 7d ago, epoch seconds, or ISO 8601 with an offset"


@command
def query(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=_SOURCE_HELP, show_default=False)],
    kind: KindOption = None,
    agent_id: AgentOption = None,
    call_id: CallOption = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"From then on: {_TIME_HELP}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before then; the same forms.")] = None,
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
    conditions = parse_where(where or ())
    events = _matching(
        open_source(source),
        conditions,
        kind=kind,
        agent_id=agent_id,
        call_id=call_id,
        since=moment("since", since),
        until=moment("until", until),
        extra_filter=conditions.texts or None,
    )
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


def _matching(source: Source, where: Where, **filters: Any) -> Iterator[Mapping[str, Any]]:
    """The events of `source`, with a bar while none has been found yet."""
    events = source.query(**filters)
    with watching(source) if isinstance(source, Reader) else nullcontext(None) as watch:
        found = (event for event in (events if watch is None else watch(events)) if where.matches_either(event))
        first = next(found, None)
        if isinstance(watch, Watching):
            watch.stop()
        if first is not None:
            yield first
            yield from found

"""The conditions on events that several commands take, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import typer

from actionspan.cli._where import Where, moment, parse_where
from actionspan.recorder import EventFilter, Moment

__all__ = [
    "AgentOption",
    "CallOption",
    "Conditions",
    "ConversationOption",
    "KindOption",
    "SinceOption",
    "Source",
    "UntilOption",
    "Watch",
    "WhereOption",
    "conditions",
]

KindOption = Annotated[
    str | None, typer.Option(metavar="PATTERN", help="Kind of event: tool.execute.error, 'tool.*', '*.error'.")
]
AgentOption = Annotated[str | None, typer.Option(metavar="NAME", help="Name of the agent.")]
CallOption = Annotated[str | None, typer.Option(metavar="ID", help="Id of an action, or a call id of your own.")]
ConversationOption = Annotated[str | None, typer.Option(metavar="ID", help="Id of the conversation.")]
_TIME_HELP: Final = "30s, 15m, 2h or 7d ago, epoch seconds, or ISO 8601 with an offset"
SinceOption = Annotated[str | None, typer.Option(metavar="TIME", help=f"From then on: {_TIME_HELP}.")]
UntilOption = Annotated[str | None, typer.Option(metavar="TIME", help="Before then; the same forms.")]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD=VALUE", help="A field and its value; fields within fields by dots. Repeatable."),
]


Watch = Callable[[Iterable[dict[str, Any]]], Iterator[dict[str, Any]]]
"""Passes events on and shows that there is progress."""


class Source(Protocol):
    """The reading half of a `Recorder`."""

    def query(
        self,
        *,
        kind: str | None = None,
        agent_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        call_id: str | None = None,
        extra_filter: EventFilter | None = None,
    ) -> Iterator[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Conditions:
    """What an event must satisfy; all of it."""

    where: Where = field(default_factory=Where)
    filters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those that a query has arguments for."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.filters or self.where.texts or self.where.either)

    def events(self, source: Source, watch: Watch = iter, **others: Any) -> Iterator[dict[str, Any]]:
        """The events of `source` that satisfy them; `watch` sees those that had to be looked at.

        `others` are arguments that this source's query has beyond those of the contract.
        """
        found = watch(source.query(**self.filters, **others, extra_filter=self.where.texts or None))
        return filter(self.where.matches_either, found) if self.where.either else found


def conditions(
    where: Sequence[str] | None = None,
    *,
    kind: str | None = None,
    agent_id: str | None = None,
    call_id: str | None = None,
    conversation: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Conditions:
    """The options of a command as conditions. `ValueError` names one that is wrong."""
    parsed = parse_where(where or ())
    if conversation is not None:
        if "conversation_id" in parsed.texts or "conversation_id" in parsed.either:
            raise ValueError("--conversation and --where conversation_id= are the same: give one of them")
        parsed.texts["conversation_id"] = conversation
    filters = {
        "kind": kind,
        "agent_id": agent_id,
        "call_id": call_id,
        "since": moment("since", since),
        "until": moment("until", until),
    }
    return Conditions(parsed, {name: value for name, value in filters.items() if value is not None})

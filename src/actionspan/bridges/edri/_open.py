"""The actions of a stream that are not complete yet: paired by id and attempt, in any order, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar
from uuid import UUID

from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from actionspan.content import ActionContent

__all__ = ["Half", "OpenActions", "bounded_put", "span_context"]

K = TypeVar("K")
V = TypeVar("V")
Key = tuple[UUID, int]

_LOW_64: Final = 2**64 - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
"""Multiples of it differ in many bits, so that an id made of another is nobody else's."""
MAX_REMEMBERED: Final = 32_768
"""Actions remembered as exported, by which a duplicate is known."""


@dataclass(slots=True, eq=False)
class Half:
    """An action of which the start or the terminal has been seen, or by now both."""

    context: SpanContext
    parent: SpanContext | None
    name: str
    kind: SpanKind
    content: ActionContent
    since: float
    """When it was first heard of, by the bridge's clock."""
    attributes: dict[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    started_ns: int | None = None
    ended_ns: int | None = None
    duration: float | None = None
    failed: bool = False
    error: str | None = None

    @property
    def start_ns(self) -> int:
        """When it started: as its start says, else as follows from its end."""
        if self.started_ns is not None:
            return self.started_ns
        return (self.ended_ns or 0) - self._duration_ns

    @property
    def end_ns(self) -> int:
        """Its start and its duration, which the monotonic clock measured; else the time of its terminal."""
        if self.duration is not None:
            return self.start_ns + self._duration_ns
        return max(self.start_ns, self.ended_ns or 0)

    @property
    def _duration_ns(self) -> int:
        return max(0, round((self.duration or 0.0) * 1e9))

    @property
    def status(self) -> Status:
        return Status(StatusCode.ERROR, self.error or None) if self.failed else Status(StatusCode.UNSET)

    @property
    def complete(self) -> bool:
        return self.started_ns is not None and self.ended_ns is not None


def span_context(trace: UUID, span: int) -> SpanContext | None:
    """A sampled context; None when the ids are none."""
    context = SpanContext(trace.int, span & _LOW_64, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return context if context.is_valid else None


class OpenActions:
    """Halves that wait for their other one. Not for several threads at once."""

    def __init__(self, most: int, longest: float, grace: float) -> None:
        self._most = most
        self._longest = longest
        self._grace = grace
        self.started: OrderedDict[Key, Half] = OrderedDict()
        self.ended: OrderedDict[Key, Half] = OrderedDict()
        """Terminals that arrived before their starts."""
        self._exported: OrderedDict[Key, bool] = OrderedDict()
        """Whether what was exported of it had its terminal."""
        self._first: OrderedDict[UUID, int] = OrderedDict()

    def span_id(self, action_id: UUID, attempt: int) -> int:
        """The low half of the action's id; one made from it for further attempts under the same id."""
        first = self._first.get(action_id)
        if first is None:
            first = bounded_put(self._first, action_id, attempt)
        return action_id.int if attempt == first else action_id.int ^ (attempt * _SPREAD)

    def is_duplicate(self, key: Key, *, start: bool) -> bool:
        """Whether this half was seen already, or comes too late to matter."""
        exported = self._exported.get(key)
        if exported is not None:
            return start or exported
        return key in (self.started if start else self.ended)

    def settle(self, key: Key, half: Half, *, start: bool) -> Half | None:
        """Keep `half`, to which its start or its terminal has just been added; returned when nothing is missing."""
        late = self._exported.get(key) is False
        if half.complete or late:
            self.started.pop(key, None)
            self.ended.pop(key, None)
            self._remember(key, True)
            return half
        (self.started if start else self.ended)[key] = half
        return None

    def overdue(self, now: float) -> Iterator[tuple[Half, bool]]:
        """Halves that are one too many or have waited too long, and whether they have their terminal."""
        while self.ended and self._exceeds(self.ended, now, self._grace):
            yield self._given_up(self.ended, True), True
        while self.started and self._exceeds(self.started, now, self._longest):
            yield self._given_up(self.started, False), False

    def terminals(self) -> Iterator[tuple[Half, bool]]:
        """The terminals that wait for their starts, given up."""
        while self.ended:
            yield self._given_up(self.ended, True), True

    def all(self) -> Iterator[tuple[Half, bool]]:
        """Everything that waits, given up."""
        yield from self.terminals()
        while self.started:
            yield self._given_up(self.started, False), False

    def _exceeds(self, halves: OrderedDict[Key, Half], now: float, longest: float) -> bool:
        oldest = next(iter(halves.values()))
        return len(halves) > self._most or now - oldest.since >= longest

    def _given_up(self, halves: OrderedDict[Key, Half], ended: bool) -> Half:
        key, half = halves.popitem(last=False)
        self._remember(key, ended)
        return half

    def _remember(self, key: Key, ended: bool) -> None:
        bounded_put(self._exported, key, ended)


def bounded_put(table: OrderedDict[K, V], key: K, value: V) -> V:
    """Put `value` into `table`, which forgets its oldest entries; returns it."""
    table[key] = value
    table.move_to_end(key)
    while len(table) > MAX_REMEMBERED:
        table.popitem(last=False)
    return value

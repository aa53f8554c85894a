"""What every recorder does: write events, and where it can, read them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["Event", "EventFilter", "Moment", "Recorder"]

Event: TypeAlias = Mapping[str, Any]
"""One record: a mapping with at least `kind`. The fields are listed in docs/recorder.md."""

Moment: TypeAlias = float | datetime | str
"""A point in time: epoch seconds, an aware `datetime`, or ISO 8601 text with an offset."""

EventFilter: TypeAlias = Mapping[str, Any] | Callable[[dict[str, Any]], Any]
"""Dotted fields and the values they must equal, or a predicate of an event."""


@runtime_checkable
class Recorder(Protocol):
    """Where the record of actions goes. Methods may be called from any thread."""

    def emit(self, event: Event) -> None:
        """Write one event.

        `timestamp` (epoch seconds) and `time_unix_nano` are filled from each other, or from now. `ValueError`: no
        `kind`. `TypeError`: no mapping. `RecorderClosed`: after `close()`. A full disk is never the caller's problem:
        it is counted.
        """
        ...

    def flush(self) -> None:
        """Return when everything emitted is with the operating system or the backend."""
        ...

    def close(self) -> None:
        """Flush and release; a second call does nothing."""
        ...

    def query(
        self,
        *,
        kind: str | None = None,
        agent_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        call_id: str | None = None,
        extra_filter: EventFilter | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Iterate the events that satisfy all filters given, in time order.

        `kind` is exact or a shell pattern (`tool.*`); `since` is inclusive, `until` exclusive, both on `timestamp`;
        a naive time is a `ValueError`. A predicate that raises stops the iteration with its exception.
        """
        ...

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Iterate all events in time order, from the first event of `from_call_id` on; `UnknownCallId` when none."""
        ...

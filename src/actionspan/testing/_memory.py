"""A recorder that keeps events in a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actionspan.recorder import Event, EventFilter, Moment, QueryNotSupported

__all__ = ["MemoryRecorder"]


class MemoryRecorder:
    """Keeps every event it is given, as it was given."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: Event) -> None:
        """Keep `event`."""
        self.events.append(dict(event))

    def flush(self) -> None:
        """Nothing is pending."""

    def close(self) -> None:
        """Nothing is held."""

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
        """Not here: a test looks at `events`. Raises `QueryNotSupported`."""
        raise QueryNotSupported("MemoryRecorder keeps a list, `events`; use JsonlRecorder to query")

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Not here, either. Raises `QueryNotSupported`."""
        raise QueryNotSupported("MemoryRecorder keeps a list, `events`; use JsonlRecorder to replay")

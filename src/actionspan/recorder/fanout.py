"""A recorder that writes to several others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from actionspan import guard
from actionspan.recorder._line import moment_of
from actionspan.recorder.contract import Event, EventFilter, Moment, Recorder
from actionspan.recorder.errors import QueryNotSupported, RecorderClosed

__all__ = ["FanOutRecorder"]


class FanOutRecorder:
    """Gives every event to each of `members`; one that fails is contained and does not stop the others.

    It owns them: `close()` closes all. `query` and `replay` go to the first member that can read back.
    """

    def __init__(self, members: Sequence[Recorder]) -> None:
        self._members = tuple(members)
        if not self._members:
            raise ValueError("FanOutRecorder needs at least one recorder")
        self._closed = False

    def emit(self, event: Event) -> None:
        """Write one event to all members, with the same time; see `Recorder.emit`."""
        if self._closed:
            raise RecorderClosed("this FanOutRecorder is closed")
        moment = moment_of(event)
        timed = {**event, "time_unix_nano": moment}
        for member in self._members:
            guard.call("recorder", lambda member=member: member.emit(timed))

    def flush(self) -> None:
        """Flush all members."""
        for member in self._members:
            guard.call("recorder", member.flush)

    def close(self) -> None:
        """Close all members; a second call does nothing."""
        if not self._closed:
            self._closed = True
            for member in self._members:
                guard.call("recorder", member.close)

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
        """The answer of the first member that reads back; `QueryNotSupported` when none does."""
        for member in self._members:
            try:
                return member.query(
                    kind=kind, agent_id=agent_id, since=since, until=until, call_id=call_id, extra_filter=extra_filter
                )
            except QueryNotSupported:
                continue
        raise QueryNotSupported("none of the recorders reads back: add a JsonlRecorder")

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """The answer of the first member that reads back; `QueryNotSupported` when none does."""
        for member in self._members:
            try:
                return member.replay(from_call_id)
            except QueryNotSupported:
                continue
        raise QueryNotSupported("none of the recorders reads back: add a JsonlRecorder")

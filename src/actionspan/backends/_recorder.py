"""What the recorders of all backends do alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from actionspan.backends._report import BackendReport
from actionspan.backends._wanted import Wanted, wanted_of
from actionspan.backends._windows import TraceStore, Window, events_in_order, pages
from actionspan.backends._writing import SpanWriter
from actionspan.recorder._select import Selection, select
from actionspan.recorder.contract import Event, EventFilter, Moment
from actionspan.recorder.errors import RecorderClosed, UnknownCallId

__all__ = ["LONGEST_ACTION", "LOOKBACK", "BackendRecorder"]

LOOKBACK: Final = 14 * 86_400.0
"""Seconds; how long Tempo keeps traces unless it is told otherwise."""
LONGEST_ACTION: Final = 3_600.0
"""Seconds."""
_NANOSECONDS: Final = 10**9


class BackendRecorder:
    """A `Recorder` that writes spans and reads terminal events back.

    `lookback_seconds`: where a query without `since`, and a replay, begin. `longest_action_seconds`: backends search by
    when a span began and the contract by when it ended, so a search begins that much earlier; an action that lasted
    longer may be missed at the beginning of a query. `report` says what was incomplete.
    """

    def __init__(
        self,
        store: TraceStore,
        writer: SpanWriter,
        report: BackendReport,
        lookback_seconds: float,
        longest_action_seconds: float,
    ) -> None:
        for name, value in (
            ("lookback_seconds", lookback_seconds),
            ("longest_action_seconds", longest_action_seconds),
        ):
            if not value > 0:
                raise ValueError(f"{name} must be positive, not {value!r}")
        self.report = report
        self._store = store
        self._writer = writer
        self._lookback = lookback_seconds
        self._longest_action = longest_action_seconds
        self._closed = False

    def emit(self, event: Event) -> None:
        """Send the span that ended with `event`; see `Recorder.emit`.

        A tracing backend holds ended spans: the event of a start is passed over, any other event is counted in
        `report.not_kept`.
        """
        if self._closed:
            raise RecorderClosed(f"this {type(self).__name__} is closed")
        self._writer.emit(event)

    def flush(self) -> None:
        """Return when everything emitted was delivered or given up (`report.undelivered`).

        A backend shows what it was given after a delay of its own.
        """
        self._writer.flush()

    def close(self) -> None:
        """Flush, and refuse further events; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._store.close()

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
        """Iterate matching terminal events in time order; see `Recorder.query`. `BackendError`: no usable answer."""
        selection = select(
            kind=kind, agent_id=agent_id, since=since, until=until, call_id=call_id, extra_filter=extra_filter
        )
        wanted = wanted_of(kind=kind, agent_id=agent_id, call_id=call_id, extra_filter=extra_filter)
        return self._run(selection, wanted)

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Iterate all terminal events in time order, from that of `from_call_id` on; `UnknownCallId` when none."""
        if from_call_id is None:
            return self._run(Selection(), Wanted())
        first = next(self.query(call_id=from_call_id), None)
        if first is None:
            raise UnknownCallId(
                f"no event of call {from_call_id!r} at {self.report.url} in the last {self._lookback:.0f} seconds"
            )
        return self._from_call(from_call_id, first["time_unix_nano"])

    def _from_call(self, call_id: str, moment: int) -> Iterator[dict[str, Any]]:
        events = self._run(Selection.starting(moment), Wanted())
        for event in events:
            if call_id in (event.get("call_id"), event.get("action_id")):
                yield event
                break
        yield from events

    def _run(self, selection: Selection, wanted: Wanted) -> Iterator[dict[str, Any]]:
        window = self._window(selection)
        if wanted.nothing or window.end <= window.start:
            return
        self.report.searched_from = window.start / _NANOSECONDS
        answers = pages(self._store, wanted, window, self.report)
        predicate = selection.predicate
        for event in events_in_order(answers, selection.matches, self.report):
            if predicate is None or predicate(event):
                yield event

    def _window(self, selection: Selection) -> Window:
        """The time to search, generously: the selection decides to the nanosecond."""
        step = self._store.step
        now = time.time_ns()
        # What clocks disagree about is in it too: a span may have begun in what is the future here.
        end = now + 60 * _NANOSECONDS if selection.until is None else round(selection.until * _NANOSECONDS) + step
        if selection.from_nano is not None:
            start = selection.from_nano
        elif selection.since is not None:
            start = round(selection.since * _NANOSECONDS)
        else:
            start = now - round(self._lookback * _NANOSECONDS)
        start -= round(self._longest_action * _NANOSECONDS) + step
        return Window(max(start, _NANOSECONDS), min(end, now + 60 * _NANOSECONDS) + step)

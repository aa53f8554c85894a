"""Reading a span of time in pieces that a backend can answer whole, and giving what is found in time order.

A backend has no pages and no order, only a limit. A window whose answer reaches it is asked for again in halves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from actionspan.backends._report import BackendReport
from actionspan.backends._wanted import Wanted

__all__ = ["FoundTrace", "Page", "TraceStore", "Window", "events_in_order", "pages"]

_NANOSECONDS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, in nanoseconds since the epoch; the end is not in it."""

    start: int
    end: int

    def __str__(self) -> str:
        ends = (datetime.fromtimestamp(moment / _NANOSECONDS, UTC) for moment in (self.start, self.end))
        return " to ".join(moment.isoformat() for moment in ends)


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """A trace with something wanted in it."""

    trace_id: str
    events: Callable[[], Iterable[dict[str, Any]]]
    """Its terminal events, which may take a request."""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer for one window."""

    traces: Sequence[FoundTrace] = ()
    overflow: str | None = None
    """Why there may be more; None: this is all."""


class TraceStore(Protocol):
    """A backend that can be searched by time."""

    @property
    def step(self) -> int:
        """The resolution of its times in nanoseconds: no window is shorter."""
        ...

    @property
    def longest_window(self) -> int:
        """Nanoseconds."""
        ...

    def search(self, wanted: Wanted, window: Window) -> Page:
        """The traces that have a span in `window` which is as `wanted`."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


def pages(store: TraceStore, wanted: Wanted, whole: Window, report: BackendReport) -> Iterator[tuple[Window, Page]]:
    """The answers for `whole`, in time order, in windows as long as the store answers completely."""
    step = store.step
    whole = Window(whole.start // step * step, -(-whole.end // step) * step)
    for start in range(whole.start, whole.end, store.longest_window):
        waiting = [Window(start, min(start + store.longest_window, whole.end))]
        while waiting:
            window = waiting.pop()
            page = store.search(wanted, window)
            middle = (window.start + window.end) // 2 // step * step
            if page.overflow is not None and middle > window.start:
                waiting += [Window(middle, window.end), Window(window.start, middle)]
                continue
            if page.overflow is not None:
                report.miss(f"{page.overflow}, {window}")
            yield window, page


def events_in_order(
    answers: Iterable[tuple[Window, Page]], matches: Callable[[dict[str, Any]], bool], report: BackendReport
) -> Iterator[dict[str, Any]]:
    """The events that match, by the time of their end.

    A span that ends before a window does has begun before it too, so what is earlier than the end of the window just
    read is complete and is given away. Only what lasts longer waits.
    """
    waiting: list[tuple[int, str, str, dict[str, Any]]] = []
    read: dict[str, int] = {}
    """Traces read, and when the last of each ended; forgotten when that has passed."""
    passed = 0
    for window, page in answers:
        for trace in page.traces:
            if trace.trace_id in read:
                continue
            report.traces += 1
            read[trace.trace_id] = 0
            for event in _once_each(trace.events()):
                moment = event["time_unix_nano"]
                read[trace.trace_id] = max(read[trace.trace_id], moment)
                if moment >= passed and matches(event):
                    heapq.heappush(waiting, (moment, event["trace_id"], event["span_id"], event))
        passed = window.end
        while waiting and waiting[0][0] < passed:
            yield heapq.heappop(waiting)[-1]
        read = {trace_id: last for trace_id, last in read.items() if last >= passed}
    while waiting:
        yield heapq.heappop(waiting)[-1]


def _once_each(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Without the repetitions of a span that was sent more than once."""
    seen: set[str] = set()
    for event in events:
        if event["span_id"] not in seen:
            seen.add(event["span_id"])
            yield event

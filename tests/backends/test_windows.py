"""Windows, halves and order, by themselves: whatever is in a backend comes out once and in order."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actionspan.backends._report import BackendReport
from actionspan.backends._wanted import Wanted
from actionspan.backends._windows import FoundTrace, Page, Window, events_in_order, pages

Spans = list[tuple[int, int]]
"""When each span of a trace began and ended."""


class Store:
    """Gives the traces that have a span which began in the window, as many as it wants to."""

    step = 5
    longest_window = 400

    def __init__(self, traces: list[Spans], limit: int) -> None:
        self.traces = traces
        self.limit = limit
        self.searched: list[Window] = []

    def search(self, wanted: Wanted, window: Window) -> Page:
        self.searched.append(window)
        found = [
            FoundTrace(f"{number:032x}", partial(self.events, number))
            for number, spans in reversed(list(enumerate(self.traces)))
            if any(window.start <= began < window.end for began, _ in spans)
        ]
        return Page(found[: self.limit], "full" if len(found) >= self.limit else None)

    def events(self, number: int) -> list[dict[str, Any]]:
        return [
            {"trace_id": f"{number:032x}", "span_id": f"{index:016x}", "time_unix_nano": ended}
            for index, (_, ended) in enumerate(self.traces[number])
        ]

    def close(self) -> None:
        pass


spans = st.tuples(st.integers(0, 999), st.integers(0, 300)).map(lambda span: (span[0], span[0] + span[1]))
traces = st.lists(st.lists(spans, min_size=1, max_size=5), max_size=12)


def read(store: Store) -> tuple[list[tuple[int, str, str]], BackendReport]:
    report = BackendReport("it")
    answers = pages(store, Wanted(), Window(3, 1003), report)
    events = events_in_order(answers, lambda event: True, report)
    return [(event["time_unix_nano"], event["trace_id"], event["span_id"]) for event in events], report


@settings(deadline=None)
@given(traces, st.integers(1, 15))
def test_once_each_in_order_and_nothing_missing_unless_it_is_said(stored: list[Spans], limit: int):
    store = Store(stored, limit)
    found, report = read(store)
    everything = sorted(
        (ended, f"{number:032x}", f"{index:016x}")
        for number, spans in enumerate(stored)
        for index, (_, ended) in enumerate(spans)
    )
    assert found == sorted(set(found))
    assert set(found) <= set(everything)
    if not report.incomplete:
        assert found == everything


@settings(deadline=None)
@given(traces)
def test_all_of_it_where_no_answer_is_full(stored: list[Spans]):
    found, report = read(Store(stored, 13))
    assert report.incomplete == []
    assert len(found) == sum(len(spans) for spans in stored)


@settings(deadline=None)
@given(traces, st.integers(1, 15))
def test_windows_are_in_order_whole_and_as_long_as_permitted(stored: list[Spans], limit: int):
    store = Store(stored, limit)
    answered = [window for window, _ in pages(store, Wanted(), Window(3, 1003), BackendReport("it"))]
    assert (answered[0].start, answered[-1].end) == (0, 1005)
    for this, following in itertools.pairwise(answered):
        assert this.end == following.start
    assert all(store.step <= window.end - window.start <= store.longest_window for window in store.searched)

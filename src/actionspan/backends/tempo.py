"""Reading back from Grafana Tempo."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from actionspan.backends._http import Answer, QueryClient, base_url
from actionspan.backends._recorder import LONGEST_ACTION, LOOKBACK, BackendRecorder
from actionspan.backends._report import BackendReport
from actionspan.backends._spans import events_of
from actionspan.backends._traceql import traceql_of
from actionspan.backends._wanted import Wanted
from actionspan.backends._windows import FoundTrace, Page, Window
from actionspan.backends._writing import SpanWriter
from actionspan.backends.errors import AnswerTooLarge

__all__ = ["TempoRecorder"]

_SECOND: Final = 10**9
_WEEK: Final = 7 * 86_400 * _SECOND
"""The longest range that Tempo searches unless it is told otherwise (`query_frontend.search.max_duration`, 168h)."""
_RANGE_TOO_LONG: Final = b"range specified by start and end exceeds"
_HIDDEN: Final = (b"start must be before end", b"query_end_cutoff")
"""How Tempo refuses a window that is all in the time it hides: it moves the end to before the start."""
_LIMIT: Final = re.compile(rb"limit \d+ exceeds max limit (\d+)")
_PARTIAL: Final = ("PARTIAL", 1)


class TempoRecorder(BackendRecorder):
    """Queries and replays the actions in the Tempo at `url` (its HTTP port, 3200 by default).

    `headers` go with every query (default: `ACTIONSPAN_QUERY_HEADERS`), `otlp_headers` with what is emitted to
    `otlp_endpoint` (default for both: OpenTelemetry's own variables): the token to write is rarely the one to read.
    `page_traces`: most traces of one search. Times as in `BackendRecorder`. Tempo shows a span some seconds after it
    was sent, and by default not before it is 30 seconds old; see docs/backends.md. `ValueError` names an argument that
    is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        otlp_endpoint: str | None = None,
        otlp_headers: Mapping[str, str] | None = None,
        lookback_seconds: float = LOOKBACK,
        longest_action_seconds: float = LONGEST_ACTION,
        page_traces: int = 500,
    ) -> None:
        if page_traces < 1:
            raise ValueError(f"page_traces must be at least 1, not {page_traces!r}")
        url = base_url(url, "http://localhost:3200")
        report = BackendReport(url)
        client = QueryClient(url, headers, timeout_seconds, report)
        super().__init__(
            _TempoStore(client, report, page_traces),
            SpanWriter(otlp_endpoint, otlp_headers, report),
            report,
            lookback_seconds,
            longest_action_seconds,
        )


class _TempoStore:
    """Searches with TraceQL for the ids of traces, then reads each trace."""

    step = _SECOND
    longest_window = _WEEK

    def __init__(self, client: QueryClient, report: BackendReport, limit: int) -> None:
        self._client = client
        self._report = report
        self._limit = limit

    def search(self, wanted: Wanted, window: Window) -> Page:
        # `start` and `end` always: without them Tempo searches about the last quarter of an hour.
        parameters: dict[str, str | int] = {
            "q": traceql_of(wanted),
            "start": window.start // _SECOND,
            "end": window.end // _SECOND,
            "limit": self._limit,
            "spss": 1,
        }
        answer = self._client.get("/api/search", parameters)
        if answer.status == 400:
            return self._refused(answer, wanted, window)
        if answer.status != 200:
            raise answer.refused()
        found = answer.json()
        try:
            ids = [str(trace["traceID"]).rjust(32, "0") for trace in found.get("traces") or ()]
            done, jobs = _jobs(found.get("metrics") or {})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise answer.unknown() from None
        if len(ids) >= self._limit:
            return Page(self._found(ids), f"one answer has no more than {self._limit} traces")
        if done < jobs:  # Tempo answers with what it has when some of the work failed
            self._report.miss(f"only {done} of {jobs} parts were searched, {window}")
        return Page(self._found(ids))

    def close(self) -> None:
        self._client.close()

    def _refused(self, answer: Answer, wanted: Wanted, window: Window) -> Page:
        """What to do about a refusal: ask for less, know that it is hidden, or raise."""
        if _RANGE_TOO_LONG in answer.body and window.end - window.start > _SECOND:
            return Page(overflow="the range that may be searched is too short")
        if any(words in answer.body for words in _HIDDEN):
            self._report.miss(f"the newest spans are hidden (query_end_cutoff), {window}")
            return Page()
        limit = _LIMIT.search(answer.body)
        if limit is not None and 0 < int(limit[1]) < self._limit:
            self._limit = int(limit[1])
            return self.search(wanted, window)
        raise answer.refused()

    def _found(self, ids: list[str]) -> list[FoundTrace]:
        return [FoundTrace(trace_id, partial(self._trace, trace_id)) for trace_id in ids]

    def _trace(self, trace_id: str) -> Iterator[dict[str, Any]]:
        try:
            answer = self._client.get(f"/api/v2/traces/{trace_id}")
            if answer.status == 404:
                answer = self._client.get(f"/api/traces/{trace_id}")
        except AnswerTooLarge as error:
            self._report.miss(str(error))
            return
        if answer.status not in (200, 404):
            raise answer.refused()
        found = answer.json() if answer.status == 200 else {}
        if "batches" in found:  # Tempo before its version 2.6, which has no other form
            found = {"trace": {"resourceSpans": found["batches"]}}
        trace: Any = found.get("trace") or {}
        if not isinstance(trace, dict):
            raise answer.unknown()
        if not trace:  # an unknown trace is an empty one
            self._report.miss(f"trace {trace_id} is found by search and cannot be read")
        if found.get("status") in _PARTIAL:
            self._report.miss(f"trace {trace_id} is cut off: {found.get('message') or 'it is too large'}")
        for _, event in events_of(cast("dict[str, Any]", trace), self._report):
            yield event


def _jobs(metrics: Mapping[str, Any]) -> tuple[int, int]:
    """How many parts of the work were done, and how many there were."""
    return int(metrics.get("completedJobs") or 0), int(metrics.get("totalJobs") or 0)

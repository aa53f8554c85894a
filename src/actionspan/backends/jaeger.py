"""Reading back from Jaeger, by the third version of its API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.backends._http import Answer, QueryClient, base_url, excerpt
from actionspan.backends._recorder import LONGEST_ACTION, LOOKBACK, BackendRecorder
from actionspan.backends._report import BackendReport
from actionspan.backends._spans import events_of, objects
from actionspan.backends._wanted import Wanted
from actionspan.backends._windows import FoundTrace, Page, Window
from actionspan.backends._writing import SpanWriter
from actionspan.backends.errors import AnswerTooLarge, BackendError
from actionspan.telemetry import names

__all__ = ["JaegerRecorder"]

_MILLISECOND: Final = 10**6
_WEEK: Final = 7 * 86_400 * 10**9
_SPELLINGS: Final[tuple[Mapping[str, tuple[str, ...]], ...]] = (
    {
        "service": ("query.serviceName",),
        "start": ("query.startTimeMin",),
        "end": ("query.startTimeMax",),
        "limit": ("query.searchDepth",),
        "attributes": ("query.attributes",),
        "raw": ("query.rawTraces",),
    },
    {
        "service": ("query.service_name",),
        "start": ("query.start_time_min",),
        "end": ("query.start_time_max",),
        "limit": ("query.search_depth", "query.num_traces"),
        "attributes": ("query.attributes",),
        "raw": ("query.raw_traces",),
    },
)
"""How the parameters are spelt: today, and before the middle of 2026 (where `attributes` are ignored)."""


class JaegerRecorder(BackendRecorder):
    """Queries and replays the actions of one service in the Jaeger at `url` (its query port, 16686 by default).

    `service` is the `service.name` of the instrumented application: Jaeger searches within one. `page_traces`: most
    traces of one search (Jaeger's `searchDepth`), each of which comes whole. The other arguments are those of
    `TempoRecorder`. `ValueError` names an argument that is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        service: str,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
        otlp_endpoint: str | None = None,
        otlp_headers: Mapping[str, str] | None = None,
        lookback_seconds: float = LOOKBACK,
        longest_action_seconds: float = LONGEST_ACTION,
        page_traces: int = 100,
    ) -> None:
        if not service:
            raise ValueError("service must name one service: Jaeger searches within a service")
        if page_traces < 1:
            raise ValueError(f"page_traces must be at least 1, not {page_traces!r}")
        url = base_url(url, "http://localhost:16686")
        report = BackendReport(url)
        client = QueryClient(url, headers, timeout_seconds, report)
        super().__init__(
            _JaegerStore(client, report, service, page_traces),
            SpanWriter(otlp_endpoint, otlp_headers, report),
            report,
            lookback_seconds,
            longest_action_seconds,
        )


class _JaegerStore:
    """Searches by service, time and attributes; the answer has the traces in it."""

    step = _MILLISECOND
    longest_window = _WEEK

    def __init__(self, client: QueryClient, report: BackendReport, service: str, limit: int) -> None:
        self._client = client
        self._report = report
        self._service = service
        self._limit = limit
        self._spelling: Mapping[str, tuple[str, ...]] | None = None
        """Known after the first answer."""

    def search(self, wanted: Wanted, window: Window) -> Page:
        parameters: dict[str, str | int] = {
            "service": self._service,
            "start": _rfc3339(window.start),
            "end": _rfc3339(window.end),
            "limit": self._limit,
            # As they were sent: Jaeger shifts spans of one host against those of another unless told not to.
            "raw": "true",
        }
        attributes = _attributes(wanted)
        if attributes:
            parameters["attributes"] = msgspec.json.encode(attributes).decode()
        try:
            answer = self._ask(parameters)
        except AnswerTooLarge as error:
            return Page(overflow=str(error))
        found = _traces(answer, self._report)
        count = len(found)
        traces = [FoundTrace(trace_id, partial(self._events, parts)) for trace_id, parts in found.items()]
        return Page(traces, f"one answer has no more than {self._limit} traces" if count >= self._limit else None)

    def close(self) -> None:
        self._client.close()

    def _ask(self, parameters: Mapping[str, str | int]) -> Answer:
        """The answer to the spelling that this Jaeger understands."""
        refused: Answer | None = None
        for spelling in _SPELLINGS if self._spelling is None else (self._spelling,):
            spelt = {name: value for what, value in parameters.items() for name in spelling[what]}
            answer = self._client.get("/api/v3/traces", spelt)
            if answer.status != 400:
                # What is neither may come from somebody in front of it, who does not read the parameters.
                self._spelling = spelling if answer.status == 200 or _is_nothing(answer) else None
                return answer
            refused = refused or answer
        raise BackendError("Jaeger answered nothing") if refused is None else refused.refused()

    def _events(self, parts: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        return (event for _, event in events_of({"resourceSpans": parts}, self._report))


def _attributes(wanted: Wanted) -> dict[str, str]:
    """What all spans that are wanted have: Jaeger compares text, and has no "or"."""
    attributes = dict(wanted.equal)
    if len(wanted.namespaces) == 1 and wanted.namespace_prefix is None:
        attributes.setdefault(names.NAMESPACE, wanted.namespaces[0])
    if wanted.action_id is not None:
        attributes[names.ACTION_ID] = str(wanted.action_id)
    return {name: value.encode(errors="replace").decode() for name, value in attributes.items()}


def _traces(answer: Answer, report: BackendReport) -> dict[str, list[dict[str, Any]]]:
    """The resource spans of each trace in the answer, one trace's at a time; none when nothing was found."""
    if _is_nothing(answer):
        return {}
    if answer.status != 200:
        raise answer.refused()
    traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for document in _documents(answer):
        if "error" in document:  # it came after the status had been sent
            if not traces:
                raise answer.refused()
            report.miss(f"Jaeger did not finish: {excerpt(msgspec.json.encode(document['error']))}")
        for resource_spans in objects(_result(document, answer), "resourceSpans", report):
            for scope_spans in objects(resource_spans, "scopeSpans", report):
                for trace_id, spans in _by_trace(objects(scope_spans, "spans", report)).items():
                    traces[trace_id].append(resource_spans | {"scopeSpans": [scope_spans | {"spans": spans}]})
    return traces


def _result(document: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    result: Any = document.get("result") or {}
    if not isinstance(result, dict):
        raise answer.unknown()
    return cast("dict[str, Any]", result)


def _by_trace(spans: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in spans:
        groups[str(span.get("traceId"))].append(span)
    return groups


def _documents(answer: Answer) -> list[dict[str, Any]]:
    """The answer's JSON; a release that streams sends a document a line."""
    if b"\n{" not in answer.body.strip():
        return [answer.json()]
    try:
        return msgspec.json.Decoder(dict[str, Any]).decode_lines(answer.body)
    except UNDECODABLE:
        return [answer.json()]  # indented, or no JSON at all


def _is_nothing(answer: Answer) -> bool:
    """Whether it is the API that found nothing, and not somebody else who has no such path."""
    if answer.status != 404:
        return False
    try:
        return "error" in answer.json()
    except BackendError:
        return False


def _rfc3339(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"

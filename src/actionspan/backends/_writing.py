"""Events to a backend, as the spans they are of, over OTLP."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from actionspan import guard
from actionspan.backends._report import BackendReport
from actionspan.recorder._line import moment_of
from actionspan.recorder.contract import Event
from actionspan.recorder.spans import spans_of
from actionspan.vocabulary import ActionPhase

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

__all__ = ["SpanWriter"]

_SAMPLED: Final = 1
_TRACES_PATH: Final = "/v1/traces"


class SpanWriter:
    """Sends ended spans in batches, from a thread that the first of them starts.

    `endpoint` without a path gets `/v1/traces`; None: where OpenTelemetry's own variables point.
    """

    def __init__(self, endpoint: str | None, headers: Mapping[str, str] | None, report: BackendReport) -> None:
        self._endpoint = endpoint
        self._headers = None if headers is None else dict(headers)
        self._report = report
        self._processor: BatchSpanProcessor | None = None
        self._lock = threading.Lock()

    def emit(self, event: Event) -> None:
        """Queue the span that ended with `event`. `ValueError`: no usable kind or time."""
        moment_of(event)
        # Whoever gives an event to this recorder wants it there, whatever the sampler thought of its span.
        sampled: dict[str, Any] = {**event, "flags": int(event.get("flags", 0)) | _SAMPLED}
        span = next(spans_of([sampled]), None)
        if span is not None:
            self._processing().on_end(span)
        elif event.get("phase") != ActionPhase.START.value:
            self._report.not_kept += 1
            guard.warn_once(
                f"not kept by {self._report.url}",
                "a tracing backend holds spans: events such as %r do not get to %s (a JsonlRecorder keeps them)",
                event["kind"],
                self._report.url,
            )

    def flush(self) -> None:
        """Return when everything queued was delivered or given up."""
        if self._processor is not None:
            self._processor.force_flush()

    def close(self) -> None:
        """Deliver what is queued and end the thread."""
        if self._processor is not None:
            self._processor.shutdown()

    def _processing(self) -> BatchSpanProcessor:
        with self._lock:
            if self._processor is None:
                # Here, because the exporter takes long to import and who only reads does not need it.
                from opentelemetry.sdk.trace.export import BatchSpanProcessor

                self._processor = BatchSpanProcessor(_counting(self._endpoint, self._headers, self._report))
            return self._processor


def _counting(endpoint: str | None, headers: dict[str, str] | None, report: BackendReport) -> SpanExporter:
    """OpenTelemetry's exporter; what it cannot deliver is counted. It logs why by itself."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    class Counting(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export(spans)
            if result is not SpanExportResult.SUCCESS:
                report.undelivered += len(spans)
            return result

    return Counting(endpoint=None if endpoint is None else _traces(endpoint), headers=headers)


def _traces(endpoint: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    return endpoint if parts.path not in ("", "/") else endpoint.rstrip("/") + _TRACES_PATH

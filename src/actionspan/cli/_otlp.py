"""Spans to an OTLP/HTTP endpoint that somebody named on the command line, and whether they arrived."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from actionspan.cli._endpoint import check_reachable, traces_endpoint

__all__ = ["OtlpTarget"]

_TIMEOUT: Final = 5
"""Seconds for one export; an endpoint that is named by hand is near, or wrong."""


class OtlpTarget:
    """A tracer provider whose spans go to `url`. `ConnectionError` when nobody listens there."""

    def __init__(self, url: str, service: str) -> None:
        self.endpoint = traces_endpoint(url)
        check_reachable(self.endpoint)
        self.problem = ""
        self._complaints = _Complaints()
        self._exporter = _Watched(OTLPSpanExporter(self.endpoint, timeout=_TIMEOUT))
        self.provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
        self.provider.add_span_processor(BatchSpanProcessor(self._exporter))

    def close(self) -> bool:
        """Send what is left; False, with `problem` set, when not everything arrived."""
        self.provider.shutdown()
        self._complaints.stop()
        self.problem = self._complaints.last or "no answer"
        return not self._exporter.failed


class _Watched(SpanExporter):
    """Remembers whether an export failed."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.failed |= result is not SpanExportResult.SUCCESS
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class _Complaints(logging.Handler):
    """Keeps the last thing the exporter complained of, which would otherwise stand in the middle of our output."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._logger = logging.getLogger("opentelemetry.exporter")
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()

    def stop(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated

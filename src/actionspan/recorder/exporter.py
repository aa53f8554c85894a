"""The `jsonl` traces exporter: spans that have ended, of the whole application, in the record's own format."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from actionspan import guard
from actionspan.recorder import _live
from actionspan.recorder._log import SegmentLog
from actionspan.recorder.events import event_of_end
from actionspan.recorder.jsonl import open_log
from actionspan.settings import jsonl_directory

__all__ = ["JsonlSpanExporter"]

_logger = logging.getLogger("actionspan")


class JsonlSpanExporter(SpanExporter):
    """Writes terminal events to `directory`; None: what `ACTIONSPAN_JSONL` says, else `./actionspan`.

    It sees what the sampler and the span processor before it let through; a `RecorderSpanProcessor` sees every action,
    and its start. While a recorder of this process is open on the same directory, the exporter writes nothing. The
    directory is made at the first export; a failure there is `SpanExportResult.FAILURE` and one log line.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._directory = jsonl_directory() if directory is None else Path(directory)
        self._log: SegmentLog | None = None
        self._shut_down = False
        self._warned = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._shut_down:
            return SpanExportResult.FAILURE
        if _live.is_recorded(self._directory):
            self._warn()
            return SpanExportResult.SUCCESS
        return guard.call("exporter", lambda: self._export(spans), SpanExportResult.FAILURE)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        if self._log is not None:
            guard.call("exporter", self._log.flush)
        return True

    def shutdown(self) -> None:
        self._shut_down = True
        if self._log is not None:
            guard.call("exporter", self._log.close)

    def _export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        log = self._log = self._log or self._open()
        if log is None:
            return SpanExportResult.FAILURE
        dropped = log.stats.dropped
        for span in spans:
            log.append(event_of_end(span))
        return SpanExportResult.SUCCESS if log.stats.dropped == dropped else SpanExportResult.FAILURE

    def _open(self) -> SegmentLog | None:
        try:
            return open_log(self._directory)
        except OSError as error:
            if not self._warned:
                self._warned = True
                _logger.error("the jsonl exporter cannot write to %s: %s", self._directory, error)
            return None

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _logger.warning("the jsonl exporter writes nothing: this process already records to %s", self._directory)

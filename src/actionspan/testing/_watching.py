"""Everything traced with content and recorded for a while, and what there is to say of it afterwards."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from actionspan import guard
from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.policy import ActionPolicy, AuditMode
from actionspan.recorder import JsonlRecorder, read, verify
from actionspan.settings import resolve_audit_mode
from actionspan.vocabulary import ActionPhase

__all__ = ["NotWatching", "Watch", "Watched"]


class NotWatching(Exception):
    """Why nothing can be watched here."""


@dataclass
class Watched:
    """What was seen, in a form that another process can be sent."""

    spans: int = 0
    """Spans that ended."""
    exported_bytes: int = 0
    """Those spans as an OTLP exporter would have sent them."""
    actions: int = 0
    """Actions in the record that ended."""
    recorded_bytes: int = 0
    unfinished: list[str] = field(default_factory=list[str])
    """Spans that were started and never ended, each with where that was."""
    faults: list[str] = field(default_factory=list[str])
    """What we got wrong, each with where that was."""

    def add(self, other: Watched) -> None:
        """Take in what another process saw."""
        self.spans += other.spans
        self.exported_bytes += other.exported_bytes
        self.actions += other.actions
        self.recorded_bytes += other.recorded_bytes
        self.unfinished += other.unfinished
        self.faults += other.faults


class Watch:
    """From its making to `stop`, every agent of this process is traced in full, by providers that nobody else has.

    The record goes to a directory of its own in `keep_in`, or to one that `stop` removes. Raises `NotWatching` where
    the environment or an earlier `instrument()` leaves nothing to watch.
    """

    def __init__(self, keep_in: Path | None = None) -> None:
        self._instrumentor = PydanticAIInstrumentor()
        if self._instrumentor.is_instrumented_by_opentelemetry:
            raise NotWatching("the process is instrumented already")
        if resolve_audit_mode(mode=AuditMode.CONTENT) is not AuditMode.CONTENT:
            raise NotWatching("the environment does not admit content")
        if keep_in is not None:
            keep_in.mkdir(parents=True, exist_ok=True)
        self._keep = keep_in is not None
        self._directory = Path(tempfile.mkdtemp(prefix="actionspan-", dir=keep_in))
        self._recorder = JsonlRecorder(self._directory)
        self._spans = _Spans(self)
        self._exporter = _Encoder()
        self._log = _Log(self)
        self._failures = guard.failures.copy()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(self._spans)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.place = "before the first test"
        """What goes on at the moment, for `unfinished` and `faults`."""
        logging.getLogger("actionspan").addHandler(self._log)
        self._instrumentor.instrument(
            tracer_provider=self._provider,
            meter_provider=MeterProvider(shutdown_on_exit=False),
            logger_provider=LoggerProvider(shutdown_on_exit=False),
            mode=AuditMode.CONTENT,
            policy=ActionPolicy.everything(),
            recorder=self._recorder,
        )
        self._pipeline = self._instrumentor.pipeline()
        if self._pipeline is None:
            self._leave()
            raise NotWatching("OpenTelemetry's SDK is disabled")

    @property
    def interrupted(self) -> bool:
        """Whether somebody uninstrumented, or instrumented once more: then there is no more to be seen."""
        return self._instrumentor.pipeline() is not self._pipeline

    def stop(self) -> Watched:
        """Give everything back and say what was seen."""
        gc.collect()  # a run that was dropped is finished by its finalizer
        unfinished = list(self._spans.open.values())
        faults = [f"{count} x {stage}" for stage, count in (guard.failures - self._failures).items()] + self._log.lines
        if self.interrupted:
            faults.append(f"something else instrumented or uninstrumented: {self.place}")
        else:
            self._instrumentor.uninstrument()
        self._recorder.close()
        stats = self._recorder.stats()
        seen = Watched(self._spans.ended, self._exporter.bytes, self._recorded(), stats.bytes, unfinished, faults)
        if stats.dropped:
            faults.append(f"{stats.dropped} events were not recorded")
        if seen.actions < seen.spans:
            faults.append(f"{seen.spans - seen.actions} actions ended as spans and not in the record")
        if verify(self._directory).damaged:
            faults.append("the record does not verify")
        self._leave()
        return seen

    def _recorded(self) -> int:
        return sum(
            event.get("phase", ActionPhase.START) != ActionPhase.START for event in read(self._directory).query()
        )

    def _leave(self) -> None:
        if self._instrumentor.is_instrumented_by_opentelemetry and not self.interrupted:
            self._instrumentor.uninstrument()
        logging.getLogger("actionspan").removeHandler(self._log)
        self._recorder.close()
        self._provider.shutdown()
        if not self._keep:
            shutil.rmtree(self._directory, ignore_errors=True)


class _Spans(SpanProcessor):
    """Which spans are open, and how many ended."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.open: dict[tuple[int, int], str] = {}
        self.ended = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.open[_key(span)] = f"{span.name} in {self._watch.place}"

    def on_end(self, span: ReadableSpan) -> None:
        self.open.pop(_key(span), None)
        self.ended += 1


class _Encoder(SpanExporter):
    """Does what an OTLP exporter does with a span, up to the network, and keeps nothing."""

    def __init__(self) -> None:
        self.bytes = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.bytes += guard.call("export", lambda: encode_spans(spans).ByteSize(), 0)
        return SpanExportResult.SUCCESS


class _Log(logging.Handler):
    """What we said went wrong, which a test may have kept to itself."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.ERROR)
        self._watch = watch
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()}, in {self._watch.place}")


def _key(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    return (0, 0) if context is None else (context.trace_id, context.span_id)

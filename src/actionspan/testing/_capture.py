"""Instrumenting for the length of a test, with providers of its own: nothing global is set."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.telemetry.clock import ticking
from actionspan.testing._ids import CountingIds
from actionspan.testing._memory import MemoryRecorder
from actionspan.testing._tree import tree

__all__ = ["Capture", "capture"]

_START_NS = 1_700_000_000_000_000_000
_STEP_NS = 1_000_000


class Capture:
    """What was seen since `capture()` began."""

    def __init__(self, sampler: Sampler, limits: SpanLimits | None, recorder: MemoryRecorder) -> None:
        self._exporter = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self._logs = InMemoryLogRecordExporter()
        self._recorder = recorder
        self.tracer_provider = TracerProvider(
            sampler=sampler, id_generator=CountingIds(), span_limits=limits, shutdown_on_exit=False
        )
        """The provider the spans go through; an application's own spans may be made with it."""
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))

    @property
    def spans(self) -> list[ReadableSpan]:
        """The finished spans, in the order they ended."""
        return list(self._exporter.get_finished_spans())

    @property
    def records(self) -> list[dict[str, Any]]:
        """The recorder's events, starts and terminals, in the order they were written."""
        return self._recorder.events

    @property
    def logs(self) -> list[ReadableLogRecord]:
        """The log events."""
        return list(self._logs.get_finished_logs())

    def metrics(self) -> dict[str, list[Any]]:
        """The data points by metric name, as collected now."""
        data = self._metrics.get_metrics_data()
        points: dict[str, list[Any]] = {}
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points.setdefault(metric.name, []).extend(metric.data.data_points)
        return points

    def named(self, name: str) -> list[ReadableSpan]:
        """The finished spans of that name."""
        return [span for span in self.spans if span.name == name]

    def tree(self, *attributes: str) -> str:
        """The finished spans as `tree` shows them."""
        return tree(self.spans, *attributes)

    def clear(self) -> None:
        """Forget spans, logs and records; metrics stay."""
        self._exporter.clear()
        self._logs.clear()
        self._recorder.events.clear()

    def close(self) -> None:
        """Shut the providers down."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()
        self.logger_provider.shutdown()


@contextmanager
def capture(
    *, sampler: Sampler = ALWAYS_ON, span_limits: SpanLimits | None = None, tick: bool = True, **arguments: Any
) -> Generator[Capture]:
    """Instrument Pydantic AI within this block and collect what its agents do.

    `arguments` are those of `PydanticAIInstrumentor.instrument` (`mode`, `policy`, `identity`, ...). Ids count from 1,
    and with `tick` the clock advances one millisecond a reading. Raises `RuntimeError` when the process is
    instrumented already: two at once would see each other's runs.
    """
    instrumentor = PydanticAIInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        raise RuntimeError("capture() needs to instrument, and the process is instrumented already: uninstrument first")
    recorder = MemoryRecorder()
    seen = Capture(sampler, span_limits, recorder)
    providers = {
        "tracer_provider": seen.tracer_provider,
        "meter_provider": seen.meter_provider,
        "logger_provider": seen.logger_provider,
        "recorder": recorder,
    }
    try:
        instrumentor.instrument(**{**providers, **arguments})
        if tick:
            with ticking(_START_NS, _STEP_NS):
                yield seen
        else:
            yield seen
    finally:
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()
        seen.close()

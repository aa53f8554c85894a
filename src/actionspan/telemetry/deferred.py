"""Actions of code that an engine may run again from its journal.

Such an action's span has ids that are known beforehand, so that what runs elsewhere can name it as its parent, and it
exists for processors, recorders and metrics only once it has ended and is known to have really happened.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer
from opentelemetry.util.types import Attributes, AttributeValue

from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline, SpanSink, TracerSource
from actionspan.telemetry.span import ActionSpan

__all__ = ["Begin", "DeferredPipeline", "Happened", "SpanIds", "deferred"]

Happened = Callable[[Mapping[str, AttributeValue]], bool]
"""Asked when an action ends, with its attributes: whether it happened now, rather than in an earlier life."""

Begin = Callable[[], Happened]
"""Called when an action starts."""

SpanIds = Callable[[], tuple[int | None, int | None]]
"""The trace id, for an action that is in no trace yet, and the span id of the next action; None: any."""

_random: Final = RandomIdGenerator()


def deferred(real: Pipeline, ids: SpanIds, begin: Begin, passes: Callable[[str], bool]) -> DeferredPipeline:
    """A pipeline like `real`, whose actions are handed on when they have ended and really happened.

    Where `passes` says, by the action's namespace, that what starts now runs once only, `real` starts it.
    """
    settings: dict[str, Any] = {item.name: getattr(real, item.name) for item in fields(real) if item.init}
    sink = None if real.sink is None else _DeferredSink(real.sink)
    settings |= {"source": _DeferredSource(real.source, ids, begin, sink), "sink": sink}
    return DeferredPipeline(**settings, real=real, passes=passes)


@dataclass(slots=True, eq=False, kw_only=True)
class DeferredPipeline(Pipeline):
    """A pipeline that tells nobody of an action which did not happen now."""

    real: Pipeline
    passes: Callable[[str], bool]

    def __post_init__(self) -> None:
        self.instruments = self.real.instruments
        self.scope = self.real.scope
        self.logger = self.real.logger

    def start(self, namespace: str, operation: str, **arguments: Any) -> ActionSpan:
        """Start an action, as `Pipeline.start` does."""
        if self.passes(namespace):
            return self.real.start(namespace, operation, **arguments)
        return super(DeferredPipeline, self).start(namespace, operation, **arguments)

    def record_metrics(self, action: ActionSpan, ending: Ending, seconds: float) -> None:
        """Measure the action, if it happened."""
        if _happened(action.span):
            super(DeferredPipeline, self).record_metrics(action, ending, seconds)

    def log_details(self, action: ActionSpan) -> None:
        """Log the action's content, if it happened."""
        if _happened(action.span):
            super(DeferredPipeline, self).log_details(action)


def _happened(span: Span) -> bool:
    return not isinstance(span, DeferredSpan) or span.happened


class _DeferredSource(TracerSource):
    """The tracer of another source, deferring its spans."""

    def __init__(self, real: TracerSource, ids: SpanIds, begin: Begin, sink: _DeferredSink | None) -> None:
        super().__init__()
        self._real = real
        self._ids = ids
        self._begin = begin
        self._sink = sink

    def refresh(self) -> Tracer:
        """The tracer to use now; a tracer that is not the SDK's cannot be told the ids and is used as it is."""
        real = self._real.refresh()
        self.limits, self.resource = self._real.limits, self._real.resource
        sdk = _sdk_tracer(real)
        self.tracer = real if sdk is None else _DeferredTracer(sdk, self._ids, self._begin, self._sink)
        return self.tracer


def _sdk_tracer(tracer: Tracer) -> SdkTracer | None:
    """The SDK's tracer in `tracer`: itself, or what Temporal's replay-safe one wraps."""
    inner = getattr(tracer, "_tracer", tracer)
    return inner if isinstance(inner, SdkTracer) else None


class _DeferredTracer(Tracer):
    def __init__(self, real: SdkTracer, ids: SpanIds, begin: Begin, sink: _DeferredSink | None) -> None:
        self._real = real
        self._ids = ids
        self._begin = begin
        self._sink = sink

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> DeferredSpan:
        """A span that starts now and is made when it ends."""
        planned, span_id = self._ids()
        parent = trace.get_current_span(context).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else planned or _random.generate_trace_id()
        sampled = self._real.sampler.should_sample(context, trace_id, name, kind, attributes, links)
        flags = TraceFlags.SAMPLED if sampled.decision.is_sampled() else TraceFlags.DEFAULT
        ids = SpanContext(
            trace_id,
            span_id or _random.generate_span_id(),
            is_remote=False,
            trace_flags=TraceFlags(flags),
            trace_state=sampled.trace_state,
        )
        tracer = copy.copy(self._real)
        tracer.id_generator = _Planned(ids)

        def make() -> Span:
            return tracer.start_span(
                name,
                context,
                kind,
                attributes,
                links,
                start_time,
                record_exception=record_exception,
                set_status_on_exception=set_status_on_exception,
            )

        return DeferredSpan(ids, attributes or {}, make, self._begin(), self._sink, sampled.decision.is_recording())

    def start_as_current_span(self, *arguments: Any, **keywords: Any) -> Any:
        """Not used here: context is attached by hand. Raises `NotImplementedError`."""
        raise NotImplementedError("start_span only")


class _Planned(IdGenerator):
    """The ids that were planned."""

    def __init__(self, ids: SpanContext) -> None:
        self._ids = ids

    def generate_trace_id(self) -> int:
        return self._ids.trace_id

    def generate_span_id(self) -> int:
        return self._ids.span_id


class DeferredSpan(Span):
    """Keeps what is done to it, and does it to a real span when it ends and really happened."""

    def __init__(
        self,
        ids: SpanContext,
        attributes: Mapping[str, AttributeValue],
        make: Callable[[], Span],
        happened: Happened,
        sink: _DeferredSink | None,
        recording: bool,
    ) -> None:
        self.happened = False
        """Whether it has ended and was handed on."""
        self._ids = ids
        self._created_with = attributes
        self._attributes = dict(attributes)
        self._later: list[Callable[[Span], None]] = []
        self._make = make
        self._decide = happened
        self._sink = sink
        self._recording = recording
        self._ended = False

    def get_span_context(self) -> SpanContext:
        """The planned ids."""
        return self._ids

    def is_recording(self) -> bool:
        """Whether the sampler wants it."""
        return self._recording and not self._ended

    def end(self, end_time: int | None = None) -> None:
        """Make the span, if it happened."""
        if self._ended:
            return
        self._ended = True
        if not self._decide(self._attributes):
            return
        self.happened = True
        span = self._make()
        if not isinstance(span, ReadableSpan) and self._sink is not None:
            self._sink.expect(self._ids, self._created_with)
        for step in self._later:
            step(span)
        span.end(end_time)

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        table = dict(attributes)
        self._attributes.update(table)
        self._later.append(lambda span: span.set_attributes(table))

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.set_attributes({key: value})

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        self._later.append(lambda span: span.add_event(name, attributes, timestamp))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        self._later.append(lambda span: span.add_link(context, attributes))

    def update_name(self, name: str) -> None:
        self._later.append(lambda span: span.update_name(name))

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self._later.append(lambda span: span.set_status(status, description))

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self._later.append(lambda span: span.record_exception(exception, attributes, timestamp, escaped))


class _DeferredSink:
    """Hands on, start and end together, the spans that happened and that a sampler dropped."""

    def __init__(self, real: SpanSink) -> None:
        self._real = real
        self._expected: dict[tuple[int, int], Mapping[str, AttributeValue]] = {}

    def expect(self, ids: SpanContext, attributes: Mapping[str, AttributeValue]) -> None:
        """The span with these ids happened and reaches no processor."""
        self._expected[ids.trace_id, ids.span_id] = attributes

    def record_start(self, span: ReadableSpan) -> None:
        """Whether it happens is not known yet."""

    def record_end(self, span: ReadableSpan) -> None:
        """Record both, if it happened."""
        ids = span.context
        attributes = None if ids is None else self._expected.pop((ids.trace_id, ids.span_id), None)
        if attributes is None:
            return
        self._real.record_start(
            ReadableSpan(
                name=span.name,
                context=span.context,
                parent=span.parent,
                resource=span.resource,
                attributes=attributes,
                links=span.links,
                kind=span.kind,
                start_time=span.start_time,
                instrumentation_scope=span.instrumentation_scope,
            )
        )
        self._real.record_end(span)

    def record_missed_end(self, span: ReadableSpan) -> None:
        """No span of a workflow's code is given to a processor while it is open."""

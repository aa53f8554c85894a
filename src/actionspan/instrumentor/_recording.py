"""The recorders of an instrumented process, behind one processor per tracer provider.

The SDK cannot remove a processor, so ours is attached once, at a provider's first action, and passes spans on only
while there is a recorder to take them.
"""

from __future__ import annotations

import threading
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import TracerProvider

from actionspan import guard
from actionspan.recorder import Event, Recorder, RecorderSpanProcessor, RecorderStats
from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace, ActionOperation

__all__ = ["Recording"]


@runtime_checkable
class _Counting(Protocol):
    """A recorder that knows what it did."""

    def stats(self) -> RecorderStats: ...


class Recording:
    """The recorders in use; a sink for spans that a sampler dropped."""

    def __init__(self) -> None:
        self._processors: tuple[RecorderSpanProcessor, ...] = ()
        self._recorders: tuple[Recorder, ...] = ()
        self._lock = threading.Lock()

    def add(self, recorder: Recorder) -> bool:
        """Feed `recorder` from now on; the same one twice is fed once. True when it is new."""
        with self._lock:
            if any(known is recorder for known in self._recorders):
                return False
            self._recorders = (*self._recorders, recorder)
            self._processors = (*self._processors, RecorderSpanProcessor(recorder))
            return True

    def stop(self) -> None:
        """Feed nobody any more. The recorders are their owners' to close."""
        with self._lock:
            self._processors = ()
            self._recorders = ()

    @property
    def active(self) -> bool:
        """Whether anybody is fed."""
        return bool(self._processors)

    def totals(self) -> tuple[int, int] | None:
        """Events written and events lost by all recorders that count; None when none does."""
        counts = [recorder.stats() for recorder in self._recorders if isinstance(recorder, _Counting)]
        return (sum(count.written for count in counts), sum(count.dropped for count in counts)) if counts else None

    def record_start(self, span: ReadableSpan) -> None:
        """Record the start of a span that reaches no processor."""
        if _is_verb(span):
            return
        for processor in self._processors:
            processor.record_start(span)

    def record_end(self, span: ReadableSpan) -> None:
        """Record the end of a span that reaches no processor."""
        if _is_verb(span):
            return
        for processor in self._processors:
            processor.record_end(span)

    def record_missed_end(self, span: ReadableSpan) -> None:
        """Record the end of a span that another processor may have kept from ours by raising."""
        if _is_verb(span):
            return
        for processor in self._processors:
            processor.record_missed_end(span)

    def emit(self, event: Event) -> None:
        """Write an event that is no span's."""
        for recorder in self._recorders:
            guard.call("recorder", lambda recorder=recorder: recorder.emit(event))

    def started(self, span: Span, parent_context: Context | None) -> None:
        """A provider started a span."""
        if _is_verb(span):
            return
        for processor in self._processors:
            processor.on_start(span, parent_context)

    def ended(self, span: ReadableSpan) -> None:
        """A provider ended a span."""
        if _is_verb(span):
            return
        for processor in self._processors:
            processor.on_end(span)

    def flush(self, timeout_millis: int) -> bool:
        """Everything recorded is handed to the operating system."""
        results = [processor.force_flush(timeout_millis) for processor in self._processors]
        return all(results)

    def attach(self, provider: TracerProvider) -> None:
        """Put the switch on `provider`, unless it is there; it then feeds this recording only."""
        if not isinstance(provider, SdkTracerProvider):
            return
        with _switches_lock:
            switch = _switches.get(provider)
            if switch is None:
                switch = _switches[provider] = _Switch()
                provider.add_span_processor(switch)
        switch.recording = self


def _is_verb(span: ReadableSpan) -> bool:
    """Whether it is a verb of run control, which has a span for each run it matched and one event for all."""
    attributes = span.attributes or {}
    return (
        attributes.get(names.NAMESPACE) == ActionNamespace.CONTROL
        and attributes.get(names.OPERATION) != ActionOperation.WAIT
    )


class _Switch(SpanProcessor):
    """Passes a provider's spans to the recording in use, if there is one."""

    recording: Recording | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.recording is not None and self.recording.active:
            self.recording.started(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        if self.recording is not None and self.recording.active:
            self.recording.ended(span)

    def shutdown(self) -> None:
        """The recorders are not the provider's to close."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self.recording is None or self.recording.flush(timeout_millis)


_switches: WeakKeyDictionary[SdkTracerProvider, _Switch] = WeakKeyDictionary()
_switches_lock = threading.Lock()


class PrivateProvider:
    """A provider for processes that have none but record: it makes ids and exports nothing."""

    def __init__(self) -> None:
        self._provider: SdkTracerProvider | None = None

    def __call__(self) -> TracerProvider:
        if self._provider is None:
            self._provider = SdkTracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
        return self._provider

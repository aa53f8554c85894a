"""The span processor that feeds a recorder: an event when an action starts and one when it ends."""

from __future__ import annotations

import os
import weakref
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from actionspan import guard
from actionspan.recorder.contract import Recorder
from actionspan.recorder.events import event_of_end, event_of_start
from actionspan.telemetry import names

__all__ = ["RecorderSpanProcessor"]

_STAGE: Final = "recorder"
_MAX_OPEN: Final = 100_000
"""Spans remembered as started here; beyond that the oldest are forgotten (they never ended)."""


class RecorderSpanProcessor(SpanProcessor):
    """Records the spans of scope `actionspan`, or with `all_spans` every span, to `recorder`.

    A recorder that raises is contained: counted, and logged once. The recorder is never closed here: who made it
    closes it. For a span that the sampler dropped the SDK calls no processor; `record_start` and `record_end` are
    how such a span is recorded all the same.
    """

    def __init__(self, recorder: Recorder, *, all_spans: bool = False) -> None:
        self._recorder = recorder
        self._all_spans = all_spans
        self._open: dict[tuple[int, int], None] = {}
        self._inherited: frozenset[tuple[int, int]] = frozenset()
        _processors.add(self)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.record_start(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.record_end(span)

    def record_start(self, span: ReadableSpan) -> None:
        """Record that `span` has started. Never raises."""
        guard.call(_STAGE, lambda: self._start(span))

    def record_end(self, span: ReadableSpan) -> None:
        """Record that `span` has ended, unless a parent process started it. Never raises."""
        guard.call(_STAGE, lambda: self._end(span))

    def record_missed_end(self, span: ReadableSpan) -> None:
        """Record that `span` has ended, unless that was recorded. Never raises."""
        if _key(span) in self._open:
            self.record_end(span)

    def shutdown(self) -> None:
        self.force_flush()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the recorder; False when that failed."""
        return guard.call(_STAGE, self._flush, False)

    def _flush(self) -> bool:
        self._recorder.flush()
        return True

    def _start(self, span: ReadableSpan) -> None:
        if self._concerns(span):
            if len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open)), None)
            self._open[_key(span)] = None
            self._recorder.emit(event_of_start(span))

    def _end(self, span: ReadableSpan) -> None:
        if self._concerns(span):
            key = _key(span)
            self._open.pop(key, None)
            if key not in self._inherited:
                self._recorder.emit(event_of_end(span))

    def _concerns(self, span: ReadableSpan) -> bool:
        scope = span.instrumentation_scope
        return self._all_spans or (scope is not None and scope.name == names.SCOPE)

    def _after_fork(self) -> None:
        """In a child process: what is open now is the parent's to finish."""
        self._inherited |= self._open.keys()
        self._open = {}


def _key(span: ReadableSpan) -> tuple[int, int]:
    context = span.context
    return (0, 0) if context is None else (context.trace_id, context.span_id)


_processors: weakref.WeakSet[RecorderSpanProcessor] = weakref.WeakSet()


def _after_fork() -> None:
    for processor in list(_processors):
        processor._after_fork()  # pyright: ignore[reportPrivateUsage] # the module's own class


os.register_at_fork(after_in_child=_after_fork)

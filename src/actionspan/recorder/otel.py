"""A recorder that writes OpenTelemetry log records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opentelemetry._logs import LoggerProvider, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from actionspan._version import __version__
from actionspan.recorder._line import moment_of
from actionspan.recorder._values import jsonable, restored
from actionspan.recorder.contract import Event, EventFilter, Moment
from actionspan.recorder.errors import QueryNotSupported, RecorderClosed
from actionspan.telemetry import names
from actionspan.vocabulary import ActionPhase

__all__ = ["OtelRecorder"]

_ELSEWHERE: Final = frozenset(
    {"v", "seq", "time_unix_nano", "timestamp", "trace_id", "span_id", "flags", "resource_scope"}
)
"""Fields that a log record has a place for, or that are of the segment an event was read from."""
_READ_BACK: Final = "a log pipeline cannot be read back: query a JsonlRecorder, TempoRecorder or JaegerRecorder"


class OtelRecorder:
    """Emits each event as a log record named `actionspan.{kind}` through `logger_provider`.

    The record's trace context is the event's own, its attributes are the event's other fields. The provider is flushed,
    never shut down: it belongs to the application.
    """

    def __init__(self, logger_provider: LoggerProvider) -> None:
        self._provider = logger_provider
        self._logger = logger_provider.get_logger(names.SCOPE, __version__)
        self._closed = False

    def emit(self, event: Event) -> None:
        """Emit one log record; see `Recorder.emit`."""
        if self._closed:
            raise RecorderClosed("this OtelRecorder is closed")
        moment = moment_of(event)
        failed = event.get("phase") == ActionPhase.ERROR.value
        self._logger.emit(
            timestamp=moment,
            context=_trace_context(event),
            severity_number=SeverityNumber.ERROR if failed else SeverityNumber.INFO,
            attributes={
                str(name): restored(jsonable(value))
                for name, value in event.items()
                if name not in _ELSEWHERE and value is not None
            },
            event_name=f"{names.PREFIX}{event['kind']}",
        )

    def flush(self) -> None:
        """Flush the provider, when it is one that can be."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            flush()

    def close(self) -> None:
        """Flush, and refuse further events."""
        if not self._closed:
            self._closed = True
            self.flush()

    def query(
        self,
        *,
        kind: str | None = None,
        agent_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        call_id: str | None = None,
        extra_filter: EventFilter | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Raise `QueryNotSupported`."""
        raise QueryNotSupported(_READ_BACK)

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Raise `QueryNotSupported`."""
        raise QueryNotSupported(_READ_BACK)


def _trace_context(event: Mapping[str, Any]) -> Context:
    """A context with the event's own span in it; an empty one, not the current one, when it has none."""
    try:
        trace_id, span_id = int(event["trace_id"], 16), int(event["span_id"], 16)
    except (KeyError, TypeError, ValueError):
        return Context()
    flags = event.get("flags")
    context = SpanContext(
        trace_id, span_id, is_remote=False, trace_flags=TraceFlags(flags if type(flags) is int else 0)
    )
    return set_span_in_context(NonRecordingSpan(context), Context())

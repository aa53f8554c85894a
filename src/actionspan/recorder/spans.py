"""Events as the spans they were made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from actionspan.recorder._line import encode_json
from actionspan.recorder._values import jsonable
from actionspan.telemetry import names
from actionspan.vocabulary import ActionPhase

__all__ = ["span_of", "spans_of", "unfinished_span_of"]

_TERMINALS: Final = (ActionPhase.END.value, ActionPhase.ERROR.value)


def spans_of(events: Iterable[Mapping[str, Any]]) -> Iterator[ReadableSpan]:
    """The span of each terminal event that has one, equal to what was recorded.

    Read the events with `text=True`: content is then byte for byte what it was. Other events are passed over.
    """
    for event in events:
        if event.get("phase") in _TERMINALS and "span_name" in event and "trace_id" in event:
            yield span_of(event)


def unfinished_span_of(start: Mapping[str, Any], end: int) -> ReadableSpan:
    """The span of an action that never ended, as it began; `end` (nanoseconds) is when it was last at work."""
    attributes = {**start.get("attributes", {}), names.UNFINISHED: True}
    return span_of({**start, "attributes": attributes, "end_time_unix_nano": max(end, start["start_time_unix_nano"])})


def span_of(event: Mapping[str, Any]) -> ReadableSpan:
    """The span of one event. `KeyError` or `ValueError` when it is not an event of a span."""
    origin = event.get("resource_scope")
    context = _context(event)
    return ReadableSpan(
        name=event["span_name"],
        context=context,
        parent=_parent(event, context),
        resource=_resource(origin),
        attributes=_attributes(_all_attributes(event), _dropped(event, "attributes")),
        events=_bounded([_span_event(item) for item in event.get("events", ())], _dropped(event, "events")),
        links=_bounded([_link(item) for item in event.get("links", ())], _dropped(event, "links")),
        kind=SpanKind[event["span_kind"]],
        status=_status(event.get("status", {})),
        start_time=event["start_time_unix_nano"],
        end_time=event["end_time_unix_nano"],
        instrumentation_scope=_scope(origin),
    )


def _context(item: Mapping[str, Any]) -> SpanContext:
    return SpanContext(
        int(item["trace_id"], 16),
        int(item["span_id"], 16),
        is_remote=bool(item.get("is_remote", False)),
        trace_flags=TraceFlags(item.get("flags", 0)),
        trace_state=TraceState.from_header([item["trace_state"]]) if "trace_state" in item else TraceState(),
    )


def _parent(event: Mapping[str, Any], context: SpanContext) -> SpanContext | None:
    if "parent_span_id" not in event:
        return None
    return SpanContext(
        context.trace_id,
        int(event["parent_span_id"], 16),
        is_remote=bool(event.get("parent_is_remote", False)),
        trace_flags=context.trace_flags,
    )


def _all_attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    content = cast("Mapping[str, Any]", event.get("content", {}))
    return {**event.get("attributes", {}), **{name: _text(value) for name, value in content.items()}}


def _text(value: Any) -> str:
    """Content as text; a value that was decoded is encoded again, which need not give the same bytes."""
    return value if isinstance(value, str) else encode_json(jsonable(value)).decode()


def _attributes(attributes: Mapping[str, Any], dropped: int) -> BoundedAttributes:
    bounded = BoundedAttributes(attributes=attributes, immutable=True)
    bounded.dropped = dropped
    return bounded


def _bounded(items: list[Any], dropped: int) -> Sequence[Any]:
    bounded = cast(Any, BoundedList).from_seq(max(len(items), 1), items)
    bounded.dropped = dropped
    return bounded


def _dropped(event: Mapping[str, Any], what: str) -> int:
    return event.get("dropped", {}).get(what, 0)


def _span_event(item: Mapping[str, Any]) -> SpanEvent:
    attributes = _attributes(item.get("attributes", {}), item.get("dropped_attributes", 0))
    return SpanEvent(item["name"], attributes, item["time_unix_nano"])


def _link(item: Mapping[str, Any]) -> Link:
    return Link(_context(item), _attributes(item.get("attributes", {}), item.get("dropped_attributes", 0)))


def _status(status: Mapping[str, Any]) -> Status:
    return Status(StatusCode[status.get("code", "UNSET")], status.get("description"))


def _resource(origin: Any) -> Resource:
    resource = origin.get("resource") if isinstance(origin, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] # any JSON
    fields = cast("Mapping[str, Any]", resource or {})
    return Resource(fields.get("attributes", {}), fields.get("schema_url"))


def _scope(origin: Any) -> InstrumentationScope | None:
    scope = cast("Mapping[str, Any] | None", origin.get("scope")) if isinstance(origin, Mapping) else None  # pyright: ignore[reportUnknownMemberType] # any JSON
    if scope is None:
        return None
    return InstrumentationScope(scope["name"], scope.get("version"), scope.get("schema_url"), scope.get("attributes"))

"""Spans as a backend's JSON has them, as the events that a record on disk has of them.

The JSON is OTLP's, with two spellings of most things: Tempo writes ids in base64 and enumerations by name, Jaeger ids
in hexadecimal and enumerations by number. A span is made an event by the code that records it and given its final
shape by the code that writes and reads a record: there is no second mapping to drift away from the first.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from opentelemetry.trace import SpanKind, StatusCode

from actionspan.backends._report import BackendReport
from actionspan.recorder._decode import LineDecoder
from actionspan.recorder._line import encode_event, encode_json, line
from actionspan.recorder._report import ReadReport
from actionspan.recorder._values import jsonable, restored
from actionspan.recorder.events import event_of_end
from actionspan.recorder.spans import span_of
from actionspan.telemetry import names

__all__ = ["events_of", "hex_id"]

_KINDS: Final = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT", 4: "PRODUCER", 5: "CONSUMER"}
_W3C_FLAGS: Final = 0xFF
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200
"""Bits of OTLP's `flags`: those of the trace context, and whether the parent is in another process."""
_MALFORMED: Final = (KeyError, ValueError, TypeError, AttributeError)
_NONE: Final[Mapping[str, Any]] = {}
_NUMBERS: Final[Mapping[str, Any]] = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


def events_of(traces: Mapping[str, Any], report: BackendReport) -> Iterator[tuple[str, dict[str, Any]]]:
    """Trace id and terminal event of each action in `traces` (`{"resourceSpans": [...]}`)."""
    for resource_spans in objects(traces, "resourceSpans", report):
        for scope_spans in objects(resource_spans, "scopeSpans", report):
            spans = objects(scope_spans, "spans", report)
            try:
                origin = _origin(resource_spans, scope_spans) if _is_ours(scope_spans) else None
            except _MALFORMED as error:
                report.miss(f"{len(spans)} spans whose resource or scope cannot be read ({type(error).__name__})")
                continue
            if origin is None:
                report.passed_over += len(spans)
                continue
            for span in spans:
                event = _event(span, origin, report)
                if event is not None:
                    yield event["trace_id"], event


def objects(owner: Mapping[str, Any], name: str, report: BackendReport) -> list[dict[str, Any]]:
    """The list `name` of `owner`; absent and null are an empty one, and what is no list of objects is reported."""
    try:
        return msgspec.convert(owner.get(name) or [], list[dict[str, Any]])
    except msgspec.ValidationError as error:
        report.miss(f"{name} that cannot be read ({error})")
        return []


def _event(span: Mapping[str, Any], origin: dict[str, Any], report: BackendReport) -> dict[str, Any] | None:
    try:
        fields = _fields(span) | {"resource_scope": origin}
        if names.NAMESPACE not in fields["attributes"]:
            report.passed_over += 1
            return None
        event = event_of_end(span_of(fields))
        if "trace_id" not in event:
            raise ValueError("ids that are all zero")
        return _as_read(event, fields)
    except _MALFORMED as error:
        report.miss(f"a span that cannot be read ({type(error).__name__})")
        return None


def _as_read(event: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """`event` as it would come from a record: written as a line and read."""
    origin = event["resource_scope"]
    (read,) = LineDecoder(ReadReport()).decode_lines([line(encode_event(event), 0, None)])
    del read["seq"]
    read["resource_scope"] = restored(msgspec.json.decode(encode_json(jsonable(origin))))
    # What was not sent is not claimed: the SDK's exporter leaves the flags of a trace context out.
    for item, sent in zip((read, *read.get("links", ())), (fields, *fields["links"]), strict=True):
        if "flags" not in sent:
            del item["flags"]
    return read


def _fields(span: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event that make its span."""
    parent = hex_id(span.get("parentSpanId") or "")
    flags = int(span.get("flags") or 0)
    fields: dict[str, Any] = {
        "span_name": span.get("name", ""),
        "span_kind": _kind(span.get("kind")),
        "start_time_unix_nano": int(span["startTimeUnixNano"]),
        "end_time_unix_nano": int(span["endTimeUnixNano"]),
        "attributes": _attributes(span),
        "events": [_span_event(item) for item in span.get("events") or ()],
        "links": [_link(item) for item in span.get("links") or ()],
        "status": _status(span.get("status") or {}),
        "dropped": {
            what: int(span.get(f"dropped{what.capitalize()}Count") or 0) for what in ("attributes", "events", "links")
        },
        **_context(span),
    }
    if parent.strip("0"):
        fields["parent_span_id"] = parent
        fields["parent_is_remote"] = flags & (_HAS_IS_REMOTE | _IS_REMOTE) == _HAS_IS_REMOTE | _IS_REMOTE
    return fields


def _context(item: Mapping[str, Any]) -> dict[str, Any]:
    """The ids, flags and trace state of a span or a link."""
    context: dict[str, Any] = {"trace_id": hex_id(item["traceId"]), "span_id": hex_id(item["spanId"])}
    flags = int(item.get("flags") or 0)
    if flags & _W3C_FLAGS:
        context["flags"] = flags & _W3C_FLAGS
    if item.get("traceState"):
        context["trace_state"] = item["traceState"]
    return context


def _link(item: Mapping[str, Any]) -> dict[str, Any]:
    flags = int(item.get("flags") or 0)
    return _described(item) | _context(item) | {"is_remote": flags & _IS_REMOTE == _IS_REMOTE}


def _span_event(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": item.get("name", ""), "time_unix_nano": int(item.get("timeUnixNano") or 0)} | _described(item)


def _described(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"attributes": _attributes(item), "dropped_attributes": int(item.get("droppedAttributesCount") or 0)}


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    code = status.get("code") or 0
    name = StatusCode(code).name if isinstance(code, int) else str(code).removeprefix("STATUS_CODE_")
    return {"code": name, "description": status.get("message") or None}


def _kind(kind: Any) -> str:
    name = _KINDS.get(kind, "") if isinstance(kind, int) else str(kind).removeprefix("SPAN_KIND_")
    return name if name in SpanKind.__members__ else SpanKind.INTERNAL.name


def _origin(resource_spans: Mapping[str, Any], scope_spans: Mapping[str, Any]) -> dict[str, Any]:
    """Resource and scope, as `span_of` takes them."""
    scope = _scope(scope_spans)
    return {
        "resource": {
            "attributes": _attributes(resource_spans.get("resource") or _NONE),
            "schema_url": resource_spans.get("schemaUrl"),
        },
        "scope": {
            "name": scope["name"],
            "version": scope.get("version"),
            "schema_url": scope_spans.get("schemaUrl"),
            "attributes": _attributes(scope),
        },
    }


def _is_ours(scope_spans: Mapping[str, Any]) -> bool:
    return _scope(scope_spans).get("name") == names.SCOPE


def _scope(scope_spans: Mapping[str, Any]) -> Mapping[str, Any]:
    return scope_spans.get("scope") or _NONE


def _attributes(owner: Mapping[str, Any]) -> dict[str, Any]:
    return {item["key"]: _value(item.get("value") or {}) for item in owner.get("attributes") or ()}


def _value(value: Mapping[str, Any]) -> Any:
    """An OTLP `AnyValue`. An empty one is an empty text: JSON of protobuf may leave out what is at its default."""
    for kind, content in value.items():
        if kind == "intValue":
            return int(content)
        if kind == "doubleValue":
            return float(_NUMBERS.get(str(content), content))
        if kind == "arrayValue":
            return [_value(item) for item in (content or _NONE).get("values") or ()]
        if kind == "kvlistValue":
            return {item["key"]: _value(item.get("value") or {}) for item in (content or _NONE).get("values") or ()}
        if kind == "bytesValue":
            return b64decode(content)
        return content
    return ""


def hex_id(text: str) -> str:
    """An id in hexadecimal, from either spelling: 16 or 32 digits are hexadecimal already, or else it is base64."""
    return text.lower() if len(text) in (0, 16, 32) else b64decode(text, validate=True).hex()

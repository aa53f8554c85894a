"""A span as an event: the one at its start and the one at its end.

Source of the format: docs/recorder.md. Ids are computed from the span context, because at the start of a span they
are not among its attributes yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, StatusCode

from actionspan.telemetry import ids, names
from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome, ActionPhase

__all__ = ["event_of_end", "event_of_start"]

SPAN_KIND: Final = "span"
"""The kind of events of spans that are not actions."""

_FIELDS: Final = {
    "parent_action_id": names.PARENT_ACTION_ID,
    "run_action_id": names.RUN_ACTION_ID,
    "run_id": names.RUN_ID,
    "conversation_id": names.CONVERSATION_ID,
    "namespace": names.NAMESPACE,
    "operation": names.OPERATION,
    "attempt": names.ATTEMPT,
    "step": names.STEP,
    "outcome": names.OUTCOME,
    "outcome_reason": names.OUTCOME_REASON,
    "framework": names.FRAMEWORK,
    "provider": names.PROVIDER_NAME,
    "model_version": names.MODEL_VERSION,
    "prompt_version": names.PROMPT_VERSION,
    "output_mode": names.OUTPUT_MODE,
    "error": names.ERROR_TYPE,
}
"""Fields of an event that are an attribute under another name."""

_NAMES: Final = {
    ActionNamespace.AGENT: (names.NAME, names.AGENT_NAME),
    ActionNamespace.MODEL: (names.NAME, names.REQUEST_MODEL),
    ActionNamespace.MCP: (names.NAME, names.TOOL_NAME, names.PROMPT_NAME),
}
_OTHER_NAMES: Final = (names.NAME, names.TOOL_NAME)
_USAGE_PREFIXES: Final = ("gen_ai.usage.", names.USAGE_PREFIX)


def event_of_start(span: ReadableSpan) -> dict[str, Any]:
    """The event of a span that has just started: identity and creation attributes."""
    return _event(span, _attributes_of(span), ActionPhase.START.value, span.start_time or 0)


def event_of_end(span: ReadableSpan) -> dict[str, Any]:
    """The self-contained event of a span that has ended: everything an exporter would get."""
    attributes = _attributes_of(span)
    failed = attributes.get(names.OUTCOME) == ActionOutcome.ERROR.value
    if names.OUTCOME not in attributes:
        failed = span.status.status_code is StatusCode.ERROR
    end = span.end_time or span.start_time or 0
    event = _event(span, attributes, (ActionPhase.ERROR if failed else ActionPhase.END).value, end)
    event["duration"] = (end - (span.start_time or end)) / 1e9
    event["end_time_unix_nano"] = end
    event["status"] = _present(code=span.status.status_code.name, description=span.status.description)
    if span.events:
        event["events"] = [_span_event(item) for item in span.events]
    dropped = _counts(attributes=span.dropped_attributes, events=span.dropped_events, links=span.dropped_links)
    if dropped:
        event["dropped"] = dropped
    return event


def _attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """A copy: the SDK's own mapping takes a lock and several calls for each look at it, and there are many here."""
    attributes: Any = span.attributes
    return {} if attributes is None else attributes.copy()


def _event(span: ReadableSpan, attributes: dict[str, Any], phase: str, moment: int) -> dict[str, Any]:
    context = span.context
    event: dict[str, Any] = {"kind": SPAN_KIND, "time_unix_nano": moment, "phase": phase}
    if context is not None and context.is_valid:
        event["trace_id"] = f"{context.trace_id:032x}"
        event["span_id"] = f"{context.span_id:016x}"
    if span.parent is not None:
        event["parent_span_id"] = f"{span.parent.span_id:016x}"
        if span.parent.is_remote:
            event["parent_is_remote"] = True
    if _is_action(span, attributes):
        _identify(event, attributes, context)
    else:
        event["name"] = span.name
    event["span_name"] = span.name
    event["span_kind"] = span.kind.name
    event["start_time_unix_nano"] = span.start_time
    _add_context(event, context)
    _add_attributes(event, attributes)
    if span.links:
        event["links"] = [_link(link) for link in span.links]
    event["resource_scope"] = _origin(span.resource, span.instrumentation_scope)
    return event


def _is_action(span: ReadableSpan, attributes: Mapping[str, Any]) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name == names.SCOPE and names.NAMESPACE in attributes


def _identify(event: dict[str, Any], attributes: Mapping[str, Any], context: SpanContext | None) -> None:
    """The fields of an action: who, what, which attempt, at what cost."""
    namespace = attributes[names.NAMESPACE]
    event["kind"] = f"{namespace}.{attributes.get(names.OPERATION)}.{event['phase']}"
    event |= _present(agent_id=attributes.get(names.AGENT_NAME))
    if context is not None and context.is_valid:
        # An action that came with an id of its own, from another system, keeps it.
        action_id = attributes.get(names.ACTION_ID) or ids.action_id(context)
        event["call_id"] = event["action_id"] = action_id
        event["root_action_id"] = ids.root_action_id(context)
        if (namespace, attributes.get(names.OPERATION)) == (ActionNamespace.AGENT, ActionOperation.RUN):
            event["run_action_id"] = action_id
    for field, attribute in _FIELDS.items():
        value = attributes.get(attribute)
        if value is not None:
            event[field] = value
    candidates = _NAMES.get(namespace, _OTHER_NAMES)
    name = next((attributes[candidate] for candidate in candidates if candidate in attributes), None)
    model = attributes.get(names.RESPONSE_MODEL) or attributes.get(names.REQUEST_MODEL)
    event |= _present(name=name, model=model, usage=_usage(attributes))


def _usage(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    used = [name for name in attributes if name.startswith(_USAGE_PREFIXES)]
    usage = {
        name.removeprefix(prefix): attributes[name]
        for prefix in _USAGE_PREFIXES
        for name in used
        if name.startswith(prefix)
    }
    return usage or None


def _add_context(event: dict[str, Any], context: SpanContext | None) -> None:
    if context is not None:
        event["flags"] = int(context.trace_flags)
        if context.trace_state:
            event["trace_state"] = context.trace_state.to_header()


def _add_attributes(event: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Content apart from the rest. Content that is not text keeps its type among the attributes."""
    content = {
        name: value for name, value in attributes.items() if name in names.CONTENT_ATTRIBUTES and type(value) is str
    }
    event["attributes"] = attributes
    if content:
        event["attributes"] = {name: value for name, value in attributes.items() if name not in content}
        event["content"] = content


def _span_event(item: SpanEvent) -> dict[str, Any]:
    return {"name": item.name, "time_unix_nano": item.timestamp} | _described(item)


def _link(link: Link) -> dict[str, Any]:
    context = link.context
    return {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "flags": int(context.trace_flags),
        **_present(trace_state=context.trace_state.to_header() or None, is_remote=context.is_remote or None),
        **_described(link),
    }


def _described(item: SpanEvent | Link) -> dict[str, Any]:
    """Attributes and how many of them were dropped, where there are any."""
    return _present(attributes=dict(item.attributes or {}) or None, dropped_attributes=item.dropped_attributes or None)


_origins: dict[tuple[int, int], tuple[Resource, InstrumentationScope | None, dict[str, Any]]] = {}
"""By identity: hashing a `Resource` serialises it. The values keep their keys alive, so an id is not reused."""
_MAX_ORIGINS: Final = 256


def _origin(resource: Resource, scope: InstrumentationScope | None) -> dict[str, Any]:
    """The same mapping each time for the same resource and scope: a recorder writes it once."""
    key = (id(resource), id(scope))
    known = _origins.get(key)
    if known is None:
        if len(_origins) >= _MAX_ORIGINS:
            _origins.clear()
        known = _origins[key] = (resource, scope, {"resource": _resource(resource), "scope": _scope(scope)})
    return known[2]


def _resource(resource: Resource) -> dict[str, Any]:
    return {"attributes": dict(resource.attributes)} | _present(schema_url=resource.schema_url or None)


def _scope(scope: InstrumentationScope | None) -> dict[str, Any] | None:
    if scope is None:
        return None
    attributes = dict(scope.attributes or {}) or None
    return {"name": scope.name} | _present(
        version=scope.version, schema_url=scope.schema_url or None, attributes=attributes
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _counts(**counts: int) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}

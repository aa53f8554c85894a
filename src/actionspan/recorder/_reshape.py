"""What a replay may change of an event before it becomes a span: content, times, ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from actionspan.telemetry import names

__all__ = ["Reshape", "shifted", "with_new_ids", "without_content"]

Reshape = Callable[[dict[str, Any]], dict[str, Any]]

_LOW: Final = 2**64 - 1
_TIMES: Final = ("time_unix_nano", "start_time_unix_nano", "end_time_unix_nano")
_ERROR_TEXT: Final = frozenset({names.EXCEPTION_MESSAGE, names.EXCEPTION_STACKTRACE})
_ID_ATTRIBUTES: Final = (names.ACTION_ID, names.PARENT_ACTION_ID, names.RUN_ACTION_ID)


def without_content(event: dict[str, Any]) -> dict[str, Any]:
    """`event` as mode `metadata` would have recorded it: no content, no error text."""
    changed = {name: value for name, value in event.items() if name != "content"}
    changed["attributes"] = _metadata(event.get("attributes", {}))
    changed["status"] = {name: value for name, value in event.get("status", {}).items() if name != "description"}
    for group in ("events", "links"):
        if group in event:
            changed[group] = [item | {"attributes": _metadata(item.get("attributes", {}))} for item in event[group]]
    return changed


def _metadata(attributes: Mapping[str, Any]) -> dict[str, Any]:
    hidden = names.CONTENT_ATTRIBUTES | _ERROR_TEXT
    return {name: value for name, value in attributes.items() if name not in hidden}


def shifted(event: dict[str, Any], nanoseconds: int) -> dict[str, Any]:
    """`event` at another time."""
    changed = dict(event)
    for name in _TIMES:
        if name in event:
            changed[name] = event[name] + nanoseconds
    if "events" in event:
        changed["events"] = [
            item | {"time_unix_nano": item["time_unix_nano"] + nanoseconds} for item in event["events"]
        ]
    return changed


def with_new_ids(event: dict[str, Any], salt: str) -> dict[str, Any]:
    """`event` in another trace, derived from its own and `salt`, with a link to the original."""
    old_trace, new_trace = event["trace_id"], _derived(salt, event["trace_id"], 32)
    changed = event | {"trace_id": new_trace, "span_id": _derived(salt, event["span_id"], 16)}
    if "parent_span_id" in event:
        changed["parent_span_id"] = _derived(salt, event["parent_span_id"], 16)
    attributes = dict(event.get("attributes", {}))
    for name in _ID_ATTRIBUTES:
        if name in attributes:
            attributes[name] = _derived_action(salt, attributes[name], old_trace, new_trace)
    if names.ROOT_ACTION_ID in attributes:
        attributes[names.ROOT_ACTION_ID] = str(UUID(new_trace))
    changed["attributes"] = attributes
    original = {"trace_id": old_trace, "span_id": event["span_id"], "flags": event.get("flags", 0)}
    changed["links"] = [*event.get("links", ()), original | {"attributes": {names.LINK: "replay_of"}}]
    return changed


def _derived(salt: str, old: str, digits: int) -> str:
    return hashlib.sha256(f"{salt}:{old}".encode()).hexdigest()[:digits]


def _derived_action(salt: str, old: Any, old_trace: str, new_trace: str) -> Any:
    """The id of the same action in the new trace; one that is not made of this trace's id stays."""
    try:
        value = UUID(old).int
    except (ValueError, AttributeError, TypeError):
        return old
    if value >> 64 != int(old_trace, 16) & _LOW:
        return old
    span_id = _derived(salt, f"{value & _LOW:016x}", 16)
    return str(UUID(int=((int(new_trace, 16) & _LOW) << 64) | int(span_id, 16)))

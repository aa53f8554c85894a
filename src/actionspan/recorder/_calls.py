"""Which calls of a record have begun and not ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from actionspan.vocabulary import ActionPhase

__all__ = ["Call", "OpenCalls", "call_key"]

Call = tuple[str, str]
"""Trace id and span id, or an empty string and the call id."""

_KEPT: Final = (
    "kind",
    "name",
    "agent_id",
    "call_id",
    "trace_id",
    "span_id",
    "run_action_id",
    "conversation_id",
    "timestamp",
    "time_unix_nano",
)
"""What is remembered of a start: a record may have many that never end, and content is large."""


def call_key(event: dict[str, Any]) -> Call | None:
    """Which call an event with a phase belongs to; None for other events."""
    if event.get("phase") is None:
        return None
    trace_id, span_id, call_id = event.get("trace_id"), event.get("span_id"), event.get("call_id")
    if isinstance(trace_id, str) and isinstance(span_id, str):
        return trace_id, span_id
    return ("", call_id) if isinstance(call_id, str) else None


@dataclass(slots=True)
class OpenCalls:
    """Follows the events of each writer, in the order of the record. Only the process that began a call ends it."""

    open: dict[str, dict[Call, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    """By writer: who and what of the start events without a terminal so far."""
    last: dict[str, int] = field(default_factory=dict[str, int])
    """By writer: the time of its last event, in nanoseconds."""

    def note(self, writer: str, event: dict[str, Any]) -> None:
        """Take an event into account."""
        self.last[writer] = max(self.last.get(writer, 0), event["time_unix_nano"])
        key = call_key(event)
        if key is None:
            return
        if event["phase"] == ActionPhase.START.value:
            self.open[writer][key] = {name: event[name] for name in _KEPT if name in event}
        else:
            self.open[writer].pop(key, None)

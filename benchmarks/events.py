"""Events as agents make them, for the recorder's benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from actionspan.recorder import JsonlRecorder

__all__ = ["AGENTS", "application_event", "events", "fill"]

AGENTS: Final = 500
"""Agents that take turns: a query for one of them finds one line in so many."""
_ORIGIN: Final = {
    "resource": {"attributes": {"service.name": "benchmarks", "telemetry.sdk.name": "opentelemetry"}},
    "scope": {"name": "actionspan", "version": "0"},
}
_BEGIN: Final = 1_700_000_000 * 10**9


def application_event() -> dict[str, Any]:
    """An event of an application's own: its line is 1 KB."""
    return {
        "kind": "hook_start",
        "agent_id": "agent-001",
        "call_id": "call-0000000001",
        "hook_name": "before_tool_call",
        "plugin_name": "limits",
        "metadata": {f"field_{number}": "value of the field".ljust(62, ".") for number in range(10)} | {"depth": 3},
    }


def events(count: int) -> Iterator[dict[str, Any]]:
    """Starts and ends of tool calls, about 1.4 KB each, in the shape the span processor gives a recorder."""
    for number in range(count):
        action, ended = divmod(number, 2)
        run, agent = action // 10, f"agent-{action % AGENTS:03d}"
        trace_id, span_id = f"{run:032x}", f"{action:016x}"
        action_id = f"{run:08x}-0000-4000-8000-{action:012x}"
        moment = _BEGIN + number * 1_000_000
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "distance",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": f"call-{action}",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": action_id,
            "actionspan.run_id": action_id,
            "actionspan.step": 1,
            "actionspan.namespace": "tool",
            "actionspan.operation": "execute",
            "actionspan.attempt": 1,
            "actionspan.parent_action_id": action_id,
        }
        event = {
            "kind": "tool.execute.end" if ended else "tool.execute.start",
            "time_unix_nano": moment,
            "phase": "end" if ended else "start",
            "trace_id": trace_id,
            "span_id": span_id,
            "parent_span_id": trace_id[:16],
            "agent_id": agent,
            "call_id": action_id,
            "action_id": action_id,
            "root_action_id": action_id,
            "parent_action_id": action_id,
            "run_action_id": action_id,
            "run_id": action_id,
            "conversation_id": action_id,
            "namespace": "tool",
            "operation": "execute",
            "attempt": 1,
            "step": 1,
            "name": "distance",
            "span_name": "execute_tool distance",
            "span_kind": "INTERNAL",
            "start_time_unix_nano": moment - ended * 1_000_000,
            "flags": 1,
            "attributes": attributes,
            "resource_scope": _ORIGIN,
        }
        if ended:
            attributes |= {"actionspan.outcome": "success", "actionspan.action_id": action_id}
            event |= {
                "outcome": "success",
                "duration": 0.001,
                "end_time_unix_nano": moment,
                "status": {"code": "UNSET"},
            }
        yield event


def fill(directory: Path, size: int) -> int:
    """Record events to `directory` until it has `size` bytes; how many it took."""
    with JsonlRecorder(directory, durability="batch") as recorder:
        for count, event in enumerate(events(2**40), 1):
            recorder.emit(event)
            if count % 1000 == 0 and recorder.stats().bytes >= size:
                return count
    raise AssertionError("there is no end of events")

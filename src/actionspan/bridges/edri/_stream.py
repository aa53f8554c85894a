"""What an event of EDRI's action stream looks like from here, and what its operations are called on spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from uuid import UUID

from opentelemetry.trace import SpanKind

from actionspan.telemetry.values import clean_name
from actionspan.vocabulary import ActionNamespace

__all__ = ["AgentAction", "Operation", "nanoseconds", "operation_of"]


class AgentAction(Protocol):
    """The fields of EDRI's `AgentAction` event; `phase` and `outcome` are its enums."""

    action_id: UUID
    namespace: str
    operation: str
    phase: Any
    timestamp: datetime
    attempt: int
    parent_action_id: UUID | None
    root_action_id: UUID | None
    duration: float | None
    outcome: Any
    run_id: str | None
    conversation_id: str | None
    edri_event_id: UUID | None
    agent: str | None
    provider: str | None
    framework: str
    model: str | None
    model_version: str | None
    prompt_version: str | None
    output_mode: str | None
    name: str | None
    usage: dict[str, Any] | None
    metadata: dict[str, Any]
    request: Any
    response_data: Any
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Operation:
    """One of EDRI's operations as an action of ours."""

    namespace: str
    operation: str
    verb: str
    """How its span's name begins."""
    kind: SpanKind = SpanKind.INTERNAL
    convention: str | None = None
    """`gen_ai.operation.name`."""
    named: bool = True
    """Whether its name is one that somebody declared, and not an address or what else a peer sent."""

    def span_name(self, name: str | None) -> str:
        """The span's name."""
        return clean_name(self.verb if not name or not self.named else f"{self.verb} {name}")


def _mcp(method: str, *, named: bool = False) -> Operation:
    return Operation(ActionNamespace.MCP, method.replace("/", "."), method, SpanKind.CLIENT, named=named)


_OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("agent", "run"): Operation(ActionNamespace.AGENT, "run", "invoke_agent", convention="invoke_agent"),
    ("model", "request"): Operation(ActionNamespace.MODEL, "request", "chat", SpanKind.CLIENT, "chat"),
    ("tool", "validate"): Operation(ActionNamespace.TOOL, "validate", "validate_tool"),
    ("tool", "execute"): Operation(ActionNamespace.TOOL, "execute", "execute_tool", convention="execute_tool"),
    ("edri", "dispatch"): Operation(ActionNamespace.DISPATCH, "send", "send"),
    ("mcp", "initialize"): _mcp("initialize"),
    ("mcp", "tools.list"): _mcp("tools/list"),
    ("mcp", "tools.call"): _mcp("tools/call", named=True),
    ("mcp", "resources.list"): _mcp("resources/list"),
    ("mcp", "resources.read"): _mcp("resources/read"),
    ("mcp", "prompts.list"): _mcp("prompts/list"),
    ("mcp", "prompts.get"): _mcp("prompts/get", named=True),
}


def operation_of(action: AgentAction) -> Operation:
    """What `action` is here; an application's own namespaces stay as they are."""
    known = _OPERATIONS.get((action.namespace, action.operation))
    return known or Operation(action.namespace, action.operation, action.operation)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(moment: datetime) -> int:
    """`moment` since the epoch, exactly; UTC when it has no zone."""
    since = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000

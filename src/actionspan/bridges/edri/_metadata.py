"""What a span says of an action beside its content: who, what, which attempt, how it ended, at what cost."""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import UUID

from opentelemetry.util.types import AttributeValue

from actionspan.bridges.edri._stream import AgentAction, Operation
from actionspan.telemetry import names
from actionspan.telemetry.operations import Usage
from actionspan.telemetry.values import attribute_table, clean_name
from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome

__all__ = ["attributes_of", "ending_of"]

_UNKNOWN: Final = "unknown"
"""What EDRI puts where an agent's class does not say."""


def attributes_of(action: AgentAction, operation: Operation) -> dict[str, AttributeValue]:
    """The attributes of one event; those of an action's start and terminal make the span's together."""
    return attribute_table(
        {
            names.OPERATION_NAME: _convention(action, operation),
            names.PROVIDER_NAME: _known(action.provider),
            names.AGENT_NAME: None if action.agent is None else clean_name(action.agent),
            names.CONVERSATION_ID: action.conversation_id,
            names.NAMESPACE: operation.namespace,
            names.OPERATION: operation.operation,
            names.ATTEMPT: action.attempt,
            names.ACTION_ID: str(action.action_id),
            names.PARENT_ACTION_ID: _text(action.parent_action_id),
            names.ROOT_ACTION_ID: _text(action.root_action_id),
            # EDRI's root action is the run: there are no others in its trace.
            names.RUN_ACTION_ID: _text(action.root_action_id),
            names.RUN_ID: action.run_id,
            names.FRAMEWORK: action.framework,
            names.MODEL_VERSION: action.model_version,
            names.PROMPT_VERSION: action.prompt_version,
            names.OUTPUT_MODE: _known(action.output_mode),
            names.EDRI_EVENT_ID: _text(action.edri_event_id),
            **_own(action, operation),
        }
    )


def _own(action: AgentAction, operation: Operation) -> dict[str, object]:
    """What actions of this namespace have."""
    name = action.name if operation.named and action.name else None
    metadata = action.metadata
    usage = _usage(action.usage)
    if operation.namespace == ActionNamespace.AGENT:
        return {} if usage is None else usage.of_run()
    if operation.namespace == ActionNamespace.MODEL:
        return {
            names.REQUEST_MODEL: name or action.model,
            names.REQUEST_STREAM: metadata.get("streaming") or None,
            **({} if usage is None else usage.of_request()),
        }
    clean = None if name is None else clean_name(name)
    if operation.namespace == ActionNamespace.TOOL:
        return {
            names.TOOL_NAME: clean,
            names.TOOL_TYPE: "function" if operation.operation == ActionOperation.EXECUTE else None,
            names.TOOL_CALL_ID: metadata.get("tool_call_id"),
            names.TOOL_EXECUTED: _executed(action, operation),
        }
    if operation.namespace == ActionNamespace.MCP:
        kind = names.PROMPT_NAME if action.operation == "prompts.get" else names.TOOL_NAME
        return {names.MCP_METHOD_NAME: operation.verb, kind: clean}
    return {names.NAME: clean, names.EDRI_DISPATCHED_EVENT_ID: metadata.get("dispatched_event_id")}


def _executed(action: AgentAction, operation: Operation) -> bool | None:
    if operation.operation != ActionOperation.EXECUTE or action.outcome is None:
        return None
    return action.outcome.value != ActionOutcome.DEFERRED.value


def _convention(action: AgentAction, operation: Operation) -> str | None:
    # A call to a server's tool is an execution of its own where no tool of the agent made it.
    alone = action.operation == "tools.call" and action.parent_action_id == action.root_action_id
    return "execute_tool" if alone and operation.namespace == ActionNamespace.MCP else operation.convention


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if not usage:
        return None
    details = usage.get("details")
    reasoning = cast("dict[str, Any]", details).get("reasoning_tokens") if isinstance(details, dict) else None
    counted = {
        field: value
        for field, value in (*usage.items(), ("reasoning_tokens", reasoning))
        if field in Usage.__dataclass_fields__ and type(value) is int
    }
    return Usage(**counted)


def ending_of(action: AgentAction) -> dict[str, AttributeValue]:
    """The outcome of a terminal event, with the type of its error."""
    outcome = str(action.outcome.value)
    return attribute_table({names.OUTCOME: outcome, names.ERROR_TYPE: _error_type(outcome, action.error)})


def _error_type(outcome: str, error: dict[str, Any] | None) -> str | None:
    if outcome == ActionOutcome.TIMEOUT.value:
        return "timeout"
    if outcome != ActionOutcome.ERROR.value:
        return None
    error = error or {}
    status = error.get("status_code")
    return str(status) if type(status) is int else _known(error.get("type")) or "_OTHER"


def _known(value: object) -> str | None:
    return value if isinstance(value, str) and value and value != _UNKNOWN else None


def _text(identity: UUID | None) -> str | None:
    return None if identity is None else str(identity)

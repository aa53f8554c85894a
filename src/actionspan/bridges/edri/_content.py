"""The content of an action, as far as the policy admits it: what EDRI captured is cut and redacted once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, cast

from actionspan.bridges.edri._stream import AgentAction, Operation
from actionspan.content import ActionContent
from actionspan.policy import ActionPolicy
from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace

__all__ = ["error_text", "new_content", "request_of", "response_of"]

Message = dict[str, Any]

_CATEGORIES: Final[Mapping[str, tuple[str, str]]] = {
    ActionNamespace.AGENT: ("include_model_requests", "include_model_responses"),
    ActionNamespace.MODEL: ("include_model_requests", "include_model_responses"),
    ActionNamespace.TOOL: ("include_tool_arguments", "include_tool_results"),
    ActionNamespace.MCP: ("include_mcp_requests", "include_mcp_responses"),
    ActionNamespace.DISPATCH: ("include_dispatch_requests", "include_dispatch_responses"),
}
_CUSTOM: Final = ("include_custom_content", "include_custom_content")


def new_content(policy: ActionPolicy, operation: Operation, name: str | None) -> ActionContent:
    """The content of one action, with the budget that its request, response and error share."""
    return ActionContent(
        policy,
        namespace=operation.namespace,
        operation=operation.operation,
        name=name if operation.named else None,
        response_expected=_admits(policy, operation, 1),
    )


def request_of(
    action: AgentAction, operation: Operation, policy: ActionPolicy, content: ActionContent
) -> dict[str, str]:
    """The attribute that holds the request, where there is one and it is admitted."""
    request = action.request
    if request is None or not _admits(policy, operation, 0):
        return {}
    if operation.namespace == ActionNamespace.TOOL:
        return {names.TOOL_CALL_ARGUMENTS: content.value(names.TOOL_CALL_ARGUMENTS, request)}
    messages = list(_asked(request)) if operation.namespace == ActionNamespace.MODEL else None
    if messages:
        return {names.INPUT_MESSAGES: content.messages(names.INPUT_MESSAGES, messages)}
    return {names.REQUEST: content.value(names.REQUEST, request)}


def response_of(
    action: AgentAction, operation: Operation, policy: ActionPolicy, content: ActionContent
) -> dict[str, str]:
    """The attribute that holds the response, where there is one and it is admitted."""
    response = action.response_data
    if response is None or not _admits(policy, operation, 1):
        return {}
    if operation.namespace == ActionNamespace.TOOL:
        return {names.TOOL_CALL_RESULT: content.value(names.TOOL_CALL_RESULT, response, response=True)}
    message = _answered(response) if operation.namespace == ActionNamespace.MODEL else None
    if message is not None:
        return {names.OUTPUT_MESSAGES: content.messages(names.OUTPUT_MESSAGES, [message], response=True)}
    return {names.RESPONSE: content.value(names.RESPONSE, response, response=True)}


def error_text(action: AgentAction, policy: ActionPolicy, content: ActionContent) -> str | None:
    """The message of the error, where it has one and it is admitted."""
    message: Any = None if action.error is None else action.error.get("message")
    if message is None or not policy.include_error_messages:
        return None
    # EDRI keeps an exception's arguments; mostly that is the one message.
    if isinstance(message, list):
        arguments = cast("list[Any]", message)
        message = arguments[0] if len(arguments) == 1 else arguments
    return content.error("status", message) if isinstance(message, str) else content.value("status", message)


def _admits(policy: ActionPolicy, operation: Operation, which: int) -> bool:
    return bool(getattr(policy, _CATEGORIES.get(operation.namespace, _CUSTOM)[which]))


def _asked(request: object) -> Iterator[Message]:
    """EDRI's list of prompt parts as messages; nothing when a redactor made something else of it."""
    parts = [(_role(part), _part(part)) for part in _dicts(request)]
    for role, run in groupby(parts, key=lambda pair: pair[0]):
        yield {"role": role, "parts": [part for _, part in run]}


def _dicts(value: object) -> list[dict[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [] if not all(isinstance(item, dict) for item in items) else cast("list[dict[str, Any]]", items)


def _role(part: Mapping[str, Any]) -> str:
    kind = part.get("kind")
    return _ROLES.get(kind, "user") if isinstance(kind, str) else "user"


_ROLES: Final = {"system-prompt": "system", "user-prompt": "user", "tool-call": "assistant", "tool-return": "tool"}


def _part(part: Mapping[str, Any]) -> Message:
    kind = part.get("kind")
    convert = _PARTS.get(kind) if isinstance(kind, str) else None
    return {"type": "text", "content": part.get("content")} if convert is None else convert(part)


def _call(part: Mapping[str, Any]) -> Message:
    call = {"type": "tool_call", "name": part.get("tool_name"), "arguments": part.get("args")}
    return call if part.get("tool_call_id") is None else {**call, "id": part["tool_call_id"]}


def _returned(part: Mapping[str, Any]) -> Message:
    return {"type": "tool_call_response", "id": part.get("tool_call_id"), "response": part.get("content")}


_PARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], Message]]] = {"tool-call": _call, "tool-return": _returned}


def _answered(response: object) -> Message | None:
    """EDRI's projection of a completion as one message; None when it is something else."""
    if not isinstance(response, dict):
        return None
    completion = cast("dict[str, Any]", response)
    parts: list[Message] = []
    if completion.get("text") is not None:
        parts.append({"type": "text", "content": completion["text"]})
    parts += map(_call, _dicts(completion.get("tool_calls")))
    return {"role": "assistant", "parts": parts} if parts else None

"""The recorded content of one action, as a person would read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from rich.text import Text

from actionspan.cli._actions import ActionNode
from actionspan.cli._screen import Screen
from actionspan.telemetry import names

__all__ = ["content_lines"]

_LONGEST: Final = 400
"""Characters of one line; `query --json` has all of them."""
_LABELS: Final = {
    names.TOOL_CALL_ARGUMENTS: "arguments",
    names.TOOL_CALL_RESULT: "result",
    names.SYSTEM_INSTRUCTIONS: "instructions",
    names.DENIAL: "denied",
    names.REQUEST: "request",
    names.RESPONSE: "response",
    names.INVENTED_TOOL_NAME: "name",
    names.METADATA: "metadata",
    names.MCP_RESOURCE_URI: "uri",
    names.AGENT_DESCRIPTION: "description",
}
"""What each kind of content is called; messages say who speaks, and tool definitions are not shown."""


def content_lines(screen: Screen, node: ActionNode) -> Iterator[Text]:
    """One line for each thing that was said, given or returned."""
    for who, said in _said(node):
        yield Text.assemble(screen.text(who, "dim"), Text(": ", "dim"), screen.text(said, most=_LONGEST))


def _said(node: ActionNode) -> Iterator[tuple[str, str]]:
    content = node.content
    if node.namespace != "model" and names.SYSTEM_INSTRUCTIONS in content:
        yield "instructions", _plain(content[names.SYSTEM_INSTRUCTIONS])
    for message in _news(content.get(names.INPUT_MESSAGES)):
        yield from _message(message)
    for name, label in _LABELS.items():
        if name in content and name != names.SYSTEM_INSTRUCTIONS:
            yield label, _plain(content[name])
    for message in _list(content.get(names.OUTPUT_MESSAGES)):
        yield from _message(message)
    for message in node.messages:
        yield "error", message


def _news(messages: Any) -> list[Any]:
    """What was said since the model last spoke: the rest stands at the requests before."""
    found = _list(messages)
    for position in range(len(found) - 1, -1, -1):
        if _mapping(found[position]).get("role") == "assistant":
            return found[position + 1 :]
    return found


def _message(message: Any) -> Iterator[tuple[str, str]]:
    fields = _mapping(message)
    role = str(fields.get("role", "message"))
    for part in _list(fields.get("parts")):
        yield role, _part(_mapping(part))


def _part(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if kind == "tool_call":
        return f"calls {part.get('name', 'a tool')} {_plain(part.get('arguments'))}"
    if kind == "tool_call_response":
        return f"answer {_plain(part.get('response', part.get('result')))}"
    if kind in ("text", "reasoning") and isinstance(part.get("content"), str):
        return cast(str, part["content"])
    return _plain(part)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}

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
    names.INVENTED_TOOL_NAME: "name",
    names.MCP_RESOURCE_URI: "uri",
    names.AGENT_DESCRIPTION: "description",
    names.CONTROL_DIRECTIVE: "directive",
    names.CONTROL_LABEL: "label",
    names.CONTROL_REASON: "reason",
}
"""What kinds of content are called whose attributes have other names; messages say who speaks."""
_APART: Final = frozenset(
    {names.SYSTEM_INSTRUCTIONS, names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.TOOL_DEFINITIONS}
)
"""Content that has a place of its own; tool definitions are not shown."""


def content_lines(screen: Screen, node: ActionNode) -> Iterator[Text]:
    """One line for each thing that was said, given or returned."""
    for who, said in _said(node):
        words = screen.text(said, most=_LONGEST) if said else Text("(empty)", "italic")
        yield Text.assemble(screen.text(who, "dim"), Text(": ", "dim"), words)


def _said(node: ActionNode) -> Iterator[tuple[str, str]]:
    content = node.content
    if node.namespace != "model" and names.SYSTEM_INSTRUCTIONS in content:
        yield "instructions", _plain(content[names.SYSTEM_INSTRUCTIONS])
    if names.INPUT_MESSAGES in content:
        yield from _messages("prompt", content[names.INPUT_MESSAGES])
    for name, value in content.items():
        if name not in _APART:
            yield _LABELS.get(name) or _words(name), _plain(value)
    if names.OUTPUT_MESSAGES in content:
        yield from _messages("response", content[names.OUTPUT_MESSAGES])
    for message in node.messages:
        yield "error", message


def _words(name: str) -> str:
    return name.removeprefix("gen_ai.").removeprefix("actionspan.").replace(".", " ").replace("_", " ")


def _messages(what: str, messages: Any) -> Iterator[tuple[str, str]]:
    """What was said; of what was said to a model, only what it had not been told before."""
    if not isinstance(messages, list) or not messages:
        yield what, "" if messages in ([], None) else _plain(messages)
        return
    for message in _news(cast("list[Any]", messages)) if what == "prompt" else cast("list[Any]", messages):
        fields = _mapping(message)
        role = str(fields.get("role", "message"))
        parts = _list(fields.get("parts"))
        if not parts:
            yield role, "" if fields.get("parts") in ([], None) and fields else _plain(message)
        for part in parts:
            yield role, _part(_mapping(part))


def _news(messages: list[Any]) -> list[Any]:
    """What was said since the model last spoke: the rest stands at the requests before."""
    for position in range(len(messages) - 1, -1, -1):
        if _mapping(messages[position]).get("role") == "assistant":
            return messages[position + 1 :]
    return messages


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
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

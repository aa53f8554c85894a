"""The library's messages in the GenAI message shape: roles and parts, payloads left for `content` to bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, overload

import msgspec
from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestParameters

from actionspan.content import snapshot, to_json
from actionspan.policy import ActionPolicy, NormalizationLimits
from actionspan.pydantic_ai.declared_secrets import DeclaredSecrets

__all__ = [
    "MessageView",
    "arguments_of",
    "definitions",
    "instructions",
    "message_of_output",
    "message_of_response",
    "parts_of_prompt",
]

MAX_PARSED: Final = 256 * 1024
"""Characters of a tool call's raw arguments that are parsed; longer ones stay the string they are."""

_DETAILS: Final = NormalizationLimits(max_string_characters=MAX_PARSED, max_total_bytes=MAX_PARSED)
"""Of an error's details: far more than is kept of them, so that a redactor sees them whole."""

Part = dict[str, Any]
Message = dict[str, Any]
Secrets = Mapping[str, DeclaredSecrets]
"""By name of the tool whose arguments they are."""

_NO_SECRETS: Final[Secrets] = {}


class MessageView(Sequence[Mapping[str, Any]]):
    """A history as GenAI messages, each converted only when it is looked at.

    A request of the library may hold parts of several roles, so it may be several messages here. What an action may
    carry is bounded, so most of a long history is never looked at.
    """

    def __init__(self, history: Sequence[m.ModelMessage], secrets: Secrets = _NO_SECRETS) -> None:
        self._secrets = secrets
        self._history = history
        self._length = sum(_messages_of(message) for message in history)
        self._unread = len(history)
        """Of the history, what is older than the runs."""
        self._runs: list[tuple[str, Sequence[Any]]] = []
        """Those looked at so far, the newest first."""

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        places = range(self._length)[index]
        return self._at(places) if isinstance(places, int) else [self._at(place) for place in places]

    def _at(self, place: int) -> Message:
        from_end = self._length - 1 - place
        while len(self._runs) <= from_end:
            self._unread -= 1
            self._runs += reversed(_runs(self._history[self._unread]))
        role, parts = self._runs[from_end]
        return {"role": role, "parts": [part for source in parts for part in _parts(source, self._secrets)]}


def message_of_response(response: m.ModelResponse, secrets: Secrets = _NO_SECRETS) -> Message:
    """A model's answer as one assistant message."""
    parts = [part for source in response.parts for part in _parts(source, secrets)]
    message: Message = {"role": "assistant", "parts": parts}
    if response.finish_reason is not None:
        message["finish_reason"] = response.finish_reason
    return message


def message_of_output(output: object, policy: ActionPolicy) -> Message:
    """A run's final output as one assistant message; structured output as the JSON text it amounts to."""
    shown = output if isinstance(output, str) else snapshot(output, policy.limits)
    if isinstance(output, str) or (policy.redactor is not None and isinstance(shown, (dict, list))):
        # What a redactor is to see must not be cut before: structure becomes text only when it has seen all of it.
        content = output
    else:
        content = to_json(shown)
    return {"role": "assistant", "parts": [{"type": "text", "content": content}]}


def arguments_of(args: object) -> object:
    """A tool call's arguments as a structure; the string they came as when that is not JSON."""
    if type(args) is not str or len(args) > MAX_PARSED:
        return args
    try:
        return msgspec.json.decode(args)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return args


def parts_of_prompt(prompt: str | Sequence[m.UserContent]) -> list[Part]:
    """A user prompt's parts."""
    if isinstance(prompt, str):
        return [{"type": "text", "content": prompt}]
    return [part for item in prompt for part in _user_content(item)]


def instructions(history: Sequence[m.ModelMessage], parameters: ModelRequestParameters) -> list[Part]:
    """The instructions that go with a request, beside its messages."""
    parts = parameters.instruction_parts
    if parts is not None:
        return [{"type": "text", "content": part.content} for part in parts]
    for message in reversed(history):
        if isinstance(message, m.ModelRequest):
            return [] if message.instructions is None else [{"type": "text", "content": message.instructions}]
    return []


def definitions(parameters: ModelRequestParameters) -> list[Mapping[str, Any]]:
    """The tools offered to the model."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters_json_schema,
        }
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]


def _messages_of(message: m.ModelMessage) -> int:
    """How many messages it is here."""
    return 1 if len(message.parts) == 1 or isinstance(message, m.ModelResponse) else len(_runs(message))


def _runs(message: m.ModelMessage) -> list[tuple[str, Sequence[Any]]]:
    """Its parts with their role; of a request, neighbouring parts of one role together."""
    if isinstance(message, m.ModelResponse):
        return [("assistant", message.parts)]
    if len(message.parts) == 1:
        return [(_role(message.parts[0]), message.parts)]
    return [(role, list(parts)) for role, parts in groupby(message.parts, _role)]


def _role(part: Any) -> str:
    return _ROLES.get(part.part_kind, "user")


_ROLES: Final = {
    "system-prompt": "system",
    "instruction-delta": "system",
    "instruction-baseline": "system",
    "tool-availability-delta": "system",
    "capability-load-delta": "system",
    "model-settings-delta": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "speech": "user",
}


def _parts(part: Any, secrets: Secrets) -> Sequence[Part]:
    """One part of the library as the parts it is here; a kind we do not know is left out but named."""
    convert = _CONVERTERS.get(part.part_kind)
    if convert is None:
        return [{"type": "omitted", "kind": part.part_kind}]
    declared = secrets.get(getattr(part, "tool_name", None) or "") if secrets else None
    if declared is None or getattr(part, "outcome", "retried") != "retried":
        return convert(part)
    return [declared.hide_in_part(shown) for shown in convert(part)]


def _text(part: Any) -> Sequence[Part]:
    """A text; JSON text where it is what was wrong with an output; nothing where an instruction was withdrawn."""
    content = part.content
    if content is None:
        return []
    return [{"type": "text", "content": content if isinstance(content, str) else to_json(snapshot(content, _DETAILS))}]


def _user_prompt(part: m.UserPromptPart) -> Sequence[Part]:
    return parts_of_prompt(part.content)


def _thinking(part: m.ThinkingPart) -> Sequence[Part]:
    return [{"type": "reasoning", "content": part.content}]


def _tool_call(part: m.ToolCallPart) -> Sequence[Part]:
    return [
        {"type": "tool_call", "id": part.tool_call_id, "name": part.tool_name, "arguments": arguments_of(part.args)}
    ]


def _tool_return(part: m.ToolReturnPart) -> Sequence[Part]:
    return [{"type": "tool_call_response", "id": part.tool_call_id, "response": part.content}]


def _retry_prompt(part: Any) -> Sequence[Part]:
    """The deprecated shape of a retry, which old histories still hold."""
    if part.tool_name is None:
        return _text(part)
    return [{"type": "tool_call_response", "id": part.tool_call_id, "response": part.content}]


def _server_call(part: m.NativeToolCallPart) -> Sequence[Part]:
    call = {"type": part.tool_name, "arguments": arguments_of(part.args)}
    return [{"type": "server_tool_call", "id": part.tool_call_id, "name": part.tool_name, "server_tool_call": call}]


def _server_return(part: m.NativeToolReturnPart) -> Sequence[Part]:
    answer = {"type": part.tool_name, "response": part.content}
    return [{"type": "server_tool_call_response", "id": part.tool_call_id, "server_tool_call_response": answer}]


def _file(part: m.FilePart) -> Sequence[Part]:
    return [_omitted(part.content.media_type)]


def _speech(part: m.SpeechPart) -> Sequence[Part]:
    parts: list[Part] = []
    if part.transcript is not None:
        parts.append({"type": "text", "content": part.transcript})
    if part.audio is not None:
        parts.append(_omitted(part.audio.media_type))
    return parts


def _compaction(part: m.CompactionPart) -> Sequence[Part]:
    return [{"type": "compaction", "content": part.content}]


_CONVERTERS: Final[dict[str, Callable[[Any], Sequence[Part]]]] = {
    "system-prompt": _text,
    "user-prompt": _user_prompt,
    "text": _text,
    "thinking": _thinking,
    "tool-call": _tool_call,
    "tool-return": _tool_return,
    "retry-prompt": _retry_prompt,
    "retry-feedback": _text,
    "instruction-delta": _text,
    "builtin-tool-call": _server_call,
    "builtin-tool-return": _server_return,
    "file": _file,
    "speech": _speech,
    "compaction": _compaction,
}


def _user_content(item: Any) -> Sequence[Part]:
    if isinstance(item, str):
        return [{"type": "text", "content": item}]
    if isinstance(item, m.TextContent):
        return [{"type": "text", "content": item.content}]
    if isinstance(item, m.FileUrl):
        modality = _MODALITIES.get(type(item), "document")
        return [{"type": "uri", "modality": modality, "mime_type": _media_type(item), "uri": item.url}]
    if isinstance(item, m.BinaryContent):
        return [_omitted(item.media_type)]
    if isinstance(item, m.UploadedFile):
        media_type = _media_type(item)
        return [{"type": "file", "modality": _modality(media_type), "mime_type": media_type, "file_id": item.file_id}]
    return []  # a cache point says nothing to the model


_MODALITIES: Final[dict[type[m.FileUrl], str]] = {m.ImageUrl: "image", m.AudioUrl: "audio", m.VideoUrl: "video"}


def _media_type(item: Any) -> str | None:
    """What the item says of its type; a type that only its URL's ending would tell is left out."""
    try:
        return item.media_type
    except ValueError:
        return None


def _omitted(media_type: str | None) -> Part:
    return {"type": "omitted", "modality": _modality(media_type), "mime_type": media_type}


def _modality(media_type: str | None) -> str:
    kind = (media_type or "").partition("/")[0]
    return kind if kind in ("image", "audio", "video", "text") else "document"

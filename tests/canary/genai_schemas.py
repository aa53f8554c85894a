"""The JSON shapes of GenAI content attributes, written from OpenTelemetry's published definitions.

Source: `model/gen-ai/gen-ai-{input-messages,output-messages,system-instructions,tool-definitions}.json` of
open-telemetry/semantic-conventions-genai at 2b902ce (no package carries them). Stricter in one thing: a part that calls
itself by a type they define has to be of that type, where they would also let it pass as one of a type to come.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from jsonschema import Draft7Validator

Schema = dict[str, Any]
TEXT: Final[Schema] = {"type": "string"}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
ANYTHING: Final[Schema] = {}
MEDIA: Final[Schema] = {"modality": TEXT, "mime_type": TEXT_OR_NULL, "transcript": TEXT_OR_NULL}


def one_with(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


SERVER_TOOL: Final = one_with(["type"], type=TEXT)
PARTS: Final[dict[str, Schema]] = {
    "text": one_with(["content"], content=TEXT),
    "reasoning": one_with(["content"], content=TEXT),
    "compaction": one_with([], id=TEXT_OR_NULL, content=TEXT_OR_NULL),
    "tool_call": one_with(["name"], name=TEXT, id=TEXT_OR_NULL, arguments=ANYTHING),
    "tool_call_response": one_with(["response"], id=TEXT_OR_NULL, response=ANYTHING),
    "server_tool_call": one_with(
        ["name", "server_tool_call"], name=TEXT, id=TEXT_OR_NULL, server_tool_call=SERVER_TOOL
    ),
    "server_tool_call_response": one_with(
        ["server_tool_call_response"], id=TEXT_OR_NULL, server_tool_call_response=SERVER_TOOL
    ),
    "blob": one_with(["modality", "content"], content=TEXT, **MEDIA),
    "file": one_with(["modality", "file_id"], file_id=TEXT, **MEDIA),
    "uri": one_with(["modality", "uri"], uri=TEXT, **MEDIA),
}


def parts_of(known: dict[str, Schema]) -> Schema:
    """A list of parts: each names its type, and one whose type is known is of that type."""
    rules = [
        {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": shape}
        for name, shape in known.items()
    ]
    return {"type": "array", "items": {**one_with(["type"], type=TEXT), "allOf": rules}}


def messages(**further: Schema) -> Schema:
    message = one_with(["role", "parts"], role=TEXT, name=TEXT_OR_NULL, parts=parts_of(PARTS), **further)
    return {"type": "array", "items": message}


FUNCTION: Final = one_with(
    ["name"],
    name=TEXT,
    description=TEXT_OR_NULL,
    parameters={"anyOf": [{"$ref": "http://json-schema.org/draft-07/schema#"}, {"type": "null"}]},
)
TOOL_DEFINITIONS: Final[Schema] = {
    "type": "array",
    "items": {
        **one_with(["type", "name"], type=TEXT, name=TEXT),
        "if": {"properties": {"type": {"const": "function"}}},
        "then": FUNCTION,
    },
}

VALIDATORS: Final = {
    "gen_ai.input.messages": Draft7Validator(messages()),
    "gen_ai.output.messages": Draft7Validator(messages(finish_reason=TEXT_OR_NULL)),
    "gen_ai.system_instructions": Draft7Validator(parts_of({"text": PARTS["text"]})),
    "gen_ai.tool.definitions": Draft7Validator(TOOL_DEFINITIONS),
}


def parts_of_util_genai(types: ModuleType) -> dict[str, type[Any]]:
    """The part classes of `opentelemetry-util-genai`, by type: a second statement of the same definitions."""
    classes = [found for name, found in vars(types).items() if name.endswith("Part") and isinstance(found, type)]
    return {found.type: found for found in classes if isinstance(getattr(found, "type", None), str)}

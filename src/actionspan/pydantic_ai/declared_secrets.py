"""Arguments that a tool declares secret: a model writes them as plain text, and the tool's schema says where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from actionspan.redact import SECRET

__all__ = ["DeclaredSecrets", "secrets_of", "secrets_of_tool"]

_JSON: Final = (str, int, float, bool, list, dict)
_DEEPEST: Final = 64
_MOST_SCHEMAS: Final = 1024

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredSecrets:
    """The secrets of one tool: what its schema marks as a password or as only written, as `SecretStr` is."""

    schema: Schema

    def hide(self, arguments: object) -> object:
        """`arguments` with every secret replaced. Text that is no JSON object cannot be told apart: all of it is."""
        if arguments is not None and type(arguments) is not dict:
            return SECRET
        return self._hide(cast("object", arguments), self.schema, 0)

    def hide_in_part(self, part: dict[str, Any]) -> dict[str, Any]:
        """A message part of a call, or of the answer that says why its arguments were rejected and quotes them."""
        if "arguments" in part:
            return part | {"arguments": self.hide(part["arguments"])}
        response = part.get("response")
        if type(response) is list and all(type(item) is dict for item in cast("list[object]", response)):
            return part | {"response": [_without_input(item) for item in cast("list[dict[str, Any]]", response)]}
        return part

    def _hide(self, value: object, schema: object, depth: int, *, closed: bool = True) -> object:
        """`closed`: a field that the schema does not have is hidden, too; it is not when another schema may have it."""
        if value is None:
            return None
        if schema is False:
            # The model made this field up, perhaps to put a secret there; what is no JSON was not written by it.
            return SECRET if type(value) in _JSON else value
        if not isinstance(schema, Mapping):
            return value
        schema = cast("Schema", schema)
        if depth > _DEEPEST or _is_secret(schema):
            return SECRET
        for other, alone in self._others(schema):
            value = self._hide(value, other, depth + 1, closed=closed and alone)
        if type(value) is dict:
            fields = cast("dict[str, Any]", value)
            return {
                name: self._hide(item, _schema_of_field(schema, name, closed), depth + 1)
                for name, item in fields.items()
            }
        if type(value) is list:
            items = cast("list[Any]", value)
            return [self._hide(item, _schema_of_item(schema, place), depth + 1) for place, item in enumerate(items)]
        return value

    def _others(self, schema: Schema) -> list[tuple[object, bool]]:
        """The other schemas that hold for the same value, and whether one is the only one that does."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return [(self.schema.get("$defs", {}).get(reference.rpartition("/")[2]), True)]
        several = [other for name in ("anyOf", "oneOf", "allOf") for other in schema.get(name, ())]
        something = [other for other in several if other != {"type": "null"}]
        return [(other, len(something) == 1) for other in something]


def secrets_of(parameters: ModelRequestParameters | None) -> dict[str, DeclaredSecrets]:
    """The secrets of the tools that a model is offered, by name of the tools that have some."""
    if parameters is None:
        return {}
    tools = (*parameters.function_tools, *parameters.output_tools)
    return {tool.name: secrets for tool in tools if (secrets := secrets_of_tool(tool)) is not None}


def secrets_of_tool(tool: ToolDefinition | None) -> DeclaredSecrets | None:
    """The secrets of `tool`; None when it declares none."""
    if tool is None:
        return None
    schema = tool.parameters_json_schema
    known = _known.get(id(schema))
    if known is None:
        if len(_known) >= _MOST_SCHEMAS:
            _known.clear()
        # The schema is kept, so its identity is not reused.
        known = _known[id(schema)] = (schema, DeclaredSecrets(schema) if _declares_secret(schema, 0) else None)
    return known[1]


_known: Final[dict[int, tuple[Schema, DeclaredSecrets | None]]] = {}


def _declares_secret(schema: object, depth: int) -> bool:
    if depth > _DEEPEST:
        return True
    if isinstance(schema, Mapping):
        table = cast("Schema", schema)
        return _is_secret(table) or any(_declares_secret(item, depth + 1) for item in table.values())
    if isinstance(schema, list):
        return any(_declares_secret(item, depth + 1) for item in cast("list[object]", schema))
    return False


def _is_secret(schema: Schema) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _schema_of_field(schema: Schema, name: str, closed: bool) -> object:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return schema.get("additionalProperties")
    if name in properties:
        return cast("Schema", properties)[name]
    return schema.get("additionalProperties", False) if closed else None


def _schema_of_item(schema: Schema, place: int) -> object:
    first = schema.get("prefixItems", ())
    return first[place] if place < len(first) else schema.get("items")


def _without_input(error: dict[str, Any]) -> dict[str, Any]:
    """An error's details without the rejected input they quote."""
    return error | {"input": SECRET} if "input" in error else error

"""Metadata values made fit for a span: bounded, valid UTF-8, never `None`, never a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace

__all__ = ["attribute_table", "clean_name", "declared_name", "mended"]

MAX_NAME = 128
"""Characters of a span name or of a name in one."""
MAX_METADATA = 1024
"""Characters of one metadata string. Ids and model names may come from a provider, so they are bounded too."""

_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def mended(text: str) -> str:
    """`text` with lone surrogates replaced, which no exporter could encode."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def clean_name(name: str) -> str:
    """`name` as part of a span name: at most 128 characters, control and direction characters replaced."""
    name = name[:MAX_NAME]
    return name if name.isascii() and name.isprintable() else _control.sub("\ufffd", mended(name))


_DECLARED_BY: Final = {
    ActionNamespace.AGENT: names.AGENT_NAME,
    ActionNamespace.MODEL: names.REQUEST_MODEL,
    ActionNamespace.TOOL: names.TOOL_NAME,
    ActionNamespace.MCP: names.TOOL_NAME,
}


def declared_name(namespace: str, attributes: Mapping[str, AttributeValue]) -> str | None:
    """The declared name of an action with these attributes: the agent's, the model's, the tool's, its own."""
    name = attributes.get(_DECLARED_BY.get(namespace, names.NAME))
    return name if isinstance(name, str) else None


def attribute_table(table: Mapping[str, object]) -> dict[str, AttributeValue]:
    """The attributes of `table` that a span may carry: `None` and anything that is no attribute value left out."""
    attributes: dict[str, AttributeValue] = {}
    for key, value in table.items():
        kind = type(value)
        if kind is str:
            attributes[key] = _bounded(value)  # type: ignore[arg-type] # its type was just compared
        elif kind is int or kind is bool or kind is float:
            attributes[key] = value  # type: ignore[assignment] # its type was just compared
        elif kind is list or kind is tuple:
            attributes[key] = tuple(_strings(value))  # type: ignore[arg-type] # its type was just compared
    return attributes


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_METADATA and text.isascii() else mended(text[:MAX_METADATA])


def _strings(values: Iterable[object]) -> Iterable[str]:
    return (_bounded(value) for value in values if type(value) is str)

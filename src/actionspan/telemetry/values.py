"""Metadata values made fit for a span: bounded, valid UTF-8, never `None`, never a mapping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast
from urllib.parse import urlsplit

from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace

__all__ = ["add_attributes", "attribute_table", "clean_name", "declared_name", "mended", "server_of"]

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
    add_attributes(attributes, table)
    return attributes


def add_attributes(attributes: dict[str, AttributeValue], table: Mapping[str, object]) -> None:
    """Add those of `table` to `attributes`."""
    for key, value in table.items():
        if value is None:
            continue
        if type(value) is str:
            plain = len(value) <= MAX_METADATA and value.isascii()
            attributes[key] = value if plain else mended(value[:MAX_METADATA])
        elif type(value) is int or type(value) is bool or type(value) is float:
            attributes[key] = value
        elif type(value) is list or type(value) is tuple:
            attributes[key] = tuple(_strings(cast("Sequence[object]", value)))


def _strings(values: Iterable[object]) -> Iterable[str]:
    return (mended(value[:MAX_METADATA]) for value in values if type(value) is str)


def server_of(url: str | None) -> tuple[str | None, int | None]:
    """Host and port of a URL. Raises `ValueError` for what is none."""
    if not url:
        return None, None
    parts = urlsplit(url)
    return parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)

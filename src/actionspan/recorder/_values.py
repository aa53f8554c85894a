"""Values as JSON can carry them, and back.

What JSON has no form for becomes a mapping of one key, its type tag: `{"$float":"nan"}`, `{"$bytes":"<base64>"}`,
`{"$str":"<base64>"}` for text with lone surrogates, `{"$map":[[key,value],...]}` for keys that are not strings (or that
look like a tag), and `{"$object":"module.Class"}` for anything else: an object's own code is never run to describe it.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from pathlib import PurePath
from types import NoneType
from typing import Any, Final, cast
from uuid import UUID

from actionspan import guard

__all__ = ["PLAIN", "jsonable", "restored", "without_surrogates"]

PLAIN: Final = frozenset({str, int, bool, NoneType})
"""Types that the encoder writes as they are."""
_MAX_DEPTH: Final = 64
"""Deeper nesting (or a cycle) is cut: JSON readers recurse."""


def jsonable(value: Any, depth: int = 0) -> Any:
    """`value` made of types the encoder writes, with tags for what JSON lacks. Never raises."""
    kind = cast("type[Any]", type(value))
    if kind in PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if depth >= _MAX_DEPTH:
        return {"$object": "nested too deeply"}
    if kind is dict:
        return _mapping(value, depth)
    if kind is list or kind is tuple:
        return _sequence(value, depth)
    return guard.call("recorder", lambda: _unusual(value, depth), {"$object": "unreadable"})


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    looks_like_tag = len(value) == 1 and str(next(iter(value))).startswith("$")
    if looks_like_tag or not all(type(key) is str for key in value):
        return {"$map": [[jsonable(key, depth + 1), jsonable(item, depth + 1)] for key, item in value.items()]}
    return {key: item if type(item) in PLAIN else jsonable(item, depth + 1) for key, item in value.items()}


def _sequence(value: Sequence[Any], depth: int) -> list[Any]:
    return [item if type(item) in PLAIN else jsonable(item, depth + 1) for item in value]


def _unusual(value: Any, depth: int) -> Any:
    """Subclasses lose their class, well-known types become text, the rest a marker."""
    if isinstance(value, Enum):
        return jsonable(value.value, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return jsonable(float.__pos__(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": b64encode(cast(bytes, value)).decode()}
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[Any, Any]", value), depth)
    if isinstance(value, Sequence):
        return _sequence(cast("Sequence[Any]", value), depth)
    return {"$object": f"{type(value).__module__}.{type(value).__qualname__}"}


def without_surrogates(value: Any) -> Any:
    """A `jsonable` value with text that UTF-8 cannot carry tagged; in keys it is escaped."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"$str": b64encode(value.encode("utf-8", "surrogatepass")).decode()}
        return value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key.encode("utf-8", "backslashreplace").decode(): without_surrogates(item) for key, item in items}
    if isinstance(value, list):
        return [without_surrogates(item) for item in cast("list[Any]", value)]
    return value


def restored(value: Any) -> Any:
    """The inverse of `jsonable` on decoded JSON, as far as there is one; markers stay."""
    if isinstance(value, list):
        return [restored(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Any]", value)
    if len(mapping) == 1:
        ((tag, content),) = mapping.items()
        if tag == "$float":
            return float(content)
        if tag == "$bytes":
            return b64decode(content)
        if tag == "$str":
            return b64decode(content).decode("utf-8", "surrogatepass")
        if tag == "$map":
            return {_key(key): restored(item) for key, item in content}
    return {key: restored(item) for key, item in mapping.items()}


def _key(key: Any) -> Any:
    """A restored key; a sequence can only be a key as a tuple."""
    key = restored(key)
    return tuple(cast("list[Any]", key)) if isinstance(key, list) else key

"""JSON text of JSON values, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
"""Compact UTF-8. Raises `UnicodeEncodeError` for a lone surrogate. NaN never gets here: it is a marker by then."""


def to_json(value: Any) -> str:
    """Compact JSON text of a value made of JSON types only, such as `snapshot` returns."""
    return encode(value).decode()

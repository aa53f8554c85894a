"""From the text a model wrote to an envelope: strict JSON, at most one wrapper, else the text itself as content."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, cast

from actionspan.envelope._fields import ERROR_PREFIX, validate_envelope

__all__ = ["EnvelopeResult", "Recovered", "parse_envelope"]

Recovered = Literal["strict", "string", "fence", "raw"]
"""What the text was: JSON as asked for, that in a JSON string or a code fence, or anything else."""

EMPTY: Final = "empty"
"""The error of an answer with nothing in it."""

_FENCE: Final = "```"
_BYTE_ORDER_MARK: Final = "\ufeff"
_MAX_DEPTH: Final = 200
"""Levels of nesting. Fixed, since the interpreter's own limit depends on who calls, and well below it: whoever copies
an envelope recursively, as Pydantic AI does with a streamed output, needs more of the stack than the parser did."""
_MAX_DIGITS: Final = 4300
"""Digits of an integer: the interpreter's default, whatever this process allows, since its cost is their square."""


@dataclass(frozen=True, slots=True)
class EnvelopeResult:
    """What `parse_envelope` made of a text: an envelope or an error, one of them None."""

    envelope: dict[str, Any] | None
    error: str | None = None
    """"empty", or `ENVELOPE_ERROR: ` and the validator's message. Content, like the answer it is about."""
    recovered: Recovered | None = None
    """The step that made it; None for an empty answer."""

    @property
    def feedback(self) -> str | None:
        """What to tell the model that wrote it; None when it wrote an envelope, or what stands for one."""
        return f"{ERROR_PREFIX}the answer is empty" if self.error == EMPTY else self.error


def parse_envelope(raw: str | None) -> EnvelopeResult:
    """The envelope that `raw` is, or as whose content it stands.

    Total and linear in the text's length: nothing that a model can write raises. Raises `TypeError` when `raw` is no
    text at all.
    """
    if raw is None:
        return EnvelopeResult(None, EMPTY)
    if not isinstance(raw, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers are not all typed
        raise TypeError(f"parse_envelope() takes text or None, not {type(raw).__name__}")
    text = _stripped(raw)
    if not text:
        return EnvelopeResult(None, EMPTY)
    document = _parsed(text)
    result = _accepted(document, raw, "strict")
    if result is None and isinstance(document.value, str):
        result = _accepted(_parsed(_stripped(document.value)), raw, "string")
    elif result is None:
        fenced = _inside_fence(text)
        result = None if fenced is None else _accepted(_parsed(_stripped(fenced)), raw, "fence")
    return result or EnvelopeResult({"status": "ok", "content": raw}, recovered="raw")


@dataclass(frozen=True, slots=True)
class _Document:
    """A text as JSON."""

    value: Any
    ambiguous: bool = False
    """Its outermost object has more than one status."""


NOT_JSON: Final[Any] = object()


def _accepted(document: _Document, raw: str, recovered: Recovered) -> EnvelopeResult | None:
    """What an object or an array amounts to; None for anything else."""
    value = document.value
    if type(value) is list:
        return EnvelopeResult({"status": "ok", "iteration": cast("list[Any]", value)}, recovered=recovered)
    if type(value) is not dict:
        return None
    value = cast("dict[str, Any]", value)
    if document.ambiguous:
        return EnvelopeResult(None, f"{ERROR_PREFIX}status is there more than once", recovered)
    if "status" not in value:
        return EnvelopeResult({"status": "ok", "content": raw}, recovered=recovered)
    error = validate_envelope(value)
    return EnvelopeResult(value if error is None else None, error, recovered)


def _inside_fence(text: str) -> str | None:
    """What is between the lines of a code fence that is all of `text`, or None when it is no such thing."""
    start, end = text.find("\n"), text.rfind("\n")
    if not text.startswith(_FENCE) or start < 0 or text[end:].strip() != _FENCE:
        return None
    tag = text[len(_FENCE) : start].split(maxsplit=1)
    if len(tag) > 1 or (tag and "`" in tag[0]):
        return None
    return text[start + 1 : end]


def _stripped(text: str) -> str:
    """`text` without blanks and byte order mark around it."""
    return text.strip().removeprefix(_BYTE_ORDER_MARK).strip()


def _parsed(text: str) -> _Document:
    """`text` as strict JSON, or NOT_JSON: also what is too deep or too large a number for anybody to read back."""
    ambiguous = False

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # The outermost object is finished last, so what holds at the end holds of it.
        nonlocal ambiguous
        table = dict(pairs)
        ambiguous = len(table) < len(pairs) and sum(name == "status" for name, _ in pairs) > 1
        return table

    try:
        value = json.loads(
            text, object_pairs_hook=as_dict, parse_int=_integer, parse_float=_number, parse_constant=_refused
        )
    except (ValueError, RecursionError):
        return _Document(NOT_JSON)
    # Counting brackets is quick, and hardly any answer has that many.
    if text.count("[") + text.count("{") > _MAX_DEPTH and _too_deep(value):
        return _Document(NOT_JSON)
    return _Document(value, ambiguous)


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError("too large")
    return number


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _too_deep(value: Any) -> bool:
    """Whether containers are nested beyond the limit, level by level."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            item
            for container in level
            if type(container) is dict or type(container) is list
            for item in _items(container)
            if type(item) is dict or type(item) is list
        ]
        if not level:
            return False
    return True


def _items(container: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", container).values() if type(container) is dict else container

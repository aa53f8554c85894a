"""The table of the envelope's fields, and what is made of it: the instructions for a model, and the validator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

__all__ = ["ENVELOPE_CONTRACT", "ERROR_PREFIX", "is_error_envelope", "validate_envelope"]

ERROR_PREFIX: Final = "ENVELOPE_ERROR: "
"""How every message about an invalid envelope begins."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of JSON value: as the instructions word it, and as the validator tells it."""

    text: str
    accepts: Callable[[object], bool]
    fields: tuple[Field, ...] = ()
    """Of an object, those that have a rule. Others are free."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: what may be in it, and when."""

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    only_with: str | None = None
    """The status with which it is required; with any other it is absent or null."""

    @property
    def presence(self) -> str:
        """When it is there, as the instructions word it."""
        if self.only_with is not None:
            return f'required with status "{self.only_with}", otherwise left out or null'
        return "required" if self.required else "optional"


def _one_of(values: Mapping[str, str]) -> Kind:
    return Kind(
        "one of " + ", ".join(f'"{value}"' for value in values),
        lambda value: isinstance(value, str) and value in values,
    )


_STATUSES: Final = {
    "ok": "everything that was asked for is done",
    "partial": "some of it is",
    "no_success": "none of it, and nothing failed: there was nothing to be found or done",
    "error": "it failed",
}


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


_ANYTHING: Final = Kind("any JSON value", lambda value: True)
_LIST: Final = Kind("a list, never null", lambda value: isinstance(value, list))
_OBJECT: Final = Kind("an object, never null", _is_object)
_TEXT: Final = Kind("a non-empty string", lambda value: isinstance(value, str) and value != "")

_ERROR: Final = Kind(
    "an object",
    _is_object,
    (
        Field("code", _TEXT, "A short word for the kind of failure, the same each time it happens.", required=True),
        Field("message", _TEXT, "What went wrong, for a person to read.", required=True),
        Field("details", _OBJECT, "Facts that help to find the cause."),
    ),
)

FIELDS: Final = (
    Field(
        "status",
        _one_of(_STATUSES),
        "; ".join(f'"{status}": {meaning}' for status, meaning in _STATUSES.items()) + ".",
        required=True,
    ),
    Field("error", _ERROR, "The failure.", only_with="error"),
    Field("content", _ANYTHING, "The answer itself."),
    Field("iteration", _LIST, "Items that are to be worked on one by one; empty when there are none."),
)
"""The fields, in the order in which their failures count."""

_NAMES: Final = frozenset(field.name for field in FIELDS)
_MOST_NAMED: Final = 8
_LONGEST_NAME: Final = 64
"""Unknown fields that a message names, and characters of each: a model may write any number, of any length."""


def validate_envelope(value: object) -> str | None:
    """What is wrong with `value` as an envelope, or None.

    The first failure counts: unknown fields, then status, error, iteration. The message begins with
    `ENVELOPE_ERROR: ` and names fields that the model wrote, so it is content like the rest of an answer.
    """
    if not isinstance(value, dict):
        return f"{ERROR_PREFIX}the envelope must be an object"
    envelope = cast("dict[object, object]", value)
    failure = _unknown(envelope) or _first_failure(FIELDS, envelope, envelope, "")
    return None if failure is None else ERROR_PREFIX + failure


def is_error_envelope(value: object) -> bool:
    """Whether `value` is a dict whose status is "error", be it a valid envelope or not."""
    if not isinstance(value, dict):
        return False
    status = cast("dict[object, object]", value).get("status")
    return isinstance(status, str) and status == "error"


def _unknown(envelope: Mapping[object, object]) -> str | None:
    unknown = [key for key in envelope if key not in _NAMES]
    if not unknown:
        return None
    named = ", ".join(_shown(key) for key in unknown[:_MOST_NAMED])
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    return f"unknown fields {named}{more}; permitted are {', '.join(field.name for field in FIELDS)}"


def _shown(key: object) -> str:
    # Another type's repr is the application's code, and a JSON object has no such keys.
    return repr(str.__str__(key)[:_LONGEST_NAME]) if isinstance(key, str) else f"of type {type(key).__name__}"


def _first_failure(
    fields: tuple[Field, ...], table: Mapping[object, object], envelope: Mapping[object, object], path: str
) -> str | None:
    for field in fields:
        failure = _failure(field, table, envelope, path + field.name)
        if failure is not None:
            return failure
    return None


def _failure(field: Field, table: Mapping[object, object], envelope: Mapping[object, object], path: str) -> str | None:
    value: Any = table.get(field.name)
    if field.only_with is not None and envelope.get("status") != field.only_with:
        return None if value is None else f'{path} goes with status "{field.only_with}" only'
    if field.name not in table:
        needed = field.required or field.only_with is not None
        return f"{path} is missing: it is {field.presence}" if needed else None
    if not field.kind.accepts(value):
        return f"{path} must be {field.kind.text}"
    return _first_failure(field.kind.fields, value, envelope, path + ".") if field.kind.fields else None


def _described(fields: tuple[Field, ...], indent: str = "") -> Iterator[str]:
    for field in fields:
        yield f'{indent}- "{field.name}" ({field.presence}): {field.kind.text}. {field.meaning}'
        yield from _described(field.kind.fields, indent + "  ")


ENVELOPE_CONTRACT: Final = "\n".join(
    (
        "Your answer is read by a program. Write exactly one JSON object and nothing else: no text before or after it, "
        "no code fence around it, no reasoning outside of it. Call tools the usual way: a tool call never goes into "
        "the object.",
        "",
        "The object has these fields:",
        *_described(FIELDS),
        "It has no other field.",
    )
)
"""The instructions that make a model answer with an envelope."""

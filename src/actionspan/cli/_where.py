"""`--where field=value` and points in time, as somebody types them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder import EventFilter

__all__ = ["Where", "moment", "parse_where"]

_RELATIVE: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions on fields: those that can only mean text, and those that can mean a number (or so) as well."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    either: dict[str, tuple[Any, str]] = field(default_factory=dict[str, tuple[Any, str]])

    @property
    def filter(self) -> EventFilter:
        """The whole as a recorder takes it."""
        return self.matches if self.either else self.texts

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether all conditions hold."""
        return all(_value_at(event, path) == text for path, text in self.texts.items()) and self.matches_either(event)

    def matches_either(self, event: Mapping[str, Any]) -> bool:
        """Whether the conditions hold that are not mere text."""
        return all(_equal(_value_at(event, path), meanings) for path, meanings in self.either.items())


def parse_where(conditions: Sequence[str]) -> Where:
    """`field=value` pairs; a value is what it is as JSON, or else text. `ValueError` names a pair that is none."""
    where = Where()
    for condition in conditions:
        path, separator, text = condition.partition("=")
        if not path or not separator:
            raise ValueError(f"--where {condition!r} is not of the form field=value")
        if path in where.texts or path in where.either:
            raise ValueError(f"--where {path}= is given twice, and a field has one value")
        try:
            meaning = msgspec.json.decode(text)
        except UNDECODABLE:
            where.texts[path] = text
        else:
            if isinstance(meaning, str):
                where.texts[path] = meaning
            else:
                where.either[path] = meaning, text
    return where


def moment(name: str, text: str | None) -> float | str | None:
    """A point in time: `1h` ago, epoch seconds, or ISO 8601 text. `ValueError` names what is none of them."""
    if text is None:
        return None
    relative = _RELATIVE.fullmatch(text)
    if relative is not None:
        return time.time() - float(relative[1]) * _UNITS[relative[2]]
    try:
        return float(text)
    except ValueError:
        pass
    if not text[:4].isdigit():
        raise ValueError(f"--{name} {text!r} is no time: say 30s, 15m, 2h or 7d ago, epoch seconds, or ISO 8601")
    return text


def _equal(value: Any, meanings: tuple[Any, str]) -> bool:
    meaning, text = meanings
    if isinstance(value, bool) or isinstance(meaning, bool):  # in Python True equals 1
        return value is meaning or value == text
    return value in (meaning, text)


def _value_at(event: Any, path: str) -> Any:
    """The value at the dotted `path`; names that have dots in them, as attributes have, are found too."""
    if not isinstance(event, Mapping):
        return _MISSING
    fields = cast("Mapping[str, Any]", event)
    if path in fields:
        return fields[path]
    for position, character in enumerate(path):
        if character == "." and path[:position] in fields:
            found = _value_at(fields[path[:position]], path[position + 1 :])
            if found is not _MISSING:
                return found
    return _MISSING

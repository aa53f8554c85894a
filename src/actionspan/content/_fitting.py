"""What of a value of some shape is kept when not all of it fits: any value, parts, definitions.

Messages are in `_messages`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from actionspan.content._markers import NO_ROOM
from actionspan.content._snapshot import Walker
from actionspan.content._stored import class_of

NOTE: Final = 64
"""Bytes kept for the part that says what was left out."""
PAYLOAD: Final = -1
"""Depth of a part or definition, so that a payload in it has all the levels."""
_ATTEMPTS: Final = 8
"""Definitions that may turn out too large before the rest is not tried."""


Write = Callable[[Any], str]
"""The JSON text of a value."""


class Shape(Protocol):
    """How values of one shape are copied into the room there is."""

    depth: int
    """The depth to walk such a value at as a whole: its own structure takes no level of a payload's."""

    def fit(self, value: Any, walker: Walker) -> Any:
        """The copy of what fits, or NO_ROOM."""
        ...

    def texts(self, redacted: Any, write: Write) -> Any:
        """What redactors left, with structure written as text again where the shape has text only."""
        ...

    def finished(self, kept: Any) -> Any:
        """What `fit` returned last, with a note of what is missing."""
        ...


class AnyValue:
    """No shape in particular."""

    depth = 0

    def fit(self, value: Any, walker: Walker) -> Any:
        return walker.copy(value, 0)

    def texts(self, redacted: Any, write: Write) -> Any:
        return redacted

    def finished(self, kept: Any) -> Any:
        return kept


class Parts:
    """A bare list of parts, of which the first are kept."""

    depth = -2

    def __init__(self) -> None:
        self._missing = 0

    def fit(self, value: Sequence[Any], walker: Walker) -> list[Any]:
        walker.room.bytes -= NOTE + 2
        kept: list[Any] = []
        for part in value:
            copy = whole(part, walker, cut=not kept)
            if copy is NO_ROOM:
                break
            kept.append(copy)
        walker.room.bytes += NOTE
        self._missing += len(value) - len(kept)
        return kept

    def texts(self, redacted: Any, write: Write) -> Any:
        return [with_texts(part, write) for part in redacted]

    def finished(self, kept: Any) -> Any:
        if kept and self._missing:
            kept.append({"type": "omitted", "parts": self._missing})
        return kept


class Definitions:
    """Tool definitions: those that fit whole."""

    depth = -2

    def fit(self, value: Sequence[Any], walker: Walker) -> list[Any]:
        walker.room.bytes -= 2
        kept: list[Any] = []
        failures = 0
        for definition in value:
            copy = whole(definition, walker)
            if copy is not NO_ROOM:
                kept.append(copy)
                continue
            failures += 1
            if failures == _ATTEMPTS:
                break
        return kept

    def texts(self, redacted: Any, write: Write) -> Any:
        return [with_texts(definition, write) for definition in redacted]

    def finished(self, kept: Any) -> Any:
        return kept


def with_texts(part: object, write: Write) -> Any:
    """A part, message or definition, whose fields that are text by their schema are text again."""
    if type(part) is not dict:
        return part
    entries = cast("dict[str, Any]", part)
    texts = _CONTENT_TEXTS if _kind(entries) in ("text", "reasoning") else _TEXTS
    structured = [name for name in texts if type(entries.get(name)) is dict or type(entries.get(name)) is list]
    return entries | {name: write(entries[name]) for name in structured} if structured else entries


def _kind(entries: dict[str, Any]) -> str:
    kind = entries.get("type")
    return kind if type(kind) is str else ""


_TEXTS: Final = (
    "type",
    "role",
    "id",
    "name",
    "description",
    "finish_reason",
    "uri",
    "file_id",
    "mime_type",
    "modality",
)
_CONTENT_TEXTS: Final = (*_TEXTS, "content")


def whole(value: object, walker: Walker, *, cut: bool = False) -> Any:
    """The copy of `value` if the room holds all of it, else NO_ROOM and the room as before.

    With `cut`: of a dict, what the room holds.
    """
    room = walker.room
    before = room.bytes, room.values
    copy = walker.copy(value, PAYLOAD)
    # Cut down to a marker it would be no part any more.
    if walker.exhausted and not (cut and class_of(copy) is dict):
        room.bytes, room.values = before
        walker.exhausted = False
        return NO_ROOM
    return copy

"""What of a value of some shape is kept when not all of it fits: any value, messages, parts, definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from actionspan.content._markers import NO_ROOM
from actionspan.content._snapshot import Walker
from actionspan.content._stored import class_of

_NOTE: Final = 64
"""Bytes kept for the part that says what was left out."""
_PAYLOAD: Final = -1
"""Depth of a part or definition, so that a payload in it has all the levels."""
_MESSAGE: Final = _PAYLOAD - 2
"""Depth of a message, which holds the list of such parts."""
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


class Messages:
    """Messages, oldest first. The newest are kept, whole; of the oldest that fits in part, its last parts."""

    depth = -4

    def __init__(self, older: int) -> None:
        self._messages_missing = older
        self._parts_missing = 0

    def fit(self, value: Sequence[Any], walker: Walker) -> list[Any]:
        walker.room.bytes -= _NOTE + 2
        kept: list[Any] = []
        missing = 0
        for message in reversed(value):
            copy, missing = _fit_message(message, walker, first=not kept)
            if copy is NO_ROOM:
                missing = 0
                break
            kept.append(copy)
            if missing or walker.exhausted:
                break
        kept.reverse()
        walker.room.bytes += _NOTE
        if len(kept) < len(value):
            self._parts_missing = 0  # of a message that is itself missing now
            walker.cut = True
        self._messages_missing += len(value) - len(kept)
        self._parts_missing += missing
        return kept

    def texts(self, redacted: Any, write: Write) -> Any:
        return [_message_texts(message, write) for message in redacted]

    def finished(self, kept: Any) -> Any:
        """Let the oldest message say first how many older ones, and parts of its own, are missing."""
        missing = {"messages": self._messages_missing}
        if self._parts_missing:
            missing["parts"] = self._parts_missing
        parts = _parts_of(kept[0]) if any(missing.values()) and kept else None
        if type(parts) is list:
            cast("list[Any]", parts).insert(0, {"type": "omitted", **missing})
        return kept


class Parts:
    """A bare list of parts, of which the first are kept."""

    depth = -2

    def __init__(self) -> None:
        self._missing = 0

    def fit(self, value: Sequence[Any], walker: Walker) -> list[Any]:
        walker.room.bytes -= _NOTE + 2
        kept: list[Any] = []
        for part in value:
            copy = whole(part, walker, cut=not kept)
            if copy is NO_ROOM:
                break
            kept.append(copy)
        walker.room.bytes += _NOTE
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


def _fit_message(message: Any, walker: Walker, *, first: bool) -> tuple[Any, int]:
    """The copy of a message, or NO_ROOM, and how many of its parts were left out.

    When `first`, a part that does not fit is cut rather than left out, so that something is shown.
    """
    quick = walker.quick(message, _MESSAGE)
    if quick is not None:
        return quick, 0
    parts = _parts_of(message)
    if parts is None:
        return whole(message, walker, cut=first), 0
    envelope = {name: value for name, value in message.items() if name != "parts"}
    before = walker.room.bytes, walker.room.values
    copy = whole(envelope, walker)
    size = len('"parts":[],')
    if copy is NO_ROOM or walker.room.bytes < size:
        walker.room.bytes, walker.room.values = before
        return NO_ROOM, 0
    walker.room.bytes -= size
    kept = _last_parts(parts, walker, first=first)
    if parts and not kept:
        walker.room.bytes, walker.room.values = before
        return NO_ROOM, 0
    shown: dict[str, Any] = {}
    for name in message:
        if name == "parts":
            shown["parts"] = kept
        elif name in copy:
            shown[name] = copy[name]
    return shown, len(parts) - len(kept)


def _message_texts(message: Any, write: Write) -> Any:
    parts = _parts_of(message)
    message = with_texts(message, write)
    return message if parts is None else message | {"parts": [with_texts(part, write) for part in parts]}


def with_texts(part: object, write: Write) -> Any:
    """A part, message or definition, whose fields that are text by their schema are text again."""
    if type(part) is not dict:
        return part
    entries = cast("dict[str, Any]", part)
    texts = _CONTENT_TEXTS if entries.get("type") in ("text", "reasoning") else _TEXTS
    structured = [name for name in texts if type(entries.get(name)) is dict or type(entries.get(name)) is list]
    return entries | {name: write(entries[name]) for name in structured} if structured else entries


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


def _parts_of(message: object) -> Sequence[Any] | None:
    """The parts of a message, or None when it does not look like one: a redactor may return anything."""
    parts = cast("dict[str, Any]", message).get("parts") if type(message) is dict else None
    return cast("Sequence[Any]", parts) if type(parts) is list or type(parts) is tuple else None


def _last_parts(parts: Sequence[Any], walker: Walker, *, first: bool) -> list[Any]:
    kept: list[Any] = []
    for part in reversed(parts):
        copy = whole(part, walker, cut=first and not kept)
        if copy is NO_ROOM:
            break
        kept.append(copy)
    kept.reverse()
    return kept


def whole(value: object, walker: Walker, *, cut: bool = False) -> Any:
    """The copy of `value` if the room holds all of it, else NO_ROOM and the room as before.

    With `cut`: of a dict, what the room holds.
    """
    room = walker.room
    before = room.bytes, room.values
    copy = walker.copy(value, _PAYLOAD)
    # Cut down to a marker it would be no part any more.
    if walker.exhausted and not (cut and class_of(copy) is dict):
        room.bytes, room.values = before
        walker.exhausted = False
        return NO_ROOM
    return copy

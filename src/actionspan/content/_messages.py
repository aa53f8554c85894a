"""Which of a conversation's messages are kept when not all of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from actionspan.content._budget import Budget
from actionspan.content._fitting import NOTE, PAYLOAD, Write, whole, with_texts
from actionspan.content._markers import NO_ROOM
from actionspan.content._snapshot import Walker

_MESSAGE: Final = PAYLOAD - 2
"""Depth of a message, which holds the list of such parts."""


class Messages:
    """Messages, oldest first. The newest are kept, whole; of the oldest that fits in part, its last parts."""

    depth = -4

    def __init__(self, older: int) -> None:
        self._messages_missing = older
        self._parts_missing = 0

    def fit(self, value: Sequence[Any], walker: Walker) -> list[Any]:
        walker.room.bytes -= NOTE + 2
        pace = _Pace(walker.room)
        kept: list[Any] = []
        missing = 0
        unread = len(value)
        while unread:
            several = pace.several(unread)
            if several:
                copies = walker.quick_items([value[place] for place in range(unread - several, unread)], _MESSAGE)
                pace.went(several, well=copies is not None)
                if copies is not None:
                    kept += reversed(copies)
                    unread -= several
                    continue
            copy, missing = _fit_message(value[unread - 1], walker, first=not kept)
            if copy is NO_ROOM:
                missing = 0
                break
            kept.append(copy)
            unread -= 1
            pace.went(1)
            if missing or walker.exhausted:
                break
        kept.reverse()
        walker.room.bytes += NOTE
        if unread:
            self._parts_missing = 0  # of a message that is itself missing now
            walker.cut = True
        self._messages_missing += unread
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


class _Pace:
    """How many messages to try at once, which costs less than one by one: as many as fit if they are like the others.

    Where some did not go together, as many go one by one.
    """

    def __init__(self, room: Budget) -> None:
        self._room = room
        self._bytes, self._values = room.bytes, room.values
        self._kept = 0
        self._singly = 1

    def several(self, unread: int) -> int:
        """The number, or 0 for one."""
        if self._singly:
            return 0
        room, kept = self._room, self._kept
        by_bytes = room.bytes * kept // max(1, self._bytes - room.bytes)
        by_values = room.values * kept // max(1, self._values - room.values)
        likely = min(_AT_ONCE, unread, by_bytes, by_values)
        return likely if likely > 1 else 0

    def went(self, number: int, *, well: bool = True) -> None:
        """So many were tried, and kept if that went well."""
        if well:
            self._kept += number
            self._singly = max(0, self._singly - number)
        else:
            self._singly = number


_AT_ONCE: Final = 16


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

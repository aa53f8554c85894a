"""A detached, bounded copy of any value, made of JSON types, without running any of the application's code.

What each class becomes is decided in `_classes`; this walks, counts and cuts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from math import isfinite
from typing import Any, Final

from actionspan.content._budget import Budget
from actionspan.content._classes import reader_of
from actionspan.content._json import encode
from actionspan.content._markers import CYCLE, MAX_DEPTH, NO_ROOM, TRUNCATED, UNSUPPORTED
from actionspan.content._media import hide_media
from actionspan.content._plain import Left, NotPlain, plain_copy
from actionspan.content._stored import class_of, dict_entries
from actionspan.content._text import ALLOWANCE, bounded, fitting, mended
from actionspan.policy import NormalizationLimits
from actionspan.redact import free_key

_BRACKETS: Final = 3
"""Bytes of a container's brackets and separator."""
_DEEPEST: Final = 100
"""Levels that are walked at most, whatever the limits say: the interpreter's stack is the application's."""
_LIST: Final = 2
"""Bytes that several values take as a list beyond what each takes with a separator."""
_RESERVE: Final = 40
"""Bytes kept while a container is open, so that a marker still fits when it has to end early."""


def snapshot(value: Any, budget: Budget | NormalizationLimits) -> Any:
    """A detached, bounded value of JSON types that shows `value`, charged to `budget`.

    Total: no input raises, recurses without limit, or costs more than the budget. Of a mapping only the entries with
    exact `str` keys are kept; those left out for any reason are counted under the key `<truncated>`.
    """
    room = Budget(budget) if isinstance(budget, NormalizationLimits) else budget
    kept = Walker(room).copy(value, 0)
    return TRUNCATED if kept is NO_ROOM else kept


class Walker:
    """One walk through values, charging `room` for the JSON text of what it keeps.

    `walk` returns `NO_ROOM` when not even a marker fits; whoever holds the container then ends it.
    """

    __slots__ = ("cut", "exhausted", "max_depth", "path", "plain_limit", "room", "string_limit")

    def __init__(self, room: Budget) -> None:
        self.room = room
        self.string_limit: int = room.limits.max_string_characters
        self.plain_limit = self.string_limit
        """Characters up to which a string costs what it is long."""
        self.max_depth = min(room.limits.max_depth, _DEEPEST)
        self.path: set[int] = set()
        """Identities of the containers that are open."""
        self.cut = False
        """Something was left out, for whichever limit."""
        self.exhausted = False
        """Something was left out because the room was used up."""

    @property
    def window(self) -> int:
        """Characters of a string that are ever looked at."""
        return self.string_limit + ALLOWANCE

    def copy(self, value: Any, depth: int) -> Any:
        """The copy of `value`, which is inside `depth` containers, or NO_ROOM."""
        copy = self.quick(value, depth)
        return self.walk(value, depth) if copy is None else copy

    def quick(self, value: Any, depth: int) -> Any:
        """The copy of `value` when it is a container of plain values and all of it fits, else None."""
        kind = class_of(value)
        if kind is not dict and kind is not list:
            return None
        room = self.room
        left = Left(room.values - 1, room.bytes, self.plain_limit)
        try:
            copy = plain_copy(value, self.max_depth - depth, left)
            coded = encode(copy)
        except (NotPlain, UnicodeEncodeError, RuntimeError):
            return None
        if len(coded) >= room.bytes or not self.settled(coded):
            return None
        room.bytes -= len(coded) + 1
        room.values = left.values
        return copy

    def quick_items(self, values: Sequence[Any], depth: int) -> list[Any] | None:
        """The copies of several values, as `quick` makes them one by one; None unless all are plain and fit."""
        room = self.room
        room.values += 1
        room.bytes += _LIST
        copies = self.quick(values, depth - 1)
        if copies is None:
            room.values -= 1
            room.bytes -= _LIST
        return copies

    def settled(self, coded: bytes) -> bool:
        """Whether no string in this JSON text needs a closer look: none holds media."""
        return b"data:" not in coded.lower() and b'"data":' not in coded and b'"blob"' not in coded

    def walk(self, value: Any, depth: int) -> Any:
        """The copy of `value`, which is inside `depth` containers, or NO_ROOM."""
        kind = class_of(value)
        if kind is str:
            return self.string(value, depth)
        if kind is dict:
            return self.mapping(value, dict_entries(value, self.room.values + 1), len(value), depth)
        if kind is list:
            return self.sequence(value, value, len(value), depth)
        if value is None or kind is bool:
            return self.charged(value, 6)
        if kind is int:
            return self.integer(value)
        if kind is float:
            return self.charged(value, 26) if isfinite(value) else self.marker(UNSUPPORTED)
        return reader_of(kind)(self, value, depth)

    def string(self, text: str, depth: int, more: int = 0) -> Any:
        """The copy of `text`, of which `more` characters were left out already."""
        if not more and len(text) <= self.string_limit:
            try:
                coded = encode(text)
            except UnicodeEncodeError:
                return self.rewritten(text, more)
            if b":" in coded and b"data:" in coded.lower():
                return self.rewritten(text, more)
            room = self.room
            if len(coded) < room.bytes and room.values > 0:
                room.bytes -= len(coded) + 1
                room.values -= 1
                return text
        return self.rewritten(text, more)

    def integer(self, value: int) -> Any:
        """`value`, unless its digits are more than a string may have or the interpreter would write."""
        digits = (value.bit_length() * 78 >> 8) + 1
        if digits > 300 and digits > min(self.string_limit, sys.get_int_max_str_digits() or digits):
            self.cut = True
            return self.marker(TRUNCATED)
        return self.charged(value, digits + 2)

    def whole(self, text: str) -> Any:
        """`text` if all of it fits, else the marker."""
        if len(text) > self.string_limit:
            self.cut = True
            return self.marker(TRUNCATED)
        text = mended(text)
        kept = self.charged(text, len(encode(text)) + 1)
        return self.marker(TRUNCATED) if kept is NO_ROOM else kept

    def marker(self, text: str) -> Any:
        return self.charged(text, len(text) + 3)

    def charged(self, value: Any, size: int) -> Any:
        """`value`, whose JSON text and separator take at most `size` bytes."""
        room = self.room
        if size > room.bytes or room.values <= 0:
            self.cut = self.exhausted = True
            return NO_ROOM
        room.bytes -= size
        room.values -= 1
        return value

    def nested(self, owner: Any, value: Any, depth: int) -> Any:
        """The copy of the one `value` that `owner` stands for; counts as a level, since it may stand for itself."""
        if depth >= self.max_depth or id(owner) in self.path:
            return self.marker(MAX_DEPTH if depth >= self.max_depth else CYCLE)
        self.path.add(id(owner))
        kept = self.walk(value, depth + 1)
        self.path.discard(id(owner))
        return kept

    def sequence(self, owner: Any, items: Iterable[Any], size: int, depth: int) -> Any:
        """The list of the copies of `items`, of which `owner` has `size`."""
        refused = self._refused(owner, depth)
        if refused is not None:
            return refused
        kept: list[Any] = []
        try:
            for item in islice(items, max(0, self.room.values + 1)):
                copy = self.walk(item, depth + 1)
                if copy is not NO_ROOM:
                    kept.append(copy)
                if self.exhausted:
                    break
        except RuntimeError:
            pass  # another thread changed a set or deque; what was read before stays
        self._close(owner)
        if len(kept) < size and kept[-1:] != [TRUNCATED]:
            kept.append(self._noted(TRUNCATED, 0))
        return kept

    def mapping(self, owner: Any, pairs: Iterable[tuple[Any, Any]], size: int, depth: int) -> Any:
        """The dict of the copies of `pairs`, of which `owner` has `size`."""
        refused = self._refused(owner, depth)
        if refused is not None:
            return refused
        kept: dict[str, Any] = {}
        for key, item in pairs:
            before = self.room.bytes
            name = self.key(key) if type(key) is str else None
            if name is None or name in kept:
                self.room.bytes = before
                self.room.values -= 1  # so that looking at unusable keys ends, too
                continue
            copy = NO_ROOM if name is NO_ROOM else self.walk(item, depth + 1)
            if copy is NO_ROOM:
                self.room.bytes = before
                break
            kept[name] = copy
            if self.exhausted:
                break
        self._close(owner)
        if len(kept) < size:
            left_out = size - len(kept)
            kept[free_key(TRUNCATED, kept)] = self._noted(left_out, len(TRUNCATED) + 10)
        if "data" in kept or "blob" in kept or kept.get("type") == "blob":
            hide_media(kept)
        return kept

    def key(self, text: str, more: int = 0) -> Any:
        """A mapping's key, charged and cut like a string, or NO_ROOM."""
        try:
            coded = b"" if more or len(text) > self.string_limit else encode(text)
        except UnicodeEncodeError:
            coded = b""
        if not coded or (b":" in coded and b"data:" in coded.lower()):
            text, cut = bounded(text, self.string_limit, more)
            self.cut = self.cut or cut
            coded = encode(text)
        if len(coded) >= self.room.bytes:
            self.cut = self.exhausted = True
            return NO_ROOM
        self.room.bytes -= len(coded) + 1
        return text

    def _refused(self, owner: Any, depth: int) -> Any:
        """A marker, or NO_ROOM, when the container cannot be opened; None when it now is."""
        if depth >= self.max_depth:
            self.cut = True
            return self.marker(MAX_DEPTH)
        if id(owner) in self.path:
            return self.marker(CYCLE)
        if self.charged(owner, _BRACKETS + _RESERVE) is NO_ROOM:
            return self.marker(TRUNCATED)
        self.path.add(id(owner))
        return None

    def _close(self, owner: Any) -> None:
        self.path.discard(id(owner))
        self.room.bytes += _RESERVE

    def _noted(self, note: Any, size: int) -> Any:
        """`note`, which tells what a container lacks, charged to the reserve that was kept for it."""
        self.cut = True
        self.room.bytes -= size + len(TRUNCATED) + 3
        return note

    def rewritten(self, text: str, more: int) -> Any:
        """A string that has to be cut, mended or freed of media, to its limit and then to the room left."""
        text, cut = bounded(text, self.string_limit, more)
        self.cut = self.cut or cut
        size = len(encode(text)) + 1
        if size <= self.room.bytes:
            return self.charged(text, size)
        self.exhausted = self.cut = True
        fitted = fitting(text, self.room.bytes - 1)
        return self.marker(TRUNCATED) if fitted is None else self.charged(fitted, len(encode(fitted)) + 1)

"""The two copies around a redactor: with an allowance before it, and at the real limits after it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from actionspan.content._budget import Budget
from actionspan.content._markers import NO_ROOM, REDACTION_FAILED, TRUNCATED
from actionspan.content._snapshot import Walker
from actionspan.content._text import ALLOWANCE, bounded, uncut

_LONGEST_SECRET: Final = 4096
"""Characters before a first cut that are given up when what preceded them shrank: a secret may begin there."""
_PARSED: Final = 256 * 1024
"""Characters of JSON strings that are parsed for one value, or four times the bytes kept of all content."""


class AllowanceWalker(Walker):
    """Copies with the allowance, strings that are JSON as structure.

    A string is charged as if it were cut at the limit already: the allowance costs nothing of what fits.
    """

    __slots__ = ("_by_key", "_parse", "cuts")

    def __init__(self, room: Budget, *, by_key: bool, cuts: set[int] | None = None) -> None:
        super().__init__(room)
        self._by_key = by_key
        self._parse = max(_PARSED, 4 * room.limits.max_total_bytes)
        self.string_limit += ALLOWANCE
        self.cuts: set[int] = set() if cuts is None else cuts
        """The numbers of characters cut, by which a cut of ours is told from text that only looks like one."""

    def again(self) -> AllowanceWalker:
        """A walker for what one redactor returned and the next is to see."""
        limits = self.room.limits
        room = Budget(limits, values=2 * limits.max_values, bytes=2 * limits.max_total_bytes)
        return AllowanceWalker(room, by_key=self._by_key, cuts=self.cuts)

    def settled(self, coded: bytes) -> bool:
        return super().settled(coded) and _JSON_INSIDE.search(coded) is None

    def string(self, text: str, depth: int, more: int = 0) -> Any:
        if not more:
            text, more = _resumed(text, self.cuts)
        if _unpadded(text[: self.window]).startswith(_JSON_STARTS):
            parsed = _NOT_JSON if more else self._parsed(text)
            if parsed is not _NOT_JSON:
                return self.walk(parsed, depth)
            if self._by_key and _may_hold_keys(text[: self.window]):
                return self.marker(REDACTION_FAILED)
        return self.rewritten(text, more)

    def key(self, text: str, more: int = 0) -> Any:
        text, more = _resumed(text, self.cuts)
        name = super().key(text, more)
        if name is not NO_ROOM and (more or len(text) > self.string_limit):
            self.cuts.add(uncut(name)[1])
        return name

    def rewritten(self, text: str, more: int) -> Any:
        text, cut = bounded(text, self.string_limit, more)
        if cut:
            self.cut = True
            self.cuts.add(uncut(text)[1])
        kept = self.charged(text, min(len(text), self.plain_limit) + 3)
        return self.marker(TRUNCATED) if kept is NO_ROOM else kept

    def _parsed(self, text: str) -> Any:
        """What `text` is the JSON of, or _NOT_JSON; the characters parsed for one value are bounded."""
        if len(text) > self._parse:
            return _NOT_JSON
        self._parse -= len(text)
        try:
            return json.loads(_unpadded(text))
        except (ValueError, RecursionError):
            return _NOT_JSON


_NOT_JSON: Final[Any] = object()
_JSON_STARTS: Final = ("{", "[", '"{', '"[', '"\\"')
"""How an object or an array begins, or the JSON text of a string that is itself one."""

_JSON_INSIDE: Final = re.compile(rb'"(?:[{\[ \\]|\xef\xbb\xbf|\xc2[\x85\xa0]|\xe1\x9a|\xe2\x80|\xe2\x81|\xe3\x80)')
"""In JSON text, a string that may begin so, after blanks of whatever script; or an escaped quote."""


def _unpadded(text: str) -> str:
    """`text` without the blanks around it and the mark that a file may begin with."""
    return text.strip().lstrip("\ufeff").strip()


def _may_hold_keys(text: str) -> bool:
    """Whether there could be an object in `text`, also an escaped one; "[Errno 2] ..." has none."""
    return "{" in text or "\\" in text


class FinalWalker(Walker):
    """Copies what the redactors returned, at the real limits.

    A string cut with the allowance is cut again, shorter. If it shrank in between, its end may be the beginning of a
    secret that nothing recognised: then as much as that could be goes with it.
    """

    __slots__ = ("_cuts",)

    def __init__(self, room: Budget, cuts: set[int]) -> None:
        super().__init__(room)
        self._cuts = cuts

    def settled(self, coded: bytes) -> bool:
        return super().settled(coded) and not (self._cuts and b"<truncated " in coded)

    def string(self, text: str, depth: int, more: int = 0) -> Any:
        return super().string(*self._trusted(text, more, depth))

    def key(self, text: str, more: int = 0) -> Any:
        text, _, more = self._trusted(text, more, 0)
        return super().key(text, more)

    def _trusted(self, text: str, more: int, depth: int) -> tuple[str, int, int]:
        if more:
            return text, depth, more
        text, more = _resumed(text, self._cuts)
        if more:
            kept = max(0, len(text) - _LONGEST_SECRET)
            more += len(text) - kept
            text = text[:kept]
        return text, depth, more


def _resumed(text: str, cuts: set[int]) -> tuple[str, int]:
    """`text` without the suffix of one of our own `cuts`, and the number of characters cut."""
    if cuts and text.endswith(">"):
        whole, more = uncut(text)
        if more in cuts:
            return whole, more
    return text, 0

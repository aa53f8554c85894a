"""Redaction: what a redactor is handed, how it is run, and every way it can fail.

The value is copied with an allowance beyond the limits, so that a secret at the cut is whole; strings that are JSON
become structure; then each redactor runs on its own detached copy. What comes back is cut to the real limits by the
caller.
"""

from __future__ import annotations

import inspect
import json
import re
from types import CoroutineType
from typing import Any, Final

from actionspan import guard
from actionspan.content._budget import Budget
from actionspan.content._markers import NO_ROOM, REDACTION_FAILED, TRUNCATED
from actionspan.content._snapshot import Walker
from actionspan.content._stored import MISSING, class_attribute
from actionspan.content._text import ALLOWANCE, bounded, uncut
from actionspan.policy import Redactor, RedactorChain
from actionspan.redact import KeyRedactor, PatternRedactor, RedactionContext

_LONGEST_SECRET: Final = 4096
"""Characters before a first cut that are given up when what preceded them shrank: a secret may begin there."""
_PARSED: Final = 4
"""Characters of JSON strings that are parsed for one value, as a multiple of the bytes kept of all content."""


class Redaction:
    """The redactors of one policy, and the copies made for them."""

    __slots__ = ("_by_key", "_steps")

    def __init__(self, redactor: Redactor) -> None:
        self._steps = redactor.redactors if isinstance(redactor, RedactorChain) else (redactor,)
        self._by_key = any(isinstance(step, KeyRedactor) for step in self._steps)

    def copier(self, room: Budget) -> AllowanceWalker:
        """The walker that copies what the redactors are to see, with room of its own."""
        generous = Budget(room.limits, values=room.values * 5 // 4, bytes=room.bytes * 5 // 4)
        return AllowanceWalker(generous, by_key=self._by_key)

    def apply(self, copy: Any, context: RedactionContext, copier: AllowanceWalker, depth: int) -> Any:
        """What the redactors make of `copy`; the marker when one of them fails."""
        detached = True
        for step in self._steps:
            if not detached:
                copy = copier.again().copy(copy, depth)
                if copy is NO_ROOM:
                    return TRUNCATED
            copy = _run(step, copy, context)
            if copy is _FAILED:
                return REDACTION_FAILED
            # The ready-made ones build a new value of what they are given and nothing else.
            detached = isinstance(step, KeyRedactor | PatternRedactor)
        return copy


_FAILED: Final[Any] = object()


def _run(redactor: Redactor, copy: Any, context: RedactionContext) -> Any:
    """What `redactor` returns; _FAILED when it raises, or returns an awaitable, or None for something."""
    empty = copy is None
    result: object = guard.call(
        "redactor", lambda: redactor(copy, context) if _takes_two(redactor) else redactor(copy), _FAILED
    )
    if type(result) is CoroutineType:
        guard.call("redactor", result.close)
        return _FAILED
    if class_attribute(type(result), "__await__") is not MISSING:
        return _FAILED
    # A redactor that changes its argument in place and forgets to return it would otherwise look like a deletion.
    return _FAILED if result is None and not empty else result


def _takes_two(redactor: Redactor) -> bool:
    """Whether the redactor takes the context, too."""
    known = _arities.get(id(redactor))
    if known is None:
        if len(_arities) >= 256:
            _arities.clear()
        # The redactor is kept, so its identity is not reused.
        known = _arities[id(redactor)] = (redactor, _arity(redactor))
    return known[1]


_arities: Final[dict[int, tuple[Redactor, bool]]] = {}


def _arity(redactor: Redactor) -> bool:
    try:
        signature = inspect.signature(redactor)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True


class AllowanceWalker(Walker):
    """Copies with the allowance, strings that are JSON as structure.

    A string is charged as if it were cut at the limit already: the allowance costs nothing of what fits.
    """

    __slots__ = ("_by_key", "_parse", "cuts")

    def __init__(self, room: Budget, *, by_key: bool, cuts: set[int] | None = None) -> None:
        super().__init__(room)
        self._by_key = by_key
        self._parse = _PARSED * room.limits.max_total_bytes
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
        if text[: self.window].lstrip(_BLANKS).startswith(_JSON_STARTS):
            parsed = _NOT_JSON if more else self._parsed(text)
            if parsed is not _NOT_JSON:
                return self.walk(parsed, depth)
            if self._by_key and _may_hold_keys(text[: self.window]):
                return self.marker(REDACTION_FAILED)
        return self.rewritten(text, more)

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
            return json.loads(text.strip(_BLANKS))
        except (ValueError, RecursionError):
            return _NOT_JSON


_NOT_JSON: Final[Any] = object()
_BLANKS: Final = "\ufeff\u00a0 \t\r\n\f\v"
_JSON_STARTS: Final = ("{", "[", '"{', '"[', '"\\"')
"""How an object or an array begins, or the JSON text of a string that is itself one."""

_JSON_INSIDE: Final = re.compile(rb'"(?:[{\[ \\]|\xef\xbb\xbf|\xc2\xa0)')
"""A string that may begin so, in JSON text; or an escaped quote."""


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

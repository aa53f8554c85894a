"""Redaction: what a redactor is handed, how it is run, and every way it can fail.

The value is copied with an allowance beyond the limits, so that a secret at the cut is whole; strings that are JSON
become structure; then each redactor runs on its own detached copy. What comes back is cut to the real limits by the
caller.
"""

from __future__ import annotations

import inspect
from types import CoroutineType
from typing import Any, Final

from actionspan import guard
from actionspan.content._allowance import AllowanceWalker
from actionspan.content._budget import Budget
from actionspan.content._markers import NO_ROOM, REDACTION_FAILED, TRUNCATED
from actionspan.content._stored import MISSING, class_attribute
from actionspan.policy import Redactor, RedactorChain
from actionspan.redact import KeyRedactor, PatternRedactor, RedactionContext


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

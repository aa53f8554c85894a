"""All the content of one action: one budget, one redactor, one order of claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from actionspan import guard
from actionspan.content._allowance import FinalWalker
from actionspan.content._budget import Budget
from actionspan.content._errors import without_rejected_input
from actionspan.content._fitting import AnyValue, Definitions, Parts, Shape
from actionspan.content._json import encode, to_json
from actionspan.content._markers import NO_ROOM, REDACTION_FAILED, TRUNCATED, UNSUPPORTED
from actionspan.content._messages import Messages
from actionspan.content._redaction import Redaction
from actionspan.content._snapshot import Walker
from actionspan.policy import ActionPolicy
from actionspan.redact import RedactionContext

_FLOOR: Final = 64
"""Bytes kept for the markers of fields that come after the room was used up."""


class ActionContent:
    """All the content of one action, sharing one budget, one redactor, one order of claim.

    Every method returns text that respects every limit, and none raises. Whether the policy admits the category is
    the caller's question. Fields claim in the order of the calls.
    """

    __slots__ = ("_about", "_budget", "_floor", "_most", "_redaction", "_reserve", "_truncated")

    def __init__(
        self,
        policy: ActionPolicy,
        *,
        namespace: str,
        operation: str,
        name: str | None = None,
        attribute_limit: int | None = None,
        response_expected: bool = False,
        truncated: Callable[[str], None] | None = None,
    ) -> None:
        limits = policy.limits
        caps = [cap for cap in (limits.max_attribute_bytes, attribute_limit) if cap is not None]
        self._most = min(caps, default=limits.max_total_bytes)
        """Bytes of one field. The provider's limit counts characters, of which there are never more."""
        self._budget = Budget(limits)
        self._floor = min(_FLOOR, limits.max_total_bytes // 8)
        share = 2 if response_expected else 0
        self._reserve = (limits.max_values // share, limits.max_total_bytes // share) if share else (0, 0)
        """Values and bytes kept for the response."""
        self._redaction = None if policy.redactor is None else Redaction(policy.redactor)
        self._about = namespace, operation, name
        self._truncated = truncated

    def value(self, field: str, value: object, *, response: bool = False) -> str:
        """JSON text of any value: arguments, results, requests, responses, metadata."""
        return self._claimed(field, value, AnyValue(), response)

    def text(self, field: str, text: str, *, response: bool = False) -> str:
        """Plain text, not quoted: a reason, an invented name."""
        return self._claimed(field, text, AnyValue(), response, plain=True)

    def error(self, field: str, text: str) -> str:
        """Plain text of an exception, its message or stack trace, without the input that it quotes as rejected.

        What went wrong stands in the place of a response, so it may take what was kept for one.
        """
        return self._claimed(field, without_rejected_input(text), AnyValue(), True, plain=True)

    def messages(
        self, field: str, messages: Sequence[Mapping[str, Any]], *, response: bool = False, older: int = 0
    ) -> str:
        """JSON text of GenAI messages (dicts), chronological; the newest is claimed first.

        `older` messages were left out by the caller already. If any are missing, the oldest one kept begins with a
        part `{"type": "omitted", "messages": N}`, to which `"parts": M` is added when M of its own parts are missing.
        """
        return self._claimed(field, messages, Messages(older), response)

    def parts(self, field: str, parts: Sequence[Mapping[str, Any]], *, response: bool = False) -> str:
        """JSON text of a bare list of message parts (dicts), such as system instructions."""
        return self._claimed(field, parts, Parts(), response)

    def definitions(self, field: str, definitions: Sequence[Mapping[str, Any]]) -> str:
        """JSON text of those tool definitions (dicts) that fit whole. To be claimed last."""
        return self._claimed(field, definitions, Definitions(), False)

    def _claimed(self, field: str, value: Any, shape: Shape, response: bool, *, plain: bool = False) -> str:
        """The text of `field`, charged to the budget."""
        room = self._room(response)
        values, most = room.values, max(room.bytes, 0)
        coded = guard.call("content", lambda: self._coded(field, value, shape, room, plain), None)
        self._budget.values -= values - max(room.values, 0)
        if coded is None or len(coded) > most:
            spare = min(self._most, self._budget.bytes)
            coded = _smallest(spare, UNSUPPORTED if coded is None else TRUNCATED, plain)
        self._budget.bytes -= len(coded)
        return coded.decode()

    def _room(self, response: bool) -> Budget:
        """What this field may take: all that is left, except for what is kept for a response to come."""
        if response:
            self._reserve = (0, 0)
        values, size = self._reserve
        left = self._budget
        return Budget(left.limits, values=left.values - values, bytes=min(self._most, left.bytes - size - self._floor))

    def _coded(self, field: str, value: Any, shape: Shape, room: Budget, plain: bool) -> bytes:
        """The text of what is kept, which may be more than fits when not even a marker does."""
        kept, cut = self._kept(field, value, shape, room)
        truncated = self._truncated
        if cut and truncated is not None:
            guard.call("content", lambda: truncated(field))
        if kept is NO_ROOM:
            kept = TRUNCATED
        return kept.encode() if plain and type(kept) is str else encode(kept)

    def _kept(self, field: str, value: Any, shape: Shape, room: Budget) -> tuple[Any, bool]:
        """The final copy of `value`, redacted, and whether anything was cut on the way."""
        if self._redaction is None:
            walker = Walker(room)
            return shape.finished(shape.fit(value, walker)), walker.cut
        copier = self._redaction.copier(room)
        copy = shape.fit(value, copier)
        if copy is NO_ROOM:
            return NO_ROOM, True
        redacted = self._redaction.apply(copy, RedactionContext(*self._about, field), copier, shape.depth)
        walker = FinalWalker(room, copier.cuts)
        if redacted is REDACTION_FAILED:
            return walker.marker(REDACTION_FAILED), copier.cut
        if type(redacted) is not list:
            # A redactor may return another shape than it was given.
            return walker.copy(redacted, 0), copier.cut or walker.cut
        redacted = shape.texts(redacted, lambda item: self._structure(item, copier.cuts))
        return shape.finished(shape.fit(redacted, walker)), copier.cut or walker.cut

    def _structure(self, value: Any, cuts: set[int]) -> str:
        """The JSON text of structure that was text before redaction; the limits of that text come later."""
        kept = FinalWalker(Budget(self._budget.limits), cuts).copy(value, 0)
        return TRUNCATED if kept is NO_ROOM else to_json(kept)


def _smallest(most: int, marker: str, plain: bool) -> bytes:
    """`marker`, or the most that `most` bytes hold: still JSON, unless plain."""
    for text in (marker, "") if plain else (f'"{marker}"', '""', "0"):
        if len(text) <= most:
            return text.encode()
    return b"" if plain else b"0"

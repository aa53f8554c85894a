"""Which events a query asks for: checked arguments, a predicate, and bytes to search for.

The predicate decides; the bytes only say which lines are worth decoding, in segments whose writer always encodes a
string the same way.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from actionspan.recorder._line import SECOND, encode_json
from actionspan.recorder.contract import EventFilter, Moment

__all__ = ["Selection", "epoch_seconds", "lookup", "select"]

Predicate = Callable[[dict[str, Any]], bool]

_WILDCARD: Final = re.compile(r"[*?\[]")
_READER_MADE: Final = ("content", "request", "response", "resource_scope", "timestamp", "time_unix_nano", "seq", "v")
"""Fields that are not in a line as the encoder writes strings: content is embedded as its author spelt it."""
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Selection:
    """A query, ready to run."""

    checks: tuple[Predicate, ...] = ()
    """All of them must hold; they do not raise."""
    needles: tuple[bytes, ...] = ()
    """Each is in every matching line, the most selective first."""
    since: float | None = None
    until: float | None = None
    from_nano: int | None = None
    """Where a replay starts."""
    predicate: Callable[[dict[str, Any]], Any] | None = None
    """The application's own, called last and in order, because it may raise."""

    @classmethod
    def starting(cls, nanoseconds: int) -> Selection:
        """Everything from that time on."""
        return cls(checks=(lambda event: event["time_unix_nano"] >= nanoseconds,), from_nano=nanoseconds)

    def matches(self, event: dict[str, Any]) -> bool:
        return all(check(event) for check in self.checks)

    def may_contain(self, first: int, last: int) -> bool:
        """Whether events from `first` to `last` (nanoseconds) can be in the time asked for."""
        if self.from_nano is not None and last < self.from_nano:
            return False
        # Integers on both sides of the division: the same double as the timestamp that the writer wrote.
        return (self.since is None or last / SECOND >= self.since) and (
            self.until is None or first / SECOND < self.until
        )


@dataclass(slots=True)
class _Draft:
    checks: list[Predicate] = field(default_factory=list[Predicate])
    needles: list[bytes] = field(default_factory=list[bytes])


def select(
    *,
    kind: str | None = None,
    agent_id: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    call_id: str | None = None,
    extra_filter: EventFilter | None = None,
    finished: bool = False,
) -> Selection:
    """The arguments of `Reader.query` made a `Selection`; `ValueError` or `TypeError` names a wrong one."""
    draft = _Draft()
    start, end = epoch_seconds("since", since), epoch_seconds("until", until)
    if call_id is not None:
        call_id = str(call_id)
        draft.checks.append(lambda event: call_id in (event.get("call_id"), event.get("action_id")))
        _search(draft, b"", call_id)
    predicate = None
    if isinstance(extra_filter, Mapping):
        for path, wanted in cast("Mapping[str, Any]", extra_filter).items():
            _add_field(draft, path, wanted)
    elif callable(extra_filter):
        predicate = extra_filter
    elif extra_filter is not None:
        raise TypeError(f"extra_filter is a mapping or a callable, not {type(extra_filter).__name__}")
    if agent_id is not None:
        draft.checks.append(lambda event: event.get("agent_id") == agent_id)
        _search(draft, b'"agent_id":', agent_id)
    if kind is not None:
        _add_kind(draft, kind)
    if start is not None or end is not None:
        draft.checks.append(_within(start, end))
    if finished:
        draft.checks.append(lambda event: event.get("outcome") is not None)
        draft.needles.append(b'"outcome":')
    return Selection(tuple(draft.checks), tuple(draft.needles), start, end, predicate=predicate)


def epoch_seconds(name: str, moment: Moment | None) -> float | None:
    """`moment` in seconds since the epoch; `ValueError` when it is naive or no time at all."""
    if moment is None:
        return None
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise ValueError(f"{name}={moment!r} is not an ISO 8601 time") from None
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise ValueError(
                f"{name}={moment.isoformat()} has no offset: a naive time means a different moment elsewhere"
            )
        return moment.timestamp()
    if type(moment) in (int, float) and moment == moment:
        return float(moment)
    raise ValueError(f"{name} is epoch seconds, an aware datetime or ISO 8601 text, not {moment!r}")


def lookup(event: Any, path: str, default: Any = None) -> Any:
    """The value at the dotted `path`; names with dots in them, as attributes have, are found too."""
    if not isinstance(event, Mapping):
        return default
    mapping = cast("Mapping[str, Any]", event)
    if path in mapping:
        return mapping[path]
    position = path.find(".")
    while position >= 0:
        if path[:position] in mapping:
            found = lookup(mapping[path[:position]], path[position + 1 :], _MISSING)
            if found is not _MISSING:
                return found
        position = path.find(".", position + 1)
    return default


def _add_field(draft: _Draft, path: str, wanted: Any) -> None:
    draft.checks.append(lambda event: lookup(event, path, _MISSING) == wanted)
    if isinstance(wanted, str) and path.partition(".")[0] not in _READER_MADE:
        _search(draft, b"" if "." in path else encode_json(path) + b":", wanted)


def _add_kind(draft: _Draft, kind: str) -> None:
    wildcard = _WILDCARD.search(kind)
    if wildcard is None:
        draft.checks.append(lambda event: event["kind"] == kind)
        _search(draft, b'"kind":', kind)
        return
    matches = re.compile(fnmatch.translate(kind)).match
    draft.checks.append(lambda event: matches(event["kind"]) is not None)
    if wildcard.start():
        draft.needles.append(b'"kind":' + encode_json(kind[: wildcard.start()])[:-1])


def _search(draft: _Draft, prefix: bytes, text: str) -> None:
    draft.needles.append(prefix + encode_json(str(text)))


def _within(since: float | None, until: float | None) -> Predicate:
    start = float("-inf") if since is None else since
    end = float("inf") if until is None else until
    return lambda event: start <= event["timestamp"] < end

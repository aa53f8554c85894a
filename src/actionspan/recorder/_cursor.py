"""How far a replay has come, in a file, so that it can go on after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._rewrite import replacing

__all__ = ["Cursor", "load_cursor", "save_cursor"]


@dataclass(slots=True)
class Cursor:
    """The place after the last span that the receiver has answered for."""

    record: str
    """The directory; a cursor of another one is not used."""
    endpoint: str
    shift: int | None = None
    """Nanoseconds everything is moved by, decided once; None: not decided yet."""
    time_unix_nano: int = 0
    """The last event's time, in the record."""
    spans: list[str] = field(default_factory=list[str])
    """The spans of that time that are done."""

    def passed(self, event: dict[str, Any]) -> bool:
        """Whether `event` is done."""
        time = event["time_unix_nano"]
        return time < self.time_unix_nano or (time == self.time_unix_nano and event["span_id"] in self.spans)

    def advance(self, event: dict[str, Any]) -> None:
        """`event` is done."""
        if event["time_unix_nano"] > self.time_unix_nano:
            self.time_unix_nano, self.spans = event["time_unix_nano"], []
        self.spans.append(event["span_id"])


def load_cursor(path: Path | None, record: str, endpoint: str) -> Cursor:
    """The cursor saved at `path` for this record and endpoint, else one at the beginning. `ValueError`: of another."""
    fresh = Cursor(record, endpoint)
    if path is None or not path.exists():
        return fresh
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=Cursor)
    except UNDECODABLE:
        raise ValueError(f"{path} is not the cursor of a replay") from None
    if (saved.record, saved.endpoint) != (record, endpoint):
        raise ValueError(f"{path} is the cursor of a replay of {saved.record} to {saved.endpoint}")
    return saved


def save_cursor(path: Path | None, cursor: Cursor) -> None:
    """Keep `cursor` at `path`."""
    if path is not None:
        with replacing(path, path.parent.stat()) as file:
            file.write(msgspec.json.encode(cursor))

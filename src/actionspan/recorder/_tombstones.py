"""What is left of a segment that was removed or rewritten: one line of `tombstones.jsonl`."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._segment import segment_line
from actionspan.recorder._trailer import Trailer

__all__ = ["bury", "read_tombstones"]

TOMBSTONE: Final = "segment.tombstone"
_FILE: Final = "tombstones.jsonl"


def bury(directory: Path, segment: str, *, reason: str, trailer: Trailer | None, **more: Any) -> None:
    """Append the tombstone of `segment`: why, and the trailer it had, on which a later one of its writer may hang."""
    known = {} if trailer is None else {"trailer": trailer.fields, "trailer_sha256": trailer.sha256}
    data = segment_line(TOMBSTONE, segment=segment, reason=reason, **known, **more)
    descriptor = os.open(directory / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def read_tombstones(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """The tombstones of each segment, oldest first; lines that are none are passed over."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    try:
        data = (directory / _FILE).read_bytes()
    except FileNotFoundError:
        return found
    for raw in data.splitlines():
        try:
            fields = msgspec.json.decode(raw, type=dict[str, Any])
        except UNDECODABLE:
            continue
        if fields.get("kind") == TOMBSTONE and isinstance(fields.get("segment"), str):
            found[fields["segment"]].append(fields)
    return found

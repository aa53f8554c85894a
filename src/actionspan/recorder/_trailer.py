"""The last line of a closed segment, read without reading the segment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._directory import SegmentFile
from actionspan.recorder._segment import TRAILER, trailer_hash

__all__ = ["Trailer", "parse_trailer", "read_trailer"]

_TAIL: Final = 8192
"""More bytes than a trailer has."""


@dataclass(frozen=True, slots=True)
class Trailer:
    """What a writer said of its segment when it closed it."""

    fields: dict[str, Any]
    sha256: str
    """Of the trailer line itself: what the writer's next trailer says it hangs on."""


def parse_trailer(line: bytes) -> Trailer | None:
    """The trailer that `line`, with its line break, is; None when it is another line."""
    if b'"kind":"segment.trailer"' not in line[:64]:
        return None
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except UNDECODABLE:
        return None
    return Trailer(fields, trailer_hash(line)) if fields.get("kind") == TRAILER else None


def read_trailer(segment: SegmentFile) -> Trailer | None:
    """The trailer of a segment that is not compressed; None when it has none. `FileNotFoundError` as it is."""
    if segment.compressed:
        return None
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, _TAIL, max(0, size - _TAIL))
    finally:
        os.close(descriptor)
    if not tail.endswith(b"\n"):
        return None
    return parse_trailer(tail[tail.rfind(b"\n", 0, -1) + 1 :])

"""The times in a segment that has no trailer to tell them, without decoding the lines our own writer wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._blocks import LineBlocks
from actionspan.recorder._decode import fill_time
from actionspan.recorder._line import SEGMENT_PREFIX

__all__ = ["TimedLine", "timed_lines"]

TimedLine = tuple[int | None, int, int]
"""Time in nanoseconds, None when it is no event; start and end offset in the segment."""
_FIELD: Final = b'"time_unix_nano":'
_OWN_LINE: Final = b'{"v":1,"kind":"segment.'
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def timed_lines(blocks: LineBlocks, ours: bool) -> Iterator[TimedLine]:
    """Each line's time and place."""
    find = _find_time if ours else _decode_time
    for buffer, end in blocks:
        start = 0
        while start < end:
            stop = buffer.find(b"\n", start, end) + 1
            yield find(buffer, start, stop), blocks.offset + start, blocks.offset + stop
            start = stop


def _find_time(buffer: bytearray, start: int, stop: int) -> int | None:
    if buffer.startswith(_OWN_LINE, start, stop):
        return None
    mark = buffer.find(_FIELD, start, stop) + len(_FIELD)
    if mark < len(_FIELD):
        return None
    try:
        return int(buffer[mark : buffer.find(b",", mark, stop)])
    except ValueError:
        return None


def _decode_time(buffer: bytearray, start: int, stop: int) -> int | None:
    """The time of an event that another program wrote, as the decoder fills it in."""
    try:
        event = _decode(buffer[start:stop])
    except UNDECODABLE:
        return None
    if not isinstance(event.get("kind"), str) or event["kind"].startswith(SEGMENT_PREFIX):
        return None
    fill_time(event)
    return event["time_unix_nano"]

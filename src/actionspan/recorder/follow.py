"""Following a record while it grows, over rotations and new processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from actionspan.recorder._blocks import (
    DECODED_BLOCK,
    LONGEST_LINE,
    NO_EVENT,
    ByteSource,
    LineBlocks,
    open_segment,
    whole_lines,
)
from actionspan.recorder._decode import LineDecoder
from actionspan.recorder._directory import SegmentFile, list_segments
from actionspan.recorder._report import ReadReport
from actionspan.recorder._segment import CONTEXT
from actionspan.recorder._trailer import parse_trailer, read_trailer

__all__ = ["follow"]

_CONTEXT_MARK: Final = b'"kind":"' + CONTEXT.encode() + b'"'


def follow(
    directory: str | os.PathLike[str],
    *,
    from_start: bool = False,
    poll_seconds: float = 0.25,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Iterate events as they are written, for ever; with `from_start` those already there first.

    The directory is looked at every `poll_seconds`; what has come since is in time order. The iteration ends when
    `wait(poll_seconds)` returns something true, as `threading.Event().wait` does once it is set.
    """
    path = Path(directory)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a directory")
    tails: dict[str, _Tail] = {segment.name: _Tail(segment, from_start) for segment in list_segments(path)}
    return _following(path, tails, poll_seconds, wait)


def _following(
    path: Path, tails: dict[str, _Tail], poll_seconds: float, wait: Callable[[float], object]
) -> Iterator[dict[str, Any]]:
    try:
        while True:
            for segment in _segments(path):
                if segment.name not in tails:
                    tails[segment.name] = _Tail(segment, from_start=True)
            fresh = [event for name in sorted(tails) for event in tails[name].read()]
            fresh.sort(key=lambda event: event["time_unix_nano"])
            yield from fresh
            if not fresh and wait(poll_seconds):
                return
    finally:
        for tail in tails.values():
            tail.close()


def _segments(path: Path) -> list[SegmentFile]:
    try:
        return list_segments(path)
    except FileNotFoundError:  # the directory was removed: the next recorder makes it again
        return []


class _Tail:
    """Reads one segment as far as it is written, a block at a time."""

    def __init__(self, segment: SegmentFile, from_start: bool) -> None:
        self._decoder = LineDecoder(ReadReport())
        self._rest = b""
        self._source: ByteSource | None = None
        try:
            if from_start or not (segment.compressed or read_trailer(segment)):
                self._source = open_segment(segment)
        except FileNotFoundError:  # retention was quicker
            return
        if self._source is not None and not from_start:
            self._skip(self._source)

    def read(self) -> list[dict[str, Any]]:
        """The events of the next block; none when nothing has been written since."""
        if self._source is None:
            return []
        buffer = bytearray(DECODED_BLOCK)
        with memoryview(buffer) as view:
            count = self._source.readinto(view) or 0
        lines = whole_lines(self._rest + bytes(buffer[:count]))
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if len(self._rest) > LONGEST_LINE:
            self._rest = NO_EVENT
        events = self._decoder.decode_lines(lines)
        if lines and parse_trailer(lines[-1]) is not None:
            self.close()
        return events

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _skip(self, source: ByteSource) -> None:
        """Go to the end, but for the context lines that later events refer to."""
        blocks = LineBlocks(source)
        for buffer, end in blocks:
            if buffer.find(_CONTEXT_MARK, 0, end) >= 0:
                lines = whole_lines(bytes(buffer[:end]))
                self._decoder.decode_lines(line for line in lines if _CONTEXT_MARK in line[:64])
        self._rest = blocks.rest

"""Removing events from a record: the right to erasure."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, Any

from actionspan.recorder._blocks import DECODED_BLOCK, LineBlocks, open_segment, whole_lines, zstd
from actionspan.recorder._decode import LineDecoder
from actionspan.recorder._directory import Progress, SegmentFile, each_segment, lock_closed
from actionspan.recorder._report import ReadReport
from actionspan.recorder._rewrite import replacing
from actionspan.recorder._segment import TRAILER, TimeBounds, segment_line, trailer_hash
from actionspan.recorder._select import select
from actionspan.recorder._tombstones import bury
from actionspan.recorder._trailer import Trailer, parse_trailer
from actionspan.recorder.contract import EventFilter

__all__ = ["EraseReport", "erase"]


@dataclass(slots=True)
class EraseReport:
    """What `erase` did."""

    segments: int = 0
    """Segments rewritten."""
    events: int = 0
    """Events removed."""
    unreadable: int = 0
    """Lines that are no event, removed from rewritten segments: what they say cannot be known."""
    live: list[str] = field(default_factory=list[str])
    """Segments left alone because a process writes to them: erase again when it has ended."""
    left: list[str] = field(default_factory=list[str])
    """Segments without a matching event that have unreadable lines, and were left as they are."""


class _Verdict(Enum):
    KEEP = "keep"
    ERASE = "erase"
    UNREADABLE = "unreadable"
    TRAILER = "trailer"


def erase(directory: str | os.PathLike[str], where: EventFilter, *, progress: Progress | None = None) -> EraseReport:
    """Rewrite every closed segment of `directory` without the events that match `where`, and leave a tombstone.

    `where` is as `extra_filter` of a query; `ValueError` when it is an empty mapping. The trailer is written anew; the
    tombstone has the old one's hash, so that `verify` accepts the change, and how many events are gone. `progress` is
    told the segments done, and how many there are.
    """
    path = Path(directory)
    if not callable(where) and not where:
        raise ValueError("erase needs at least one field to match; an empty filter would erase everything")
    selection = select(extra_filter=where)
    predicate = selection.predicate or selection.matches
    report = EraseReport()
    for segment in each_segment(path, progress):
        with lock_closed(segment.path) as descriptor:
            if descriptor is None:
                if segment.path.exists():
                    report.live.append(segment.name)
                continue
            _erase(path, segment, predicate, report)
    return report


def _erase(
    directory: Path, segment: SegmentFile, predicate: Callable[[dict[str, Any]], Any], report: EraseReport
) -> None:
    verdicts = {verdict for _, _, verdict in _judged(segment, predicate)}
    if _Verdict.ERASE not in verdicts:
        if _Verdict.UNREADABLE in verdicts:
            report.left.append(segment.name)
        return
    rewriting = _Rewriting(segment)
    with replacing(segment.path, segment.path.stat()) as file:
        stream = _compressing(file) if segment.compressed else file
        for line, moment, verdict in _judged(segment, predicate):
            rewriting.take(stream, line, moment, verdict)
        trailer = rewriting.finish(stream)
        if stream is not file:
            stream.close()
        bury(
            directory,
            segment.name,
            reason="erase",
            trailer=rewriting.trailer,
            new_trailer_sha256=trailer,
            events=rewriting.erased,
            unreadable=rewriting.unreadable,
        )
    report.segments += 1
    report.events += rewriting.erased
    report.unreadable += rewriting.unreadable


class _Rewriting:
    """The new content of one segment."""

    def __init__(self, segment: SegmentFile) -> None:
        self._segment = segment
        self._hash = hashlib.sha256()
        self._times = TimeBounds()
        self._kept = 0
        self.trailer: Trailer | None = None
        self.erased = 0
        self.unreadable = 0

    def take(self, stream: IO[bytes], line: bytes, moment: int | None, verdict: _Verdict) -> None:
        """Write a line, or leave it out."""
        if verdict is _Verdict.KEEP:
            self._hash.update(line)
            stream.write(line)
            if moment is not None:
                self._kept += 1
                self._times.note(moment)
        elif verdict is _Verdict.TRAILER:
            self.trailer = parse_trailer(line)
        else:
            self.erased += verdict is _Verdict.ERASE
            self.unreadable += verdict is _Verdict.UNREADABLE

    def finish(self, stream: IO[bytes]) -> str | None:
        """Write the new trailer, when there was one, and return its hash."""
        if self.trailer is None:
            return None
        changed = {
            "events": self._kept,
            "first": self._times.first,
            "last": self._times.last,
            "ordered": self._times.lateness == 0,
            "lateness": self._times.lateness,
            "sha256": self._hash.hexdigest(),
        }
        kept = {
            name: self.trailer.fields.get(name)
            for name in ("segment", "writer", "number", "previous_segment", "previous")
        }
        line = segment_line(TRAILER, **(kept | changed))
        stream.write(line)
        return trailer_hash(line)


def _judged(
    segment: SegmentFile, predicate: Callable[[dict[str, Any]], Any]
) -> Iterator[tuple[bytes, int | None, _Verdict]]:
    """Each line, its time when it is an event, and what becomes of it."""
    decoder = LineDecoder(ReadReport())
    source = open_segment(segment)
    try:
        blocks = LineBlocks(source, DECODED_BLOCK)
        for buffer, end in blocks:
            for line in whole_lines(bytes(buffer[:end])):
                yield _judge(decoder, line, predicate)
        if blocks.torn:
            yield b"", None, _Verdict.UNREADABLE
    finally:
        source.close()


def _judge(
    decoder: LineDecoder, line: bytes, predicate: Callable[[dict[str, Any]], Any]
) -> tuple[bytes, int | None, _Verdict]:
    if parse_trailer(line) is not None:
        return line, None, _Verdict.TRAILER
    report = ReadReport()
    decoder.report = report
    events = decoder.decode_lines([line])
    if report.skipped:
        return line, None, _Verdict.UNREADABLE
    if not events:
        return line, None, _Verdict.KEEP
    verdict = _Verdict.ERASE if predicate(events[0]) else _Verdict.KEEP
    return line, events[0]["time_unix_nano"], verdict


def _compressing(file: IO[bytes]) -> IO[bytes]:
    return zstd().ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False)

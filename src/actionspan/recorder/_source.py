"""One segment as batches of events in time order."""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import IO, Any, Final, cast

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._blocks import BLOCK, DECODED_BLOCK, LineBlocks, open_segment
from actionspan.recorder._decode import LineDecoder
from actionspan.recorder._directory import SegmentFile
from actionspan.recorder._report import ReadReport
from actionspan.recorder._segment import ENCODER, HEADER, TimeBounds
from actionspan.recorder._select import Selection
from actionspan.recorder._times import TimedLine, timed_lines

__all__ = ["Batch", "SegmentSource", "moment"]

Batch = list[dict[str, Any]]
moment = itemgetter("time_unix_nano")

_HOLD_BACK: Final = 50_000_000
"""Nanoseconds: events this late are put in order while reading on; later ones by an index of the segment."""
_INDEXED_BATCH: Final = 256
_CONTEXT_MARK: Final = b'"kind":"segment.context"'


class SegmentSource:
    """Reads what `selection` asks for from one segment.

    `trailer` is what the segment's writer said of it, when that is known; else its times are found by reading it once.
    """

    def __init__(
        self,
        segment: SegmentFile,
        selection: Selection,
        report: ReadReport,
        trailer: dict[str, Any] | None,
        *,
        text: bool = False,
    ) -> None:
        self.segment = segment
        self.name = segment.name
        self._selection = selection
        self._report = report
        self._decoder = LineDecoder(report, text=text)
        self.header = self._read_header()
        self._ours = self.header.get("encoder") == ENCODER
        self._needles = selection.needles if self._ours else ()
        self._missing: set[int] = set()
        """Contexts that events refer to and that are not there."""
        self._size: int | None = None
        """What is read of a segment that may still grow: as much as its times are known of."""
        stated = _stated_times(trailer) if trailer is not None and self._ours else None
        self.closed = stated is not None
        self.times = self._find_times() if stated is None else stated

    @property
    def wanted(self) -> bool:
        """Whether the segment can have events in the time asked for; only a trailer can exclude that."""
        times = self.times
        if times.first is None or times.last is None:
            return False
        return not self.closed or self._selection.may_contain(times.first, times.last)

    @property
    def first(self) -> int:
        """No event is earlier (nanoseconds)."""
        return self.times.first or 0

    def batches(self, crowded: bool = False) -> Iterator[Batch]:
        """Matching events in time order; `crowded`: many segments are being read at the same time."""
        lateness = self.times.lateness
        size = DECODED_BLOCK if crowded or not self._needles else BLOCK
        self._report.segments += 1
        if lateness == 0:
            batches = self._in_file_order(size)
        elif lateness <= _HOLD_BACK:
            batches = _held_back(self._in_file_order(size), lateness)
        else:
            batches = self._by_index()
        return self._unless_removed(batches)

    def as_written(self) -> Iterator[Batch]:
        """Matching events in the order they were written in: a clock that was set back does not change that one."""
        return self._unless_removed(self._in_file_order(DECODED_BLOCK))

    def _unless_removed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Retention may remove the segment between the listing and its turn; once open, it stays readable."""
        try:
            yield from batches
        except FileNotFoundError:
            self._report.removed += 1

    def _in_file_order(self, size: int) -> Iterator[Batch]:
        source = open_segment(self.segment)
        try:
            blocks = LineBlocks(source, size, self._size)
            for buffer, end in blocks:
                if self._needles:
                    lines = self._found(buffer, end)
                    blocks.step = size if sum(map(len, lines)) * 4 < end else DECODED_BLOCK
                    yield self._chosen(self._resolved(self._decoder.decode_found(lines)))
                else:
                    blocks.step = DECODED_BLOCK
                    yield self._chosen(self._decoder.decode_block(buffer, end))
            self._report.torn += blocks.torn > 0
        finally:
            source.close()

    def _found(self, buffer: bytearray, end: int) -> list[bytes]:
        """The lines that may match."""
        lines = _lines_with(self._needles, buffer, end)
        if sum(map(len, lines)) * 10 > end * 9:
            self._needles = ()  # nearly all lines match: searching for them costs more than it saves
        return lines

    def _resolved(self, events: Batch) -> Batch:
        """Events picked out of the segment, whose context lines may have been passed over."""
        for event in events:
            if type(event.get("resource_scope")) is int:
                self._resolve(event)
        return events

    def _chosen(self, events: Batch) -> Batch:
        for check in self._selection.checks:
            events = [event for event in events if check(event)]
        return events

    def _resolve(self, event: dict[str, Any]) -> None:
        """Look up a context line that a search has skipped."""
        number = event["resource_scope"]
        if number not in self._decoder.contexts and number not in self._missing:
            self._find_context(number)
        event["resource_scope"] = self._decoder.contexts.get(number)

    def _find_context(self, number: int) -> None:
        """Read until its line is found, which is before the events that refer to it and so most often the second."""
        source = open_segment(self.segment)
        try:
            for buffer, end in LineBlocks(source, DECODED_BLOCK):
                for line in _lines_with((_CONTEXT_MARK,), buffer, end):
                    self._learn(line)
                if number in self._decoder.contexts:
                    return
        finally:
            source.close()
        self._missing.add(number)

    def _learn(self, line: bytes) -> None:
        try:
            self._decoder.learn(msgspec.json.decode(line, type=dict[str, Any]))
        except UNDECODABLE:  # damaged: events that refer to it stay without
            pass

    def _read_header(self) -> dict[str, Any]:
        """The segment's first line, when it is one of ours."""
        source = open_segment(self.segment)
        try:
            for buffer, end in LineBlocks(source, 4096):
                header = msgspec.json.decode(buffer[: buffer.find(b"\n", 0, end)], type=dict[str, Any])
                return header if header.get("kind") == HEADER else {}
        except UNDECODABLE:
            pass
        finally:
            source.close()
        return {}

    def _find_times(self) -> TimeBounds:
        times = TimeBounds()
        source = open_segment(self.segment)
        blocks = LineBlocks(source)
        try:
            for time, _, _ in timed_lines(blocks, self._ours):
                if time is not None:
                    times.note(time)
            self._size = blocks.offset + blocks.torn
        finally:
            source.close()
        return times

    def _by_index(self) -> Iterator[Batch]:
        """Sort places in the segment rather than events: an event may be as late as it likes."""
        with self._seekable() as file:
            lines = list(timed_lines(LineBlocks(cast(Any, file), limit=self._size), self._ours))
            # What is no event is still to be learnt from, or counted.
            self._decoder.decode_lines(_read(file, line) for line in lines if line[0] is None)
            events = sorted(line for line in lines if line[0] is not None)
            for position in range(0, len(events), _INDEXED_BATCH):
                texts = (_read(file, line) for line in events[position : position + _INDEXED_BATCH])
                hits = (line for line in texts if all(needle in line for needle in self._needles))
                yield self._chosen(self._resolved(self._decoder.decode_lines(hits)))

    def _seekable(self) -> IO[bytes]:
        source = open_segment(self.segment)
        if not self.segment.compressed and hasattr(source, "fileno"):
            return cast(IO[bytes], source)
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 # the caller closes it
        with memoryview(bytearray(BLOCK)) as buffer:
            while count := source.readinto(buffer):
                file.write(buffer[:count])
        source.close()
        file.seek(0)
        return cast(IO[bytes], file)


def _read(file: IO[bytes], line: TimedLine) -> bytes:
    _, start, stop = line
    return os.pread(file.fileno(), stop - start, start)


def _stated_times(trailer: dict[str, Any]) -> TimeBounds | None:
    first, last, lateness = trailer.get("first"), trailer.get("last"), trailer.get("lateness")
    if trailer.get("events") == 0:
        return TimeBounds()
    if type(first) is int and type(last) is int and type(lateness) is int:
        return TimeBounds(first, last, lateness)
    return None


def _lines_with(needles: tuple[bytes, ...], buffer: bytearray, end: int) -> list[bytes]:
    """The lines of `buffer[:end]` that contain all `needles`."""
    first, *others = needles
    lines: list[bytes] = []
    position = buffer.find(first, 0, end)
    while position >= 0:
        start = buffer.rfind(b"\n", 0, position) + 1
        stop = buffer.find(b"\n", position, end) + 1
        line = bytes(buffer[start:stop])
        if all(needle in line for needle in others):
            lines.append(line)
        position = buffer.find(first, stop, end)
    return lines


def _held_back(batches: Iterator[Batch], lateness: int) -> Iterator[Batch]:
    """`batches` in order: an event is let go once no earlier one can follow."""
    held: Batch = []
    newest = 0
    for batch in batches:
        if not batch:
            continue
        held += batch
        held.sort(key=moment)
        newest = max(newest, moment(held[-1]))
        ready = bisect_right(held, newest - lateness - 1, key=moment)
        yield held[:ready]
        del held[:ready]
    yield held

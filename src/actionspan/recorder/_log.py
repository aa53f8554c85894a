"""The log of one process in one directory: events in, whole lines out, a new segment when one is full or lost.

The order of things under fork, signals and full disks is decided here and nowhere else:

- A child process never touches its parent's segment: it forgets it and opens its own at its first event.
- `append` called again while it runs in the same thread (a signal handler, a finalizer) queues its event; the outer
  call writes it.
- A write that fails costs the events of that write. They are counted, one line is logged, the next event tries anew.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from actionspan.recorder._directory import prepare_directory
from actionspan.recorder._line import MAX_LINE, Encoded, encode_event
from actionspan.recorder._retention import Retention
from actionspan.recorder._segment import Chain, OpenSegment
from actionspan.recorder._ticker import Ticker
from actionspan.recorder.contract import Event
from actionspan.recorder.errors import RecorderClosed

__all__ = ["Durability", "RecorderStats", "SegmentLog"]

Durability = Literal["write", "fsync", "batch"]

_logger = logging.getLogger("actionspan")
_SYNC_SECONDS: Final = 0.05
_BATCH_SECONDS: Final = 1.0
_BATCH_BYTES: Final = 64 * 1024
_CHECK_BYTES: Final = 64 * 1024
"""Bytes between two looks at the file we write to: whether somebody removed it, whether it is full."""


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """What a recorder did in this process."""

    written: int
    """Events handed to the operating system."""
    dropped: int
    """Events lost to a failing file system."""
    bytes: int
    segments: int


class SegmentLog:
    """Appends events to segments of `directory`, which `prepare_directory` has made. Thread-safe and fork-safe."""

    def __init__(
        self, directory: Path, durability: Durability, max_segment_bytes: int, retention: Retention, file_mode: int
    ) -> None:
        self.directory = directory
        self._durability: Durability = durability
        self._max_segment_bytes = max_segment_bytes
        self._retention = retention
        self._file_mode = file_mode
        self._closed = False
        self._start()
        _live.add(self)

    def _start(self) -> None:
        """The state of a process that has written nothing yet."""
        self._lock = threading.RLock()
        self._sync_lock = threading.RLock()
        self._busy = False
        self._queue: deque[Encoded] = deque()
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._segment: OpenSegment | None = None
        self._chain = Chain(writer=secrets.token_hex(8))
        self._ticker: Ticker | None = None
        self._unsynced = False
        self._failing = False
        self._written = self._dropped = self._bytes = self._segments = 0

    def append(self, event: Event) -> None:
        """Write `event`. `ValueError` for one without a kind, `RecorderClosed`; the file system's errors stay here."""
        encoded = encode_event(event)
        with self._lock:
            if self._closed:
                raise RecorderClosed(f"the recorder of {self.directory} is closed")
            if self._busy:
                self._queue.append(encoded)
                return
            self._busy = True
            try:
                self._take(encoded)
            finally:
                self._busy = False
            if self._queue:
                self._run()

    def flush(self) -> None:
        """Hand everything to the operating system; with durability fsync, to the disk."""
        with self._lock:
            self._run(self._write_out)
        if self._durability == "fsync":
            self._sync()

    def finish(self) -> None:
        """Close the segment with its trailer. An event that comes later (at exit) opens another one."""
        ticker = self._ticker
        if ticker is not None:
            ticker.stop()
            self._ticker = None
        with self._lock:
            self._run(self._end_segment)

    def close(self) -> None:
        """Finish, and refuse further events."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.finish()

    @property
    def stats(self) -> RecorderStats:
        return RecorderStats(self._written, self._dropped, self._bytes, self._segments)

    @property
    def segment_name(self) -> str | None:
        """The name of the segment being written."""
        segment = self._segment
        return None if segment is None else segment.name

    def _run(self, work: Callable[[], None] | None = None) -> None:
        """Do `work` and take what is queued, unless this thread is at it further up its stack."""
        if self._busy:
            return
        self._busy = True
        try:
            if work is not None:
                work()
            while self._queue:
                self._take(self._queue.popleft())
        finally:
            self._busy = False
        # A signal handler may have queued an event between the last look at the queue and the line above.
        if self._queue:
            self._run()

    def _take(self, encoded: Encoded) -> None:
        segment = self._segment
        if segment is None or segment.bytes >= segment.check_at:
            segment = self._writable(len(encoded.body))
            if segment is None:
                return
        data = segment.line_of(encoded)
        if self._durability == "write":
            self._write(segment, data, 1)
            return
        self._buffer.append(data)
        self._buffered += len(data)
        if self._durability == "fsync" or self._buffered >= _BATCH_BYTES:
            self._write_out()
        if self._ticker is None:
            self._tick()

    def _writable(self, size: int) -> OpenSegment | None:
        """The segment for an event of about `size` bytes; None, and the event dropped, when there is none to be had."""
        segment = self._segment
        if segment is not None:
            if segment.events and segment.bytes + self._buffered + size > self._max_segment_bytes:
                self._end_segment()
            elif segment.unlinked:
                self._abandon()
            else:
                segment.hash_written()
        segment = self._segment or self._open()
        if segment is not None:
            segment.check_at = min(segment.bytes + _CHECK_BYTES, self._max_segment_bytes - 2 * MAX_LINE)
        return segment

    def _open(self) -> OpenSegment | None:
        try:
            prepare_directory(self.directory)
            segment = OpenSegment(self.directory, self._chain, self._file_mode)
        except OSError as error:
            self._drop(1, error)
            return None
        self._segment = segment
        self._segments += 1
        self._bytes += segment.bytes
        self._retention.apply(self.directory, segment.name)
        return segment

    def _write_out(self) -> None:
        segment, lines = self._segment, self._buffer
        self._buffer, self._buffered = [], 0
        if segment is not None and lines:
            self._write(segment, b"".join(lines), len(lines))

    def _write(self, segment: OpenSegment, data: bytes, events: int) -> None:
        try:
            segment.append(data)
        except OSError as error:
            self._drop(events, error)
            segment.events -= events
            self._end_segment()
            return
        self._written += events
        self._bytes += len(data)
        self._failing = False
        self._unsynced = True

    def _drop(self, events: int, error: OSError) -> None:
        self._dropped += events
        if not self._failing:
            self._failing = True
            _logger.error("recording to %s fails, events are being dropped: %s", self.directory, error)

    def _end_segment(self) -> None:
        self._write_out()
        segment, self._segment = self._segment, None
        if segment is not None:
            with self._sync_lock:
                self._chain = segment.close(durable=self._durability == "fsync")

    def _abandon(self) -> None:
        """Leave a file that nobody will find again; the next event opens another."""
        segment, self._segment = self._segment, None
        if segment is not None:
            self._drop(0, FileNotFoundError(f"{segment.path} was removed"))
            with self._sync_lock:
                segment.release()
            self._chain = self._chain.next(segment.name, None)

    def _tick(self) -> None:
        if self._durability == "fsync":
            self._ticker = Ticker(_SYNC_SECONDS, self._sync)
        else:
            self._ticker = Ticker(_BATCH_SECONDS, self.flush)

    def _sync(self) -> None:
        with self._sync_lock:
            segment = self._segment
            if segment is not None and self._unsynced:
                self._unsynced = False
                try:
                    os.fsync(segment.descriptor)
                except OSError as error:
                    self._drop(0, error)

    def _forget(self) -> None:
        """In a child process: the parent's segment, buffer, threads and locks are not ours."""
        if self._segment is not None:
            self._segment.release()
        self._start()


_live: weakref.WeakSet[SegmentLog] = weakref.WeakSet()


def _after_fork() -> None:
    for log in list(_live):
        log._forget()  # pyright: ignore[reportPrivateUsage] # the module's own class


os.register_at_fork(after_in_child=_after_fork)

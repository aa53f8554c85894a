"""One segment file while it is being written.

Its lines: a header, then events, a context line before the first event of each resource and scope, and a trailer once
it is closed. The trailer holds the SHA-256 of all bytes before it and that of the writer's previous trailer.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from actionspan._version import __version__
from actionspan.recorder._directory import new_segment_name
from actionspan.recorder._line import SECOND, Encoded, encode_json, line
from actionspan.recorder._values import jsonable

__all__ = ["ENCODER", "HEADER", "TRAILER", "Chain", "OpenSegment", "TimeBounds", "segment_line", "trailer_hash"]

HEADER: Final = "segment.header"
CONTEXT: Final = "segment.context"
TRAILER: Final = "segment.trailer"
ENCODER: Final = "actionspan/1"
"""Named in the header by a writer whose bytes for a string are always the same: a reader may search for them."""
_MAX_ORIGINS: Final = 1024
_ROUNDING: Final = 1000
"""Nanoseconds that epoch seconds in a double may be off."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Where the next segment of a writer hangs: its own id, the number of the segment, and the one before."""

    writer: str
    number: int = 1
    segment: str | None = None
    trailer: str | None = None
    """SHA-256 of the previous segment's trailer line; None when it could not be written."""

    def next(self, segment: str, trailer: str | None) -> Chain:
        return Chain(self.writer, self.number + 1, segment, trailer)


@dataclass(slots=True)
class TimeBounds:
    """First and last time of the events seen, and by how much one came after a later one (nanoseconds)."""

    first: int | None = None
    last: int | None = None
    lateness: int = 0

    _newest: int | None = None

    def note(self, moment: int) -> None:
        """Take an event's nanoseconds into account."""
        newest = self._newest
        if newest is None:
            self._newest = moment
            self._widen(moment)
        elif moment >= newest:
            self._newest = moment
            if self.last is None or moment > self.last:
                self.last = moment
        else:
            self.lateness = max(self.lateness, newest - moment)
            self._widen(moment)

    def note_stated(self, seconds: float) -> None:
        """Take a timestamp into account that an application gave: filters go by it, order by the nanoseconds."""
        moment = round(seconds * SECOND)
        self._widen(moment - _ROUNDING)
        self._widen(moment + _ROUNDING)

    def _widen(self, moment: int) -> None:
        self.first = moment if self.first is None else min(self.first, moment)
        self.last = moment if self.last is None else max(self.last, moment)


def segment_line(kind: str, **fields: Any) -> bytes:
    """A line about the segment itself."""
    now = time.time_ns()
    described = {"v": 1, "kind": kind, "timestamp": now / SECOND, "time_unix_nano": now}
    return encode_json(described | {name: value for name, value in fields.items() if value is not None}) + b"\n"


def trailer_hash(trailer: bytes) -> str:
    """What the next trailer of the chain says of this trailer line."""
    return hashlib.sha256(trailer).hexdigest()


def _create(directory: Path, file_mode: int) -> tuple[Path, int]:
    """A new file that nobody else has, open for appending."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    while True:
        path = directory / new_segment_name()
        try:
            return path, os.open(path, flags, file_mode)
        except FileExistsError:  # the same host name, process id, time and digits: other digits next time
            continue


class OpenSegment:
    """The file a writer appends to. Not thread-safe: the log holds its lock around every call.

    Creating one raises `OSError` and leaves no file behind when the header cannot be written.
    """

    def __init__(self, directory: Path, chain: Chain, file_mode: int) -> None:
        self.path, self.descriptor = _create(directory, file_mode)
        self.name = self.path.name
        self.chain = chain
        self.bytes = 0
        self.events = 0
        self.times = TimeBounds()
        self.check_at = 0
        """Bytes at which the log looks after the segment again: is it full, still there, to be hashed."""
        self._hash = hashlib.sha256()
        self._unhashed: list[bytes] = []
        self._origins: dict[bytes, int] = {}
        self._known: dict[int, tuple[Mapping[str, Any], int]] = {}
        try:
            # Waits at most for somebody who looks whether the file has a writer.
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            self.append(self._header())
        except OSError:
            os.close(self.descriptor)
            self.path.unlink(missing_ok=True)
            raise

    def _header(self) -> bytes:
        return segment_line(
            HEADER,
            segment=self.name,
            encoder=ENCODER,
            library=f"actionspan {__version__}",
            pid=os.getpid(),
            writer=self.chain.writer,
            number=self.chain.number,
            previous_segment=self.chain.segment,
        )

    def line_of(self, encoded: Encoded) -> bytes:
        """The line for `encoded`, the next event, after a context line when its resource and scope are new here."""
        context, origin = b"", None
        if encoded.origin is not None:
            context, origin = self._refer(encoded.origin)
        self.events += 1
        self.times.note(encoded.time_unix_nano)
        if encoded.timestamp is not None:
            self.times.note_stated(encoded.timestamp)
        text = line(encoded, self.events, origin)
        return context + text if context else text

    def append(self, data: bytes) -> None:
        """Write whole lines. `OSError`: they are not in the file, but for a torn last line at worst."""
        written = os.write(self.descriptor, data)
        if written != len(data):
            self._undo(written)
            raise OSError(f"{self.path}: wrote {written} of {len(data)} bytes")
        self._unhashed.append(data)
        self.bytes += written

    def _undo(self, written: int) -> None:
        """Take a partial line back; when even that fails, the reader ignores it as a torn last line."""
        try:
            os.ftruncate(self.descriptor, os.fstat(self.descriptor).st_size - written)
        except OSError:
            pass

    def _refer(self, origin: Any) -> tuple[bytes, int | None]:
        """A context line, empty when this segment has it already, and the number it has."""
        known = self._known.get(id(origin))
        if known is not None:
            return b"", known[1]
        return self._introduce(cast("Mapping[str, Any]", origin)) if isinstance(origin, Mapping) else (b"", None)

    def _introduce(self, origin: Mapping[str, Any]) -> tuple[bytes, int]:
        encoded = encode_json({"resource": jsonable(origin.get("resource")), "scope": jsonable(origin.get("scope"))})
        number = self._origins.get(encoded)
        context = b""
        if number is None:
            number = self._origins[encoded] = len(self._origins)
            described = msgspec.json.decode(encoded)
            context = segment_line(CONTEXT, resource_scope=number, **described)
        if len(self._known) >= _MAX_ORIGINS:
            self._known.clear()
        self._known[id(origin)] = (origin, number)
        return context, number

    def hash_written(self) -> None:
        """Hash what was written since; apart from the writes, so that most events do not wait for it."""
        unhashed, self._unhashed = self._unhashed, []
        self._hash.update(b"".join(unhashed))

    @property
    def unlinked(self) -> bool:
        """Whether the file was removed under us."""
        return os.fstat(self.descriptor).st_nlink == 0

    def close(self, durable: bool) -> Chain:
        """Write the trailer and release the file; the chain for the writer's next segment. Never raises."""
        written: str | None = None
        try:
            self._settle()
            trailer = self._trailer()
            self.append(trailer)
            written = trailer_hash(trailer)
            if durable:
                os.fsync(self.descriptor)
        except OSError:  # a full disk: the segment stays without a trailer, as after a crash
            pass
        self.release()
        return self.chain.next(self.name, written)

    def release(self) -> None:
        """Close the descriptor, and with it, unless a parent process still has it, give up the lock."""
        try:
            os.close(self.descriptor)
        except OSError:
            pass

    def _settle(self) -> None:
        """Hash the file itself when an interrupt between a write and our own books has left the two apart."""
        self.hash_written()
        if os.fstat(self.descriptor).st_size != self.bytes:
            with self.path.open("rb") as file:
                self._hash = hashlib.sha256(file.read())
                self.bytes = file.tell()

    def _trailer(self) -> bytes:
        return segment_line(
            TRAILER,
            segment=self.name,
            writer=self.chain.writer,
            number=self.chain.number,
            events=self.events,
            first=self.times.first,
            last=self.times.last,
            ordered=self.times.lateness == 0,
            lateness=self.times.lateness,
            sha256=self._hash.hexdigest(),
            previous_segment=self.chain.segment,
            previous=self.chain.trailer,
        )

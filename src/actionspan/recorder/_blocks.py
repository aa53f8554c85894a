"""Reading a segment in blocks of whole lines, through one reused buffer.

Not through mmap: a file that is truncated while it is mapped kills its reader with SIGBUS.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Final, Protocol

from actionspan.recorder._directory import COMPRESSED, SegmentFile
from actionspan.recorder.errors import CompressionUnavailable

__all__ = [
    "BLOCK",
    "DECODED_BLOCK",
    "LONGEST_LINE",
    "NO_EVENT",
    "ByteSource",
    "LineBlocks",
    "open_segment",
    "whole_lines",
    "zstd",
]

BLOCK: Final = 2**20
"""Bytes read at a time for a search."""
DECODED_BLOCK: Final = 2**16
"""Bytes read at a time where every line is decoded: more events alive at once only cost cache and collector time."""
LONGEST_LINE: Final = 2**26
"""Bytes of a line that are kept in memory. A longer one is no event; a small compressed file can hold gigabytes."""
NO_EVENT: Final = b"\0"
"""What stands in the place of what was not kept: it makes the rest of the line no JSON."""


class ByteSource(Protocol):
    """What is read from: an unbuffered file, or a decompressor."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...
    def close(self) -> None: ...


class LineBlocks:
    """Iterates `(buffer, end)`: `buffer[:end]` is whole lines, valid until the next step.

    `rest` is, once the iteration is over, what follows the last line break, and `torn` its length.
    """

    def __init__(self, source: ByteSource, size: int = BLOCK, limit: int | None = None) -> None:
        """Read `size` bytes at a time, no more than `limit` altogether."""
        self._source = source
        self._left = limit
        self.step = size
        """Bytes to read at a time; may be changed while iterating."""
        self._buffer = bytearray(size)
        self.torn = 0
        self.rest = b""
        self.offset = 0
        """Where the current block starts in the (decompressed) segment."""

    def __iter__(self) -> Iterator[tuple[bytearray, int]]:
        kept = 0
        while count := self._fill(kept):
            filled = kept + count
            end = self._buffer.rfind(b"\n", kept, filled) + 1
            if end:
                yield self._buffer, end
                self._buffer[: filled - end] = self._buffer[end:filled]
                self.offset += end
            kept = filled - end
            if kept > LONGEST_LINE:
                self._buffer[:1] = NO_EVENT
                self.offset += kept - 1
                kept = 1
        self.torn = kept
        self.rest = bytes(self._buffer[:kept])

    def _fill(self, kept: int) -> int:
        if kept == len(self._buffer):
            self._buffer.extend(bytes(len(self._buffer)))
        step = self.step if self._left is None else min(self.step, self._left)
        end = min(len(self._buffer), kept + step)
        with memoryview(self._buffer) as view, view[kept:end] as free:
            count = self._source.readinto(free) or 0
        if self._left is not None:
            self._left -= count
        return count


def whole_lines(block: bytes) -> list[bytes]:
    """The lines of `block` with their line breaks. Not `splitlines`: that breaks at a carriage return, too."""
    *lines, rest = block.split(b"\n")
    return [line + b"\n" for line in lines] + ([rest] if rest else [])


def open_segment(segment: SegmentFile) -> ByteSource:
    """The bytes of a segment, decompressed when it was compressed, also meanwhile.

    `FileNotFoundError`: it was removed. `CompressionUnavailable`: it takes zstandard to read it.
    """
    path = segment.path
    if not segment.compressed:
        try:
            return path.open("rb", buffering=0)
        except FileNotFoundError:
            path = path.with_name(path.name + COMPRESSED)
    return _open_compressed(path)


def _open_compressed(path: Path) -> ByteSource:
    file = path.open("rb", buffering=0)
    try:
        return _Decompressed(file)
    except CompressionUnavailable:
        file.close()
        raise


class _Decompressed:
    """Decompresses a file. Where it is damaged it ends in a line that is no event, so that readers count that."""

    def __init__(self, file: FileIO) -> None:
        self._error: type[Exception] = zstd().ZstdError
        self._stream: ByteSource = zstd().ZstdDecompressor().stream_reader(file, read_across_frames=True)
        self._last_words = NO_EVENT + b"\n"
        self._damaged = False

    def readinto(self, buffer: memoryview, /) -> int:
        if not self._damaged:
            try:
                return self._stream.readinto(buffer) or 0
            except self._error:
                self._damaged = True
        said = self._last_words[: len(buffer)]
        buffer[: len(said)] = said
        self._last_words = self._last_words[len(said) :]
        return len(said)

    def close(self) -> None:
        self._stream.close()


def zstd() -> Any:
    """The zstandard module, or `CompressionUnavailable`."""
    try:
        import zstandard
    except ImportError:
        raise CompressionUnavailable("compressed segments need zstandard: pip install 'actionspan[zstd]'") from None
    return zstandard

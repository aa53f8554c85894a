"""Compressing closed segments."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from actionspan.recorder._blocks import BLOCK, zstd
from actionspan.recorder._directory import COMPRESSED, Progress, SegmentFile, each_segment, lock_closed
from actionspan.recorder._rewrite import replacing
from actionspan.recorder._tombstones import bury
from actionspan.recorder._trailer import read_trailer

__all__ = ["CompactReport", "compact"]


@dataclass(slots=True)
class CompactReport:
    """What `compact` did."""

    segments: int = 0
    """Segments compressed."""
    live: int = 0
    """Segments left alone because a process writes to them."""
    bytes_before: int = 0
    bytes_after: int = 0


def compact(directory: str | os.PathLike[str], *, level: int = 3, progress: Progress | None = None) -> CompactReport:
    """Compress every closed segment of `directory` with zstandard (`level` 1 to 19); readers notice no difference.

    `progress` is told the segments done, and how many there are.
    `CompressionUnavailable` when zstandard is not installed; `NotADirectoryError`.
    """
    path = Path(directory)
    compressor = zstd().ZstdCompressor(level=level, write_checksum=True)
    report = CompactReport()
    for segment in each_segment(path, progress):
        leftover = path / segment.name
        if not segment.compressed:
            _compact(path, segment, compressor, report)
        elif leftover.exists():  # a crash between the rename and the unlink below
            leftover.unlink(missing_ok=True)
    return report


def _compact(directory: Path, segment: SegmentFile, compressor: Any, report: CompactReport) -> None:
    with lock_closed(segment.path) as descriptor:
        if descriptor is None:
            report.live += segment.path.exists()
            return
        target = segment.path.with_name(segment.name + COMPRESSED)
        with replacing(target, os.fstat(descriptor)) as file:
            _compress(descriptor, compressor, file)
            bury(directory, segment.name, reason="compact", trailer=read_trailer(segment))
        report.segments += 1
        report.bytes_before += os.fstat(descriptor).st_size
        report.bytes_after += target.stat().st_size
        segment.path.unlink()


def _compress(descriptor: int, compressor: Any, file: IO[bytes]) -> None:
    with compressor.stream_writer(file, closefd=False) as stream:
        offset = 0
        while block := os.pread(descriptor, BLOCK, offset):
            stream.write(block)
            offset += len(block)

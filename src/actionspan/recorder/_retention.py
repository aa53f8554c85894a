"""Removing the oldest closed segments when a record is too large or too old."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from actionspan import guard
from actionspan.recorder._directory import SegmentFile, list_segments, lock_closed
from actionspan.recorder._tombstones import bury
from actionspan.recorder._trailer import read_trailer

__all__ = ["Retention"]


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a directory; None: none."""

    max_total_bytes: int | None = None
    max_age: float | None = None
    """Seconds since a segment was last written to."""

    def apply(self, directory: Path, current: str) -> None:
        """Remove whole segments, oldest first, that nobody writes to; `current` is the one just opened."""
        if self.max_total_bytes is not None or self.max_age is not None:
            guard.call("recorder", lambda: self._apply(directory, current))

    def _apply(self, directory: Path, current: str) -> None:
        sizes = {segment: _state(segment) for segment in list_segments(directory)}
        total = sum(state.st_size for state in sizes.values() if state is not None)
        oldest_allowed = None if self.max_age is None else time.time() - self.max_age
        for segment, state in sizes.items():
            if state is None or segment.name == current:
                continue
            too_old = oldest_allowed is not None and state.st_mtime < oldest_allowed
            too_much = self.max_total_bytes is not None and total > self.max_total_bytes
            if (too_old or too_much) and _remove(directory, segment):
                total -= state.st_size


def _state(segment: SegmentFile) -> os.stat_result | None:
    try:
        return segment.path.stat()
    except FileNotFoundError:
        return None


def _remove(directory: Path, segment: SegmentFile) -> bool:
    with lock_closed(segment.path) as descriptor:
        if descriptor is None:
            return False
        bury(directory, segment.name, reason="retention", trailer=read_trailer(segment))
        segment.path.unlink(missing_ok=True)
        return True

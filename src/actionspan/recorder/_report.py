"""What a reader came across besides events."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReadReport"]


@dataclass(slots=True)
class ReadReport:
    """Counts of one reader, over everything it has read so far. A search decodes, and so counts, only what it hits."""

    segments: int = 0
    """Segments opened; those outside the time asked for are not."""
    decoded: int = 0
    """Lines decoded."""
    skipped: int = 0
    """Lines that are no event: not JSON, not an object, or without a kind."""
    torn: int = 0
    """Segments whose last line has no end: a crash, or a writer at work."""
    newer: int = 0
    """Events of a later format than this reader knows."""
    removed: int = 0
    """Segments that disappeared while the record was being read."""

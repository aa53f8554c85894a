"""Many segments as one stream in time order, with as few of them open as their times allow."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from actionspan.recorder._source import Batch, SegmentSource, moment

__all__ = ["merged"]

_CROWD: Final = 4
"""More segments than this at a time are read in smaller blocks, so that memory stays flat."""


@dataclass(slots=True)
class _Reading:
    """A segment being read: its current batch, and where in it the next event is."""

    name: str
    batches: Iterator[Batch]
    batch: Batch
    position: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """The order of events of different segments: time, then the segment's name."""
        return moment(self.batch[self.position]), self.name

    def advance(self) -> bool:
        """Go on to the next batch that is not empty, when this one is used up; False at the end."""
        while self.position >= len(self.batch):
            following = next(self.batches, None)
            if following is None:
                return False
            self.batch, self.position = following, 0
        return True


def merged(sources: Sequence[SegmentSource]) -> Iterator[dict[str, Any]]:
    """All events of `sources` by time, segment name, and place in the segment."""
    waiting = deque(sorted(sources, key=lambda source: (source.first, source.name)))
    heap: list[tuple[tuple[int, str], _Reading]] = []
    while waiting or heap:
        # A segment that begins before the next event may have an earlier one.
        while waiting and (not heap or waiting[0].first <= heap[0][0][0]):
            _open(waiting.popleft(), heap)
        if not heap:
            continue
        _, reading = heapq.heappop(heap)
        limit = heap[0][0] if heap else None
        if waiting and (limit is None or waiting[0].first <= limit[0]):
            limit = (waiting[0].first, "")
        yield from _before(limit, reading)
        if reading.advance():
            heapq.heappush(heap, (reading.key, reading))


def _open(source: SegmentSource, heap: list[tuple[tuple[int, str], _Reading]]) -> None:
    batches = source.batches(crowded=len(heap) >= _CROWD)
    reading = _Reading(source.name, batches, [])
    if reading.advance():
        heapq.heappush(heap, (reading.key, reading))


def _before(limit: tuple[int, str] | None, reading: _Reading) -> Batch:
    """The events of the current batch that come before `limit`; they count as read."""
    batch, start = reading.batch, reading.position
    stop = len(batch)
    if limit is not None and (moment(batch[-1]), reading.name) >= limit:
        time, name = limit
        # Up to and including that time when this segment's name comes first.
        bound = time + 1 if reading.name < name else time
        stop = start
        while moment(batch[stop]) < bound:
            stop += 1
    reading.position = stop
    return batch if stop - start == len(batch) else batch[start:stop]

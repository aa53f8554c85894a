"""One wall-clock anchor for the actions of a run, so that a stepped clock cannot reorder them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["Clock", "ticking"]


class _Source:
    """Where clocks read the time; a test puts another one here."""

    wall: Callable[[], int] = staticmethod(time.time_ns)
    monotonic: Callable[[], int] = staticmethod(time.perf_counter_ns)


class Clock:
    """Nanoseconds since the epoch that advance with the monotonic clock from where they were anchored."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = _Source.wall() - _Source.monotonic()

    def now(self) -> int:
        """Nanoseconds since the epoch; never less than an earlier reading of the same clock."""
        return self._offset + _Source.monotonic()


@contextmanager
def ticking(start_ns: int, step_ns: int) -> Iterator[None]:
    """Within this block every reading is `step_ns` after the one before it, from `start_ns` on."""
    before = _Source.wall, _Source.monotonic
    readings = count(0, step_ns)
    _Source.wall = staticmethod(lambda: start_ns)
    _Source.monotonic = staticmethod(lambda: next(readings))
    try:
        yield
    finally:
        _Source.wall, _Source.monotonic = staticmethod(before[0]), staticmethod(before[1])

"""One wall-clock anchor for the actions of a run, so that a stepped clock cannot reorder them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

__all__ = ["Clock", "ticking"]


@dataclass(slots=True)
class _Source:
    """Where clocks read the time; a test puts another one here."""

    wall: Callable[[], int] = time.time_ns
    monotonic: Callable[[], int] = time.perf_counter_ns


_source = _Source()


class Clock:
    """Nanoseconds since the epoch that advance with the monotonic clock from where they were anchored."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = _source.wall() - _source.monotonic()

    def now(self) -> int:
        """Nanoseconds since the epoch; never less than an earlier reading of the same clock."""
        return self._offset + _source.monotonic()


@contextmanager
def ticking(start_ns: int, step_ns: int) -> Generator[None]:
    """Within this block every reading is `step_ns` after the one before it, from `start_ns` on."""
    before = _source.wall, _source.monotonic
    readings = count(0, step_ns)
    _source.wall, _source.monotonic = (lambda: start_ns), (lambda: next(readings))
    try:
        yield
    finally:
        _source.wall, _source.monotonic = before

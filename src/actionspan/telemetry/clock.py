"""One wall-clock anchor for the actions of a run, so that a stepped clock cannot reorder them."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """Nanoseconds since the epoch that advance with the monotonic clock from where they were anchored."""

    __slots__ = ("_anchor", "_monotonic")

    def __init__(self) -> None:
        self._anchor = time.time_ns()
        self._monotonic = time.perf_counter_ns()

    def now(self) -> int:
        """Nanoseconds since the epoch; never less than an earlier reading of the same clock."""
        return self._anchor + time.perf_counter_ns() - self._monotonic

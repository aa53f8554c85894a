"""Percentiles of a stream in bounded memory, each within one percent of the true value."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Sketch"]

_ACCURACY: Final = 0.01
_GAMMA: Final = (1 + _ACCURACY) / (1 - _ACCURACY)
_LOG_GAMMA: Final = math.log(_GAMMA)
_LEAST: Final = 1e-9
"""A nanosecond; whatever is shorter counts as one."""
_MOST: Final = 1e12


class Sketch:
    """Counts values in buckets that grow by a constant factor, as DDSketch does."""

    def __init__(self) -> None:
        self.count = 0
        self._least = math.inf
        self._most = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """Count `value`, which is not negative; what is no number is not counted."""
        if value != value:
            return
        value = min(max(value, _LEAST), _MOST)
        self._least, self._most = min(self._least, value), max(self._most, value)
        bucket = math.ceil(math.log(value) / _LOG_GAMMA)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1

    def quantile(self, share: float) -> float | None:
        """The value that `share` of the values do not exceed; None when there are none."""
        rank = max(1, math.ceil(share * self.count))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return min(self._most, max(self._least, 2 * _GAMMA**bucket / (_GAMMA + 1)))
        return None

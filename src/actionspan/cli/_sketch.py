"""Percentiles of a stream in bounded memory, each within one percent of the true value."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

__all__ = ["Sketch"]

_ACCURACY: Final = 0.01
_GAMMA: Final = (1 + _ACCURACY) / (1 - _ACCURACY)
_LOG_GAMMA: Final = math.log(_GAMMA)
_LEAST: Final = 1e-9
"""A nanosecond; whatever is shorter counts as one."""
_MOST: Final = 1e12
_PENDING: Final = 1024
"""Values kept as they are before they are sorted into buckets together, which is quicker than one by one."""


class Sketch:
    """Counts values in buckets that grow by a constant factor, as DDSketch does."""

    def __init__(self) -> None:
        self._pending: list[float] = []
        self._buckets: Counter[int] = Counter()
        self._least = math.inf
        self._most = 0.0

    def add(self, value: float) -> None:
        """Count `value`, which is not negative; what is no number is not counted."""
        self._pending.append(value)
        if len(self._pending) >= _PENDING:
            self._fold()

    def merge(self, other: Sketch) -> None:
        """Count all that `other` has counted."""
        other._fold()
        self._buckets.update(other._buckets)
        self._least, self._most = min(self._least, other._least), max(self._most, other._most)

    def quantile(self, share: float) -> float | None:
        """The value that `share` of the values do not exceed; None when there are none."""
        self._fold()
        rank = max(1, math.ceil(share * self._buckets.total()))
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return min(self._most, max(self._least, 2 * _GAMMA**bucket / (_GAMMA + 1)))
        return None

    def _fold(self) -> None:
        """Sort the pending values into buckets."""
        values = [min(max(value, _LEAST), _MOST) for value in self._pending if value == value]
        self._pending.clear()
        if values:
            log, ceil = math.log, math.ceil
            self._buckets.update([ceil(log(value) / _LOG_GAMMA) for value in values])
            self._least, self._most = min(self._least, *values), max(self._most, *values)

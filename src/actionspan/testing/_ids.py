"""Trace and span ids counted from 1, so that a test can name them."""

from __future__ import annotations

from itertools import count

from opentelemetry.sdk.trace.id_generator import IdGenerator

__all__ = ["CountingIds"]


class CountingIds(IdGenerator):
    """1, 2, 3 and so on, for traces and for spans."""

    def __init__(self) -> None:
        self._traces = count(1)
        self._spans = count(1)

    def generate_trace_id(self) -> int:
        """The next trace id."""
        return next(self._traces)

    def generate_span_id(self) -> int:
        """The next span id."""
        return next(self._spans)

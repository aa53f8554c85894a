"""One side in one process: it runs what it is told to on standard input and answers what that cost.

A process for each side, because a process that was traced once is not one that never was.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.scenarios import SCENARIOS, run_times
from benchmarks.sides import SIDES, Side

__all__ = ["Bench", "CountingExporter"]


class CountingExporter(SpanExporter):
    """Counts spans and lets them go; keeps them while `kept` is a list."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[ReadableSpan] | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.count += len(spans)
        if self.kept is not None:
            self.kept += spans
        return SpanExportResult.SUCCESS


class Bench:
    """A side, installed, and the scenarios to run on it."""

    def __init__(self, side: Side) -> None:
        self._exporter = CountingExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._loop = asyncio.new_event_loop()
        self._prepared: dict[str, Callable[[], Awaitable[Any]]] = {}
        self._undo = side.install(self._provider)
        if side.spent:
            self._run("A", 5)
            self._undo()
        self._spans_before = self._exporter.count

    def close(self) -> None:
        """End the side."""
        self._undo()
        self._loop.close()
        self._provider.shutdown()

    def time(self, scenario: str, runs: int) -> dict[str, float]:
        """Processor time of one run in nanoseconds, over `runs` of them, and the spans one run makes."""
        self._run(scenario, 1)
        gc.collect()
        spans, began = self._exporter.count, time.process_time_ns()
        self._run(scenario, runs)
        spent = time.process_time_ns() - began
        return {"ns": spent / runs, "spans": (self._exporter.count - spans) / runs}

    def memory(self, scenario: str) -> dict[str, int]:
        """Bytes that one run leaves in spans waiting to be exported, and the most it had at any time."""
        self._run(scenario, 2)
        gc.collect()
        tracemalloc.start()
        try:
            self._exporter.kept = []
            before, _ = tracemalloc.get_traced_memory()
            self._run(scenario, 1)
            gc.collect()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            self._exporter.kept = None
        return {"kept": after - before, "peak": peak - before}

    def _run(self, scenario: str, runs: int) -> None:
        once = self._prepared.get(scenario)
        if once is None:
            once = self._prepared[scenario] = SCENARIOS[scenario].prepare()
        self._loop.run_until_complete(run_times(once, runs))


def main(side: str) -> None:
    """Answer one line of JSON for each one read, until there are no more."""
    bench = Bench(SIDES[side])
    print(json.dumps({"ready": side}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        method = bench.memory if order.pop("do") == "memory" else bench.time
        print(json.dumps(method(**order)), flush=True)
    bench.close()


if __name__ == "__main__":
    main(sys.argv[1])

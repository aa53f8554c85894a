"""Where the cost of one action goes: a tool call's span as the floor opens it, as the SDK takes it, and as we make it.

The best of many short bursts: a burst that nothing else disturbs costs the same on a busy machine as on a quiet one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from benchmarks.worker import CountingExporter

__all__ = ["FLOOR", "OURS", "one_span"]

FLOOR: Final = "floor: a plain span, four attributes"
SDK: Final = "the SDK alone, given the same attributes in the same calls"
OURS: Final = "actionspan, metadata"
_BURST: Final = 40
_ID: Final = "01a22d32-3626-7658-b0a3-d903d6201cfc"


def one_span(bursts: int) -> dict[str, float]:
    """Nanoseconds of processor time of each."""
    from actionspan.telemetry import names
    from actionspan.telemetry.clock import Clock
    from actionspan.telemetry.endings import Ending
    from actionspan.telemetry.operations import RunFacts, start_agent_run, start_tool
    from actionspan.telemetry.pipeline import Pipeline, TracerSource

    provider = TracerProvider(shutdown_on_exit=False)
    exporter = CountingExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, facts, clock = provider.get_tracer("floor"), RunFacts("agent", _ID, _ID), Clock()
    pipeline = Pipeline(TracerSource(provider))
    began: dict[str, Any] = {"links": (), "clock": clock, "start_ns": clock.now()}
    run = start_agent_run(pipeline, facts, provider="function", resumes_run_id=None, **began)

    def floor() -> None:
        attributes = {"namespace": "tool", "operation": "execute", "name": "look", "attempt": 1}
        with tracer.start_as_current_span("look", attributes=attributes):
            pass

    def ours() -> None:
        call: dict[str, Any] = {"name": "look", "call_id": "call-7", "step": 1, "attempt": 1, "arguments": None}
        action = start_tool(pipeline, facts, run, "execute", **call)
        action.detach(action.attach())
        action.set({names.TOOL_EXECUTED: True})
        action.finish(Ending.success())

    exporter.kept = []
    ours()
    attributes = dict(exporter.kept[0].attributes or {})
    exporter.kept = None
    ids = _taken(attributes, names.ACTION_ID, names.ROOT_ACTION_ID, names.RUN_ACTION_ID)
    end = _taken(attributes, names.TOOL_EXECUTED, names.OUTCOME)

    def sdk() -> None:
        span = tracer.start_span("look", attributes=attributes)
        span.set_attributes(ids)
        with trace.use_span(span):
            pass
        span.set_attributes(end)
        span.end()

    token = run.attach()
    try:
        return _best({FLOOR: floor, SDK: sdk, OURS: ours}, bursts)
    finally:
        run.detach(token)
        run.finish(Ending.success())
        provider.shutdown()


def _taken(attributes: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: attributes.pop(key) for key in keys if key in attributes}


def _best(works: dict[str, Callable[[], None]], bursts: int) -> dict[str, float]:
    """The least each took, burst by burst in turn."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(bursts):
        for name, work in works.items():
            began = time.process_time_ns()
            for _ in range(_BURST):
                work()
            best[name] = min(best[name], time.process_time_ns() - began)
    return {name: spent / _BURST for name, spent in best.items()}

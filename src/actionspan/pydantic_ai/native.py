"""A warning where the library's own tracing is on as well: every action would be seen twice."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import NoOpTracer
from pydantic_ai.tools import RunContext

from actionspan import guard

__all__ = ["warn_about_native"]


def warn_about_native(ctx: RunContext[Any]) -> None:
    """Say once that the library traces this agent too, and the two ways out."""
    if isinstance(ctx.tracer, NoOpTracer):
        return
    guard.warn_once(
        "native",
        "Pydantic AI's own instrumentation is on as well, so every action is traced twice. Turn it off "
        "(Agent.instrument_all(False), agent.instrument = False), or turn actionspan off "
        "(ACTIONSPAN_AUDIT=off, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=pydantic_ai).",
    )

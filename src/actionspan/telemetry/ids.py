"""Action ids as pure functions of a span context, so that nobody has to store or pass them."""

from __future__ import annotations

from typing import Final

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext

__all__ = ["action_id", "action_id_of", "context_below", "root_action_id"]

_LOW_64 = 2**64 - 1


def root_action_id(context: SpanContext) -> str:
    """The trace, as a canonical UUID string. Its version bits are random: it is no version-4 UUID."""
    return action_id_of(context.trace_id >> 64, context.trace_id & _LOW_64)


def action_id(context: SpanContext) -> str:
    """The span within its trace: the random low half of the trace id, then the span id."""
    return action_id_of(context.trace_id, context.span_id)


def action_id_of(trace_id: int, span_id: int) -> str:
    """The same of the two numbers: as `str(UUID(int=...))`, at half its cost."""
    digits = f"{trace_id & _LOW_64:016x}{span_id:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def context_below(parent: SpanContext | None) -> SpanContext:
    """Ids for a span that nobody exports, below `parent` or in a trace of its own."""
    if parent is None:
        return SpanContext(_random.generate_trace_id(), _random.generate_span_id(), is_remote=False)
    state = parent.trace_state
    return SpanContext(parent.trace_id, _random.generate_span_id(), is_remote=False, trace_state=state)


_random: Final = RandomIdGenerator()

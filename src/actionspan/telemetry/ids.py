"""Action ids as pure functions of a span context, so that nobody has to store or pass them."""

from __future__ import annotations

from uuid import UUID

from opentelemetry.trace import SpanContext

__all__ = ["action_id", "root_action_id"]

_LOW_64 = 2**64 - 1


def root_action_id(context: SpanContext) -> str:
    """The trace, as a canonical UUID string. Its version bits are random: it is no version-4 UUID."""
    return str(UUID(int=context.trace_id))


def action_id(context: SpanContext) -> str:
    """The span within its trace: the random low half of the trace id, then the span id."""
    return str(UUID(int=((context.trace_id & _LOW_64) << 64) | context.span_id))

"""The private names of the OpenTelemetry SDK that we read, each with a test that fails when it goes."""

from __future__ import annotations

from dataclasses import dataclass

from opentelemetry.trace import Tracer

__all__ = ["TracerLimits", "limits_of"]


@dataclass(frozen=True, slots=True)
class TracerLimits:
    """What a provider does to attributes; None is no limit."""

    count: int | None = None
    """Attributes of one span; the SDK evicts the oldest beyond it."""
    length: int | None = None
    """Characters of one string attribute; the SDK cuts it there, in the middle of JSON if need be."""


NO_LIMITS = TracerLimits()


def limits_of(tracer: Tracer) -> TracerLimits:
    """The span limits of an SDK tracer; none for a tracer that is not the SDK's."""
    limits = getattr(tracer, "_span_limits", None)
    if limits is None:
        return NO_LIMITS
    return TracerLimits(
        count=getattr(limits, "max_span_attributes", None), length=getattr(limits, "max_span_attribute_length", None)
    )

"""The private names of the OpenTelemetry SDK that we read, each with a test that fails when it goes."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from typing import Final

from opentelemetry.trace import Tracer

__all__ = ["EXPORTING", "REAL_METER", "TracerLimits", "export_timeout_of", "limits_of", "worker_of"]

EXPORTING: Final = (
    ("opentelemetry.sdk._shared_internal", "BatchProcessor"),
    ("opentelemetry.sdk.metrics.export", "PeriodicExportingMetricReader"),
)
"""What exports on a thread of its own: for the batch processors of spans and of log records, and metrics."""

REAL_METER: Final = "_real_meter"
"""Of the meter that the API gives before a provider is set: the one it stands for, None until then."""


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


def export_timeout_of(exporting: object) -> float | None:
    """Milliseconds that it was told an export may take, which it heeds nowhere itself."""
    timeout = getattr(exporting, "_export_timeout_millis", None)
    return timeout if isinstance(timeout, (int, float)) else None


def worker_of(exporting: object) -> Thread | None:
    """The thread it exports on."""
    worker = getattr(exporting, "_worker_thread", None) or getattr(exporting, "_daemon_thread", None)
    return worker if isinstance(worker, Thread) else None

"""Reading the actions back from a tracing backend, through the same contract as a record on disk.

`TempoRecorder` and `JaegerRecorder` query and replay what a backend holds: the terminal events, in the shape a
`JsonlRecorder` gives them. What is emitted goes there over OTLP.
"""

from __future__ import annotations

from actionspan.backends._report import BackendReport
from actionspan.backends.errors import BackendError
from actionspan.backends.jaeger import JaegerRecorder
from actionspan.backends.tempo import TempoRecorder

__all__ = ["BackendError", "BackendReport", "JaegerRecorder", "TempoRecorder"]

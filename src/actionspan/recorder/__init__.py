"""The record of actions: written as lines of JSON, read back, replayed.

`JsonlRecorder` writes it, `RecorderSpanProcessor` feeds it from spans, `read` queries it.
"""

from __future__ import annotations

from actionspan.recorder._log import Durability, RecorderStats
from actionspan.recorder._report import ReadReport
from actionspan.recorder.contract import Event, EventFilter, Moment, Recorder
from actionspan.recorder.errors import (
    CompressionUnavailable,
    QueryNotSupported,
    RecorderClosed,
    RecorderError,
    UnknownCallId,
)
from actionspan.recorder.events import event_of_end, event_of_start
from actionspan.recorder.exporter import JsonlSpanExporter
from actionspan.recorder.jsonl import JsonlRecorder
from actionspan.recorder.processor import RecorderSpanProcessor
from actionspan.recorder.reader import Reader, read

__all__ = [
    "CompressionUnavailable",
    "Durability",
    "Event",
    "EventFilter",
    "JsonlRecorder",
    "JsonlSpanExporter",
    "Moment",
    "QueryNotSupported",
    "ReadReport",
    "Reader",
    "Recorder",
    "RecorderClosed",
    "RecorderError",
    "RecorderSpanProcessor",
    "RecorderStats",
    "UnknownCallId",
    "event_of_end",
    "event_of_start",
    "read",
]

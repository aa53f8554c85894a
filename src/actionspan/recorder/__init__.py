"""The record of actions: written as lines of JSON, read back, replayed.

`JsonlRecorder` writes it, `RecorderSpanProcessor` feeds it from spans, `read` queries it. Replay to a backend is in
`actionspan.recorder.otlp_replay`, which takes long to import.
"""

from __future__ import annotations

from actionspan.recorder._log import Durability, RecorderStats
from actionspan.recorder._report import ReadReport
from actionspan.recorder.compact import CompactReport, compact
from actionspan.recorder.contract import Event, EventFilter, Moment, Recorder
from actionspan.recorder.erase import EraseReport, erase
from actionspan.recorder.errors import (
    CompressionUnavailable,
    QueryNotSupported,
    RecorderClosed,
    RecorderError,
    UnknownCallId,
)
from actionspan.recorder.events import event_of_end, event_of_start
from actionspan.recorder.exporter import JsonlSpanExporter
from actionspan.recorder.fanout import FanOutRecorder
from actionspan.recorder.follow import follow
from actionspan.recorder.jsonl import JsonlRecorder
from actionspan.recorder.otel import OtelRecorder
from actionspan.recorder.processor import RecorderSpanProcessor
from actionspan.recorder.reader import Reader, read
from actionspan.recorder.spans import spans_of
from actionspan.recorder.verify import VerifyReport, verify

__all__ = [
    "CompactReport",
    "CompressionUnavailable",
    "Durability",
    "EraseReport",
    "Event",
    "EventFilter",
    "FanOutRecorder",
    "JsonlRecorder",
    "JsonlSpanExporter",
    "Moment",
    "OtelRecorder",
    "QueryNotSupported",
    "ReadReport",
    "Reader",
    "Recorder",
    "RecorderClosed",
    "RecorderError",
    "RecorderSpanProcessor",
    "RecorderStats",
    "UnknownCallId",
    "VerifyReport",
    "compact",
    "erase",
    "event_of_end",
    "event_of_start",
    "follow",
    "read",
    "spans_of",
    "verify",
]

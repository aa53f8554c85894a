"""The exporter, the processor's harmlessness, log records, and several recorders at once."""

from __future__ import annotations

import logging
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.util._importlib_metadata import entry_points

from actionspan import guard
from actionspan.recorder import (
    FanOutRecorder,
    JsonlRecorder,
    JsonlSpanExporter,
    OtelRecorder,
    QueryNotSupported,
    Recorder,
    RecorderClosed,
    RecorderSpanProcessor,
    event_of_end,
    read,
    verify,
)
from recorder.conftest import action, kinds, segments


class Broken:
    """A recorder that fails at everything."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("secret content")

    emit = flush = close = query = replay = _fail


def spans(*exporters: JsonlSpanExporter, scope: str = "actionspan") -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer(scope).start_as_current_span("t", attributes=action("tool", "execute")):
        pass
    provider.shutdown()


def test_the_exporter_writes_terminals_of_every_scope(directory: Path) -> None:
    exporter = JsonlSpanExporter(directory)
    assert not directory.exists()
    spans(exporter)
    spans(JsonlSpanExporter(directory), scope="requests")
    assert kinds(read(directory).query()) == ["tool.execute.end", "span"]
    assert exporter.export([]) is SpanExportResult.FAILURE


def test_the_exporter_takes_its_directory_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACTIONSPAN_JSONL", str(tmp_path / "by name"))
    (entry_point,) = entry_points(group="opentelemetry_traces_exporter", name="jsonl")
    spans(entry_point.load()())
    monkeypatch.delenv("ACTIONSPAN_JSONL")
    monkeypatch.chdir(tmp_path)
    spans(JsonlSpanExporter())
    assert len(segments(tmp_path / "by name")) == len(segments(tmp_path / "actionspan")) == 1


def test_the_exporter_is_inert_beside_a_recorder_of_the_same_directory(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with JsonlRecorder(directory) as recorder:
        exporter = JsonlSpanExporter(directory.parent / "." / directory.name)
        assert exporter.export([]) is SpanExportResult.SUCCESS
        spans(exporter)
        assert list(recorder.query()) == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    spans(JsonlSpanExporter(directory))
    assert len(list(read(directory).query())) == 1


def test_the_exporter_never_raises_into_the_sdk_and_says_where_it_cannot_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    exporter = JsonlSpanExporter(tmp_path / "file")
    assert [exporter.export([]), exporter.export([])] == [SpanExportResult.FAILURE] * 2
    (line,) = caplog.messages
    assert line == f"the jsonl exporter cannot write to {tmp_path / 'file'}: {tmp_path / 'file'} is not a directory"


@pytest.mark.contained
def test_a_recorder_that_raises_is_contained_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    processor = RecorderSpanProcessor(Broken())
    provider.add_span_processor(processor)
    before = guard.failures["recorder"]
    for _ in range(2):
        with provider.get_tracer("actionspan").start_as_current_span("t", attributes=action("tool", "execute")):
            pass
    assert processor.force_flush() is False
    provider.shutdown()
    assert guard.failures["recorder"] - before >= 5
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


def test_the_processor_flushes_its_recorder_and_never_closes_it(directory: Path) -> None:
    recorder = JsonlRecorder(directory, durability="batch")
    processor = RecorderSpanProcessor(recorder)
    recorder.emit({"kind": "x"})
    assert processor.force_flush() is True
    assert kinds(read(directory).query()) == ["x"]
    processor.shutdown()
    recorder.emit({"kind": "y"})
    recorder.close()


def test_log_records_have_the_event_s_own_trace_context() -> None:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    recorder = OtelRecorder(provider)
    assert isinstance(recorder, Recorder)
    recorder.emit(
        {
            "kind": "tool.execute.error",
            "phase": "error",
            "time_unix_nano": 5,
            "trace_id": f"{7:032x}",
            "span_id": f"{8:016x}",
            "flags": 1,
            "agent_id": "a",
            "attributes": {"bytes": b"x", "object": object()},
        }
    )
    recorder.emit({"kind": "hook_start", "timestamp": 2.0})
    recorder.flush()
    first, second = (item.log_record for item in exporter.get_finished_logs())
    assert (first.event_name, first.timestamp, first.trace_id, first.span_id, int(first.trace_flags or 0)) == (
        "actionspan.tool.execute.error",
        5,
        7,
        8,
        1,
    )
    assert first.severity_number is not None
    assert first.severity_number.name == "ERROR"
    assert dict(first.attributes or {}) == {
        "kind": "tool.execute.error",
        "phase": "error",
        "agent_id": "a",
        "attributes": {"bytes": b"x", "object": {"$object": "builtins.object"}},
    }
    assert (second.event_name, second.timestamp, second.trace_id) == ("actionspan.hook_start", 2 * 10**9, 0)
    with pytest.raises(QueryNotSupported, match="JsonlRecorder"):
        recorder.query()
    with pytest.raises(QueryNotSupported, match="JsonlRecorder"):
        recorder.replay()
    recorder.close()
    with pytest.raises(RecorderClosed):
        recorder.emit({"kind": "x"})


def test_values_of_a_class_of_their_own_are_what_they_are_without_it() -> None:
    class Colour(Enum):
        RED = "red"

    class Count(int):
        pass

    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    OtelRecorder(provider).emit({"kind": "x", "colour": Colour.RED, "count": Count(3)})
    ((seen),) = exporter.get_finished_logs()
    attributes = dict(seen.log_record.attributes or {})
    assert attributes == {"kind": "x", "colour": "red", "count": 3}
    assert type(attributes["count"]) is int


def test_a_log_pipeline_that_cannot_be_flushed_is_no_error() -> None:
    recorder = OtelRecorder(NoOpLoggerProvider())
    recorder.emit({"kind": "x"})
    recorder.flush()
    recorder.close()
    recorder.close()
    with pytest.raises(RecorderClosed):
        recorder.emit({"kind": "x"})


def test_the_exporter_can_be_flushed_at_any_time_and_shut_down_twice(directory: Path) -> None:
    exporter = JsonlSpanExporter(directory)
    assert exporter.force_flush() is True
    exporter.shutdown()
    exporter = JsonlSpanExporter(directory)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("actionspan").start_as_current_span("t", attributes=action("tool", "execute")):
        pass
    assert exporter.force_flush() is True
    assert kinds(read(directory).query()) == ["tool.execute.end"]
    for _ in range(2):
        exporter.shutdown()
    report = verify(directory)
    assert (report.segments, report.unclosed, report.events, report.problems) == (1, 0, 1, [])


def test_a_span_without_a_context_or_a_scope_is_an_event_without_ids() -> None:
    ids = {"trace_id", "span_id", "action_id", "call_id", "root_action_id", "flags"}
    attributes = action("tool", "execute")
    event = event_of_end(ReadableSpan("t", attributes=attributes, start_time=1, end_time=2))
    assert (event["kind"], event["time_unix_nano"], event.keys() & ids) == ("span", 2, set())
    ours = ReadableSpan("t", attributes=attributes, instrumentation_scope=InstrumentationScope("actionspan"))
    event = event_of_end(ours)
    assert (event["kind"], event.keys() & ids) == ("tool.execute.end", set())


@pytest.mark.contained
def test_a_failing_member_does_not_stop_the_others(tmp_path: Path) -> None:
    one, two = JsonlRecorder(tmp_path / "one"), JsonlRecorder(tmp_path / "two")
    recorder = FanOutRecorder([one, Broken(), two])
    recorder.emit({"kind": "x"})
    recorder.flush()
    assert list(recorder.query()) == list(recorder.replay()) == list(two.query())
    recorder.close()
    recorder.close()
    with pytest.raises(RecorderClosed):
        two.emit({"kind": "x"})
    with pytest.raises(RecorderClosed):
        recorder.emit({"kind": "x"})


def test_fan_out_without_a_reader_says_so() -> None:
    recorder = FanOutRecorder([OtelRecorder(LoggerProvider(shutdown_on_exit=False))])
    with pytest.raises(QueryNotSupported, match="JsonlRecorder"):
        recorder.query()
    with pytest.raises(QueryNotSupported):
        recorder.replay()
    with pytest.raises(ValueError, match="kind"):
        recorder.emit({})
    with pytest.raises(ValueError, match="at least one"):
        FanOutRecorder([])

"""`flush` returns when everything has left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent

from actionspan import JsonlRecorder, PydanticAIInstrumentor, flush
from actionspan.recorder import read
from scripted import script


def test_what_is_batched_and_what_is_recorded(tmp_path: Path):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
    recorder = JsonlRecorder(tmp_path / "rec", durability="batch")
    PydanticAIInstrumentor().instrument(tracer_provider=provider, recorder=recorder)
    Agent(script("ok"), name="a").run_sync("go")
    assert exporter.get_finished_spans() == ()
    assert flush(10) is True
    assert [span.name for span in exporter.get_finished_spans()] == ["chat scripted", "invoke_agent a"]
    assert len(list(read(tmp_path / "rec").query())) == 4
    PydanticAIInstrumentor().uninstrument()
    recorder.close()
    provider.shutdown()


def test_it_says_when_something_did_not_leave():
    class Stuck(TracerProvider):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return False

    PydanticAIInstrumentor().instrument(tracer_provider=Stuck(shutdown_on_exit=False))
    assert flush(1) is False
    PydanticAIInstrumentor().uninstrument()


@pytest.mark.contained
def test_a_provider_that_raises_did_not_leave_either():
    class Broken(TracerProvider):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            raise RuntimeError

    PydanticAIInstrumentor().instrument(tracer_provider=Broken(shutdown_on_exit=False))
    assert flush(1) is False
    PydanticAIInstrumentor().uninstrument()


class Hanging(SpanExporter):
    """An exporter whose collector does not answer."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        self.answer.wait()
        return SpanExportResult.SUCCESS


def test_an_exporter_that_hangs_holds_it_no_longer_than_its_time(tmp_path: Path):
    exporter = Hanging()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
    recorder = JsonlRecorder(tmp_path / "rec", durability="batch")
    PydanticAIInstrumentor().instrument(tracer_provider=provider, recorder=recorder)
    Agent(script("ok"), name="a").run_sync("go")
    assert flush(0.2) is False
    assert exporter.asked.is_set()
    assert not exporter.answer.is_set()
    assert len(list(read(tmp_path / "rec").query())) == 4  # one that hangs takes no time from the others
    exporter.answer.set()
    PydanticAIInstrumentor().uninstrument()
    recorder.close()
    provider.shutdown()


@pytest.mark.contained
def test_when_no_thread_can_be_started_nothing_has_left(monkeypatch: pytest.MonkeyPatch):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    PydanticAIInstrumentor().instrument(tracer_provider=TracerProvider(shutdown_on_exit=False))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert flush(1) is False


def test_with_nothing_instrumented_there_is_nothing_to_wait_for():
    assert flush(1) is True


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_that_is_none(seconds):
    with pytest.raises(ValueError, match="timeout_seconds must be positive"):
        flush(seconds)

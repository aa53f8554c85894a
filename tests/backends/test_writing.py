"""What is emitted goes to the backend as spans, and comes back as what it was."""

from __future__ import annotations

import logging
import time

import pytest

from actionspan import Recorder, RecorderClosed
from actionspan.recorder import event_of_end, event_of_start
from backends.conftest import Story, kept, recorder_of
from backends.servers import Backend


def test_they_are_recorders(backend: Backend):
    assert isinstance(recorder_of(backend), Recorder)


def test_there_and_back(backend: Backend, story: Story):
    recorder = recorder_of(backend, otlp_endpoint=backend.url, otlp_headers={"Authorization": "the-ingest-token"})
    for span in story.spans:
        recorder.emit(event_of_start(span))
        recorder.emit(event_of_end(span))
    recorder.flush()
    assert [kept(event) for event in recorder.query()] == story.ended()
    assert backend.ingested_headers[0]["authorization"] == "the-ingest-token"
    assert "authorization" not in {name.lower() for name in backend.requests[0].headers}
    assert (recorder.report.not_kept, recorder.report.undelivered) == (0, 0)
    recorder.close()


def test_where_opentelemetrys_own_variables_point(backend: Backend, story: Story, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.url)
    recorder = recorder_of(backend)
    recorder.emit(event_of_end(story.spans[-1]))
    recorder.close()
    assert len(backend.resource_spans) == 1


def test_a_span_that_was_not_sampled_is_sent_all_the_same(backend: Backend, story: Story):
    recorder = recorder_of(backend, otlp_endpoint=backend.url)
    recorder.emit({**event_of_end(story.spans[-1]), "flags": 0})
    recorder.close()
    assert len(backend.resource_spans) == 1


def test_an_event_that_is_no_span_is_counted_and_said(backend: Backend, caplog: pytest.LogCaptureFixture):
    recorder = recorder_of(backend, otlp_endpoint=backend.url)
    with caplog.at_level(logging.WARNING):
        recorder.emit({"kind": "hook_start"})
        recorder.emit({"kind": "hook_end"})
    recorder.close()
    assert recorder.report.not_kept == 2
    assert caplog.messages == [
        f"a tracing backend holds spans: events such as 'hook_start' do not get to {backend.url} "
        "(a JsonlRecorder keeps them)"
    ]


def test_an_event_without_a_kind(backend: Backend):
    with pytest.raises(ValueError, match="kind"):
        recorder_of(backend).emit({"timestamp": time.time()})
    with pytest.raises(TypeError, match="mapping"):
        recorder_of(backend).emit(None)  # type: ignore[arg-type] # that is the test


def test_what_cannot_be_delivered_is_counted(backend: Backend, story: Story, caplog: pytest.LogCaptureFixture):
    backend.refuse_spans = True
    recorder = recorder_of(backend, otlp_endpoint=backend.url)
    recorder.emit(event_of_end(story.spans[-1]))
    recorder.flush()
    recorder.close()
    assert recorder.report.undelivered == 1
    assert caplog.records  # OpenTelemetry's exporter says why


def test_closed(backend: Backend):
    recorder = recorder_of(backend)
    recorder.flush()
    recorder.close()
    recorder.close()
    with pytest.raises(RecorderClosed, match=r"this (Tempo|Jaeger)Recorder is closed"):
        recorder.emit({"kind": "x"})

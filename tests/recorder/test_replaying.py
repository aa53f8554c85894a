"""Replay to an OTLP receiver: the same spans, once each, through every kind of trouble."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from actionspan.recorder import JsonlRecorder, UnknownCallId, read
from actionspan.recorder.otlp_replay import ReplayFailed, ReplayReport, replay_to_otlp
from recorder.conftest import action, on_the_wire


class Receiver:
    """An OTLP receiver over HTTP. `answers` are given first: a status, with a message to be encoded or headers."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.answers: list[tuple[int, Any]] = []
        self.largest = 10**6
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                status, extra = receiver.answers.pop(0) if receiver.answers else (200, None)
                if len(spans_in(request)) > receiver.largest:
                    status = 413
                if status == 200 and self.path == "/v1/traces":
                    receiver.requests.append(request)  # before the answer: then the test looks
                body = extra.SerializeToString() if hasattr(extra, "SerializeToString") else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in (extra if isinstance(extra, dict) else {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[Any]:
        return [span for request in self.requests for span in spans_in(request)]


def spans_in(request: ExportTraceServiceRequest) -> list[Any]:
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,))
    thread.start()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()
    thread.join()


@pytest.fixture
def recorded(tracer: Tracer, recorder: JsonlRecorder) -> Path:
    """A run with four tool calls, and one that never ended."""
    with tracer.start_as_current_span("run", attributes=action("agent", "run", gen_ai__agent__name="a")) as run:
        for number in range(4):
            with tracer.start_as_current_span("tool", attributes=action("tool", "execute")) as tool:
                tool.set_attribute("gen_ai.tool.call.arguments", f'{{"n":  {number}}}')
                tool.set_attribute("actionspan.parent_action_id", "not of this trace")
                tool.add_event("exception", {"exception.message": "secret", "exception.type": "E"})
                tool.set_status(StatusCode.ERROR, "secret")
        run.set_attribute("actionspan.outcome", "success")
    tracer.start_span("unfinished", attributes=action("tool", "execute"))
    recorder.close()
    return recorder.directory


def sorted_attributes(span: Any) -> Any:
    span.attributes.sort(key=lambda attribute: attribute.key)
    return span


def names(receiver: Receiver) -> list[str]:
    return [span.name for span in receiver.spans]


@pytest.mark.parametrize("back", [5, 10**9], ids=["a little", "a second"])
def test_a_clock_that_was_set_back_within_an_action_leaves_it_finished(
    tracer: Tracer, recorder: JsonlRecorder, receiver: Receiver, back: int
) -> None:
    span = tracer.start_span("tool", attributes=action("tool", "execute"), start_time=10**18)
    span.end(10**18 - back)
    recorder.close()
    report = replay_to_otlp(recorder.directory, receiver.url)
    assert (report.exported, report.unfinished) == (1, 0)
    (sent,) = receiver.spans
    assert sent.end_time_unix_nano == 10**18 - back


def test_what_arrives_is_what_was_exported_live(
    receiver: Receiver, recorded: Path, exported: InMemorySpanExporter
) -> None:
    report = replay_to_otlp(recorded, receiver.url)
    assert report == ReplayReport(exported=6, unfinished=1, requests=1)
    (request,) = receiver.requests
    live = [on_the_wire(span) for span in exported.get_finished_spans()]
    assert [sorted_attributes(span) for span in receiver.spans[:5]] == [spans_in(one)[0] for one in live]
    assert request.resource_spans[0].resource == live[0].resource_spans[0].resource
    assert request.resource_spans[0].scope_spans[0].scope == live[0].resource_spans[0].scope_spans[0].scope


def test_events_of_the_application_do_not_stand_in_the_way(receiver: Receiver, recorded: Path) -> None:
    ids = {"trace_id": "1" * 32, "span_id": "2" * 16, "span_name": "mine"}
    with JsonlRecorder(recorded) as recorder:
        recorder.emit({"kind": "hook_start", **ids})
        recorder.emit({"kind": "hook.end", "phase": "end", **ids})
        whole = next(event for event in read(recorded).query() if event.get("outcome") == "success")
        recorder.emit({**whole, "span_id": "not hexadecimal"})
        recorder.emit({**whole, "span_id": "2" * 16, "end_time_unix_nano": "soon"})
    report = replay_to_otlp(recorded, receiver.url)
    assert (report.exported, report.unreadable) == (6, 3)
    assert len(receiver.spans) == 6


def test_an_action_without_a_terminal_is_marked(receiver: Receiver, recorded: Path) -> None:
    replay_to_otlp(recorded, receiver.url)
    last = receiver.spans[-1]
    attributes = {attribute.key: attribute.value for attribute in last.attributes}
    assert last.name == "unfinished"
    assert attributes["actionspan.unfinished"].bool_value is True
    assert "actionspan.outcome" not in attributes
    assert last.end_time_unix_nano == list(read(recorded).query())[-1]["time_unix_nano"]


def test_calls_in_flight_are_left_to_the_process_that_runs_them(
    receiver: Receiver, tracer: Tracer, recorder: JsonlRecorder
) -> None:
    tracer.start_span("in flight", attributes=action("tool", "execute"))
    assert replay_to_otlp(recorder.directory, receiver.url) == ReplayReport()


def test_replay_can_begin_at_a_call(receiver: Receiver, recorded: Path) -> None:
    calls = [event["call_id"] for event in read(recorded).query(kind="tool.execute.start")]
    replay_to_otlp(recorded, receiver.url, from_call_id=calls[2])
    assert names(receiver) == ["tool", "tool", "run", "unfinished"]
    with pytest.raises(UnknownCallId):
        replay_to_otlp(recorded, receiver.url, from_call_id="nobody's")


def test_a_request_that_is_too_large_is_split(receiver: Receiver, recorded: Path) -> None:
    receiver.largest = 2
    assert replay_to_otlp(recorded, receiver.url).exported == 6
    assert [len(spans_in(request)) for request in receiver.requests] == [1, 2, 1, 2]
    receiver.largest = 0
    assert replay_to_otlp(recorded, receiver.url).rejected == 6


def test_trouble_that_passes_is_waited_for(receiver: Receiver, recorded: Path) -> None:
    receiver.answers = [
        (503, None),
        (429, {"Retry-After": "7"}),
        (502, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    ]
    pauses: list[float] = []
    assert replay_to_otlp(recorded, receiver.url, sleep=pauses.append).exported == 6
    assert pauses == [1.0, 7.0, 4.0]


def test_trouble_that_stays_is_an_error_and_the_replay_goes_on_where_it_stopped(
    receiver: Receiver, recorded: Path, tmp_path: Path
) -> None:
    cursor = tmp_path / "cursor"
    receiver.answers = [(200, None), (200, None), (401, None)]
    with pytest.raises(ReplayFailed, match="401"):
        replay_to_otlp(recorded, receiver.url, batch=2, cursor=cursor)
    # the first two requests were taken
    assert replay_to_otlp(recorded, receiver.url, batch=1, cursor=cursor).exported == 2
    assert names(receiver) == ["tool"] * 4 + ["run", "unfinished"]
    assert replay_to_otlp(recorded, receiver.url, cursor=cursor).exported == 0
    with pytest.raises(ValueError, match="cursor of a replay"):
        replay_to_otlp(recorded, "http://other", cursor=cursor)
    for content in (b"{}", b"not JSON", b'{"record":"\xff"}', b"[" * 100_000):
        cursor.write_bytes(content)
        with pytest.raises(ValueError, match="not the cursor"):
            replay_to_otlp(recorded, receiver.url, cursor=cursor)


def test_spans_of_the_very_same_time_are_each_sent_once(receiver: Receiver, directory: Path, tmp_path: Path) -> None:
    with JsonlRecorder(directory) as recorder:
        for number in range(1, 4):
            ids = {"trace_id": f"{7:032x}", "span_id": f"{number:016x}"}
            times = {"time_unix_nano": 9, "start_time_unix_nano": 8, "end_time_unix_nano": 9}
            recorder.emit({"kind": "x", "phase": "end", "span_name": "s", "span_kind": "CLIENT", **ids, **times})
    receiver.answers = [(200, None), (400, None)]
    with pytest.raises(ReplayFailed, match="400"):
        replay_to_otlp(directory, receiver.url, batch=1, cursor=tmp_path / "cursor")
    assert replay_to_otlp(directory, receiver.url, batch=1, cursor=tmp_path / "cursor").exported == 2
    assert [span.span_id[-1] for span in receiver.spans] == [1, 2, 3]


def test_a_receiver_that_is_not_there_is_an_error_after_some_attempts(recorded: Path) -> None:
    pauses: list[float] = []
    with pytest.raises(ReplayFailed, match="ConnectionError"):
        replay_to_otlp(recorded, "http://127.0.0.1:9", sleep=pauses.append)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_partial_success_is_reported_and_not_tried_again(receiver: Receiver, recorded: Path) -> None:
    partial = ExportTraceServiceResponse()
    partial.partial_success.rejected_spans = 2
    partial.partial_success.error_message = "too old"
    receiver.answers = [(200, partial)]
    report = replay_to_otlp(recorded, receiver.url)
    assert (report.exported, report.rejected, report.messages, report.requests) == (4, 2, ["too old"], 1)


def test_mode_metadata_leaves_content_and_error_text_behind(
    receiver: Receiver, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_to_otlp(recorded, receiver.url, mode="metadata")
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "metadata")
    replay_to_otlp(recorded, receiver.url)
    assert len(receiver.spans) == 12
    for request in receiver.requests:
        assert b"secret" not in request.SerializeToString()
        assert b"gen_ai.tool.call.arguments" not in request.SerializeToString()
        assert b"exception.type" in request.SerializeToString()
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "off")
    assert replay_to_otlp(recorded, receiver.url).requests == 0


def test_a_shifted_record_ends_now_under_new_ids_that_link_to_the_old(
    receiver: Receiver, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_to_otlp(recorded, receiver.url)
    before = receiver.spans
    receiver.requests.clear()
    now = before[0].end_time_unix_nano + 10**15
    monkeypatch.setattr("time.time_ns", lambda: now)
    replay_to_otlp(recorded, receiver.url, shift_to_now=True)
    after = receiver.spans
    assert max(span.end_time_unix_nano for span in after) == now
    for old, new in zip(before, after, strict=True):
        assert new.end_time_unix_nano - new.start_time_unix_nano == old.end_time_unix_nano - old.start_time_unix_nano
        assert new.trace_id != old.trace_id
        assert (new.links[-1].trace_id, new.links[-1].span_id) == (old.trace_id, old.span_id)
        assert [event.time_unix_nano - new.start_time_unix_nano for event in new.events] == [
            event.time_unix_nano - old.start_time_unix_nano for event in old.events
        ]
    assert {span.parent_span_id for span in after[:4]} == {after[4].span_id}
    receiver.requests.clear()
    replay_to_otlp(recorded, receiver.url, shift_to_now=True, keep_ids=True)
    assert [span.span_id for span in receiver.spans] == [span.span_id for span in before]


def test_ids_among_the_attributes_change_with_the_trace() -> None:
    from actionspan.recorder._reshape import with_new_ids

    trace, span, parent = f"{2**100 + 77:032x}", f"{8:016x}", f"{9:016x}"

    def action_id(trace_id: str, span_id: str) -> str:
        digits = trace_id[16:] + span_id
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    attributes = {
        "actionspan.action_id": action_id(trace, span),
        "actionspan.parent_action_id": action_id(trace, parent),
        "actionspan.run_action_id": "00000000-0000-0000-0000-000000000001",
        "actionspan.root_action_id": "old",
    }
    event = {"trace_id": trace, "span_id": span, "parent_span_id": parent, "attributes": attributes}
    new = with_new_ids(event, "salt")
    assert new["attributes"]["actionspan.action_id"] == action_id(new["trace_id"], new["span_id"])
    assert new["attributes"]["actionspan.parent_action_id"] == action_id(new["trace_id"], new["parent_span_id"])
    assert new["attributes"]["actionspan.run_action_id"] == "00000000-0000-0000-0000-000000000001"
    assert new["attributes"]["actionspan.root_action_id"].replace("-", "") == new["trace_id"]
    assert new == with_new_ids(event, "salt") != with_new_ids(event, "pepper")


def test_rate_and_progress(receiver: Receiver, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    pauses: list[float] = []
    seen: list[int] = []
    replay_to_otlp(
        recorded,
        receiver.url,
        batch=2,
        rate=4,
        sleep=pauses.append,
        progress=lambda report: seen.append(report.exported),
    )
    assert pauses == [0.5, 0.5, 0.5]
    assert seen == [2, 4, 6]
    with pytest.raises(ValueError, match="rate"):
        replay_to_otlp(recorded, receiver.url, rate=0)


def test_grpc(recorded: Path) -> None:
    class Servicer(TraceServiceServicer):
        def __init__(self) -> None:
            self.answers = [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE]
            self.spans: list[Any] = []

        def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
            if self.answers:
                context.abort(self.answers.pop(0), "no")
            assert ("key", "value") in context.invocation_metadata()
            self.spans += spans_in(request)
            return ExportTraceServiceResponse()

    servicer = Servicer()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    pauses: list[float] = []
    try:
        report = replay_to_otlp(recorded, f"grpc://127.0.0.1:{port}", headers={"Key": "value"}, sleep=pauses.append)
    finally:
        server.stop(None).wait()
    assert (report.exported, len(servicer.spans), pauses) == (6, 6, [1.0])


def test_other_schemes_are_refused(recorded: Path) -> None:
    with pytest.raises(ValueError, match="OTLP endpoint"):
        replay_to_otlp(recorded, "localhost:4317")


def test_a_cursor_is_plain_json(receiver: Receiver, recorded: Path, tmp_path: Path) -> None:
    replay_to_otlp(recorded, receiver.url, cursor=tmp_path / "cursor")
    assert json.loads((tmp_path / "cursor").read_text())["record"] == str(recorded)

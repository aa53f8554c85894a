"""A span as an event, and the event as that span again."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags, Tracer, TraceState

from actionspan.recorder import JsonlRecorder, RecorderSpanProcessor, event_of_start, read, spans_of
from recorder.conftest import action, kinds, on_the_wire

CONTENTS = [
    '{"city": "Paris",  "n": [1, 2.50, -0, 1e5]}',
    "plain words",
    '"a JSON string"',
    " [1] ",
    "[1,\n2]",
    "[1,\r2]",
    "",
    "null",
    "12",
    "1e999",
    "[1e999]",
    '{"a":1,"a":2}',
    '{"$bytes":"eA=="}',
    '{"x":{"$float":"nan"}}',
    "[" * 5000 + "]" * 5000,
    '"\\ud800"',
    '["\u2028\u00e9\\u00e9\\/"]',
]


def test_a_call_is_a_start_and_a_self_contained_terminal(tracer: Tracer, recorder: JsonlRecorder) -> None:
    with tracer.start_as_current_span(
        "invoke_agent support", attributes=action("agent", "run", gen_ai__agent__name="support")
    ) as run:
        with tracer.start_as_current_span(
            "execute_tool lookup",
            attributes=action(
                "tool",
                "execute",
                gen_ai__agent__name="support",
                gen_ai__tool__name="lookup",
                gen_ai__tool__call__arguments='{"order": 7}',
            ),
        ) as tool:
            tool.set_attribute("gen_ai.tool.call.result", "shipped")
            tool.set_attribute("actionspan.outcome", "error")
            tool.set_attribute("actionspan.outcome_reason", "retry")
            tool.set_attribute("error.type", "ModelRetry")
            tool.set_status(StatusCode.ERROR, "no")
        run.set_attribute("actionspan.outcome", "success")
        run.set_attribute("actionspan.usage.input_tokens", 12)
    events = list(recorder.query())
    assert kinds(events) == ["agent.run.start", "tool.execute.start", "tool.execute.error", "agent.run.end"]
    _, start, error, end = events
    context = tool.get_span_context()
    action_id = str(UUID(int=((context.trace_id & (2**64 - 1)) << 64) | context.span_id))
    for event in (start, error):
        assert event["call_id"] == event["action_id"] == action_id
        assert event["root_action_id"] == str(UUID(int=context.trace_id))
        assert event["agent_id"] == "support"
        assert event["name"] == "lookup"
        assert event["request"] == {"order": 7}
    assert "outcome" not in start
    assert "response" not in start
    assert (error["outcome"], error["outcome_reason"], error["error"]) == ("error", "retry", "ModelRetry")
    assert error["response"] == "shipped"
    assert error["status"] == {"code": "ERROR", "description": "no"}
    assert error["duration"] == (error["end_time_unix_nano"] - error["start_time_unix_nano"]) / 1e9
    assert end["usage"] == {"input_tokens": 12}
    assert end["run_action_id"] == end["action_id"]
    assert error["resource_scope"]["resource"]["attributes"] == {"service.name": "tests", "host.cpus": 2}


def test_spans_come_back_as_they_were_exported(
    tracer: Tracer, recorder: JsonlRecorder, exported: InMemorySpanExporter
) -> None:
    other = SpanContext(2**127 + 5, 7, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")]))
    with tracer.start_as_current_span(
        "chat m",
        kind=SpanKind.CLIENT,
        attributes=action("model", "request", gen_ai__request__model="m", gen_ai__request__temperature=1.0),
        links=[Link(other, {"why": ("x", "y")})],
    ) as span:
        for number, text in enumerate(CONTENTS):
            span.set_attribute("gen_ai.input.messages" if number == 0 else f"other.{number}", text)
        span.set_attribute("gen_ai.request.stop_sequences", ["END", "STOP"])
        span.set_attributes(
            {"bytes": b"\x00\xff", "inf": float("inf"), "list": [1, 2], "nested": {"$map": [True, None]}}
        )  # type: ignore[dict-item] # newer API
        span.add_event("exception", {"exception.message": "boom"}, timestamp=17)
        span.set_status(StatusCode.ERROR, "why")
    (original,) = exported.get_finished_spans()
    (again,) = spans_of(recorder_events(recorder))
    assert on_the_wire(again) == on_the_wire(original)
    assert again.context == original.context
    assert again.context.trace_state == original.context.trace_state
    assert again.resource == original.resource
    assert again.resource.schema_url == original.resource.schema_url
    assert again.instrumentation_scope == original.instrumentation_scope
    assert [link.context for link in again.links] == [other]


def test_what_limits_dropped_is_counted_in_the_span_again(
    recorder: JsonlRecorder, exported: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    limits = SpanLimits(max_span_attributes=4, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1)
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(RecorderSpanProcessor(recorder))
    provider.add_span_processor(SimpleSpanProcessor(exported))
    links = [Link(SpanContext(5, number, is_remote=False), {"a": 1, "b": 2}) for number in (1, 2)]
    with provider.get_tracer("actionspan").start_as_current_span("t", links=links) as span:
        span.set_attributes(action("tool", "execute", more=1, yet_more=2, most=3))
        span.add_event("one")
        span.add_event("two", {"a": 1, "b": 2})
    (original,) = exported.get_finished_spans()
    (again,) = spans_of(recorder_events(recorder))
    assert (original.dropped_attributes, original.dropped_events, original.dropped_links) == (2, 1, 1)
    assert on_the_wire(again) == on_the_wire(original)


@pytest.mark.parametrize("text", CONTENTS)
def test_content_comes_back_byte_for_byte(directory: Path, text: str) -> None:
    with JsonlRecorder(directory) as recorder:
        recorder.emit({"kind": "x", "content": {"gen_ai.input.messages": text}})
    assert next(read(directory).query(text=True))["content"] == {"gen_ai.input.messages": text}
    assert len(list(read(directory).query())) == 1


def test_content_is_nested_no_deeper_than_every_reader_can_follow(recorder: JsonlRecorder) -> None:
    nesting = sys.getrecursionlimit() - len(inspect.stack()) - 100
    recorder.emit({"kind": "x", "content": {"request": "[" * nesting + "]" * nesting}})

    def read_further_down(frames: int) -> int:
        return read_further_down(frames - 1) if frames else len(list(recorder.query()))

    assert read_further_down(120) == 1


def test_content_that_utf_8_cannot_carry_keeps_the_rest(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "x", "content": {"a": "b\ud800c", "d": '["\udc00"]'}})
    assert next(recorder.query())["content"] == {"a": "b?c", "d": ["?"]}


def test_an_event_that_was_read_can_be_recorded_again(tracer: Tracer, recorder: JsonlRecorder, tmp_path: Path) -> None:
    with tracer.start_as_current_span("t", attributes=action("tool", "execute", actionspan__request='{"a": 1}')):
        pass
    first = list(recorder_events(recorder))
    with JsonlRecorder(tmp_path / "second") as second:
        for event in first:
            second.emit(event)
        assert list(read(tmp_path / "second").query(text=True)) == first


def test_spans_of_other_scopes_are_recorded_on_request_only(recorder: JsonlRecorder, directory: Path) -> None:
    for all_spans in (False, True):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(RecorderSpanProcessor(recorder, all_spans=all_spans))
        with provider.get_tracer("requests").start_as_current_span("GET"):
            pass
    events = list(recorder.query())
    assert kinds(events) == ["span", "span"]
    assert [event["phase"] for event in events] == ["start", "end"]
    assert "call_id" not in events[0]


def test_a_span_the_sampler_dropped_is_recorded_when_it_is_handed_over(tracer: Tracer, recorder: JsonlRecorder) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    processor = RecorderSpanProcessor(recorder)
    provider.add_span_processor(processor)
    dropped = provider.get_tracer("actionspan").start_span("x", attributes=action("tool", "execute"))
    dropped.end()
    assert list(recorder.query()) == []
    with tracer.start_as_current_span("t", attributes=action("tool", "execute")) as span:
        processor.record_start(span)  # type: ignore[arg-type] # an SDK span
    assert kinds(recorder.query()) == ["tool.execute.start", "tool.execute.start", "tool.execute.end"]


def test_ids_are_those_of_the_span_context_at_the_start(tracer: Tracer) -> None:
    span = tracer.start_span("x", attributes=action("tool", "execute"))
    event = event_of_start(span)  # type: ignore[arg-type] # an SDK span
    assert event["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert event["action_id"].replace("-", "") == event["trace_id"][16:] + event["span_id"]


def recorder_events(recorder: JsonlRecorder):  # type: ignore[no-untyped-def] # a generator of events
    recorder.flush()
    return read(recorder.directory).query(text=True)

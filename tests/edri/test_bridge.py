"""EDRI's events as spans, whatever order they come in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from actionspan import ActionPolicy, PydanticAIInstrumentor, RecorderSpanProcessor, guard
from actionspan.bridges.edri import EdriBridge
from actionspan.redact import redact_keys
from actionspan.testing import capture
from actionspan.testing._memory import MemoryRecorder

Make = Callable[..., Any]
LOW_64 = 2**64 - 1


def a_run(s: Any) -> list[Any]:
    """A run that asks a model, calls a tool that dispatches, and asks again."""
    return [
        s.start("agent.run", 1),
        s.start("model.request", 2, name="large", metadata={"streaming": False}),
        s.end("model.request", 2, name="large", usage={"input_tokens": 10, "output_tokens": 2}, provider="openai"),
        s.start("tool.validate", 3, name="locate", metadata={"tool_call_id": "c1"}),
        s.end("tool.validate", 3, name="locate", metadata={"tool_call_id": "c1"}),
        s.start("tool.execute", 4, name="locate", metadata={"tool_call_id": "c1"}),
        s.start("edri.dispatch", 5, name="WhereIs", parent_action_id=UUID(int=an(4))),
        s.end("edri.dispatch", 5, name="WhereIs", parent_action_id=UUID(int=an(4))),
        s.end("tool.execute", 4, name="locate", metadata={"tool_call_id": "c1"}),
        s.end("agent.run", 1, usage={"input_tokens": 10, "output_tokens": 2, "requests": 1, "tool_calls": 1}),
    ]


def an(number: int) -> int:
    return UUID(f"00000000-0000-4000-8000-{number:012d}").int


A_RUN = """\
invoke_agent parcels [success]
  chat large [success]
  validate_tool locate [success]
  execute_tool locate [success]
    send WhereIs [success]\
"""


def test_a_run_is_a_tree_under_the_ids_that_edri_gave_it(bridged: Make, stream: Make):
    seen = bridged().feed(*a_run(stream()))
    assert seen.tree() == A_RUN
    for span in seen.spans:
        attributes = span.attributes
        assert span.context.trace_id == UUID(attributes["actionspan.root_action_id"]).int
        assert span.context.span_id == UUID(attributes["actionspan.action_id"]).int & LOW_64
        parent = attributes.get("actionspan.parent_action_id")
        assert (span.parent and span.parent.span_id) == (parent and UUID(parent).int & LOW_64)
        assert attributes["actionspan.run_action_id"] == attributes["actionspan.root_action_id"]
        assert span.context.trace_flags.sampled


def test_what_a_span_says_of_its_action(bridged: Make, stream: Make):
    seen = bridged().feed(*a_run(stream()))
    ids = ("action_id", "root_action_id", "run_action_id", "parent_action_id")

    def said(name: str) -> dict[str, Any]:
        return {key: value for key, value in seen.attributes(name).items() if not key.endswith(ids)}

    assert said("chat large") == snapshot(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "parcels",
            "gen_ai.conversation.id": "conversation-1",
            "actionspan.namespace": "model",
            "actionspan.operation": "request",
            "actionspan.attempt": 1,
            "actionspan.run_id": "run-1",
            "actionspan.framework": "pydantic_ai",
            "gen_ai.request.model": "large",
            "gen_ai.provider.name": "openai",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 2,
            "actionspan.outcome": "success",
        }
    )
    assert said("execute_tool locate") == snapshot(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.agent.name": "parcels",
            "gen_ai.conversation.id": "conversation-1",
            "actionspan.namespace": "tool",
            "actionspan.operation": "execute",
            "actionspan.attempt": 1,
            "actionspan.run_id": "run-1",
            "actionspan.framework": "pydantic_ai",
            "gen_ai.tool.name": "locate",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "c1",
            "actionspan.tool_executed": True,
            "actionspan.outcome": "success",
        }
    )
    assert said("send WhereIs") == snapshot(
        {
            "gen_ai.agent.name": "parcels",
            "gen_ai.conversation.id": "conversation-1",
            "actionspan.namespace": "dispatch",
            "actionspan.operation": "send",
            "actionspan.attempt": 1,
            "actionspan.run_id": "run-1",
            "actionspan.framework": "pydantic_ai",
            "actionspan.name": "WhereIs",
            "actionspan.outcome": "success",
        }
    )
    assert said("invoke_agent parcels") == snapshot(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "parcels",
            "gen_ai.conversation.id": "conversation-1",
            "actionspan.namespace": "agent",
            "actionspan.operation": "run",
            "actionspan.attempt": 1,
            "actionspan.run_id": "run-1",
            "actionspan.framework": "pydantic_ai",
            "actionspan.usage.input_tokens": 10,
            "actionspan.usage.output_tokens": 2,
            "actionspan.usage.requests": 1,
            "actionspan.usage.tool_calls": 1,
            "actionspan.outcome": "success",
        }
    )


def test_times_are_those_of_the_events_and_of_their_monotonic_clock(bridged: Make, stream: Make):
    s = stream()
    start = s.start("agent.run", 1)
    s.now += timedelta(hours=1)  # the wall clock was set forward while it ran
    (span,) = bridged().feed(start, s.end("agent.run", 1, duration=2.5)).spans
    begun = datetime.fromisoformat("2026-05-01T12:00:01+00:00").timestamp()
    assert span.start_time == int(begun) * 10**9
    assert span.end_time - span.start_time == 2_500_000_000


@pytest.mark.parametrize(
    ("outcome", "error", "line"),
    [
        ("success", None, "execute_tool t [success]"),
        ("error", {"type": "ValueError"}, "execute_tool t [error] !ValueError"),
        ("error", {"type": "ModelHTTPError", "status_code": 429}, "execute_tool t [error] !429"),
        ("error", None, "execute_tool t [error] !_OTHER"),
        ("timeout", {"type": "TimeoutError"}, "execute_tool t [timeout] !timeout"),
        ("cancelled", None, "execute_tool t [cancelled]"),
        ("deferred", None, "execute_tool t [deferred]"),
    ],
)
def test_outcomes_are_those_of_the_events(bridged: Make, stream: Make, outcome: str, error: Any, line: str):
    s = stream()
    seen = bridged().feed(
        s.start("tool.execute", 2, name="t"), s.end("tool.execute", 2, outcome, name="t", error=error)
    )
    assert seen.tree() == line
    assert seen.attributes("execute_tool t")["actionspan.tool_executed"] is (outcome != "deferred")


def test_mcp_operations_and_an_applications_own(bridged: Make, stream: Make):
    s = stream()
    seen = bridged()
    for n, (kind, name) in enumerate(
        [
            ("mcp.tools.call", "add"),
            ("mcp.resources.read", "file:///etc/passwd"),
            ("mcp.prompts.get", "greet"),
            ("memory.lookup", "customers"),
        ],
        2,
    ):
        seen.feed(s.start(kind, n, name=name), s.end(kind, n, name=name))
    assert seen.tree("namespace", "operation", "operation.name") == snapshot("""\
tools/call add [success] namespace=mcp operation=tools.call operation.name=execute_tool
resources/read [success] namespace=mcp operation=resources.read
prompts/get greet [success] namespace=mcp operation=prompts.get
lookup customers [success] namespace=memory operation=lookup\
""")
    assert "passwd" not in str([(span.name, dict(span.attributes)) for span in seen.spans])


# --- order ---


@pytest.mark.parametrize("shuffle", range(8))
def test_any_order_makes_the_same_spans(bridged: Make, stream: Make, shuffle: int):
    import random

    events = a_run(stream())
    in_order = bridged(policy=ActionPolicy.everything(), mode="content").feed(*events)
    random.Random(shuffle).shuffle(events)
    shuffled = bridged(policy=ActionPolicy.everything(), mode="content").feed(*events)
    assert described(shuffled.spans) == described(in_order.spans)
    assert shuffled.bridge.open == 0


def described(spans: list[ReadableSpan]) -> list[Any]:
    return sorted(
        (
            span.name,
            span.context.span_id,
            span.start_time,
            span.end_time,
            sorted(map(str, (span.attributes or {}).items())),
        )
        for span in spans
    )


def test_an_end_before_its_start_waits_for_it_and_keeps_the_request(bridged: Make, stream: Make):
    s = stream()
    start = s.start("tool.execute", 2, name="t", request={"x": 1})
    end = s.end("tool.execute", 2, name="t", response_data="done")
    seen = bridged(policy=ActionPolicy.everything(), mode="content").feed(end)
    assert seen.spans == []
    seen.feed(start)
    attributes = seen.attributes("execute_tool t")
    assert attributes["gen_ai.tool.call.arguments"] == '{"x":1}'
    assert attributes["gen_ai.tool.call.result"] == '"done"'


def test_a_terminal_without_a_start_is_exported_when_nobody_expects_one_any_more(bridged: Make, stream: Make):
    s = stream()
    end = s.end("tool.execute", 2, name="t", duration=0.5)
    late = s.start("tool.execute", 2, name="t")
    seen = bridged(grace=2.0).feed(end)
    seen.time = 1.9
    seen.bridge.expire()
    assert seen.spans == []
    seen.time = 2.0
    seen.bridge.expire()
    (span,) = seen.spans
    assert span.end_time == end.timestamp.timestamp() * 1e9
    assert span.end_time - span.start_time == 500_000_000
    assert seen.tree() == "execute_tool t [success]"
    seen.feed(late)
    assert (len(seen.spans), seen.bridge.open, seen.bridge.duplicates) == (1, 0, 1)


def test_a_flush_does_not_wait_for_starts(bridged: Make, stream: Make):
    seen = bridged().feed(stream().end("tool.execute", 2, name="t"))
    assert seen.bridge.force_flush()
    assert seen.tree() == "execute_tool t [success]"


def test_the_same_event_twice_is_one_span(bridged: Make, stream: Make):
    seen = bridged()
    for event in a_run(stream()):
        seen.feed(event, event)
    seen.feed(*a_run(stream()))
    assert seen.tree() == A_RUN
    assert seen.bridge.duplicates == 20


def test_two_runs_with_one_run_id_are_two_traces(bridged: Make, stream: Make):
    one, two = stream(1), stream(11)
    seen = bridged().feed(
        one.start("agent.run", 1), two.start("agent.run", 11), two.end("agent.run", 11), one.end("agent.run", 1)
    )
    assert seen.tree("run_id") == snapshot("""\
invoke_agent parcels [success] run_id=run-1

invoke_agent parcels [success] run_id=run-1\
""")
    assert len({span.context.trace_id for span in seen.spans}) == 2


def test_attempts_under_one_action_id_are_spans_of_their_own(bridged: Make, stream: Make):
    s = stream()
    seen = bridged()
    for attempt in (1, 2, 3):
        outcome = "success" if attempt == 3 else "error"
        seen.feed(
            s.start("tool.execute", 2, name="t", attempt=attempt),
            s.end("tool.execute", 2, outcome, name="t", attempt=attempt),
        )
    assert seen.tree("attempt") == snapshot("""\
execute_tool t [error] !_OTHER attempt=1
execute_tool t [error] !_OTHER attempt=2
execute_tool t [success] attempt=3\
""")
    assert len({span.context.span_id for span in seen.spans}) == 3
    assert len({span.attributes["actionspan.action_id"] for span in seen.spans}) == 1
    second = bridged().feed(
        s.start("tool.execute", 2, name="t", attempt=2), s.end("tool.execute", 2, attempt=2, name="t")
    )
    # EDRI gives a retry an id of its own: then its span has that id, whatever its attempt.
    assert second.spans[0].context.span_id == an(2) & LOW_64


def test_an_event_that_names_no_run_is_counted_and_not_guessed(bridged: Make, stream: Make):
    s = stream()
    seen = bridged().feed(
        s.start("tool.execute", 2, root_action_id=None), s.start("tool.execute", 3, root_action_id=UUID(int=0))
    )
    assert (seen.bridge.unattributed, seen.bridge.open) == (2, 0)


# --- bounds ---


def test_a_start_that_never_ends_is_exported_as_unfinished_when_it_is_too_old(bridged: Make, stream: Make):
    s = stream()
    seen = bridged(max_age=60.0).feed(s.start("agent.run", 1), s.start("tool.execute", 2, name="t"))
    seen.time = 60.0
    seen.feed(s.end("tool.execute", 2, name="t"))
    assert seen.tree("unfinished") == snapshot("""\
invoke_agent parcels unfinished=True
  execute_tool t [success]\
""")
    root = next(span for span in seen.spans if span.name == "invoke_agent parcels")
    assert "actionspan.outcome" not in root.attributes
    assert root.end_time == max(span.end_time for span in seen.spans)


def test_a_terminal_that_comes_after_all_is_exported_once(bridged: Make, stream: Make):
    s = stream()
    start, end = s.start("agent.run", 1), s.end("agent.run", 1, "error", error={"type": "ValueError"})
    seen = bridged(max_age=60.0).feed(start)
    seen.time = 60.0
    seen.bridge.expire()
    seen.feed(start, end, end)
    assert [span.status.is_ok for span in seen.spans] == [True, False]
    assert len({span.context.span_id for span in seen.spans}) == 1
    assert seen.bridge.open == 0


def test_ten_thousand_open_starts_stay_within_the_bound(bridged: Make, stream: Make):
    s = stream()
    seen = bridged(max_open=1000)
    for n in range(10_000):
        seen.feed(s.start("agent.run", n + 1))
        assert seen.bridge.open <= 1000
    assert len(seen.spans) == 9000
    assert all(span.attributes["actionspan.unfinished"] for span in seen.spans)
    assert [span.context.span_id & 0xFFFF for span in seen.spans[:2]] == [an(1) & 0xFFFF, an(2) & 0xFFFF]
    seen.bridge.shutdown()
    assert (len(seen.spans), seen.bridge.open) == (10_000, 0)


def test_terminals_without_starts_are_bounded_too(bridged: Make, stream: Make):
    s = stream()
    seen = bridged(max_open=10)
    for n in range(100):
        seen.feed(s.end("tool.execute", n + 2, name="t"))
    assert (len(seen.spans), seen.bridge.open) == (90, 10)


def test_what_is_remembered_of_duplicates_is_bounded(bridged: Make, stream: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("actionspan.bridges.edri._open.MAX_REMEMBERED", 50)
    s = stream()
    seen = bridged()
    for n in range(200):
        seen.feed(s.start("tool.execute", n + 2, name="t"), s.end("tool.execute", n + 2, name="t"))
    remembered = seen.bridge._open
    assert (len(remembered._exported), len(remembered._first), len(seen.spans)) == (50, 50, 200)


@pytest.mark.parametrize("wrong", [{"max_open": 0}, {"max_age": 0}, {"grace": -1}])
def test_bounds_are_positive(wrong: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        EdriBridge([], **wrong)


# --- sampling, processors, the recorder ---


def test_no_sampler_has_a_say(bridged: Make, stream: Make):
    """Version-4 ids as trace ids would be kept or dropped wholesale: their low half always begins with the variant."""
    ratio = TraceIdRatioBased(0.1)
    kept = [ratio.should_sample(None, uuid4().int, "x").decision.is_sampled() for _ in range(200)]
    assert not any(kept)
    seen = bridged()
    for n in range(20):
        seen.feed(stream(n + 1).start("agent.run", n + 1), stream(n + 1).end("agent.run", n + 1))
    assert len(seen.spans) == 20


class Broken(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise ValueError("broken")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        raise ValueError("broken")

    def shutdown(self) -> None:
        raise ValueError("broken")


@pytest.mark.contained
def test_a_processor_that_raises_harms_nobody(bridged: Make, stream: Make):
    before = guard.failures["edri"]
    seen = bridged(more=[Broken()]).feed(*a_run(stream()))
    assert seen.tree() == A_RUN
    assert not seen.bridge.force_flush()
    seen.bridge.shutdown()
    assert guard.failures["edri"] == before + 5 + 2


@pytest.mark.contained
def test_an_event_that_cannot_be_read_is_contained(bridged: Make, stream: Make):
    before = guard.failures["edri"]
    s = stream()
    wrong = s.start("tool.execute", 2, name="t")
    wrong.timestamp = "noon"
    seen = bridged().feed(wrong, object(), s.start("agent.run", 1), s.end("agent.run", 1))
    assert guard.failures["edri"] == before + 2
    assert seen.tree() == "invoke_agent parcels [success]"


def test_a_recorder_gets_the_starts_and_no_end_for_what_has_none(bridged: Make, stream: Make):
    recorder = MemoryRecorder()
    s = stream()
    seen = bridged(more=[RecorderSpanProcessor(recorder)]).feed(
        s.start("agent.run", 1), s.start("tool.execute", 2, name="t"), s.end("tool.execute", 2, name="t")
    )
    seen.bridge.shutdown()
    assert [event["kind"] for event in recorder.events] == ["agent.run.start", "tool.execute.start", "tool.execute.end"]
    assert len(seen.spans) == 2
    tool = recorder.events[-1]
    assert tool["parent_action_id"] == tool["run_action_id"] == tool["root_action_id"] == str(UUID(int=an(1)))


def test_a_record_has_the_ids_that_edri_gave(bridged: Make, stream: Make):
    recorder = MemoryRecorder()
    s = stream()
    bridged(more=[RecorderSpanProcessor(recorder)]).feed(s.start("agent.run", 1), s.end("agent.run", 1))
    assert {event["action_id"] for event in recorder.events} == {str(UUID(int=an(1)))}


# --- policy ---


CONTENT = {
    "include_model_requests": ("chat large", "gen_ai.input.messages", "canary-prompt"),
    "include_model_responses": ("chat large", "gen_ai.output.messages", "canary-completion"),
    "include_tool_arguments": ("execute_tool locate", "gen_ai.tool.call.arguments", "canary-arguments"),
    "include_tool_results": ("execute_tool locate", "gen_ai.tool.call.result", "canary-result"),
    "include_mcp_requests": ("tools/call add", "actionspan.request", "canary-mcp-request"),
    "include_mcp_responses": ("tools/call add", "actionspan.response", "canary-mcp-response"),
    "include_dispatch_requests": ("send WhereIs", "actionspan.request", "canary-dispatch-request"),
    "include_dispatch_responses": ("send WhereIs", "actionspan.response", "canary-dispatch-response"),
    "include_custom_content": ("lookup customers", "actionspan.request", "canary-custom"),
}


def with_content(s: Any) -> list[Any]:
    pairs = [
        (
            "model.request",
            "large",
            [{"kind": "user-prompt", "content": "canary-prompt"}],
            {"text": "canary-completion", "tool_calls": []},
        ),
        ("tool.execute", "locate", {"x": "canary-arguments"}, "canary-result"),
        ("mcp.tools.call", "add", {"x": "canary-mcp-request"}, ["canary-mcp-response"]),
        ("edri.dispatch", "WhereIs", {"x": "canary-dispatch-request"}, {"x": "canary-dispatch-response"}),
        ("memory.lookup", "customers", {"x": "canary-custom"}, None),
    ]
    events = []
    for n, (kind, name, request, response) in enumerate(pairs, 2):
        events += [
            s.start(kind, n, name=name, request=request),
            s.end(kind, n, name=name, response_data=response),
        ]
    failed = {"type": "ValueError", "message": ["canary-error"]}
    return [*events, s.start("agent.run", 1), s.end("agent.run", 1, "error", error=failed)]


def everything(seen: Any, recorder: MemoryRecorder) -> str:
    spans = [(span.name, dict(span.attributes), span.status.description) for span in seen.spans]
    return f"{spans}{recorder.events}"


@pytest.mark.parametrize("category", [*CONTENT, "include_error_messages", None])
def test_content_is_there_only_where_its_own_category_is_on(bridged: Make, stream: Make, category: str | None):
    policy = ActionPolicy() if category is None else ActionPolicy(**{category: True})
    recorder = MemoryRecorder()
    seen = bridged(policy=policy, mode="content", more=[RecorderSpanProcessor(recorder)]).feed(*with_content(stream()))
    text = everything(seen, recorder)
    for other, (name, attribute, canary) in CONTENT.items():
        assert (canary in text) is (other == category)
        assert (canary in str(seen.attributes(name).get(attribute))) is (other == category)
    assert ("canary-error" in text) is (category == "include_error_messages")
    descriptions = [span.status.description for span in seen.spans if span.status.description]
    assert descriptions == (["canary-error"] if category == "include_error_messages" else [])


@pytest.mark.parametrize("variable", ["ACTIONSPAN_AUDIT=metadata", "ACTIONSPAN_CAPTURE=none", "EVENT_ONLY", None])
def test_the_ceiling_applies_to_what_edri_captured(
    bridged: Make, stream: Make, monkeypatch: pytest.MonkeyPatch, variable: str | None
):
    if variable is not None:
        name, _, value = variable.rpartition("=")
        monkeypatch.setenv(name or "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    seen = bridged(policy=ActionPolicy.everything(), mode="content").feed(*with_content(stream()))
    assert ("canary" in everything(seen, MemoryRecorder())) is (variable is None)


def test_metadata_is_the_default_and_off_is_nothing_at_all(bridged: Make, stream: Make):
    assert "canary" not in everything(bridged().feed(*with_content(stream())), MemoryRecorder())
    off = bridged(policy=ActionPolicy.everything(), mode="off").feed(*with_content(stream()))
    assert (off.spans, off.bridge.open) == ([], 0)
    with pytest.raises(ValueError, match="loud"):
        EdriBridge([], mode="loud")
    with pytest.raises(TypeError, match="ActionPolicy"):
        EdriBridge([], policy={"include": True})  # type: ignore[arg-type]


def test_content_is_redacted_and_cut_once_more(bridged: Make, stream: Make, monkeypatch: pytest.MonkeyPatch):
    policy = ActionPolicy.everything(redactor=redact_keys("token"))
    s = stream()
    request = {"token": "secret", "text": "x" * 10_000}
    seen = bridged(policy=policy, mode="content").feed(
        s.start("tool.execute", 2, name="t", request=request), s.end("tool.execute", 2, name="t")
    )
    arguments = json.loads(seen.attributes("execute_tool t")["gen_ai.tool.call.arguments"])
    assert arguments["token"] == "<secret>"
    assert arguments["text"].endswith("…<truncated 5904>")
    monkeypatch.setenv("ACTIONSPAN_REDACTOR", "no.such:redactor")
    nothing = bridged(policy=policy, mode="content").feed(*with_content(s))
    assert "canary" not in everything(nothing, MemoryRecorder())


def test_prompts_and_completions_are_messages_in_the_genai_shape(bridged: Make, stream: Make):
    s = stream()
    request = [
        {"kind": "system-prompt", "content": "Be brief."},
        {"kind": "user-prompt", "content": "Where?"},
        {"kind": "user-prompt", "content": "And when?"},
        {"kind": "tool-call", "tool_name": "locate", "tool_call_id": "c1", "args": {"x": 1}},
        {"kind": "tool-return", "tool_name": "locate", "tool_call_id": "c1", "content": [1, 2]},
    ]
    response = {"text": "Here.", "tool_calls": [{"tool_name": "locate", "args": '{"x": 2}'}]}
    seen = bridged(policy=ActionPolicy.everything(), mode="content").feed(
        s.start("model.request", 2, name="large", request=request), s.end("model.request", 2, response_data=response)
    )
    attributes = seen.attributes("chat large")
    assert json.loads(attributes["gen_ai.input.messages"]) == snapshot(
        [
            {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
            {
                "role": "user",
                "parts": [{"type": "text", "content": "Where?"}, {"type": "text", "content": "And when?"}],
            },
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "name": "locate", "arguments": {"x": 1}, "id": "c1"}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": [1, 2]}]},
        ]
    )
    assert json.loads(attributes["gen_ai.output.messages"]) == snapshot(
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "text", "content": "Here."},
                    {"type": "tool_call", "name": "locate", "arguments": '{"x": 2}'},
                ],
            }
        ]
    )


@pytest.mark.parametrize(
    "value", ["<truncated>", [1, "x"], {"a": 1}, [], 0, [{"kind": []}], {"text": None}, {"tool_calls": [1]}]
)
def test_whatever_edris_redactor_made_of_it_is_kept_somewhere(bridged: Make, stream: Make, value: Any):
    s = stream()
    seen = bridged(policy=ActionPolicy.everything(), mode="content").feed(
        s.start("model.request", 2, name="large", request=value),
        s.end("model.request", 2, name="large", response_data=value),
    )
    attributes = seen.attributes("chat large")
    assert "actionspan.request" in attributes or "gen_ai.input.messages" in attributes
    assert "actionspan.response" in attributes or "gen_ai.output.messages" in attributes


# --- refusal ---


def test_the_bridge_refuses_beside_the_instrumentor(caplog: pytest.LogCaptureFixture, bridged: Make, stream: Make):
    seen = bridged()
    with capture() as other:
        with pytest.raises(RuntimeError, match="Use the instrumentor for agents that run in this process") as refused:
            EdriBridge([])
        assert "Use the bridge for" in str(refused.value)
        assert "uninstrument()" in str(refused.value)
        seen.feed(*a_run(stream()))
        Agent(TestModel(), name="a").run_sync("go")
    assert seen.spans == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [str(refused.value)]
    assert other.tree().startswith("invoke_agent a [success]")
    assert not PydanticAIInstrumentor().is_instrumented_by_opentelemetry
    assert seen.feed(*a_run(stream())).tree() == A_RUN


# --- any stream at all ---


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_action_of_any_stream_is_one_span(bridged: Make, stream: Make, data: st.DataObject):
    s = stream()
    kinds = ["agent.run", "model.request", "tool.execute", "edri.dispatch", "mcp.tools.call", "memory.lookup"]
    actions = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=8))
    halves = list(
        itertools.chain.from_iterable(
            data.draw(st.sampled_from([[start, end], [start], [end]]))
            for start, end in (
                (s.start(kind, n, name="x"), s.end(kind, n, "error" if n % 2 else "success", name="x"))
                for n, kind in enumerate(actions, 1)
            )
        )
    )
    seen = bridged(max_open=data.draw(st.integers(3, 100)))
    for event in data.draw(st.permutations([*halves, *data.draw(st.lists(st.sampled_from(halves), max_size=4))])):
        seen.time += data.draw(st.sampled_from([0.0, 1.0]))
        seen.feed(event)
    seen.bridge.shutdown()
    finished = [span for span in seen.spans if "actionspan.unfinished" not in span.attributes]
    ends = {event.action_id for event in halves if event.phase.value != "start"}
    assert sorted(span.attributes["actionspan.action_id"] for span in finished) == sorted(map(str, ends))
    assert {span.attributes["actionspan.action_id"] for span in seen.spans} == {
        str(event.action_id) for event in halves
    }
    assert all(span.start_time <= span.end_time for span in seen.spans)
    assert seen.bridge.open == 0

"""Ids, traces, sampling, and who is whose parent."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import pytest
from inline_snapshot import snapshot
from opentelemetry import trace
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pydantic_ai import Agent

from actionspan import action
from actionspan.telemetry.clock import Clock, ticking
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


def delegating_agent() -> Agent:
    inner = Agent(script("in", "in"), name="inner")
    outer = Agent(script(calls(("ask", {}, "c1")), "out", calls(("ask", {}, "c1")), "out"), name="outer")

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("go")).output

    return outer


async def test_ids_are_functions_of_the_span_context_and_parents_are_actions():
    with capture() as seen:
        seen.tracer_provider.id_generator = RandomIdGenerator()
        await delegating_agent().run("go")
    by_action = {span.attributes["actionspan.action_id"]: span for span in seen.spans}
    assert len(by_action) == len(seen.spans) == 7
    for span in seen.spans:
        attributes = span.attributes
        assert UUID(attributes["actionspan.root_action_id"]).int == span.context.trace_id
        action = UUID(attributes["actionspan.action_id"]).int
        assert action == ((span.context.trace_id & (2**64 - 1)) << 64) | span.context.span_id
        parent = attributes.get("actionspan.parent_action_id")
        assert (parent is None) == (span.parent is None)
        if parent is not None:
            assert by_action[parent].context.span_id == span.parent.span_id
        run = by_action[attributes["actionspan.run_action_id"]]
        assert run.attributes["actionspan.namespace"] == "agent"
        assert run.attributes["actionspan.run_id"] == attributes["actionspan.run_id"]


async def test_a_span_of_another_library_between_two_actions_is_skipped():
    agent = Agent(script(calls(("ask", {}, "c1")), "out"), name="outer")
    inner = Agent(script("in"), name="inner")
    with capture() as seen:
        tracer = seen.tracer_provider.get_tracer("app")

        @agent.tool_plain
        async def ask() -> str:
            with tracer.start_as_current_span("http"):
                return (await inner.run("go")).output

        with tracer.start_as_current_span("request"):
            await agent.run("go")
    assert seen.tree() == snapshot("""\
request
  invoke_agent outer [success]
    chat scripted [success]
    validate_tool ask [success]
    execute_tool ask [success]
      http
        invoke_agent inner [success]
          chat scripted [success]
    chat scripted [success]\
""")
    (run,) = seen.named("invoke_agent inner")
    (tool,) = seen.named("execute_tool ask")
    (outermost,) = seen.named("invoke_agent outer")
    assert run.attributes["actionspan.parent_action_id"] == tool.attributes["actionspan.action_id"]
    assert "actionspan.parent_action_id" not in outermost.attributes


async def test_a_new_trace_links_to_where_it_was_started():
    with capture(trace="new") as seen:
        tracer = seen.tracer_provider.get_tracer("app")
        with tracer.start_as_current_span("request") as request:
            await delegating_agent().run("go")
            assert trace.get_current_span() is request
    assert seen.tree() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent inner [success]
      chat scripted [success]
  chat scripted [success]

request\
""")
    (run,) = seen.named("invoke_agent outer")
    assert [link.context.span_id for link in run.links] == [request.get_span_context().span_id]
    assert run.context.trace_id != request.get_span_context().trace_id


async def test_a_ratio_sampler_keeps_about_its_share():
    agent = Agent(script(*["ok"] * 40), name="a")
    with capture(sampler=TraceIdRatioBased(0.25), tick=False) as seen:
        seen.tracer_provider.id_generator = RandomIdGenerator()
        for _ in range(40):
            await agent.run("go")
        runs = len(seen.named("invoke_agent a"))
        assert runs == len(seen.named("chat scripted"))  # whole traces, not spans
        for _ in range(1960):
            with action("billing", "charge"):
                pass
    assert 380 < runs + len(seen.named("charge")) < 620  # six standard deviations around 500


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF)], ids=["off", "inbound flag"])
async def test_every_action_is_recorded_whatever_the_sampler_says(sampler):
    inbound = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(0))
    with capture(sampler=sampler) as seen:
        with trace.use_span(NonRecordingSpan(inbound)):
            await delegating_agent().run("go")
        assert seen.spans == []
        kinds = [event["kind"] for event in seen.records]
        assert kinds == snapshot(
            [
                "agent.run.start",
                "model.request.start",
                "model.request.end",
                "tool.validate.start",
                "tool.validate.end",
                "tool.execute.start",
                "agent.run.start",
                "model.request.start",
                "model.request.end",
                "agent.run.end",
                "tool.execute.end",
                "model.request.start",
                "model.request.end",
                "agent.run.end",
            ]
        )
        assert {event["trace_id"] for event in seen.records} == {f"{7:032x}"}
        durations = seen.metrics()["gen_ai.client.operation.duration"]
        assert sum(point.count for point in durations) == 3


async def test_recorded_and_exported_say_the_same():
    with capture() as seen:
        await delegating_agent().run("go")
        sampled = [dict(event) for event in seen.records]
    with capture(sampler=ALWAYS_OFF) as unseen:
        await delegating_agent().run("go")
        dropped = [dict(event) for event in unseen.records]

    def comparable(events):
        kept = []
        for event in events:
            ids = ("run_id", "conversation_id", "flags")
            attributes = {
                key: value
                for key, value in event.get("attributes", {}).items()
                if not key.endswith(("run_id", "conversation.id"))
            }
            kept.append({key: value for key, value in event.items() if key not in ids} | {"attributes": attributes})
        return kept

    assert comparable(dropped) == comparable(sampled)


async def test_a_clock_that_steps_back_makes_no_negative_span(monkeypatch):
    agent = Agent(script(calls(("step", {}, "c1")), "ok"), name="a")

    @agent.tool_plain
    def step() -> str:
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        return "stepped"

    with capture(tick=False) as seen:
        await agent.run("go")
    (run,) = seen.named("invoke_agent a")
    for span in seen.spans:
        assert run.start_time <= span.start_time <= span.end_time <= run.end_time


def test_a_clock_reads_the_monotonic_one_from_its_anchor():
    with ticking(start_ns=1_000, step_ns=7):
        clock = Clock()
        assert [clock.now(), clock.now()] == [1_007, 1_014]


async def test_bound_identity_is_on_every_action_and_what_was_observed_wins():
    identity = {"prompt_version": "p7", "model_version": "bound", "tenant": "acme"}
    with capture(identity=identity) as seen:
        await delegating_agent().run("go")
    for span in seen.spans:
        assert span.attributes["actionspan.prompt_version"] == "p7"
        assert span.attributes["actionspan.tenant"] == "acme"
    (chat, *_) = seen.named("chat scripted")
    assert chat.attributes["actionspan.model_version"] == "scripted"
    (tool,) = seen.named("execute_tool ask")
    assert tool.attributes["actionspan.model_version"] == "bound"


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ({"outcome": "x"}, "is an attribute of actionspan itself"),
        ({"usage": 1}, "is an attribute of actionspan itself"),
        ({"Tenant": "x"}, "is not of the form"),
        ({"a.b": "x"}, "is not of the form"),
        ({"tenant": None}, "must be a str, bool, int or float, not NoneType"),
        ([("tenant", "x")], "identity must be a mapping, not list"),
    ],
)
def test_an_identity_that_cannot_be_bound(identity, message):
    with pytest.raises((ValueError, TypeError), match=message), capture(identity=identity):
        pass


async def test_a_stream_read_in_a_task_that_knows_nothing_of_the_run():
    agent = Agent(script("one two three"), name="a")
    reads: asyncio.Queue = asyncio.Queue()
    done = asyncio.Event()

    async def reader() -> None:
        run, node = await reads.get()
        async with node.stream(run.ctx) as stream:
            async for _ in stream:
                pass
        done.set()

    with capture() as seen:
        task = asyncio.create_task(reader())  # its context is copied before there is a run
        async with agent.iter("go") as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    await reads.put((run, node))
                    await done.wait()
        await task
    assert seen.tree() == snapshot("""\
invoke_agent a [success]
  chat scripted [success]\
""")

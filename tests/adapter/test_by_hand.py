"""`capability()` on one agent, with and without the process being instrumented."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from inline_snapshot import snapshot
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, CancellationToken, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.capabilities import AbstractCapability, WrapperCapability
from pydantic_ai.exceptions import RunCancelled, RunTimedOut

import actionspan
from actionspan import ActionPolicy
from actionspan.testing import capture, tree
from actionspan.testing._memory import MemoryRecorder
from deadlines import A_DAY, expired
from scripted import calls, script

pytestmark = pytest.mark.anyio


class Seen:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.recorder = MemoryRecorder()

    @property
    def spans(self):
        return self.exporter.get_finished_spans()


def tooled(*lines, **options) -> Agent:
    agent = Agent(script(*lines), name="a", **options)
    agent.tool_plain(lambda x: x, name="f")
    return agent


async def test_one_agent_by_hand_and_no_other():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider, recorder=seen.recorder, identity={"tenant": "acme"})
    await tooled(calls(("f", {"x": 1}, "c1")), "ok", capabilities=[hand]).run("go")
    await tooled("unseen").run("go")
    assert tree(seen.spans, "tenant") == snapshot("""\
invoke_agent a [success] tenant=acme
  chat scripted [success] tenant=acme
  validate_tool f [success] tenant=acme
  execute_tool f [success] tenant=acme
  chat scripted [success] tenant=acme\
""")
    assert len(seen.recorder.events) == 10


async def test_it_streams_nests_and_fails():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    inner = tooled("in", capabilities=[hand])
    outer = Agent(script(calls(("ask", {}, "c1")), "one two"), name="outer", capabilities=[hand])

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("go")).output

    async with outer.run_stream("go") as result:
        await result.get_output()
    with pytest.raises(ValueError, match="boom"):
        await tooled(ValueError("boom"), capabilities=[hand]).run("go")
    assert tree(seen.spans) == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent a [success]
      chat scripted [success]
  chat scripted [success]

invoke_agent a [error] !ValueError
  chat scripted [error] !ValueError\
""")


async def test_with_the_process_instrumented_the_agent_is_traced_once_and_by_both_policies():
    hand = actionspan.capability(
        mode="content", policy=ActionPolicy(include_tool_arguments=True, include_tool_results=True)
    )
    agent = tooled(calls(("f", {"x": 1}, "c1")), "ok", capabilities=[hand])
    everything_but = ActionPolicy(include_tool_arguments=True, include_model_requests=True)
    with capture(mode="content", policy=everything_but) as seen:
        await agent.run("go")
    assert seen.tree("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.input.messages") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool f [success] gen_ai.tool.call.arguments={"x":1}
  execute_tool f [success] gen_ai.tool.call.arguments={"x":1}
  chat scripted [success]\
""")
    assert len(seen.records) == 10


async def test_the_deployments_ceiling_holds_for_it(monkeypatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "metadata")
    seen = Seen()
    hand = actionspan.capability(mode="content", policy=ActionPolicy.everything(), tracer_provider=seen.provider)
    await tooled(calls(("f", {"x": 1}, "c1")), "ok", capabilities=[hand]).run("secret")
    assert "secret" not in str([dict(span.attributes) for span in seen.spans])
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "off")
    off = actionspan.capability(tracer_provider=seen.provider)
    seen.exporter.clear()
    await tooled("ok", capabilities=[off]).run("go")
    assert seen.spans == ()


async def test_with_the_ceiling_at_off_the_agent_runs_as_without_it(monkeypatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "off")
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider, recorder=seen.recorder)
    agent = tooled(calls(("f", {"x": 1}, "c1")), "ok", "streamed", capabilities=[hand])
    assert (await agent.run("go")).output == "ok"
    async with agent.run_stream("go") as result:
        assert await result.get_output() == "streamed "
    assert (seen.spans, seen.recorder.events) == ((), [])


async def test_by_hand_and_recording_in_a_process_that_is_instrumented():
    """The recorder is fed with what the process does from then on."""
    recorder = MemoryRecorder()
    hand = actionspan.capability(recorder=recorder)
    with capture() as seen:
        await tooled("ok", capabilities=[hand]).run("go")
        assert len(recorder.events) == len(seen.records) == 4
        await tooled("ok").run("go")
        assert len(recorder.events) == len(seen.records) == 8


async def test_how_a_run_ended_as_far_as_it_can_be_known_from_inside():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    started = asyncio.Event()
    agent = Agent(script(*[calls(("wait", {}, "c1"))] * 2), name="a", capabilities=[hand])

    @agent.tool_plain
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    token = CancellationToken()
    run = asyncio.create_task(agent.run("go", cancellation_token=token))
    await started.wait()
    token.cancel()
    with pytest.raises(RunCancelled):
        await run
    started.clear()
    run = asyncio.create_task(agent.run("go"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert tree(seen.spans) == snapshot("""\
invoke_agent a [cancelled/run_cancelled]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/run_cancelled]

invoke_agent a [cancelled/task_cancelled]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/task_cancelled]\
""")


async def test_a_denied_call_by_hand():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    agent = Agent(
        script(calls(("delete", {}, "c1")), "ok"),
        name="a",
        output_type=[str, DeferredToolRequests],
        capabilities=[hand],
    )
    agent.tool_plain(lambda: "deleted", name="delete", requires_approval=True)
    first = await agent.run("go")
    denied = DeferredToolResults(approvals={"c1": ToolDenied("no")})
    await agent.run(message_history=first.all_messages(), deferred_tool_results=denied)
    assert tree(seen.spans, "tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool delete [success]
  execute_tool delete [deferred/approval_required] tool_executed=False

invoke_agent a [success]
  execute_tool [cancelled/denied] tool_executed=False
  chat scripted [success]\
""")


class OnTheLoopsClock(AbstractCapability[None]):
    """Has the run's deadline measured by the clock that its timer goes by."""

    def get_run_clock(self):
        loop = asyncio.get_running_loop()
        return lambda: datetime.fromtimestamp(loop.time(), UTC)


async def test_a_deadline_that_passed_by_hand():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    started = asyncio.Event()
    agent = Agent(script(calls(("wait", {}, "c1"))), name="a", capabilities=[hand, OnTheLoopsClock()])

    @agent.tool_plain
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(RunTimedOut):
        await expired(agent.run("go", timeout=A_DAY), started.is_set)
    assert tree(seen.spans) == snapshot("""\
invoke_agent a [timeout] !timeout
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [timeout] !timeout\
""")


def test_a_process_exit_by_hand():
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    agent = Agent(script(calls(("leave", {}, "c1"))), name="a", capabilities=[hand])

    @agent.tool_plain
    async def leave() -> str:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        asyncio.run(agent.run("go"))
    assert tree(seen.spans) == snapshot("""\
invoke_agent a [cancelled/process_exit]
  chat scripted [success]
  validate_tool leave [success]
  execute_tool leave [cancelled/process_exit]\
""")


class KeepsIt(WrapperCapability[None]):
    """Never asks what it wraps for the instance of a run."""

    async def for_run(self, ctx):
        return self


@pytest.mark.parametrize("way", ["run", "run_stream"])
async def test_within_a_wrapper_that_makes_no_instance_for_a_run_nothing_is_traced_and_all_goes_on(way):
    seen = Seen()
    hand = actionspan.capability(tracer_provider=seen.provider)
    agent = tooled(calls(("f", {"x": 1}, "c1")), "ok", capabilities=[KeepsIt(hand)])
    if way == "run":
        assert (await agent.run("go")).output == "ok"
    else:
        async with agent.run_stream("go") as result:
            assert await result.get_output() == "ok "
    assert seen.spans == ()

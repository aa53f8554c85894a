"""An aborted run stops for good, says so everywhere, and leaves a history that can be gone on from."""

from __future__ import annotations

import asyncio
import threading

import pytest
from controlled import Told, call, drive, until
from inline_snapshot import snapshot
from pydantic_ai import Agent, CancellationToken
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.result import FinalResult
from pydantic_ai.run import AgentRunResult
from pydantic_graph import End

from actionspan import ActionPolicy, guard
from actionspan.control import RunControl, RunState, TargetState
from actionspan.control._runs import RunIdentity
from actionspan.testing import capture

pytestmark = pytest.mark.anyio

OPEN = {"mode": "content", "policy": ActionPolicy.everything()}


async def test_aborted_after_a_tool_has_finished(control, build):
    ran: list[str] = []
    receipts = []

    def act() -> str:
        ran.append("act")
        receipts.append(control.abort("customer hung up"))
        return "acted"

    agent, told = build("act", "never", tools={"act": act})
    with capture(**OPEN) as seen, pytest.raises(RunCancelled) as caught:
        await agent.run("go")
    assert len(told.requests) == 1
    assert receipts[0].state is TargetState.DONE
    history = caught.value.all_messages()
    assert [part.part_kind for message in history for part in message.parts] == [
        "user-prompt",
        "tool-call",
        "tool-return",
    ]
    (status,) = control.status()
    assert (status.state, status.reason) == (RunState.ENDED, "customer hung up")
    assert control.reason_for(status.run_id) == "customer hung up"
    assert seen.tree("control_reason") == snapshot("""\
invoke_agent a [cancelled/aborted] control_reason=customer hung up
  chat scripted [success]
  validate_tool act [success]
  execute_tool act [success]
  control.abort [success/pending] control_reason=customer hung up\
""")
    (ended,) = [event for event in seen.records if event["kind"] == "agent.run.end"]
    assert ended["content"]["actionspan.control_reason"] == "customer hung up"

    told.lines.append("resumed")
    told.lines.remove("never")
    result = await agent.run(message_history=history)
    assert (result.output, ran) == ("resumed", ["act"])
    assert control.reason_for(result.run_id) is None
    assert control.reason_for("never seen") is None
    assert told.requests[1] == ["go", "call act", "acted"]


async def test_the_reason_is_content(control, build):
    agent, _ = build("act", "never", tools={"act": lambda: control.abort("secret reason") and "x"})
    with capture() as seen, pytest.raises(RunCancelled):
        await agent.run("go")
    assert "secret" not in repr(seen.records) + repr([span.attributes for span in seen.spans])


async def test_aborted_while_paused(control, build):
    agent, told = build("act", "never", tools={"act": lambda: control.pause() and "x"})
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await until(control, RunState.PAUSED)
        receipt = control.abort()
        assert control.abort().state is TargetState.UNCHANGED
        assert control.pause().state is TargetState.UNCHANGED
        assert control.resume().state is TargetState.UNCHANGED
        with pytest.raises(RunCancelled):
            await run
    assert (await receipt).state is TargetState.DONE
    assert len(told.requests) == 1
    assert "  control.wait [cancelled/aborted]" in seen.tree()


async def test_aborted_now_in_the_middle_of_a_tool(control, build, waiting):
    agent, told = build("wait", "never", tools={"wait": waiting})
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await waiting.started.wait()
        receipt = control.abort(now=True)
        with pytest.raises(RunCancelled):
            await run
    assert (receipt.state, waiting.ended, len(told.requests)) == (TargetState.DONE, 0, 1)
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/aborted]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/aborted]
  control.abort [success/pending]\
""")


@pytest.mark.parametrize("attached", ["to the process", "to the agent"])
async def test_at_whatever_moment_it_is_aborted_its_receipt_and_its_span_say_what_its_caller_gets(build, attached):
    """One step of the event loop later each time, from before the run is attached until after it has ended."""

    async def act() -> str:
        return "acted"

    came = {"returned": 0, "aborted": 0}
    steps = 0
    while True:
        steps += 1
        control = RunControl()
        to_agent = attached == "to the agent"
        agent, _ = build("act", "done", tools={"act": act}, capabilities=[control.capability()] if to_agent else [])
        with capture(control=None if to_agent else control) as seen:
            run = asyncio.create_task(agent.run("go"))
            for _ in range(steps):
                await asyncio.sleep(0)
            ended = run.done()
            receipt = control.abort("enough", now=True)
            try:
                await run
            except RunCancelled:
                came["aborted"] += 1
                assert (steps, receipt.state) == (steps, TargetState.DONE)
                (span,) = seen.named("invoke_agent a")
                assert (steps, span.attributes["actionspan.outcome_reason"]) == (steps, "aborted")
            else:
                came["returned"] += 1
                assert (steps, receipt.state) == (steps, TargetState.NO_MATCH)
        assert all(status.state is RunState.ENDED for status in control.status())
        if ended:
            break
    assert came["returned"] > 0
    assert came["aborted"] > 10


async def test_aborted_from_another_thread(control, build, waiting):
    agent, _ = build("wait", "never", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    thread = threading.Thread(target=lambda: control.abort(now=True))
    thread.start()
    with pytest.raises(RunCancelled):
        await run
    thread.join()


async def test_a_tool_in_a_thread_cannot_be_stopped_and_the_receipt_says_so(control, build):
    started, may_end = threading.Event(), threading.Event()

    def work() -> str:
        started.set()
        may_end.wait()
        return "dropped"

    agent, told = build("work", "never", tools={"work": work})
    run = asyncio.create_task(agent.run("go"))
    await asyncio.to_thread(started.wait)
    receipt = control.abort(now=True)
    may_end.set()
    with pytest.raises(RunCancelled):
        await run
    assert receipt.targets[0].note == snapshot(
        "1 synchronous tool(s) in a thread cannot be stopped: they finish, and their result is dropped"
    )
    assert len(told.requests) == 1


@pytest.mark.parametrize("way", ["run_stream", "run_stream_events", "iter"])
async def test_every_way_of_running_is_aborted(control, build, way):
    agent, told = build("act", "never", tools={"act": lambda: control.abort() and "x"})

    async def go() -> None:
        if way == "run_stream":
            async with agent.run_stream("go"):
                pass
        elif way == "run_stream_events":
            async with agent.run_stream_events("go") as events:
                async for _ in events:
                    pass
        else:
            async with agent.iter("go") as run:
                await drive(run)

    with pytest.raises(RunCancelled):
        await go()
    assert len(told.requests) == 1
    assert control.status()[0].state is RunState.ENDED


class Swallows(AbstractCapability):
    """Goes on whatever happens."""

    async def wrap_model_request(self, ctx, *, request_context, handler):
        return await self.swallow(handler(request_context), ModelResponse([TextPart("as if nothing had happened")]))

    async def wrap_node_run(self, ctx, *, node, handler):
        return await self.swallow(handler(node), End(FinalResult("as if nothing had happened")))

    async def wrap_run(self, ctx, *, handler):
        return await self.swallow(handler(), AgentRunResult("as if nothing had happened"))

    async def swallow(self, work, instead):
        try:
            return await work
        except BaseException:
            asyncio.current_task().uncancel()
            return instead


@pytest.mark.parametrize("now", [False, True])
async def test_a_capability_that_swallows_everything_cannot_undo_it(control, build, now):
    agent, told = build(
        "act",
        "never",
        tools={"act": lambda: control.abort(now=now) and "x"},
        capabilities=[Swallows(), control.capability(), Swallows()],
    )
    with pytest.raises(RunCancelled):
        await agent.run("go")
    assert len(told.requests) == 1


class SwallowsOnce(AbstractCapability):
    """Takes the cancellation that arrives in a step, and with it the only one there will be in that step."""

    async def before_node_run(self, ctx, *, node):
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        return node


async def test_an_abort_whose_cancellation_was_swallowed_still_stops_at_the_gate(control, build):
    agent, told = build("never", capabilities=[control.capability(), SwallowsOnce()])

    async def go() -> None:
        async with agent.iter("go") as run:
            node = await run.next(run.next_node)
            control.abort(now=True)
            await run.next(node)

    with pytest.raises(RunCancelled):
        await go()
    assert told.requests == []


class Answers(AbstractCapability):
    """Answers in the model's place."""

    async def wrap_model_request(self, ctx, *, request_context, handler):
        return ModelResponse([TextPart("from a cache")])


async def test_a_request_that_is_answered_without_the_model_passes_the_gate_too(control, build):
    agent, told = build("never", capabilities=[Answers(), control.capability()])

    async def go() -> None:
        async with agent.iter("go") as run:
            control.abort()
            await drive(run)

    with pytest.raises(RunCancelled) as caught:
        await go()
    assert "from a cache" not in repr(caught.value.all_messages())
    assert told.requests == []


async def test_a_cancellation_of_somebody_else_keeps_its_own_name(control, build, waiting):
    agent, _ = build("wait", "never", tools={"wait": waiting})
    token = CancellationToken()
    with capture() as seen:
        run = asyncio.create_task(agent.run("go", cancellation_token=token))
        await waiting.started.wait()
        token.cancel()
        with pytest.raises(RunCancelled):
            await run
    assert seen.tree().startswith("invoke_agent a [cancelled/run_cancelled]")


async def test_a_task_cancelled_while_the_run_is_held_stays_cancelled(control, build):
    agent, _ = build("act", "never", tools={"act": lambda: control.pause() and "x"})
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await until(control, RunState.PAUSED)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert "  control.wait [cancelled/task_cancelled]" in seen.tree()
    assert control.status()[0].state is RunState.ENDED


def nested(control, waiting) -> tuple[Agent, Told, Told]:
    """An agent whose tool asks another agent, whose tool waits."""
    told_inner = Told([call("wait"), "inner done"])
    inner = Agent(told_inner.model(), name="inner", capabilities=[control.capability()])
    inner.tool_plain(waiting.work, name="wait")
    told = Told([call("ask"), "outer done"])
    outer = Agent(told.model(), name="outer", capabilities=[control.capability()])

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("go")).output

    return outer, told, told_inner


@pytest.mark.parametrize("now", [False, True])
async def test_a_parents_abort_leaves_no_sub_agent_running(control, waiting, now):
    outer, told, told_inner = nested(control, waiting)
    with capture() as seen:
        run = asyncio.create_task(outer.run("go"))
        await waiting.started.wait()
        receipt = control.abort(agent_id="outer", now=now)
        waiting.may_end.set()
        with pytest.raises(RunCancelled):
            await run
    assert [target.agent_name for target in receipt.targets] == ["outer", "inner"]
    assert {status.state for status in control.status()} == {RunState.ENDED}
    assert (len(told.requests), len(told_inner.requests)) == (1, 1)
    assert seen.tree("agent.name").splitlines()[0] == "invoke_agent outer [cancelled/aborted] agent.name=outer"
    assert "    invoke_agent inner [cancelled/aborted]" in seen.tree()


async def test_a_sub_agents_abort_leaves_its_parent_going(control, waiting):
    outer, told, _ = nested(control, waiting)
    with capture() as seen:
        run = asyncio.create_task(outer.run("go"))
        await waiting.started.wait()
        inner = next(status for status in control.status() if status.agent_name == "inner")
        assert inner.inside == next(status.run for status in control.status() if status.agent_name == "outer")
        control.abort("enough", agent_id=inner.run_action_id)
        waiting.may_end.set()
        assert (await run).output == "outer done"
    assert len(told.requests) == 2
    assert seen.tree() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [cancelled/aborted]
    invoke_agent inner [cancelled/aborted]
      chat scripted [success]
      validate_tool wait [success]
      execute_tool wait [success]
      control.abort [success/pending]
  chat scripted [success]\
""")


async def test_a_run_started_inside_one_that_is_being_aborted_does_not_start(control):
    told_inner = Told(["never"])
    inner = Agent(told_inner.model(), name="inner", capabilities=[control.capability()])
    outer = Agent(Told([call("ask"), "never"]).model(), name="outer", capabilities=[control.capability()])

    @outer.tool_plain
    async def ask() -> str:
        control.abort("all of it")
        return (await inner.run("go")).output

    with pytest.raises(RunCancelled):
        await outer.run("go")
    assert told_inner.requests == []
    assert [status.reason for status in control.status()] == ["all of it"] * 2


def test_who_is_cancelled_before_the_verb_is_through_still_hears_that_it_was_aborted(control):
    """Another thread's abort cancels the run, whose loop may be faster than that thread."""
    heard: list[bool] = []

    class Port:
        def cancel(self) -> None:
            loop.start()
            loop.join(0.1)  # it can only have ended by then if it did not wait for the verb

        def tools_in_threads(self) -> int:
            return 0

    run = control.attach(RunIdentity("support", "r"), Port())
    loop = threading.Thread(target=lambda: heard.append(run.aborted))
    control.abort("customer hung up", now=True)
    loop.join()
    control.detach(run, cancelled=True)
    assert heard == [True]


async def test_an_abort_that_waits_for_a_boundary_can_still_be_made_at_once(control, build, waiting):
    agent, _ = build("wait", "never", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipts = [control.abort("first"), control.abort("second", now=True)]
    with pytest.raises(RunCancelled):
        await run
    assert [receipt.state for receipt in receipts] == [TargetState.DONE] * 2
    assert waiting.ended == 0
    assert control.status()[0].reason == "first"


def cannot_be_cancelled(stage: str) -> None:
    if stage == "control.cancel":
        raise LookupError("boom")


@pytest.mark.contained
async def test_a_run_that_cannot_be_cancelled_at_once_stops_at_its_next_boundary(control, build, waiting):
    agent, told = build("wait", "never", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    with guard.inject(cannot_be_cancelled):
        receipt = control.abort(now=True)
    assert receipt.state is TargetState.PENDING
    assert receipt.targets[0].note == "it could not be cancelled from here: it stops at its next boundary"
    waiting.may_end.set()
    with pytest.raises(RunCancelled):
        await run
    assert (receipt.state, waiting.ended, len(told.requests)) == (TargetState.DONE, 1, 1)


@pytest.mark.contained
async def test_a_run_that_cannot_be_cancelled_at_all_goes_on_and_the_receipt_says_so(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipt = control.abort()
    with guard.inject(cannot_be_cancelled):
        waiting.may_end.set()
        assert (await run).output == "done"
    assert (receipt.state, control.status()[0].state) == (TargetState.FAILED, RunState.ENDED)


async def test_a_task_cancelled_while_a_run_is_held_that_is_not_traced(control, build):
    agent, told = build("act", "never", tools={"act": lambda: control.pause() and "x"})
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (len(told.requests), control.status()[0].state) == (1, RunState.ENDED)

"""Directives reach the model in order, each exactly once, or the receipt says that they did not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from controlled import drive, until
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.usage import UsageLimits

from actionspan import ActionPolicy, guard
from actionspan.control import RunState, TargetState
from actionspan.testing import capture

pytestmark = pytest.mark.anyio


async def test_a_directive_during_the_final_call_gives_one_more_request(control, build):
    agent, told = build("first answer", "second answer")
    receipts = []
    told.asked = lambda number: receipts.append(control.steer("in French")) if number == 1 else None
    result = await agent.run("go")
    assert result.output == "second answer"
    assert told.requests == [["go"], ["go", "answer first answer", "in French"]]
    assert (receipts[0].state, receipts[0].targets[0].step) == (TargetState.DONE, 2)


async def test_a_low_one_waits_until_the_run_would_end(control, build):
    def f() -> str:
        control.steer("whenever", priority="low")
        control.steer("soon")
        return "x"

    agent, told = build("f", "answer", "after all", tools={"f": f})
    assert (await agent.run("go")).output == "after all"
    assert told.requests[1][-2:] == ["x", "soon"]
    assert told.requests[2][-2:] == ["answer answer", "whenever"]


async def test_in_the_final_step_of_a_stream_it_is_not_consumed(control, build):
    agent, told = build("the answer")
    receipts = []
    told.asked = lambda number: receipts.extend([control.steer("too late"), control.steer("later still")])
    with capture() as seen:
        async with agent.run_stream("go") as result:
            assert await result.get_output() == "the answer"
    assert len(told.requests) == 1
    assert "late" not in repr(result.all_messages())
    assert seen.tree().startswith("invoke_agent a [success]")
    assert [receipt.state for receipt in receipts] == [TargetState.NOT_CONSUMED] * 2
    settled = [event for event in seen.records if event["kind"] == "control.steer.settled"]
    assert [(event["call_id"], event["state"]) for event in settled] == [
        (receipt.call_id, "not_consumed") for receipt in receipts
    ]


async def test_after_the_end_it_is_not_consumed(control, build):
    agent, _ = build("done")
    with capture() as seen:
        await agent.run("go")
        run_id = control.status()[0].run_id
        assert control.steer("too late", run_id).state is TargetState.NOT_CONSUMED
    (event,) = [event for event in seen.records if event["kind"].startswith("control.steer")]
    assert (event["outcome"], event["outcome_reason"]) == ("cancelled", "not_consumed")


async def test_a_run_that_waits_for_others_does_not_consume_it(control, build):
    receipts = []

    def later() -> str:
        receipts.append(control.steer("not now"))
        raise CallDeferred

    agent, told = build("later", tools={"later": later}, output_type=[str, DeferredToolRequests])
    assert isinstance((await agent.run("go")).output, DeferredToolRequests)
    assert receipts[0].state is TargetState.NOT_CONSUMED
    assert len(told.requests) == 1


async def test_five_hundred_from_ten_threads_none_lost_none_doubled(control, build):
    # Each that comes when the run would have ended makes for one more request.
    agent, told = build("f", *["done"] * 501, tools={"f": lambda: control.pause() and "x"})
    run = asyncio.create_task(agent.run("go", usage_limits=UsageLimits(request_limit=None)))
    await until(control, RunState.PAUSED)
    barrier = threading.Barrier(11)
    receipts = []

    def steer(thread: int) -> None:
        barrier.wait()
        for number in range(50):
            receipts.append(control.steer(f"{thread}.{number}"))

    threads = [threading.Thread(target=steer, args=(thread,)) for thread in range(10)]
    for thread in threads:
        thread.start()
    barrier.wait()
    control.resume()  # the run takes some while others still come
    await run
    for thread in threads:
        await asyncio.to_thread(thread.join)
    taken = [text for text in told.requests[-1] if "." in text]
    refused = [receipt for receipt in receipts if receipt.state is not TargetState.DONE]
    assert len(receipts) == 500
    assert len(set(taken)) == len(taken) == 500 - len(refused)
    assert {receipt.state for receipt in refused} <= {TargetState.NOT_CONSUMED, TargetState.NO_MATCH}
    for thread in range(10):
        mine = [text for text in taken if text.startswith(f"{thread}.")]
        assert mine == sorted(mine, key=lambda text: int(text.split(".")[1]))


async def test_draining_takes_what_the_run_would_have_taken(control, build, waiting):
    agent, told = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipts = [control.steer("low", priority="low"), control.steer("normal"), control.steer("high", priority="high")]
    drained = control.drain_steering("a")
    assert (drained.state, drained.directives) == (TargetState.DONE, ("high", "normal", "low"))
    assert drained.as_dict()["directives"] == ["high", "normal", "low"]
    assert {receipt.state for receipt in receipts} == {TargetState.NOT_CONSUMED}
    assert control.drain_steering().state is TargetState.UNCHANGED
    waiting.may_end.set()
    await run
    assert told.requests[1][-1] == "tool result"


async def test_it_reaches_a_sub_agent_by_name(control, build):
    inner, told_inner = build("inner answer", name="inner")

    async def ask() -> str:
        async with inner.iter("go") as run:
            control.steer("be brief", agent_id="inner")
            await drive(run)
            return run.result.output

    outer, told = build("ask", "outer answer", name="outer", tools={"ask": ask})
    await outer.run("go")
    assert told_inner.requests == [["go", "be brief"]]
    assert told.requests[1] == ["go", "call ask", "inner answer"]


async def test_a_directive_is_content(control, build):
    agent, _ = build("done", "done")
    for policy, shown in ((ActionPolicy(), False), (ActionPolicy(include_model_requests=True), True)):
        with capture(mode="content", policy=policy) as seen:
            async with agent.iter("go") as run:
                control.steer("secret words")
                await drive(run)
        said = repr([event for event in seen.records if event["kind"].startswith("control.")])
        assert ("secret" in said) is shown


@pytest.mark.parametrize(("directive", "priority"), [("x", "urgent"), ("", "high"), ("  ", "low"), (None, "low")])
def test_wrong_arguments(control, directive, priority):
    with pytest.raises(ValueError, match=r"priority=|a directive is text"):
        control.steer(directive, priority=priority)


async def test_an_agent_without_a_name(control, build):
    agent = Agent(build("done")[0].model, capabilities=[control.capability()])
    async with agent.iter("go") as run:
        run_id = control.status()[0].run_id
        assert control.steer("x", run_id).targets[0].run_id == run_id
        await drive(run)


async def test_directives_that_came_back_with_a_checkpoint_can_be_drained(control, build):
    """Their receipts said long ago that a request took them."""
    agent, told = build(
        "f", "g", "done", tools={"f": lambda: control.pause() and "x", "g": lambda: control.pause() and "y"}
    )
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    receipt = control.steer("said once")
    saved = control.checkpoint()
    control.resume()
    await until(control, RunState.PAUSED)
    control.restore_checkpoint(saved.id)
    assert control.drain_steering().directives == ("said once",)
    control.resume()
    await run
    assert (receipt.state, receipt.targets[0].step) == (TargetState.DONE, 2)
    assert [request[-1] for request in told.requests] == ["go", "said once", "x"]


async def test_directives_that_came_back_are_gone_with_a_run_that_is_aborted(control, build):
    agent, _ = build("f", "done", tools={"f": lambda: control.pause() and "x"})
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    control.steer("said once")
    saved = control.checkpoint()
    assert control.drain_steering().directives == ("said once",)
    control.restore_checkpoint(saved.id)
    events = control.events()
    aborted = control.abort()
    with pytest.raises(RunCancelled):
        await run
    control.close()
    assert [event.kind async for event in events] == ["aborting", "abort", "settled", "ended"]
    assert aborted.state is TargetState.DONE
    assert control.status()[0].queued == 0


@pytest.mark.contained
@pytest.mark.parametrize("priority", ["high", "low"])
async def test_a_directive_that_cannot_be_handed_over_has_failed_and_the_run_goes_on(control, build, priority):
    def fault(stage: str) -> None:
        if stage == "control.enqueue":
            raise LookupError("boom")

    agent, told = build("done")
    async with agent.iter("go") as run:
        receipt = control.steer("never", priority=priority)
        with guard.inject(fault):
            await drive(run)
    assert told.requests == [["go"]]
    assert receipt.state is TargetState.FAILED
    assert receipt.targets[0].note == "a failure of run control itself; the run goes on"


@pytest.mark.contained
async def test_one_that_came_back_and_cannot_be_handed_over_leaves_the_run_going(control, build):
    def fault(stage: str) -> None:
        if stage == "control.enqueue":
            raise LookupError("boom")

    agent, told = build("f", "done", tools={"f": lambda: control.pause() and "x"})
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    receipt = control.steer("said once")
    saved = control.checkpoint()
    control.drain_steering()
    control.restore_checkpoint(saved.id)
    with guard.inject(fault):
        control.resume()
        assert (await run).output == "done"
    assert told.requests[1] == ["go", "call f", "x"]
    assert receipt.state is TargetState.NOT_CONSUMED

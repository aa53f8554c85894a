"""Every way a run is stopped has its own outcome, one span each, and changes nothing outside."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent, CancellationToken, RunContext
from pydantic_ai.exceptions import RunCancelled, RunTimedOut

from actionspan.testing import capture
from deadlines import A_DAY, expired, within_a_day
from scripted import calls, script

pytestmark = pytest.mark.anyio

T = TypeVar("T")


def waiting_agent(**options) -> tuple[Agent, asyncio.Event]:
    """An agent whose tool says that it has started and then waits for ever."""
    agent = Agent(script(calls(("wait", {}, "c1"))), name="a", **options)
    started = asyncio.Event()

    @agent.tool_plain
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    return agent, started


async def beside_a_failing_sibling(run: Callable[[], Awaitable[T]], started: asyncio.Event) -> None:
    """Start a run in a task group that then fails."""
    async with asyncio.TaskGroup() as group:
        group.create_task(run())
        await started.wait()
        raise ValueError("sibling")


async def test_run_timeout_is_on_the_run_and_on_the_tool_it_interrupted():
    agent, started = waiting_agent()
    with capture() as seen, pytest.raises(RunTimedOut):
        await expired(agent.run("go", timeout=A_DAY), started.is_set)
    assert seen.tree() == snapshot("""\
invoke_agent a [timeout] !timeout
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [timeout] !timeout\
""")


async def test_a_cancellation_token():
    agent, started = waiting_agent()
    token = CancellationToken()
    with capture() as seen:
        run = asyncio.create_task(agent.run("go", cancellation_token=token))
        await started.wait()
        token.cancel()
        with pytest.raises(RunCancelled):
            await run
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/run_cancelled]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/run_cancelled]\
""")


async def test_a_tool_that_cancels_its_run():
    agent = Agent(script(calls(("stop", {}, "c1"))), name="a")

    @agent.tool
    async def stop(ctx: RunContext[None]) -> str:
        ctx.cancel()
        await asyncio.Event().wait()
        return "never"

    with capture() as seen, pytest.raises(RunCancelled):
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/run_cancelled]
  chat scripted [success]
  validate_tool stop [success]
  execute_tool stop [cancelled/run_cancelled]\
""")


@pytest.mark.parametrize("how", ["task", "timeout", "group"])
async def test_a_task_cancelled_from_outside(how: str):
    agent, started = waiting_agent()
    with capture() as seen:
        if how == "task":
            run = asyncio.create_task(agent.run("go"))
            await started.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                await expired(within_a_day(agent.run("go")), started.is_set)
        else:
            with pytest.raises(ExceptionGroup):
                await beside_a_failing_sibling(lambda: agent.run("go"), started)
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/task_cancelled]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/task_cancelled]\
""")


async def test_the_consumer_breaks_out_of_iter():
    agent = Agent(script(calls(("f", {}, "c1"))), name="a")
    agent.tool_plain(lambda: 1, name="f")
    with capture() as seen:
        async with agent.iter("go") as run:
            async for node in run:
                if Agent.is_call_tools_node(node):
                    break
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/abandoned]
  chat scripted [success]
  execute_tool f [cancelled/not_executed]\
""")


async def test_a_stream_closed_early():
    with capture() as seen:
        async with Agent(script("one two three"), name="a").run_stream("go") as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                break
    assert seen.tree("incomplete") == snapshot("""\
invoke_agent a [cancelled/abandoned]
  chat scripted [cancelled/abandoned] incomplete=True\
""")


async def test_events_closed_early():
    with capture() as seen:
        async with Agent(script("one two three"), name="a").run_stream_events("go") as events:
            async for _ in events:
                break
    assert seen.tree("incomplete") == snapshot("""\
invoke_agent a [cancelled/abandoned]
  chat scripted [cancelled/abandoned] incomplete=True\
""")


async def test_events_whose_consumer_is_cancelled():
    agent, started = waiting_agent()

    async def consume() -> None:
        async with agent.run_stream_events("go") as events:
            async for _ in events:
                pass

    with capture() as seen:
        consumer = asyncio.create_task(consume())
        await started.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/task_cancelled]
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [cancelled/task_cancelled]\
""")


async def test_a_stream_never_consumed():
    with capture() as seen:
        async with Agent(script("one two three"), name="a").run_stream("go"):
            pass
    assert seen.tree("incomplete") == snapshot("""\
invoke_agent a [cancelled/abandoned]
  chat scripted [cancelled/abandoned] incomplete=True\
""")


def drop_a_run() -> tuple[list[str], object]:
    """Enter a run and drop it without leaving it, in a loop of its own; returns what the loop complained of."""
    complaints: list[str] = []

    async def drop() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        manager = Agent(script("one"), name="a").iter("go")
        await manager.__aenter__()
        del manager
        gc.collect()
        for _ in range(20):  # the loop finalises the generator in tasks of its own
            await asyncio.sleep(0)

    try:
        asyncio.run(drop())
    except BaseException as error:
        return complaints, type(error)
    return complaints, None


def test_a_run_dropped_and_collected_is_abandoned_and_no_noisier_than_without_us():
    without = drop_a_run()
    with capture() as seen:
        assert drop_a_run() == without
    assert seen.tree() == snapshot("invoke_agent a [cancelled/abandoned]")


async def test_a_sub_agent_interrupted_by_its_parents_timeout():
    inner, started = waiting_agent()
    outer = Agent(script(calls(("ask", {}, "c1"))), name="outer")

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("go")).output

    with capture() as seen, pytest.raises(RunTimedOut):
        await expired(outer.run("go", timeout=A_DAY), started.is_set)
    assert seen.tree() == snapshot("""\
invoke_agent outer [timeout] !timeout
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [timeout] !timeout
    invoke_agent a [timeout] !timeout
      chat scripted [success]
      validate_tool wait [success]
      execute_tool wait [timeout] !timeout\
""")


async def test_a_sub_agent_whose_cancellation_the_tool_survives():
    inner, started = waiting_agent()
    outer = Agent(script(calls(("ask", {}, "c1")), "done"), name="outer")

    @outer.tool_plain
    async def ask() -> str:
        try:
            return (await expired(within_a_day(inner.run("go")), started.is_set)).output
        except TimeoutError:
            return "too slow"

    with capture() as seen:
        await outer.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent a [cancelled/task_cancelled]
      chat scripted [success]
      validate_tool wait [success]
      execute_tool wait [cancelled/task_cancelled]
  chat scripted [success]\
""")


async def test_a_sub_agent_that_cancels_itself_leaves_its_parent_going():
    inner = Agent(script(calls(("stop", {}, "s1"))), name="inner")

    @inner.tool
    async def stop(ctx: RunContext[None]) -> str:
        ctx.cancel()
        await asyncio.Event().wait()
        return "never"

    outer = Agent(script(calls(("ask", {}, "c1")), "done"), name="outer")

    @outer.tool_plain
    async def ask() -> str:
        return (await inner.run("go")).output

    with capture() as seen:
        await outer.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [cancelled/run_cancelled]
    invoke_agent inner [cancelled/run_cancelled]
      chat scripted [success]
      validate_tool stop [success]
      execute_tool stop [cancelled/run_cancelled]
  chat scripted [success]\
""")

"""What happens while a run is under way: instrumented and uninstrumented, many at once, parents that cancel."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from pydantic_ai import Agent

from actionspan import ActionPolicy, PydanticAIInstrumentor
from actionspan.testing import capture
from faults.test_raising_parts import THE_FAILURE, THE_OUTPUT, Failure, Way, in_every_way
from scripted import calls, script

EVERYTHING = {"mode": "content", "policy": ActionPolicy.everything()}


def agent(deed: Callable[[], object], fails: bool = False) -> Agent[None, Any]:
    """Does `deed` in a tool, runs a sub-agent, and ends with the very object that the application has."""
    inner = Agent(script("inner"), name="inner")

    def finish(text: str) -> str:
        if fails:
            raise THE_FAILURE
        return THE_OUTPUT

    made = Agent(
        script(calls(("act", {}, "c1")), calls(("final_result", {"text": "done"}, "c2"))),
        name="outer",
        output_type=finish,
    )

    @made.tool_plain
    async def act() -> str:
        deed()
        return (await inner.run("go")).output

    return made


async def check_unharmed(way: Way, deed: Callable[[], object]) -> None:
    assert await way(agent(deed)) is THE_OUTPUT
    with pytest.raises(Failure) as caught:
        await way(agent(deed, fails=True))
    assert caught.value is THE_FAILURE


@in_every_way
def test_uninstrumented_in_mid_run(way: Way):
    """The application sees nothing; what had begun is finished, and what begins in that run is still its child."""
    with capture(**EVERYTHING) as seen:
        asyncio.run(check_unharmed(way, PydanticAIInstrumentor().uninstrument))
    assert {span.name for span in seen.spans} >= {"invoke_agent outer", "execute_tool act"}
    (run,) = seen.named("invoke_agent outer")
    assert run.attributes["actionspan.outcome"] == "success"


@in_every_way
def test_instrumented_in_mid_run(way: Way):
    """The application sees nothing; the run under way stays untraced, what it starts afterwards is traced."""
    with capture(**EVERYTHING) as seen:
        arguments = {"tracer_provider": seen.tracer_provider, **EVERYTHING}
        PydanticAIInstrumentor().uninstrument()
        asyncio.run(check_unharmed(way, lambda: PydanticAIInstrumentor().instrument(**arguments)))
    names = Counter(span.name for span in seen.spans)
    assert names["invoke_agent inner"] == 2
    assert names["invoke_agent outer"] == 1  # the second, which began instrumented


@in_every_way
def test_instrumented_again_and_again_in_mid_run(way: Way):
    """The application sees nothing, and no action is traced twice."""

    def again() -> None:
        PydanticAIInstrumentor().uninstrument()
        PydanticAIInstrumentor().instrument(tracer_provider=seen.tracer_provider, **EVERYTHING)

    with capture(**EVERYTHING) as seen:
        asyncio.run(check_unharmed(way, again))
    names = Counter(span.name for span in seen.spans)
    assert (names["invoke_agent outer"], names["execute_tool act"], names["invoke_agent inner"]) == (2, 2, 2)


def test_concurrent_runs_on_one_agent_in_threads():
    """Each thread gets its own answer; each run is a trace of its own, with nothing of another's in it."""
    together = Barrier(4)
    shared = Agent(script(*[calls(("act", {}, "c1"))] * 4, *["done"] * 4), name="shared")

    @shared.tool_plain
    def act() -> str:
        together.wait()
        return "acted"

    with capture(**EVERYTHING) as seen, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: asyncio.run(shared.run("go")).output, range(4)))
    assert answers == ["done"] * 4
    one_run = "\n".join(
        [
            "invoke_agent shared [success]",
            "  chat scripted [success]",
            "  validate_tool act [success]",
            "  execute_tool act [success]",
            "  chat scripted [success]",
        ]
    )
    assert seen.tree().split("\n\n") == [one_run] * 4


def told(error: BaseException) -> tuple[type[BaseException], str]:
    """What the exception is and says, without the addresses in what a cancel scope says."""
    return type(error), str(error).partition(" scope ")[0]


async def cancelled_by_its_parent() -> tuple[Any, ...]:
    """A tool that gives its sub-agent up: what the sub-agent's tool, the parent's tool and the caller see of it."""
    started, saw = asyncio.Event(), dict[str, BaseException]()
    inner, outer = (
        Agent(script(calls(("wait", {}, "i1"))), name="inner"),
        Agent(script(calls(("ask", {}, "c1")), "done"), name="outer"),
    )

    @inner.tool_plain
    async def wait() -> str:
        started.set()
        try:
            return str(await asyncio.Event().wait())
        except asyncio.CancelledError as error:
            saw["sub-agent's tool"] = error
            raise

    @outer.tool_plain
    async def ask() -> str:
        run = asyncio.ensure_future(inner.run("go"))
        await started.wait()
        run.cancel("too slow")
        try:
            return (await run).output
        except asyncio.CancelledError as error:
            saw["parent's tool"] = error
            return "went without"

    output = (await outer.run("go")).output
    return output, {where: told(error) for where, error in saw.items()}


def test_a_sub_agent_cancelled_by_its_parent():
    """Everybody sees the cancellation that there would have been; the sub-agent is cancelled, its parent a success."""
    without = asyncio.run(cancelled_by_its_parent())
    assert without[0] == "done"
    with capture(**EVERYTHING) as seen:
        assert asyncio.run(cancelled_by_its_parent()) == without
    outcomes = {span.name: span.attributes["actionspan.outcome"] for span in seen.spans}
    assert outcomes == {
        "invoke_agent outer": "success",
        "chat scripted": "success",
        "validate_tool ask": "success",
        "execute_tool ask": "success",
        "invoke_agent inner": "cancelled",
        "validate_tool wait": "success",
        "execute_tool wait": "cancelled",
    }


async def cancelled_with_its_parent() -> tuple[Any, ...]:
    """The task of a run is cancelled while its sub-agent waits: whether one exception passes from the tool outwards."""
    started, saw = asyncio.Event(), list[BaseException]()
    inner, outer = (
        Agent(script(calls(("wait", {}, "i1"))), name="inner"),
        Agent(script(calls(("ask", {}, "c1"))), name="outer"),
    )

    @inner.tool_plain
    async def wait() -> str:
        started.set()
        return str(await asyncio.Event().wait())

    @outer.tool_plain
    async def ask() -> str:
        try:
            return (await inner.run("go")).output
        except asyncio.CancelledError as error:
            saw.append(error)
            raise

    async def call() -> object:
        try:
            return await outer.run("go")
        except asyncio.CancelledError as error:
            saw.append(error)
            raise

    task = asyncio.ensure_future(call())
    await started.wait()
    task.cancel("enough")
    await asyncio.gather(task, return_exceptions=True)
    return task.cancelled(), saw[0] is saw[1], [told(error) for error in saw]


def test_a_sub_agent_cancelled_with_its_parent():
    """The caller sees the cancellation that it would have seen; every run and tool of it is cancelled."""
    without = asyncio.run(cancelled_with_its_parent())
    assert without[0] is True
    with capture(**EVERYTHING) as seen:
        assert asyncio.run(cancelled_with_its_parent()) == without
    assert seen.tree() == "\n".join(
        [
            "invoke_agent outer [cancelled/task_cancelled]",
            "  chat scripted [success]",
            "  validate_tool ask [success]",
            "  execute_tool ask [cancelled/task_cancelled]",
            "    invoke_agent inner [cancelled/task_cancelled]",
            "      chat scripted [success]",
            "      validate_tool wait [success]",
            "      execute_tool wait [cancelled/task_cancelled]",
        ]
    )

"""Once a run is over, nothing of it is held here: not the agent, not what was raised in it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import types
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic_ai import Agent

from actionspan import guard
from actionspan.pydantic_ai.capability import SessionCapability
from actionspan.testing import capture
from scripted import calls, script

Way = Callable[[Agent[None, Any]], Awaitable[object]]


class Failure(Exception):
    """What a tool raises here."""


async def _run(agent: Agent[None, Any]) -> object:
    return (await agent.run("go")).output


async def _run_stream(agent: Agent[None, Any]) -> object:
    async with agent.run_stream("go") as result:
        return await result.get_output()


async def _iter(agent: Agent[None, Any]) -> object:
    async with agent.iter("go") as run:
        return [node async for node in run]


async def _events(agent: Agent[None, Any]) -> object:
    async with agent.run_stream_events("go") as events:
        return [event async for event in events]


async def _first_event(agent: Agent[None, Any]) -> object:
    async with agent.run_stream_events("go") as events:
        return await anext(events)


def agent(deed: str, stuck: asyncio.Event) -> Agent[None, Any]:
    made = Agent(script(calls(("act", {}, "c1")), "done"), name="outer")

    @made.tool_plain
    async def act() -> str:
        if deed == "fails":
            raise Failure
        if deed == "is cancelled":
            stuck.set()
            await asyncio.Event().wait()
        return "acted"

    return made


async def play(way: Way, deed: str) -> weakref.ref[Any]:
    """Run an agent to its end, whatever that is; what is left is a reference that does not hold it."""
    stuck = asyncio.Event()
    made = agent(deed, stuck)
    task = asyncio.ensure_future(way(made))
    if deed == "is cancelled":
        await asyncio.wait([task, asyncio.ensure_future(stuck.wait())], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return weakref.ref(made)


@pytest.mark.parametrize("deed", ["acts", "fails", "is cancelled"])
@pytest.mark.parametrize("way", [_run, _run_stream, _iter, _events, _first_event], ids=lambda way: way.__name__[1:])
def test_a_run_that_is_over_is_not_held(way: Way, deed: str):
    with capture(mode="content") as seen:
        left = asyncio.run(play(way, deed))
        while left() is not None and gc.collect():  # what has a finalizer takes more than one, without us as well
            pass
        assert left() is None
        assert seen.spans


@types.coroutine
def _for_ever() -> Any:
    yield


@pytest.mark.contained
@pytest.mark.parametrize("hook", ["wrap_run", "wrap_tool_execute"])
def test_who_closes_a_run_from_another_context_gets_no_error_of_ours(hook: str, monkeypatch: pytest.MonkeyPatch):
    """As the garbage collector does with a task that was never finished."""
    hooks: list[Any] = []
    original = getattr(SessionCapability, hook)

    async def kept(self: Any, ctx: Any, **arguments: Any) -> Any:
        handler = arguments.pop("handler")
        hooks.append(original(self, ctx, **arguments, handler=lambda *_: _for_ever()))
        return await handler(*(arguments[name] for name in ("args",) if name in arguments))

    monkeypatch.setattr(SessionCapability, hook, kept)
    with capture():
        asyncio.run(_run(agent("acts", asyncio.Event())))
        (work,) = hooks
        before = guard.failures["context"]
        contextvars.copy_context().run(work.send, None)
        contextvars.copy_context().run(work.close)
    assert guard.failures["context"] > before

"""Another instrumentation that wrapped the same function, before us or after us, keeps working and keeps its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import wrapt
from pydantic_ai import Agent

from actionspan.pydantic_ai.attach import _PATCHES
from actionspan.pydantic_ai.wrapping import has_ours
from actionspan.testing import capture
from scripted import script

pytestmark = pytest.mark.anyio


@pytest.fixture
def original() -> Iterator[object]:
    original = Agent.__dict__["iter"]
    yield original
    Agent.iter = original


def wrap_also(seen: list[str]) -> object:
    def theirs(wrapped, instance, args, kwargs):
        seen.append("theirs")
        return wrapped(*args, **kwargs)

    wrapt.wrap_function_wrapper(Agent, "iter", theirs)
    return Agent.__dict__["iter"]


async def test_one_that_was_there_before(original):
    calls: list[str] = []
    theirs = wrap_also(calls)
    with capture() as seen:
        await Agent(script("ok"), name="a").run("go")
    assert len(seen.named("invoke_agent a")) == len(calls) == 1
    assert Agent.__dict__["iter"] is theirs


async def test_one_that_came_after(original):
    calls: list[str] = []
    with capture() as seen:
        theirs = wrap_also(calls)
        await Agent(script("ok"), name="a").run("go")
    assert len(seen.named("invoke_agent a")) == len(calls) == 1
    assert Agent.__dict__["iter"] is theirs
    with capture() as again:
        await Agent(script("ok"), name="a").run("go")
    assert len(again.named("invoke_agent a")) == 1


def test_every_function_is_patched_while_instrumented_and_then_given_back_itself():
    """Also the first time in a process: what an earlier test left patched would pass for the original."""
    places = [(owner, name) for owner, name, _ in _PATCHES]
    before = [owner.__dict__[name] for owner, name in places]
    assert not any(has_ours(function) for function in before)
    with capture():
        during = [owner.__dict__[name] for owner, name in places]
        assert all(has_ours(function) for function in during)
    after = [owner.__dict__[name] for owner, name in places]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True] * len(places)

"""One patch covers every way of running an agent, and none is seen twice."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
from inline_snapshot import snapshot
from opentelemetry import trace
from pydantic_ai import Agent, Embedder, RunContext
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.embeddings import TestEmbeddingModel
from pydantic_ai.models.test import TestModel

from actionspan import PydanticAIInstrumentor
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio

ONE_RUN = snapshot("""\
invoke_agent a [success]
  chat scripted [success]\
""")


async def test_run():
    with capture() as seen:
        await Agent(script("hi"), name="a").run("go")
    assert seen.tree() == ONE_RUN


def test_run_sync():
    with capture() as seen:
        Agent(script("hi"), name="a").run_sync("go")
    assert seen.tree() == ONE_RUN


async def test_run_stream():
    with capture() as seen:
        async with Agent(script("hi there"), name="a").run_stream("go") as result:
            await result.get_output()
    assert seen.tree() == ONE_RUN


def test_run_stream_sync():
    with capture() as seen, Agent(script("hi there"), name="a").run_stream_sync("go") as result:
        result.get_output()
    assert seen.tree() == ONE_RUN


async def test_run_stream_events():
    with capture() as seen:
        async with Agent(script("hi there"), name="a").run_stream_events("go") as events:
            async for _ in events:
                pass
    assert seen.tree() == ONE_RUN


async def test_iter():
    with capture() as seen:
        async with Agent(script("hi"), name="a").iter("go") as run:
            async for _ in run:
                pass
    assert seen.tree() == ONE_RUN


@pytest.mark.parametrize("streamed", [False, True])
async def test_two_runs_taken_in_turns_by_one_task(streamed):
    embedder = Embedder(TestEmbeddingModel())

    def agent(name: str) -> Agent:
        agent = Agent(script(calls(("look", {}, "c1")), "ok"), name=name)

        @agent.tool_plain
        async def look() -> str:
            await embedder.embed_query("tea")
            return "seen"

        return agent

    with capture() as seen:
        async with agent("first").iter("go") as first, agent("second").iter("go") as second:
            turns = [aiter(first), aiter(second)]
            while turns:
                run = turns.pop(0)
                node = await anext(run, None)
                if node is not None:
                    turns.append(run)
                if streamed and Agent.is_call_tools_node(node):
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
    assert seen.tree("agent.name") == snapshot("""\
invoke_agent first [success] agent.name=first
  invoke_agent second [success] agent.name=second
    chat scripted [success] agent.name=second
    validate_tool look [success] agent.name=second
    execute_tool look [success] agent.name=second
      embeddings test [success] agent.name=second
    chat scripted [success] agent.name=second
  chat scripted [success] agent.name=first
  validate_tool look [success] agent.name=first
  execute_tool look [success] agent.name=first
    embeddings test [success] agent.name=first
  chat scripted [success] agent.name=first\
""")


async def test_a_wrapper_agent_and_an_overridden_model():
    agent = Agent(script(), name="a")
    with capture() as seen, agent.override(model=script("hi")):
        await WrapperAgent(agent).run("go")
    assert seen.tree() == ONE_RUN


async def test_an_agent_built_before_instrumenting_and_one_built_after():
    before = Agent(script("hi"), name="before")
    with capture() as seen:
        await before.run("go")
        await Agent(script("hi"), name="after").run("go")
    assert seen.tree() == snapshot("""\
invoke_agent before [success]
  chat scripted [success]

invoke_agent after [success]
  chat scripted [success]\
""")


async def test_a_nested_agent_is_a_child_of_the_tool_that_ran_it():
    inner = Agent(script("in"), name="inner")
    outer = Agent(script(calls(("ask", {}, "c1")), "out"), name="outer")

    @outer.tool
    async def ask(ctx: RunContext[None]) -> str:
        return (await inner.run("go", usage=ctx.usage)).output

    with capture() as seen:
        await outer.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent inner [success]
      chat scripted [success]
  chat scripted [success]\
""")
    runs = {span.name: span for span in seen.spans if span.name.startswith("invoke_agent")}
    assert (
        runs["invoke_agent inner"].attributes["actionspan.run_action_id"]
        != runs["invoke_agent outer"].attributes["actionspan.run_action_id"]
    )


async def test_concurrent_runs_on_one_agent_keep_apart():
    agent = Agent(TestModel(), name="a")
    both = asyncio.Barrier(2)

    @agent.tool_plain
    async def meet() -> str:
        await both.wait()
        return "met"

    with capture() as seen:
        await asyncio.gather(agent.run("one"), agent.run("two"))
    one_run = "\n".join(
        [
            "invoke_agent a [success]",
            "  chat test [success]",
            "  validate_tool meet [success]",
            "  execute_tool meet [success]",
            "  chat test [success]",
        ]
    )
    assert seen.tree() == f"{one_run}\n\n{one_run}"


def test_a_sync_tool_in_a_thread_sees_its_span():
    agent = Agent(script(calls(("where", {}, "c1")), "done"), name="a")
    found: list[object] = []

    @agent.tool_plain
    def where() -> str:
        found.append(threading.current_thread() is not threading.main_thread())
        found.append(trace.get_current_span().get_span_context().span_id)
        return "here"

    with capture() as seen:
        agent.run_sync("go")
    (tool,) = seen.named("execute_tool where")
    assert found == [True, tool.context.span_id]


async def test_the_context_is_as_before_after_every_way():
    agent = Agent(script("a b", "a b", "a b"), name="a")
    with capture():
        before = dict(contextvars.copy_context())
        await agent.run("go")
        async with agent.run_stream("go") as result:
            await result.get_output()
        async with agent.iter("go") as run:
            async for _ in run:
                break
        after = dict(contextvars.copy_context())
    assert {
        variable.name for variable in after if after[variable] is not before.get(variable, after[variable])
    } == set()
    assert not trace.get_current_span().get_span_context().is_valid


async def test_uninstrument_in_mid_run_lets_the_run_finish_its_spans():
    agent = Agent(script(calls(("stop", {}, "c1")), "done"), name="a")

    @agent.tool_plain
    async def stop() -> str:
        PydanticAIInstrumentor().uninstrument()
        return "stopped"

    original = Agent.__dict__["iter"]
    with capture() as seen:
        await agent.run("go")
        assert Agent.__dict__["iter"] is original
        await Agent(script("unseen"), name="b").run("go")
        assert seen.tree() == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool stop [success]
  execute_tool stop [success]
  chat scripted [success]\
""")

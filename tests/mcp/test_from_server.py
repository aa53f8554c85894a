"""What a server asks of its client is answered by code of the application, within the call that it is about."""

from __future__ import annotations

import asyncio
import contextvars
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from mcp_servers import LEGACY, MCP2, build_server, http_client, serve, stdio_client
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from actionspan.pydantic_ai.run import current_tracker
from actionspan.telemetry.current import current_action
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


async def answer_with_an_agent(messages: Any, params: Any, context: Any) -> str:
    """A sampling handler that runs an agent."""
    return (await Agent(script("an answer"), name="helper").run("asked")).output


Connect = Callable[..., Client]


@pytest.fixture(params=["process", "http", "stdio"])
def connect(request: pytest.FixtureRequest, port: int) -> Connect:
    """A client of the server of everything, over each transport."""
    return {
        "process": lambda **options: Client(build_server(), **LEGACY, **options),
        "http": lambda **options: http_client(port, **LEGACY, **options),
        "stdio": lambda **options: stdio_client("thing_server.py", **LEGACY, **options),
    }[request.param]


def below(tree: str, name: str) -> list[str]:
    """The lines of `tree` under the first one called `name`, as deep as they are below it."""
    lines = tree.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip().startswith(name))
    depth = len(lines[start]) - len(lines[start].lstrip())
    found: list[str] = []
    for line in lines[start + 1 :]:
        if len(line) - len(line.lstrip()) <= depth:
            break
        found.append(line[depth:])
    return found


async def test_an_agent_that_answers_a_servers_question_runs_below_the_call(connect: Connect):
    toolset = MCPToolset(connect(sampling_handler=answer_with_an_agent))
    agent = Agent(script(calls(("ask", {"question": "?"}, "c1")), "done"), name="a", toolsets=[toolset])
    with capture() as seen:
        result = await agent.run("go")
    assert "an answer" in str(result.all_messages())
    assert below(seen.tree(), "tools/call ask") == [
        "  invoke_agent helper [success]",
        "    chat scripted [success]",
    ]


async def test_with_a_connection_that_another_request_opened_it_is_still_the_calls(connect: Connect):
    client = connect(sampling_handler=answer_with_an_agent)

    async def open_it() -> None:
        await client.__aenter__()

    async def use_it() -> None:
        await client.call_tool("ask", {"question": "?"})

    with capture() as seen:
        for name, work in (("opener", open_it), ("user", use_it)):
            agent = Agent(script(calls(("work", {}, "c1")), "done"), name=name)
            agent.tool_plain(work, name="work")
            await agent.run("go")
        await client.close()
    opener, user = seen.tree().split("\n\n")
    assert "helper" not in opener
    assert "  invoke_agent helper [success]" in below(user, "tools/call")


async def test_the_librarys_own_answer_by_a_model_is_a_model_request_below_the_call():
    toolset = MCPToolset(Client(build_server(), **LEGACY))
    toolset.set_sampling_model(script("an answer", name="sampled"))
    agent = Agent(script(calls(("ask", {"question": "?"}, "c1")), "done"), name="a", toolsets=[toolset])
    with capture() as seen:
        await agent.run("go")
    assert below(seen.tree(), "tools/call ask") == ["  chat sampled [success]"]


async def test_a_question_to_the_user_is_asked_within_the_call():
    places: list[Any] = []

    async def ask_user(message: str, response_type: Any, params: Any, context: Any) -> Any:
        action = current_action()
        places.append(None if action is None else action.name)
        return response_type(value=True)

    with capture() as seen, serve(build_server().http_app(path="/private-path")) as port:
        async with http_client(port, **LEGACY, elicitation_handler=ask_user) as client:
            await client.list_tools()
            assert (await client.call_tool("confirm", {})).data == "accept"
    assert places == ["tools/call confirm"]
    assert "tools/call confirm [success]" in seen.tree()


async def test_over_a_pipe_with_two_calls_under_way_nothing_tells_which_an_answer_is_for():
    trackers: list[Any] = []

    async def answer(messages: Any, params: Any, context: Any) -> str:
        trackers.append(current_tracker.get())
        return await answer_with_an_agent(messages, params, context)

    toolset = MCPToolset(stdio_client("thing_server.py", **LEGACY, sampling_handler=answer))
    wanted = calls(("ask_together", {"question": "1"}, "c1"), ("ask_together", {"question": "2"}, "c2"))
    agent = Agent(script(wanted, "done"), name="a", toolsets=[toolset])
    with capture() as seen:
        await agent.run("go")
    trees = seen.tree().split("\n\n")
    assert len(trees) == 3
    assert "helper" not in trees[0]
    assert trees[1:] == ["invoke_agent helper [success]\n  chat scripted [success]"] * 2
    assert trackers == [None, None]


@pytest.mark.parametrize("where", ["process", "http"])
async def test_where_messages_carry_their_context_each_answer_is_below_its_own_call(where: str, port: int):
    client = {"process": lambda **options: Client(build_server(), **options), "http": partial(http_client, port)}[where]
    toolset = MCPToolset(client(**LEGACY, sampling_handler=answer_with_an_agent))
    wanted = calls(("ask_together", {"question": "1"}, "c1"), ("ask_together", {"question": "2"}, "c2"))
    agent = Agent(script(wanted, "done"), name="a", toolsets=[toolset])
    with capture() as seen:
        await agent.run("go")
    nested = """\
    tools/call ask_together [success]
      invoke_agent helper [success]
        chat scripted [success]
"""
    # SDK 1 reads all messages in the task that connected.
    assert seen.tree().count(nested) == (2 if MCP2 else 0)
    assert seen.tree().split("\n\n")[1:] == (
        [] if MCP2 else ["invoke_agent helper [success]\n  chat scripted [success]"] * 2
    )


@pytest.mark.skipif(not MCP2, reason="rounds came with SDK 2")
async def test_a_call_of_several_rounds_is_one_operation_with_the_answers_below_it():
    mcp_types = pytest.importorskip("mcp_types")
    server = FastMCP("s")

    @server.tool
    async def guarded(ctx: Context) -> Any:
        if ctx.input_responses is not None:
            return "done"
        schema = {"type": "object", "properties": {"value": {"type": "boolean"}}}
        form = mcp_types.ElicitRequestFormParams(message="sure?", requested_schema=schema)
        return mcp_types.InputRequiredResult(input_requests={"sure": mcp_types.ElicitRequest(params=form)})

    async def ask_user(message: str, response_type: Any, params: Any, context: Any) -> Any:
        await answer_with_an_agent(None, None, None)
        return response_type(value=True)

    with capture() as seen:
        async with Client(server, elicitation_handler=ask_user) as client:
            await client.list_tools()
            assert (await client.call_tool("guarded", {})).content[0].text == "done"
    assert (
        seen.tree("jsonrpc.request.id").split("\n\n")[-1]
        == """\
tools/call guarded [success] jsonrpc.request.id=3
  invoke_agent helper [success]
    chat scripted [success]\
"""
    )


async def test_an_answer_to_a_server_that_asks_about_no_call_is_a_trace_of_its_own():
    server, ask, answered = FastMCP("s"), asyncio.Event(), asyncio.Event()
    asking: list[asyncio.Task[Any]] = []

    @server.tool
    async def later(ctx: Context) -> str:
        session = ctx.session

        async def ask_later() -> None:
            await ask.wait()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated with SDK 2
                asking = session.list_roots()
            await asking
            answered.set()

        # A task that knows nothing of the request: its context is empty, as that of another process would be.
        asking.append(contextvars.Context().run(asyncio.get_running_loop().create_task, ask_later()))
        return "later"

    async def roots(context: Any) -> list[str]:
        await answer_with_an_agent(None, None, None)
        return []

    toolset = MCPToolset(Client(server, **LEGACY, roots=roots))
    agent = Agent(script(calls(("later", {}, "c1")), "done"), name="a", toolsets=[toolset])
    with capture() as seen:
        async with toolset:
            await agent.run("go")
            ask.set()
            await answered.wait()
    assert seen.tree().split("\n\n")[-1] == "invoke_agent helper [success]\n  chat scripted [success]"

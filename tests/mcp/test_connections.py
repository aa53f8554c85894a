"""Connections that are shared, kept, cached, or taken from under us: an operation belongs to the call that made it."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from contextlib import ExitStack
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp_servers import HERE, LEGACY, MCP2, build_server, http_client, serve
from pydantic_ai import Agent, RunContext
from pydantic_ai.mcp import MCPToolset

from actionspan import PydanticAIInstrumentor
from actionspan.testing import Capture, capture
from scripted import calls, script

pytestmark = pytest.mark.anyio

HANDSHAKE = "server/discover" if MCP2 else "initialize"


def traces(seen: Capture) -> list[str]:
    """The trees of the traces, each as a text."""
    return seen.tree().split("\n\n")


async def test_two_servers_in_one_run_each_shaken_hands_with_and_listed_once():
    one, two = FastMCP("one"), FastMCP("two")
    one.tool(lambda: "1", name="first")
    two.tool(lambda: "2", name="second")
    agent = Agent(
        script(calls(("first", {}, "c1"), ("second", {}, "c2")), calls(("first", {}, "c3")), "done"),
        name="a",
        toolsets=[MCPToolset(one, id="one"), MCPToolset(two, id="two")],
    )
    with capture() as seen:
        await agent.run("go")
    lines = seen.tree().splitlines()
    assert lines.count(f"  {HANDSHAKE} [success]") == 2
    assert lines.count("  tools/list [success]") == 2  # the second step takes its tools from the toolset's cache
    assert [line for line in lines if "execute_tool" in line or "tools/call" in line] == [
        "  execute_tool first [success]",
        "    tools/call first [success]",
        "  execute_tool second [success]",
        "    tools/call second [success]",
        "  execute_tool first [success]",
        "    tools/call first [success]",
    ]


async def test_a_client_of_several_servers_is_a_server_that_calls_them_and_both_hops_are_shown():
    command = {"command": sys.executable, "args": [str(HERE / "raw_server.py"), "answer"]}
    client = Client({"mcpServers": {"one": command, "two": command}}, **LEGACY)
    with capture() as seen:
        async with client:
            await client.list_tools()
            seen.clear()
            await client.call_tool("one_act", {})
    # With SDK 1 a server in this process knows the trace of a call, and not the action.
    again = "" if MCP2 else " operation.name=execute_tool"
    assert (
        seen.tree("network.transport", "operation.name")
        == f"""\
tools/call one_act [success] operation.name=execute_tool
  tools/call act [success] network.transport=pipe{again}\
"""
    )


async def test_parallel_calls_of_one_connection_nest_each_below_its_own_tool():
    server, arrived, both = FastMCP("s"), [], asyncio.Event()

    @server.tool
    async def meet(number: int) -> int:
        arrived.append(number)
        if len(arrived) == 3:
            both.set()
        await both.wait()
        return number

    agent = Agent(
        script(calls(*[("meet", {"number": number}, f"c{number}") for number in range(3)]), "done"),
        name="a",
        toolsets=[MCPToolset(server)],
    )
    with capture() as seen:
        await agent.run("go")
    assert seen.tree().count("  execute_tool meet [success]\n    tools/call meet [success]") == 3


async def test_a_toolset_shared_by_two_concurrent_runs_keeps_each_call_in_its_own_trace():
    server, arrived, both = FastMCP("s"), [], asyncio.Event()

    @server.tool
    async def meet() -> int:
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return 1

    toolset = MCPToolset(server)
    agents = [Agent(script(calls(("meet", {}, "c1")), "done"), name=name, toolsets=[toolset]) for name in "ab"]
    with capture() as seen:
        await asyncio.gather(*(agent.run("go") for agent in agents))
    assert len(traces(seen)) == 2
    for tree in traces(seen):
        assert tree.count("  execute_tool meet [success]\n    tools/call meet [success]") == 1
    assert seen.tree().count(HANDSHAKE) == 1


@pytest.mark.parametrize("where", ["process", "http"])
async def test_a_connection_opened_by_one_request_and_used_by_another_is_not_the_firsts(where: str, port: int):
    toolset = MCPToolset(build_server() if where == "process" else http_client(port, **LEGACY))
    opener = Agent(script("opened"), name="opener", toolsets=[toolset])
    user = Agent(script(calls(("add", {"a": 1, "b": 2}, "c1")), "used"), name="user", toolsets=[toolset])
    opened, used = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with opener.iter("go") as run:
            async for _ in run:
                pass
            opened.set()
            await used.wait()

    async def second() -> None:
        await opened.wait()
        await user.run("go")
        used.set()

    with capture() as seen:
        await asyncio.gather(first(), second())
    opener_tree, user_tree = traces(seen)
    assert "tools/call" not in opener_tree
    assert "    tools/call add [success]" in user_tree
    assert HANDSHAKE not in user_tree
    assert "initialize" not in user_tree


async def test_the_same_when_the_connection_outlives_the_run_that_opened_it():
    client = Client(build_server())

    async def handle(name: str) -> None:
        agent = Agent(script(calls(("use", {}, "c1")), "ok"), name=name)

        @agent.tool_plain
        async def use() -> int:
            if not client.is_connected():
                await client.__aenter__()  # a pool: the first request opens what later ones use
            return (await client.call_tool("add", {"a": 1, "b": 2})).data

        await agent.run("go")

    with capture() as seen:
        await handle("first")
        await handle("second")
        await client.close()
    first, second = traces(seen)
    assert HANDSHAKE in first
    assert HANDSHAKE not in second
    assert "    tools/call add [success]" in second


async def test_lists_that_a_toolset_has_cached_do_not_appear():
    toolset = MCPToolset(build_server())
    with capture() as seen:
        async with toolset:
            for _ in range(3):
                await toolset.list_tools()
                await toolset.list_prompts()
                await toolset.list_resources()
    assert seen.tree().replace("\n\n", "\n").splitlines() == [
        f"{HANDSHAKE} [success]",
        "tools/list [success]",
        "prompts/list [success]",
        "resources/list [success]",
    ]


@pytest.mark.skipif(not MCP2, reason="clients cache with SDK 2")
async def test_lists_that_a_client_has_cached_do_not_appear():
    client = Client(build_server(cache_ttl=60), cache=True)
    with capture() as seen:
        async with client:
            for _ in range(3):
                assert await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})
    assert seen.tree().replace("\n\n", "\n").splitlines() == [
        f"{HANDSHAKE} [success]",
        "tools/list [success]",
        "tools/call add [success]",
    ]


async def test_a_list_that_could_not_be_asked_for_is_a_failed_one():
    with capture() as seen, pytest.raises(RuntimeError, match="not connected"):
        await Client(build_server()).list_tools()
    assert seen.tree() == "tools/list [error] !RuntimeError"


async def test_the_applications_hook_around_tool_calls_runs_and_gets_and_gives_what_it_would_without_us():
    seen_by_hook: list[Any] = []

    async def process(ctx: RunContext[Any], call_tool: Any, name: str, args: dict[str, Any]) -> Any:
        result = await call_tool(name, {**args, "b": 40}, metadata={"own": "value"})
        seen_by_hook.append((ctx.tool_name, name, args, result))
        return {"changed": result}

    async def outcome() -> Any:
        toolset = MCPToolset(build_server(), process_tool_call=process)
        agent = Agent(script(calls(("add", {"a": 2, "b": 0}, "c1")), "ok"), name="a", toolsets=[toolset])
        result = await agent.run("go")
        parts = [part for message in result.all_messages() for part in message.parts]
        return [part.content for part in parts if part.part_kind == "tool-return"]

    without = await outcome()
    with capture() as seen:
        assert await outcome() == without == [{"changed": 42}]
    assert seen_by_hook[0] == seen_by_hook[1]
    assert "  execute_tool add [success]\n    tools/call add [success]" in seen.tree()


@pytest.mark.parametrize("where", ["process", "http"])
async def test_uninstrumenting_with_a_connection_open_and_a_call_under_way(where: str):
    server, arrived = build_server(), threading.Event()

    @server.tool
    async def stay() -> None:
        arrived.set()
        await asyncio.Event().wait()

    with ExitStack() as stack:
        app = server.http_app(path="/private-path")
        client = Client(server) if where == "process" else http_client(stack.enter_context(serve(app)))
        seen = stack.enter_context(capture())
        async with client:
            await client.list_tools()
            waiting = asyncio.create_task(client.call_tool("stay", {}))
            assert await asyncio.to_thread(arrived.wait, 10)
            PydanticAIInstrumentor().uninstrument()
            before = len(seen.spans)
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
            assert len(seen.spans) == before
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
    assert seen.tree().endswith("tools/call stay [cancelled/task_cancelled]")


async def test_instrumenting_with_a_connection_open():
    async with Client(build_server()) as client:
        await client.list_tools()
        with capture() as seen:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})
    assert seen.tree("mcp.protocol.version").replace("\n\n", "\n").splitlines() == [
        f"{name} [success] mcp.protocol.version={'2026-07-28' if MCP2 else '2025-11-25'}"
        for name in ("tools/call", "tools/list", "tools/call add")
    ]


async def test_a_connection_that_is_gone_is_forgotten():
    with capture():
        client = Client(build_server())
        async with client:
            await client.call_tool("add", {"a": 1, "b": 2})
            session = weakref.ref(client.session)
        for _ in range(3):
            await asyncio.sleep(0)
            gc.collect()
        assert session() is None

"""Every operation is one action with the attributes of the MCP conventions, over every transport."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastmcp import Client, Context
from inline_snapshot import snapshot
from mcp_servers import LEGACY, MCP2, build_server, http_client, stdio_client
from opentelemetry.trace import SpanKind
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from actionspan.testing import Capture, capture
from scripted import calls, script

pytestmark = pytest.mark.anyio

HANDSHAKE = "server/discover" if MCP2 else "initialize"
VERSION = "2026-07-28" if MCP2 else "2025-11-25"


async def use_everything(client: Client) -> None:
    async with client:
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.list_resources()
        await client.list_resource_templates()
        await client.read_resource("memo://private-host/secret-path")
        await client.list_prompts()
        await client.get_prompt("greet", {"name": "Ada"})


def mcp_spans(seen: Capture) -> list[dict[str, Any]]:
    return [dict(span.attributes or {}) for span in seen.spans if (span.attributes or {}).get("mcp.method.name")]


EVERYTHING = f"""\
{HANDSHAKE} [success] namespace=mcp operation={HANDSHAKE.replace("/", ".")}

tools/list [success] namespace=mcp operation=tools.list

tools/call add [success] namespace=mcp operation=tools.call tool.name=add operation.name=execute_tool

resources/list [success] namespace=mcp operation=resources.list

resources/templates/list [success] namespace=mcp operation=resources.templates.list

resources/read [success] namespace=mcp operation=resources.read

prompts/list [success] namespace=mcp operation=prompts.list

prompts/get greet [success] namespace=mcp operation=prompts.get prompt.name=greet\
"""
SHAKING_HANDS = EVERYTHING.replace("server/discover", "initialize").replace("server.discover", "initialize")
SHOWN = ("namespace", "operation", "tool.name", "prompt.name", "operation.name")


async def test_all_operations_outside_a_run_are_traces_of_their_own_in_process():
    with capture() as seen:
        await use_everything(Client(build_server()))
    assert seen.tree(*SHOWN) == EVERYTHING
    assert {span.kind for span in seen.spans} == {SpanKind.CLIENT}
    for attributes in mcp_spans(seen):
        assert attributes["mcp.protocol.version"] == VERSION
        assert not {"network.transport", "server.address", "server.port", "mcp.session.id"} & attributes.keys()
    numbers = [attributes["jsonrpc.request.id"] for attributes in mcp_spans(seen)]
    assert numbers == sorted(set(numbers), key=int)


async def test_all_operations_over_streamable_http(port: int):
    with capture() as seen:
        await use_everything(http_client(port, **LEGACY))
    assert seen.tree(*SHOWN) == SHAKING_HANDS
    sessions = {attributes["mcp.session.id"] for attributes in mcp_spans(seen)}
    assert len(sessions) == 1
    for attributes in mcp_spans(seen):
        assert attributes["network.transport"] == "tcp"
        assert (attributes["server.address"], attributes["server.port"]) == ("127.0.0.1", port)
        assert attributes["mcp.protocol.version"] == "2025-11-25"


@pytest.mark.skipif(not MCP2, reason="the protocol without sessions came with SDK 2")
async def test_all_operations_over_sessionless_http(port: int):
    with capture() as seen:
        await use_everything(http_client(port))
    assert seen.tree(*SHOWN) == EVERYTHING
    for attributes in mcp_spans(seen):
        assert "mcp.session.id" not in attributes
        assert (attributes["network.transport"], attributes["server.port"]) == ("tcp", port)


async def test_all_operations_over_stdio():
    with capture() as seen:
        await use_everything(stdio_client("thing_server.py", **LEGACY))
    assert seen.tree(*SHOWN) == SHAKING_HANDS
    for attributes in mcp_spans(seen):
        assert attributes["network.transport"] == "pipe"
        assert not {"server.address", "server.port", "mcp.session.id"} & attributes.keys()
        assert attributes["mcp.protocol.version"] == "2025-11-25"


async def test_a_server_of_the_older_protocol_is_asked_first_and_then_shaken_hands_with():
    with capture() as seen:
        async with stdio_client("raw_server.py", "answer") as client:
            await client.call_tool_mcp("act", {})
    asked = "server/discover [error] !-32601 rpc.response.status_code=-32601\n\n" if MCP2 else ""
    assert (
        seen.tree("rpc.response.status_code")
        == asked
        + """\
initialize [success]

tools/call [success]
  tools/list [success]\
"""
    )


async def test_a_session_of_the_sdk_used_without_fastmcps_client_is_seen_as_well():
    async with Client(build_server(), **LEGACY) as client:
        with capture() as seen:
            await client.session.list_tools()
            await client.session.call_tool("add", {"a": 1, "b": 2})
            await client.session.call_tool("fail", {"text": "x"})
            await client.session.send_ping()
    assert seen.tree("operation.name", "jsonrpc.request.id").split("\n\n") == [
        f"tools/list [success] jsonrpc.request.id={1 + MCP2}",
        f"tools/call add [success] operation.name=execute_tool jsonrpc.request.id={2 + MCP2}",
        f"tools/call fail [error/tool_error] !tool_error operation.name=execute_tool jsonrpc.request.id={3 + MCP2}",
    ]


async def test_a_call_made_by_what_outlives_the_call_it_was_started_in_is_an_operation_of_its_own():
    server, returned, started = build_server(), asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    @server.tool
    async def report(ctx: Context) -> None:
        await ctx.report_progress(1, 2)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        tasks.append(asyncio.create_task(later()))
        started.set()

    async def later() -> None:
        await returned.wait()
        await client.session.call_tool("add", {"a": 3, "b": 4})

    with capture() as seen:
        async with Client(server, **LEGACY) as client:
            await client.list_tools()
            await client.call_tool("report", {}, progress_handler=on_progress)
            returned.set()
            await started.wait()  # progress may arrive after the answer
            await asyncio.gather(*tasks)
    assert [len(seen.named(f"tools/call {name}")) for name in ("report", "add")] == [1, 1]


async def test_in_a_run_each_operation_hangs_where_it_was_made_and_says_whose_run_it_is():
    agent = Agent(
        script(calls(("add", {"a": 1, "b": 2}, "c1")), "three"), name="a", toolsets=[MCPToolset(build_server())]
    )
    with capture() as seen:
        result = await agent.run("go")
    assert (
        seen.tree("operation.name", "step")
        == f"""\
invoke_agent a [success] operation.name=invoke_agent
  {HANDSHAKE} [success]
  tools/list [success]
  chat scripted [success] operation.name=chat step=1
  validate_tool add [success] step=1
  execute_tool add [success] operation.name=execute_tool step=1
    tools/call add [success] step=1
  chat scripted [success] operation.name=chat step=2\
"""
    )
    run = seen.named("invoke_agent a")[0].attributes or {}
    for attributes in mcp_spans(seen):
        assert attributes["gen_ai.agent.name"] == "a"
        assert attributes["gen_ai.conversation.id"] == run["gen_ai.conversation.id"]
        assert attributes["actionspan.run_id"] == result.run_id
        assert attributes["actionspan.run_action_id"] == run["actionspan.action_id"]


async def test_the_metric_has_one_point_for_each_operation_and_a_tool_call_is_one_tool_execution(port: int):
    agent = Agent(
        script(calls(("add", {"a": 1, "b": 2}, "c1"), ("fail", {"text": "x"}, "c2")), "three"),
        name="a",
        toolsets=[MCPToolset(http_client(port))],
    )
    with capture() as seen:
        await agent.run("go")
        metrics = seen.metrics()
    points = [dict(point.attributes) for point in metrics["mcp.client.operation.duration"]]
    assert sorted(point["mcp.method.name"] for point in points) == sorted(
        [HANDSHAKE, "tools/list", "tools/call", "tools/call"]
    )
    failed = [point for point in points if "error.type" in point]
    assert failed == snapshot(
        [
            {
                "mcp.method.name": "tools/call",
                "mcp.protocol.version": VERSION,
                "gen_ai.tool.name": "fail",
                "network.transport": "tcp",
                "server.address": "127.0.0.1",
                "server.port": port,
                "actionspan.outcome": "error",
                "error.type": "tool_error",
            }
        ]
    )
    assert all(point.count == 1 for point in metrics["mcp.client.operation.duration"])
    assert sum(point.count for point in metrics["gen_ai.execute_tool.duration"]) == 2

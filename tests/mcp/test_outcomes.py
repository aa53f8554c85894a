"""How an operation ends is how its server, its connection or its run ended it; nothing hangs or stays open."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport
from mcp_servers import HERE, LEGACY, MCP2, build_server, refusing, serve
from pydantic_ai import Agent
from pydantic_ai.exceptions import RunTimedOut
from pydantic_ai.mcp import MCPToolset

from actionspan.pydantic_ai.mcp.endings import ending_of_failure
from actionspan.testing import Capture, capture
from deadlines import A_DAY, expired, within_a_day
from scripted import calls, script

pytestmark = pytest.mark.anyio


@pytest.fixture
def raw(tmp_path: Path) -> Callable[..., Client]:
    """Makes clients of the server written by hand, which behaves as it is told."""

    def client(behaviour: str, **options: object) -> Client:
        transport = StdioTransport(
            sys.executable, [str(HERE / "raw_server.py"), behaviour], keep_alive=False, log_file=tmp_path / "stderr"
        )
        return Client(transport, **{**LEGACY, **options})

    return client


def open_spans(seen: Capture) -> list[str]:
    """The actions that were recorded to start and not to end."""
    ended = {event["span_id"] for event in seen.records if not event["kind"].endswith(".start")}
    return [event["kind"] for event in seen.records if event["span_id"] not in ended]


def started(seen: Capture, method: str) -> Callable[[], bool]:
    """Tells whether an operation has begun."""
    kind = f"mcp.{method.replace('/', '.')}.start"
    return lambda: any(event["kind"] == kind for event in seen.records)


def agent_of(client: Client) -> Agent:
    return Agent(script(calls(("act", {}, "c1")), "ok"), name="a", toolsets=[MCPToolset(client)])


async def test_a_tool_that_says_it_failed_is_a_tool_error_and_no_exception():
    with capture() as seen:
        async with Client(build_server()) as client:
            await client.list_tools()
            await client.call_tool("fail", {"text": "x"}, raise_on_error=False)
    (call,) = seen.named("tools/call fail")
    assert (call.attributes or {})["error.type"] == "tool_error"
    assert (call.attributes or {})["actionspan.outcome_reason"] == "tool_error"
    assert call.events == ()


async def test_a_refusal_has_the_code_of_the_protocol_as_its_error_type(raw: Callable[..., Client]):
    with capture() as seen:
        async with raw("error") as client:
            await client.list_tools()
            with pytest.raises(Exception, match="text of the server"):
                await client.call_tool("act", {})
    assert (
        seen.tree("rpc.response.status_code")
        == """\
initialize [success]

tools/list [success]

tools/call act [error] !-32050 rpc.response.status_code=-32050\
"""
    )
    (event,) = seen.named("tools/call act")[0].events
    assert dict(event.attributes or {}) == {
        "exception.type": f"mcp.shared.exceptions.{'MCPError' if MCP2 else 'McpError'}"
    }


@pytest.mark.parametrize(
    ("behaviour", "ending"),
    [
        ("die", "[error] !-32000"),
        ("wrong", "[error] !pydantic_core._pydantic_core.ValidationError"),
        ("garbage", "[success]"),
    ],
)
async def test_a_server_that_dies_in_mid_call_or_answers_garbage(
    behaviour: str, ending: str, raw: Callable[..., Client]
):
    with capture() as seen:
        async with asyncio.timeout(20), raw(behaviour) as client:
            await client.list_tools()
            with nullcontext() if "success" in ending else pytest.raises(Exception):  # noqa: PT011 # whichever
                await client.call_tool("act", {})
    assert seen.tree().endswith(f"tools/call act {ending}")
    assert open_spans(seen) == []


async def test_a_server_that_dies_in_mid_call_within_a_run(raw: Callable[..., Client]):
    agent = agent_of(raw("die"))
    with capture() as seen:
        async with asyncio.timeout(20):
            try:
                await agent.run("go")
            except Exception:
                pass  # what the run makes of it is the library's affair
    line = next(line for line in seen.tree().splitlines() if "tools/call" in line)
    assert line == "    tools/call act [error] !-32000"
    assert open_spans(seen) == []


async def test_a_server_that_never_answers_and_a_client_that_gives_up(raw: Callable[..., Client]):
    with capture() as seen:
        async with raw("silent") as client:
            await client.list_tools()
            with pytest.raises(Exception, match=r"[Tt]imed out"):
                await expired(client.call_tool("act", {}, timeout=A_DAY), started(seen, "tools/call"))
    assert seen.tree().endswith("tools/call act [timeout/request_timeout] !timeout")
    assert open_spans(seen) == []


async def test_a_server_that_never_answers_and_a_run_that_times_out(raw: Callable[..., Client]):
    agent = agent_of(raw("silent"))
    with capture() as seen:
        async with agent:
            with pytest.raises(RunTimedOut):
                await expired(agent.run("go", timeout=A_DAY), started(seen, "tools/call"))
    assert (
        seen.tree()
        == """\
initialize [success]

invoke_agent a [timeout] !timeout
  tools/list [success]
  chat scripted [success]
  validate_tool act [success]
  execute_tool act [timeout] !timeout
    tools/call act [timeout] !timeout\
"""
    )
    assert open_spans(seen) == []


async def test_a_call_whose_task_is_cancelled():
    server, arrived = FastMCP("s"), asyncio.Event()

    @server.tool
    async def wait() -> None:
        arrived.set()
        await asyncio.Event().wait()

    agent = Agent(script(calls(("wait", {}, "c1"))), name="a", toolsets=[MCPToolset(server)])
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await arrived.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert [line.strip() for line in seen.tree().splitlines() if "wait" in line] == [
        "validate_tool wait [success]",
        "execute_tool wait [cancelled/task_cancelled]",
        "tools/call wait [cancelled/task_cancelled]",
    ]
    assert open_spans(seen) == []


async def test_a_call_cancelled_outside_a_run():
    with capture() as seen:
        async with Client(build_server()) as client:
            await client.list_tools()
            with pytest.raises(TimeoutError):
                await expired(within_a_day(client.call_tool("wait", {})), started(seen, "tools/call"))
    assert seen.tree().endswith("tools/call wait [cancelled/task_cancelled]")


async def test_a_server_that_does_not_even_shake_hands(raw: Callable[..., Client]):
    client = raw("mute", init_timeout=A_DAY)
    with capture() as seen, pytest.raises(RuntimeError, match="initialize"):
        await expired(client.__aenter__(), started(seen, "initialize"))
    assert seen.tree() == "initialize [timeout/connect_timeout] !timeout"
    assert open_spans(seen) == []


async def test_a_connection_that_is_given_up(raw: Callable[..., Client]):
    with capture() as seen, pytest.raises(TimeoutError):
        await expired(within_a_day(raw("mute").__aenter__()), started(seen, "initialize"))
    assert seen.tree() == "initialize [cancelled/task_cancelled]"
    assert open_spans(seen) == []


async def test_a_connection_that_is_given_up_by_a_run_that_times_out(raw: Callable[..., Client]):
    agent = agent_of(raw("mute"))
    with capture() as seen, pytest.raises(RunTimedOut):
        await expired(agent.run("go", timeout=A_DAY), started(seen, "initialize"))
    assert (
        seen.tree()
        == """\
invoke_agent a [timeout] !timeout
  initialize [timeout] !timeout\
"""
    )
    assert open_spans(seen) == []


@pytest.mark.parametrize("status", [401, 500])
async def test_an_http_server_that_refuses_has_a_status_as_its_error_type(status: int):
    with capture() as seen, serve(refusing(status)) as port, pytest.raises(Exception, match=r"."):
        async with Client(f"http://127.0.0.1:{port}/", **LEGACY):
            pass
    # SDK 2 makes an error of the protocol of it.
    assert seen.tree() == f"initialize [error] !{-32603 if MCP2 else status}"
    assert open_spans(seen) == []


def test_what_is_alone_in_a_group_says_what_a_failure_was_and_one_of_several_does_not():
    http: Any = importlib.import_module("httpx2" if MCP2 else "httpx")
    request = http.Request("GET", "http://127.0.0.1")
    refused = http.HTTPStatusError("no", request=request, response=http.Response(401, request=request))
    alone = ExceptionGroup("session", [ExceptionGroup("streams", [refused])])
    assert ending_of_failure(alone).error_type == "401"
    several = ExceptionGroup("session", [refused, ValueError("and more")])
    assert ending_of_failure(several).error_type == "ExceptionGroup"


async def test_an_http_server_that_goes_away_between_calls():
    with capture() as seen:
        with serve(build_server().http_app(path="/private-path")) as port:
            client = Client(f"http://127.0.0.1:{port}/private-path", **LEGACY)
            await client.__aenter__()
            await client.list_tools()
        async with asyncio.timeout(20):
            with pytest.raises(Exception, match=r"."):
                await client.call_tool("add", {"a": 1, "b": 2})
            try:
                await client.close()
            except Exception:
                pass
    (call,) = seen.named("tools/call add")
    assert (call.attributes or {})["actionspan.outcome"] == "error"
    assert open_spans(seen) == []

"""Patching imports nothing, breaks nothing that is absent, contains what fails in it, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import fastmcp.client.client
import fastmcp.client.telemetry
import mcp.client.session
import pytest
import wrapt
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp_servers import HERE, MCP2, build_server
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from actionspan import ActionPolicy, PydanticAIInstrumentor, guard
from actionspan.pydantic_ai.mcp.patches import _PATCHES
from actionspan.testing import capture
from scripted import calls, script


def patched() -> list[tuple[Any, str]]:
    """Everything that is patched, in this generation."""
    owners = [(sys.modules.get(patch.module), patch) for patch in _PATCHES]
    found = [(patch._owner(module), patch.name) for module, patch in owners if module is not None]
    return [(owner, name) for owner, name in found if hasattr(owner, name)]


def python(code: str, *arguments: str) -> str:
    """What `code` prints, run in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_each_place_is_patched_while_instrumented_and_given_back_as_it_was():
    before = [(owner, name, vars(owner).get(name), getattr(owner, name)) for owner, name in patched()]
    assert len(before) >= 12
    for _ in range(2):
        with capture():
            for owner, name in patched():
                assert isinstance(vars(owner)[name], wrapt.FunctionWrapper), name
        for owner, name, own, found in before:
            assert vars(owner).get(name) is own, name
            assert getattr(owner, name) is found, name


@pytest.mark.anyio
async def test_another_instrumentation_of_the_same_functions_is_left_alone():
    seen_by_other: list[str] = []

    async def other(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        seen_by_other.append(args[0] if args else kwargs["name"])
        return await wrapped(*args, **kwargs)

    original = Client.call_tool_mcp
    wrapt.wrap_function_wrapper(Client, "call_tool_mcp", other)
    theirs = vars(Client)["call_tool_mcp"]
    try:
        with capture() as seen:
            async with Client(build_server()) as client:
                await client.list_tools()
                await client.call_tool("add", {"a": 1, "b": 2})
        assert len(seen.named("tools/call add")) == 1
        assert seen_by_other == ["add"]
        assert vars(Client)["call_tool_mcp"] is theirs
    finally:
        del Client.call_tool_mcp
        assert Client.call_tool_mcp is original


@pytest.mark.anyio
async def test_beneath_another_instrumentation_ours_stays_and_does_nothing_until_it_is_wanted_again():
    async def other(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        return await wrapped(*args, **kwargs)

    original = Client.call_tool_mcp
    try:
        with capture():
            wrapt.wrap_function_wrapper(Client, "call_tool_mcp", other)
        async with Client(build_server()) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            with capture() as seen:
                await client.list_tools()
                await client.call_tool("add", {"a": 1, "b": 2})
        assert len(seen.named("tools/call add")) == 1
    finally:
        del Client.call_tool_mcp
        assert Client.call_tool_mcp is original


def test_nothing_is_imported_that_the_application_did_not_import_and_what_it_imports_later_is_patched():
    printed = python("""
        import sys
        import pydantic_ai, wrapt
        from actionspan import PydanticAIInstrumentor
        PydanticAIInstrumentor().instrument()
        assert "actionspan.pydantic_ai.mcp.patches" in sys.modules
        print([name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types", "fastmcp")])
        import mcp.client.session
        print(isinstance(vars(mcp.client.session.ClientSession)["send_request"], wrapt.FunctionWrapper))
        PydanticAIInstrumentor().uninstrument()
        from fastmcp import Client
        print("call_tool_mcp" in vars(Client), "send_request" in vars(mcp.client.session.ClientSession))
        PydanticAIInstrumentor().instrument()
        print("call_tool_mcp" in vars(Client))
    """)
    assert printed.split() == ["[]", "True", "False", str(MCP2), "True"]


def test_without_the_sdk_and_then_without_fastmcp_only_agents_run_and_are_traced():
    printed = python("""
        import asyncio, importlib.abc, sys

        absent = {"fastmcp", "mcp", "mcp_types"}

        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in absent:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Absent())
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel
        from actionspan import guard
        from actionspan.testing import capture

        with guard.strict(), capture() as seen:
            for installed in ("nothing", "mcp"):
                absent -= {installed, installed + "_types"}
                for name in ("fastmcp", "mcp.client.session"):
                    try:
                        __import__(name)
                    except ImportError:
                        print("no", name)
                asyncio.run(Agent(TestModel(), name="a").run("go"))
        print(seen.tree())
    """)
    run = ["invoke_agent a [success]", "  chat test [success]"]
    assert printed.splitlines() == ["no fastmcp", "no mcp.client.session", "no fastmcp", *run, "", *run]


def test_not_a_byte_of_ours_on_stdout_of_a_server_that_runs_instrumented_agents():
    """A stray line there would be taken for a message of the protocol."""
    server = subprocess.Popen(
        [sys.executable, str(HERE / "agent_server.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    answers: dict[Any, Any] = {}
    for message in (
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "think", "arguments": {}}},
    ):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        while message.get("id") not in (None, *answers):
            line = json.loads(server.stdout.readline())
            answers[line.get("id")] = line
    server.stdin.close()
    rest = server.stdout.read()
    server.wait(10)
    server.stdout.close()
    assert answers[2]["result"]["content"][0]["text"] == "thought of 3"
    assert [json.loads(line) for line in rest.splitlines()] == []


@pytest.mark.anyio
async def test_suppressed_instrumentation_is_respected():
    with capture() as seen, suppress_instrumentation():
        async with Client(build_server()) as client:
            await client.list_tools()
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
    assert seen.spans == []


async def everything_a_client_does() -> list[Any]:
    """Results and errors of a run and of direct calls."""
    found: list[Any] = []
    toolset = MCPToolset(build_server())
    wanted = calls(("add", {"a": 1, "b": 2}, "c1"), ("fail", {"text": "x"}, "c2"))
    result = await Agent(script(wanted, "done"), name="a", toolsets=[toolset]).run("go")
    found += [
        (part.part_kind, str(part.content))
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind in ("tool-return", "retry-prompt", "text")
    ]
    async with Client(build_server()) as client:
        found.append([tool.name for tool in await client.list_tools()])
        found.append(str((await client.read_resource("memo://private-host/secret-path"))[0]))
        with pytest.raises(ToolError) as failed:
            await client.call_tool("fail", {"text": "y"})
        found.append(str(failed.value))
    return found


STAGES = (
    "mcp.start", "mcp.send", "mcp.end", "mcp.session_id", "mcp.sdk_span", "mcp.from_server", "context", "content",
    "span.start", "span.set", "span.finish", "span.end", "install",
)  # fmt: skip


@pytest.mark.anyio
@pytest.mark.contained
@pytest.mark.parametrize("stage", STAGES)
async def test_a_failure_of_ours_at_any_stage_changes_nothing(stage: str):
    def fail(at: str) -> None:
        if at == stage:
            raise OSError("ours")

    without = await everything_a_client_does()
    with guard.inject(fail), capture(mode="content", policy=ActionPolicy.everything()):
        assert await everything_a_client_does() == without


@pytest.mark.anyio
async def test_an_unexpected_transport_is_nobody_in_particular():
    from fastmcp.client.transports import FastMCPTransport

    class Odd(FastMCPTransport):
        url = "http://[not-an-address/"
        command = 3

        def get_session_id(self) -> str:
            return "odd"

    with guard.strict(), capture() as seen:
        async with Client(Odd(build_server())) as client:
            await client.list_tools()
    assert {span.attributes["network.transport"] for span in seen.spans if span.attributes} == {"tcp"}


def test_the_instrumentor_can_be_asked_for_both_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_MCP_SDK_SPANS", "sometimes")
    with pytest.raises(ValueError, match="keep, drop"):
        PydanticAIInstrumentor().instrument()


def test_the_modules_that_are_patched_are_those_the_libraries_have():
    assert fastmcp.client.client.Client is Client
    assert mcp.client.session.ClientSession is mcp.ClientSession
    assert fastmcp.client.telemetry.get_tracer is fastmcp.telemetry.get_tracer

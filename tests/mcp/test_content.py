"""What an operation carries: nothing but metadata, unless a category admits more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dirty_equals import IsPartialDict
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from inline_snapshot import snapshot
from mcp_servers import LEGACY, MCP2, build_server, http_client
from pydantic_ai import Agent

from actionspan import ActionPolicy
from actionspan.redact import redact_keys
from actionspan.testing import Capture, capture
from scripted import calls, script

pytestmark = pytest.mark.anyio

CONTENT = ("actionspan.request", "actionspan.response", "mcp.resource.uri")


def content_of(seen: Capture, name: str) -> dict[str, Any]:
    """The content attributes of the one span of that name, parsed where they are JSON."""
    (span,) = seen.named(name)
    found = {key: str(value) for key, value in (span.attributes or {}).items() if key in CONTENT}
    return {key: json.loads(value) if value[0] in "{[" else value for key, value in found.items()}


def everything(seen: Capture) -> str:
    """All that left, in every signal."""
    spans = [(span.name, dict(span.attributes or {}), span.status.description, span.events) for span in seen.spans]
    events = [dict(event.attributes or {}) for span in seen.spans for event in span.events]
    return f"{spans}{events}{seen.metrics()}{seen.records}{seen.logs}"


async def use(client: Client) -> None:
    """Operations of every kind, successful and not, each with something in it that is nobody else's business."""
    async with client:
        await client.list_tools()
        await client.list_prompts()
        await client.call_tool("add", {"a": 123456, "b": 654321})
        await client.get_prompt("greet", {"name": "Adalbert"})
        await client.read_resource("memo://private-host/secret-path")
        with pytest.raises(ToolError):
            await client.call_tool("fail", {"text": "failing-text"})
        for call in (
            client.read_resource("memo://nobody:pass@other-host/hidden?query=1"),
            client.get_prompt("invented-prompt"),
        ):
            with pytest.raises(Exception, match=r"hidden|invented"):
                await call
        with pytest.raises(ToolError):
            await client.call_tool("invented-tool", {})


SECRETS = (
    "123456", "654321", "777777", "Adalbert", "private-host", "secret-path", "memo text", "failing-text",
    "nobody", "other-host", "hidden", "query", "invented", "password", "token", "private-path", "Add two numbers",
)  # fmt: skip


async def test_without_content_not_a_byte_of_it_is_anywhere(port: int):
    with capture() as seen:
        await use(http_client(port))
    assert len(seen.spans) >= 10
    found = everything(seen)
    assert [secret for secret in SECRETS if secret in found] == []


async def test_every_other_category_admits_nothing_of_mcp(port: int):
    others = ActionPolicy.everything(
        include_mcp_requests=False, include_mcp_responses=False, include_error_messages=False
    )
    with capture(mode="content", policy=others) as seen:
        await use(http_client(port))
    found = everything(seen)
    assert [secret for secret in SECRETS if secret in found] == []


async def test_requests_are_admitted_by_their_category():
    with capture(mode="content", policy=ActionPolicy(include_mcp_requests=True)) as seen:
        async with Client(build_server()) as client:
            await client.list_tools()
            await client.list_prompts()
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.get_prompt("greet", {"name": "Ada"})
            await client.read_resource("memo://private-host/secret-path")
            with pytest.raises(ToolError):
                await client.call_tool("invented", {})
    assert content_of(seen, "tools/call add") == snapshot(
        {"actionspan.request": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    )
    assert content_of(seen, "prompts/get greet") == snapshot(
        {"actionspan.request": {"name": "greet", "arguments": {"name": "Ada"}}}
    )
    assert content_of(seen, "resources/read") == snapshot(
        {
            "actionspan.request": {"uri": "memo://private-host/secret-path"},
            "mcp.resource.uri": "memo://private-host/secret-path",
        }
    )
    assert content_of(seen, "tools/call") == snapshot({"actionspan.request": {"name": "invented", "arguments": {}}})
    assert content_of(seen, "tools/list") == {}


async def test_responses_are_admitted_by_their_category_as_they_came_over_the_wire():
    with capture(mode="content", policy=ActionPolicy(include_mcp_responses=True)) as seen:
        async with Client(build_server()) as client:
            await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(ToolError):
                await client.call_tool("fail", {"text": "x"})
    assert content_of(seen, "tools/call add") == {
        "actionspan.response": IsPartialDict(
            content=[{"type": "text", "text": "3"}], structuredContent={"result": 3}, isError=False
        )
    }
    assert content_of(seen, "tools/call fail") == {
        "actionspan.response": IsPartialDict(isError=True, content=[IsPartialDict(type="text")])
    }
    listed = content_of(seen, "tools/list")["actionspan.response"]["tools"]
    assert [tool["name"] for tool in listed] == ["add", "fail", "meta", "wait", "ask", "ask_together", "confirm"]


async def test_the_text_of_a_refusal_is_an_error_message():
    def status(seen: Capture) -> list[str | None]:
        return [span.status.description for span in seen.named("resources/read")]

    policy = ActionPolicy(include_error_messages=True)
    for admitted in (True, False):
        with capture(mode="content", policy=policy if admitted else ActionPolicy()) as seen:
            async with Client(build_server()) as client:
                with pytest.raises(Exception, match="hidden"):
                    await client.read_resource("memo://other/hidden")
        assert [("hidden" in (text or "")) for text in status(seen)] == [admitted]
        assert ("hidden" in everything(seen)) is admitted


async def test_images_and_blobs_are_named_and_not_copied():
    server = FastMCP("images")
    server.tool(lambda: Image(data=b"\x89PNG not really", format="png"), name="draw")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        async with Client(server) as client:
            await client.list_tools()
            await client.call_tool("draw")
    (image,) = content_of(seen, "tools/call draw")["actionspan.response"]["content"]
    assert image == snapshot({"type": "image", "data": "<binary>", "mimeType": "image/png"})


async def test_payloads_are_redacted():
    policy = ActionPolicy.everything(redactor=redact_keys("a"))
    with capture(mode="content", policy=policy) as seen:
        async with Client(build_server()) as client:
            await client.list_tools()
            await client.call_tool("add", {"a": 123456, "b": 2})
    assert "123456" not in json.dumps(content_of(seen, "tools/call add")["actionspan.request"])


async def test_a_target_is_named_when_the_server_is_known_to_have_it():
    with capture() as seen:
        async with Client(build_server()) as client:
            await client.call_tool("add", {"a": 1, "b": 2})  # the SDK lists the tools to check the result
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.get_prompt("greet", {"name": "Ada"})  # served, so the server has it
            await client.get_prompt("greet", {"name": "Ada"})
            with pytest.raises(ToolError):
                await client.call_tool("nothing-like-it", {})
    shown = [
        (span.name, (span.attributes or {}).get("gen_ai.tool.name"), (span.attributes or {}).get("gen_ai.prompt.name"))
        for span in seen.spans
        if span.name.startswith(("tools/call", "prompts"))
    ]
    assert shown == [
        ("tools/call", "add", None),
        ("tools/call add", "add", None),
        ("prompts/get", None, "greet"),
        ("prompts/get greet", None, "greet"),
        ("tools/call", None, None),
    ]


async def test_a_tool_that_a_run_declared_is_named_also_where_the_connection_has_listed_nothing():
    server = build_server()
    client = Client(server, **LEGACY)
    agent = Agent(script(calls(("add", {"a": 1, "b": 2}, "c1")), "ok"), name="a")

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        async with client:
            return (await client.call_tool("add", {"a": a, "b": b})).data

    with capture() as seen:
        await agent.run("go")
    assert (
        seen.tree("tool.name", "operation.name")
        == """\
invoke_agent a [success] operation.name=invoke_agent
  chat scripted [success] operation.name=chat
  validate_tool add [success] tool.name=add
  execute_tool add [success] tool.name=add operation.name=execute_tool
    initialize [success]
    tools/call add [success] tool.name=add
      tools/list [success]
  chat scripted [success] operation.name=chat\
"""
    )


async def test_the_handshake_is_payload_too():
    with capture(mode="content", policy=ActionPolicy(include_mcp_responses=True)) as seen:
        async with Client(build_server(), **LEGACY):
            pass
    answer = content_of(seen, "initialize")["actionspan.response"]
    assert answer == IsPartialDict(protocolVersion="2025-11-25", serverInfo=IsPartialDict(name="things"))
    if MCP2:
        with capture(mode="content", policy=ActionPolicy(include_mcp_responses=True)) as seen:
            async with Client(build_server()):
                pass
        assert content_of(seen, "server/discover")["actionspan.response"] == IsPartialDict(
            supportedVersions=["2026-07-28"]
        )

"""One client span for each operation; what FastMCP's client makes is left out, and the server's spans join ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fastmcp import Client
from mcp_servers import LEGACY, MCP2, build_server, http_client, stdio_client
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from actionspan.recorder import read
from actionspan.testing import Capture, capture
from scripted import calls, script

pytestmark = pytest.mark.anyio

Theirs = Callable[[Capture], None]


def scope(span: ReadableSpan) -> str:
    return "" if span.instrumentation_scope is None else span.instrumentation_scope.name


def counts(spans: list[ReadableSpan], word: str) -> dict[str, int]:
    """How many client and server spans that have `word` in their name each library made."""
    found: dict[str, int] = {}
    for span in spans:
        if word in span.name and span.kind in (SpanKind.CLIENT, SpanKind.SERVER):
            key = f"{scope(span)} {span.kind.name}"
            found[key] = found.get(key, 0) + 1
    return found


async def call_once(client: Client) -> None:
    async with client:
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})


async def test_without_us_fastmcp_makes_a_span_of_its_own_and_so_it_does_again_after_us(with_theirs: Theirs):
    with capture() as seen:
        with_theirs(seen)
        await call_once(Client(build_server()))
        assert "fastmcp CLIENT" not in counts(seen.spans, "tools/call")
    with capture(mode="off") as seen:
        with_theirs(seen)
        await call_once(Client(build_server()))
        assert counts(seen.spans, "tools/call")["fastmcp CLIENT"] == 1


@pytest.mark.parametrize("where", ["process", "http"])
async def test_one_call_is_one_span_of_ours_and_none_of_fastmcps_client(where: str, port: int, with_theirs: Theirs):
    client = Client(build_server()) if where == "process" else http_client(port)
    with capture() as seen:
        with_theirs(seen)
        await call_once(client)
    for word in ("tools/call", "tools/list"):
        expected = {"actionspan CLIENT": 1, "fastmcp SERVER": 1}
        if MCP2:
            expected["mcp-python-sdk CLIENT"] = 1
        assert counts(seen.spans, word) == expected


@pytest.mark.parametrize("where", ["process", "http"])
async def test_the_sdks_span_is_dropped_on_demand_and_the_servers_stays_below_ours(
    where: str, port: int, with_theirs: Theirs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ACTIONSPAN_MCP_SDK_SPANS", "drop")
    client = Client(build_server()) if where == "process" else http_client(port)
    with capture() as seen:
        with_theirs(seen)
        async with client:
            await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(Exception, match="hidden"):
                await client.read_resource("memo://other/hidden")
    for word in ("tools/list", "tools/call", "resources/read"):
        assert counts(seen.spans, word) == {"actionspan CLIENT": 1, "fastmcp SERVER": 1}
        ours, server = (
            next(span for span in seen.spans if span.kind is kind and word in span.name)
            for kind in (SpanKind.CLIENT, SpanKind.SERVER)
        )
        if MCP2 or word != "tools/list":  # FastMCP 3 sends no trace context with a list
            assert server.parent is not None
            assert ours.context is not None
            assert (server.parent.trace_id, server.parent.span_id) == (ours.context.trace_id, ours.context.span_id)
        # The SDK writes the server's error text on whatever span it is given: not on ours.
        assert ours.status.description is None


@pytest.mark.skipif(not MCP2, reason="SDK 1 makes no spans")
async def test_what_is_no_operation_of_ours_keeps_the_sdks_span(with_theirs: Theirs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_MCP_SDK_SPANS", "drop")
    with capture() as seen:
        with_theirs(seen)
        async with Client(build_server(), **LEGACY) as client:
            await client.ping()
    assert "MCP send ping" in [span.name for span in seen.spans]


async def test_a_server_in_another_process_joins_the_trace(tmp_path: Path):
    agent = Agent(
        script(calls(("add", {"a": 1, "b": 2}, "c1")), "three"),
        name="a",
        toolsets=[MCPToolset(stdio_client("thing_server.py", str(tmp_path), **LEGACY))],
    )
    with capture() as seen:
        await agent.run("go")
    served = {event["name"]: event for event in read(tmp_path).query() if "name" in event}
    ours = seen.named("tools/call add")[0].context
    assert ours is not None
    assert served["tools/call add"]["trace_id"] == f"{ours.trace_id:032x}"
    assert served["tools/call add"]["parent_span_id"] == f"{ours.span_id:016x}"


async def test_what_reaches_the_server_is_standard_trace_context_and_nothing_of_ours():
    agent = Agent(script(calls(("meta", {}, "c1")), "ok"), name="a", toolsets=[MCPToolset(build_server())])
    with capture() as seen:
        result = await agent.run("go")
    answer = next(
        part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"
    )
    given = answer.model_response_object()
    call = seen.named("tools/call meta")[0].context
    assert call is not None
    assert given["traceparent"] == f"00-{call.trace_id:032x}-{call.span_id:016x}-01"
    own = {key for key in given if not key.startswith("io.modelcontextprotocol/")}
    assert own == {"traceparent", "progressToken"}
    assert "actionspan" not in str(given)

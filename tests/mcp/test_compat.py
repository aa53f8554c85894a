"""The names of others that we rely on without their leave: each fails here when it goes."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
from fastmcp import Client
from mcp_servers import MCP2, build_server

from actionspan.pydantic_ai.mcp.client import CALLS
from actionspan.pydantic_ai.mcp.compat import (
    FASTMCP_TRACER,
    FROM_SERVER,
    SDK_SPAN,
    http_code,
    next_request_id,
    rpc_code,
)
from mcp import ClientSession


def test_fastmcps_client_takes_its_tracer_from_a_name_that_its_server_does_not_use():
    client = importlib.import_module(FASTMCP_TRACER[0])
    assert callable(vars(client)[FASTMCP_TRACER[1]])
    assert callable(vars(importlib.import_module("fastmcp.server.telemetry"))[FASTMCP_TRACER[1]])


def test_the_methods_of_fastmcps_client_and_what_we_read_of_their_parameters():
    read = {
        "call_tool_mcp": ["name", "arguments"],
        "read_resource_mcp": ["uri"],
        "get_prompt_mcp": ["name", "arguments"],
    }
    for name in CALLS:
        parameters = list(inspect.signature(getattr(Client, name)).parameters)
        if name in read:
            assert parameters[1 : 1 + len(read[name])] == read[name]
        else:
            assert inspect.signature(getattr(Client, name)).parameters["cursor"].kind is inspect.Parameter.KEYWORD_ONLY


def test_a_request_of_the_server_is_answered_by_a_method_of_this_generation():
    assert [hasattr(ClientSession, name) for name in FROM_SERVER] == ([True, False] if MCP2 else [False, True])


@pytest.mark.skipif(not MCP2, reason="SDK 1 makes no spans")
def test_the_sdk_makes_its_client_span_with_a_name_that_its_server_does_not_use():
    sending = importlib.import_module(SDK_SPAN[0])
    assert callable(vars(sending)[SDK_SPAN[1]])
    assert callable(vars(importlib.import_module("mcp.server._otel"))["otel_span"])
    assert inspect.signature(vars(sending)[SDK_SPAN[1]]).parameters["attributes"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.anyio
@pytest.mark.skipif(MCP2, reason="SDK 2 says the id when it makes its span")
async def test_a_session_counts_its_requests():
    async with Client(build_server()) as client:
        first = next_request_id(client.session)
        await client.list_tools()
        assert first is not None
        assert next_request_id(client.session) == str(int(first) + 1)


def test_codes_of_errors():
    exceptions: Any = importlib.import_module("mcp.shared.exceptions")
    if MCP2:
        refused = exceptions.MCPError(code=-32000, message="no")
    else:
        refused = exceptions.McpError(importlib.import_module("mcp.types").ErrorData(code=-32000, message="no"))
    http: Any = importlib.import_module("httpx2" if MCP2 else "httpx")
    response = http.Response(418, request=http.Request("GET", "http://127.0.0.1"))
    with pytest.raises(http.HTTPStatusError) as failed:
        response.raise_for_status()
    assert (rpc_code(refused), http_code(refused)) == (-32000, None)
    assert (rpc_code(failed.value), http_code(failed.value)) == (None, 418)
    assert (rpc_code(ValueError()), http_code(ValueError())) == (None, None)

"""A stdio server whose tool runs an agent that uses another server, with everything instrumented and admitted."""

from __future__ import annotations

import os

os.environ |= {"ACTIONSPAN_AUDIT": "content", "ACTIONSPAN_CAPTURE": "all"}

from fastmcp import FastMCP
from mcp_servers import build_server
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel

from actionspan import PydanticAIInstrumentor

PydanticAIInstrumentor().instrument()
server = FastMCP("thinker")


@server.tool
async def think() -> str:
    model = TestModel(call_tools=["add"], custom_output_text="thought of 3")
    return (await Agent(model, name="thinker", toolsets=[MCPToolset(build_server())]).run("go")).output


server.run(transport="stdio", show_banner=False)

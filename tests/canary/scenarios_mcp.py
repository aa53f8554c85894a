"""Scenarios with an MCP server in this process."""

from __future__ import annotations

from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import TextPart

from canary.scenarios import Plants, call, failing, scenario, scripted
from canary.signals import Leaving


def server(plant: Plants) -> FastMCP:
    """A server with canaries in what it offers and answers."""
    offered: Any = FastMCP("canaries")

    async def look(text: str) -> Any:
        return [plant("MCP result"), Image(data=plant("MCP image").encode(), format="png")]

    look.__doc__ = plant("MCP tool description")
    offered.tool(look)

    @offered.tool
    async def fail() -> str:
        raise ToolError(plant("MCP failure text"))

    @offered.resource(address(plant))
    async def memo() -> str:
        return plant("resource text")

    @offered.resource("memo://picture", mime_type="image/png")
    async def picture() -> bytes:
        return plant("resource bytes").encode()

    return offered


def address(plant: Plants) -> str:
    return f"memo://{plant('resource userinfo')}:pw@host/{plant('resource path')}?q={plant('resource query')}"


@scenario
async def tools_of_an_mcp_server(plant: Plants, leaving: Leaving) -> None:
    agent = Agent(
        scripted([[call("look", text=plant("MCP argument"))], [call("fail")], [TextPart("done")]]),
        name="probe",
        toolsets=[MCPToolset(server(plant), id="canaries")],
    )
    await agent.run("go")


@scenario
async def resources_and_prompts_of_an_mcp_server(plant: Plants, leaving: Leaving) -> None:
    async with Client(server(plant)) as client:
        await client.list_resources()
        await client.read_resource(address(plant))
        await client.read_resource("memo://picture")
        await failing(Exception, client.get_prompt(plant("invented prompt name")))

"""The demo's MCP server: the supplier's stock, asked in this process."""

from __future__ import annotations

from typing import Any

from actionspan.cli.demo.agents import Desk

__all__ = ["supplier_toolset"]


def supplier_toolset(desk: Desk) -> Any | None:
    """A toolset on a FastMCP server in this process; None where FastMCP's server is not installed."""
    try:
        from fastmcp import FastMCP
        from pydantic_ai.mcp import MCPToolset
    except ImportError:
        return None
    server: Any = FastMCP("supplier")

    @server.tool
    async def supplier_stock(title: str) -> str:
        """How many copies the supplier has."""
        await desk.take(0.4)
        return desk.story.supplier

    return MCPToolset(server, id="supplier")

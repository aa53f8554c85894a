"""MCP client operations as actions: what FastMCP's client and the MCP SDK's session do, translated.

`patches` says where we enter; a client's calls are in `client`, a session's in `session`, and `operation` is one call
from its start to its answer. Nothing here imports `mcp` or `fastmcp`: they are patched when the application does.
"""

from __future__ import annotations

from actionspan.pydantic_ai.mcp.patches import install, remove

__all__ = ["install", "remove"]

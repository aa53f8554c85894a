"""Servers for tests: one of FastMCP's with something of everything, and ways to reach it."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvicorn
from fastmcp import Client, Context, FastMCP
from fastmcp.client.transports import StdioTransport

from mcp import types

MCP2 = int(version("mcp").split(".")[0]) >= 2
"""The generation of the SDK that is installed."""
LEGACY: dict[str, Any] = {"mode": "legacy"} if MCP2 else {}
"""Arguments of a client that shakes hands with `initialize`, so that a server may ask something back."""

HERE = Path(__file__).parent


def build_server(name: str = "things", **options: Any) -> FastMCP:
    """A server with tools, prompts and resources."""
    server = FastMCP(name, **options)

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def fail(text: str) -> str:
        raise ValueError(f"failed on {text}")

    @server.tool
    def meta(ctx: Context) -> dict[str, Any]:
        """What came in `_meta`."""
        given = ctx.request_context.meta if ctx.request_context else None
        return dict(given) if isinstance(given, dict) else {} if given is None else given.model_dump(by_alias=True)

    @server.tool
    async def wait() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return "never"

    async def sample(ctx: Context, question: str) -> str:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=question))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated with SDK 2
            asking = ctx.session.create_message([message], max_tokens=9, related_request_id=ctx.request_id)
        return str((await asking).content)

    @server.tool
    async def ask(ctx: Context, question: str) -> str:
        """Ask the client's model."""
        return await sample(ctx, question)

    waiting: list[Context] = []
    both = asyncio.Event()

    @server.tool
    async def ask_together(ctx: Context, question: str) -> str:
        """Ask when two calls are under way."""
        waiting.append(ctx)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return await sample(ctx, question)

    @server.tool
    async def confirm(ctx: Context) -> str:
        """Ask the client's user."""
        answer = await ctx.elicit("sure?", response_type=bool)
        return answer.action

    @server.prompt
    def greet(name: str) -> str:
        return f"Greet {name}."

    @server.resource("memo://private-host/secret-path")
    def memo() -> str:
        return "memo text"

    @server.resource("memo://private-host/{key}/item")
    def item(key: str) -> str:
        return f"item {key}"

    return server


class _Uvicorn(uvicorn.Server):
    """A server that says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


def refusing(status: int) -> Any:
    """A web application that answers everything with `status`."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"text of the server"})

    return app


@contextmanager
def serve(app: Any) -> Iterator[int]:
    """Serve a web application on a free port of 127.0.0.1, in a thread; yields the port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", ws="none")
    http = _Uvicorn(config)
    thread = threading.Thread(target=http.run, daemon=True)
    thread.start()
    assert http.up.wait(60)
    try:
        yield http.servers[0].sockets[0].getsockname()[1]
    finally:
        http.should_exit = True
        http.force_exit = True
        thread.join(10)


def http_client(port: int, **options: Any) -> Client:
    """A client of the server at `port`, by a URL with secrets in it."""
    return Client(f"http://user:password@127.0.0.1:{port}/private-path?token=secret", **options)


def stdio_client(script: str, *arguments: str, env: dict[str, str] | None = None, **options: Any) -> Client:
    """A client of a script in this directory, run as a process that ends with the connection."""
    transport = StdioTransport(sys.executable, [str(HERE / script), *arguments], env=env, keep_alive=False)
    return Client(transport, **options)

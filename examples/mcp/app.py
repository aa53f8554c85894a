"""An agent that uses an MCP server in another process, and the one trace that both of them make."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actionspan import JsonlSpanExporter, PydanticAIInstrumentor
from actionspan.recorder import read, spans_of
from actionspan.testing import tree


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model: asks for two articles at once, then answers."""
    if len(messages) > 1:
        return ModelResponse([TextPart("There are 12 of tea, and there is no coffee.")])
    return ModelResponse([ToolCallPart("stock", {"article": "tea"}), ToolCallPart("stock", {"article": "coffee"})])


def warehouse(directory: str) -> Client:
    """A client that starts the server as a process of its own, which ends with the connection."""
    script = Path(__file__).with_name("server.py")
    return Client(StdioTransport(sys.executable, [str(script)], env={"ACTIONSPAN_JSONL": directory}, keep_alive=False))


async def main(directory: str) -> None:
    """Ask once, and show what happened on either side."""
    provider = TracerProvider(resource=Resource.create({"service.name": "clerk"}))
    provider.add_span_processor(SimpleSpanProcessor(JsonlSpanExporter(directory)))
    PydanticAIInstrumentor().instrument(tracer_provider=provider)
    model = os.environ.get("MODEL") or FunctionModel(scripted, model_name="scripted")
    agent = Agent(model, name="clerk", toolsets=[MCPToolset(warehouse(directory))])
    try:
        print((await agent.run("How much tea is there, and how much coffee?")).output)
    finally:
        PydanticAIInstrumentor().uninstrument()
        provider.shutdown()
    print(tree(spans_of(read(directory).replay()), "network.transport", "fastmcp.server.name"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(main(scratch))

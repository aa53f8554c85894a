"""An MCP server over stdio: what is in the warehouse. Its spans, made by FastMCP, go to the directory ACTIONSPAN_JSONL.

Any exporter will do here: with OTLP the server's spans reach the same backend as the agent's, and meet there.
"""

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from actionspan import JsonlSpanExporter

server = FastMCP("warehouse")
stocked = {"tea": 12, "rice": 3}


@server.tool
def stock(article: str) -> int:
    """How many of an article there are."""
    if article not in stocked:
        raise ToolError(f"there is no {article}")
    with trace.get_tracer("warehouse").start_as_current_span("look on the shelf"):
        return stocked[article]


if __name__ == "__main__":
    provider = TracerProvider(resource=Resource.create({"service.name": "warehouse"}))
    provider.add_span_processor(SimpleSpanProcessor(JsonlSpanExporter()))
    trace.set_tracer_provider(provider)
    server.run(transport="stdio", show_banner=False, log_level="critical")

"""The server of everything over stdio; its spans go to the directory that the first argument names, if there is one."""

from __future__ import annotations

import sys

from mcp_servers import build_server
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from actionspan import JsonlSpanExporter

if len(sys.argv) > 1:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(JsonlSpanExporter(sys.argv[1])))
    trace.set_tracer_provider(provider)

build_server().run(transport="stdio", show_banner=False)

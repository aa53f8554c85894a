"""What a real backend makes of our spans, over both transports, read back through its REST API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from inline_snapshot import snapshot
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from pydantic_ai import Agent

from actionspan import ActionPolicy, PydanticAIInstrumentor
from live.conftest import Phoenix, spans_of
from scripted import calls, script

pytestmark = [pytest.mark.live, pytest.mark.anyio]

TRANSPORTS: dict[str, Callable[[Phoenix], SpanExporter]] = {
    "http/protobuf": lambda phoenix: HttpExporter(f"{phoenix.http}/v1/traces"),
    "grpc": lambda phoenix: GrpcExporter(phoenix.grpc, insecure=True),
}


def tree_of(spans: list[dict[str, Any]]) -> str:
    """A line a span: its name, the kind the backend takes it for, outcome, tokens."""
    known = {span["context"]["span_id"] for span in spans}

    def lines(parent: str | None, depth: int) -> list[str]:
        found: list[str] = []
        for span in spans:
            if span["parent_id"] == parent or (parent is None and span["parent_id"] not in known):
                attributes = span["attributes"]
                tokens = [attributes.get(f"gen_ai.usage.{side}_tokens") for side in ("input", "output")]
                words = [span["name"], span["span_kind"], attributes["actionspan.outcome"]]
                words += [f"{tokens[0]}+{tokens[1]}"] if tokens[0] is not None else []
                found += ["  " * depth + " ".join(words), *lines(span["context"]["span_id"], depth + 1)]
        return found

    return "\n".join(lines(None, 0))


@pytest.fixture
def project() -> str:
    return f"test-{uuid4().hex[:8]}"


async def run_an_agent(exporter: SpanExporter, project: str, **arguments: Any) -> None:
    """One run with a tool, sent to a project of its own."""
    provider = TracerProvider(resource=Resource({"openinference.project.name": project}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = PydanticAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider, **arguments)
    agent = Agent(
        script(calls(("look", {"parcel": "a canary argument"}, "c1")), "a canary answer"),
        name="parcels",
        instructions="a canary instruction",
    )

    @agent.tool_plain
    def look(parcel: str) -> str:
        return "a canary result"

    try:
        await agent.run("a canary prompt")
    finally:
        instrumentor.uninstrument()
        provider.shutdown()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_names_parents_kinds_and_tokens_and_no_content(phoenix: Phoenix, project: str, transport: str):
    await run_an_agent(TRANSPORTS[transport](phoenix), project)
    spans = spans_of(phoenix, project, 5)
    assert tree_of(spans) == snapshot("""\
invoke_agent parcels AGENT success
  chat scripted LLM success 53+7
  validate_tool look TOOL success
  execute_tool look TOOL success
  chat scripted LLM success 56+10\
""")
    assert "canary" not in json.dumps(spans)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_messages_where_they_are_admitted(phoenix: Phoenix, project: str, transport: str):
    policy = ActionPolicy(include_model_requests=True, include_model_responses=True, include_tool_arguments=True)
    await run_an_agent(TRANSPORTS[transport](phoenix), project, mode="content", policy=policy)
    spans = spans_of(phoenix, project, 5)
    first, second = [span["attributes"] for span in spans if span["name"].startswith("chat")]
    assert json.loads(first["gen_ai.input.messages"]) == snapshot(
        [{"role": "user", "parts": [{"type": "text", "content": "a canary prompt"}]}]
    )
    assert json.loads(second["gen_ai.output.messages"]) == snapshot(
        [{"role": "assistant", "parts": [{"type": "text", "content": "a canary answer"}]}]
    )
    (tool,) = [span["attributes"] for span in spans if span["name"] == "execute_tool look"]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"parcel": "a canary argument"}
    assert "gen_ai.tool.call.result" not in tool
    assert "look" in first.pop("llm.tools.0.tool.json_schema")
    assert {key: value for key, value in first.items() if key.startswith("llm.")} == snapshot(
        {
            "llm.model_name": "scripted",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "a canary instruction",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "a canary prompt",
            "llm.system": "function",
            "llm.token_count.completion": 7,
            "llm.token_count.total": 60,
            "llm.token_count.prompt": 53,
        }
    )

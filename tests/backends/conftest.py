"""A story of several traces: in a record on disk, and in backends that answer as Tempo and Jaeger do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode, TraceFlags, set_span_in_context

from actionspan.backends import JaegerRecorder, TempoRecorder
from actionspan.backends._recorder import BackendRecorder
from actionspan.recorder import JsonlRecorder, Reader, RecorderSpanProcessor, read
from backends.servers import Backend, Jaeger, Tempo

SERVICE = "shop"
SECOND = 10**9


@dataclass(frozen=True)
class Story:
    """What happened."""

    directory: Path
    spans: tuple[ReadableSpan, ...]
    began: int
    """Nanoseconds; all of it is within the ten minutes that follow."""

    @property
    def record(self) -> Reader:
        return read(self.directory)

    def ended(self, **filters: Any) -> list[dict[str, Any]]:
        """The terminal events that the record has for a query, as far as a backend can keep them."""
        events = [kept(event) for event in self.record.query(**filters) if event.get("phase", "start") != "start"]
        # Events of the same moment have no order in time; a backend cannot know the one they were written in.
        return sorted(events, key=lambda event: (event["time_unix_nano"], event["trace_id"], event["span_id"]))

    def tell(self, backend: Backend) -> None:
        """Send it, as an exporter would."""
        backend.ingest(encode_spans(self.spans).SerializeToString())


def attributes(namespace: str, operation: str, agent: str, **more: Any) -> dict[str, Any]:
    return {
        "actionspan.namespace": namespace,
        "actionspan.operation": operation,
        "actionspan.attempt": 1,
        "gen_ai.agent.name": agent,
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def tell(provider: TracerProvider, began: int) -> None:
    """Five runs that overlap, each with a model request and two tools, one of which fails; spans of others between."""
    tracer = provider.get_tracer("actionspan", "0.1.0", "https://example.com/schema", {"edition": "test"})
    others = provider.get_tracer("sql")
    for number in range(5):
        at = began + number * 60 * SECOND
        agent = f"agent {number % 2}"
        run = tracer.start_span(
            f"invoke_agent {agent}",
            start_time=at,
            attributes=attributes("agent", "run", agent, gen_ai__conversation__id=f"c-{number}"),
            links=[Link(SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1)), {"why": "a test"})],
        )
        within = set_span_in_context(run)
        others.start_span("SELECT", within, start_time=at).end(at + SECOND)
        chat = tracer.start_span(
            "chat scripted",
            within,
            kind=SpanKind.CLIENT,
            start_time=at + SECOND,
            attributes=attributes("model", "request", agent, gen_ai__request__model="scripted"),
        )
        chat.set_attributes({
            "gen_ai.usage.input_tokens": 50 + number,
            "gen_ai.response.finish_reasons": ("stop", "length"),
            "gen_ai.request.temperature": 0.5,
            "gen_ai.input.messages": '[{"role":"user",  "parts":[]}]',
            "actionspan.tool_executed": False,
            "actionspan.outcome": "success",
        })  # fmt: skip
        chat.end(at + 2 * SECOND + number)
        for tool, outcome in (("lookup", "error"), ("refund", "success")):
            span = tracer.start_span(
                f"execute_tool {tool}",
                within,
                start_time=at + 3 * SECOND,
                attributes=attributes("tool", "execute", agent, gen_ai__tool__name=tool),
            )
            span.set_attribute("actionspan.action_id", str(_action_id(span.get_span_context())))
            span.set_attribute("actionspan.outcome", outcome)
            if outcome == "error":
                span.set_attribute("error.type", "ModelRetry")
                span.add_event("exception", {"exception.type": "ModelRetry"}, at + 4 * SECOND)
                span.set_status(StatusCode.ERROR, "no")
            span.end(at + 4 * SECOND)
        run.set_attribute("actionspan.outcome", "success")
        run.end(at + 90 * SECOND)  # after the next one has begun


def _action_id(context: SpanContext) -> Any:
    from uuid import UUID

    return UUID(int=((context.trace_id & (2**64 - 1)) << 64) | context.span_id)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": SERVICE, "host.cpus": 2}, "https://example.com/resource"),
        shutdown_on_exit=False,
    )
    began = (time.time_ns() // SECOND - 3_000) * SECOND
    with JsonlRecorder(tmp_path / "record") as recorder:
        provider.add_span_processor(RecorderSpanProcessor(recorder))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tell(provider, began)
    return Story(tmp_path / "record", exporter.get_finished_spans(), began)


@pytest.fixture
def tempo() -> Iterator[Tempo]:
    with Tempo() as server:
        yield server


@pytest.fixture
def jaeger() -> Iterator[Jaeger]:
    with Jaeger() as server:
        yield server


@pytest.fixture(params=["tempo", "jaeger"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each of them."""
    return request.getfixturevalue(request.param)


def recorder_of(backend: Backend, **arguments: Any) -> BackendRecorder:
    if isinstance(backend, Jaeger):
        return JaegerRecorder(backend.url, **{"service": SERVICE, **arguments})
    return TempoRecorder(backend.url, **arguments)


def kept(event: dict[str, Any]) -> dict[str, Any]:
    """What a tracing backend can keep of an event: not its place in a segment, nor the flags, which are not sent."""
    kept = {name: value for name, value in event.items() if name not in ("seq", "flags")}
    if "links" in kept:
        kept["links"] = [{name: value for name, value in link.items() if name != "flags"} for link in kept["links"]]
    return kept

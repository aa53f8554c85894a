"""A record to write to, and a tracer whose spans are actions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from actionspan.recorder import JsonlRecorder, RecorderSpanProcessor

RESOURCE = Resource({"service.name": "tests", "host.cpus": 2}, "https://example.com/resource")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "rec"


@pytest.fixture
def recorder(directory: Path) -> Iterator[JsonlRecorder]:
    with JsonlRecorder(directory) as recorder:
        yield recorder


@pytest.fixture
def exported() -> InMemorySpanExporter:
    """What an exporter beside the recorder got."""
    return InMemorySpanExporter()


@pytest.fixture
def tracer(recorder: JsonlRecorder, exported: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(RecorderSpanProcessor(recorder))
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return provider.get_tracer("actionspan", "0.1.0", "https://example.com/schema", {"edition": "test"})


def action(namespace: str, operation: str, **attributes: Any) -> dict[str, Any]:
    """The creation attributes of an action; in names, `__` stands for a dot."""
    return {
        "actionspan.namespace": namespace,
        "actionspan.operation": operation,
        "actionspan.attempt": 1,
        **{name.replace("__", "."): value for name, value in attributes.items()},
    }


def on_the_wire(span: ReadableSpan) -> Any:
    """The span as OTLP sends it; the order of attributes says nothing."""
    request = encode_spans([span])
    sent = request.resource_spans[0].scope_spans[0].spans[0]
    sent.attributes.sort(key=lambda attribute: attribute.key)
    return request


def kinds(events: Any) -> list[str]:
    return [event["kind"] for event in events]


def segments(directory: Path) -> list[Path]:
    """The segment files by name, compressed ones too."""
    return sorted(directory.glob("actions-*"))

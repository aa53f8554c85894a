"""A collector that is dead when the process ends holds it no longer than the variables of each signal say.

The SDK alone gives each signal 30 s, or as long as its exporter retries.
"""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, InMemoryMetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actionspan import PydanticAIInstrumentor
from actionspan.instrumentor import _exit
from actionspan.telemetry.compat import export_timeout_of, worker_of

SECONDS = 20
"""Three signals of 1 s each, on a slow machine; the SDK alone takes 30 s."""
TIMEOUTS = ("OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BLRP_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_TIMEOUT")

APPLICATION = """
import logging
from opentelemetry import _logs
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

Agent(TestModel(), name="a").run_sync("go")
_logs.get_logger("app").emit(_logs.LogRecord(timestamp=1, body="said"))
print("ended", flush=True)
"""


@pytest.fixture(params=["refused", "silent"])
def collector(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where nobody listens, or somebody who accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_dead_collector_does_not_hold_the_exit(tmp_path: Path, collector: str, protocol: str):
    environ = {
        **os.environ,
        **dict.fromkeys(TIMEOUTS, "1000"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_BSP_SCHEDULE_DELAY": "86400000",
        "ACTIONSPAN_RECORD": "rec",
    }
    command = [Path(sysconfig.get_path("scripts")) / "opentelemetry-instrument", sys.executable, "-c", APPLICATION]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ended\n"
        ended = time.monotonic()
        process.communicate(timeout=300)
    assert process.returncode == 0
    assert time.monotonic() - ended < SECONDS
    assert len(list((tmp_path / "rec").iterdir())) == 1


class Joined:
    """A thread in whose place the wait for it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, processor: object) -> None:
        self.waits: list[float | None] = []
        worker = worker_of(processor)
        assert worker is not None
        join = worker.join

        def told(timeout: float | None = None) -> None:
            self.waits.append(None if timeout is None else round(timeout, 1))
            join(timeout)

        monkeypatch.setattr(worker, "join", told)


@pytest.mark.parametrize(
    ("own", "waits"), [(2000, [2.0, 0.5]), (30_000, [30.0]), (60_000, [30.0]), (0, [30.0]), (-1, [30.0])]
)
def test_the_export_timeout_bounds_it_where_it_is_shorter_than_the_sdks_30_seconds(
    monkeypatch: pytest.MonkeyPatch, own: int, waits: list[float]
):
    PydanticAIInstrumentor().instrument()
    processor = BatchSpanProcessor(InMemorySpanExporter(), export_timeout_millis=own)
    joined = Joined(monkeypatch, processor._batch_processor)
    processor.shutdown()
    assert joined.waits == waits


def test_a_shorter_time_that_somebody_gives_is_the_one_meant(monkeypatch: pytest.MonkeyPatch):
    PydanticAIInstrumentor().instrument()
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=io.StringIO()), 3.6e6, export_timeout_millis=5000)
    joined = Joined(monkeypatch, reader)
    reader.shutdown(timeout_millis=3000)
    assert joined.waits == [3.0]


def test_uninstrumented_the_sdk_is_as_it_was(monkeypatch: pytest.MonkeyPatch):
    before = [owner.__dict__["shutdown"] for owner in _exit._exporting()]
    PydanticAIInstrumentor().instrument()
    during = [owner.__dict__["shutdown"] for owner in _exit._exporting()]
    PydanticAIInstrumentor().uninstrument()
    assert [owner.__dict__["shutdown"] for owner in _exit._exporting()] == before
    assert all(ours is not theirs for ours, theirs in zip(during, before, strict=True))
    processor = BatchSpanProcessor(InMemorySpanExporter(), export_timeout_millis=2000)
    joined = Joined(monkeypatch, processor._batch_processor)
    processor.shutdown()
    assert joined.waits == [30.0]


def test_the_private_names_of_the_sdk_are_there():
    assert len(list(_exit._exporting())) == 2
    processor = BatchSpanProcessor(InMemorySpanExporter(), export_timeout_millis=2000)
    assert type(processor._batch_processor) in list(_exit._exporting())
    assert export_timeout_of(processor._batch_processor) == 2000
    processor.shutdown()
    assert export_timeout_of(InMemoryMetricReader()) is None
    assert worker_of(InMemoryMetricReader()) is None

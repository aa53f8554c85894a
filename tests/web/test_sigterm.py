"""What a server that is told to stop had not sent yet: lost by default, sent by the hook, in the record either way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actionspan.recorder import read
from web.collector import Collector
from web.servers import Server, until

A_DAY = {"OTEL_BSP_SCHEDULE_DELAY": str(86_400_000)}
"""The batch is sent when the process ends, or never."""


def test_uvicorn_without_the_hook_loses_the_batch_and_the_record_has_it(
    serve: Callable[..., Server], collector: Collector, tmp_path: Path
):
    record = tmp_path / "record"
    # --lifespan off leaves the example's hook out
    server = serve(
        "uvicorn", "app:app", "--port", "{port}", "--lifespan", "off", ACTIONSPAN_RECORD=str(record), **A_DAY
    )
    trace = str(server.ask()["trace"])
    assert server.stop() == -signal.SIGTERM
    assert collector.spans == []
    ended = [event["kind"] for event in read(record).query() if event.get("phase", "start") != "start"]
    assert ended == ["model.request.end", "tool.validate.end", "tool.execute.end", "model.request.end", "agent.run.end"]
    assert {event["trace_id"] for event in read(record).query()} == {trace}


def test_uvicorn_with_the_hook_sends_it(serve: Callable[..., Server], collector: Collector):
    server = serve("uvicorn", "app:app", "--port", "{port}", **A_DAY)
    trace = str(server.ask()["trace"])
    assert server.stop() == -signal.SIGTERM
    assert len(collector.trace(trace)) == 6


def test_a_gunicorn_worker_ends_by_returning_so_nothing_is_lost(serve: Callable[..., Server], collector: Collector):
    server = serve("gunicorn", "app:app", "--bind", "127.0.0.1:{port}", "--worker-class", "asgi", **A_DAY)
    trace = str(server.ask()["trace"])
    assert server.stop() == 0
    until(lambda: len(collector.trace(trace)) == 6, "six spans")


class TestADeadCollector:
    """It takes what it is sent and never answers; an export would wait for it an hour."""

    @pytest.fixture
    def variables(self) -> Iterator[dict[str, str]]:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(16)
            endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
            yield {**A_DAY, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}

    def test_the_hook_waits_for_it_as_long_as_it_says(
        self, serve: Callable[..., Server], variables: dict[str, str], tmp_path: Path
    ):
        record = tmp_path / "record"
        server = serve("uvicorn", "app:app", "--port", "{port}", ACTIONSPAN_RECORD=str(record), **variables)
        server.ask()
        assert server.stop() == -signal.SIGTERM
        assert len(list(read(record).query(kind="*.end"))) == 5

    def test_a_gunicorn_worker_ends_when_the_variable_says(
        self, serve: Callable[..., Server], variables: dict[str, str], tmp_path: Path
    ):
        record = tmp_path / "record"
        command = ("gunicorn", "app:app", "--bind", "127.0.0.1:{port}", "--worker-class", "asgi")
        bounded = {**variables, "ACTIONSPAN_RECORD": str(record), "OTEL_BSP_EXPORT_TIMEOUT": "1000"}
        server = serve(*command, "--graceful-timeout", "300", **bounded)
        server.ask()
        told = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - told < 20  # the SDK alone takes 30 s
        assert len(list(read(record).query(kind="*.end"))) == 5


SCRIPT = """
import signal, sys
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

HOOK
Agent(TestModel(), name="a").run_sync("go")
print("ran", flush=True)
signal.pause()
"""
HOOK = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))"


def test_a_script_loses_the_batch_unless_the_signal_becomes_an_exit(tmp_path: Path, collector: Collector):
    loader = Path(sys.executable).with_name("opentelemetry-instrument")
    quiet = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    target = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}

    def names_after(script: str) -> list[str]:
        collector.spans.clear()
        command = [loader, sys.executable, "-c", script]
        environ = {**os.environ, **quiet, **target, **A_DAY}
        with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ran\n"
            process.terminate()
        return [span.name for span in collector.spans]

    assert names_after(SCRIPT.replace("HOOK", "")) == []
    assert names_after(SCRIPT.replace("HOOK", HOOK)) == ["invoke_agent a", "chat test"]

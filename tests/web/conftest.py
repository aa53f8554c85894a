"""Servers as they are deployed, each a process of its own, and what arrives at a collector.

Collected where the web frameworks are: `make test` makes an environment with them.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from web.collector import Collector
from web.servers import APP, SECONDS, Server, free_port, until

collect_ignore_glob = [] if find_spec("fastapi") and find_spec("gunicorn") else ["test_*.py"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def serve(tmp_path: Path, collector: Collector) -> Iterator[Callable[..., Server]]:
    """Starts `opentelemetry-instrument {command}` in the example's directory; `{port}` in it becomes the port."""
    started: list[Server] = []

    def start(*command: str, **variables: str) -> Server:
        port = free_port()
        scripts = sysconfig.get_path("scripts")
        environ = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            **variables,
        }
        output = tmp_path / "server.txt"
        words = ["opentelemetry-instrument", *(word.format(port=port) for word in command)]
        with output.open("wb") as log:
            process = subprocess.Popen(words, cwd=APP, env=environ, stdout=log, stderr=subprocess.STDOUT)
        server = Server(process, port, output)
        started.append(server)
        until(server.answers, f"a listener on port {port}")
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(SECONDS)

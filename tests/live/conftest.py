"""A real backend: Arize Phoenix with SQLite, in an environment of its own that is kept between runs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-phoenix"
SECONDS = 300
"""How long it may take to start: its first start compiles a large package and makes the tables."""


@dataclass(frozen=True)
class Phoenix:
    """Where it listens."""

    http: str
    """OTLP over HTTP, and the REST API."""
    grpc: str


def spans_of(phoenix: Phoenix, project: str, count: int) -> list[dict[str, Any]]:
    """The spans of a project, oldest first, as soon as there are `count` of them."""
    url = f"{phoenix.http}/v1/projects/{project}/spans?limit=1000"
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                found = json.load(response)["data"]
        except urllib.error.HTTPError as error:
            error.close()
            found = []  # the project is made by its first span
        if len(found) >= count:
            return sorted(found, key=lambda span: (span["start_time"], span["context"]["span_id"]))
        if time.monotonic() > deadline:
            pytest.fail(f"{len(found)} of {count} spans are in {project}: {[span['name'] for span in found]}")
        time.sleep(0.2)


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    """Phoenix, listening on free ports."""
    program = _installed()
    directory = tmp_path_factory.mktemp("phoenix")
    port, grpc_port = _free_ports(2)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PHOENIX_", "OTEL_"))},
        "PHOENIX_WORKING_DIR": str(directory),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    }
    output = directory / "output.txt"
    with output.open("wb") as log:
        process = subprocess.Popen([program, "serve"], env=environ, stdout=log, stderr=log, cwd=directory)
    try:
        backend = Phoenix(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{grpc_port}")
        deadline = time.monotonic() + SECONDS
        while not _answers(backend):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"Phoenix did not start: {output.read_text()}")
            time.sleep(0.2)
        yield backend
    finally:
        process.terminate()
        process.wait(60)


def _installed() -> Path:
    """Phoenix's program, installed on the first use."""
    program = HOME / "bin" / "phoenix"
    marker = HOME / ".installed"
    if not marker.exists():
        beside = Path(sys.executable).with_name("uv")
        uv = shutil.which("uv") or (str(beside) if beside.exists() else None)
        if uv is not None:
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, HOME], check=True)
            install = [uv, "pip", "install", "--quiet", "--python", HOME / "bin" / "python"]
        else:
            subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
            install = [HOME / "bin" / "pip", "install", "--quiet"]
        compiled = {**os.environ, "UV_COMPILE_BYTECODE": "1"}
        subprocess.run([*install, "arize-phoenix>=20.26,<21"], check=True, env=compiled)
        marker.touch()
    return program


def _answers(backend: Phoenix) -> bool:
    try:
        with urllib.request.urlopen(f"{backend.http}/healthz", timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()

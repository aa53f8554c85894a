"""A server of the example, and looking at what it does without waiting blindly."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "examples" / "web_service"
SECONDS = 120
"""How long anything may take before a test fails: a deadline, never a wait."""


def until(look: Callable[[], object], what: str) -> None:
    """Return as soon as `look()` is true; fail when it never becomes so."""
    deadline = time.monotonic() + SECONDS
    while not look():
        if time.monotonic() > deadline:
            pytest.fail(f"never happened: {what}")
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """A server process that answers on a port of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, output: Path) -> None:
        self.process = process
        self.port = port
        self.output = output

    def request(self, method: str, path: str) -> http.client.HTTPResponse:
        """The response, read to its end (`.text`)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            response.text = response.read().decode()  # type: ignore[attr-defined] # read before the connection closes
            return response
        finally:
            connection.close()

    def ask(self) -> dict[str, object]:
        """What the plain route answers."""
        answer = json.loads(self.request("GET", "/ask").text)
        assert answer["answer"] == "Your parcel is in Utrecht."
        return answer

    def answers(self) -> bool:
        """Whether somebody listens; fails when the process has gone."""
        if self.process.poll() is not None:
            pytest.fail(f"the server ended: {self.output.read_text()}")
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> int:
        """Tell it to stop as a container runtime does; its return code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

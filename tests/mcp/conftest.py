"""Servers to talk to, and a provider that FastMCP's and the SDK's own spans reach as well."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry import trace

from actionspan.testing import Capture

sys.path.insert(0, str(Path(__file__).parent / "support"))

from mcp_servers import MCP2, build_server, serve  # the path is added above


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """The port of an HTTP server."""
    with serve(build_server().http_app(path="/private-path")) as port:
        yield port


@pytest.fixture
def with_theirs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Capture], None]:
    """Sends the spans that FastMCP and the SDK make, which go to the global provider, where ours go."""

    def send_to(seen: Capture) -> None:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", seen.tracer_provider)
        if MCP2:
            # A tracer that was made before a provider was set keeps the first one it finds.
            monkeypatch.setattr("mcp.shared._otel._tracer", seen.tracer_provider.get_tracer("mcp-python-sdk"))

    return send_to

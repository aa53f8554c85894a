"""The URL of an OTLP receiver: made whole, and tried before anything depends on it."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit

__all__ = ["check_reachable", "traces_endpoint"]

_PATH: Final = "/v1/traces"
_PORTS: Final = {"http": 80, "https": 443, "grpc": 4317, "grpcs": 443}
_TIMEOUT: Final = 5
"""Seconds; a receiver that is named by hand is near, or wrong."""


def traces_endpoint(url: str) -> str:
    """`url` with the path of traces, unless it has a path already; `ValueError` when it is no HTTP URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not a URL like http://localhost:4318")
    return url if parts.path not in ("", "/") else url.rstrip("/") + _PATH


def check_reachable(url: str) -> None:
    """Raise `ConnectionError` when nobody listens there: to know it before the work is better than after it.

    `ValueError` for an address of another kind.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is not a URL like http://localhost:4318: {', '.join(_PORTS)} are understood")
    port = parts.port or _PORTS[parts.scheme]
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_TIMEOUT).close()
    except OSError as error:
        raise ConnectionError(f"nothing answers at {url}: {error.strerror or error}") from None

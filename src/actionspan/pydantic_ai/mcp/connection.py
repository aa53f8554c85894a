"""What is known of a connection: who is at the other end, what it has declared, and what is on the way to it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from actionspan import guard
from actionspan.telemetry.mcp_operations import PROMPTS_GET, PROMPTS_LIST, TOOLS_CALL, TOOLS_LIST, McpPeer, McpRequest
from actionspan.telemetry.span import ActionSpan

if TYPE_CHECKING:
    from actionspan.pydantic_ai.mcp.operation import Operation

__all__ = ["Connecting", "Connection", "connecting", "connection_of", "known_connection", "peer_of"]


@dataclass(slots=True, eq=False)
class Connection:
    """The state of one session. It refers to nothing that refers to the session, which must be free to go."""

    peer: McpPeer = field(default_factory=McpPeer)
    in_flight: list[Operation | None] = field(default_factory=list["Operation | None"])
    """Requests without an answer yet; None for one that is no action."""
    _declared: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])

    @contextmanager
    def sending(self, operation: Operation | None) -> Generator[None]:
        """A request is on its way within this block."""
        self.in_flight.append(operation)
        try:
            yield
        finally:
            self.in_flight.remove(operation)

    def declares(self, request: McpRequest) -> bool:
        """Whether the server said that it has what `request` is aimed at."""
        return request.target in self._declared.get(request.method, ())

    def learn(self, request: McpRequest, result: Any) -> None:
        """Keep the names that a list or a served prompt declares; a first page replaces what was known."""
        if request.method in _LISTED:
            kept, attribute = _LISTED[request.method]
            found = {item.name for item in getattr(result, attribute, ())}
            first = request.payload.get("cursor") is None
            self._declared[kept] = found if first else self._declared.get(kept, set()) | found
        elif request.method == PROMPTS_GET and request.target is not None:
            self._declared.setdefault(PROMPTS_GET, set()).add(request.target)


_LISTED: Final = {TOOLS_LIST: (TOOLS_CALL, "tools"), PROMPTS_LIST: (PROMPTS_GET, "prompts")}
"""For each list, the method its names are used with and the field of the result that holds them."""

_connections: Final[WeakKeyDictionary[Any, Connection]] = WeakKeyDictionary()


def connection_of(session: Any) -> Connection:
    """The state of `session`; one that belongs to nobody for None."""
    if session is None:
        return Connection()
    connection = _connections.get(session)
    if connection is None:
        connection = _connections[session] = Connection()
    return connection


def known_connection(session: Any) -> Connection | None:
    """The state of `session`, where something of it was seen."""
    return _connections.get(session)


def peer_of(transport: Any, version: str | None = None) -> McpPeer:
    """Who a FastMCP transport leads to: a command's pipe, a URL's host and port, or nobody outside this process."""
    transport = getattr(transport, "transport", transport)  # a configuration of one server has a transport inside
    session_id = guard.call("mcp.session_id", lambda: transport.get_session_id())
    url = getattr(transport, "url", None)
    if isinstance(url, str):
        return McpPeer("tcp", *_address_of(url), session_id, version)
    return McpPeer("pipe" if isinstance(getattr(transport, "command", None), str) else None, protocol_version=version)


def _address_of(url: str) -> tuple[str | None, int | None]:
    """Host and port; the rest of a URL is content."""
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None, None


_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Connecting:
    """A client that is being connected: its handshake runs in a task of the session's own."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.over = False
        self.interrupted: list[tuple[ActionSpan, int]] = []
        """Handshakes that were cancelled, with their end times: by what, only the client knows."""

    def peer(self, version: str | None) -> McpPeer:
        """Who is being connected to."""
        return peer_of(self.transport, version)


connecting: ContextVar[Connecting | None] = ContextVar("actionspan_mcp_connecting", default=None)
"""The client whose handshake this is; the session's task gets it with the context it is started in."""

"""The MCP SDK's client session: its handshake, what it sends, what the server asks of it, and its own spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from actionspan import guard
from actionspan.pydantic_ai.mcp.compat import method_of, next_request_id, params_of, sdk_request
from actionspan.pydantic_ai.mcp.connection import Connecting, connecting, connection_of, known_connection
from actionspan.pydantic_ai.mcp.operation import Operation, current_operation, new_operation
from actionspan.pydantic_ai.run import RunTracker, current_tracker
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.mcp_operations import DISCOVER, INITIALIZE, METHODS, McpPeer, McpRequest

__all__ = ["discover", "drop_sdk_spans", "from_server", "initialize", "sdk_span", "send_request"]

Wrapped = Callable[..., Any]


# --- the handshake ---


async def initialize(wrapped: Wrapped, session: Any, args: Any, kwargs: Any) -> Any:
    """`ClientSession.initialize`, which answers from memory when it has been done."""
    operation = guard.call("mcp.start", lambda: _handshake(session, McpRequest(INITIALIZE)))
    if operation is None:
        return await wrapped(*args, **kwargs)
    return await operation.around(lambda: wrapped(*args, **kwargs))


async def discover(wrapped: Wrapped, session: Any, args: Any, kwargs: Any) -> Any:
    """`ClientSession.send_discover` (2.x): one question to a server, at the version it is asked with."""
    operation = guard.call("mcp.start", lambda: _discovery(session, *args, **kwargs))
    if operation is None:
        return await wrapped(*args, **kwargs)
    with _in_flight(session, operation):
        return await operation.around(lambda: wrapped(*args, **kwargs))


def _discovery(session: Any, version: str, *_: Any, **__: Any) -> Operation | None:
    operation = _handshake(session, McpRequest(DISCOVER, payload={"version": version}), version)
    if operation is not None:
        operation.begin()
    return operation


def _handshake(session: Any, request: McpRequest, version: str | None = None) -> Operation | None:
    during = connecting.get()
    during = None if during is None or during.over else during
    operation = new_operation(request, session, during)
    if operation is not None:
        operation.connection.peer = _peer(during, version)
    return operation


def _peer(during: Connecting | None, version: str | None) -> McpPeer:
    return McpPeer(protocol_version=version) if during is None else during.peer(version)


# --- what it sends ---


async def send_request(wrapped: Wrapped, session: Any, args: Any, kwargs: Any) -> Any:
    """`ClientSession.send_request`: what goes out for an operation, or an operation that nobody announced."""
    operation, announced = guard.call("mcp.send", lambda: _sending(session, *args, **kwargs), (None, False))

    def call() -> Awaitable[Any]:
        guard.call("mcp.send", lambda: _identify(operation, session))
        return wrapped(*args, **kwargs)

    with _in_flight(session, operation):
        if operation is None:
            return await call()
        return await (operation.sent(call) if announced else operation.around(call))


def _sending(session: Any, request: Any, *_: Any, **__: Any) -> tuple[Operation | None, bool]:
    """The operation that `request` is for, and whether somebody announced it."""
    method = method_of(request)
    current = current_operation()
    if current is not None and not current.over and current.session is session and current.request.method == method:
        return current, True
    if method not in METHODS:
        return None, False
    operation = new_operation(_request_of(method, params_of(request)), session)
    if operation is not None:
        operation.begin()
    return operation, False


def _request_of(method: str, params: Any) -> McpRequest:
    uri = getattr(params, "uri", None)
    stated = {"uri": None if uri is None else str(uri)}
    stated |= {name: getattr(params, name, None) for name in ("name", "arguments", "cursor")}
    payload = {name: value for name, value in stated.items() if value is not None}
    return McpRequest(method, payload.get("name"), payload.get("uri"), payload)


def _identify(operation: Operation | None, session: Any) -> None:
    number = next_request_id(session)
    if operation is not None and number is not None:
        operation.identified(number)


def _in_flight(session: Any, operation: Operation | None) -> AbstractContextManager[None]:
    connection = guard.call("mcp.send", lambda: connection_of(session))
    return nullcontext() if connection is None else connection.sending(operation)


# --- what the server asks of it ---


async def from_server(wrapped: Wrapped, session: Any, args: Any, kwargs: Any) -> Any:
    """Sampling, elicitation, roots: the answer is made by code of the application, which may run agents."""
    place = guard.call("mcp.from_server", lambda: _place_of_answer(session))
    if place is None:
        return await wrapped(*args, **kwargs)
    context, tracker = place
    token = otel_context.attach(context)
    outer = current_tracker.set(tracker)
    try:
        return await wrapped(*args, **kwargs)
    finally:
        guard.call("context", lambda: current_tracker.reset(outer))
        guard.call("context", lambda: otel_context.detach(token))


def _place_of_answer(session: Any) -> tuple[Context, RunTracker | None] | None:
    """Where the answer belongs; None: where it is.

    The session reads in a task that was started when it was connected, so what is current there is whoever connected,
    who may have nothing to do with the call that the server asks for.
    """
    connection = known_connection(session)
    if connection is None or active_pipeline() is None:
        return None
    current = current_operation()
    if current is not None and current.session is session and not current.over:
        return None  # a round of that very call, or a message that carries its context
    only = connection.in_flight[0] if len(connection.in_flight) == 1 else None
    if only is None or only.action is None:
        return Context(), None
    return only.action.context, only.tracker


# --- the SDK's own spans ---


def sdk_span(wrapped: Wrapped, _: Any, args: Any, kwargs: Any) -> Any:
    """The SDK's client span (2.x), which alone knows the request's id; for an operation of ours it may be left out."""
    twice = guard.call("mcp.sdk_span", lambda: _is_ours(*sdk_request(kwargs)), False)
    # Not the current span in its place: the SDK would write the server's error text on it.
    return nullcontext(INVALID_SPAN) if twice and _drop_sdk_spans else wrapped(*args, **kwargs)


def _is_ours(method: str | None, request_id: str | None) -> bool:
    operation = current_operation()
    if operation is None or operation.action is None or operation.request.method != method:
        return False
    if request_id is not None:
        operation.identified(request_id)
    return True


_drop_sdk_spans = False


def drop_sdk_spans(drop: bool) -> None:
    """Leave the SDK's client span out where there is one of ours for the same request, or keep it."""
    global _drop_sdk_spans
    _drop_sdk_spans = drop

"""FastMCP's client: its calls, its connecting, and its own spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span

from actionspan import guard
from actionspan.pydantic_ai.compat import causes
from actionspan.pydantic_ai.mcp.compat import protocol_version_of
from actionspan.pydantic_ai.mcp.connection import Connecting, connecting, peer_of
from actionspan.pydantic_ai.mcp.endings import ending_of_failure
from actionspan.pydantic_ai.mcp.operation import Operation, current_operation, new_operation
from actionspan.pydantic_ai.outcomes import interrupted
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.mcp_operations import (
    PROMPTS_GET,
    PROMPTS_LIST,
    RESOURCES_LIST,
    RESOURCES_READ,
    RESOURCES_TEMPLATES_LIST,
    TOOLS_CALL,
    TOOLS_LIST,
    McpRequest,
)

__all__ = ["CALLS", "client_tracer", "connect"]

Describe = Callable[..., McpRequest]
Wrapper = Callable[..., Any]


def _list(method: str) -> Describe:
    def describe(*_: Any, cursor: str | None = None, **__: Any) -> McpRequest:
        return McpRequest(method, payload={} if cursor is None else {"cursor": cursor})

    return describe


def _call(name: str, arguments: Any = None, *_: Any, **__: Any) -> McpRequest:
    return McpRequest(TOOLS_CALL, name, payload={"name": name, "arguments": arguments})


def _read(uri: Any, *_: Any, **__: Any) -> McpRequest:
    return McpRequest(RESOURCES_READ, uri=str(uri), payload={"uri": str(uri)})


def _get(name: str, arguments: Any = None, *_: Any, **__: Any) -> McpRequest:
    return McpRequest(PROMPTS_GET, name, payload={"name": name, "arguments": arguments})


def _wrapper(describe: Describe, *, cached: bool) -> Wrapper:
    """A wrapper of a client's method. What may come from the client's cache is an action only when it is sent."""

    async def wrapper(wrapped: Callable[..., Any], client: Any, args: Any, kwargs: Any) -> Any:
        operation = guard.call("mcp.start", lambda: _operation_of(client, describe(*args, **kwargs), cached))
        if operation is None:
            return await wrapped(*args, **kwargs)
        return await operation.around(lambda: wrapped(*args, **kwargs))

    return wrapper


CALLS: Final[Mapping[str, Wrapper]] = {
    "list_tools_mcp": _wrapper(_list(TOOLS_LIST), cached=True),
    "list_resources_mcp": _wrapper(_list(RESOURCES_LIST), cached=True),
    "list_resource_templates_mcp": _wrapper(_list(RESOURCES_TEMPLATES_LIST), cached=True),
    "list_prompts_mcp": _wrapper(_list(PROMPTS_LIST), cached=True),
    "call_tool_mcp": _wrapper(_call, cached=False),
    "read_resource_mcp": _wrapper(_read, cached=False),
    "get_prompt_mcp": _wrapper(_get, cached=False),
}
"""The methods of `fastmcp.client.Client` that send one operation each, and what to put around them."""


def _operation_of(client: Any, request: McpRequest, cached: bool) -> Operation | None:
    operation = new_operation(request, client.session if client.is_connected() else None)
    if operation is not None:
        version = getattr(client, "protocol_version", None) or protocol_version_of(client.initialize_result)
        operation.connection.peer = peer_of(client.transport, version)
        operation.client_span_due = True
        if not cached:
            operation.begin()
    return operation


# --- connecting ---


async def connect(wrapped: Callable[..., Any], client: Any, args: Any, kwargs: Any) -> Any:
    """`Client.__aenter__`: the handshake it makes belongs to whoever connects, and so does how that ends."""
    during = Connecting(client.transport)
    token = connecting.set(during)
    try:
        entered = await wrapped(*args, **kwargs)
    except BaseException as error:
        _settle(during, error)
        raise
    finally:
        during.over = True
        guard.call("context", lambda: connecting.reset(token))
    return entered


def _settle(during: Connecting, error: BaseException) -> None:
    """End the handshakes that were cancelled with what the client says of it."""
    for action, end_ns in during.interrupted:
        if interrupted(error):
            action.interrupt(error)
        else:
            action.finish(guard.call("mcp.end", lambda: _ending_of_connect(error), Ending.failure()), end_ns=end_ns)


def _ending_of_connect(error: BaseException) -> Ending:
    if any(isinstance(cause, TimeoutError) for cause in causes(error)):
        return Ending.timeout("connect_timeout")
    return ending_of_failure(error)


# --- FastMCP's own spans ---


class _Transparent(NoOpTracer):
    """Makes no span and leaves the context alone, so that what is current stays current and is what is sent."""

    def start_as_current_span(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Span]:  # type: ignore[override] # stricter than needed
        return nullcontext(INVALID_SPAN)


_TRANSPARENT: Final = _Transparent()


def client_tracer(wrapped: Callable[..., Any], _: Any, args: Any, kwargs: Any) -> Any:
    """The tracer of FastMCP's client: its span for an operation of ours would be the same one again."""
    operation = current_operation()
    if operation is not None and operation.client_span_due:
        operation.client_span_due = False
        return _TRANSPARENT
    return wrapped(*args, **kwargs)

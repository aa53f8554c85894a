"""What we know of the MCP SDK (1.x and 2.x) and FastMCP (3.x and 4.x) beyond one generation's documented names.

Each private name has a test that fails when it goes. Objects are read by attribute, never by class: importing a class
would import what the application may not have.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from actionspan.telemetry import names

__all__ = [
    "FASTMCP_TRACER",
    "FROM_SERVER",
    "SDK_SPAN",
    "http_code",
    "is_error_result",
    "method_of",
    "next_request_id",
    "params_of",
    "payload_of",
    "protocol_version_of",
    "rpc_code",
    "sdk_request",
]

FASTMCP_TRACER: Final = ("fastmcp.client.telemetry", "get_tracer")
"""Where FastMCP's client takes its tracer from.

Its server has another reference, so a client span can be left out without losing the span of a server in this process.
"""

SDK_SPAN: Final = ("mcp.shared.jsonrpc_dispatcher", "otel_span")
"""What the SDK (2.x only) makes its client span with. Its server spans come through another reference."""

FROM_SERVER: Final = ("dispatch_input_request", "_received_request")
"""The session's methods that answer a request of the server: of 2.x, and of 1.x."""


def method_of(request: Any) -> str | None:
    """The JSON-RPC method of a client request; 1.x wraps the request itself in a root model."""
    method = getattr(getattr(request, "root", request), "method", None)
    return method if isinstance(method, str) else None


def params_of(request: Any) -> Any:
    """The parameters of a client request, or None."""
    return getattr(getattr(request, "root", request), "params", None)


def next_request_id(session: Any) -> str | None:
    """The id that a 1.x session will give to its next request; 2.x says it when it makes its span."""
    number = getattr(session, "_request_id", None)
    return str(number) if type(number) is int else None


def sdk_request(arguments: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Method and id of the request that the SDK is about to make a span for, from the arguments it makes it with."""
    attributes: Mapping[str, Any] = arguments.get("attributes") or {}
    return attributes.get(names.MCP_METHOD_NAME), attributes.get(names.JSONRPC_REQUEST_ID)


def protocol_version_of(result: Any) -> str | None:
    """The version that the answer to `initialize` settled on."""
    version = _field(result, "protocol_version", "protocolVersion")
    return version if isinstance(version, str) else None


def _field(result: Any, name: str, wire_name: str) -> Any:
    """A field by its name in 2.x, else in 1.x: FastMCP 4 warns of the old name where both are to be had."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, wire_name, None)


def payload_of(result: Any) -> Any:
    """An answer as it came over the wire, whatever the generation calls its fields."""
    dump = getattr(result, "model_dump", None)
    return result if dump is None else dump(by_alias=True, exclude_unset=True, warnings=False)


def is_error_result(result: Any) -> bool:
    """Whether the result of a tool call says that the tool failed."""
    return _field(result, "is_error", "isError") is True


def rpc_code(error: BaseException) -> int | None:
    """The code of a JSON-RPC error, which 1.x and 2.x spell differently; None for any other exception."""
    exceptions = sys.modules.get("mcp.shared.exceptions")
    kind = getattr(exceptions, "MCPError", None) or getattr(exceptions, "McpError", None)
    if not isinstance(kind, type) or not isinstance(error, kind):
        return None
    code = getattr(getattr(error, "error", None), "code", None)
    return code if type(code) is int else None


def http_code(error: BaseException) -> int | None:
    """The status code of an HTTP error, of whichever client library the SDK uses."""
    if type(error).__name__ != "HTTPStatusError":
        return None
    code = getattr(getattr(error, "response", None), "status_code", None)
    return code if type(code) is int else None

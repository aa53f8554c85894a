"""How an MCP operation ended: the outcome table for what a server and its connection can do."""

from __future__ import annotations

from typing import cast

from actionspan.pydantic_ai.mcp.compat import http_code, is_error_result, rpc_code
from actionspan.pydantic_ai.outcomes import ending_of_error
from actionspan.telemetry.endings import Ending

__all__ = ["ending_of_failure", "ending_of_result"]


def ending_of_result(result: object) -> Ending:
    """An answer came. One that says `isError` is a failure of the tool, not of the protocol."""
    return Ending.failure(reason="tool_error") if is_error_result(result) else Ending.success()


def ending_of_failure(error: BaseException) -> Ending:
    """No answer came, or the server refused."""
    cause = _only_one(error)
    code = rpc_code(cause)
    if code is not None and isinstance(cause.__context__, TimeoutError):
        # The client's own deadline: it looks like an answer of the server, but for where it was raised.
        return Ending.timeout("request_timeout", error)
    if code is None:
        code = http_code(cause)
    return ending_of_error(error) if code is None else Ending.failure(error, code=str(code))


def _only_one(error: BaseException) -> BaseException:
    """The exception in a group of one, which is how a session's task group passes it on."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", inner).exceptions
        if len(members) != 1:
            return error
        (inner,) = members
    return inner

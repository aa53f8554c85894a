"""One MCP operation, from its call until its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from actionspan import guard
from actionspan.pydantic_ai.mcp.compat import payload_of, protocol_version_of, rpc_code
from actionspan.pydantic_ai.mcp.connection import Connecting, Connection, connection_of, peer_of
from actionspan.pydantic_ai.mcp.endings import ending_of_failure, ending_of_result
from actionspan.pydantic_ai.outcomes import interrupted
from actionspan.pydantic_ai.run import RunTracker, current_tracker
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.mcp_operations import (
    TOOLS_CALL,
    McpRequest,
    add_error_code,
    add_peer,
    add_request_id,
    add_response,
    add_target,
    runs_tool,
    start_mcp,
)
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan

__all__ = ["Operation", "current_operation", "new_operation"]

Call = Callable[[], Awaitable[Any]]

_operation: ContextVar[Operation | None] = ContextVar("actionspan_mcp_operation", default=None)


def current_operation() -> Operation | None:
    """The operation whose code is being executed."""
    return _operation.get()


def new_operation(request: McpRequest, session: Any, during: Connecting | None = None) -> Operation | None:
    """An operation on `session`, begun or not; None where nothing is to be traced."""
    pipeline = active_pipeline()
    if pipeline is None or not is_instrumentation_enabled():
        return None
    return Operation(pipeline, request, session, during)


class Operation:
    """A call that asks a server for something. It is an action once it has begun."""

    def __init__(self, pipeline: Pipeline, request: McpRequest, session: Any, during: Connecting | None) -> None:
        self.request: Final = request
        self.session: Final = session
        self.connection: Final[Connection] = connection_of(session)
        self.action: ActionSpan | None = None
        self.tracker: RunTracker | None = None
        self.client_span_due = False
        """FastMCP's client is about to make a span for the same call."""
        self.over = False
        """Its call has returned or failed; what was started in it may still be running, and is no part of it."""
        self._pipeline = pipeline
        self._during = during

    def begin(self) -> None:
        """Start its action, once."""
        if self.action is None:
            self.tracker = current_tracker.get()
            self.action = start_mcp(
                self._pipeline, self.request, self.connection.peer, declared=self._declared or self._is_tool_of_run
            )

    @property
    def _declared(self) -> bool:
        return self.connection.declares(self.request)

    @property
    def _is_tool_of_run(self) -> bool:
        """A tool of that name is being executed: it was declared, in another connection's list or by hand."""
        target = self.request.target
        return self.request.method == TOOLS_CALL and target is not None and runs_tool(target)

    async def around(self, call: Call) -> Any:
        """Make the call with this as the current operation, and end with it."""
        entered = _operation.set(self)
        token = None if self.action is None else self.action.attach()
        try:
            result = await call()
        except BaseException as error:
            self._leave(entered, token)
            self.failed(error)
            raise
        self._leave(entered, token)
        self.returned(result)
        return result

    def _leave(self, entered: Any, token: Any) -> None:
        self.over = True
        if self.action is not None:
            self.action.detach(token)
        guard.call("context", lambda: _operation.reset(entered))

    async def sent(self, call: Call) -> Any:
        """The request goes out, or goes out again: from here on there is something to show."""
        if self.action is not None:
            return await call()
        guard.call("mcp.start", self.begin)
        action: ActionSpan | None = self.action
        token = None if action is None else action.attach()
        try:
            return await call()
        finally:
            if action is not None:
                action.detach(token)

    def identified(self, request_id: str) -> None:
        """The request has this JSON-RPC id; a later round of the same operation has another."""
        if self.action is not None:
            add_request_id(self.action, request_id)

    # --- its end ---

    def returned(self, result: Any) -> None:
        """An answer came; from a cache, when it never began."""
        guard.call("mcp.end", lambda: self.connection.learn(self.request, result))
        action = self.action
        if action is None:
            return
        guard.call("mcp.end", lambda: self._describe(action, result))
        add_response(action, lambda: payload_of(result))
        action.finish(guard.call("mcp.end", lambda: ending_of_result(result), Ending.success()))

    def _describe(self, action: ActionSpan, result: Any) -> None:
        """What is known only now: whether the server has the target, and what a handshake settled on."""
        if self._declared:
            add_target(action, self.request)
        if self._during is not None:
            self.connection.peer = peer_of(self._during.transport, protocol_version_of(result))
            add_peer(action, self.connection.peer)

    def failed(self, error: BaseException) -> None:
        """No answer came, or not one that could be used."""
        if interrupted(error):
            self._interrupted(error)
            return
        guard.call("mcp.start", self.begin)
        if self.action is not None:
            self._fail(self.action, error)

    def _fail(self, action: ActionSpan, error: BaseException) -> None:
        code = guard.call("mcp.end", lambda: rpc_code(error))
        if code is not None:
            add_error_code(action, code)
        action.finish(guard.call("mcp.end", lambda: ending_of_failure(error), Ending.failure()))

    def _interrupted(self, error: BaseException) -> None:
        if self.action is None:
            return
        if self._during is not None and not self._during.over:
            self._during.interrupted.append((self.action, self.action.clock.now()))
        else:
            self.action.interrupt(error)

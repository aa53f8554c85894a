"""The least that tracing can cost: one plain span with four attributes wherever actionspan opens one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wrapt
from opentelemetry.instrumentation.utils import unwrap
from opentelemetry.trace import Tracer
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability

__all__ = ["install"]


class Floor(AbstractCapability[Any]):
    """Opens spans and nothing else."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    async def _spanned(self, name: str, namespace: str, operation: str, handler: Any, *arguments: Any) -> Any:
        attributes = {"namespace": namespace, "operation": operation, "name": name, "attempt": 1}
        with self._tracer.start_as_current_span(name, attributes=attributes):
            return await handler(*arguments)

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        return await self._spanned("invoke_agent", "agent", "run", handler)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        return await self._spanned("chat", "model", "request", handler, request_context)

    async def wrap_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await self._spanned(tool_def.name, "tool", "validate", handler, args)

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await self._spanned(tool_def.name, "tool", "execute", handler, args)


def install(tracer: Tracer) -> Callable[[], None]:
    """Add a `Floor` to every run, the way actionspan adds its capability; returns what takes it away."""

    def with_floor(wrapped: Any, instance: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        capabilities = [*(kwargs.get("capabilities") or ()), Floor(tracer)]
        return wrapped(*args, **{**kwargs, "capabilities": capabilities})

    wrapt.wrap_function_wrapper(Agent, "iter", with_floor)
    return lambda: unwrap(Agent, "iter")

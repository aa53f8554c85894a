"""The least that tracing can cost: one plain span with four attributes wherever actionspan opens one.

And, beside it, what the library charges for being asked at all the places where actionspan has to listen, and what
the SDK takes there for spans with as many attributes as ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import wrapt
from opentelemetry import context as otel_context
from opentelemetry.instrumentation.utils import unwrap
from opentelemetry.trace import Tracer, set_span_in_context
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

__all__ = ["install", "install_seams", "install_spans"]


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


class Seams(AbstractCapability[Any]):
    """Has every hook that actionspan's capability has, and does nothing in them."""

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        return await handler()

    async def wrap_node_run(self, ctx: Any, *, node: Any, handler: Any) -> Any:
        return await handler(node)

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        return await handler(request_context)

    def get_wrapper_model(self, model: Model) -> Model:
        return WrapperModel(model)

    async def wrap_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await handler(args)

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await handler(args)

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return args

    async def wrap_output_validate(self, ctx: Any, *, output_context: Any, output: Any, handler: Any) -> Any:
        return await handler(output)

    async def wrap_output_process(self, ctx: Any, *, output_context: Any, output: Any, handler: Any) -> Any:
        return await handler(output)


_ID: Final = "01a22d32-3626-7658-b0a3-d903d6201cfc"
_AT_CREATION: Final = {f"actionspan.attribute_{number}": _ID for number in range(12)} | {"a.step": 1, "an.attempt": 1}


class Spans(Floor, Seams):
    """Opens spans there with as many attributes as ours have, always the same, and knows nothing of what they say."""

    async def _spanned(self, name: str, namespace: str, operation: str, handler: Any, *arguments: Any) -> Any:
        span = self._tracer.start_span(name, attributes=_AT_CREATION.copy())
        span.set_attribute("actionspan.action_id", _ID)
        token = otel_context.attach(set_span_in_context(span))
        try:
            return await handler(*arguments)
        finally:
            otel_context.detach(token)
            span.set_attribute("actionspan.outcome", "success")
            span.end()


def install(tracer: Tracer) -> Callable[[], None]:
    """Add a `Floor` to every run; returns what takes it away."""
    return _added(lambda: Floor(tracer))


def install_seams() -> Callable[[], None]:
    """Add a `Seams` to every run; returns what takes it away."""
    return _added(Seams)


def install_spans(tracer: Tracer) -> Callable[[], None]:
    """Add a `Spans` to every run; returns what takes it away."""
    return _added(lambda: Spans(tracer))


def _added(make: Callable[[], AbstractCapability[Any]]) -> Callable[[], None]:
    """Add a capability to every run, the way actionspan adds its own."""

    def with_capability(wrapped: Any, instance: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        capabilities = [*(kwargs.get("capabilities") or ()), make()]
        return wrapped(*args, **{**kwargs, "capabilities": capabilities})

    wrapt.wrap_function_wrapper(Agent, "iter", with_capability)
    return lambda: unwrap(Agent, "iter")

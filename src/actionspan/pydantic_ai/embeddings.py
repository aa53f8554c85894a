"""Embedding requests: every public way of making one goes through `Embedder.embed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from pydantic_ai.embeddings import Embedder, EmbeddingResult

from actionspan import guard
from actionspan.pydantic_ai.around import around
from actionspan.pydantic_ai.compat import embedding_model
from actionspan.pydantic_ai.outcomes import ending_of_error, interrupted
from actionspan.pydantic_ai.run import current_tracker
from actionspan.telemetry import names
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import RunFacts, Usage, start_embeddings
from actionspan.telemetry.span import ActionSpan
from actionspan.telemetry.values import server_of

__all__ = ["embed"]


async def embed(
    wrapped: Callable[..., Any], instance: Embedder, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> EmbeddingResult:
    """`Embedder.embed`, as an action."""
    action = guard.call("embed.start", lambda: _start(instance, args, kwargs))
    if action is None:
        return await wrapped(*args, **kwargs)
    return await around(
        action, wrapped(*args, **kwargs), lambda error: _failed(action, error), lambda result: _done(action, result)
    )


def _start(embedder: Embedder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActionSpan | None:
    pipeline = active_pipeline()
    if pipeline is None or not is_instrumentation_enabled():
        return None
    tracker = current_tracker.get()
    asked = embedding_model(embedder)
    provider, model = _identity(asked)
    action = start_embeddings(
        pipeline,
        RunFacts() if tracker is None else tracker.facts,
        provider=provider,
        model=model,
        step=None if tracker is None else tracker.step,
        server=guard.call("model.server", lambda: server_of(getattr(asked, "base_url", None)), (None, None)),
    )
    inputs = args[0] if args else kwargs.get("inputs")
    action.add_content(
        "include_model_requests", names.REQUEST, lambda content: content.value(names.REQUEST, {"inputs": inputs})
    )
    return action


def _identity(model: Any) -> tuple[str | None, str | None]:
    """Provider and name; an embedder may still hold the string it will make its model from."""
    if isinstance(model, str):
        provider, _, name = model.rpartition(":")
        return provider or None, name
    return model.system, model.model_name


def _done(action: ActionSpan, result: EmbeddingResult) -> None:
    usage = Usage(input_tokens=result.usage.input_tokens, requests=1)
    tracker = current_tracker.get()
    if tracker is not None:
        tracker.totals.add(usage)
    action.set(
        {
            names.RESPONSE_MODEL: result.model_name,
            names.RESPONSE_ID: result.provider_response_id,
            names.USAGE_INPUT_TOKENS: usage.input_tokens,
            names.EMBEDDINGS_DIMENSIONS: len(result.embeddings[0]) if result.embeddings else None,
            names.COST_USD: _cost(result),
        }
    )
    action.finish(Ending.success())


def _cost(result: EmbeddingResult) -> float | None:
    if result.usage.cost is not None:
        return float(result.usage.cost)
    try:
        return float(result.cost().total_price)
    except (LookupError, ValueError):
        return None


def _failed(action: ActionSpan, error: BaseException) -> None:
    tracker = current_tracker.get()
    if tracker is not None:
        tracker.totals.requests += 1
    if interrupted(error):
        action.interrupt(error)
    else:
        action.finish(ending_of_error(error))

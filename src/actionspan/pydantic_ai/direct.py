"""Model requests made without an agent, through `pydantic_ai.direct`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from pydantic_ai.models import Model

from actionspan import guard
from actionspan.pydantic_ai.model import observe
from actionspan.pydantic_ai.run import RunTracker, current_tracker
from actionspan.telemetry.active import active_pipeline

__all__ = ["prepare_model"]


def prepare_model(
    wrapped: Callable[..., Model], instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Model:
    """The model that a direct request is about to use, observed. Within a run its tokens are the run's."""
    model = wrapped(*args, **kwargs)
    return guard.call("direct.model", lambda: _observed(model), model)


def _observed(model: Model) -> Model:
    pipeline = active_pipeline()
    if pipeline is None or not is_instrumentation_enabled():
        return model
    return observe(model, current_tracker.get() or RunTracker(pipeline, None), direct=True)

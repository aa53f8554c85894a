"""What this adapter knows of Pydantic AI beyond its documented names. Each has a test that fails when it goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_ai._run_context import get_current_run_context as current_run_context
from pydantic_ai.embeddings import Embedder
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    ToolFailedError,
    ToolRetryError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import RunContext

__all__ = [
    "MINIMUM_VERSION",
    "PREPARE_MODEL",
    "ToolFailedError",
    "ToolRetryError",
    "cancel_requested",
    "causes",
    "current_run_context",
    "dbos_position",
    "deferral_behind",
    "embedding_model",
    "is_library_wrapper",
    "refused_before_execution",
    "retries_exhausted",
    "supports_streaming",
    "tool_deadline_passed",
]

PREPARE_MODEL = "_prepare_model"
"""The function of `pydantic_ai.direct` that every request of it asks for its model; its public ones are imported by
name, and early, so that patching them would miss many."""

MINIMUM_VERSION = "2.64"


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from, outermost first; bounded, since a chain may be a ring."""
    current: BaseException | None = error
    for _ in range(16):
        if current is None:
            return
        yield current
        current = current.__cause__


def deferral_behind(error: BaseException) -> ApprovalRequired | CallDeferred | None:
    """The deferral that an argument validator raised: it arrives as a private exception caused by it."""
    for cause in causes(error):
        if isinstance(cause, (ApprovalRequired, CallDeferred)):
            return cause
    return None


def tool_deadline_passed(error: BaseException) -> BaseException | None:
    """The `TimeoutError` of a tool's own `timeout=`, which arrives as a retry that the library itself raised.

    A tool that catches a `TimeoutError` and asks for a retry looks the same but for the place it was raised.
    """
    for cause in causes(error):
        if isinstance(cause, ModelRetry) and isinstance(cause.__context__, TimeoutError):
            last = cause.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            if last is not None and str(last.tb_frame.f_globals.get("__name__")).startswith("pydantic_ai.toolsets"):
                return cause.__context__
    return None


def refused_before_execution(error: BaseException) -> bool:
    """Whether a `before_tool_execute` hook raised `error`: then the tool was not called.

    What it raised looks like what the tool raises but for the place.
    """
    stages = {"before_tool_execute", "call_tool", "on_tool_execute_error", "after_tool_execute"}
    return _first_of(stages, error) == "before_tool_execute"


def retries_exhausted(error: BaseException) -> bool:
    """Whether `error` is the library's, in place of a tool's request for a retry that would have been one too many.

    The same from a run within the tool has come through the tool.
    """
    return (
        isinstance(error, UnexpectedModelBehavior)
        and isinstance(error.__cause__, (ModelRetry, ValidationError))
        and _first_of({"call_tool"}, error) is None
    )


def _first_of(functions: set[str], error: BaseException) -> str | None:
    """The outermost of these functions that `error` came through.

    Further in are those of runs within the tool, and the places where the same exception was raised before.
    """
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in functions:
            return trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    return None


def cancel_requested(ctx: RunContext[Any]) -> bool:
    """Whether the run was asked to stop by its token or by itself, seen from inside, where that is a mere cancel."""
    return bool(getattr(getattr(ctx, "_cancellation", None), "cancel_requested", False))


def embedding_model(embedder: Embedder) -> Any:
    """The model that `embedder` asks now, or its name: `override` leaves its public `model` as it was."""
    override = getattr(embedder, "_override_model", None)
    return (None if override is None else override.get()) or embedder.model


def supports_streaming(model: Model) -> bool:
    """Whether the model's class implements `request_stream`, as the library itself decides it."""
    return type(model).request_stream is not Model.request_stream


def is_library_wrapper(model: Model) -> bool:
    """Whether `model` may be copied with another model inside.

    The library's own wrappers keep their state in objects that a shallow copy shares. An application's wrapper may
    count in plain attributes, and a copy would count for nobody.
    """
    return isinstance(model, (FallbackModel, WrapperModel)) and type(model).__module__.startswith("pydantic_ai.")


def dbos_position() -> int | None:
    """The number of the latest step that the current DBOS workflow has begun; None outside.

    DBOS tells only a step its number. The library reads the same to name a run.
    """
    module = sys.modules.get("dbos._context")
    context = None if module is None else module.get_local_dbos_context()
    return None if context is None or not context.workflow_id else context.function_id

"""The current action, carried in the OpenTelemetry context beside the current span.

A span of another library may stand between two actions; the context finds the enclosing action all the same, and it
follows tasks and threads exactly as spans do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from opentelemetry import context as otel_context
from opentelemetry.context import Context

if TYPE_CHECKING:
    from actionspan.telemetry.span import ActionSpan

__all__ = ["ACTION_KEY", "current_action"]

ACTION_KEY: Final = otel_context.create_key("actionspan-action")
"""Where a context has its current action."""


def current_action(context: Context | None = None) -> ActionSpan | None:
    """The innermost action of `context` (default: the current one) that has not finished."""
    if context is None:
        context = otel_context.get_current()
    action = cast("ActionSpan | None", context.get(ACTION_KEY))
    while action is not None and action.finished:
        action = action.parent
    return action

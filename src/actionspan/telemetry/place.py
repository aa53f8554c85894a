"""Where an action stands: below which span, in which trace, within which other action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext
from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.telemetry.current import current_action
from actionspan.vocabulary import ActionNamespace

if TYPE_CHECKING:
    from actionspan.telemetry.span import ActionSpan

__all__ = ["Place"]


@dataclass(slots=True)
class Place:
    """The surroundings of an action that is about to start."""

    context: Context
    """What it runs in: baggage and whatever else is carried there."""
    span_context: Context
    """What its span is started in; empty for a trace of its own."""
    parent: ActionSpan | None
    parent_span: SpanContext | None
    links: Sequence[Link]

    @classmethod
    def find(cls, within: ActionSpan | None, new_trace: bool, links: Sequence[Link]) -> Place:
        """The place below the current action, which is `within` or below it; else below `within` itself.

        A run's code may execute in a task that knows nothing of the run (a stream's reader, a pool), or that has
        entered another run since: its actions belong to the run all the same. With `new_trace` an outermost action
        begins a trace and links to where it is.
        """
        context = otel_context.get_current()
        parent = current_action(context)
        if within is not None and parent is not within:
            context, parent = _enclosing(within, context, parent)
        span = trace.get_current_span(context)
        # It is the enclosing action's, but for spans of others in between.
        found = parent.span_context if parent is not None and span is parent.span else span.get_span_context()
        outside = found if found.is_valid else None
        if parent is not None or not new_trace:
            return cls(context, context, parent, outside, links)
        return cls(context, Context(), None, None, links if outside is None else [*links, Link(outside)])

    def add_ids(self, attributes: dict[str, AttributeValue], namespace: str) -> None:
        """Add the ids of what the action is below: of its parent, of its trace, and of its run unless it is one."""
        parent, span = self.parent, self.parent_span
        if parent is None:
            return
        if span is parent.span_context or (span is not None and span.trace_id == parent.trace_id):
            attributes.update(parent.ids_below)
        elif parent.run_action_id is not None:
            # Somebody has begun another trace in between: then there is no parent, and the trace's id comes later.
            attributes[names.RUN_ACTION_ID] = parent.run_action_id
        if namespace == ActionNamespace.AGENT:
            attributes.pop(names.RUN_ACTION_ID, None)


def _enclosing(within: ActionSpan, context: Context, current: ActionSpan | None) -> tuple[Context, ActionSpan | None]:
    """`context` with its `current` action, where that is below `within` in the same run; else those of `within`."""
    enclosing = current
    while enclosing is not None:
        if enclosing is within:
            return context, current
        if enclosing.namespace == ActionNamespace.AGENT:
            break  # another run
        enclosing = enclosing.parent
    return within.context, within

"""Validation and processing of a run's output as actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_ai.output import OutputContext
from pydantic_ai.tools import RunContext

from actionspan import guard
from actionspan.action import ActionOperation
from actionspan.pydantic_ai.outcomes import ending_of_validation, interrupted
from actionspan.pydantic_ai.run import RunTracker
from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import start_output
from actionspan.telemetry.span import ActionSpan

__all__ = ["OutputWatch"]


@dataclass(frozen=True, slots=True)
class OutputWatch:
    """One call of an output hook."""

    tracker: RunTracker | None
    ctx: RunContext[Any]
    output: OutputContext
    operation: str

    async def around(self, handler: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """Call `handler(value)` as an action.

        Plain text runs no code of the application unless a validator is registered, so its processing is an action
        only where it fails.
        """
        tracker = self.tracker
        if tracker is None or self.ctx.partial_output or tracker.action is None:
            return await handler(value)
        tracker.seen(self.ctx)
        plain = self.operation == ActionOperation.PROCESS and _is_plain_text(self.output)
        start_ns = tracker.action.clock.now()
        action = None if plain else guard.call("output.start", lambda: self._start(tracker, start_ns))
        token = None if action is None else action.attach()
        try:
            result = await handler(value)
        except BaseException as error:
            if action is not None:
                action.detach(token)
            elif not interrupted(error):
                action = guard.call("output.start", lambda: self._start(tracker, start_ns))
            if action is not None:
                self._end(action, error)
            raise
        if action is not None:
            action.detach(token)
            action.finish(Ending.success())
        return result

    def _start(self, tracker: RunTracker, start_ns: int) -> ActionSpan:
        call, mode = self.output.tool_call, self.output.mode
        if tracker.action is not None:
            tracker.action.set({names.OUTPUT_MODE: mode})
        return start_output(
            tracker.pipeline,
            tracker.facts,
            tracker.action,
            self.operation,
            name=_name(self.output),
            call_id=None if call is None else call.tool_call_id,
            mode=mode,
            step=tracker.step,
            attempt=self.ctx.retry + 1,
            start_ns=start_ns,
        )

    @staticmethod
    def _end(action: ActionSpan, error: BaseException) -> None:
        if interrupted(error):
            action.interrupt(error)
        else:
            action.finish(guard.call("output.end", lambda: ending_of_validation(error), Ending.failure()))


def _is_plain_text(output: OutputContext) -> bool:
    return output.mode == "text" and not output.has_function


def _name(output: OutputContext) -> str | None:
    """The name the application declared: the output tool's, the function's, or the type's."""
    if output.tool_def is not None:
        return output.tool_def.name
    if output.function_name is not None:
        return output.function_name
    return getattr(output.output_type, "__name__", None)

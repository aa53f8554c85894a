"""Validation and processing of a run's output as actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_ai.output import OutputContext
from pydantic_ai.tools import RunContext

from actionspan import guard
from actionspan.pydantic_ai.around import around
from actionspan.pydantic_ai.outcomes import ending_of_validation, interrupted
from actionspan.pydantic_ai.run import RunTracker
from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import start_output
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionOperation

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
        run = tracker.action
        start_ns = run.clock.now()
        if self.operation == ActionOperation.PROCESS and _is_plain_text(self.output):
            return await self._around_plain_text(tracker, run, handler, value, start_ns)
        action = guard.call("output.start", lambda: self._start(tracker, run, start_ns))
        if action is None:
            return await handler(value)
        return await around(
            action, handler(value), lambda error: _end(action, error), lambda _: action.finish(Ending.success())
        )

    async def _around_plain_text(
        self, tracker: RunTracker, run: ActionSpan, handler: Callable[[Any], Awaitable[Any]], value: Any, start_ns: int
    ) -> Any:
        try:
            return await handler(value)
        except Exception as error:
            self._show_failure(tracker, run, start_ns, error)
            raise

    def _show_failure(self, tracker: RunTracker, run: ActionSpan, start_ns: int, error: Exception) -> None:
        guard.call("output.end", lambda: _end(self._start(tracker, run, start_ns), error))

    def _start(self, tracker: RunTracker, run: ActionSpan, start_ns: int) -> ActionSpan:
        tracker.seen(self.ctx)
        call, mode = self.output.tool_call, self.output.mode
        run.set({names.OUTPUT_MODE: mode})
        return start_output(
            tracker.pipeline,
            tracker.facts,
            run,
            self.operation,
            name=_name(self.output),
            call_id=None if call is None else call.tool_call_id,
            mode=mode,
            step=tracker.step,
            attempt=self.ctx.retry + 1,
            start_ns=start_ns,
        )


def _end(action: ActionSpan, error: BaseException) -> None:
    if interrupted(error):
        action.interrupt(error)
    else:
        action.finish(ending_of_validation(error))


def _is_plain_text(output: OutputContext) -> bool:
    return output.mode == "text" and not output.has_function


def _name(output: OutputContext) -> str | None:
    """The name the application declared: the output tool's, the function's, or the type's."""
    if output.tool_def is not None:
        return output.tool_def.name
    if output.function_name is not None:
        return output.function_name
    return getattr(output.output_type, "__name__", None)

"""Validation and execution of one tool call as actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition

from actionspan.pydantic_ai.compat import refused_before_execution
from actionspan.pydantic_ai.outcomes import ending_of_tool, ending_of_validation, interrupted
from actionspan.pydantic_ai.run import RunTracker
from actionspan.pydantic_ai.tools import CallRecord
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import start_tool
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionOperation

__all__ = ["ToolWatch"]

_STARTED: Final = Ending.cancelled("started")
"""Of a call whose execution has its action now: however that ends, no other is to be made for it."""


@dataclass(slots=True, eq=False)
class ToolWatch:
    """One call of a tool hook."""

    tracker: RunTracker
    action: ActionSpan
    record: CallRecord
    reached: bool = False
    """Whether the execution began: another capability may answer, or raise, without it."""

    @classmethod
    def start(
        cls,
        tracker: RunTracker,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool: ToolDefinition,
        args: object,
        operation: str,
    ) -> ToolWatch:
        """Start the action."""
        tracker.seen(ctx)
        record = tracker.ledger.record_of(call, ctx.messages)
        if operation == ActionOperation.EXECUTE:
            attempt = record.attempts = max(ctx.retry, record.attempts) + 1
            record.last = _STARTED
        else:
            attempt = record.validations = max(ctx.retry, record.validations) + 1
        action = start_tool(
            tracker.pipeline,
            tracker.facts,
            tracker.action,
            operation,
            name=tool.name,
            call_id=call.tool_call_id,
            step=tracker.step,
            attempt=attempt,
            arguments=tracker.arguments_of(tool, args),
        )
        return cls(tracker, action, record)

    def accepted(self, _args: object) -> None:
        """The arguments are valid."""
        self.action.finish(Ending.success())

    def rejected(self, error: BaseException) -> None:
        """The arguments are not, which ends the call; or the validation was interrupted."""
        if interrupted(error):
            self.action.interrupt(error)
            return
        ending = ending_of_validation(error)
        self.action.finish(ending)
        if ending.failed:
            self.record.last = ending

    def returned(self, result: object) -> None:
        """The tool returned, or a capability in its place."""
        ending = Ending.success() if self.reached else Ending.success("skipped")
        self.tracker.finish_tool(self.action, self.record, ending, result)

    def failed(self, error: BaseException) -> None:
        """The tool raised, or was interrupted, or did not run after all."""
        executed = self.reached and not refused_before_execution(error)
        if interrupted(error):
            self.tracker.interrupt_tool(self.action, error, executed=executed)
            return
        replacement = error.result if isinstance(error, SkipToolExecution) else None
        self.tracker.finish_tool(self.action, self.record, ending_of_tool(error), replacement, executed=executed)

"""What the library's exceptions and results mean: the outcome table, in code.

The names are exact, since people query by them; docs/outcomes.md has the same table in prose.
"""

from __future__ import annotations

from asyncio import CancelledError

from pydantic import ValidationError
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelHTTPError,
    ModelRetry,
    RunCancelled,
    RunTimedOut,
    SkipToolExecution,
    SkipToolValidation,
    ToolFailed,
)

from actionspan.pydantic_ai.compat import (
    ToolFailedError,
    ToolRetryError,
    deferral_behind,
    retries_exhausted,
    tool_deadline_passed,
)
from actionspan.telemetry.endings import Ending

__all__ = [
    "ending_of_error",
    "ending_of_tool",
    "ending_of_validation",
    "interrupted",
]


def interrupted(error: BaseException) -> bool:
    """Whether `error` only says that something was stopped; by what is known further out."""
    return isinstance(error, (CancelledError, GeneratorExit))


def ending_of_error(error: BaseException) -> Ending:
    """Any exception that no special rule knows."""
    if isinstance(error, RunTimedOut):
        return Ending.timeout()
    if isinstance(error, RunCancelled):
        return Ending.cancelled("run_cancelled")
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return Ending.cancelled("process_exit")
    code = str(error.status_code) if isinstance(error, ModelHTTPError) else None
    return Ending.failure(error, code=code)


def ending_of_tool(error: BaseException) -> Ending:
    """How a tool execution that raised `error` ended."""
    if isinstance(error, SkipToolExecution):
        return Ending.success("skipped")
    if isinstance(error, ApprovalRequired):
        return Ending.deferred("approval_required")
    if isinstance(error, CallDeferred):
        return Ending.deferred("external")
    if isinstance(error, (ToolRetryError, ModelRetry, ValidationError)) or retries_exhausted(error):
        return _ending_of_retry(error)
    if isinstance(error, (ToolFailedError, ToolFailed)):
        return Ending.failure(_real(error), "tool_failed")
    return ending_of_error(error)


def ending_of_validation(error: BaseException) -> Ending:
    """How a tool or output validation that raised `error` ended."""
    if deferral_behind(error) is not None:
        return Ending.success()  # the arguments were accepted: that the call then waits is the call's own outcome
    if isinstance(error, SkipToolValidation):
        return Ending.success("skipped")
    real = _real(error)
    if isinstance(real, ModelRetry):
        return Ending.failure(real, "retry")
    if isinstance(real, (ToolFailedError, ToolFailed)):
        return Ending.failure(real, "tool_failed")
    if isinstance(real, ValidationError) or isinstance(error, ToolRetryError):
        return Ending.failure(real, "invalid_arguments")
    return ending_of_error(error)


def _ending_of_retry(error: BaseException) -> Ending:
    """A retry, unless what was behind it was the tool's own deadline."""
    deadline = tool_deadline_passed(error)
    return Ending.failure(_real(error), "retry") if deadline is None else Ending.timeout("tool_timeout", deadline)


def _real(error: BaseException) -> BaseException:
    """The exception that an envelope of the library stands for."""
    if error.__cause__ is not None and (
        isinstance(error, (ToolRetryError, ToolFailedError)) or retries_exhausted(error)
    ):
        return error.__cause__
    return error

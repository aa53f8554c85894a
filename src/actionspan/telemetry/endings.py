"""How an action ended, and what that means for its span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from actionspan.vocabulary import ActionOutcome

__all__ = ["Ending", "error_type_of"]


@dataclass(frozen=True, slots=True)
class Ending:
    """An outcome with its reason and, where there was one, the exception that stands for it."""

    outcome: ActionOutcome
    reason: str | None = None
    error: BaseException | None = None
    """Recorded as the exception event where it arose; never changed, never kept after the action has finished."""
    code: str | None = None
    """An HTTP or JSON-RPC status code, which names the failure better than a class does."""

    @property
    def failed(self) -> bool:
        """Whether the span's status is ERROR."""
        return self.outcome in (ActionOutcome.ERROR, ActionOutcome.TIMEOUT)

    @property
    def error_type(self) -> str | None:
        """`error.type` of the span and its metrics; None unless it failed."""
        if self.outcome is ActionOutcome.TIMEOUT:
            return "timeout"
        if self.outcome is not ActionOutcome.ERROR:
            return None
        if self.code is not None:
            return self.code
        if self.error is not None:
            return error_type_of(self.error)
        return self.reason or "_OTHER"

    def of_interrupted(self, closed_by_consumer: bool) -> Ending:
        """How an action ended that was interrupted below one that ended like this.

        `closed_by_consumer`: its stream was closed by who read it, which is its own reason where nothing better is
        known.
        """
        if self.outcome is ActionOutcome.TIMEOUT:
            return Ending.timeout()
        if self.outcome is ActionOutcome.CANCELLED and self.reason != "process_exit":
            return Ending.cancelled(self.reason or "task_cancelled")
        if closed_by_consumer:
            return Ending.cancelled("abandoned")
        if self.outcome in (ActionOutcome.ERROR, ActionOutcome.CANCELLED):
            return Ending.cancelled("sibling_failed")
        return Ending.cancelled("task_cancelled")

    @classmethod
    def success(cls, reason: str | None = None) -> Ending:
        """It returned."""
        return _SUCCESS if reason is None else cls(ActionOutcome.SUCCESS, reason)

    @classmethod
    def failure(cls, error: BaseException | None = None, reason: str | None = None, code: str | None = None) -> Ending:
        """It failed."""
        return cls(ActionOutcome.ERROR, reason, error, code)

    @classmethod
    def cancelled(cls, reason: str) -> Ending:
        """Something stopped it, which is not a failure of its own."""
        return cls(ActionOutcome.CANCELLED, reason)

    @classmethod
    def timeout(cls, reason: str | None = None, error: BaseException | None = None) -> Ending:
        """A deadline that it or its run owned passed."""
        return cls(ActionOutcome.TIMEOUT, reason, error)

    @classmethod
    def deferred(cls, reason: str | None = None) -> Ending:
        """It waits for somebody outside the run."""
        return cls(ActionOutcome.DEFERRED, reason)


_SUCCESS: Final = Ending(ActionOutcome.SUCCESS)


def error_type_of(error: BaseException) -> str:
    """The qualified class name of `error`; bare for built-in exceptions."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

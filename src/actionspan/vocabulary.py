"""The vocabulary of actions and the record of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

__all__ = ["Action", "ActionNamespace", "ActionOperation", "ActionOutcome", "ActionPhase"]


class ActionNamespace:
    """The namespaces we emit. The set is open: an application adds its own strings."""

    AGENT: Final = "agent"
    MODEL: Final = "model"
    TOOL: Final = "tool"
    OUTPUT: Final = "output"
    MCP: Final = "mcp"
    CONTROL: Final = "control"
    DISPATCH: Final = "dispatch"


class ActionOperation:
    """The operations we emit, each within its namespace. The set is open."""

    RUN: Final = "run"
    REQUEST: Final = "request"
    EMBED: Final = "embed"
    VALIDATE: Final = "validate"
    EXECUTE: Final = "execute"
    PROCESS: Final = "process"
    WAIT: Final = "wait"


class ActionPhase(StrEnum):
    """Which of an action's two records this is: its start, or one of the two kinds of terminal."""

    START = "start"
    END = "end"
    ERROR = "error"


class ActionOutcome(StrEnum):
    """How an action ended."""

    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    DEFERRED = "deferred"


_EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One record of one action.

    Invariants, enforced here: `attempt` is 1-based; a start has no outcome; an end or error has one; phase error goes
    with outcome error and only with it. `ValueError` names the field that breaks one.
    """

    namespace: str
    operation: str
    phase: ActionPhase
    action_id: UUID
    root_action_id: UUID
    """The trace: `UUID(int=trace_id)`. Its version bits are random, so it is not a version-4 UUID."""
    parent_action_id: UUID | None = None
    """The nearest enclosing action in this process; None on an outermost one."""
    run_action_id: UUID | None = None
    """The agent run this action belongs to."""
    attempt: int = 1
    outcome: ActionOutcome | None = None
    outcome_reason: str | None = None
    name: str | None = None
    time_unix_nano: int = 0
    """When this record's moment was, in nanoseconds since the epoch."""
    duration: float | None = None
    """Seconds by the monotonic clock; None on a start."""
    attributes: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)

    def __post_init__(self) -> None:
        for name in ("namespace", "operation"):
            if not getattr(self, name):
                raise ValueError(f"Action.{name} must not be empty")
        if self.attempt < 1:
            raise ValueError(f"Action.attempt counts from 1, not {self.attempt}")
        if self.phase is ActionPhase.START and self.outcome is not None:
            raise ValueError(f"Action.outcome must be None in phase start, not {self.outcome.value}")
        if self.phase is not ActionPhase.START and self.outcome is None:
            raise ValueError(f"Action.outcome is required in phase {self.phase.value}")
        if (self.phase is ActionPhase.ERROR) != (self.outcome is ActionOutcome.ERROR):
            raise ValueError(f"Action.phase {self.phase.value} does not go with outcome {self.outcome}")
        if self.outcome_reason is not None and self.outcome is None:
            raise ValueError("Action.outcome_reason needs an outcome")
        if self.duration is not None and self.duration < 0:
            raise ValueError(f"Action.duration is in seconds and not negative, not {self.duration}")

    @property
    def kind(self) -> str:
        """The event kind of the record: `{namespace}.{operation}.{phase}`."""
        return f"{self.namespace}.{self.operation}.{self.phase.value}"


def phase_of(outcome: ActionOutcome) -> ActionPhase:
    """The terminal phase that goes with `outcome`."""
    return ActionPhase.ERROR if outcome is ActionOutcome.ERROR else ActionPhase.END

"""What every controller does, and the words it answers with."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from actionspan.control.checkpoints import Restored
    from actionspan.control.receipts import Receipt

__all__ = ["PRIORITIES", "Control", "ControlVerb", "Gate", "Priority", "RunState", "TargetState"]

Priority = Literal["high", "normal", "low"]
PRIORITIES: Final[tuple[Priority, ...]] = ("high", "normal", "low")


class ControlVerb(StrEnum):
    """What a controller can be asked for; also the operation of its actions: `control.{verb}`."""

    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    CHECKPOINT = "checkpoint"
    RESTORE = "restore"
    STEER = "steer"
    DRAIN = "drain"


class RunState(StrEnum):
    """Where an attached run is."""

    RUNNING = "running"
    PAUSING = "pausing"
    """Asked to pause; its next boundary is not reached yet."""
    PAUSED = "paused"
    ABORTING = "aborting"
    """Asked to stop for good; it has not left yet."""
    ENDED = "ended"


class Gate(StrEnum):
    """The boundaries at which a run can be held."""

    MODEL = "model"
    """Before a model request: the history is complete and no tool is in flight."""
    TOOLS = "tools"
    """Before the calls of a response are handled: the history ends in that response."""


class TargetState(StrEnum):
    """What became of a verb for one run."""

    DONE = "done"
    PENDING = "pending"
    """It takes effect at the run's next boundary."""
    UNCHANGED = "unchanged"
    """There was nothing to change: paused twice, resumed while running, aborted twice."""
    VETOED = "vetoed"
    """A `pre_control_action` hook raised."""
    REFUSED = "refused"
    """This run cannot be controlled; the note says why."""
    FAILED = "failed"
    """A failure of ours; the run goes on."""
    NOT_CONSUMED = "not_consumed"
    """The run ended, or somebody drained the queue, before a model request took the directive."""
    ENDED = "ended"
    """The run ended before it took effect."""
    NO_MATCH = "no_match"
    """No attached run matched."""


@runtime_checkable
class Control(Protocol):
    """Steering of live runs. Every method is synchronous, thread-safe and does not wait for a run.

    `agent_id` is an agent's name, a `run_id` or a `run_action_id`; None is every attached run. What became of a verb
    for each run is in the `Receipt`, which can be awaited or waited for; no verb raises because of a run's state.
    """

    def pause(self, reason: str | None = None, agent_id: str | None = None) -> Receipt:
        """Hold matching runs at their next safe boundary."""
        ...

    def resume(self, agent_id: str | None = None) -> Receipt:
        """Let paused runs go on."""
        ...

    def abort(self, reason: str | None = None, agent_id: str | None = None, *, now: bool = False) -> Receipt:
        """Stop matching runs, and the runs inside them, for good; `now` also cancels what they are waiting for."""
        ...

    def checkpoint(self, label: str | None = None, agent_id: str | None = None) -> Receipt:
        """Save matching live runs: at once those held at a boundary, the others at their next one."""
        ...

    def restore_checkpoint(self, checkpoint_id: str) -> Restored:
        """What a new run needs to go on from there; rolls the run it was taken from back, while that is attached.

        Raises `UnknownCheckpoint`, `CheckpointDamaged` or `CheckpointTooNew`.
        """
        ...

    def steer(self, directive: str, agent_id: str | None = None, priority: Priority = "normal") -> Receipt:
        """Put a directive into matching runs before their next model request.

        `high` goes before all normal ones and after earlier high ones; `low` waits until the run would end.
        `ValueError` for another priority or an empty directive.
        """
        ...

    def drain_steering(self, agent_id: str | None = None) -> Receipt:
        """Take what is queued, in the order the run would have: `receipt.directives`."""
        ...

    def pre_control_action(self, action: str, reason: str | None, agent_id: str | None) -> None:
        """Called before each verb; raising vetoes it, and the veto is recorded."""
        ...

    def post_control_action(self, action: str, success: bool, agent_id: str | None) -> None:
        """Called after each verb. What it raises is contained."""
        ...

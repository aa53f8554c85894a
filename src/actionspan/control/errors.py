"""What run control raises.

ControlError
    RestoreVetoed                a hook vetoed the restore, so there is nothing to start a run with
    ControlUnreachable           no process serves control from a directory
    ControlRejected              the process refused the request
    CheckpointError
        UnknownCheckpoint        no checkpoint has this id
        CheckpointDamaged        its file is cut short, or is no checkpoint
        CheckpointTooNew         it was written by a newer version
        CheckpointOfAnotherAgent it was taken from a run of another agent
"""

from __future__ import annotations

__all__ = [
    "CheckpointDamaged",
    "CheckpointError",
    "CheckpointOfAnotherAgent",
    "CheckpointTooNew",
    "ControlError",
    "ControlRejected",
    "ControlUnreachable",
    "RestoreVetoed",
    "UnknownCheckpoint",
]


class ControlError(Exception):
    """Base of the errors below; arguments that are not permitted are `ValueError`s as everywhere."""


class RestoreVetoed(ControlError):
    """`pre_control_action` raised, so the checkpoint was not loaded."""


class ControlUnreachable(ControlError):
    """Nobody answers at the socket that a directory points to."""


class ControlRejected(ControlError):
    """The process that was asked says why it does not do it."""


class CheckpointError(ControlError):
    """Base of what is wrong with a checkpoint."""


class UnknownCheckpoint(CheckpointError, LookupError):
    """No checkpoint has this id."""


class CheckpointDamaged(CheckpointError):
    """What the store holds under this id is not a whole checkpoint."""


class CheckpointTooNew(CheckpointError):
    """The checkpoint has a schema version that this version does not know."""


class CheckpointOfAnotherAgent(CheckpointError):
    """The checkpoint was taken from a run of an agent with another name."""

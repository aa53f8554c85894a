"""Run control: live runs paused, steered, checkpointed, rolled back and aborted, all of it on the record.

Nothing here needs Pydantic AI but a controller's `capability()`, which imports it when it is first called.
"""

from __future__ import annotations

from actionspan.control._registry import RunStatus
from actionspan.control.checkpoints import Checkpoint, Restored
from actionspan.control.contract import Control, ControlVerb, Gate, Priority, RunState, TargetState
from actionspan.control.controller import RunControl
from actionspan.control.errors import (
    CheckpointDamaged,
    CheckpointError,
    CheckpointOfAnotherAgent,
    CheckpointTooNew,
    ControlError,
    ControlRejected,
    ControlUnreachable,
    RestoreVetoed,
    UnknownCheckpoint,
)
from actionspan.control.events import ControlEvent, EventStream
from actionspan.control.receipts import Receipt, Target
from actionspan.control.stores import CheckpointStore, DirectoryCheckpointStore, MemoryCheckpointStore

__all__ = [
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointError",
    "CheckpointOfAnotherAgent",
    "CheckpointStore",
    "CheckpointTooNew",
    "Control",
    "ControlError",
    "ControlEvent",
    "ControlRejected",
    "ControlUnreachable",
    "ControlVerb",
    "DirectoryCheckpointStore",
    "EventStream",
    "Gate",
    "MemoryCheckpointStore",
    "Priority",
    "Receipt",
    "RestoreVetoed",
    "Restored",
    "RunControl",
    "RunState",
    "RunStatus",
    "Target",
    "TargetState",
    "UnknownCheckpoint",
]

"""A run at a boundary, saved: what it is made of, how it is written, and what a new run needs of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final, cast
from uuid import UUID, uuid4

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.control.contract import Gate
from actionspan.control.errors import CheckpointDamaged, CheckpointOfAnotherAgent, CheckpointTooNew, RestoreVetoed
from actionspan.control.receipts import Receipt

__all__ = ["SCHEMA_VERSION", "Checkpoint", "Restored", "decode_checkpoint", "encode_checkpoint"]

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One run at one boundary."""

    id: str = field(default_factory=lambda: str(uuid4()))
    label: str | None = None
    created: float = field(default_factory=time.time)
    """Epoch seconds."""
    parent_id: str | None = None
    """The checkpoint this run made, or was restored from, before this one."""
    agent_name: str | None = None
    model_name: str | None = None
    run_id: str | None = None
    conversation_id: str | None = None
    run_action_id: str | None = None
    gate: Gate = Gate.MODEL
    step: int = 0
    """The model request it was before, or whose calls were not handled yet; from 1."""
    messages: bytes = field(default=b"[]", repr=False)
    """The history as JSON, made and read by Pydantic AI's own type adapter."""
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    queued: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """Directives that waited: `id`, `priority`, `text`."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint gives back: arguments for a new run, and the receipt of rolling back a live one."""

    receipt: Receipt
    checkpoint: Checkpoint | None
    """None when a hook vetoed the restore."""

    def run_kwargs(self, agent: Any = None) -> dict[str, Any]:
        """The arguments of `agent.run` and the like that go on from the checkpoint: history and usage, no prompt.

        The run that is started with them is linked to the original and takes over its queued directives. Each call
        gives messages of its own. With `agent`, `CheckpointOfAnotherAgent` when its name is not the one the
        checkpoint was taken from. Raises `RestoreVetoed` when there is nothing to restore, `CheckpointDamaged` when
        what was saved is no history.
        """
        checkpoint = self.checkpoint
        if checkpoint is None:
            raise RestoreVetoed(f"the restore was vetoed: {self.receipt.error}")
        name = getattr(agent, "name", None)
        if agent is not None and name != checkpoint.agent_name:
            raise CheckpointOfAnotherAgent(
                f"checkpoint {checkpoint.id} was taken from a run of {checkpoint.agent_name!r}, not of {name!r}"
            )
        from actionspan.pydantic_ai.live_run import run_arguments

        return run_arguments(checkpoint)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """`checkpoint` as one JSON object."""
    fields: dict[str, Any] = {name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__}
    return msgspec.json.encode(
        {"v": SCHEMA_VERSION, **fields, "gate": checkpoint.gate.value, "messages": msgspec.Raw(checkpoint.messages)}
    )


class _Written(msgspec.Struct, kw_only=True):
    """The fields as they stand in a file."""

    id: str
    created: float
    gate: Gate
    step: int
    messages: msgspec.Raw
    usage: dict[str, Any]
    queued: tuple[dict[str, Any], ...] = ()
    label: str | None = None
    parent_id: str | None = None
    agent_name: str | None = None
    model_name: str | None = None
    run_id: str | None = None
    conversation_id: str | None = None
    run_action_id: str | None = None


def decode_checkpoint(data: bytes, checkpoint_id: str) -> Checkpoint:
    """The checkpoint that `data` holds. Raises `CheckpointTooNew` or `CheckpointDamaged`, which name it."""
    try:
        header: Any = msgspec.json.decode(data)
        version = cast("dict[str, Any]", header)["v"] if isinstance(header, dict) else None
        if type(version) is int and version > SCHEMA_VERSION:
            raise CheckpointTooNew(
                f"checkpoint {checkpoint_id} has schema version {version}; this version knows {SCHEMA_VERSION}"
            )
        if version != SCHEMA_VERSION:
            raise CheckpointDamaged(f"checkpoint {checkpoint_id} is not a checkpoint")
        written = msgspec.json.decode(data, type=_Written)
    except (*UNDECODABLE, KeyError) as error:
        raise CheckpointDamaged(f"checkpoint {checkpoint_id} is damaged: {error}") from error
    if written.id != checkpoint_id:
        raise CheckpointDamaged(f"checkpoint {checkpoint_id} holds another one, {written.id!r}")
    fields: dict[str, Any] = {name: getattr(written, name) for name in _Written.__struct_fields__}
    fields["messages"] = bytes(written.messages)
    return Checkpoint(**fields)


def checkpoint_id(value: object) -> str | None:
    """`value` as a canonical id; None when it is not a UUID, and so never becomes a path."""
    if not isinstance(value, str):
        return None
    try:
        return value if str(UUID(value)) == value else None
    except ValueError:
        return None

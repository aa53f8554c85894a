"""A live run as the controller sees it, and what a new run is started with from a checkpoint."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage

from actionspan import guard
from actionspan.control._port import Snapshot
from actionspan.control.checkpoints import Checkpoint
from actionspan.control.errors import CheckpointDamaged
from actionspan.pydantic_ai.compat import cancel_requested

__all__ = ["LiveRun", "claim", "run_arguments"]

_usage: Final = TypeAdapter(RunUsage)


class LiveRun:
    """One run as the controller sees it. Its lock is the controller's."""

    def __init__(self, ctx: RunContext[Any]) -> None:
        self._ctx = ctx
        self._request: ModelRequestContext | None = None
        self._tail: list[ModelMessage] = []
        """What a rollback put behind the history for the run's next step to add."""
        self.answer: ModelResponse | None = None
        """What a rollback answers the held request with, in the model's place."""
        self.replacement: CallToolsNode[Any, Any] | ModelRequestNode[Any, Any] | None = None
        """The step that a rollback goes on with in place of the held one."""
        self.threads = 0

    def arrive(self, ctx: RunContext[Any], request: ModelRequestContext | None) -> None:
        """The run is at a gate; of a model gate, `request` is what is about to be sent."""
        self._ctx, self._request = ctx, request
        self._tail, self.answer, self.replacement = [], None, None

    def cancel(self) -> None:
        """Cancel the run, from any thread."""
        self._ctx.cancel()

    @property
    def cancel_requested(self) -> bool:
        """Whether it was asked to stop, by whomever."""
        return cancel_requested(self._ctx)

    def remaining(self) -> float | None:
        """Seconds until its own deadline."""
        return self._ctx.remaining_time()

    def tools_in_threads(self) -> int:
        """How many synchronous tools are at work."""
        return self.threads

    def snapshot(self) -> Snapshot:
        """The history as it is sent next, or as it is before calls are handled; and what was used so far."""
        return Snapshot(
            ModelMessagesTypeAdapter.dump_json([*self._ctx.messages, *self._tail]),
            _usage.dump_python(self._ctx.usage, mode="json"),
            guard.call("model.name", lambda: self._ctx.model.model_name),
        )

    def roll_back(self, checkpoint: Checkpoint) -> None:
        """Go on from the checkpoint's history: with its request at its end, or with its response's calls."""
        saved = ModelMessagesTypeAdapter.validate_json(checkpoint.messages)
        last = saved[-1]
        if self._request is None:
            self._roll_back_node(saved, last)
        elif isinstance(last, ModelRequest):
            self._ctx.messages[:] = saved
            self._request.messages = list(saved)
            self._tail, self.answer = [], None
        else:
            self._ctx.messages[:] = saved[:-1]
            # The tokens of this response were counted when it came; usage never goes back, nor twice forward.
            self.answer = replace(last, usage=RequestUsage())
            self._tail = [last]

    def _roll_back_node(self, saved: list[ModelMessage], last: ModelMessage) -> None:
        if isinstance(last, ModelRequest):
            self._ctx.messages[:] = saved[:-1]
            self._tail = [last]
            self.replacement = ModelRequestNode(request=last)
        else:
            self._ctx.messages[:] = saved
            self._tail = []
            self.replacement = CallToolsNode(last)


_restored: dict[int, tuple[weakref.ref[ModelMessage], Checkpoint]] = {}
"""Messages handed out to start a run with, by address, until a run has come with them."""


def run_arguments(checkpoint: Checkpoint) -> dict[str, Any]:
    """The arguments of a run that goes on from `checkpoint`. Raises `CheckpointDamaged`."""
    try:
        messages = ModelMessagesTypeAdapter.validate_json(checkpoint.messages)
        usage = _usage.validate_python(checkpoint.usage)
    except ValidationError as error:
        # Not its own text, and not its cause: they quote the history.
        places = ", ".join(".".join(map(str, each["loc"])) or "the whole" for each in error.errors()[:3])
        raise CheckpointDamaged(
            f"checkpoint {checkpoint.id} is damaged: its messages or usage are not those of a run (at {places})"
        ) from None
    if messages:
        first = messages[0]
        address = id(first)
        _restored[address] = (weakref.ref(first, lambda _: _restored.pop(address, None)), checkpoint)
    return {"message_history": messages, "usage": usage}


def claim(messages: Sequence[ModelMessage]) -> Checkpoint | None:
    """The checkpoint that a run with this history was started from; only one run is told so."""
    if not messages:
        return None
    reference, checkpoint = _restored.get(id(messages[0]), (None, None))
    if reference is None or reference() is not messages[0]:
        return None
    del _restored[id(messages[0])]
    return checkpoint

"""What a controlled run can do, as far as the controller knows: the adapter to a library implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from actionspan.control.checkpoints import Checkpoint

__all__ = ["RunPort", "Snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run at a boundary."""

    messages: bytes
    """The history, as JSON of the library's own making."""
    usage: dict[str, Any]
    model_name: str | None


class RunPort(Protocol):
    """One run. The controller calls it under the run's lock; `snapshot` and `roll_back` only while it is held."""

    def cancel(self) -> None:
        """Cancel the run, from any thread: it ends at its next await."""
        ...

    def remaining(self) -> float | None:
        """Seconds until the run's own deadline; None without one."""
        ...

    def tools_in_threads(self) -> int:
        """How many synchronous tools of the run are at work, which nothing can stop."""
        ...

    def snapshot(self) -> Snapshot:
        """What a checkpoint keeps."""
        ...

    def roll_back(self, checkpoint: Checkpoint) -> None:
        """Put the run back to where `checkpoint` was taken; usage stays as it is."""
        ...

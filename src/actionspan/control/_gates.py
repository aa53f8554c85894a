"""What a run does at a boundary, and how it is woken when it is held there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from actionspan.control.receipts import wake

__all__ = ["FAULT", "GO_ON", "STOP", "Decision", "Hold"]


class _Plain(Enum):
    GO_ON = "go on"
    STOP = "stop"
    FAULT = "fault"


GO_ON: Final = _Plain.GO_ON
STOP: Final = _Plain.STOP
FAULT: Final = _Plain.FAULT
"""Run control itself failed: the run goes on."""


@dataclass(slots=True, eq=False)
class Hold:
    """A run waiting at a boundary on its loop, and woken from any thread; it then looks again."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    let_go: bool = False
    """The run is to leave this boundary: a pause that comes now is for the next one."""
    ended_by: str | None = None
    """Why it was let go when nobody resumed it."""

    def release(self) -> None:
        """Wake it."""
        wake(self.loop, self.future)


Decision: TypeAlias = Hold | Literal[_Plain.GO_ON, _Plain.STOP, _Plain.FAULT]

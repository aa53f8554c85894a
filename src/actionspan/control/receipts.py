"""What became of a verb, for each run it was meant for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from actionspan.control.contract import ControlVerb, TargetState

__all__ = ["Order", "Receipt", "Target"]

_BY_WEIGHT: Final = (
    TargetState.FAILED,
    TargetState.REFUSED,
    TargetState.VETOED,
    TargetState.NOT_CONSUMED,
    TargetState.PENDING,
    TargetState.ENDED,
    TargetState.UNCHANGED,
    TargetState.DONE,
)
"""Which state speaks for several targets: the one somebody has to look at first."""


@dataclass(slots=True, eq=False)
class Target:
    """One run that a verb was meant for. It changes until its state is no longer pending."""

    run: str
    """Our own handle of the run, which exists without a tracer."""
    agent_name: str | None
    run_id: str | None
    run_action_id: str | None
    state: TargetState = TargetState.PENDING
    note: str | None = None
    """What else there is to know, in our own words: never content."""
    step: int | None = None
    """Of a steer: the model request that took the directive, from 1."""
    checkpoint_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON types, what is not known left out."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        return {name: value for name, value in fields.items() if value is not None} | {"state": self.state.value}


_FIELDS: Final = ("run", "agent_name", "run_id", "run_action_id", "note", "step", "checkpoint_id")


@dataclass(frozen=True, slots=True)
class Order:
    """What one verb asks of one run."""

    receipt: Receipt
    target: Target

    def settle(
        self,
        state: TargetState,
        note: str | None = None,
        *,
        step: int | None = None,
        checkpoint_id: str | None = None,
    ) -> bool:
        """Say what became of it; what was said first stays. True when that is news to those who got the receipt."""
        return self.receipt.settle(self.target, state, note, step=step, checkpoint_id=checkpoint_id)

    @property
    def pending(self) -> bool:
        """Whether nothing has become of it yet."""
        return self.target.state is TargetState.PENDING


@dataclass(eq=False)
class Receipt:
    """The answer to a verb. Await it, or `wait()` for it, until no target is pending."""

    verb: ControlVerb
    source: str = "api"
    """Where the verb came from: `api` in this process, `socket` from another one."""
    call_id: str = field(default_factory=lambda: str(uuid4()))
    """This call, as the record's events name it."""
    made: float = field(default_factory=time.time)
    """Epoch seconds."""
    targets: tuple[Target, ...] = ()
    directives: tuple[str, ...] = ()
    """What `drain_steering` took."""
    error: str | None = None
    """What a vetoing hook said. It may be content, so it is in no record."""
    _announced: bool = field(default=False, repr=False)
    """Whether the record has this receipt: what settles later is told by itself."""
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)
    _awaiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = field(
        default_factory=list[tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]], repr=False
    )

    @property
    def state(self) -> TargetState:
        """One word for all targets: the weightiest state among them; `no_match` when there are none."""
        states = {target.state for target in self.targets}
        if not states:
            return TargetState.VETOED if self.error is not None else TargetState.NO_MATCH
        return next(state for state in _BY_WEIGHT if state in states)

    @property
    def settled(self) -> bool:
        """Whether no target is pending."""
        return all(target.state is not TargetState.PENDING for target in self.targets)

    @property
    def succeeded(self) -> bool:
        """Whether it is done, or will be as far as is known, or there was nothing to change."""
        return self.state in (TargetState.DONE, TargetState.PENDING, TargetState.UNCHANGED)

    @property
    def id(self) -> str | None:
        """The checkpoint that was made, when there is exactly one."""
        made = [target.checkpoint_id for target in self.targets if target.checkpoint_id is not None]
        return made[0] if len(made) == 1 else None

    def settle(self, target: Target, state: TargetState, note: str | None, **details: Any) -> bool:
        """Say what became of one target; what was said first stays. True when it is news after `announce()`."""
        with self._changed:
            if target.state is not TargetState.PENDING:
                return False
            for name, value in details.items():
                if value is not None:
                    setattr(target, name, value)
            target.note = note if note is not None else target.note
            target.state = state
            awaiting: Sequence[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = ()
            if self.settled:
                awaiting, self._awaiting = self._awaiting, []
                self._changed.notify_all()
            news = self._announced
        for loop, future in awaiting:
            wake(loop, future)
        return news

    def announce(self) -> list[TargetState]:
        """The states as the record is to have them now; from here on a change is news."""
        with self._changed:
            self._announced = True
            return [target.state for target in self.targets]

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until no target is pending, at most `timeout` seconds; whether that was reached.

        Raises `RuntimeError` on a thread whose event loop is running: the run may need that very loop. Await there.
        """
        if not self.settled and _on_a_loop():
            raise RuntimeError("this thread's event loop is running, and the run may need it: await the receipt")
        with self._changed:
            return self._changed.wait_for(lambda: self.settled, timeout)

    def __await__(self) -> Generator[Any, None, Receipt]:
        return self._settled().__await__()

    async def _settled(self) -> Receipt:
        while not self.settled:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            with self._changed:
                if self.settled:
                    break
                self._awaiting.append((loop, future))
            await future
        return self

    def as_dict(self) -> dict[str, Any]:
        """As JSON types."""
        fields: dict[str, Any] = {"verb": self.verb.value, "call_id": self.call_id, "state": self.state.value}
        fields["targets"] = [target.as_dict() for target in self.targets]
        if self.id is not None:
            fields["id"] = self.id
        if self.verb is ControlVerb.DRAIN:
            fields["directives"] = list(self.directives)
        return fields | ({} if self.error is None else {"error": self.error})


def wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """Let whoever awaits `future` on `loop` look again, from any thread."""
    try:
        loop.call_soon_threadsafe(_release, future)
    except RuntimeError:  # its loop is closed, and who waited is gone with it
        pass


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

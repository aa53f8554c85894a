"""One run under control: its state, what was asked of it, and what it does about that at its boundaries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from actionspan import guard
from actionspan.control._gates import GO_ON, STOP, Decision, Hold
from actionspan.control._port import RunPort
from actionspan.control._steering import Directive, DirectiveQueue
from actionspan.control.checkpoints import Checkpoint
from actionspan.control.contract import Gate, RunState, TargetState
from actionspan.control.receipts import Order
from actionspan.telemetry.span import ActionSpan

__all__ = ["ControlledRun", "RunIdentity"]

_STOPPING: Final = "the run is being aborted"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Who a run is."""

    agent_name: str | None = None
    run_id: str | None = None
    conversation_id: str | None = None


Job = Callable[[], None]
Listener = Callable[["ControlledRun", str, Order | None], None]
"""Told of a run what happened: a kind of `ControlEvent`, with the order that is settled by it."""


class ControlledRun:
    """The state of one attached run. Every method is thread-safe and does not wait.

    What it has to tell (`listener(run, kind)`, receipts) it tells after its lock is released.
    """

    def __init__(
        self,
        identity: RunIdentity,
        port: RunPort,
        listener: Listener,
        *,
        action: ActionSpan | None = None,
        enclosing: ControlledRun | None = None,
        refusal: str | None = None,
    ) -> None:
        self.handle: Final = uuid4().hex
        self.identity: Final = identity
        self.action = action
        self.run_action_id: Final = None if action is None else action.action_id
        self.enclosing: Final = enclosing
        self.refusal: Final = refusal
        self.attached_at: Final = time.time()
        self.state = RunState.RUNNING
        self.since = self.attached_at
        self.gate: Gate | None = None
        self.step = 0
        self.reason: str | None = None
        """Why it was aborted; content."""
        self._aborted = False
        self.latest_checkpoint: str | None = None
        self._port = port
        self._listener = listener
        self._lock = threading.RLock()
        self._untold: list[Job] = []
        self._held: Hold | None = None
        self._jobs: list[tuple[Order, Job]] = []
        self._pausing: list[Order] = []
        self._aborting: list[Order] = []
        self._queue = DirectiveQueue()
        self._handed_over: list[Directive] = []
        """Directives given to the library when the run would have ended; the next request confirms them."""

    def matches(self, agent_id: str | None) -> bool:
        """Whether `agent_id` names this run, its agent or its action; None is every run."""
        names = (self.identity.agent_name, self.identity.run_id, self.run_action_id, self.handle)
        return agent_id is None or agent_id in names

    def enclosing_runs(self) -> Iterator[ControlledRun]:
        """The runs this one is inside of, the nearest first."""
        outer = self.enclosing
        while outer is not None:
            yield outer
            outer = outer.enclosing

    @property
    def aborted(self) -> bool:
        """Whether it was stopped by an abort. Whoever was just cancelled asks behind the verb that is still at it."""
        with self._lock:
            return self._aborted

    @property
    def queued(self) -> int:
        """How many directives wait."""
        return len(self._queue)

    def remaining(self) -> float | None:
        """Seconds until the run's own deadline; None without one."""
        return self._port.remaining()

    # --- verbs ---

    def pause(self, order: Order) -> None:
        """Hold it at its next boundary."""
        with self._changing() as state:
            if self._closed(order):
                return
            if state is RunState.RUNNING:
                self._become(RunState.PAUSING)
                self._pausing.append(order)
                order.target.note = self._deadline_note()
            elif state is RunState.ABORTING:
                self._settle(order, TargetState.UNCHANGED, _STOPPING)
            else:
                self._settle(order, TargetState.UNCHANGED, "it was paused already")

    def resume(self, order: Order) -> None:
        """Let it go on."""
        with self._changing() as state:
            if self._closed(order):
                return
            if state in (RunState.PAUSING, RunState.PAUSED):
                for waiting in self._take_pausing():
                    self._settle(waiting, TargetState.UNCHANGED, "resumed before it reached a boundary")
                self._become(RunState.RUNNING)
                self._let_go()
                self._settle(order, TargetState.DONE)
            else:
                note = _STOPPING if state is RunState.ABORTING else "it was not paused"
                self._settle(order, TargetState.UNCHANGED, note)

    def abort(self, order: Order, reason: str | None, *, now: bool) -> None:
        """Stop it for good: at its next boundary, or `now`."""
        with self._changing() as state:
            if self._closed(order):
                return
            if state is RunState.ABORTING and not (now and not self._aborted):
                self._settle(order, TargetState.UNCHANGED, _STOPPING)
                return
            self._aborting.append(order)
            self._stop(reason)
            if now:
                order.target.note = self._threads_note()
                self._aborted = guard.call("control.cancel", lambda: _done(self._port.cancel), False)
                if not self._aborted:
                    order.target.note = "it could not be cancelled from here: it stops at its next boundary"

    def inherit_abort(self, outer: ControlledRun) -> None:
        """The run it is inside of is being stopped."""
        with self._changing():
            self._stop(outer.reason)

    def _stop(self, reason: str | None) -> None:
        if self.state is not RunState.ABORTING:
            self.reason = reason
            for waiting in self._take_pausing():
                self._settle(waiting, TargetState.UNCHANGED, _STOPPING)
            self._become(RunState.ABORTING)
            self._tell("aborting")
            self._wake()

    def steer(self, order: Order, directive: Directive) -> None:
        """Queue a directive for its next request."""
        with self._changing():
            if not self._closed(order, TargetState.NOT_CONSUMED):
                self._queue.put(directive)

    def drain(self, order: Order) -> list[Directive]:
        """Take what is queued, in the order the run would have."""
        taken: list[Directive] = []
        with self._changing():
            if self._closed(order):
                return taken
            taken = self._queue.take(ending=True)
            for directive in taken:
                if directive.order is not None:
                    self._settle(directive.order, TargetState.NOT_CONSUMED, "drained before a request took it")
            self._settle(order, TargetState.DONE if taken else TargetState.UNCHANGED)
        return taken

    def do_at_gate(self, order: Order, job: Job) -> None:
        """Do `job` while the run is held: now when it is, else at its next boundary, in the order they came."""
        with self._changing():
            if self._closed(order):
                return
            self._jobs.append((order, job))
            if self._held is not None:
                self._do_jobs()

    def settle(self, order: Order, state: TargetState, *, checkpoint_id: str | None = None) -> None:
        """Say what a job came to."""
        with self._changing():
            self._settle(order, state, checkpoint_id=checkpoint_id)

    def snapshot(self, label: str | None) -> Checkpoint:
        """The run as it stands at the boundary it is held at."""
        state = self._port.snapshot()
        return Checkpoint(
            label=label,
            parent_id=self.latest_checkpoint,
            agent_name=self.identity.agent_name,
            model_name=state.model_name,
            run_id=self.identity.run_id,
            conversation_id=self.identity.conversation_id,
            run_action_id=self.run_action_id,
            gate=self.gate or Gate.MODEL,
            step=self.step,
            messages=state.messages,
            usage=state.usage,
            queued=tuple(directive.as_dict() for directive in self._queue),
        )

    def roll_back(self, checkpoint: Checkpoint) -> None:
        """Put the held run back to `checkpoint`; directives that waited there wait again."""
        self._port.roll_back(checkpoint)
        self.adopt(checkpoint)

    def adopt(self, checkpoint: Checkpoint) -> None:
        """Take over what else `checkpoint` holds."""
        with self._lock:
            self._queue.put_back(
                Directive(item["text"], item["priority"], None, item["id"]) for item in checkpoint.queued
            )
            self.latest_checkpoint = checkpoint.id

    # --- at a boundary, on the run's own loop ---

    def arrive(self, gate: Gate, step: int) -> None:
        """The run has reached a boundary."""
        with self._lock:
            self.gate, self.step = gate, step

    def decide(self, make_hold: Callable[[], Hold]) -> Decision:
        """What the run is to do at the boundary it is at."""
        with self._changing() as state:
            held, self._held = self._held, None
            if self._jobs:
                self._do_jobs()
            if state is RunState.ABORTING:
                self._aborted = True
                return STOP
            if held is not None and held.let_go:
                return GO_ON
            if state in (RunState.PAUSING, RunState.PAUSED):
                self._held = make_hold()
                if state is RunState.PAUSING:
                    self._become(RunState.PAUSED)
                    self._tell("paused")
                    for order in self._take_pausing():
                        self._settle(order, TargetState.DONE)
                return self._held
            return GO_ON

    def leave(self) -> None:
        """The run leaves the boundary, one way or the other."""
        with self._lock:
            self._held = None
            self.gate = None

    def expire(self, hold: Hold) -> None:
        """End a pause that nobody ended."""
        with self._changing() as state:
            if state is RunState.PAUSED and self._held is hold:
                hold.ended_by = "max_pause"
                self._tell("expired")
                self._become(RunState.RUNNING)
                self._let_go()

    def take_directives(self, *, ending: bool) -> list[Directive]:
        """What the next request is to hold, no longer queued. Say with `taken` or `handed_over` what became of it."""
        with self._lock:
            return [] if self.state is RunState.ABORTING else self._queue.take(ending=ending)

    def taken(self, directive: Directive, step: int) -> None:
        """The model request `step` holds the directive."""
        if directive.order is not None:
            with self._changing():
                self._settle(directive.order, TargetState.DONE, step=step)

    def failed(self, directive: Directive) -> None:
        """The library would not take it."""
        if directive.order is not None:
            with self._changing():
                self._settle(directive.order, TargetState.FAILED, "a failure of run control itself; the run goes on")

    def handed_over(self, directive: Directive) -> None:
        """The library has the directive, and will make one more request with it."""
        with self._lock:
            self._handed_over.append(directive)

    def confirm(self, step: int) -> None:
        """That request is being made."""
        with self._lock:
            confirmed, self._handed_over = self._handed_over, []
        for directive in confirmed:
            self.taken(directive, step)

    def fault(self) -> None:
        """A boundary of ours failed: everything that waited for one has failed, and the run goes on."""
        with self._changing() as state:
            waiting = [*self._take_pausing(), *self._aborting, *(order for order, _ in self._jobs)]
            waiting += [item.order for item in self._queue.take(ending=True) if item.order is not None]
            self._aborting, self._jobs = [], []
            for order in waiting:
                self._settle(order, TargetState.FAILED, "a failure of run control itself; the run goes on")
            if state is not RunState.ENDED:
                self._aborted = False
                self._become(RunState.RUNNING)

    def end(self, *, cancelled: bool) -> None:
        """The run is over."""
        with self._changing() as state:
            if state is RunState.ENDED:
                return
            self._aborted = self._aborted and cancelled
            self._become(RunState.ENDED)
            self.gate = self._held = None
            for order in self._aborting:
                self._settle(order, TargetState.DONE if cancelled else TargetState.ENDED)
            for order in [*self._take_pausing(), *(order for order, _ in self._jobs)]:
                self._settle(order, TargetState.ENDED, "it ended before it reached a boundary")
            for directive in [*self._handed_over, *self._queue.take(ending=True)]:
                if directive.order is not None:
                    self._settle(directive.order, TargetState.NOT_CONSUMED, "it ended before another request")
            self._jobs, self._aborting, self._handed_over = [], [], []
            self._tell("ended")
        self.action = None  # an ended run is remembered; what it recorded is not held for that

    # --- inside the lock ---

    @contextmanager
    def _changing(self) -> Generator[RunState]:
        """The lock, and the state; what is to be told is told once the lock is free."""
        try:
            with self._lock:
                yield self.state
        finally:
            self._tell_untold()

    def _tell_untold(self) -> None:
        with self._lock:
            untold, self._untold = self._untold, []
        for telling in untold:
            telling()

    def _become(self, state: RunState) -> None:
        if self.state is RunState.PAUSED and state is RunState.RUNNING:
            self._tell("resumed")
        self.state = state
        self.since = time.time()

    def _tell(self, kind: str) -> None:
        self._untold.append(lambda: self._listener(self, kind, None))

    def _settle(self, order: Order, state: TargetState, note: str | None = None, **details: Any) -> None:
        if order.settle(state, note, **details):
            self._untold.append(lambda: self._listener(self, "settled", order))

    def _closed(self, order: Order, ended: TargetState = TargetState.ENDED) -> bool:
        """Whether nothing can be asked of it, which the order then says."""
        if self.refusal is not None:
            self._settle(order, TargetState.REFUSED, self.refusal)
        elif self.state is RunState.ENDED:
            self._settle(order, ended, "it has ended")
        else:
            return False
        return True

    def _take_pausing(self) -> list[Order]:
        pausing, self._pausing = self._pausing, []
        return pausing

    def _wake(self) -> None:
        if self._held is not None:
            self._held.release()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.let_go = True
            self._held.release()

    def _do_jobs(self) -> None:
        jobs, self._jobs = self._jobs, []
        for order, job in jobs:
            if not guard.call("control.job", lambda job=job: _done(job), False):
                self._settle(order, TargetState.FAILED, "a failure of run control itself; the run goes on")

    def _deadline_note(self) -> str | None:
        remaining = guard.call("control.deadline", self._port.remaining)
        if remaining is None:
            return None
        return f"the run's own timeout goes on while it is held: {max(remaining, 0):.1f} s are left"

    def _threads_note(self) -> str | None:
        threads = guard.call("control.threads", self._port.tools_in_threads, 0)
        if not threads:
            return None
        return f"{threads} synchronous tool(s) in a thread cannot be stopped: they finish, and their result is dropped"


def _done(job: Job) -> bool:
    job()
    return True

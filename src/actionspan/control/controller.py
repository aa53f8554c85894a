"""The controller of the runs in this process."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self, cast

from actionspan import guard
from actionspan.control._port import RunPort
from actionspan.control._registry import Registry, RunStatus
from actionspan.control._runs import ControlledRun, RunIdentity
from actionspan.control._steering import Directive
from actionspan.control._telling import Call, Chronicle
from actionspan.control.checkpoints import Checkpoint, Restored
from actionspan.control.contract import PRIORITIES, ControlVerb, Priority, RunState, TargetState
from actionspan.control.errors import CheckpointError
from actionspan.control.events import ControlEvent, EventHub, EventStream
from actionspan.control.receipts import Order, Receipt, Target
from actionspan.control.stores import CheckpointStore, DirectoryCheckpointStore, MemoryCheckpointStore
from actionspan.policy import AuditMode
from actionspan.recorder.contract import Recorder
from actionspan.settings import read_settings, resolve_audit_mode
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.span import ActionSpan

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from actionspan.control._server import ControlServer

__all__ = ["RunControl", "called_from", "control_serving"]

Act = Callable[[ControlledRun, Order], None]

_source: ContextVar[str] = ContextVar("actionspan_control_source", default="api")


_by_environment: weakref.WeakValueDictionary[str, RunControl] = weakref.WeakValueDictionary()
"""Who serves from the directory that the environment names: a verb from there must not reach a run twice."""


def control_serving(directory: str | os.PathLike[str]) -> RunControl | None:
    """The control of this process that serves from `directory` because the environment says so."""
    return _by_environment.get(os.path.abspath(directory))


@contextmanager
def called_from(source: str) -> Generator[None]:
    """Within this block verbs come from `source`, which the record says."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


class RunControl:
    """Pauses, steers, checkpoints, rolls back and aborts live runs; see `Control` for the verbs.

    Attach it with `Agent(capabilities=[control.capability()])`, with the same argument of one run, or to every run
    with `PydanticAIInstrumentor().instrument(control=control)`. A subclass may override `pre_control_action` and
    `post_control_action`.

    `recorder` takes the events of verbs where no instrumentor records. `checkpoints` keeps checkpoints, in memory when
    not given. `serve` is a directory from which other processes of this user find and control the runs, else
    `ACTIONSPAN_CONTROL`. `max_pause` (seconds or `timedelta`) ends a pause that nobody ended. Raises `ValueError` for a
    `max_pause` that is not positive, `OSError` for a directory that cannot be served from.
    """

    def __init__(
        self,
        *,
        recorder: Recorder | None = None,
        checkpoints: CheckpointStore | None = None,
        serve: str | os.PathLike[str] | None = None,
        max_pause: float | timedelta = timedelta(minutes=15),
    ) -> None:
        seconds = max_pause.total_seconds() if isinstance(max_pause, timedelta) else max_pause
        if not seconds > 0:
            raise ValueError(f"max_pause must be positive, not {max_pause!r}")
        self.max_pause: Final = float(seconds)
        self._runs = Registry()
        self._hub = EventHub()
        self._chronicle = Chronicle(recorder)
        self._checkpoints: CheckpointStore = MemoryCheckpointStore() if checkpoints is None else checkpoints
        self._server: ControlServer | None = None
        self._serve(serve)

    def _serve(self, directory: str | os.PathLike[str] | None) -> None:
        """Serve from `directory`, else from where the environment says, unless a control of this process does."""
        named = None if directory is not None else read_settings().control
        if named is not None and control_serving(named) is not None:
            return
        directory = directory if named is None else named
        if directory is None:
            return
        from actionspan.control._server import ControlServer

        self._server = ControlServer(self, directory)
        if named is not None:
            _by_environment[os.path.abspath(named)] = self

    # --- verbs ---

    def pause(self, reason: str | None = None, agent_id: str | None = None) -> Receipt:
        """Hold matching runs at their next safe boundary. See `Control.pause`."""
        call = Call(ControlVerb.PAUSE, agent_id, reason=reason)
        return self._perform(call, self._runs.matching(agent_id), lambda run, order: run.pause(order))

    def resume(self, agent_id: str | None = None) -> Receipt:
        """Let paused runs go on. See `Control.resume`."""
        call = Call(ControlVerb.RESUME, agent_id)
        return self._perform(call, self._runs.matching(agent_id), lambda run, order: run.resume(order))

    def abort(self, reason: str | None = None, agent_id: str | None = None, *, now: bool = False) -> Receipt:
        """Stop matching runs and those inside them for good. See `Control.abort`."""
        call = Call(ControlVerb.ABORT, agent_id, reason=reason, now=now)
        runs = self._runs.with_inner(self._runs.matching(agent_id))
        return self._perform(call, runs, lambda run, order: run.abort(order, reason, now=now))

    def checkpoint(self, label: str | None = None, agent_id: str | None = None) -> Receipt:
        """Save matching live runs. See `Control.checkpoint`."""
        call = Call(ControlVerb.CHECKPOINT, agent_id, label=label)

        def save(run: ControlledRun, order: Order) -> None:
            run.do_at_gate(order, lambda: self._save(run, order, label))

        return self._perform(call, self._runs.matching(agent_id), save)

    def restore_checkpoint(self, checkpoint_id: str) -> Restored:
        """What a new run needs to go on from a checkpoint. See `Control.restore_checkpoint`."""
        call = Call(ControlVerb.RESTORE, checkpoint_id=checkpoint_id)
        vetoed = self._veto(call)
        if vetoed is not None:
            return Restored(self._perform(call, [], _nothing, vetoed), None)
        try:
            checkpoint = self._checkpoints.load(checkpoint_id)
        except CheckpointError as error:
            receipt = Receipt(call.verb, _source.get())
            guard.call("control.record", lambda failed=error: self._chronicle.verb(call, receipt, [], failed))
            self._after(call, succeeded=False)
            raise

        def roll_back(run: ControlledRun, order: Order) -> None:
            run.do_at_gate(order, lambda: _roll_back(run, order, checkpoint))

        live = [run for run in self._runs.of_run_id(checkpoint.run_id) if run.state is not RunState.ENDED]
        return Restored(self._perform(call, live, roll_back, asked=True), checkpoint)

    def steer(self, directive: str, agent_id: str | None = None, priority: Priority = "normal") -> Receipt:
        """Put a directive into matching runs before their next model request. See `Control.steer`."""
        if priority not in PRIORITIES:
            raise ValueError(f"priority={priority!r} is not one of {', '.join(PRIORITIES)}")
        if not isinstance(cast("object", directive), str) or not directive.strip():
            raise ValueError("a directive is text, and not empty")
        call = Call(ControlVerb.STEER, agent_id, directive=directive, priority=priority)
        return self._perform(
            call,
            self._runs.matching(agent_id),
            lambda run, order: run.steer(order, Directive(directive, priority, order)),
        )

    def drain_steering(self, agent_id: str | None = None) -> Receipt:
        """Take what is queued, in the order the run would have. See `Control.drain_steering`."""
        taken: list[str] = []
        call = Call(ControlVerb.DRAIN, agent_id)

        def drain(run: ControlledRun, order: Order) -> None:
            taken.extend(directive.text for directive in run.drain(order))

        receipt = self._perform(call, self._runs.matching(agent_id), drain)
        receipt.directives = tuple(taken)
        return receipt

    def pre_control_action(self, action: str, reason: str | None, agent_id: str | None) -> None:
        """Nothing; a subclass raises here to veto a verb."""

    def post_control_action(self, action: str, success: bool, agent_id: str | None) -> None:
        """Nothing; a subclass sees here what was done."""

    # --- what there is to see ---

    def status(self) -> tuple[RunStatus, ...]:
        """Every attached run, and the latest that have ended."""
        return self._runs.status()

    def events(self) -> EventStream:
        """Everything that happens from now on: `async for event in control.events()`."""
        return self._hub.open()

    def reason_for(self, run_id: str) -> str | None:
        """Why the run with this id was aborted; None when it was not, or nobody said."""
        return self._runs.reason_for(run_id)

    # --- being attached ---

    def capability(self) -> AbstractCapability[Any]:
        """The Pydantic AI capability that puts the runs of an agent under this control."""
        from actionspan.pydantic_ai.control import ControlCapability

        return ControlCapability(self)

    def attach(
        self,
        identity: RunIdentity,
        port: RunPort,
        *,
        action: ActionSpan | None = None,
        enclosing: ControlledRun | None = None,
        refusal: str | None = None,
    ) -> ControlledRun:
        """Put a run under control; for adapters."""
        run = ControlledRun(identity, port, self._happened, action=action, enclosing=enclosing, refusal=refusal)
        self._runs.add(run)
        self._happened(run, "attached", None)
        for outer in run.enclosing_runs():
            if outer.state is RunState.ABORTING:
                run.inherit_abort(outer)
        return run

    def detach(self, run: ControlledRun, *, cancelled: bool) -> None:
        """A run has ended; for adapters."""
        run.end(cancelled=cancelled)
        self._runs.remove(run)

    def close(self) -> None:
        """Stop serving and end the event streams; runs go on, and can still be controlled from this process."""
        for directory in [key for key, control in _by_environment.items() if control is self]:
            del _by_environment[directory]
        if self._server is not None:
            self._server.close()
        self._hub.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- inside ---

    def _perform(
        self, call: Call, runs: Sequence[ControlledRun], act: Act, vetoed: str | None = None, *, asked: bool = False
    ) -> Receipt:
        """Do it to each of `runs`, unless a hook vetoes it (`asked`: it was asked already), and write it down."""
        receipt = Receipt(call.verb, _source.get(), targets=tuple(_target(run) for run in runs))
        if vetoed is None and not asked:
            vetoed = self._veto(call)
        receipt.error = vetoed
        for run, target in zip(runs, receipt.targets, strict=True):
            order = Order(receipt, target)
            if vetoed is not None:
                order.settle(TargetState.VETOED, "pre_control_action raised")
            elif not guard.call("control.verb", lambda run=run, order=order: _acted(act, run, order), False):
                order.settle(TargetState.FAILED, "a failure of run control itself")
        guard.call("control.record", lambda: self._chronicle.verb(call, receipt, runs))
        self._hub.publish(ControlEvent(call.verb.value, time.time(), receipt=receipt))
        self._after(call, succeeded=vetoed is None and receipt.succeeded)
        return receipt

    def _veto(self, call: Call) -> str | None:
        """What the hook that vetoes `call` says; None when it does not."""
        try:
            self.pre_control_action(call.verb.value, call.reason, call.agent_id)
        except Exception as error:  # noqa: BLE001 # the hook is the application's, and whatever it raises is its veto
            return f"{type(error).__name__}: {error}"
        return None

    def _after(self, call: Call, *, succeeded: bool) -> None:
        guard.call("control.post_hook", lambda: self.post_control_action(call.verb.value, succeeded, call.agent_id))

    def _save(self, run: ControlledRun, order: Order, label: str | None) -> None:
        checkpoint = run.snapshot(label)
        if isinstance(self._checkpoints, DirectoryCheckpointStore) and not _content_admitted():
            guard.warn_once(
                "control.checkpoints",
                "checkpoints in %s hold whole histories in clear, although the telemetry ceiling is below content",
                self._checkpoints.directory,
            )
        self._checkpoints.save(checkpoint)
        run.latest_checkpoint = checkpoint.id
        run.settle(order, TargetState.DONE, checkpoint_id=checkpoint.id)

    def _happened(self, run: ControlledRun, kind: str, order: Order | None) -> None:
        """Something happened to a run."""
        if order is not None:
            guard.call("control.record", lambda: self._chronicle.settled(order.receipt, order.target, run))
        who = run.identity
        self._hub.publish(
            ControlEvent(
                kind,
                time.time(),
                run=run.handle,
                agent_name=who.agent_name,
                run_id=who.run_id,
                state=run.state,
                gate=run.gate,
                receipt=None if order is None else order.receipt,
                target=None if order is None else order.target,
            )
        )


def _target(run: ControlledRun) -> Target:
    return Target(run.handle, run.identity.agent_name, run.identity.run_id, run.run_action_id)


def _acted(act: Act, run: ControlledRun, order: Order) -> bool:
    act(run, order)
    return True


def _nothing(run: ControlledRun, order: Order) -> None:
    """No run is asked anything."""


def _roll_back(run: ControlledRun, order: Order, checkpoint: Checkpoint) -> None:
    run.roll_back(checkpoint)
    run.settle(order, TargetState.DONE, checkpoint_id=checkpoint.id)


def _content_admitted() -> bool:
    """Whether content is recorded in this process at all."""
    pipeline = active_pipeline()
    if pipeline is not None:
        return pipeline.policy.any_content
    return resolve_audit_mode() is AuditMode.CONTENT

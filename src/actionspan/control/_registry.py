"""The runs of one controller: those attached, and the latest that have ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from actionspan.control._runs import ControlledRun
from actionspan.control.contract import Gate, RunState

__all__ = ["Registry", "RunStatus"]

_MOST_ENDED: Final = 1024


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run as it stands."""

    run: str
    """Our own handle."""
    agent_name: str | None
    run_id: str | None
    run_action_id: str | None
    conversation_id: str | None
    state: RunState
    since: float
    """When it got into that state, in epoch seconds."""
    gate: Gate | None
    """The boundary it is at."""
    step: int
    """The latest model request, from 1."""
    queued: int
    """Directives that wait."""
    reason: str | None
    """Why it was aborted."""
    inside: str | None
    """The handle of the run it is inside of."""
    refusal: str | None
    """Why it cannot be controlled."""


class Registry:
    """Attached runs in the order they came. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, ControlledRun] = {}
        self._ended: OrderedDict[str, ControlledRun] = OrderedDict()

    def add(self, run: ControlledRun) -> None:
        """`run` is attached."""
        with self._lock:
            self._live[run.handle] = run

    def remove(self, run: ControlledRun) -> None:
        """`run` has ended; it is remembered for a while, so that a verb can be told so."""
        with self._lock:
            if self._live.pop(run.handle, None) is not None:
                self._ended[run.handle] = run
                while len(self._ended) > _MOST_ENDED:
                    self._ended.popitem(last=False)

    def matching(self, agent_id: str | None) -> list[ControlledRun]:
        """The attached runs that `agent_id` names; where there are none, the ended ones it names."""
        live, ended = self._all()
        found = [run for run in live if run.matches(agent_id)]
        if not found and agent_id is not None:
            found = [run for run in ended if run.matches(agent_id)]
        return found

    def with_inner(self, runs: list[ControlledRun]) -> list[ControlledRun]:
        """`runs`, and the attached runs inside of them."""
        live, _ = self._all()
        named = {run.handle for run in runs}
        inner = [
            run for run in live if run.handle not in named and any(o.handle in named for o in run.enclosing_runs())
        ]
        return [*runs, *inner]

    def of_run_id(self, run_id: str | None) -> list[ControlledRun]:
        """The attached runs with this id of the library's."""
        live, _ = self._all()
        return [] if run_id is None else [run for run in live if run.identity.run_id == run_id]

    def reason_for(self, run_id: str) -> str | None:
        """Why the run with this id was aborted."""
        live, ended = self._all()
        for run in (*reversed(ended), *live):
            if run.identity.run_id == run_id and run.reason is not None:
                return run.reason
        return None

    def status(self) -> tuple[RunStatus, ...]:
        """Every run known, the latest last."""
        live, ended = self._all()
        return tuple(_status(run) for run in (*ended, *live))

    def _all(self) -> tuple[list[ControlledRun], list[ControlledRun]]:
        with self._lock:
            return list(self._live.values()), list(self._ended.values())


def _status(run: ControlledRun) -> RunStatus:
    who = run.identity
    return RunStatus(
        run.handle,
        who.agent_name,
        who.run_id,
        run.run_action_id,
        who.conversation_id,
        run.state,
        run.since,
        run.gate,
        run.step,
        run.queued,
        run.reason,
        None if run.enclosing is None else run.enclosing.handle,
        run.refusal,
    )

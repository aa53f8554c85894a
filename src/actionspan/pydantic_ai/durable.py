"""What is different in durable workflows.

A workflow's code runs again, from a journal, when its worker is lost: what it does there already happened. What it
sends, it sends from elsewhere: a Temporal activity, in another process perhaps, or a DBOS step. So the ids of a run
are computed from what every worker knows, and its own actions are told of once they are known to have happened now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from contextvars import Context as Variables
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from types import ModuleType
from typing import Any, Final, Protocol, TypedDict

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.util.types import AttributeValue
from pydantic_ai.tools import RunContext

from actionspan import guard
from actionspan.pydantic_ai.compat import current_run_context, dbos_position
from actionspan.telemetry import names
from actionspan.telemetry.clock import Clock
from actionspan.telemetry.deferred import Happened, SpanIds, deferred
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import RunFacts, start_agent_run
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionNamespace

__all__ = ["RunElsewhere", "Workflow", "copied_by_sandbox", "enter_workflow", "run_elsewhere", "warn_about_sandbox"]


class Workflow(Protocol):
    """The workflow whose code is running, as one run in it needs it."""

    clock: Clock | None
    """The time as a replay sees it again; None where that is the time of day."""
    started_ns: int | None
    """When the run began, where this is not the first time."""

    def pipeline(self, real: Pipeline, run_id: str) -> Pipeline:
        """`real`, telling of what happened now only."""
        ...

    def ending_of(self, error: BaseException) -> Ending | None:
        """How something ended that `error` left, where that is the engine's way of ending it."""
        ...

    def runs_again(self, error: BaseException) -> bool:
        """Whether `error` is no end, because the engine runs the same code again."""
        ...


async def enter_workflow(ctx: RunContext[Any]) -> Workflow | None:
    """The workflow that a run is entered in; None outside, and in an engine of which nothing is known."""
    if not guard.call("durable.enter", lambda: ctx.in_durable_context, False):
        return None
    if _in_temporal_workflow():
        return guard.call("durable.enter", TemporalWorkflow.current)
    dbos = _dbos()
    if dbos is not None and dbos.workflow_id is not None:
        steps = await _recorded_steps(dbos, dbos.workflow_id)
        return guard.call("durable.enter", lambda: DbosWorkflow.current(dbos, steps))
    return None


def copied_by_sandbox() -> bool:
    """Whether this module is a copy that Temporal's sandbox made, in which nothing reaches the real providers."""
    return type(os) is not ModuleType


def warn_about_sandbox() -> None:
    """Say once in this process, of which each copy knows the loggers only, how the package is to be passed through."""
    logger = logging.getLogger("actionspan.sandbox")
    logger.warning(
        "Temporal's sandbox has imported actionspan anew for a workflow, where it can reach no exporter: pass "
        '"actionspan" and "opentelemetry" through (SandboxRestrictions.with_passthrough_modules) to trace its runs.'
    )
    logger.disabled = True


def _ids(workflow_key: str, run_id: str, number: int | None = 0) -> tuple[int, int]:
    """The trace id of a workflow without a trace, and the span id of action `number` of a run in it; 0 is the run."""
    trace_digest = sha256(f"actionspan:{workflow_key}".encode()).digest()
    span_digest = sha256(f"actionspan:{workflow_key}:{run_id}:{number}".encode()).digest()
    return int.from_bytes(trace_digest[:16]) or 1, int.from_bytes(span_digest[:8]) or 1


# --- Temporal ---


def _temporal(module: str) -> Any:
    """A module of Temporal's SDK, if the application uses it."""
    return sys.modules.get(f"temporalio.{module}")


def _in_temporal_workflow() -> bool:
    workflow = _temporal("workflow")
    return workflow is not None and workflow.in_workflow()


class _WorkflowClock(Clock):
    """The workflow's own time, which is that of its history; it stands still within a task, and order must not."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        super().__init__()
        self._latest = 0

    def now(self) -> int:
        """Nanoseconds since the epoch, one more than before at least."""
        time = int(_temporal("workflow").time_ns()) if _in_temporal_workflow() else super().now()
        self._latest = max(time, self._latest + 1)
        return self._latest


@dataclass(eq=False)
class TemporalWorkflow:
    """A Temporal workflow. Replays are deterministic, so the actions of a run can be counted."""

    key: str
    clock: Clock | None = field(default_factory=_WorkflowClock)
    started_ns: int | None = None

    @classmethod
    def current(cls) -> TemporalWorkflow:
        """The one whose code is running."""
        info = _temporal("workflow").info()
        return cls(_temporal_key(info.workflow_id, info.run_id))

    def pipeline(self, real: Pipeline, run_id: str) -> Pipeline:
        """`real`, for actions that are told of when they end outside a replay."""
        numbers = count()
        return deferred(real, lambda: _ids(self.key, run_id, next(numbers)), lambda: _not_replaying, _never)

    def ending_of(self, error: BaseException) -> Ending | None:
        """A workflow that goes on as a new one, or was cancelled while it waited for an activity."""
        if isinstance(error, _temporal("workflow").ContinueAsNewError):
            return Ending.deferred("continued_as_new")
        if _temporal("exceptions").is_cancelled_exception(error):
            return Ending.cancelled("task_cancelled")
        return None

    def runs_again(self, error: BaseException) -> bool:
        """An error that fails the workflow's task, and not the workflow, has Temporal try the task again."""
        return (
            isinstance(error, Exception)
            and _in_temporal_workflow()
            and not _temporal("workflow").is_failure_exception(error)
        )


def _temporal_key(workflow_id: str | None, run_id: str | None) -> str:
    return f"temporal:{workflow_id}:{run_id}"


_told: Final[dict[AttributeValue | None, None]] = {}
"""Actions told of by this process. A replay for a query, or of a task that failed, may seem to go on."""
_MAX_TOLD: Final = 16_384


def _not_replaying(attributes: Mapping[str, AttributeValue]) -> bool:
    """Whether a workflow goes on. An evicted one counts as replaying, and one that is collected is in none."""
    if not _in_temporal_workflow() or _temporal("workflow").unsafe.is_replaying_history_events():
        return False
    action = attributes.get(names.ACTION_ID)
    if action in _told:
        return False
    while len(_told) >= _MAX_TOLD:
        _told.pop(next(iter(_told)), None)
    _told[action] = None
    return True


def _never(_namespace: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RunElsewhere:
    """The run that an activity works for."""

    action: ActionSpan
    """Stands for the run's action, which its workflow ends."""
    facts: RunFacts
    step: int
    attempt: int
    """Which attempt at the activity this is, from 1."""


def run_elsewhere(pipeline: Pipeline) -> RunElsewhere | None:
    """The run that the current Temporal activity works for; None anywhere else."""
    activity = _temporal("activity")
    if activity is None or not activity.in_activity():
        return None
    ctx = current_run_context()
    if ctx is None or ctx.run_id is None:
        return None
    info = activity.info()
    facts = RunFacts(None if ctx.agent is None else ctx.agent.name, ctx.conversation_id, ctx.run_id)
    ids = _ids(_temporal_key(info.workflow_id, info.workflow_run_id), ctx.run_id)
    action = _stand_in(pipeline, facts, lambda: ids)
    return RunElsewhere(action, facts, ctx.run_step, info.attempt)


def _stand_in(pipeline: Pipeline, facts: RunFacts, ids: SpanIds) -> ActionSpan:
    token = None if _propagated() else otel_context.attach(Context())
    try:
        action = start_agent_run(
            deferred(pipeline, ids, lambda: _never_here, _never),
            facts,
            provider=None,
            resumes_run_id=None,
            links=(),
            clock=Clock(),
            start_ns=0,
        )
    finally:
        if token is not None:
            otel_context.detach(token)
    action.ending = Ending.success()  # what is interrupted below it must not wait for an end that comes elsewhere
    return action


def _never_here(_attributes: Mapping[str, AttributeValue]) -> bool:
    return False


def _propagated() -> bool:
    """Whether the current span came with the activity, rather than being one that the worker happens to run in."""
    span = trace.get_current_span()
    parent = getattr(span, "parent", None)
    return span.get_span_context().is_remote or (parent is not None and parent.is_remote)


# --- DBOS ---


def _dbos() -> Any:
    module = sys.modules.get("dbos")
    return None if module is None else getattr(module, "DBOS", None)


class _Step(TypedDict):
    """What is read of DBOS's description of a step."""

    function_id: int
    started_at_epoch_ms: int | None


_SECONDS_FOR_JOURNAL: Final = 5.0


async def _recorded_steps(dbos: Any, workflow_id: str) -> list[_Step]:
    """The steps that the workflow's journal holds by now; none in its first life, and none if that fails."""

    def read() -> list[_Step]:
        shard = getattr(dbos, "shard_key", None)
        arguments = {} if shard is None else {"shard_key": shard}
        # In an empty context this is no step of the workflow, which would change what it records.
        return Variables().run(lambda: dbos.list_workflow_steps(workflow_id, **arguments))

    work = asyncio.get_running_loop().run_in_executor(None, read)
    await asyncio.wait([work], timeout=_SECONDS_FOR_JOURNAL)
    nothing: list[_Step] = []
    return guard.call("durable.journal", work.result, nothing)


@dataclass(eq=False)
class DbosWorkflow:
    """A DBOS workflow. What it recorded is not done again; what it did without recording is."""

    key: str
    cancelled: tuple[type[BaseException], ...]
    recorded: frozenset[int]
    """The numbers of the steps it had recorded when the run began."""
    clock: Clock | None = None
    started_ns: int | None = None

    @classmethod
    def current(cls, dbos: Any, steps: list[_Step]) -> DbosWorkflow:
        """The one whose code is running, of which `steps` are recorded."""
        position = dbos_position() or 0
        starts = {step["function_id"]: step["started_at_epoch_ms"] for step in steps}
        milliseconds = starts.get(position + 1)
        errors = sys.modules["dbos"].error
        return cls(
            # An application may name its workflows as another does.
            f"dbos:{dbos.application_version}:{dbos.workflow_id}",
            (errors.DBOSWorkflowCancelledError, errors.DBOSWorkflowConflictIDError),
            frozenset(starts),
            started_ns=None if milliseconds is None else milliseconds * 1_000_000,
        )

    def pipeline(self, real: Pipeline, run_id: str) -> Pipeline:
        """`real`, for actions whose steps were not all recorded before."""
        run = iter([_ids(self.key, run_id)])
        return deferred(real, lambda: next(run, (None, None)), self._begin, self._runs_once)

    def _runs_once(self, namespace: str) -> bool:
        """In a step, and beyond the journal's end. The run itself has its own ids in every life."""
        if namespace == ActionNamespace.AGENT:
            return False
        return _dbos().step_id is not None or not self._passed(dbos_position())

    def _passed(self, position: int | None) -> bool:
        """Whether an earlier life got beyond this point."""
        return position is not None and position < max(self.recorded, default=0)

    def _begin(self) -> Happened:
        began = dbos_position()

        def happened(attributes: Mapping[str, AttributeValue]) -> bool:
            position = dbos_position()
            if began is None or position is None:
                return True
            if attributes.get(names.TOOL_EXECUTED) is not True:
                return not self._passed(position)
            # A tool that is no step runs again, and one that is a step does not.
            steps = range(began + 1, position + 1)
            return not steps or not self.recorded.issuperset(steps)

        return happened

    def ending_of(self, error: BaseException) -> Ending | None:
        """A workflow that was cancelled."""
        return Ending.cancelled("task_cancelled") if isinstance(error, self.cancelled) else None

    def runs_again(self, error: BaseException) -> bool:
        """Never by an error."""
        return False

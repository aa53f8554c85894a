"""Run control as a Pydantic AI capability: the boundaries at which a run can be held, and what is done there."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai import CallToolsNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, CombinedCapability, Instrumentation
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.result import FinalResult
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests, RunContext, ToolDefinition
from pydantic_graph import End

from actionspan import guard
from actionspan.control._gates import FAULT, GO_ON, STOP, Decision, Hold
from actionspan.control._runs import ControlledRun, RunIdentity
from actionspan.control._telling import start_wait
from actionspan.control.contract import Gate
from actionspan.pydantic_ai.capability import SessionCapability
from actionspan.pydantic_ai.live_run import LiveRun, claim
from actionspan.pydantic_ai.run import RunTracker, current_tracker
from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.span import ActionSpan

if TYPE_CHECKING:
    from actionspan.control.controller import RunControl

__all__ = ["ControlCapability"]

_current: ContextVar[ControlledRun | None] = ContextVar("actionspan_controlled_run", default=None)
"""The controlled run whose code is being executed, so that a run inside it knows."""

_DURABLE: Final = (
    "it runs in a durable workflow, whose steps are replayed: what changes it from outside would not be replayed, "
    "so control it through the workflow engine's own signals"
)


class ControlCapability(AbstractCapability[Any]):
    """Puts the runs of an agent under a `RunControl`.

    It has two gates: before a model request, and before the tool calls of a response are handled. A failure of ours in
    a gate lets the run go on; a cancellation passes.
    """

    def __init__(self, control: RunControl, *, per_run: bool = False) -> None:
        self.control: Final = control
        self._per_run = per_run
        self._released = per_run
        """Whether somebody calls `release`; who made it per run does."""
        self._run: ControlledRun | None = None
        self._live: LiveRun | None = None

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """It is configuration of the process, not of an agent's specification."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Outside everything but our own spans: nothing can undo an abort, and a hold is no model latency."""
        return CapabilityOrdering(position="outermost", wraps=(Instrumentation,), wrapped_by=(SessionCapability,))

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """The instance that holds this run's state; nothing inside a durable workflow that takes none per run."""
        if ctx.in_durable_context and self._per_run:
            self._run = guard.call("control.attach", lambda: self._attach(ctx, _DURABLE))
            return CombinedCapability([])
        if self._per_run:
            return self
        return ControlCapability(self.control)

    def release(self, tracker: RunTracker | None, error: BaseException | None) -> None:
        """The run was left by `error`. The library cancels it before and after `wrap_run`, too: now all is known."""
        run = self._run
        if run is not None:
            cancelled = isinstance(error, (RunCancelled, CancelledError)) and run.aborted
            guard.call("control.detach", lambda: self._detach(tracker, run, cancelled))

    # --- the run ---

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Any]) -> AgentRunResult[Any]:
        """The run is attached for as long as it lasts."""
        refusal = _DURABLE if ctx.in_durable_context else None
        run = self._run = guard.call("control.attach", lambda: self._attach(ctx, refusal))
        if run is None:
            return await handler()
        outer = _current.set(run)
        cancelled = False
        try:
            return await handler()
        except CancelledError:
            cancelled = run.aborted
            raise
        finally:
            guard.call("context", lambda: _current.reset(outer))
            if not self._released:
                guard.call("control.detach", lambda: self._detach(_tracker_of(ctx), run, cancelled))

    def _attach(self, ctx: RunContext[Any], refusal: str | None) -> ControlledRun:
        self._live = live = LiveRun(ctx)
        tracker = _tracker_of(ctx)
        if tracker is not None and tracker.to_release is not None and not self._released:
            tracker.to_release.append(self)
            self._released = True
        agent = ctx.agent
        run = self.control.attach(
            RunIdentity(None if agent is None else agent.name, ctx.run_id, ctx.conversation_id),
            live,
            # A durable run's actions are counted, so that a replay finds them again: ours would shift the count.
            action=None if tracker is None or refusal is not None else tracker.action,
            enclosing=_current.get(),
            refusal=refusal,
        )
        checkpoint = claim(ctx.messages)
        if checkpoint is not None:
            run.adopt(checkpoint)
            if run.action is not None:
                run.action.set({names.RESUMES_RUN_ID: checkpoint.run_id, names.CHECKPOINT_ID: checkpoint.id})
        return run

    def _detach(self, tracker: RunTracker | None, run: ControlledRun, cancelled: bool) -> None:
        if cancelled and tracker is not None:
            tracker.abort(run.reason)
        self.control.detach(run, cancelled=cancelled)

    # --- the gates ---

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Callable[[Any], Any]
    ) -> ModelResponse:
        """The model gate: the history is complete and no tool is in flight."""
        run, live = self._run, self._live
        if run is None or live is None or run.refusal is not None:
            return await handler(request_context)
        await self._pass(run, live, Gate.MODEL, ctx, request_context)
        if live.answer is not None:
            return live.answer
        guard.call("control.steer", lambda: _steer(run, ctx))
        return await handler(request_context)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        """The tools gate: the history ends in the response whose calls are handled next."""
        run, live = self._run, self._live
        if run is None or live is None or run.refusal is not None or not isinstance(node, CallToolsNode):
            return node
        await self._pass(run, live, Gate.TOOLS, ctx, None)
        return live.replacement or cast("Any", node)

    async def wrap_node_run(self, ctx: RunContext[Any], *, node: Any, handler: Callable[[Any], Any]) -> Any:
        """Where the run would end, what waited for that has its turn: the library makes one more request."""
        result: Any = await handler(node)
        run = self._run
        # A streamed run ends in a node of its own, after which the library makes no request any more.
        if run is not None and isinstance(node, CallToolsNode) and isinstance(result, End):
            end = cast("End[FinalResult[Any]]", result)
            guard.call("control.steer", lambda: _redirect(run, ctx, end))
            return end
        return result

    async def _pass(
        self,
        run: ControlledRun,
        live: LiveRun,
        gate: Gate,
        ctx: RunContext[Any],
        request: ModelRequestContext | None,
    ) -> None:
        """Hold the run here for as long as somebody wants it held."""
        guard.call("control.gate", lambda: _arrive(run, live, gate, ctx, request))
        waiting: ActionSpan | None = None
        ended_by: str | None = None
        try:
            while True:
                decision = guard.call("control.gate", lambda: run.decide(_new_hold), FAULT)
                if not isinstance(decision, Hold):
                    break
                if waiting is None:
                    waiting = guard.call("control.wait", lambda: start_wait(run, gate))
                await self._wait(run, decision)
                ended_by = decision.ended_by
        except BaseException as error:
            if waiting is not None:
                waiting.interrupt(error)
            raise
        finally:
            guard.call("control.gate", run.leave)
        if waiting is not None:
            waiting.finish(Ending.cancelled("aborted") if decision is STOP else Ending.success(ended_by))
        await _obey(run, live, decision)

    async def _wait(self, run: ControlledRun, hold: Hold) -> None:
        """Until somebody wakes it, or the pause has lasted too long."""
        timer = hold.loop.call_later(
            self.control.max_pause, lambda: guard.call("control.expire", lambda: run.expire(hold))
        )
        try:
            await hold.future
        finally:
            timer.cancel()

    # --- its tools ---

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[Any], Any],
    ) -> Any:
        """Count the tools that nothing can stop."""
        live = self._live
        if live is None or not guard.call("control.tool", lambda: _runs_in_a_thread(ctx, call), False):
            return await handler(args)
        live.threads += 1
        try:
            return await handler(args)
        finally:
            live.threads -= 1


def _arrive(
    run: ControlledRun, live: LiveRun, gate: Gate, ctx: RunContext[Any], request: ModelRequestContext | None
) -> None:
    live.arrive(ctx, request)
    run.arrive(gate, ctx.run_step)


def _new_hold() -> Hold:
    loop = asyncio.get_running_loop()
    return Hold(loop, loop.create_future())


async def _obey(run: ControlledRun, live: LiveRun, decision: Decision) -> None:
    """Go on, or stop: then this never returns, since returning, or even yielding once, would call the model."""
    if decision is GO_ON:
        return
    if decision is STOP:
        if live.cancel_requested:
            # Somebody swallowed the cancellation that was already delivered; no second one would come.
            raise CancelledError("the run was aborted")
        if guard.call("control.cancel", lambda: _cancelled(live), False):
            await asyncio.get_running_loop().create_future()
    guard.call("control.fault", run.fault)


def _cancelled(live: LiveRun) -> bool:
    live.cancel()
    return True


def _steer(run: ControlledRun, ctx: RunContext[Any]) -> None:
    """Put what is queued into the request that is about to be made."""
    run.confirm(ctx.run_step)
    for directive in run.take_directives(ending=False):
        if guard.call("control.enqueue", lambda text=directive.text: ctx.enqueue(text) is not None, False):
            run.taken(directive, ctx.run_step)
        else:
            run.failed(directive)


def _redirect(run: ControlledRun, ctx: RunContext[Any], end: End[FinalResult[Any]]) -> None:
    """Give the library what waited for the end; the request it then makes confirms it."""
    if isinstance(end.data.output, DeferredToolRequests):
        return  # the run waits for somebody else, and makes no request of its own any more
    for directive in run.take_directives(ending=True):
        if guard.call("control.enqueue", lambda text=directive.text: ctx.enqueue(text) is not None, False):
            run.handed_over(directive)
        else:
            run.failed(directive)


def _runs_in_a_thread(ctx: RunContext[Any], call: ToolCallPart) -> bool:
    """Whether the call is to a plain function, which the library puts into a thread."""
    manager = ctx.tool_manager
    tool: Any = None if manager is None or manager.tools is None else manager.tools.get(call.tool_name)
    while hasattr(tool, "source_tool"):  # a toolset made of toolsets
        tool = tool.source_tool
    return getattr(tool, "is_async", True) is False


def _tracker_of(ctx: RunContext[Any]) -> RunTracker | None:
    """The tracker of this very run: a run that is not traced, inside one that is, finds that one's."""
    tracker = current_tracker.get()
    return tracker if tracker is not None and tracker.facts.run_id == ctx.run_id else None

"""The capability that turns the library's hooks into actions: it enters by a hook, calls the run, and leaves."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    Instrumentation,
)
from pydantic_ai.exceptions import SkipModelRequest
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext, ToolDefinition

from actionspan import guard
from actionspan.pydantic_ai.around import around
from actionspan.pydantic_ai.compat import cancel_requested
from actionspan.pydantic_ai.durable import (
    Workflow,
    copied_by_sandbox,
    enter_workflow,
    run_elsewhere,
    warn_about_sandbox,
)
from actionspan.pydantic_ai.model import observe
from actionspan.pydantic_ai.native import warn_about_native
from actionspan.pydantic_ai.output import OutputWatch
from actionspan.pydantic_ai.run import RunTracker, current_tracker, ending_of_run
from actionspan.pydantic_ai.steps import close_step, expect_step, handles_calls
from actionspan.pydantic_ai.toolwatch import ToolWatch
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionOperation, ActionOutcome

__all__ = ["ActionCapability", "SessionCapability"]

T = TypeVar("T")


class SessionCapability(AbstractCapability[Any]):
    """Makes the actions of one run or realtime session: itself and its tool calls.

    Injected with the run's tracker by the instrumentor; or put on an agent by hand with `pipeline`, when it makes a
    tracker for each run itself. A realtime session never calls the hooks of `ActionCapability`, and warns of a
    capability that has them.
    """

    def __init__(
        self, tracker: RunTracker | None = None, *, pipeline: Callable[[], Pipeline | None] | None = None
    ) -> None:
        self._tracker = tracker
        self._pipeline = pipeline
        self._agent: AbstractAgent[Any, Any] | None = None
        self._closes_run = False
        self._executing: dict[int, ToolWatch] = {}
        """The executions under way by the address of their call, which is alive as long."""

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """It is configuration of the process, not of an agent's specification."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Outside everything: a capability that changes what happens is part of what happened."""
        return CapabilityOrdering(position="outermost", wraps=(Instrumentation,))

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """The instance that holds this run's state; nothing at all inside a durable workflow's deterministic code."""
        tracker = self._tracker
        if tracker is None:
            if copied_by_sandbox():
                warn_about_sandbox()
                return CombinedCapability([])
            workflow = await enter_workflow(ctx)
            return guard.call("run.start", lambda: self._for_one_run(ctx, workflow), CombinedCapability([]))
        if ctx.in_durable_context:
            tracker.step_aside()
            return CombinedCapability([])
        guard.call("run.start", lambda: tracker.open(ctx))
        guard.call("run.native", lambda: warn_about_native(ctx))
        return self

    def _for_one_run(self, ctx: RunContext[Any], workflow: Workflow | None) -> AbstractCapability[Any]:
        pipeline = None if self._pipeline is None else self._pipeline()
        if pipeline is None:
            return CombinedCapability([])
        if workflow is not None and ctx.run_id is not None:
            pipeline = workflow.pipeline(pipeline, ctx.run_id)
        agent = ctx.agent
        tracker = RunTracker(pipeline, None if agent is None else agent.name, workflow=workflow)
        tracker.open(ctx)
        capability = type(self)(tracker)
        capability._closes_run = True
        return capability

    # --- the run ---

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Any]) -> AgentRunResult[Any]:
        """Make the run's span current for everything in it."""
        tracker = self._tracker
        if tracker is None or tracker.action is None:
            return await handler()
        tracker.context = ctx
        token = tracker.action.attach()
        outer = current_tracker.set(tracker)
        try:
            result = await handler()
        except BaseException as error:
            self._close(tracker, ctx, error, None)
            raise
        else:
            self._close(tracker, ctx, None, result)
            return result
        finally:
            guard.call("context", lambda: current_tracker.reset(outer))
            tracker.action.detach(token)

    def _close(
        self, tracker: RunTracker, ctx: RunContext[Any], error: BaseException | None, result: AgentRunResult[Any] | None
    ) -> None:
        """End the run here, when nobody further out will."""
        if not self._closes_run or _runs_again(tracker, error):
            return
        output = None if result is None else result.output
        ending = ending_of_run(None, error, output, has_result=result is not None, abandoned=False)
        if isinstance(error, CancelledError):
            ending = _ending_seen_from_inside(tracker, ctx)
        elif error is not None:
            ending = _ending_by_engine(tracker, error) or ending
        guard.call("run.end", lambda: tracker.close(ending, messages=ctx.messages, output=output))

    # --- its tool calls ---

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[Any], Any],
    ) -> dict[str, Any]:
        """Validation of a call's arguments; a rejected one is the call's terminal action."""
        watch = self._watch_tool(ctx, call, tool_def, args, ActionOperation.VALIDATE)
        if watch is None:
            return await handler(args)
        return await around(watch.action, handler(args), watch.rejected, watch.accepted)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[Any], Any],
    ) -> Any:
        """An execution, unless another capability has it otherwise."""
        watch = self._watch_tool(ctx, call, tool_def, args, ActionOperation.EXECUTE)
        if watch is None:
            return await handler(args)
        self._executing[id(call)] = watch
        try:
            return await around(
                watch.action,
                _known(watch.tracker, handler(args)),
                lambda error: watch.failed(_as_cancelled(watch.tracker, error)),
                watch.returned,
            )
        finally:
            self._executing.pop(id(call), None)

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """The execution has passed what other capabilities have around it."""
        watch = self._executing.get(id(call))
        if watch is not None:
            watch.reached = True
        return args

    def _watch_tool(
        self, ctx: RunContext[Any], call: ToolCallPart, tool: ToolDefinition, args: object, operation: str
    ) -> ToolWatch | None:
        tracker = self._tracker
        if tracker is None:
            return None
        return guard.call("tool.start", partial(ToolWatch.start, tracker, ctx, call, tool, args, operation))


class ActionCapability(SessionCapability):
    """Makes all the actions of one run."""

    # --- its steps ---

    async def wrap_node_run(self, ctx: RunContext[Any], *, node: Any, handler: Callable[[Any], Any]) -> Any:
        """Keep the ledger of tool calls: which are due before a step, which were answered after it."""
        tracker = self._tracker
        if tracker is None:
            return await handler(node)
        guard.call("step.start", lambda: expect_step(tracker, ctx, node))
        result = await _current(tracker, handler(node))
        if handles_calls(node):
            guard.call("step.end", lambda: close_step(tracker, ctx, node, result))
        return result

    # --- its model requests ---

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Callable[[Any], Any]
    ) -> ModelResponse:
        """Know a request that was answered without the model: no model of ours was asked for."""
        tracker = self._tracker
        if tracker is None:
            return await handler(request_context)
        before, counted = tracker.attempts_prepared, tracker.totals.requests
        guard.call("model.step", lambda: tracker.begin_request(ctx, request_context))
        try:
            response = await handler(request_context)
        except SkipModelRequest as skip:
            _skipped(tracker, ctx, before, skip.response)
            raise
        except BaseException:
            _sent_elsewhere(tracker, before, counted, None)
            raise
        _skipped(tracker, ctx, before, response)
        _sent_elsewhere(tracker, before, counted, response)
        return response

    def get_wrapper_model(self, model: Model) -> Model | None:
        """The model with its requests observed; asked for once for every attempt at a request."""
        tracker = self._tracker
        if tracker is None:
            return guard.call("model.wrap", lambda: self._observed_in_activity(model))
        tracker.attempts_prepared += 1
        return guard.call("model.wrap", lambda: observe(model, tracker))

    def _observed_in_activity(self, model: Model) -> Model | None:
        """The model of a request that a durable workflow has sent by this worker, for a run that is not here."""
        pipeline = None if self._pipeline is None else self._pipeline()
        run = None if pipeline is None else run_elsewhere(pipeline)
        if pipeline is None or run is None:
            return None
        tracker = RunTracker(pipeline, run.facts.agent_name, action=run.action, facts=run.facts, step=run.step)
        return observe(model, tracker, run.attempt)

    # --- its output ---

    async def wrap_output_validate(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Callable[[Any], Any]
    ) -> Any:
        """Validation of structured output; the partial ones of a stream are not actions."""
        return await OutputWatch(self._tracker, ctx, output_context, ActionOperation.VALIDATE).around(handler, output)

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: Callable[[Any], Any]
    ) -> Any:
        """Output functions and validators."""
        return await OutputWatch(self._tracker, ctx, output_context, ActionOperation.PROCESS).around(handler, output)


def _known(tracker: RunTracker, work: Awaitable[T]) -> Awaitable[T]:
    """`work` as code of this run, also in a task that has entered another run since."""
    return work if current_tracker.get() is tracker else _as_code_of(tracker, work)


async def _as_code_of(tracker: RunTracker, work: Awaitable[T]) -> T:
    outer = current_tracker.set(tracker)
    try:
        return await work
    finally:
        guard.call("context", lambda: current_tracker.reset(outer))


def _current(tracker: RunTracker, work: Awaitable[T]) -> Awaitable[T]:
    """The same for what makes no action of its own: what it starts is below the run."""
    action = tracker.action
    return work if action is None or current_tracker.get() is tracker else _below(action, tracker, work)


async def _below(action: ActionSpan, tracker: RunTracker, work: Awaitable[T]) -> T:
    token = action.attach()
    try:
        return await _as_code_of(tracker, work)
    finally:
        action.detach(token)


def _ending_seen_from_inside(tracker: RunTracker, ctx: RunContext[Any]) -> Ending:
    """What cancelled a run, where only the cancelling is seen; whether its consumer just left cannot be told."""
    if tracker.process_exit:
        return Ending.cancelled("process_exit")
    remaining = ctx.remaining_time()
    if remaining is not None and remaining <= 0:
        return Ending.timeout()
    return Ending.cancelled("run_cancelled" if cancel_requested(ctx) else "task_cancelled")


def _skipped(tracker: RunTracker, ctx: RunContext[Any], before: int, response: ModelResponse) -> None:
    """Show a request that was answered without asking for a model since `before` were asked for."""
    if tracker.attempts_prepared == before:
        guard.call("model.skipped", lambda: tracker.skipped_request(ctx, response))


def _sent_elsewhere(tracker: RunTracker, before: int, counted: int, response: ModelResponse | None) -> None:
    """Count a request of a durable workflow that was not made here since `counted` were, by a model asked for."""
    if tracker.workflow is not None and tracker.attempts_prepared > before and tracker.totals.requests == counted:
        guard.call("model.elsewhere", lambda: tracker.counted_elsewhere(response))


def _runs_again(tracker: RunTracker, error: BaseException | None) -> bool:
    workflow = tracker.workflow
    if workflow is None or error is None:
        return False
    return guard.call("durable.end", lambda: workflow.runs_again(error), False)


def _ending_by_engine(tracker: RunTracker, error: BaseException) -> Ending | None:
    workflow = tracker.workflow
    return None if workflow is None else guard.call("durable.end", lambda: workflow.ending_of(error))


def _as_cancelled(tracker: RunTracker, error: BaseException) -> BaseException:
    """`error`, or a plain cancellation where the engine has one of its own."""
    ending = _ending_by_engine(tracker, error)
    return error if ending is None or ending.outcome is not ActionOutcome.CANCELLED else CancelledError()

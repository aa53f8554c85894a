"""One run of an agent, from the moment it is entered until it is left, as its actions."""

from __future__ import annotations

from asyncio import CancelledError
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from opentelemetry.trace import Link, SpanContext
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRun
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import DeferredToolRequests, RunContext, ToolDefinition

from actionspan import guard
from actionspan.pydantic_ai.declared_secrets import secrets_of, secrets_of_tool
from actionspan.pydantic_ai.durable import Workflow
from actionspan.pydantic_ai.messages import arguments_of, message_of_output, message_of_response, parts_of_prompt
from actionspan.pydantic_ai.outcomes import ending_of_error
from actionspan.pydantic_ai.tools import CallRecord, Closing, ToolLedger, answers_of, unanswered_calls
from actionspan.pydantic_ai.usage import usage_of, usage_of_session
from actionspan.telemetry import names
from actionspan.telemetry.clock import Clock
from actionspan.telemetry.current import current_action
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import (
    Requested,
    RunFacts,
    Usage,
    start_agent_run,
    start_model_request,
    start_tool,
)
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionOperation, ActionOutcome

__all__ = ["Releasable", "RunTracker", "current_tracker"]

_deferring: OrderedDict[tuple[str | None, str], SpanContext] = OrderedDict()
"""Where deferred calls were deferred, by run id and tool call id, so that the resumed run can link there."""
_MAX_DEFERRING: Final = 1024

_EXECUTED: Final[Mapping[str, bool]] = {names.TOOL_EXECUTED: True}
_NOT_EXECUTED: Final[Mapping[str, bool]] = {names.TOOL_EXECUTED: False}

current_tracker: ContextVar[RunTracker | None] = ContextVar("actionspan_run", default=None)
"""The run whose code is being executed, for actions that no hook of the run sees."""


class Releasable(Protocol):
    """What holds on to a run until it was left."""

    def release(self, tracker: RunTracker | None, error: BaseException | None) -> None:
        """It was left by `error`."""
        ...


@dataclass(eq=False)
class RunTracker:
    """The state of one run. Its methods are called inside the guard and may raise."""

    pipeline: Pipeline
    agent_name: str | None
    description: str | None = None
    action: ActionSpan | None = None
    facts: RunFacts = field(default_factory=RunFacts)
    ledger: ToolLedger = field(default_factory=ToolLedger)
    totals: Usage = field(default_factory=Usage)
    step: int = 0
    attempts_prepared: int = 0
    """Model requests the library has prepared, which tells a skipped request from one that was sent."""
    request: ModelRequestContext | None = None
    """The request step being made."""
    aside: bool = False
    """A durable workflow runs it: its deterministic code is no place for spans."""
    abandoned: bool = False
    """The consumer of its events went away."""
    context: RunContext[Any] | None = None
    """The latest context a hook was given."""
    live: AgentRun[Any, Any] | None = None
    """The library's own view of the run, where it was entered through `Agent.iter`."""
    process_exit: bool = False
    """Something in it raised `SystemExit` or `KeyboardInterrupt`: what the event loop then cancels, that did."""
    verdict: Ending | None = None
    """What a run that returned has said of itself, when that was no success."""
    aborted: bool = False
    """Run control stopped it, which the library reports as any cancellation of its own."""
    workflow: Workflow | None = None
    """The durable workflow whose code it is part of."""
    to_release: list[Releasable] | None = None
    """What wants to know how the run was left; None where nobody would tell it."""
    _clock: Clock = field(init=False)
    _entered_ns: int = field(init=False)
    _answered_by: str | None = None
    """The model that answered last."""
    _session_before: Usage | None = None
    """What a realtime session's usage was when it began: its model requests pass no hook, so the library counts."""
    _attempted: tuple[int, int] = (0, 0)
    """The step and the library's attempt at it that the latest request was of."""
    _attempt_before: int = 0
    """How many requests of the step the attempts before that one had."""
    _attempt_last: int = 0
    _carried: tuple[int, int, object] = (0, 0, None)
    """The step of the latest request, how many messages the requests before it carried, and the last of those."""
    _latest: tuple[int, object] = (0, None)

    def __post_init__(self) -> None:
        parent, workflow = current_action(), self.workflow
        clock = None if workflow is None else workflow.clock
        self._clock = (clock or Clock()) if parent is None else parent.clock
        started = None if workflow is None else workflow.started_ns
        self._entered_ns = started or self._clock.now()

    # --- its start ---

    def open(self, ctx: RunContext[Any]) -> None:
        """Start the run's action, once its ids are known."""
        if self.action is not None:
            return
        self.context = ctx
        if ctx.realtime:
            self._session_before = usage_of_session(ctx.usage)
        self.facts = RunFacts(self.agent_name, ctx.conversation_id, ctx.run_id)
        resumed = unanswered_calls(ctx.messages)
        if resumed is not None:
            self.ledger.leave_out(*resumed)
        action = self._start(_system(ctx.model), None if resumed is None else resumed[0].run_id, _links(resumed))
        category = "include_model_requests"
        description, metadata, prompt = self.description, ctx.metadata, ctx.prompt
        if description:
            action.add_content(
                category, names.AGENT_DESCRIPTION, lambda content: content.text(names.AGENT_DESCRIPTION, description)
            )
        if metadata:
            action.add_content(category, names.METADATA, lambda content: content.value(names.METADATA, metadata))
        if prompt is not None:
            action.add_content(
                category,
                names.INPUT_MESSAGES,
                lambda content: content.messages(
                    names.INPUT_MESSAGES, [{"role": "user", "parts": parts_of_prompt(prompt)}]
                ),
            )

    def _start(self, provider: str | None, resumes: str | None, links: Sequence[Link]) -> ActionSpan:
        self.action = start_agent_run(
            self.pipeline,
            self.facts,
            provider=provider,
            resumes_run_id=resumes,
            links=links,
            clock=self._clock,
            start_ns=self._entered_ns,
        )
        return self.action

    def step_aside(self) -> None:
        """Leave the run to a capability that was put on the agent by hand."""
        self.aside = True
        guard.warn_once(
            "durable",
            "%s runs in a durable workflow, where a capability cannot be added per run: put actionspan.capability() "
            "on the agent to trace it.",
            self.agent_name or "an agent",
        )

    # --- its model requests ---

    @property
    def request_attempt(self) -> int:
        """Which attempt at this request step the library is making, from 1."""
        return 1 if self.request is None else self.request.attempt

    def attempt_at(self, place: int) -> int:
        """The number of a request to the model at this place of its chain, counted on where the library asks again."""
        attempt, before = (self.step, self.request_attempt), self._attempt_before
        if attempt != self._attempted:
            before = self.request_attempt - 1
            if self._attempted[0] == self.step:
                before = max(before, self._attempt_last)
            self._attempted, self._attempt_before = attempt, before
        self._attempt_last = before + place
        return self._attempt_last

    def answered_by(self, response: ModelResponse) -> None:
        """Note the model that really answered: it wins over a version the application bound."""
        if self.action is not None and response.model_name != self._answered_by:
            self._answered_by = response.model_name
            self.action.set({names.MODEL_VERSION: response.model_name})

    def begin_request(self, ctx: RunContext[Any], request: ModelRequestContext) -> None:
        """A request step begins."""
        self.seen(ctx)
        self.request = request

    def counted_elsewhere(self, response: ModelResponse | None) -> None:
        """Count a request that a durable workflow had sent, now or in an earlier life, and its tokens if it was
        answered: its own action is where it was sent from."""
        if response is None:
            self.totals.requests += 1
        else:
            self.totals.add(usage_of(response.usage))
            self.answered_by(response)

    def next_offset(self, messages: Sequence[ModelMessage]) -> int:
        """How many of `messages` earlier requests of this run have carried, when only what is new is recorded.

        A history that was rewritten in between is carried whole again.
        """
        if self.pipeline.input_messages == "full":
            return 0
        step, count, last = self._carried
        if step != self.step:
            count, last = self._latest
            self._carried = (self.step, count, last)
        self._latest = (len(messages), messages[-1] if messages else None)
        return count if 0 < count <= len(messages) and messages[count - 1] is last else 0

    def skipped_request(self, ctx: RunContext[Any], response: ModelResponse) -> None:
        """A capability answered in the model's place: nothing was sent."""
        self.seen(ctx)
        action = start_model_request(
            self.pipeline,
            self.facts,
            self.action,
            Requested(_system(ctx.model), guard.call("model.name", lambda: ctx.model.model_name)),
            step=self.step,
            attempt=self.request_attempt,
        )
        secrets = secrets_of(None if self.request is None else self.request.model_request_parameters)
        action.add_content(
            "include_model_responses",
            names.OUTPUT_MESSAGES,
            lambda content: content.messages(
                names.OUTPUT_MESSAGES, [message_of_response(response, secrets)], response=True
            ),
        )
        action.finish(Ending.success("skipped"))

    # --- its tool calls ---

    def seen(self, ctx: RunContext[Any]) -> None:
        """Keep what the latest hook says of where the run is."""
        self.context = ctx
        self.step = ctx.run_step or self.step

    def arguments_of(self, tool: ToolDefinition | None, args: object) -> object:
        """A call's arguments as a structure, without what the tool declares secret; None where not admitted."""
        policy = self.pipeline.policy if self.action is None else self.action.policy
        if not policy.include_tool_arguments:
            return None
        secrets = secrets_of_tool(tool)
        return arguments_of(args) if secrets is None else secrets.hide(arguments_of(args))

    def finish_tool(
        self, action: ActionSpan, record: CallRecord, ending: Ending, result: object = None, *, executed: bool = True
    ) -> None:
        """End an execution; one that was put off, or skipped, is none."""
        self.process_exit |= ending.reason == "process_exit"
        if action.aborted_inside:
            ending = _as_aborted(ending)
        executed = executed and ending.outcome is not ActionOutcome.DEFERRED and ending.reason != "skipped"
        record.last = ending
        self.totals.tool_calls += executed
        if ending.outcome is ActionOutcome.SUCCESS:
            action.add_content(
                "include_tool_results",
                names.TOOL_CALL_RESULT,
                lambda content: content.value(names.TOOL_CALL_RESULT, result, response=True),
            )
        action.finish(ending, known=_EXECUTED if executed else _NOT_EXECUTED)

    def interrupt_tool(self, action: ActionSpan, error: BaseException, *, executed: bool) -> None:
        """An execution was stopped by something that only the run will know."""
        self.totals.tool_calls += executed
        action.set({names.TOOL_EXECUTED: executed})
        action.interrupt(error)

    def close_calls(
        self,
        *,
        parts: Mapping[str, ToolReturnPart],
        output: object = None,
        ended: bool = False,
    ) -> None:
        """Show the calls that have been answered, refused or dropped without an execution."""
        if self.ledger.all_settled():
            return
        for closing in self.ledger.closings(tool_of=self._tool_finder(), parts=parts, output=output, ended=ended):
            self._show(closing)

    def _tool_finder(self) -> Callable[[str], ToolDefinition | None] | None:
        """Finds a declared tool by name; None while the tools of the step are not known."""
        for manager in self._managers():
            if manager is not None and manager.tools is not None:
                return manager.get_tool_def
        return None

    def _managers(self) -> Iterator[ToolManager[Any] | None]:
        # A resumed run prepares its tools within the step that needs them, after the step's hooks got their context.
        yield None if self.live is None else self.live.ctx.deps.tool_manager
        yield None if self.context is None else self.context.tool_manager

    def _show(self, closing: Closing) -> None:
        record, tool = closing.record, closing.tool
        record.attempts += 1
        action = start_tool(
            self.pipeline,
            self.facts,
            self.action,
            ActionOperation.EXECUTE,
            name=None if tool is None else tool.name,
            call_id=record.call.tool_call_id,
            step=self.step,
            attempt=record.attempts,
            arguments=self.arguments_of(tool, record.call.args),
        )
        action.set({names.TOOL_EXECUTED: False})
        if tool is None:
            action.add_content(
                "include_model_responses",
                names.INVENTED_TOOL_NAME,
                lambda content: content.text(names.INVENTED_TOOL_NAME, record.call.tool_name),
            )
        if closing.ending.reason == "external_result":
            action.add_content(
                "include_tool_results",
                names.TOOL_CALL_RESULT,
                lambda content: content.value(names.TOOL_CALL_RESULT, closing.content, response=True),
            )
        elif isinstance(closing.content, str):
            text = closing.content
            action.add_content("include_error_messages", names.DENIAL, lambda content: content.text(names.DENIAL, text))
        action.finish(closing.ending)

    # --- its end ---

    def abort(self, reason: str | None) -> None:
        """Run control has stopped it; `reason` is content."""
        self.aborted = True
        action = self.action
        if action is not None and reason is not None:
            action.add_content(
                "include_custom_content",
                names.CONTROL_REASON,
                lambda content: content.text(names.CONTROL_REASON, reason),
            )

    def close(self, ending: Ending, *, messages: Sequence[ModelMessage] = (), output: object = None) -> None:
        """The run was left: settle what waited for this and finish it."""
        if self.action is None:
            # It failed before it had ids: nothing ran, and still somebody asked for a run and got an error.
            self.facts = RunFacts(self.agent_name)
            self._start(None, None, ())
        action = self.action
        assert action is not None  # it was just started, if it had not been before
        if self.aborted:
            ending = _as_aborted(ending)
            if action.parent is not None:
                action.parent.aborted_inside = True
        guard.call("run.calls", lambda: self._close_remaining(messages, output))
        if ending.outcome is ActionOutcome.DEFERRED:
            guard.call("run.deferring", lambda: self._remember_deferring(output))
        elif ending.outcome is ActionOutcome.SUCCESS:
            self._add_output(action, output)
        action.set(self._spent().of_run())
        held, action.held = action.held, []
        for waiting in held:
            waiting.settle(ending)
        if ending.outcome is ActionOutcome.SUCCESS and self.verdict is not None:
            ending = self.verdict
        action.finish(ending)

    def hand_on(self, error: BaseException, *, messages: Sequence[ModelMessage] = ()) -> None:
        """The run was cancelled from outside: the enclosing action will know by what."""
        if self.action is None or self.action.parent is None:
            self.close(Ending.cancelled("task_cancelled"), messages=messages)
            return
        guard.call("run.calls", lambda: self._close_remaining(messages, None))
        self.action.set(self._spent().of_run())
        self.action.interrupt(error)

    def _spent(self) -> Usage:
        if self._session_before is not None and self.context is not None:
            return usage_of_session(self.context.usage).less(self._session_before)
        return self.totals

    def _close_remaining(self, messages: Sequence[ModelMessage], output: object) -> None:
        own = [message for message in messages if message.run_id == self.facts.run_id]
        self.ledger.adopt(message for message in own if isinstance(message, ModelResponse))
        self.close_calls(parts=answers_of(_since_last_response(own)), output=output, ended=True)

    def _remember_deferring(self, output: object) -> None:
        if isinstance(output, DeferredToolRequests) and self.action is not None:
            for call in (*output.calls, *output.approvals):
                _deferring[(self.facts.run_id, call.tool_call_id)] = self.action.span_context
            while len(_deferring) > _MAX_DEFERRING:
                _deferring.popitem(last=False)

    def _add_output(self, action: ActionSpan, output: object) -> None:
        action.add_content(
            "include_model_responses",
            names.OUTPUT_MESSAGES,
            lambda content: content.messages(
                names.OUTPUT_MESSAGES, [message_of_output(output, action.policy)], response=True
            ),
        )


def _as_aborted(ending: Ending) -> Ending:
    """The library's own cancellation, said to be run control's; anything else stopped it for another reason."""
    return Ending.cancelled("aborted") if ending.reason == "run_cancelled" else ending


def ending_of_run(
    arrived: BaseException | None, left: BaseException | None, output: object, *, has_result: bool, abandoned: bool
) -> Ending:
    """How a run ended, from the exception that arrived at its body, the one that left it, and its result."""
    if isinstance(arrived, GeneratorExit) or isinstance(left, GeneratorExit):
        return Ending.cancelled("abandoned")
    if isinstance(left, CancelledError):
        return Ending.cancelled("abandoned" if abandoned else "task_cancelled")
    if left is not None:
        return ending_of_error(left)
    if not has_result:
        return Ending.cancelled("abandoned")
    return Ending.deferred() if isinstance(output, DeferredToolRequests) else Ending.success()


def _since_last_response(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """What may answer the calls that are left: those of earlier responses were answered in their steps, and an id
    may be that of one of them."""
    tail: list[ModelMessage] = []
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            break
        tail.append(message)
    return tail[::-1]


def _system(model: object) -> str | None:
    return guard.call("model.system", lambda: getattr(model, "system", None))


def _links(resumed: tuple[ModelResponse, list[ToolCallPart]] | None) -> list[Link]:
    """A link to the run that deferred what this one resumes, where that was in this process."""
    if resumed is None:
        return []
    response, calls = resumed
    for call in calls:
        context = _deferring.get((response.run_id, call.tool_call_id))
        if context is not None and context.is_valid:
            return [Link(context)]
    return []

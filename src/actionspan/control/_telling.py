"""Run control on the record: a span for each run a verb matched, and one event for the verb."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from actionspan import guard
from actionspan.control._runs import ControlledRun
from actionspan.control.contract import ControlVerb, Gate, Priority, TargetState
from actionspan.control.receipts import Receipt, Target
from actionspan.recorder.contract import Event, Recorder
from actionspan.recorder.events import event_of_end
from actionspan.telemetry import names
from actionspan.telemetry.active import active_pipeline
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import RunFacts
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.vocabulary import ActionNamespace, ActionOperation, phase_of

__all__ = ["Call", "Chronicle", "start_wait"]


@dataclass(frozen=True, slots=True)
class Call:
    """A verb with its arguments."""

    verb: ControlVerb
    agent_id: str | None = None
    reason: str | None = None
    label: str | None = None
    directive: str | None = None
    priority: Priority | None = None
    now: bool = False
    checkpoint_id: str | None = None

    def content(self) -> Iterable[tuple[str, str, str]]:
        """Its content: category, attribute, text."""
        for category, name, text in (
            ("include_custom_content", names.CONTROL_REASON, self.reason),
            ("include_custom_content", names.CONTROL_LABEL, self.label),
            ("include_model_requests", names.CONTROL_DIRECTIVE, self.directive),
        ):
            if text is not None:
                yield category, name, text


@runtime_checkable
class EventSink(Protocol):
    """A pipeline's sink that takes events, too."""

    @property
    def active(self) -> bool: ...
    def emit(self, event: Event) -> None: ...


class Chronicle:
    """Writes down what was asked for and what became of it. Its methods may raise."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder

    def verb(
        self, call: Call, receipt: Receipt, matched: Sequence[ControlledRun], error: BaseException | None = None
    ) -> None:
        """A verb was called: its spans, and its event."""
        states = receipt.announce()
        spans = [
            None if run.action is None else guard.call("control.span", _zero_length(call, receipt, run, state))
            for run, state in zip(matched, states, strict=True)
        ]
        event = self._event_of(call, receipt, matched, spans, error)
        event["call_id"] = receipt.call_id
        event["source"] = receipt.source
        event["targets"] = [
            target.as_dict() | {"state": state.value} | _ids(span)
            for target, state, span in zip(receipt.targets, states, spans, strict=True)
        ]
        self._emit(event, matched)

    def settled(self, receipt: Receipt, target: Target, run: ControlledRun) -> None:
        """Something became of a pending target, after its verb was written down."""
        action = run.action
        event: dict[str, Any] = {
            "kind": f"{ActionNamespace.CONTROL}.{receipt.verb.value}.settled",
            "time_unix_nano": time.time_ns() if action is None else action.clock.now(),
            "call_id": receipt.call_id,
            "state": target.state.value,
            **_of_run(run),
            "targets": [target.as_dict()],
        }
        if action is not None and action.span_context.is_valid:
            event["trace_id"] = f"{action.span_context.trace_id:032x}"
        self._emit(event, [run])

    def _event_of(
        self,
        call: Call,
        receipt: Receipt,
        matched: Sequence[ControlledRun],
        spans: Sequence[ActionSpan | None],
        error: BaseException | None,
    ) -> dict[str, Any]:
        """The event of the first matched run's span; one made by hand where there is none."""
        span = next((span for span in spans if span is not None), None)
        if span is not None:
            return event_of_end(_readable(span))
        ending = Ending.failure(error) if error is not None else _ending(receipt.state)
        attributes = _metadata(call, receipt, receipt.state)
        attributes |= {names.OUTCOME: ending.outcome.value}
        event: dict[str, Any] = {
            "kind": f"{ActionNamespace.CONTROL}.{call.verb.value}.{phase_of(ending.outcome).value}",
            "namespace": ActionNamespace.CONTROL,
            "operation": call.verb.value,
            "phase": phase_of(ending.outcome).value,
            "time_unix_nano": time.time_ns(),
            "duration": 0.0,
            "outcome": ending.outcome.value,
            **_present(outcome_reason=ending.reason, error=ending.error_type),
            **(_of_run(matched[0]) if len(matched) == 1 else _present(agent_id=call.agent_id)),
            "attributes": {name: value for name, value in attributes.items() if value is not None},
        }
        content = guard.call("content", lambda: _content_without_a_run(call))
        if content:
            event["content"] = content
        return event

    def _emit(self, event: Event, runs: Sequence[ControlledRun]) -> None:
        """Give `event` to whoever records these runs, else to the recorder that the controller was given."""
        pipelines = [run.action.pipeline for run in runs if run.action is not None]
        active = active_pipeline()
        if not pipelines and active is not None:
            pipelines = [active]
        sinks = {id(pipeline.sink): pipeline.sink for pipeline in pipelines}
        recording = [sink for sink in sinks.values() if isinstance(sink, EventSink) and sink.active]
        for sink in recording:
            sink.emit(event)
        if not recording and self._recorder is not None:
            self._recorder.emit(event)


_ENDINGS: Final[Mapping[TargetState, Ending]] = {
    TargetState.DONE: Ending.success(),
    TargetState.PENDING: Ending.success("pending"),
    TargetState.UNCHANGED: Ending.success("unchanged"),
    TargetState.FAILED: Ending.failure(reason="failed"),
}


def _ending(state: TargetState) -> Ending:
    return _ENDINGS.get(state) or Ending.cancelled(state.value)


def _metadata(call: Call, receipt: Receipt, state: TargetState) -> dict[str, Any]:
    return {
        names.CONTROL_RECEIPT_ID: receipt.call_id,
        names.CONTROL_SOURCE: receipt.source,
        names.CONTROL_STATE: state.value,
        names.CONTROL_PRIORITY: call.priority,
        names.CONTROL_NOW: call.now or None,
        names.CHECKPOINT_ID: call.checkpoint_id or receipt.id,
    }


def _facts(run: ControlledRun) -> dict[str, object]:
    who = run.identity
    return {**RunFacts(who.agent_name, who.conversation_id, who.run_id).attributes, names.STEP: run.step or None}


def _zero_length(call: Call, receipt: Receipt, run: ControlledRun, state: TargetState) -> Any:
    return lambda: _span(call, receipt, run, state)


def _span(call: Call, receipt: Receipt, run: ControlledRun, state: TargetState) -> ActionSpan | None:
    """A `control.{verb}` span of no length below the run's own, whoever called."""
    outer = run.action
    if outer is None:
        return None
    token = outer.attach()
    try:
        action = outer.pipeline.start(
            ActionNamespace.CONTROL,
            call.verb.value,
            name=f"{ActionNamespace.CONTROL}.{call.verb.value}",
            attributes={**_facts(run), **_metadata(call, receipt, state)},
            within=outer,
        )
    finally:
        outer.detach(token)
    for category, name, text in call.content():
        action.add_content(category, name, lambda content, name=name, text=text: content.text(name, text))
    action.finish(_ending(state), end_ns=action.start_ns)
    return action


def start_wait(run: ControlledRun, gate: Gate) -> ActionSpan | None:
    """Start `control.wait`, which lasts as long as the run is held."""
    outer = run.action
    if outer is None:
        return None
    return outer.pipeline.start(
        ActionNamespace.CONTROL,
        ActionOperation.WAIT,
        name=f"{ActionNamespace.CONTROL}.{ActionOperation.WAIT}",
        attributes={**_facts(run), names.CONTROL_GATE: gate.value},
        within=outer,
    )


def _readable(action: ActionSpan) -> ReadableSpan:
    """The span as an exporter would get it, whether or not a sampler dropped it."""
    parent = action.parent
    return ReadableSpan(
        name=action.name,
        context=action.span_context,
        parent=None if parent is None else parent.span_context,
        resource=action.pipeline.resource or Resource.get_empty(),
        attributes=dict(action.attributes),
        start_time=action.start_ns,
        end_time=action.start_ns,
        instrumentation_scope=action.pipeline.scope,
    )


def _content_without_a_run(call: Call) -> dict[str, str]:
    """What a verb that matched no run has to say, where the process's policy admits it."""
    pipeline = active_pipeline()
    return {} if pipeline is None else _admitted(pipeline, call)


def _admitted(pipeline: Pipeline, call: Call) -> dict[str, str]:
    policy = pipeline.effective_policy()
    content = pipeline.content_for(policy, ActionNamespace.CONTROL, call.verb.value, None)
    return {
        name: content.text(name, text)
        for category, name, text in call.content()
        if pipeline.content_on_spans and getattr(policy, category)
    }


def _of_run(run: ControlledRun) -> dict[str, Any]:
    who = run.identity
    return _present(
        agent_id=who.agent_name,
        run_id=who.run_id,
        conversation_id=who.conversation_id,
        run_action_id=run.run_action_id,
    )


def _ids(span: ActionSpan | None) -> dict[str, Any]:
    return {} if span is None else _present(action_id=span.action_id)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

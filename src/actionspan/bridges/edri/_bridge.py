"""The bridge: events of EDRI's action stream in, finished spans out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from uuid import UUID

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from actionspan import guard
from actionspan._version import __version__
from actionspan.bridges.edri._content import error_text, new_content, request_of, response_of
from actionspan.bridges.edri._metadata import attributes_of, ending_of
from actionspan.bridges.edri._open import Half, OpenActions, span_context
from actionspan.bridges.edri._policy import bridge_policy
from actionspan.bridges.edri._stream import AgentAction, Operation, nanoseconds, operation_of
from actionspan.policy import NO_CONTENT, ActionPolicy, AuditMode
from actionspan.recorder import RecorderSpanProcessor
from actionspan.telemetry import names
from actionspan.telemetry.active import active_pipeline
from actionspan.vocabulary import ActionOutcome, ActionPhase

__all__ = ["EdriBridge"]

_STAGE: Final = "edri"
_REFUSAL: Final = (
    "EdriBridge: this process is instrumented by PydanticAIInstrumentor, so every action of an EDRI worker's agent "
    "would be two spans, each under ids of its own. Use the instrumentor for agents that run in this process (it knows "
    "more outcomes, MCP and streaming), with EDRI_PYDANTIC_AI_AUDIT=off. Use the bridge for agents that run elsewhere, "
    "or where the ids have to be those of EDRI's inspector, after PydanticAIInstrumentor().uninstrument()."
)
_FAILURES: Final = (ActionOutcome.ERROR.value, ActionOutcome.TIMEOUT.value)


class EdriBridge:
    """Makes spans of EDRI's `AgentAction` events and gives them to `processors`, as a tracer provider would.

    A span has the ids that EDRI gave its action: the trace id is `root_action_id`, the span id the low 64 bits of
    `action_id`. Events may come in any order and more than once. A start waits for its terminal, at most `max_age`
    seconds and with at most `max_open` others; then it is exported as it is, with `actionspan.unfinished`, and once
    more when its terminal comes after all. A terminal waits `grace` seconds for its start. Time passes when an event
    comes, and in `expire()`.

    Content goes on as far as `policy` admits it within the deployment's ceiling, as in `instrument()`. A recorder's
    processor gets the starts, too; other processors get ended spans only. Raises `RuntimeError` while
    `PydanticAIInstrumentor` is active in this process, and `ValueError` or `TypeError` for what is no policy or mode.
    """

    def __init__(
        self,
        processors: Iterable[SpanProcessor],
        policy: ActionPolicy | None = None,
        *,
        mode: AuditMode | str | None = None,
        resource: Resource | None = None,
        max_open: int = 10_000,
        max_age: float = 86_400.0,
        grace: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_open < 1 or max_age <= 0 or grace < 0:
            raise ValueError(f"EdriBridge: max_open={max_open}, max_age={max_age}, grace={grace}: out of range")
        if active_pipeline() is not None:
            raise RuntimeError(_REFUSAL)
        self._processors = tuple(processors)
        admitted = bridge_policy(policy, mode)
        self._off = admitted is None
        self._policy = admitted or NO_CONTENT
        self._resource = resource or Resource.create()
        self._scope = InstrumentationScope(names.SCOPE, __version__, names.SCHEMA_URL)
        self._clock = clock
        self._open = OpenActions(max_open, max_age, grace)
        self._latest_ns = 0
        self._lock = threading.Lock()
        self.duplicates = 0
        """Events that said nothing new."""
        self.unattributed = 0
        """Events that named no run, which EDRI's inspector does not show either."""

    @property
    def open(self) -> int:
        """How many actions wait for their other half."""
        return len(self._open.started) + len(self._open.ended)

    def observe(self, action: AgentAction) -> None:
        """Take one event. Never raises; an event that cannot be read is counted as a contained failure."""
        if self._off:
            return
        if active_pipeline() is not None:
            guard.warn_once("edri.refused", "%s", _REFUSAL, level=logging.ERROR)
            return
        guard.call(_STAGE, lambda: self._observe(action))

    def expire(self) -> None:
        """Export what has waited for too long."""
        guard.call(_STAGE, lambda: self._export(self._taken(self._open.overdue(self._clock()))))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the terminals that wait for a start, and flush the processors; False when one of them failed."""
        guard.call(_STAGE, lambda: self._export(self._taken(self._open.terminals())))
        return all([guard.call(_STAGE, _flushing(each, timeout_millis), False) for each in self._processors])

    def shutdown(self) -> None:
        """Export everything that waits, unfinished where it is, and shut the processors down."""
        guard.call(_STAGE, lambda: self._export(self._taken(self._open.all())))
        for processor in self._processors:
            guard.call(_STAGE, processor.shutdown)

    def _taken(self, given_up: Iterator[tuple[Half, bool]]) -> list[tuple[Half, bool]]:
        with self._lock:
            return list(given_up)

    def _observe(self, action: AgentAction) -> None:
        if action.root_action_id is None or span_context(action.root_action_id, 1) is None:
            self.unattributed += 1
            return
        start = action.phase.value == ActionPhase.START.value
        with self._lock:
            half, done = self._paired(action, action.root_action_id, start)
            overdue = list(self._open.overdue(self._clock()))
        if half is not None and start and not half.complete:
            self._announce(half)
        self._export([(done, True)] if done is not None else [])
        self._export(overdue)

    def _paired(self, action: AgentAction, root: UUID, start: bool) -> tuple[Half | None, Half | None]:
        """The action that `action` belongs to, None for a duplicate, and the same when nothing of it is missing now."""
        key = (action.action_id, action.attempt)
        if self._open.is_duplicate(key, start=start):
            self.duplicates += 1
            return None, None
        operation = operation_of(action)
        half = self._open.started.get(key) or self._open.ended.get(key) or self._new(action, root, operation)
        if start:
            self._add_start(half, action, operation)
        else:
            self._add_terminal(half, action, operation)
        return half, self._open.settle(key, half, start=start)

    def _new(self, action: AgentAction, root: UUID, operation: Operation) -> Half:
        context = span_context(root, self._open.span_id(action.action_id, action.attempt))
        parent = action.parent_action_id
        if context is None:
            raise ValueError("an action whose id makes no span id")
        return Half(
            context,
            None if parent is None else span_context(root, parent.int),
            "",
            operation.kind,
            new_content(self._policy, operation, action.name),
            self._clock(),
        )

    def _add_start(self, half: Half, action: AgentAction, operation: Operation) -> None:
        half.started_ns = nanoseconds(action.timestamp)
        self._latest_ns = max(self._latest_ns, half.started_ns)
        # What the terminal said, where it came first, was observed later.
        half.attributes = {
            **attributes_of(action, operation),
            **request_of(action, operation, self._policy, half.content),
            **half.attributes,
        }
        half.name = half.name or _span_name(action, operation)

    def _add_terminal(self, half: Half, action: AgentAction, operation: Operation) -> None:
        half.ended_ns = nanoseconds(action.timestamp)
        half.duration = action.duration
        half.failed = action.outcome.value in _FAILURES
        half.error = error_text(action, self._policy, half.content)
        self._latest_ns = max(self._latest_ns, half.ended_ns)
        half.attributes |= attributes_of(action, operation) | ending_of(action)
        half.attributes |= response_of(action, operation, self._policy, half.content)
        half.name = half.name or _span_name(action, operation)

    # --- out, without the lock ---

    def _announce(self, half: Half) -> None:
        """Record that an action has started: evidence, should nothing more come."""
        recorders = [each for each in self._processors if isinstance(each, RecorderSpanProcessor)]
        if recorders:
            span = self._span(half, None)
            for recorder in recorders:
                recorder.record_start(span)

    def _export(self, halves: Iterable[tuple[Half, bool]]) -> None:
        for half, ended in halves:
            if not ended:
                half.attributes[names.UNFINISHED] = True
            span = self._span(half, half.end_ns if ended else max(half.start_ns, self._latest_ns))
            for processor in self._processors:
                # In a record, what has not ended is what has no end.
                if ended or not isinstance(processor, RecorderSpanProcessor):
                    guard.call(_STAGE, _ending(processor, span))

    def _span(self, half: Half, end_ns: int | None) -> ReadableSpan:
        return ReadableSpan(
            name=half.name,
            context=half.context,
            parent=half.parent,
            resource=self._resource,
            attributes=dict(half.attributes),
            kind=half.kind,
            status=half.status,
            start_time=half.start_ns,
            end_time=end_ns,
            instrumentation_scope=self._scope,
        )


def _span_name(action: AgentAction, operation: Operation) -> str:
    if operation.operation == "run" and action.namespace == "agent":
        return operation.span_name(action.agent)
    return operation.span_name(action.name or (action.model if action.namespace == "model" else None))


def _ending(processor: SpanProcessor, span: ReadableSpan) -> Callable[[], None]:
    return lambda: processor.on_end(span)


def _flushing(processor: SpanProcessor, timeout_millis: int) -> Callable[[], bool]:
    return lambda: processor.force_flush(timeout_millis)

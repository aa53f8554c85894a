"""One action as one span: started by the pipeline, finished exactly once."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from actionspan import guard
from actionspan.content import ActionContent
from actionspan.policy import ActionPolicy
from actionspan.telemetry import names
from actionspan.telemetry.clock import Clock
from actionspan.telemetry.current import ACTION_KEY
from actionspan.telemetry.endings import Ending, error_type_of
from actionspan.telemetry.ids import action_id_of, root_action_id
from actionspan.telemetry.provider_clients import with_client_spans_left_to_us
from actionspan.telemetry.values import attribute_table, declared_name
from actionspan.vocabulary import ActionNamespace

if TYPE_CHECKING:
    from contextvars import Token

    from actionspan.telemetry.pipeline import Pipeline
    from actionspan.telemetry.place import Place
    from actionspan.telemetry.template import Template

__all__ = ["ActionSpan", "Held"]

ESSENTIAL: Final = (
    names.NAMESPACE,
    names.OPERATION,
    names.ACTION_ID,
    names.PARENT_ACTION_ID,
    names.ROOT_ACTION_ID,
    names.RUN_ACTION_ID,
    names.ATTEMPT,
    names.OUTCOME,
    names.OUTCOME_REASON,
    names.ERROR_TYPE,
    names.OPERATION_NAME,
    names.AGENT_NAME,
    names.RUN_ID,
)
"""Set once more at the end: an attribute-count limit evicts the oldest, and without these a span says nothing."""

_MAX_SEEN = 16
"""How many failures below an action it remembers, to know one that passes through it again."""

_MOST_FRAMES = 6
"""Frames of each exception in a chain, the last ones: a text is cut at its end, where it says what happened."""

_ErrorKey = tuple[int, type, Any, int]

_SUCCESS: Final = Ending.success()


class ActionSpan:
    """A started action. Every method is safe to call at any time and none of them raises."""

    # What most actions never have differently is here, so that they are not all given it one by one.
    ending: Ending | None = None
    """How it ended, without the exception; None while it runs."""
    finished = False
    """Whether its outcome has been decided."""
    aborted_inside = False
    """Whether run control stopped a run below this one: what this then raises is that run's end."""
    chunk_gaps: Sequence[float] = ()
    """For a streamed response: seconds from each chunk to the next."""
    _events: Sequence[tuple[str, dict[str, AttributeValue], int]] = ()
    _seen: Sequence[_ErrorKey] = ()

    def __init__(
        self,
        pipeline: Pipeline,
        span: Span,
        template: Template,
        place: Place,
        attributes: dict[str, AttributeValue],
        policy: ActionPolicy,
        clock: Clock,
        start_ns: int,
        content: ActionContent | None,
    ) -> None:
        parent = place.parent
        context = span.get_span_context()
        self.pipeline: Final = pipeline
        self.span: Final = span
        self.span_context: Final = context
        self.namespace: Final = template.namespace
        self.operation: Final = template.operation
        self.name: Final = template.name
        self.parent: Final = parent
        self.policy: Final = policy
        self.clock: Final = clock
        self.start_ns: Final = start_ns
        self.span_in_context: Final = trace.set_span_in_context(span, place.context)
        """What it runs in, without the action itself: that would be freed by the garbage collector alone."""
        self.trace_id: Final = context.trace_id
        self.action_id: Final = action_id_of(self.trace_id, context.span_id) if context.is_valid else None
        """None without a valid span context."""
        if parent is None or template.namespace == ActionNamespace.AGENT:
            self.in_run = template.namespace == ActionNamespace.AGENT
            self.run_action_id = self.action_id
        else:
            self.in_run = parent.in_run
            self.run_action_id = parent.run_action_id
        # What several threads may add to (a tool's, run control's), they add in place, so that nothing gets lost.
        self.held: list[Held] = []
        """Actions below this one that were interrupted and wait to be told by what."""
        self.event_content: dict[str, str] = {}
        self._unwritten: dict[str, AttributeValue] = {}
        """Of its attributes, what is not on the span yet."""
        self._kind = template.kind
        self._parent_span = place.parent_span
        self._links = place.links
        self._attributes = attributes
        self._content = content
        self._pid = os.getpid()

    # --- while it runs ---

    @property
    def context(self) -> Context:
        """What runs in it."""
        return otel_context.set_value(ACTION_KEY, self, self.span_in_context)

    @cached_property
    def ids_below(self) -> Mapping[str, AttributeValue]:
        """What the actions directly below it in its trace say of where they are: its id, the trace's, the run's."""
        return attribute_table(
            {
                names.PARENT_ACTION_ID: self.action_id,
                names.ROOT_ACTION_ID: self._attributes.get(names.ROOT_ACTION_ID),
                names.RUN_ACTION_ID: self.run_action_id,
            }
        )

    @property
    def wanted(self) -> bool:
        """Whether somebody will see the attributes: the span is recorded, or a recorder takes it all the same."""
        recorded = self.pipeline.sink is not None and self.span_context.is_valid
        return recorded or guard.call("span.recording", self.span.is_recording, False)

    def set(self, attributes: Mapping[str, object]) -> None:
        """Add metadata attributes; they are put on the span when it finishes."""
        guard.call("span.set", lambda: self._put(attribute_table(attributes)))

    def _put(self, table: Mapping[str, AttributeValue]) -> None:
        self._attributes.update(table)
        self._unwritten.update(table)

    def identify(self) -> None:
        """Put the ids on the span that are functions of its own context, now: whoever looks at it needs them."""
        if self.action_id is None:
            return
        attributes, parent = self._attributes, self.parent
        attributes[names.ACTION_ID] = self.action_id
        self.span.set_attribute(names.ACTION_ID, self.action_id)
        if parent is None or parent.trace_id != self.trace_id or names.ROOT_ACTION_ID not in attributes:
            root = attributes[names.ROOT_ACTION_ID] = root_action_id(self.span_context)
            self.span.set_attribute(names.ROOT_ACTION_ID, root)
        if self.namespace == ActionNamespace.AGENT:
            attributes[names.RUN_ACTION_ID] = self.action_id
            self.span.set_attribute(names.RUN_ACTION_ID, self.action_id)

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Everything that is or will be on the span."""
        return self._attributes

    def observed(self, key: str) -> AttributeValue | None:
        """The metadata attribute `key` as it stands."""
        return self._attributes.get(key)

    def add_content(self, category: str, key: str, produce: Callable[[ActionContent], str]) -> None:
        """Put the content that `produce` makes on the action, if its policy admits `category`; else never call it."""
        if getattr(self.policy, category) and self.wanted:
            guard.call("content", lambda: self._place_content(key, produce))

    def _place_content(self, key: str, produce: Callable[[ActionContent], str]) -> None:
        text = produce(self._action_content())
        if self.pipeline.content_on_events:
            self.event_content[key] = text
        if self.pipeline.content_on_spans:
            self._put({key: text})

    def _action_content(self) -> ActionContent:
        if self._content is None:
            name = declared_name(self.namespace, self._attributes)
            self._content = self.pipeline.content_for(self.policy, self.namespace, self.operation, name)
        return self._content

    def attach(self) -> Token[Context] | None:
        """Make this the current span and action; give the token to `detach` in the same coroutine."""
        return guard.call("context", self._attach)

    def _attach(self) -> Token[Context]:
        context = otel_context.set_value(ACTION_KEY, self, self.span_in_context)
        if self.namespace == ActionNamespace.MODEL:
            context = with_client_spans_left_to_us(context)
        return otel_context.attach(context)

    def detach(self, token: Token[Context] | None) -> None:
        """Undo `attach`."""
        if token is not None:
            otel_context.detach(token)  # which logs what is wrong with a token, and raises nothing

    # --- its end ---

    def interrupt(self, error: BaseException | None = None) -> None:
        """Take the end time now and leave the outcome open: what interrupted it is only known further out.

        The enclosing action settles it, with whatever waited below it, when its own outcome is known.
        """
        guard.call("span.interrupt", lambda: self._interrupt(isinstance(error, GeneratorExit)))

    def _interrupt(self, closed_by_consumer: bool) -> None:
        if self.finished:
            return
        enclosing = None if self.parent is None else self.parent.ending
        if self.parent is None or enclosing is not None:
            self.finish((enclosing or Ending.success()).of_interrupted(closed_by_consumer))
            return
        below, self.held = self.held, []
        self.parent.held += [*below, Held(self, self.clock.now(), closed_by_consumer)]

    def finish(
        self, ending: Ending, *, known: Mapping[str, AttributeValue] | None = None, end_ns: int | None = None
    ) -> None:
        """End the span with this outcome, and last attributes that are `known` to be fit for it.

        A second call does nothing, nor does one in a forked child.
        """
        if self.finished:
            return
        self.finished = True
        self.ending = ending if ending.error is None else replace(ending, error=None)
        if os.getpid() != self._pid:
            return
        end = max(self.start_ns, self.clock.now() if end_ns is None else end_ns)
        if self.held:
            held, self.held = self.held, []
            for child in held:
                child.settle(Ending.success())  # it ended, and what was interrupted below it did not make it
        if ending is not _SUCCESS:
            guard.call("span.finish", lambda: self._record_ending(ending))
            guard.call("span.status", lambda: self._write_status(ending))
        last = {**known, names.OUTCOME: ending.outcome.value} if known else {names.OUTCOME: ending.outcome.value}
        delivered = guard.call("span.end", partial(self._end, last, end), False)
        pipeline = self.pipeline
        if pipeline.sink is not None:
            guard.call("recorder", lambda: self._hand_over(end, ending, delivered))
        if pipeline.logger is not None:
            guard.call("log", lambda: pipeline.log_details(self))
        if pipeline.instruments.wanted:
            guard.call("metrics", lambda: pipeline.record_metrics(self, ending, (end - self.start_ns) / 1e9))

    def _end(self, last: Mapping[str, AttributeValue], end_ns: int) -> bool:
        """True when it did not raise: every processor has the span."""
        try:
            self._put(last)
            unwritten = self._unwritten
            limit = self.pipeline.source.limits.count
            if limit is not None and len(self._attributes) + _PROCESSOR_ROOM > limit:
                self._write_what_fits(limit)
            elif len(unwritten) > _FEW:
                self.span.set_attributes(unwritten)
            else:
                for key, value in unwritten.items():
                    self.span.set_attribute(key, value)
        finally:
            self.span.end(end_ns)
        return True

    def _record_ending(self, ending: Ending) -> None:
        if ending.reason is not None or ending.failed:
            self._put(attribute_table({names.OUTCOME_REASON: ending.reason, names.ERROR_TYPE: ending.error_type}))
        if ending.error is not None and ending.failed:
            self._record_exception(ending.error)

    def _write_what_fits(self, limit: int) -> None:
        """Put on the span what its limit leaves room for: content goes first, then what was added last."""
        essential = {key: self._attributes[key] for key in ESSENTIAL if key in self._attributes}
        on_span: set[str] = set(self.span.attributes or ()) if isinstance(self.span, ReadableSpan) else set()
        room = limit - len(on_span | essential.keys())
        optional = [key for key in self._attributes if key not in essential and key not in on_span]
        optional.sort(key=lambda key: key in names.CONTENT_ATTRIBUTES)
        self.span.set_attributes({key: self._attributes[key] for key in optional[: max(room, 0)]})
        self.span.set_attributes(essential)

    def _write_status(self, ending: Ending) -> None:
        if ending.failed:
            self.span.set_status(self._status(ending))

    def _status(self, ending: Ending) -> Status:
        if not ending.failed:
            return Status(StatusCode.UNSET)
        description = None
        if ending.error is not None and self.policy.include_error_messages and self.pipeline.content_on_spans:
            text = _text_of(ending.error)
            description = guard.call("content", lambda: self._action_content().error("status", text))
        return Status(StatusCode.ERROR, description or None)

    # --- exceptions ---

    def _record_exception(self, error: BaseException) -> None:
        """One exception event, where the exception arose: an enclosing action that it passes through has none."""
        key = _key_of(error)
        if self.parent is not None:
            self.parent.note(key)
        if key in self._seen:
            return
        attributes: dict[str, AttributeValue] = {names.EXCEPTION_TYPE: error_type_of(error)}
        if self.policy.include_error_messages and self.pipeline.content_on_spans and self.wanted:
            content = self._action_content()
            attributes[names.EXCEPTION_MESSAGE] = content.error(names.EXCEPTION_MESSAGE, _text_of(error))
            stack = "".join(traceback.format_exception(error, limit=-_MOST_FRAMES))
            attributes[names.EXCEPTION_STACKTRACE] = content.error(names.EXCEPTION_STACKTRACE, stack)
        now = self.clock.now()
        self._events = [*self._events, (names.EXCEPTION_EVENT, attributes, now)]
        self.span.add_event(names.EXCEPTION_EVENT, attributes, now)

    def note(self, key: _ErrorKey) -> None:
        """Remember, here and further out, that this exception was recorded below."""
        self._seen = [*self._seen[-_MAX_SEEN + 1 :], key]
        if self.parent is not None:
            self.parent.note(key)

    # --- a span that the sampler dropped, for a recorder ---

    def hand_over_start(self) -> None:
        """Give the start to the recorder where no processor does: a sampler dropped the span."""
        sink = self.pipeline.sink
        if sink is not None and self._dropped:
            sink.record_start(self._readable(None, Status(StatusCode.UNSET)))

    def _hand_over(self, end_ns: int, ending: Ending, delivered: bool) -> None:
        sink = self.pipeline.sink
        if sink is not None and self._dropped:
            sink.record_end(self._readable(end_ns, self._status(ending)))
        elif sink is not None and not delivered:
            sink.record_missed_end(self._readable(end_ns, self._status(ending)))

    @property
    def _dropped(self) -> bool:
        """Whether it reaches no processor of the SDK, and still has ids to be recorded by."""
        return self.span_context.is_valid and not isinstance(self.span, ReadableSpan)

    def _readable(self, end_ns: int | None, status: Status) -> ReadableSpan:
        return ReadableSpan(
            name=self.name,
            context=self.span_context,
            parent=self._parent_span,
            resource=self.pipeline.resource,
            attributes=dict(self._attributes),
            events=[Event(name, attributes, at) for name, attributes, at in self._events],
            links=tuple(self._links),
            kind=self._kind,
            status=status,
            start_time=self.start_ns,
            end_time=end_ns,
            instrumentation_scope=self.pipeline.scope,
        )


class Held:
    """An action whose end time is known and whose outcome is not yet."""

    __slots__ = ("action", "closed_by_consumer", "end_ns")

    def __init__(self, action: ActionSpan, end_ns: int, closed_by_consumer: bool = False) -> None:
        self.action = action
        self.end_ns = end_ns
        self.closed_by_consumer = closed_by_consumer
        """Its stream was closed by who read it, which is its own reason when the run failed otherwise."""

    def settle(self, enclosing: Ending) -> None:
        """Finish the action as one interrupted below one that ended like `enclosing`, when it was interrupted."""
        self.action.finish(enclosing.of_interrupted(self.closed_by_consumer), end_ns=self.end_ns)


_FEW: Final = 2
"""Up to so many attributes the SDK takes sooner one by one: what a mapping holds it finds out first."""

_PROCESSOR_ROOM = 8
"""Attributes that samplers and other processors may have put on a span before we count exactly."""


def _text_of(error: BaseException) -> str:
    """What the exception says; its class may be unable to tell."""
    return guard.call("exception.text", lambda: str(error), "<unsupported>")


def _key_of(error: BaseException) -> _ErrorKey:
    """Tells an exception from another that reuses its address, without keeping it (and its frames) alive."""
    trace_end = error.__traceback__
    while trace_end is not None and trace_end.tb_next is not None:
        trace_end = trace_end.tb_next
    if trace_end is None:
        return id(error), type(error), None, 0
    return id(error), type(error), trace_end.tb_frame.f_code, trace_end.tb_lasti

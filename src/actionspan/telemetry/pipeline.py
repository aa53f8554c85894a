"""Where actions go: the tracer, the meter, the log and the recorder, with the policy that holds for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

from opentelemetry import _logs as logs
from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import INVALID_SPAN, Link, NonRecordingSpan, Span, SpanKind, Tracer, TracerProvider
from opentelemetry.util.types import AttributeValue

from actionspan import guard
from actionspan._version import __version__
from actionspan.content import ActionContent
from actionspan.policy import NO_CONTENT, ActionPolicy, current_narrowing
from actionspan.settings import InputMessages, TraceMode
from actionspan.telemetry import names
from actionspan.telemetry.clock import Clock
from actionspan.telemetry.compat import NO_LIMITS, TracerLimits, limits_of
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.ids import context_below
from actionspan.telemetry.measures import measure
from actionspan.telemetry.metrics import Instruments
from actionspan.telemetry.place import Place
from actionspan.telemetry.span import ActionSpan
from actionspan.telemetry.template import Template
from actionspan.telemetry.values import add_attributes, declared_name
from actionspan.vocabulary import ActionNamespace, ActionOperation

__all__ = ["Pipeline", "SpanSink", "TracerSource"]

Request = tuple[str, str, object]
"""Content of a request: its category, its attribute, its value."""

_NOTHING: Final[Mapping[str, AttributeValue]] = MappingProxyType({})


class SpanSink(Protocol):
    """Takes the spans that a sampler dropped, so that a record does not hang on sampling; nor on other processors."""

    def record_start(self, span: ReadableSpan) -> None: ...
    def record_end(self, span: ReadableSpan) -> None: ...
    def record_missed_end(self, span: ReadableSpan) -> None: ...


class TracerSource:
    """The tracer of a given provider, or of whichever provider is the global one at that moment."""

    def __init__(
        self,
        provider: TracerProvider | None = None,
        *,
        fallback: Callable[[], TracerProvider] | None = None,
        prepare: Callable[[TracerProvider], None] | None = None,
    ) -> None:
        self._given = provider
        self._fallback = fallback
        self._prepare = prepare
        self._provider: TracerProvider | None = None
        self.tracer: Tracer = trace.NoOpTracer()
        self.limits: TracerLimits = NO_LIMITS
        self.resource: Resource | None = None

    def refresh(self) -> Tracer:
        """The tracer to use now. A provider that was set after instrumenting is found here."""
        provider = self._given or trace.get_tracer_provider()
        if self._fallback is not None and isinstance(provider, trace.ProxyTracerProvider):
            provider = self._fallback()
        if provider is not self._provider:
            if self._prepare is not None:
                self._prepare(provider)
            self.tracer = provider.get_tracer(names.SCOPE, __version__, schema_url=names.SCHEMA_URL)
            self.limits = limits_of(self.tracer)
            self.resource = getattr(provider, "resource", None)
            self._provider = provider
        return self.tracer


@dataclass(slots=True, eq=False)
class Pipeline:
    """One resolved configuration and the providers it sends to. Nothing in it changes once actions use it."""

    source: TracerSource
    policy: ActionPolicy = NO_CONTENT
    identity: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    """Attributes the application bound once, by full name, put on every action."""
    trace_mode: TraceMode = "join"
    input_messages: InputMessages = "full"
    content_on_spans: bool = True
    content_on_events: bool = False
    sink: SpanSink | None = None
    meter_provider: metrics.MeterProvider | None = None
    logger_provider: logs.LoggerProvider | None = None
    instruments: Instruments = field(init=False)
    logger: logs.Logger | None = field(init=False, default=None)
    scope: InstrumentationScope = field(init=False)

    def __post_init__(self) -> None:
        meter_provider = self.meter_provider or metrics.get_meter_provider()
        self.instruments = Instruments(meter_provider.get_meter(names.SCOPE, __version__, names.SCHEMA_URL))
        self.scope = InstrumentationScope(names.SCOPE, __version__, names.SCHEMA_URL)
        if self.content_on_events:
            logger_provider = self.logger_provider or logs.get_logger_provider()
            self.logger = logger_provider.get_logger(names.SCOPE, __version__, names.SCHEMA_URL)

    @property
    def limits(self) -> TracerLimits:
        """The provider's limits on attributes."""
        return self.source.limits

    @property
    def resource(self) -> Resource | None:
        """The provider's resource; None for a provider that is not the SDK's."""
        return self.source.resource

    def effective_policy(self, parent: ActionPolicy | None = None) -> ActionPolicy:
        """This pipeline's policy within what encloses: the parent action's policy and the `narrow` blocks."""
        policy = self.policy if parent is None or parent is self.policy else self.policy.intersect(parent)
        narrowing = current_narrowing()
        return policy if narrowing is None else policy.intersect(narrowing)

    def content_for(self, policy: ActionPolicy, namespace: str, operation: str, name: str | None) -> ActionContent:
        """The content of one action of this pipeline, with the budget it shares."""
        return ActionContent(
            policy,
            namespace=namespace,
            operation=operation,
            name=name,
            attribute_limit=self.limits.length,
            response_expected=policy.include_error_messages or _response_admitted(policy, namespace),
            truncated=self._count_truncation,
        )

    def text_of_failure(self, error: Exception) -> str | None:
        """What a log line may say of a failure of ours: error text like any other. May raise."""
        policy = self.effective_policy()
        if not policy.include_error_messages:
            return None
        return ActionContent(policy, namespace="log", operation="failure").error("message", str(error))

    def _count_truncation(self, field_name: str) -> None:
        self.instruments.truncations.add(1, {"field": field_name})

    def start(
        self,
        namespace: str,
        operation: str,
        *,
        name: str,
        attributes: Mapping[str, object],
        within: ActionSpan | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        request: Request | None = None,
    ) -> ActionSpan:
        """Start an action of a kind of its own; see `begin`."""
        template = Template.of(namespace, operation, name=name, kind=kind, attributes=attributes)
        return self.begin(template, _NOTHING, within=within, request=request)

    def begin(
        self,
        template: Template,
        attributes: Mapping[str, object],
        *,
        attempt: int = 1,
        within: ActionSpan | None = None,
        clock: Clock | None = None,
        start_ns: int | None = None,
        links: Sequence[Link] = (),
        new_trace: bool = False,
        request: Request | None = None,
    ) -> ActionSpan:
        """Start an action below the current one, which is `within` or below it: else below `within` itself.

        It has the attributes of the template and these. `clock` and `start_ns` (a reading of it) are for an outermost
        action that began before this call. `request` is (category, attribute, value): content that evidence of what
        was in flight needs, so it is among the creation attributes. Raises `ValueError` when `attempt` is below 1.
        """
        if attempt < 1:
            raise ValueError(f"attempt counts from 1, not {attempt}")
        tracer = self.source.refresh()
        place = Place.find(within, new_trace, links)
        parent = place.parent
        policy = self.effective_policy(None if parent is None else parent.policy)
        clock = (clock or Clock()) if parent is None else parent.clock
        start_ns = clock.now() if start_ns is None else start_ns
        table: dict[str, AttributeValue] = {**self.identity, **template.attributes, names.ATTEMPT: attempt}
        add_attributes(table, attributes)
        place.add_ids(table, template.namespace)
        content: ActionContent | None = None
        if request is not None and getattr(policy, request[0]) and self.content_on_spans:
            content = self.content_for(
                policy, template.namespace, template.operation, declared_name(template.namespace, table)
            )
            _, key, value = request
            table[key] = content.value(key, value)
        limit = self.source.limits.count
        span = guard.call(
            "span.start",
            partial(
                tracer.start_span,
                template.name,
                place.span_context,
                template.kind,
                table if limit is None or len(table) + _IDS <= limit else _without_content(table),
                place.links,
                start_ns,
                record_exception=False,
                set_status_on_exception=False,
            ),
        )
        if span is None:
            span = self._not_started(place)
        action = ActionSpan(self, span, template, place, table, policy, clock, start_ns, content)
        if self.sink is not None:
            guard.call("recorder", action.hand_over_start)
        guard.call("span.identity", action.identify)
        return action

    def _not_started(self, place: Place) -> Span:
        """In the place of a span where a sampler or processor raised: one that only the recorder gets, or nobody."""
        return INVALID_SPAN if self.sink is None else NonRecordingSpan(context_below(place.parent_span))

    def record_metrics(self, action: ActionSpan, ending: Ending, seconds: float) -> None:
        """Record what the conventions measure of this action, with its span's context so that exemplars work."""
        measure(self.instruments, action, ending, seconds)

    def log_details(self, action: ActionSpan) -> None:
        """Put a model request's content on a log event, where OpenTelemetry's variable asks for that."""
        if self.logger is not None and (action.namespace, action.operation) == _INFERENCE:
            self.logger.emit(
                LogRecord(
                    event_name=names.EVENT_INFERENCE_DETAILS,
                    context=action.span_in_context,
                    attributes={**action.attributes, **action.event_content},
                )
            )


_IDS: Final = 3
"""Attributes that are set right after creation."""

_INFERENCE: Final = (ActionNamespace.MODEL, ActionOperation.REQUEST)


def _without_content(table: Mapping[str, AttributeValue]) -> Mapping[str, AttributeValue]:
    """Under a count limit each attribute too many costs an older one: then content comes at the end, where it fits."""
    return {key: value for key, value in table.items() if key not in names.CONTENT_ATTRIBUTES}


def _response_admitted(policy: ActionPolicy, namespace: str) -> bool:
    return bool(getattr(policy, RESPONSE_CATEGORIES.get(namespace, "include_custom_content")))


RESPONSE_CATEGORIES: Final = {
    ActionNamespace.AGENT: "include_model_responses",
    ActionNamespace.MODEL: "include_model_responses",
    ActionNamespace.OUTPUT: "include_model_responses",
    ActionNamespace.TOOL: "include_tool_results",
    ActionNamespace.MCP: "include_mcp_responses",
    ActionNamespace.DISPATCH: "include_dispatch_responses",
}
"""The category of what an action of each namespace returns."""

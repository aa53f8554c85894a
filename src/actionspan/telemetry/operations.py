"""One function per operation that starts its action: the span's name, kind and attributes as the conventions have them.

An adapter passes what its library knows; the names are decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from opentelemetry.trace import Link, SpanKind
from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.telemetry.clock import Clock
from actionspan.telemetry.pipeline import Pipeline
from actionspan.telemetry.span import ActionSpan
from actionspan.telemetry.template import Template
from actionspan.telemetry.values import attribute_table, clean_name
from actionspan.vocabulary import ActionNamespace, ActionOperation

__all__ = [
    "Requested",
    "RunFacts",
    "Usage",
    "request_settings",
    "start_agent_run",
    "start_embeddings",
    "start_model_request",
    "start_output",
    "start_tool",
]


@dataclass(frozen=True)
class RunFacts:
    """What every action of one run says about it."""

    agent_name: str | None = None
    conversation_id: str | None = None
    run_id: str | None = None
    _tools: dict[tuple[str, str | None], Template] = field(
        default_factory=dict[tuple[str, str | None], Template], init=False, repr=False, compare=False
    )
    _requests: list[tuple[Requested, Template]] = field(
        default_factory=list[tuple["Requested", Template]], init=False, repr=False, compare=False
    )
    """The latest: most runs ask one model, and ask it the same way."""

    @cached_property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """As attributes that are fit for a span."""
        return attribute_table(
            {
                names.AGENT_NAME: None if self.agent_name is None else clean_name(self.agent_name),
                names.CONVERSATION_ID: self.conversation_id,
                names.RUN_ID: self.run_id,
            }
        )

    def of_tool(self, operation: str, name: str | None) -> Template:
        """How a validation or an execution of the declared tool `name` begins."""
        found = self._tools.get((operation, name))
        if found is None:
            found = self._tools[operation, name] = _tool_template(self, operation, name)
        return found

    def of_request(self, requested: Requested) -> Template:
        """How a request of this kind begins."""
        if not self._requests or self._requests[0][0] != requested:
            self._requests[:] = [(requested, _request_template(self, requested))]
        return self._requests[0][1]


@dataclass(slots=True)
class Usage:
    """Tokens that were really spent, and the requests and tool calls they were spent on."""

    input_tokens: int = 0
    """Includes those read from or written to a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0

    def add(self, other: Usage) -> None:
        """Count `other` as well."""
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.cache_write_tokens += other.cache_write_tokens
        self.reasoning_tokens += other.reasoning_tokens
        self.requests += other.requests
        self.tool_calls += other.tool_calls

    def less(self, before: Usage) -> Usage:
        """What was spent since it was `before`."""
        return Usage(**{each.name: getattr(self, each.name) - getattr(before, each.name) for each in fields(self)})

    def of_request(self) -> dict[str, object]:
        """As attributes of the request that spent them; zero cached or reasoning tokens are left out."""
        return {
            names.USAGE_INPUT_TOKENS: self.input_tokens,
            names.USAGE_OUTPUT_TOKENS: self.output_tokens,
            names.USAGE_CACHE_READ: self.cache_read_tokens or None,
            names.USAGE_CACHE_WRITE: self.cache_write_tokens or None,
            names.USAGE_REASONING: self.reasoning_tokens or None,
        }

    def of_run(self) -> dict[str, object]:
        """As attributes of the run: own names, since backends that add up `gen_ai.usage.*` would count twice."""
        return {
            names.RUN_USAGE_INPUT_TOKENS: self.input_tokens,
            names.RUN_USAGE_OUTPUT_TOKENS: self.output_tokens,
            names.RUN_USAGE_CACHE_READ: self.cache_read_tokens or None,
            names.RUN_USAGE_CACHE_WRITE: self.cache_write_tokens or None,
            names.RUN_USAGE_REASONING: self.reasoning_tokens or None,
            names.RUN_USAGE_REQUESTS: self.requests,
            names.RUN_USAGE_TOOL_CALLS: self.tool_calls,
        }


def start_agent_run(
    pipeline: Pipeline,
    run: RunFacts,
    *,
    provider: str | None,
    resumes_run_id: str | None,
    links: Sequence[Link],
    clock: Clock,
    start_ns: int,
) -> ActionSpan:
    """Start `agent.run`; outermost ones begin their own trace when the pipeline says so."""
    template = Template.of(
        ActionNamespace.AGENT,
        ActionOperation.RUN,
        name=_named("invoke_agent", run.agent_name),
        attributes={names.OPERATION_NAME: "invoke_agent", names.FRAMEWORK: "pydantic_ai"},
        known=run.attributes,
    )
    return pipeline.begin(
        template,
        {names.PROVIDER_NAME: provider, names.RESUMES_RUN_ID: resumes_run_id},
        links=links,
        clock=clock,
        start_ns=start_ns,
        new_trace=pipeline.trace_mode == "new",
    )


class Requested(NamedTuple):
    """Which model is asked, and how."""

    provider: str | None
    model: str | None
    server: tuple[str | None, int | None] = (None, None)
    stream: bool = False
    settings: Mapping[str, AttributeValue] = MappingProxyType({})
    """What was asked for of it: see `request_settings`."""
    output_mode: str | None = None


def start_model_request(
    pipeline: Pipeline,
    run: RunFacts,
    parent: ActionSpan | None,
    requested: Requested,
    *,
    step: int | None,
    attempt: int,
) -> ActionSpan:
    """Start `model.request`: one request to one model."""
    return pipeline.begin(run.of_request(requested), {names.STEP: step or None}, attempt=attempt, within=parent)


def request_settings(settings: Mapping[str, object]) -> dict[str, AttributeValue]:
    """As attributes what a request asked for, by the library's names; numbers of the wrong type are left out."""
    get = settings.get
    return attribute_table(
        {
            names.REQUEST_MAX_TOKENS: _integer(get("max_tokens")),
            names.REQUEST_TEMPERATURE: _number(get("temperature")),
            names.REQUEST_TOP_P: _number(get("top_p")),
            names.REQUEST_TOP_K: _number(get("top_k")),
            names.REQUEST_SEED: _integer(get("seed")),
            names.REQUEST_PRESENCE_PENALTY: _number(get("presence_penalty")),
            names.REQUEST_FREQUENCY_PENALTY: _number(get("frequency_penalty")),
            names.REQUEST_STOP_SEQUENCES: get("stop_sequences"),
        }
    )


def _request_template(run: RunFacts, requested: Requested) -> Template:
    return Template.of(
        ActionNamespace.MODEL,
        ActionOperation.REQUEST,
        name=_named("chat", requested.model),
        kind=SpanKind.CLIENT,
        attributes={
            names.OPERATION_NAME: "chat",
            names.PROVIDER_NAME: requested.provider,
            names.REQUEST_MODEL: requested.model,
            names.SERVER_ADDRESS: requested.server[0],
            names.SERVER_PORT: requested.server[1],
            names.REQUEST_STREAM: requested.stream or None,
            names.OUTPUT_MODE: requested.output_mode,
        },
        known={**run.attributes, **requested.settings},
    )


def start_embeddings(
    pipeline: Pipeline,
    run: RunFacts,
    *,
    provider: str | None,
    model: str | None,
    step: int | None,
    server: tuple[str | None, int | None],
) -> ActionSpan:
    """Start `model.embed`: one request to an embedding model."""
    template = Template.of(
        ActionNamespace.MODEL,
        ActionOperation.EMBED,
        name=_named("embeddings", model),
        kind=SpanKind.CLIENT,
        attributes={
            names.OPERATION_NAME: "embeddings",
            names.PROVIDER_NAME: provider,
            names.REQUEST_MODEL: model,
            names.SERVER_ADDRESS: server[0],
            names.SERVER_PORT: server[1],
        },
        known=run.attributes,
    )
    return pipeline.begin(template, {names.STEP: step or None})


def start_tool(
    pipeline: Pipeline,
    run: RunFacts,
    parent: ActionSpan | None,
    operation: str,
    *,
    name: str | None,
    call_id: str | None,
    step: int | None,
    attempt: int,
    arguments: object,
) -> ActionSpan:
    """Start `tool.execute` or `tool.validate` of the declared tool `name`; None where the model invented it.

    Its arguments are among the creation attributes, where admitted.
    """
    return pipeline.begin(
        run.of_tool(operation, name),
        {names.TOOL_CALL_ID: call_id, names.STEP: step or None},
        attempt=attempt,
        within=parent,
        request=("include_tool_arguments", names.TOOL_CALL_ARGUMENTS, arguments),
    )


def _tool_template(run: RunFacts, operation: str, name: str | None) -> Template:
    executes = operation == ActionOperation.EXECUTE
    return Template.of(
        ActionNamespace.TOOL,
        operation,
        name=_named("execute_tool" if executes else "validate_tool", name),
        attributes={
            names.OPERATION_NAME: "execute_tool" if executes else None,
            names.TOOL_NAME: None if name is None else clean_name(name),
            names.TOOL_TYPE: "function" if executes else None,
        },
        known=run.attributes,
    )


_OUTPUT_VERBS: Final[Mapping[str, str]] = {
    ActionOperation.VALIDATE: "validate_output",
    ActionOperation.PROCESS: "process_output",
}


def start_output(
    pipeline: Pipeline,
    run: RunFacts,
    parent: ActionSpan | None,
    operation: str,
    *,
    name: str | None,
    call_id: str | None,
    mode: str | None,
    step: int | None,
    attempt: int,
    start_ns: int | None = None,
) -> ActionSpan:
    """Start `output.validate` or `output.process` for the declared output `name`."""
    template = Template.of(
        ActionNamespace.OUTPUT,
        operation,
        name=_named(_OUTPUT_VERBS[operation], name),
        attributes={names.NAME: None if name is None else clean_name(name), names.OUTPUT_MODE: mode},
        known=run.attributes,
    )
    return pipeline.begin(
        template,
        {names.TOOL_CALL_ID: call_id, names.STEP: step or None},
        attempt=attempt,
        within=parent,
        start_ns=start_ns,
    )


def _named(verb: str, name: str | None) -> str:
    return verb if not name else f"{verb} {name}"


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _number(value: object) -> float | int | None:
    return value if type(value) in (int, float) else None  # type: ignore[return-value] # its type was just compared

"""Runs of somebody's agent with canaries in everything that can be planted, and where they were found again."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from opentelemetry import propagate
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NoOpTracer
from pydantic_ai import ToolReturn
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import UsageLimits

from actionspan.policy import ActionPolicy
from actionspan.pydantic_ai import attach
from actionspan.pydantic_ai.compat import ToolFailedError, ToolRetryError
from actionspan.recorder import RecorderSpanProcessor
from actionspan.telemetry.active import provide_pipeline
from actionspan.telemetry.pipeline import Pipeline, TracerSource
from actionspan.testing._capture import Capture
from actionspan.testing._memory import MemoryRecorder

__all__ = ["Carried", "Harness"]

Kind = Literal["fine", "failing tools", "failing model"]
KINDS: Final[tuple[Kind, ...]] = ("fine", "failing tools", "failing model")

CANARIES: Final = {
    name: f"leakcanary{number:02d}{''.join(filter(str.isalpha, name))}"
    for number, name in enumerate(
        (
            "prompt",
            "instructions",
            "run metadata",
            "reasoning",
            "completion",
            "output",
            "argument",
            "secret argument",
            "result",
            "invented tool name",
            "invented argument",
            "tool error",
            "model error",
            "cause of an error",
        )
    )
}
"""What is planted, by what it stands for."""

_LEAST: Final = 16
"""Characters of an agent's own text that is looked for; a shorter one may be anywhere by chance."""


@dataclass(frozen=True, slots=True, order=True)
class Carried:
    """A place where content was found."""

    signal: str
    place: str
    """The attribute's name, or the part of the signal that has none."""
    carries: tuple[str, ...]
    """What of: canaries, and texts that the agent itself is made of."""


@dataclass
class Harness:
    """One agent, and how to run it."""

    agent: AbstractAgent[Any, Any]
    prompt: str
    make_deps: Callable[[], Any]
    call_tools: bool
    own_texts: dict[str, str] = field(default_factory=dict[str, str])
    """What the texts are that the agent is made of, as it turns out."""
    called: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The tools that were really called, with the class of the exception that one raised."""
    results: dict[tuple[str, int], Any] = field(default_factory=dict[tuple[str, int], Any])
    """What they returned, by name and number of the call: a tool is not called again for the next category."""
    warnings: set[str] = field(default_factory=set[str])

    def found_with(self, policy: ActionPolicy) -> list[Carried]:
        """Where content is found when all runs go with `policy`. Raises what a run raises that was not made to."""
        seen = Capture(ALWAYS_ON, None, recorder := MemoryRecorder())
        seen.tracer_provider.add_span_processor(RecorderSpanProcessor(recorder))
        texts = _Texts()
        pipeline = Pipeline(
            TracerSource(seen.tracer_provider),
            policy=policy,
            content_on_events=True,
            meter_provider=seen.meter_provider,
            logger_provider=seen.logger_provider,
        )
        try:
            with _traced(pipeline), _listening(texts):
                for kind in KINDS:
                    asyncio.run(self._play(kind, texts))
            texts.collect(seen)
        finally:
            seen.close()
        return sorted(texts.carried({**self.own_texts, **{canary: name for name, canary in CANARIES.items()}}))

    async def _play(self, kind: Kind, texts: _Texts) -> None:
        model = _CanaryModel() if kind != "failing model" else _FailingModel()
        if isinstance(self.agent.description, str):
            self._note(self.agent.description, "its description")
        with self.agent.override(model=model, native_tools=[]):
            work = self.agent.run(
                f"{self.prompt} {CANARIES['prompt']}",
                instructions=CANARIES["instructions"],
                metadata={"leakcheck": CANARIES["run metadata"]},
                deps=self.make_deps(),
                capabilities=[_Tools(self, texts, fails=kind == "failing tools")],
                usage_limits=UsageLimits(request_limit=20),
                infer_name=False,
            )
            try:
                await work
            except Exception as error:
                if kind == "fine" or not _planted(error):
                    raise
        for text, name in model.own_texts.items():
            self._note(text, name)

    def _note(self, text: str, name: str) -> None:
        if len(text) >= _LEAST and not any(canary in text for canary in CANARIES.values()):
            self.own_texts[text] = name


def _planted(error: BaseException | None) -> bool:
    """Whether `error` is one that a run was made to fail with, or came of it."""
    return error is not None and (
        any(canary in str(error) for canary in CANARIES.values()) or _planted(error.__cause__ or error.__context__)
    )


@contextmanager
def _traced(pipeline: Pipeline) -> Generator[None]:
    """Whatever the environment says: it is asked what would leave, not what does."""
    attach.install(lambda: pipeline)
    provide_pipeline(lambda: pipeline)
    try:
        yield
    finally:
        provide_pipeline(None)
        attach.remove()


# --- what is planted ---


class _Tools(AbstractCapability[Any]):
    """Calls the agent's tools, or answers in their place, and plants a canary in what they return or raise."""

    def __init__(self, harness: Harness, texts: _Texts, *, fails: bool) -> None:
        self._harness = harness
        self._texts = texts
        self._fails = fails
        self._numbers: dict[str, int] = {}

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[Any], Any],
    ) -> Any:
        if not isinstance(ctx.tracer, NoOpTracer):
            self._harness.warnings.add(
                "Pydantic AI's own instrumentation is on for this agent: it exports content whatever is said here"
            )
        headers: dict[str, str] = {}
        propagate.inject(headers)
        for name, value in headers.items():
            self._texts.add("outgoing header", name, value)
        if self._fails:
            raise RuntimeError(CANARIES["tool error"]) from LookupError(CANARIES["cause of an error"])
        return _with_canary(await self._result(tool_def.name, lambda: handler(args)))

    async def _result(self, tool: str, call: Callable[[], Any]) -> Any:
        harness = self._harness
        number = self._numbers[tool] = self._numbers.get(tool, 0) + 1
        if not harness.call_tools:
            return None
        if (tool, number) not in harness.results:
            harness.called.setdefault(tool, None)
            try:
                harness.results[tool, number] = await call()
            except Exception as error:  # noqa: BLE001 # the application's: a tool that fails is noted, the run goes on
                real = error.__cause__ if isinstance(error, ToolRetryError | ToolFailedError) else None
                harness.called[tool] = type(real or error).__name__
                harness.results[tool, number] = None
        return harness.results[tool, number]


def _with_canary(result: Any) -> Any:
    canary = CANARIES["result"]
    if isinstance(result, ToolReturn):
        returned = cast("ToolReturn[Any]", result)
        return dataclasses.replace(returned, return_value=[returned.return_value, canary])
    return canary if result is None else [result, canary]


class _CanaryModel(TestModel):
    """Calls every tool, with canaries for text where the schema takes any text, and answers with canaries."""

    def __init__(self) -> None:
        super().__init__()
        self.own_texts: dict[str, str] = {}
        self._asked: set[str] = set()

    def gen_tool_args(self, tool_def: ToolDefinition) -> Any:
        arguments = super().gen_tool_args(tool_def)
        if tool_def.name in self._asked:
            return arguments  # asked again: what was planted was not accepted
        self._asked.add(tool_def.name)
        canary = CANARIES["output" if tool_def.kind == "output" else "argument"]
        schema = tool_def.parameters_json_schema
        return _planted_in(arguments, schema, schema.get("$defs", {}), canary)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._learn(messages, model_request_parameters)
        response = await super().request(messages, model_settings, model_request_parameters)
        free_text = model_request_parameters.allow_text_output and model_request_parameters.output_object is None
        parts: list[ModelResponsePart] = [ThinkingPart(CANARIES["reasoning"])]
        for part in response.parts:
            if isinstance(part, TextPart) and free_text and "" not in self._asked:
                self._asked.add("")
                part = TextPart(CANARIES["completion"])
            parts.append(part)
        return dataclasses.replace(response, parts=parts)

    def _learn(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> None:
        """Texts the agent is made of."""
        for part in parameters.instruction_parts or ():
            self.own_texts[part.content] = "its instructions"
        for tool in (*parameters.function_tools, *parameters.output_tools):
            if tool.description is not None:
                self.own_texts[tool.description] = f"the description of {tool.name}"
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, SystemPromptPart):
                    self.own_texts[part.content] = "its system prompt"


class _FailingModel(_CanaryModel):
    """Calls a tool that there is not, and fails then."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            raise RuntimeError(CANARIES["model error"]) from LookupError(CANARIES["cause of an error"])
        invented = {"guess": CANARIES["invented argument"]}
        return ModelResponse([ToolCallPart(CANARIES["invented tool name"], invented)])


_Schema = Mapping[str, Any]
_PARTICULAR: Final = ("enum", "const", "format", "pattern", "maxLength")


def _planted_in(value: Any, schema: _Schema, definitions: _Schema, canary: str) -> Any:
    """`value` with `canary` for every text that may be any text."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = definitions.get(reference.rpartition("/")[2], {})
    for alternative in schema.get("anyOf") or schema.get("oneOf") or ():
        return _planted_in(value, alternative, definitions, canary)  # TestModel takes the first
    if schema.get("writeOnly") is True:
        return CANARIES["secret argument"]
    if type(value) is str:
        return value if schema.get("type") != "string" or any(name in schema for name in _PARTICULAR) else canary
    if type(value) is dict:
        fields = schema.get("properties", {})
        entries = cast("dict[str, Any]", value).items()
        return {name: _planted_in(item, fields.get(name, {}), definitions, canary) for name, item in entries}
    if type(value) is list:
        return [_planted_in(item, schema.get("items", {}), definitions, canary) for item in cast("list[Any]", value)]
    return value


# --- where it is found ---


class _Texts:
    """Everything that left, by signal and place."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], list[str]] = {}

    def add(self, signal: str, place: str, value: object) -> None:
        self._texts.setdefault((signal, place), []).append(value if isinstance(value, str) else repr(value))

    def carried(self, needles: Mapping[str, str]) -> Iterator[Carried]:
        for (signal, place), texts in self._texts.items():
            text = "\n".join(texts)
            carries = {name for needle, name in needles.items() if needle in text or repr(needle)[1:-1] in text}
            if carries:
                yield Carried(signal, place, tuple(sorted(carries)))

    def collect(self, seen: Capture) -> None:
        for span in seen.spans:
            self.add("span", "name", span.name)
            self.add("span", "status", span.status.description)
            self._add_table("span", span.attributes)
            for event in span.events:
                self.add("span", "event name", event.name)
                self._add_table("span", event.attributes)
            for link in span.links:
                self._add_table("span", link.attributes)
        for name, points in seen.metrics().items():
            self.add("metric", name, points)
        for record in seen.logs:
            self.add("log event", "body", record.log_record.body)
            self._add_table("log event", record.log_record.attributes)
        for event in seen.records:
            self._add_event(event)

    def _add_table(self, signal: str, attributes: Mapping[str, Any] | None) -> None:
        for name, value in (attributes or {}).items():
            self.add(signal, name, value)

    def _add_event(self, event: Mapping[str, Any]) -> None:
        for name, value in event.items():
            if name in ("attributes", "content"):
                self._add_table("record", value)
            elif name == "events":
                for item in value:
                    self._add_table("record", item.get("attributes"))
            else:
                self.add("record", name, value)


class _Lines(logging.Handler):
    def __init__(self, texts: _Texts) -> None:
        super().__init__()
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.add("log line", record.name, record.getMessage())


@contextmanager
def _listening(texts: _Texts) -> Generator[None]:
    logger, handler = logging.getLogger("actionspan"), _Lines(texts)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

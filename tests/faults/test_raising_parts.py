"""Whatever breaks in telemetry, the agent returns what it would have returned and raises what it would have raised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Span, SpanContext, Tracer
from pydantic_ai import Agent, AgentRunResultEvent, ModelRetry

from actionspan import ActionPolicy, PydanticAIInstrumentor, action, guard
from actionspan.testing import capture
from actionspan.testing._memory import MemoryRecorder
from scripted import calls, script

pytestmark = pytest.mark.contained

EVERYTHING = {"mode": "content", "policy": ActionPolicy.everything()}


class Broken(Exception):
    """What telemetry raises here."""


class Failure(Exception):
    """What the application raises here."""


THE_OUTPUT = "".join(("the very", " object"))  # a string, since a stream copies its output
THE_FAILURE = Failure("the application's own")


def agent(*lines: Any) -> Agent[None, Any]:
    """An agent that uses every seam: two tools, a retry, an output function, a sub-agent."""
    inner = Agent(script("inner"), name="inner")

    def finish(text: str) -> str:
        return THE_OUTPUT

    outer = Agent(script(*lines), name="outer", output_type=finish, retries=3)
    tries: list[int] = []

    @outer.tool_plain
    async def flaky(x: int) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry("again")
        return (await inner.run("go")).output

    @outer.tool_plain
    def broken() -> str:
        raise THE_FAILURE

    return outer


def succeeding() -> Agent[None, Any]:
    return agent(
        calls(("flaky", {"x": "no"}, "c0"), ("unknown", {}, "c1")),
        calls(("flaky", {"x": 1}, "c2")),
        calls(("flaky", {"x": 1}, "c3")),
        calls(("final_result", {"text": "done"}, "c4")),
    )


async def by_run(agent: Agent[None, Any]) -> object:
    return (await agent.run("go")).output


async def by_stream(agent: Agent[None, Any]) -> object:
    async with agent.run_stream("go") as result:
        return await result.get_output()


async def by_iter(agent: Agent[None, Any]) -> object:
    async with agent.iter("go") as run:
        async for _ in run:
            pass
    assert run.result is not None
    return run.result.output


async def by_events(agent: Agent[None, Any]) -> object:
    async with agent.run_stream_events("go") as events:
        *_, last = [event async for event in events]
    assert isinstance(last, AgentRunResultEvent)
    return last.result.output


Way = Callable[[Agent[None, Any]], Awaitable[object]]
WAYS: tuple[Way, ...] = (by_run, by_stream, by_iter, by_events)
in_every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def check_unharmed(*ways: Way) -> None:
    """Run one agent that succeeds and one that fails: the very objects that the application made come out."""
    asyncio.run(_check_unharmed(ways))


async def _check_unharmed(ways: Sequence[Way]) -> None:
    for way in ways:
        assert await way(succeeding()) is THE_OUTPUT
        with pytest.raises(Failure) as caught:
            await way(agent(calls(("broken", {}, "c1"))))
        assert caught.value is THE_FAILURE


@pytest.fixture
def instrument() -> Iterator[Callable[..., None]]:
    yield lambda **arguments: PydanticAIInstrumentor().instrument(**{**EVERYTHING, **arguments})
    PydanticAIInstrumentor().uninstrument()


def raising(*_: Any, **__: Any) -> Any:
    raise Broken


class RaisingProcessor(SpanProcessor):
    on_start = on_end = force_flush = raising


class RaisingExporter(SpanExporter):
    export = raising


class RaisingSampler(Sampler):
    should_sample = get_description = raising


class RaisingSpan(Span):
    """Has a context, so that it is used, and raises at everything else."""

    def get_span_context(self) -> SpanContext:
        return SpanContext(trace_id=1, span_id=2, is_remote=False)

    end = set_attributes = set_attribute = add_event = update_name = is_recording = raising
    set_status = record_exception = add_link = raising


class RaisingContextSpan(RaisingSpan):
    get_span_context = raising


class RaisingTracer(Tracer):
    start_span = start_as_current_span = raising


class OneSpanTracer(Tracer):
    def __init__(self, span: Span) -> None:
        self._span = span

    def start_span(self, *_: Any, **__: Any) -> Span:
        return self._span

    start_as_current_span = raising


class OneTracerProvider(TracerProvider):
    def __init__(self, tracer: Tracer | None) -> None:
        super().__init__(shutdown_on_exit=False)
        self._tracer = tracer

    def get_tracer(self, *_: Any, **__: Any) -> Tracer:
        if self._tracer is None:
            raise Broken
        return self._tracer


def sdk(sampler: Sampler | None = None, processor: SpanProcessor | None = None) -> TracerProvider:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    if processor is not None:
        provider.add_span_processor(processor)
    return provider


@pytest.mark.parametrize(
    "provider",
    [
        sdk(processor=RaisingProcessor()),
        sdk(processor=SimpleSpanProcessor(RaisingExporter())),
        sdk(sampler=RaisingSampler()),
        OneTracerProvider(None),
        OneTracerProvider(RaisingTracer()),
        OneTracerProvider(OneSpanTracer(RaisingSpan())),
        OneTracerProvider(OneSpanTracer(RaisingContextSpan())),
    ],
    ids=["processor", "exporter", "sampler", "provider", "tracer", "span", "span context"],
)
@in_every_way
def test_a_tracing_part_that_raises_at_any_call(provider: TracerProvider, way: Way, instrument, caplog):
    """The application sees its own output and its own exception; a line in the log names the part."""
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    instrument(tracer_provider=provider)
    check_unharmed(way)


class RaisingRecorder:
    emit = flush = close = query = replay = raising


class RaisingAtStart(SpanProcessor):
    on_start = raising


class RaisingAtEnd(SpanProcessor):
    on_end = raising


@pytest.mark.parametrize(
    ("provider", "later"),
    [
        (sdk(processor=RaisingAtStart()), None),
        (sdk(processor=RaisingAtEnd()), None),
        (sdk(processor=RaisingProcessor()), None),
        (sdk(sampler=RaisingSampler()), None),
        (OneTracerProvider(RaisingTracer()), None),
        (sdk(), RaisingAtEnd()),
    ],
    ids=["start", "end", "start and end", "sampler", "tracer", "end, after ours"],
)
def test_the_record_does_not_hang_on_what_others_do(
    provider: TracerProvider, later: SpanProcessor | None, instrument, caplog
):
    """The application sees its own output and a line in the log; every action is recorded as it would have been."""
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    with capture(**EVERYTHING) as without:
        check_unharmed(by_run)
    recorder = MemoryRecorder()
    instrument(tracer_provider=provider, recorder=recorder)
    if later is not None:
        with action("billing", "charge"):  # ours is attached at the first action
            recorder.events.clear()
            provider.add_span_processor(later)
        recorder.events.clear()
    check_unharmed(by_run)
    assert outline(recorder.events) == outline(without.records)


def outline(events: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """What was recorded in which order, below what, and how it ended."""
    names = {event["action_id"]: (event["kind"], event.get("name")) for event in events if event["phase"] == "start"}
    return [
        (event["kind"], event.get("name"), event.get("outcome"), names.get(event.get("parent_action_id", "")))
        for event in events
    ]


class RaisingMeters(MeterProvider):
    get_meter = raising

    def __init__(self) -> None:
        super().__init__(shutdown_on_exit=False)


class RaisingLoggers(LoggerProvider):
    get_logger = raising

    def __init__(self) -> None:
        super().__init__(shutdown_on_exit=False)


class RaisingLogExporter(LogRecordExporter):
    export = shutdown = force_flush = raising


def loggers_that_raise_at_export() -> LoggerProvider:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(RaisingLogExporter()))
    return provider


@pytest.mark.parametrize(
    "arguments",
    [
        {"recorder": RaisingRecorder()},
        {"policy": ActionPolicy.everything(redactor=raising)},
        {"recorder": RaisingRecorder(), "policy": ActionPolicy.everything(redactor=raising)},
        {"meter_provider": RaisingMeters()},
        {"logger_provider": RaisingLoggers()},
        {"logger_provider": loggers_that_raise_at_export()},
    ],
    ids=["recorder", "redactor", "recorder and redactor", "meters", "loggers", "log exporter"],
)
@in_every_way
def test_a_part_of_ours_that_raises_at_any_call(arguments: dict[str, Any], way: Way, instrument, monkeypatch, caplog):
    """The application sees its own output and its own exception; a line in the log names the stage."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    instrument(tracer_provider=sdk(), **arguments)
    check_unharmed(way)


def stages() -> dict[str, tuple[Way, ...]]:
    """Every guarded point that a run passes, with a way to run an agent that passes it; `*` is all of them."""
    seen: dict[str, tuple[Way, ...]] = {}
    for way in WAYS:
        with capture(**EVERYTHING), guard.inject(lambda stage, way=way: seen.setdefault(stage, (way,))):
            check_unharmed(way)
    return dict(sorted(seen.items())) | {"*": WAYS}


STAGES = stages()


def test_the_guarded_points_are_known():
    assert len(STAGES) >= 20


@pytest.mark.parametrize("stage", STAGES)
def test_our_own_code_raising_at_a_guarded_point(stage: str, caplog: pytest.LogCaptureFixture):
    """The application sees its own output and its own exception; one line in the log, however often it failed."""

    def fault(here: str) -> None:
        if stage in (here, "*"):
            raise Broken("secret text of the failure")

    before = guard.failures[stage]
    with capture(**EVERYTHING), guard.inject(fault):
        check_unharmed(*STAGES[stage])
    if stage != "*":
        assert guard.failures[stage] > before
        lines = [record.getMessage() for record in caplog.records if stage in record.getMessage()]
        assert len(lines) == 1  # once, however often it failed
    # With error messages admitted, as here, the line may quote the failure; see below for the default.


def test_a_contained_failure_is_counted_and_its_message_kept_back(caplog: pytest.LogCaptureFixture):
    def fault(stage: str) -> None:
        if stage == "tool.start":
            raise Broken("secret text of the failure")

    with capture(), guard.inject(fault):
        check_unharmed(by_run)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "actionspan"]
    assert "contained a failure in tool.start: Broken at" in line
    assert "secret text" not in line


def test_a_contained_failure_is_a_metric():
    """The application sees its own output; the metric counts what was contained, by stage."""

    def fault(stage: str) -> None:
        if stage == "tool.start":
            raise Broken

    with capture() as seen, guard.inject(fault):
        check_unharmed(by_run)
        (point,) = seen.metrics()["actionspan.contained_failures"]
    assert point.attributes == {"stage": "tool.start"}
    assert point.value > 0

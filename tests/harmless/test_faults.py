"""Whatever breaks in telemetry, the agent returns what it would have returned and raises what it would have raised."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Span, SpanContext, Tracer
from pydantic_ai import Agent, ModelRetry

from actionspan import ActionPolicy, PydanticAIInstrumentor, guard
from actionspan.testing import capture
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


def check_unharmed() -> None:
    """Run one agent that succeeds, streamed and not, and one that fails."""
    asyncio.run(_check_unharmed())


async def _check_unharmed() -> None:
    assert (await succeeding().run("go")).output is THE_OUTPUT
    async with succeeding().run_stream("go") as result:
        assert await result.get_output() is THE_OUTPUT
    with pytest.raises(Failure) as caught:
        await agent(calls(("broken", {}, "c1"))).run("go")
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
def test_a_tracing_part_that_raises_at_any_call(provider: TracerProvider, instrument, caplog):
    caplog.set_level(logging.CRITICAL, "opentelemetry")
    instrument(tracer_provider=provider)
    check_unharmed()


class RaisingRecorder:
    emit = flush = close = query = replay = raising


def test_a_recorder_and_a_redactor_that_raise(instrument):
    instrument(recorder=RaisingRecorder(), policy=ActionPolicy.everything(redactor=raising))
    check_unharmed()


def test_a_meter_provider_that_raises_at_any_call(instrument):
    class RaisingMeters:
        get_meter = raising

    instrument(meter_provider=RaisingMeters())
    check_unharmed()


def stages() -> list[str]:
    """Every guarded point that a run passes."""
    seen: dict[str, None] = {}
    with capture(**EVERYTHING), guard.inject(lambda stage: seen.setdefault(stage)):
        check_unharmed()
    return sorted(seen)


STAGES = stages()


def test_the_guarded_points_are_known():
    assert len(STAGES) >= 20


@pytest.mark.parametrize("stage", [*STAGES, "*"])
def test_our_own_code_raising_at_a_guarded_point(stage: str, caplog: pytest.LogCaptureFixture):
    def fault(here: str) -> None:
        if stage in (here, "*"):
            raise Broken("secret text of the failure")

    before = guard.failures[stage]
    with capture(**EVERYTHING), guard.inject(fault):
        check_unharmed()
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
        check_unharmed()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "actionspan"]
    assert "contained a failure in tool.start: Broken at" in line
    assert "secret text" not in line


def test_a_contained_failure_is_a_metric():
    def fault(stage: str) -> None:
        if stage == "tool.start":
            raise Broken

    with capture() as seen, guard.inject(fault):
        check_unharmed()
        (point,) = seen.metrics()["actionspan.contained_failures"]
    assert point.attributes == {"stage": "tool.start"}
    assert point.value > 0

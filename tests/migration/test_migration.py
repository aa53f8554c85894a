"""docs/migration.md: every name that the others emit is in its tables, and what the tables say of ours is so."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import logfire
import pytest
from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor
from opentelemetry import baggage
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic_ai import Agent, Embedder
from pydantic_ai.models.instrumented import InstrumentationSettings

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor
from actionspan.telemetry import names
from actionspan.testing import Capture, capture
from migration.runs import RUNS, deferred, failed, fell_back, invalid_arguments, plain, retried, support
from migration.tables import PAGE, table
from scripted import calls

pytestmark = pytest.mark.anyio

OPERATIONS = {"invoke_agent": "Runs", "chat": "Requests", "execute_tool": "Tools", "embeddings": "Embeddings"}
"""The heading of the table for each operation. A span of none is a failed attempt of a `FallbackModel`."""
OUR_NAMES = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
EVENTS = {"exception"}

Run = Callable[[], Awaitable[None]]


class Seen:
    """What a run looked like under Pydantic AI's own instrumentation."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    @property
    def metrics(self) -> set[str]:
        data = self.reader.get_metrics_data()
        resources = data.resource_metrics if data else ()
        return {metric.name for resource in resources for scope in resource.scope_metrics for metric in scope.metrics}


@pytest.fixture(autouse=True)
def native_off_again() -> Iterator[None]:
    yield
    instrument_all(False)


def instrument_all(settings: InstrumentationSettings | bool) -> None:
    Agent.instrument_all(settings)
    Embedder.instrument_all(settings)


async def theirs(run: Run) -> Seen:
    seen = Seen()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(seen.exporter))
    meters = MeterProvider([seen.reader])
    instrument_all(InstrumentationSettings(tracer_provider=tracers, meter_provider=meters))
    await run()
    instrument_all(False)
    return seen


async def ours(run: Run) -> Capture:
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await run()
    return seen


def operation(span: ReadableSpan) -> str:
    attributes = span.attributes or {}
    return str(attributes.get(names.OPERATION_NAME, "chat"))


def by_operation(spans: Sequence[ReadableSpan]) -> Mapping[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = defaultdict(list)
    for span in spans:
        found[operation(span)].append(span)
    return found


@pytest.mark.parametrize("run", RUNS)
async def test_every_name_that_pydantic_ai_emits_is_in_a_table(run: Run):
    seen = await theirs(run)
    assert seen.spans
    for span in seen.spans:
        rows = [*table("On every span"), *table(OPERATIONS[operation(span)])]
        lacking = {name for name in span.attributes or () if not any(row.is_about(name) for row in rows)}
        assert not lacking, f"{span.name}: docs/migration.md lacks {sorted(lacking)}"
        assert {event.name for event in span.events} <= EVENTS
    assert seen.metrics <= {row.theirs for row in table("Metrics")}


def source(module: str) -> str:
    directory = Path(inspect.getfile(importlib.import_module(module))).parent
    return "".join(path.read_text() for path in directory.rglob("*.py"))


async def test_every_row_is_about_something_that_pydantic_ai_emits():
    rows = [row for heading in ("On every span", *OPERATIONS.values(), "Metrics") for row in table(heading)]
    emitted: set[str] = set()
    for run in RUNS:
        seen = await theirs(run)
        emitted |= seen.metrics.union(*(span.attributes or () for span in seen.spans))
    stale = {row.theirs for row in rows if not any(row.is_about(name) for name in emitted)}
    code = source("pydantic_ai")
    assert stale == {"pydantic_ai.workspace.*"}, "a row that no run of ours shows"
    assert "'pydantic_ai.workspace.id'" in code


@pytest.mark.parametrize("heading", ["On every span", *OPERATIONS.values(), "Metrics", "From OpenInference"])
def test_every_name_of_ours_in_a_table_is_one(heading: str):
    rows = table(heading)
    assert len(rows) > 2
    assert {row.ours for row in rows if row.ours} <= OUR_NAMES


@pytest.mark.parametrize("run", RUNS)
async def test_what_is_said_to_be_the_same_is(run: Run):
    native, span_of_ours = by_operation((await theirs(run)).spans), by_operation((await ours(run)).spans)
    for kind, heading in OPERATIONS.items():
        rows = [row for row in (*table("On every span"), *table(heading)) if row.same_value]
        if len(native[kind]) != len(span_of_ours[kind]):
            continue  # such as a validation that is no execution here
        for one, other in zip(native[kind], span_of_ours[kind], strict=True):
            for row in rows:
                if row.theirs in one.attributes:
                    assert other.attributes[row.theirs] == one.attributes[row.theirs], f"{one.name}: {row.theirs}"


async def test_what_each_operation_has_here_instead():
    found: dict[str, set[str]] = defaultdict(set)
    for run in RUNS:
        for span in (await ours(run)).spans:
            namespace = str(span.attributes[names.NAMESPACE])
            found[namespace].update(span.attributes)
    places = {"Runs": ("agent",), "Requests": ("model",), "Tools": ("tool", "output"), "Embeddings": ("model",)}
    for heading, namespaces in places.items():
        carried = set().union(*(found[namespace] for namespace in namespaces))
        assert {row.ours for row in table(heading) if row.ours} <= carried, heading


async def test_the_model_of_a_run_is_the_one_that_answered():
    (native,) = by_operation((await theirs(fell_back)).spans)["invoke_agent"]
    assert native.attributes["model_name"] == "fallback:first,second"
    (run,) = (await ours(fell_back)).named("invoke_agent support")
    assert run.attributes["actionspan.model_version"] == "second"


async def test_the_attempts_of_a_fallback_are_those_of_one_step():
    attempts = (await ours(fell_back)).spans[:-1]
    assert [(span.attributes["actionspan.step"], span.attributes["actionspan.attempt"]) for span in attempts] == [
        (1, 1),
        (1, 2),
    ]


async def test_pydantic_ai_puts_ids_into_baggage_and_we_do_not():
    async def carried() -> set[str]:
        found: set[str] = set()
        agent = support(calls(("read", {}, "c1")), "done")
        agent.tool_plain(lambda: found.update(baggage.get_all()), name="read")
        await agent.run("go")
        return found

    instrument_all(InstrumentationSettings(tracer_provider=TracerProvider(), meter_provider=MeterProvider()))
    assert await carried() == {"gen_ai.agent.name", "gen_ai.agent.call.id", "gen_ai.conversation.id"}
    instrument_all(False)
    with capture():
        assert await carried() == set()


async def test_an_exception_is_recorded_once_here_and_again_on_the_run_there():
    def events(spans: Sequence[ReadableSpan]) -> list[str]:
        return [span.name for span in spans for event in span.events if event.name == "exception"]

    assert events((await theirs(failed)).spans) == ["chat scripted", "invoke_agent support"]
    assert [span.name for span in (await ours(failed)).spans if span.events] == ["chat scripted"]


@pytest.mark.parametrize("ours_on", [True, False])
async def test_logfire_scrubs_arguments_and_results_and_no_messages(ours_on: bool):
    exporter = InMemorySpanExporter()
    to = logfire.configure(
        local=True, send_to_logfire=False, console=False, additional_span_processors=[SimpleSpanProcessor(exporter)]
    )
    agent = support(calls(("sign_in", {"password": "xyzzy"}, "c1")), "done")
    agent.tool_plain(lambda password: f"your password is {password}", name="sign_in")
    provider = to.config.get_tracer_provider()
    everything = ActionPolicy.everything()
    instrumentor = PydanticAIInstrumentor()
    if ours_on:
        instrumentor.instrument(tracer_provider=provider, mode="content", policy=everything)
    else:
        to.instrument_pydantic_ai(agent)
    with to.span("outer"):
        await agent.run("my password is xyzzy")
    if ours_on:
        instrumentor.uninstrument()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert {span.context.trace_id for span in spans.values()} == {spans["outer"].context.trace_id}
    tool, chat, run = (spans[name] for name in ("execute_tool sign_in", "chat scripted", "invoke_agent support"))
    assert "xyzzy" not in f"{tool.attributes['gen_ai.tool.call.arguments']}{tool.attributes['gen_ai.tool.call.result']}"
    assert "xyzzy" in str(chat.attributes["gen_ai.input.messages"])
    assert run.attributes["logfire.msg"] == ("invoke_agent support" if ours_on else "support run")
    assert ("logfire.json_schema" in run.attributes) is not ours_on


def test_the_block_that_configures_logfire_runs_in_a_process_of_its_own(tmp_path: Path):
    (block,) = re.findall(r'^```python {test="skip"}\n(import logfire.*?)^```$', PAGE.read_text(), re.M | re.S)
    variables = {**os.environ, "LOGFIRE_SEND_TO_LOGFIRE": "false"}
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "invoke_agent support" in done.stdout


async def test_what_becomes_of_a_failure_stage_a_retry_and_a_deferral():
    (invalid,) = (await ours(invalid_arguments)).named("validate_tool look_up")
    assert invalid.attributes["actionspan.operation"] == "validate"
    assert invalid.attributes["actionspan.outcome_reason"] == "invalid_arguments"
    (retry,) = (await ours(retried)).named("execute_tool check")
    assert retry.attributes["actionspan.outcome_reason"] == "retry"
    (waiting,) = (await ours(deferred)).named("execute_tool refund")
    assert waiting.attributes["actionspan.outcome"] == "deferred"
    assert waiting.attributes["actionspan.outcome_reason"] == "approval_required"


async def under_openinference(run: Run, *, native: bool) -> Sequence[ReadableSpan]:
    """The spans of a run behind OpenInference's processor."""
    exporter = InMemorySpanExporter()
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        provider = TracerProvider() if native else seen.tracer_provider
        provider.add_span_processor(OpenInferenceSpanProcessor())
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        if native:
            instrument_all(InstrumentationSettings(tracer_provider=provider))
        await run()
        instrument_all(False)
    return exporter.get_finished_spans()


def added(spans: Sequence[ReadableSpan]) -> set[str]:
    prefixes = ("input.", "llm.", "openinference.", "output.", "session.", "tool.", "tool_call.")
    return {name for span in spans for name in span.attributes or () if name.startswith(prefixes)}


async def test_openinference_adds_its_names_to_our_spans_as_to_theirs():
    to_theirs: set[str] = set()
    to_ours: set[str] = set()
    for run in RUNS:
        to_theirs |= added(await under_openinference(run, native=True))
        to_ours |= added(await under_openinference(run, native=False))
    rows = table("From OpenInference")
    assert {name for name in to_theirs | to_ours if not any(row.is_about(name) for row in rows)} == set()
    without = [row for row in rows if row.ours is None]
    assert {name for name in to_ours if any(row.is_about(name) for row in without)} == set()
    with_one = [row for row in rows if row.ours is not None]
    assert [row.theirs for row in with_one if not any(row.is_about(name) for name in to_ours)] == []


async def test_openinference_changes_status_and_what_the_record_sees(tmp_path: Path):
    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(OpenInferenceSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = PydanticAIInstrumentor()
    with JsonlRecorder(tmp_path) as recorder:
        instrumentor.instrument(tracer_provider=provider, recorder=recorder)
        await plain()
        instrumentor.uninstrument()
        ended = [event for event in recorder.query() if event["phase"] == "end"]
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {StatusCode.OK}
    assert "openinference.span.kind" in {name for event in ended for name in event["attributes"]}

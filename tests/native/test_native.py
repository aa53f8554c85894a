"""The library's own instrumentation on at the same time: both work, and the log says so once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

import logfire
import pytest
from inline_snapshot import snapshot
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


def agent_with_a_tool() -> Agent:
    agent = Agent(script(calls(("look", {}, "c1")), "done", calls(("look", {}, "c2")), "done"), name="a")

    @agent.tool_plain
    def look() -> str:
        return "found"

    return agent


@pytest.fixture(autouse=True)
def native_off_again() -> Iterator[None]:
    yield
    Agent.instrument_all(False)


OURS = snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool look [success]
  execute_tool look [success]
  chat scripted [success]\
""")


EVERY_ACTION = ["chat scripted", "chat scripted", "execute_tool look", "invoke_agent a", "validate_tool look"]


def ours_among(spans: Iterable[ReadableSpan]) -> list[str]:
    """The names of our spans, sorted: theirs stand between them as parents."""
    return sorted(span.name for span in spans if span.instrumentation_scope.name == "actionspan")


async def test_both_trace_every_action_and_they_share_a_trace():
    with capture(tick=False) as seen:
        Agent.instrument_all(InstrumentationSettings(tracer_provider=seen.tracer_provider))
        await agent_with_a_tool().run("go")
    assert ours_among(seen.spans) == EVERY_ACTION
    assert seen.tree() == snapshot("""\
invoke_agent a [success]
  invoke_agent a
    chat scripted
      chat scripted [success]
    validate_tool look [success]
    execute_tool look [success]
      execute_tool look
    chat scripted
      chat scripted [success]\
""")


async def test_one_warning_names_the_two_ways_out(caplog: pytest.LogCaptureFixture):
    with capture() as seen, caplog.at_level(logging.WARNING, "actionspan"):
        Agent.instrument_all(InstrumentationSettings(tracer_provider=seen.tracer_provider))
        agent = agent_with_a_tool()
        await agent.run("go")
        await agent.run("go")
    (record,) = [record for record in caplog.records if record.name == "actionspan"]
    assert "Agent.instrument_all(False)" in record.getMessage()
    assert "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=pydantic_ai" in record.getMessage()


async def test_no_warning_while_the_native_instrumentation_is_off(caplog: pytest.LogCaptureFixture):
    with capture() as seen, caplog.at_level(logging.WARNING, "actionspan"):
        await agent_with_a_tool().run("go")
    assert seen.tree() == OURS
    assert caplog.records == []


async def test_both_ways_out_leave_one_span_an_action():
    with capture() as seen:
        Agent.instrument_all(InstrumentationSettings(tracer_provider=seen.tracer_provider))
        Agent.instrument_all(False)
        await agent_with_a_tool().run("go")
    assert seen.tree() == OURS
    with capture(mode="off") as seen:
        Agent.instrument_all(InstrumentationSettings(tracer_provider=seen.tracer_provider))
        await agent_with_a_tool().run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a
  chat scripted
  execute_tool look
  chat scripted\
""")


async def test_logfires_instrumentation_beside_ours(caplog: pytest.LogCaptureFixture):
    theirs = InMemorySpanExporter()
    logfire.configure(
        send_to_logfire=False, console=False, local=True, additional_span_processors=[SimpleSpanProcessor(theirs)]
    ).instrument_pydantic_ai()
    with capture() as seen, caplog.at_level(logging.WARNING, "actionspan"):
        await agent_with_a_tool().run("go")
    assert ours_among(seen.spans) == EVERY_ACTION
    names = sorted(span.name for span in theirs.get_finished_spans())
    assert names == snapshot(["chat scripted", "chat scripted", "execute_tool look", "invoke_agent a"])
    assert len([record for record in caplog.records if record.name == "actionspan"]) == 1


# What docs/native.md says of the two.


@pytest.fixture
def native() -> Iterator[InMemorySpanExporter]:
    """The library's own instrumentation alone, as it is by default."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    yield exporter
    provider.shutdown()


def statuses(exporter: InMemorySpanExporter) -> list[tuple[str, str]]:
    return sorted((span.name, span.status.status_code.name) for span in exporter.get_finished_spans())


async def test_native_content_is_on_by_default(native: InMemorySpanExporter):
    await agent_with_a_tool().run("a canary prompt")
    carrying = [span.name for span in native.get_finished_spans() if "a canary prompt" in str(dict(span.attributes))]
    assert carrying == ["chat scripted", "chat scripted", "invoke_agent a"]


async def test_natively_an_invented_tool_has_no_span(native: InMemorySpanExporter):
    await Agent(script(calls(("invented", {}, "c1")), "ok"), name="a").run("go")
    assert {name for name, _ in statuses(native)} == {"chat scripted", "invoke_agent a"}


async def test_natively_rejected_arguments_are_an_execution(native: InMemorySpanExporter):
    agent = Agent(script(calls(("f", {"x": "no"}, "c1")), "ok"), name="a")

    @agent.tool_plain
    def f(x: int) -> int:
        raise AssertionError("never called")

    await agent.run("go")
    assert ("execute_tool f", "ERROR") in statuses(native)


async def test_natively_a_cancelled_run_looks_like_a_success(native: InMemorySpanExporter):
    agent = Agent(script(calls(("wait", {}, "c1")), "ok"), name="a")
    started = asyncio.Event()

    @agent.tool_plain
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(agent.run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert statuses(native) == [("chat scripted", "UNSET"), ("execute_tool wait", "ERROR"), ("invoke_agent a", "UNSET")]

"""A log record written inside an action names its trace, its span, its action and its run."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from opentelemetry.instrumentation.logging import LoggingInstrumentor
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.trace import format_span_id, format_trace_id
from pydantic_ai import Agent

from actionspan.logs import log_hook
from actionspan.testing import Capture, capture
from scripted import calls, script

application = logging.getLogger("application")


@pytest.fixture
def seen() -> Iterator[Capture]:
    """Both instrumentations on; the application's records are exported, too."""
    instrumentation = LoggingInstrumentor()
    with capture() as seen:
        instrumentation.instrument(
            tracer_provider=seen.tracer_provider,
            inject_trace_context=True,
            enable_log_auto_instrumentation=False,  # its handler sends to the global provider only
            log_hook=log_hook,
        )
        handler = LoggingHandler(logger_provider=seen.logger_provider)
        application.addHandler(handler)
        yield seen
        application.removeHandler(handler)
        instrumentation.uninstrument()


def run_a_tool_that_logs() -> None:
    agent = Agent(script(calls(("look", {}, "c1")), "done"), name="a")

    @agent.tool_plain
    def look() -> str:
        application.warning("looking")
        return "found"

    agent.run_sync("go")


def test_a_record_of_the_standard_library(seen: Capture, caplog: pytest.LogCaptureFixture):
    run_a_tool_that_logs()
    (tool,) = seen.named("execute_tool look")
    (record,) = caplog.records
    ids = vars(record)
    assert ids["otelTraceID"] == format_trace_id(tool.context.trace_id)
    assert ids["otelSpanID"] == format_span_id(tool.context.span_id)
    assert ids["actionspan.action_id"] == tool.attributes["actionspan.action_id"]
    assert ids["actionspan.run_action_id"] == tool.attributes["actionspan.run_action_id"]


def test_the_record_that_is_exported(seen: Capture):
    run_a_tool_that_logs()
    (tool,) = seen.named("execute_tool look")
    (exported,) = [log.log_record for log in seen.logs]
    assert (exported.trace_id, exported.span_id) == (tool.context.trace_id, tool.context.span_id)
    assert exported.body == "looking"
    assert exported.attributes["actionspan.run_action_id"] == tool.attributes["actionspan.run_action_id"]


def test_a_record_inside_a_span_that_is_no_action_names_the_enclosing_one(
    seen: Capture, caplog: pytest.LogCaptureFixture
):
    agent = Agent(script(calls(("look", {}, "c1")), "done"), name="a")

    @agent.tool_plain
    def look() -> str:
        with seen.tracer_provider.get_tracer("database").start_as_current_span("SELECT"):
            application.warning("reading")
        return "found"

    agent.run_sync("go")
    (tool,) = seen.named("execute_tool look")
    (query,) = seen.named("SELECT")
    (record,) = caplog.records
    assert vars(record)["otelSpanID"] == format_span_id(query.context.span_id)
    assert vars(record)["actionspan.action_id"] == tool.attributes["actionspan.action_id"]


def test_a_record_outside_an_action_names_none(seen: Capture, caplog: pytest.LogCaptureFixture):
    with seen.tracer_provider.get_tracer("web").start_as_current_span("GET /"):
        application.warning("outside")
    (record,) = caplog.records
    assert "actionspan.action_id" not in vars(record)
    assert "actionspan.run_action_id" not in vars(record)
    assert vars(record)["otelTraceID"] != "0"


def test_a_format_with_the_run_and_a_default_for_records_outside(seen: Capture, caplog: pytest.LogCaptureFixture):
    run_a_tool_that_logs()
    application.warning("outside")
    name = "actionspan.run_action_id"
    formatter = logging.Formatter(f"%({name})s %(message)s", defaults={name: "-"})
    (tool,) = seen.named("execute_tool look")
    assert [formatter.format(record) for record in caplog.records] == [
        f"{tool.attributes[name]} looking",
        "- outside",
    ]

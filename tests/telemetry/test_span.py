"""An action's span, beyond what the trees of the other suites show."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline, TracerSource
from actionspan.telemetry.template import Template


def test_a_finished_action_is_freed_at_once():
    """In a cycle it would wait for the garbage collector."""
    provider = TracerProvider(shutdown_on_exit=False)
    action = Pipeline(TracerSource(provider)).start("tool", "execute", name="look", attributes={})
    kept = weakref.ref(action)
    gc.disable()
    try:
        action.detach(action.attach())
        action.finish(Ending.success())
        del action
        assert kept() is None
    finally:
        gc.enable()
        provider.shutdown()


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def pipeline(exported: InMemorySpanExporter) -> Pipeline:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return Pipeline(TracerSource(provider))


def test_it_is_finished_once_and_what_comes_later_changes_nothing(
    pipeline: Pipeline, exported: InMemorySpanExporter
) -> None:
    action = pipeline.start("tool", "execute", name="look", attributes={})
    action.finish(Ending.success())
    action.finish(Ending.failure(ValueError("late")))
    action.interrupt(asyncio.CancelledError())
    (span,) = exported.get_finished_spans()
    assert (span.attributes or {})["actionspan.outcome"] == "success"
    assert span.events == ()


def test_an_error_that_nobody_raised_is_told_on_each_action_it_ended_once(
    pipeline: Pipeline, exported: InMemorySpanExporter
) -> None:
    error = ValueError("never raised")
    outer = pipeline.start("tool", "execute", name="outer", attributes={})
    token = outer.attach()
    inner = pipeline.start("tool", "execute", name="inner", attributes={})
    inner.finish(Ending.failure(error))
    outer.detach(token)
    outer.finish(Ending.failure(error))
    told = [(span.name, [event.name for event in span.events]) for span in exported.get_finished_spans()]
    assert told == [("inner", ["exception"]), ("outer", [])]


def test_attempts_count_from_1(pipeline: Pipeline, exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="attempt counts from 1, not 0"):
        pipeline.begin(Template.of("tool", "execute", name="look", attributes={}), {}, attempt=0)
    assert exported.get_finished_spans() == ()

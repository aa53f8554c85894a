"""Metrics: their names, units and dimensions, recorded whatever is sampled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import ModelHTTPError

from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.recorder import JsonlRecorder
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline, TracerSource
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


def points(seen, name: str) -> dict[tuple, object]:
    return {tuple(sorted(point.attributes.items())): point for point in seen.metrics()[name]}


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF], ids=["sampled", "dropped"])
async def test_what_a_run_is_measured_by(sampler):
    agent = Agent(script(calls(("f", {"x": 1}, "c1"), ("invented", {}, "c2")), "ok"), name="a")
    agent.tool_plain(lambda x: x, name="f")
    with capture(sampler=sampler) as seen:
        result = await agent.run("go")
        collected = seen.metrics()
    assert set(collected) == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    }
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "function",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted",
        "actionspan.outcome": "success",
    }
    (duration,) = collected["gen_ai.client.operation.duration"]
    assert (duration.attributes, duration.count) == (model, 2)
    tokens = {point.attributes["gen_ai.token.type"]: point for point in collected["gen_ai.client.token.usage"]}
    assert set(tokens) == {"input", "output"}
    assert tokens["input"].sum == result.usage.input_tokens
    (tool,) = collected["gen_ai.execute_tool.duration"]  # and none for the tool that does not exist
    assert tool.attributes == {
        "gen_ai.tool.name": "f",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "a",
        "actionspan.outcome": "success",
    }
    (run,) = collected["gen_ai.invoke_agent.duration"]
    assert run.attributes == {
        "gen_ai.agent.name": "a",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "function",
        "actionspan.outcome": "success",
    }
    assert 0 < duration.sum < run.sum


async def test_a_failure_has_its_error_type():
    agent = Agent(script(calls(("f", {}, "c1")), ModelHTTPError(503, "m")), name="a")

    @agent.tool_plain
    def f() -> str:
        raise ModelRetry("again")

    with capture() as seen:
        with pytest.raises(ModelHTTPError):
            await agent.run("go")
        errors = {
            name: [point.attributes.get("error.type") for point in seen.metrics()[name]]
            for name in (
                "gen_ai.client.operation.duration",
                "gen_ai.execute_tool.duration",
                "gen_ai.invoke_agent.duration",
            )
        }
    assert errors == {
        "gen_ai.client.operation.duration": [None, "503"],
        "gen_ai.execute_tool.duration": ["pydantic_ai.exceptions.ModelRetry"],
        "gen_ai.invoke_agent.duration": ["503"],
    }


async def test_a_stream_is_measured_to_its_first_chunk():
    with capture() as seen:
        async with Agent(script("one two"), name="a").run_stream("go") as result:
            await result.get_output()
        (point,) = seen.metrics()["gen_ai.client.operation.time_to_first_chunk"]
        (chat,) = seen.named("chat scripted")
    assert point.count == 1
    assert point.sum == chat.attributes["gen_ai.response.time_to_first_chunk"] > 0


async def test_a_stream_is_measured_from_chunk_to_chunk():
    with capture() as seen:
        async with Agent(script("one two three"), name="a").run_stream("go") as result:
            chunks = [text async for text in result.stream_text(delta=True, debounce_by=None)]
        (point,) = seen.metrics()["gen_ai.client.operation.time_per_output_chunk"]
    assert point.count == len(chunks) - 1 > 0


async def test_what_a_recorder_wrote_and_lost_is_counted(tmp_path):
    with capture(recorder=JsonlRecorder(tmp_path)) as seen:
        await Agent(script("ok"), name="a").run("go")
        (written,) = seen.metrics()["actionspan.recorder.written"]
        (dropped,) = seen.metrics()["actionspan.recorder.dropped"]
        assert (written.value, dropped.value) == (4, 0)
        PydanticAIInstrumentor().uninstrument()
        assert "actionspan.recorder.written" not in seen.metrics()


async def test_an_exemplar_leads_to_the_span():
    with capture() as seen:
        await Agent(script("ok"), name="a").run("go")
        (point,) = seen.metrics()["gen_ai.client.operation.duration"]
        (chat,) = seen.named("chat scripted")
    assert [exemplar.span_id for exemplar in point.exemplars] == [chat.context.span_id]


@pytest.mark.parametrize(
    ("measures", "times"), [(NoOpMeterProvider(), 0), (MeterProvider(shutdown_on_exit=False), 1)], ids=["no-op", "sdk"]
)
def test_nothing_is_put_together_where_nobody_measures(measures, times, monkeypatch: pytest.MonkeyPatch):
    put_together: list[object] = []
    monkeypatch.setattr("actionspan.telemetry.pipeline.measure", lambda *about: put_together.append(about))
    source = TracerSource(TracerProvider(shutdown_on_exit=False))
    Pipeline(source, meter_provider=measures).start("tool", "execute", name="f", attributes={}).finish(Ending.success())
    assert len(put_together) == times


def test_a_meter_provider_that_is_set_later_counts_from_then_on(tmp_path: Path):
    script = tmp_path / "app.py"
    script.write_text(SET_LATER)
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.split() == ["True", "1"]


SET_LATER = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from actionspan.instrumentor import PydanticAIInstrumentor

PydanticAIInstrumentor().instrument()
agent = Agent(TestModel(), name="a")
agent.run_sync("before")
reader = InMemoryMetricReader()
before = reader.get_metrics_data() is None
metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
agent.run_sync("after")
(scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
(runs,) = (metric for metric in scope.metrics if metric.name == "gen_ai.invoke_agent.duration")
print(before, runs.data.data_points[0].count)
"""

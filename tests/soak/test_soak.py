"""Ten thousand runs in one process, fifty at a time: nothing grows, nothing stays open, and everything is counted."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor
from actionspan.recorder import read, verify
from plays import Call, Deed, Play, Script, Stage, Turn, Way

pytestmark = pytest.mark.soak

CONCURRENT = 50
ROUNDS = 20
"""Between two of them nothing runs, so that what is there then is what stays."""

DEEDS: tuple[Deed, ...] = get_args(Deed)
OFTEN: tuple[int, ...] = tuple({"return": 12, "retry": 3, "delegate": 4}.get(deed, 1) for deed in DEEDS)
WAYS: tuple[Way, ...] = get_args(Way)


def script(chance: random.Random, depth: int = 0) -> Script:
    return Script([turn(chance, depth) for _ in range(chance.randint(1, 3))])


def turn(chance: random.Random, depth: int) -> Turn:
    if chance.random() < 0.02:
        return Turn(raises=True, pause=chance.randint(0, 3))
    return Turn([call(chance, depth) for _ in range(chance.randint(1, 3))], pause=chance.randint(0, 3))


def call(chance: random.Random, depth: int) -> Call:
    (deed,) = chance.choices(DEEDS, OFTEN)
    if deed != "delegate":
        return Call(deed, chance.randint(0, 3))
    return Call(deed, delegate=script(chance, depth + 1)) if depth < 2 else Call("return")


def play(chance: random.Random) -> Play:
    """One run: streamed or not, to its end or cancelled somewhere, as soon as it has begun or long after."""
    cancel_after = chance.randint(0, 80) if chance.random() < 0.2 else None
    return Play(script(chance), chance.choice(WAYS), cancel_after=cancel_after)


class Spans(SpanProcessor):
    """Counts, and keeps nothing."""

    def __init__(self) -> None:
        self.open = 0
        self.ended: Counter[str] = Counter()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.open += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.open -= 1
        attributes = span.attributes or {}
        self.ended[f"{attributes['actionspan.namespace']}.{attributes['actionspan.operation']}"] += 1
        self.ended["executed"] += attributes.get("actionspan.tool_executed") is True


@dataclass
class Held:
    """What the process holds between two rounds."""

    runs: int
    objects: int
    kilobytes: int
    descriptors: int


def held(runs: int) -> Held:
    gc.collect()
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS:")]
    return Held(runs, len(gc.get_objects()), int(line.split()[1]), len(os.listdir("/proc/self/fd")))


@dataclass
class Soaked:
    """What was done, by the books of the runs themselves."""

    runs: int = 0
    agents: int = 0
    requests: int = 0
    tools: int = 0

    async def round(self, plays: Iterator[Play], until: float) -> None:
        await asyncio.gather(*[self._some(plays, until) for _ in range(CONCURRENT)])

    async def _some(self, plays: Iterator[Play], until: float) -> None:
        for one in plays:
            if time.monotonic() > until:
                return
            stage = Stage()
            await stage.perform(one)
            self.runs += 1
            self.agents += stage.runs
            self.requests += stage.requests
            self.tools += len(stage.executed)


def in_record(directory: Path) -> Counter[str]:
    """Actions that ended, as the record has them."""
    counts: Counter[str] = Counter()
    for event in read(directory).query():
        if event["phase"] != "start":
            counts[f"{event['namespace']}.{event['operation']}"] += 1
            counts["executed"] += event["attributes"].get("actionspan.tool_executed") is True
    return counts


def in_metrics(reader: InMemoryMetricReader) -> dict[str, int]:
    """How often each duration was measured."""
    data: Any = reader.get_metrics_data()
    metrics = [metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics]
    return {
        metric.name: sum(point.count for point in metric.data.data_points)
        for metric in metrics
        if metric.name.endswith("duration")
    }


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds is read from /proc")
def test_soak(tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    runs, seconds = request.config.getoption("--soak-runs"), request.config.getoption("--soak-seconds")
    chance = random.Random(request.config.getoption("--soak-seed"))
    spans, reader = Spans(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(spans)
    recorder = JsonlRecorder(tmp_path / "record", max_segment_bytes=16 * 2**20)
    PydanticAIInstrumentor().instrument(
        tracer_provider=tracers,
        meter_provider=meters,
        mode="content",
        policy=ActionPolicy.everything(),
        recorder=recorder,
    )
    soaked, samples, began = Soaked(), list[Held](), time.monotonic()
    for _ in range(ROUNDS):
        asyncio.run(soaked.round(iter([play(chance) for _ in range(runs // ROUNDS)]), began + seconds))
        assert spans.open == 0
        samples.append(held(soaked.runs))
        with capsys.disabled():
            print(f"\n{time.monotonic() - began:4.0f} s  {samples[-1]}", end="", flush=True)
    PydanticAIInstrumentor().uninstrument()
    recorder.close()

    nothing_grows([sample for sample in samples if sample.runs > samples[0].runs])
    assert recorder.stats().dropped == 0
    report = verify(tmp_path / "record")
    assert (report.damaged, report.unfinished, report.in_flight, report.without_outcome) == (False, [], 0, 0)
    assert spans.ended == in_record(tmp_path / "record")
    durations = in_metrics(reader)
    meters.shutdown()
    assert (
        spans.ended["agent.run"],
        spans.ended["model.request"],
        spans.ended["executed"],
    ) == (
        durations["gen_ai.invoke_agent.duration"],
        durations["gen_ai.client.operation.duration"],
        durations["gen_ai.execute_tool.duration"],
    )
    assert spans.ended["agent.run"] == soaked.agents
    assert spans.ended["model.request"] == soaked.requests
    assert spans.ended["executed"] == soaked.tools


def nothing_grows(samples: Sequence[Held]) -> None:
    """The second half of the runs needs no more than the first did, in which the bounded caches fill up."""
    first, second = samples[: len(samples) // 2], samples[len(samples) // 2 :]
    assert max(sample.descriptors for sample in second) <= max(sample.descriptors for sample in first)
    assert max(sample.objects for sample in second) <= 1.02 * max(sample.objects for sample in first)
    assert max(sample.kilobytes for sample in second) <= 1.05 * max(sample.kilobytes for sample in first)

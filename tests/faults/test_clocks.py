"""A wall clock that is set back or forward: what came first is recorded as what came first."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from actionspan import JsonlRecorder
from actionspan.recorder import Reader, read, verify
from actionspan.telemetry import clock
from actionspan.testing import capture
from scripted import calls, script

HOUR = 3_600_000_000_000


class Wall:
    """The system's clock, as somebody sets it."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self) -> int:
        return time.time_ns() + self.offset


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(clock._source, "wall", wall)
    return wall


def agent(name: str, wall: Wall | None = None, step: int = 0) -> Agent[None, Any]:
    """Runs a sub-agent in a tool, in the middle of which the clock is set."""
    inner = Agent(script("inner"), name="inner")
    made = Agent(script(calls(("ask", {}, "c1")), "done"), name=name)

    @made.tool_plain
    async def ask() -> str:
        if wall is not None:
            wall.offset += step
        return (await inner.run("go")).output

    return made


@pytest.mark.parametrize("step", [-HOUR, HOUR], ids=["back", "forward"])
def test_a_clock_set_in_mid_run(wall: Wall, step: int, tmp_path: Path):
    """The application sees nothing; durations are those that passed, and each action lies within its parent."""
    with JsonlRecorder(tmp_path / "record") as recorder, capture(tick=False, recorder=recorder) as seen:
        began = time.perf_counter_ns()
        asyncio.run(agent("outer", wall, step).run("go"))
        passed = time.perf_counter_ns() - began
    by_id = {span.context.span_id: span for span in seen.spans}
    assert len(by_id) == 7
    for span in seen.spans:
        assert 0 <= span.end_time - span.start_time <= passed
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time
    kinds = [event["kind"] for event in read(tmp_path / "record").query()]
    assert kinds == [
        "agent.run.start",
        "model.request.start",
        "model.request.end",
        "tool.validate.start",
        "tool.validate.end",
        "tool.execute.start",
        "agent.run.start",
        "model.request.start",
        "model.request.end",
        "agent.run.end",
        "tool.execute.end",
        "model.request.start",
        "model.request.end",
        "agent.run.end",
    ]


def agents(reader: Reader, **times: float) -> list[str]:
    return [event["agent_id"] for event in reader.query(kind="agent.run.end", **times)]


def test_a_clock_set_back_between_two_runs(wall: Wall, tmp_path: Path):
    """The application sees nothing; a later run has the earlier time, and is found by that."""
    with JsonlRecorder(tmp_path / "record") as recorder, capture(tick=False, recorder=recorder):
        asyncio.run(agent("first").run("go"))
        between = time.time()
        wall.offset -= HOUR
        asyncio.run(agent("second").run("go"))
    reader = read(tmp_path / "record")
    assert agents(reader) == ["inner", "second", "inner", "first"]
    assert agents(reader, since=between - 1800) == ["inner", "first"]
    assert agents(reader, until=between - 1800) == ["inner", "second"]
    report = verify(tmp_path / "record")
    assert (report.unfinished, report.damaged) == ([], False)

"""The benchmarks run: a tiny round of every scenario on every side, and of the recorder's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a bench of one side in this process; the installed package is what it measures."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.sides import SIDES
    from benchmarks.worker import Bench

    opened: list[Any] = []

    def make(side: str) -> Any:
        opened.append(Bench(SIDES[side]))
        return opened[-1]

    yield make
    for one in reversed(opened):  # each takes away the outermost wrapper
        one.close()


SPANS = {"A": 14, "B0": 2, "B": 2, "C": 67, "D": 5, "D2": 5, "E": 2}
"""What one run of each scenario opens."""


@pytest.mark.parametrize("side", ["floor", "content"])
def test_every_scenario_runs(bench: Any, side: str) -> None:
    """The floor opens the spans that actionspan opens."""
    measured = bench(side)

    assert {name: measured.time(name, 1)["spans"] for name in SPANS} == SPANS


@pytest.mark.parametrize(
    ("side", "spans"),
    [
        ("none", 0),
        ("seams", 0),
        ("spans", 14),
        ("metadata", 14),
        ("recorded", 14),
        ("native", 10),
        ("native_content", 10),
        ("off", 0),
        ("removed", 0),
    ],
)
def test_every_side_runs(bench: Any, side: str, spans: int) -> None:
    assert bench(side).time("A", 1)["spans"] == spans


def test_the_spans_that_know_nothing_have_as_many_attributes_as_ours(bench: Any) -> None:
    def attributes(side: str) -> float:
        measured = bench(side)
        measured._exporter.kept = spans = []
        measured.time("C", 1)
        return sum(len(span.attributes) for span in spans) / len(spans)

    assert attributes("spans") == pytest.approx(attributes("metadata"), abs=1)


def test_the_recorder_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each way of reading finds the same events."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import events, reading, writing

    assert writing.latency(events.application_event(), 1)["bytes"] == pytest.approx(1024, abs=64)
    assert writing.sustained(10, 1).keys() == {"encoded and buffered", "write", "fsync", "batch"}
    count = events.fill(tmp_path / "record", 2_000_000)
    found = {name: way(tmp_path / "record")() for name, way in reading.WAYS.items() if not name.startswith("DuckDB")}

    assert found["unselective query"] == found["replay"] == count == 2 * found["stats"] == 2 * found["spans rebuilt"]
    assert found["selective query"] == reading._grep(tmp_path / "record")["found"] > 0
    assert found["bare msgspec decode"] == count + 3  # the header, the resource and scope, and the trailer


def test_one_span_is_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.span import one_span

    assert all(spent > 0 for spent in one_span(1).values())


def test_targets_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.measure import Costs
    from benchmarks.targets import judge

    costs = Costs()
    times = {
        "none": [10.0, 20.0, 30.0] * 4,
        "floor": [12.0, 22.0, 32.0] * 4,
        "metadata": [14.0, 24.0, 34.0] * 4,
        "native": [15.0, 25.0, 35.0] * 4,
        "off": [10.0, 20.0, 30.0] * 4,
        "removed": [5.0, 25.0, 30.0] * 4,
    }
    for side, measured in times.items():
        costs.of("A", side).times = measured

    assert {verdict.target: verdict.found for verdict in judge(costs)} == {
        "A: metadata ≤ 1.5 x floor": "missed",
        "A: metadata ≤ 1 x native": "met",
        "A: off ≤ none + 2 %": "met",
        "A: removed ≤ none + 2 %": "unclear",
    }


def test_every_stage_is_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.stages import stages

    found = stages("A", 1)
    assert found["span.start"]["count"] == found["span.end"]["count"] == 14


@pytest.mark.parametrize(
    ("was", "spent", "found"),
    [
        (0.3, [13.0] * 40, "met"),  # as it was
        (0.3, [13.4] * 40, "met"),  # within the tolerance
        (0.3, [14.0] * 40, "missed"),
        (0.3, [12.0, 15.0] * 20, "unclear"),
        (-0.04, [10.1] * 40, "met"),  # less than nothing was chance
        (-0.04, [10.3] * 40, "missed"),
    ],
)
def test_a_regression_is_one_beyond_the_noise(
    monkeypatch: pytest.MonkeyPatch, was: float, spent: list[float], found: str
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.check import compare
    from benchmarks.measure import Costs

    costs = Costs()
    costs.of("A", "none").times = [10.0] * 40
    costs.of("A", "metadata").times = spent
    (one,) = compare(costs, {"A": {"metadata": was}})
    assert one.found == found

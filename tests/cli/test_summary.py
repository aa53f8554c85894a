"""Statistics in one pass: percentiles close to the true ones, tokens once, groups that do not grow for ever."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actionspan.cli._sketch import Sketch
from actionspan.cli._summary import Summary


@given(
    st.lists(st.floats(min_value=1e-6, max_value=1e5), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.95, 0.99, 1.0]),
)
def test_a_percentile_is_within_one_percent(values: list[float], share: float):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    true = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    assert sketch.quantile(share) == pytest.approx(true, rel=0.0101)


def test_a_sketch_takes_anything_and_stays_small():
    sketch = Sketch()
    assert sketch.quantile(0.5) is None
    chance = random.Random(1)
    for _ in range(20_000):
        sketch.add(10 ** chance.uniform(-9, 6))
    for odd in (0.0, -1.0, float("inf"), float("nan")):
        sketch.add(odd)
    assert sketch.quantile(0) == pytest.approx(1e-9, rel=0.0101)
    assert sketch.quantile(1) == pytest.approx(1e12, rel=0.0101)
    assert len(sketch._buckets) < 2_500


def _event(namespace: str, name: str, **fields: object) -> dict[str, object]:
    return {
        "kind": f"{namespace}.x.end",
        "timestamp": 1.0,
        "namespace": namespace,
        "name": name,
        "outcome": "success",
        "duration": 1.0,
    } | fields


def test_more_names_than_anybody_declares_are_counted_together():
    summary = Summary()
    for number in range(8_000):
        summary.add(_event("agent", f"agent-{number}", operation="run"))
        summary.add(_event("tool", "t", operation="execute", outcome=f"outcome-{number}"))
    groups = summary.groups()
    assert sum(len(found) for found in groups.values()) < 8_000
    assert sum(group.count for group in groups["outcomes"].values()) == summary.all().count == 16_000


def test_events_that_are_no_actions_or_make_no_sense_are_left_out():
    summary = Summary()
    for event in (
        {"kind": "hook_start", "timestamp": 1.0},
        {"kind": "tool.execute.start", "timestamp": 1.0, "namespace": "tool"},
        _event("model", "m", operation="request", usage=["no"], attributes="no", duration="no"),
        _event("tool", "t", operation="execute", attributes=None, outcome_reason=["no"]),
    ):
        summary.add(event)
    assert summary.all().count == 2
    assert summary.groups()["models"]["m"].fields()["p50"] is None
    assert summary.groups()["models"]["m"].fields()["cost_usd"] is None

"""Whatever an application puts in an event, the line is JSON and what can come back does."""

from __future__ import annotations

import json
import tempfile
from collections import OrderedDict, deque
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from dirty_equals import IsFloatNan
from hypothesis import given, settings
from hypothesis import strategies as st

from actionspan.recorder import JsonlRecorder, read
from recorder.conftest import segments

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None), max_size=12)
    | st.binary(max_size=8)
)
keys = st.text(max_size=6) | st.sampled_from(["$float", "$bytes", "$map", "$str", "kind", "a.b"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.integers(0, 9), inner, max_size=3),
    max_leaves=12,
)


class Word(str):
    """A text with a class of its own."""


class Count(int):
    """A number with a class of its own."""


class Share(float):
    """A fraction with a class of its own."""


class Colour(StrEnum):
    RED = "red"


class Hostile:
    """An object whose own code must not run."""

    def __str__(self) -> str:
        raise AssertionError("str was called")

    __repr__ = __str__


@settings(max_examples=60, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(["a", "b.c", "metadata", "attributes"]), values, max_size=3))
def test_values_come_back_as_they_were(fields: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rec"
        with JsonlRecorder(path) as recorder:
            recorder.emit({"kind": "x", **fields})
        (event,) = read(path).query()
        for line in segments(path)[0].read_bytes().splitlines():
            json.loads(line)
    assert {name: event[name] for name in fields} == fields
    assert [type(event[name]) for name in fields] == [type(value) for value in fields.values()]


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (Hostile(), {"$object": f"{__name__}.Hostile"}),
        (object, {"$object": "builtins.type"}),
        (Colour.RED, "red"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Path("/tmp/x"), "/tmp/x"),
        ((1, 2), [1, 2]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(a=b"x"), {"a": b"x"}),
        ({"a": Hostile()}, {"a": {"$object": f"{__name__}.Hostile"}}),
        (float("inf"), float("inf")),
        (Word("text"), "text"),
        (Count(3), 3),
        (Share(0.5), 0.5),
        (Share("nan"), IsFloatNan),
        (bytearray(b"\xff"), b"\xff"),
        (memoryview(b"\xff"), b"\xff"),
        (deque([1, b"x"]), [1, b"x"]),
        ("lone \ud800", "lone \ud800"),
        (["\ud800"], ["\ud800"]),
        ({"key \ud800": 1}, {"key \\ud800": 1}),
        ({(1, 2): "pair"}, {(1, 2): "pair"}),
        (msgspec.Raw(b"[1,\n"), {"$object": "msgspec.Raw"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_objects_become_text_or_a_marker(recorder: JsonlRecorder, value: Any, recorded: Any) -> None:
    recorder.emit({"kind": "x", "value": value})
    assert [event["value"] for event in recorder.query()] == [recorded]


def test_a_cycle_is_cut(recorder: JsonlRecorder) -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    recorder.emit({"kind": "x", "value": cycle})
    assert len(list(recorder.query())) == 1


def test_a_large_event_loses_its_largest_fields(recorder: JsonlRecorder) -> None:
    recorder.emit(
        {
            "kind": "x",
            "call_id": "c",
            "attributes": {"small": 1, "large": "v" * 900_000},
            "content": {"request": "w" * 800_000, "tiny": "t"},
        }
    )
    (event,) = recorder.query()
    assert event["call_id"] == "c"
    assert event["attributes"] == {"small": 1}
    assert event["content"] == {"tiny": "t"} or "content.request" not in event["omitted"]
    assert event["omitted"]["attributes.large"] == 900_007
    assert all(len(line) <= 2**20 + 200 for line in segments(recorder.directory)[0].read_bytes().splitlines())


def test_an_event_that_is_large_all_over_is_still_an_event(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "k" * 2_000_000, "call_id": "c"})
    (event,) = recorder.query()
    assert (event["kind"], event["call_id"]) == ("oversized", "c")


def test_a_field_that_is_large_by_itself_is_left_out(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "x", "call_id": "c", "blob": "b" * 2_000_000, "small": 1})
    (event,) = recorder.query()
    assert (event["kind"], event["call_id"], event["small"]) == ("x", "c", 1)
    assert (event["omitted"], "blob" in event) == ({"blob": 2_000_006}, False)

"""Both spellings of OTLP's JSON, value by value."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actionspan.backends._report import BackendReport
from actionspan.backends._spans import events_of, hex_id


def event_of(**span: Any) -> dict[str, Any]:
    """The event of a span that says as little as it can, and this."""
    attributes = [{"key": "actionspan.namespace", "value": {"stringValue": "tool"}}, *span.pop("attributes", ())]
    least = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "2", "startTimeUnixNano": "1", "endTimeUnixNano": "3"}
    scope = {"scope": {"name": "actionspan"}, "spans": [{**least, **span, "attributes": attributes}]}
    report = BackendReport("it")
    ((_, event),) = events_of({"resourceSpans": [{"scopeSpans": [scope]}]}, report)
    assert report.incomplete == []
    return event


STRUCTURED: list[tuple[dict[str, Any], Any]] = [
    ({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}, {"key": "b"}]}}, {"a": 1, "b": ""}),
    ({"kvlistValue": {}}, {}),
    ({"bytesValue": "AP8="}, b"\x00\xff"),
]
not_with_1_43 = pytest.mark.skipif(
    version("opentelemetry-sdk").startswith("1.43."), reason="OpenTelemetry 1.43 has no such attributes"
)


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({}, ""),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": -3}, -3),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"boolValue": False}, False),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}}, ["a", "b"]),
        ({"arrayValue": {}}, []),
        ({"arrayValue": None}, []),
        *(pytest.param(value, meaning, marks=not_with_1_43) for value, meaning in STRUCTURED),
    ],
)
def test_values(value: dict[str, Any], meaning: Any):
    found = event_of(attributes=[{"key": "it", "value": value}])["attributes"]["it"]
    assert found == meaning
    assert type(found) is type(meaning)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("SPAN_KIND_CLIENT", "CLIENT"),
        (3, "CLIENT"),
        (1, "INTERNAL"),
        (None, "INTERNAL"),
        (0, "INTERNAL"),
        (77, "INTERNAL"),
    ],
)
def test_kinds(kind: Any, name: str):
    assert event_of(kind=kind)["span_kind"] == name


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (None, {"code": "UNSET"}),
        ({}, {"code": "UNSET"}),
        ({"code": 2, "message": "no"}, {"code": "ERROR", "description": "no"}),
        ({"code": "STATUS_CODE_OK"}, {"code": "OK"}),
    ],
)
def test_statuses(status: Any, meaning: dict[str, str]):
    assert event_of(status=status)["status"] == meaning


def test_ids():
    assert hex_id("+ptwmlr13N3QVEpRuzMbNg==") == hex_id("FA9B709A5AF5DCDDD0544A51BB331B36")
    assert hex_id("kuNXRmwbzy8=") == "92e357466c1bcf2f"
    assert hex_id("") == ""
    with pytest.raises(ValueError, match=r"base64|padding|characters"):
        hex_id("no id at all")


@pytest.mark.parametrize("parent", ["", "0000000000000000", "AAAAAAAAAAA="])
def test_a_span_without_a_parent(parent: str):
    assert "parent_span_id" not in event_of(parentSpanId=parent)


def test_a_parent_in_another_process():
    assert event_of(parentSpanId="0" * 15 + "9", flags=0x300)["parent_is_remote"] is True
    assert "parent_is_remote" not in event_of(parentSpanId="0" * 15 + "9", flags=0x100)


def test_flags_and_trace_state_where_a_backend_keeps_them():
    event = event_of(flags=0x101, traceState="a=b")
    assert (event["flags"], event["trace_state"]) == (1, "a=b")
    assert "flags" not in event_of(flags=0x100)


def test_what_is_null_is_absent():
    nothing = dict.fromkeys(("events", "links", "status", "parentSpanId", "flags", "droppedAttributesCount", "kind"))
    assert event_of(**nothing) == event_of()


@pytest.mark.parametrize(
    "traces",
    [
        {"resourceSpans": None},
        {"resourceSpans": [{"resource": None, "scopeSpans": None}]},
        {"resourceSpans": [{"resource": None, "scopeSpans": [{"scope": None, "spans": None}]}]},
    ],
)
def test_null_is_nothing_at_every_level(traces: dict[str, Any]):
    report = BackendReport("it")
    assert list(events_of(traces, report)) == []
    assert report.incomplete == []


@pytest.mark.parametrize(
    "traces",
    [
        {"resourceSpans": [None]},
        {"resourceSpans": {}.fromkeys("a")},
        {"resourceSpans": [{"scopeSpans": "text"}]},
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "actionspan"}, "spans": [7]}]}]},
    ],
)
def test_what_is_no_list_of_objects_is_said(traces: dict[str, Any]):
    report = BackendReport("it")
    assert list(events_of(traces, report)) == []
    assert " that cannot be read (Expected `" in report.incomplete[0]


REAL: dict[str, Any] = json.loads((Path(__file__).parents[1] / "fixtures" / "tempo" / "trace-by-id.json").read_text())[
    "trace"
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("ab" * 16) | st.just("9" * 25),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["key", "value", "values", "intValue", "doubleValue", "kvlistValue"]), inner)
    ),
    max_leaves=5,
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in JSON."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*place, key)
        yield from places(part, (*place, key))


PLACES = list(places(REAL))


@given(st.sampled_from(PLACES), ANYTHING | st.just(...))
def test_whatever_stands_where_something_else_belongs_is_read_or_said(place: tuple[Any, ...], other: Any):
    altered = copy.deepcopy(REAL)
    owner: Any = altered
    for key in place[:-1]:
        owner = owner[key]
    if other is ...:
        del owner[place[-1]]
    else:
        owner[place[-1]] = other
    report = BackendReport("it")
    events = list(events_of(altered, report))
    holds_spans = any(key in ("resourceSpans", "scopeSpans", "spans") for key in place[-2:])
    assert holds_spans or report.incomplete or len(events) + report.passed_over == 4


def test_a_span_without_an_id_is_said():
    attributes = [{"key": "actionspan.namespace", "value": {"stringValue": "tool"}}]
    span = {"traceId": "0" * 32, "spanId": "0" * 16, "startTimeUnixNano": "1", "endTimeUnixNano": "3"}
    scope = {"scope": {"name": "actionspan"}, "spans": [span | {"attributes": attributes}]}
    report = BackendReport("it")
    assert list(events_of({"resourceSpans": [{"scopeSpans": [scope]}]}, report)) == []
    assert report.incomplete == ["a span that cannot be read (ValueError)"]


def test_what_was_dropped():
    assert event_of(droppedAttributesCount=2, droppedLinksCount=1)["dropped"] == {"attributes": 2, "links": 1}


def test_links():
    link = {"traceId": "0" * 31 + "7", "spanId": "0" * 15 + "8", "flags": 0x301, "attributes": [
        {"key": "why", "value": {"stringValue": "a test"}}
    ]}  # fmt: skip
    assert event_of(links=[link])["links"] == [
        {
            "trace_id": "0" * 31 + "7",
            "span_id": "0" * 15 + "8",
            "flags": 1,
            "is_remote": True,
            "attributes": {"why": "a test"},
        }
    ]

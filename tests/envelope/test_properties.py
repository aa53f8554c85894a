"""What holds of every text and every envelope."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actionspan.envelope import (
    ENVELOPE_CONTRACT,
    is_error_envelope,
    parse_envelope,
    project_metadata,
    validate_envelope,
)

# The fixtures that isolate every test hold no state between examples.
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
pieces = st.sampled_from(
    ["```", "json", "\n", "\r\n", '"', "\\", "{", "}", "[", "]", '"status"', ":", '"ok"', '"error"', ",", " "]
) | st.sampled_from(
    ["~~~", "null", "NaN", "-", "1", "e9", "\ufeff", "\u2028", "\x00", "\ud800", '{"status":"ok"}', "x"]
)
texts = st.text() | st.lists(pieces, max_size=20).map("".join) | json_values.map(json.dumps)


@many
@given(texts)
def test_parsing_never_raises_and_gives_a_valid_envelope_or_an_error(text: str):
    result = parse_envelope(text)
    assert (result.envelope is None) == (result.error is not None)
    assert (result.recovered is None) == (result.error == "empty")
    if result.envelope is not None:
        assert validate_envelope(result.envelope) is None
        again = json.dumps(result.envelope, allow_nan=False)
        assert json.loads(again) == result.envelope


@many
@given(texts)
def test_no_text_is_lost(text: str):
    result = parse_envelope(text)
    if result.recovered == "raw":
        assert result.envelope == {"status": "ok", "content": text}


@many
@given(json_values)
def test_projecting_is_idempotent_and_changes_nothing_it_is_given(value: Any):
    for candidate in (value, {"content": value, "results": [value, {"content": value}], "status": value}):
        before = copy.deepcopy(candidate)
        once = project_metadata(candidate)
        assert candidate == before
        assert project_metadata(once) == once
        if isinstance(candidate, dict):
            assert "content" not in once
            results = once.get("results")
            for item in results if isinstance(results, list) else ():
                assert not isinstance(item, dict) or "content" not in item


# --- the contract, read back ---

LINE = re.compile(r'^(?P<indent> *)- "(?P<name>\w+)" \((?P<presence>[^)]*)\): (?P<kind>[^.]*)\.', re.MULTILINE)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "a non-empty string": st.text(min_size=1),
    "an object": objects,
    "an object, never null": objects,
    "any JSON value": json_values,
    "a list, never null": st.lists(json_values, max_size=3),
}


def values_of(kind: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(re.findall(r'"(\w+)"', kind)) if kind.startswith("one of ") else KINDS[kind]


def read_contract() -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    """Name to (presence, kind), of the envelope and of its error, as a model reads them."""
    outer: dict[str, tuple[str, str]] = {}
    inner: dict[str, tuple[str, str]] = {}
    for line in LINE.finditer(ENVELOPE_CONTRACT):
        (inner if line["indent"] else outer)[line["name"]] = (line["presence"], line["kind"])
    return outer, inner


OUTER, INNER = read_contract()


@st.composite
def obedient(draw: st.DrawFn) -> dict[str, Any]:
    """An envelope written by a model that does as the contract says."""
    envelope: dict[str, Any] = {}
    for name, (presence, kind) in OUTER.items():
        with_status = re.search(r'status "(\w+)"', presence)
        if with_status and envelope["status"] != with_status[1]:
            if draw(st.booleans()):
                envelope[name] = None
        elif with_status:
            envelope[name] = {**draw(objects), **draw(fields(INNER))}
        elif presence == "required" or draw(st.booleans()):
            envelope[name] = draw(values_of(kind))
    return envelope


@st.composite
def fields(draw: st.DrawFn, table: dict[str, tuple[str, str]]) -> dict[str, Any]:
    chosen = {}
    for name, (presence, kind) in table.items():
        if presence == "required" or draw(st.booleans()):
            chosen[name] = draw(values_of(kind))
    return chosen


@many
@given(obedient())
def test_what_obeys_the_contract_is_valid(envelope: dict[str, Any]):
    assert validate_envelope(envelope) is None
    assert is_error_envelope(envelope) == (envelope["status"] == "error")
    assert parse_envelope(json.dumps(envelope)).envelope == envelope


@many
@given(obedient(), st.data())
def test_what_breaks_the_contract_in_one_field_is_not(envelope: dict[str, Any], data: st.DataObject):
    broken = copy.deepcopy(envelope)
    tables = [(broken, OUTER)] + ([(broken["error"], INNER)] if envelope["status"] == "error" else [])
    table, rules = data.draw(st.sampled_from(tables))
    name = data.draw(st.sampled_from([name for name in rules if rules[name][1] != "any JSON value"]))
    presence, kind = rules[name]
    if presence == "required" and data.draw(st.booleans()):
        del table[name]
    else:
        table[name] = data.draw(json_values.filter(lambda value: not fits(value, kind, presence)))
    assert validate_envelope(broken) is not None
    assert parse_envelope(json.dumps(broken)).error is not None or "status" not in broken


def fits(value: Any, kind: str, presence: str) -> bool:
    if value is None and "or null" in presence:
        return True
    if kind.startswith("one of"):
        return value in re.findall(r'"(\w+)"', kind)
    if kind.startswith("a list"):
        return isinstance(value, list)
    if kind.startswith("an object"):
        return isinstance(value, dict)
    return isinstance(value, str) and value != ""


@many
@given(obedient(), st.text().filter(lambda name: name not in OUTER))
def test_no_other_field_is_permitted(envelope: dict[str, Any], name: str):
    assert "It has no other field." in ENVELOPE_CONTRACT
    assert validate_envelope({**envelope, name: 1}) is not None

"""Conditions as somebody types them."""

from __future__ import annotations

import time

import pytest

from actionspan.cli._where import moment, parse_where

EVENT = {
    "name": "lookup",
    "attempt": 2,
    "conversation_id": "4711",
    "attributes": {"gen_ai.request.model": "m", "flag": True},
    "usage": {"input_tokens": 3},
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("name=lookup", True),
        ('name="lookup"', True),
        ("name=other", False),
        ("attempt=2", True),
        ("attempt=2.0", True),
        ("attempt=true", False),
        ("conversation_id=4711", True),
        ("attributes.gen_ai.request.model=m", True),
        ("attributes.flag=true", True),
        ("attributes.flag=1", False),
        ("usage.input_tokens=3", True),
        ("nothing=null", False),
        ("name.deeper=1", False),
        ("name=\udcff", False),  # what a shell gives for a byte that is no UTF-8
        ("name=" + "[" * 100_000, False),
    ],
    ids=lambda value: str(value)[:20].encode(errors="replace").decode(),
)
def test_a_value_compares_as_json_or_as_text(condition: str, holds: bool):
    assert parse_where([condition]).matches(EVENT) is holds


def test_all_conditions_must_hold():
    assert parse_where(["name=lookup", "attempt=2"]).matches(EVENT)
    assert not parse_where(["name=lookup", "attempt=3"]).matches(EVENT)


@pytest.mark.parametrize("condition", ["name", "=x", ""])
def test_a_condition_without_a_field_or_a_value_is_named(condition: str):
    with pytest.raises(ValueError, match="field=value"):
        parse_where([condition])


def test_a_field_given_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        parse_where(["attempt=1", "attempt=2"])


def test_times_are_relative_absolute_or_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: 1_000_000.0)
    assert [moment("since", text) for text in ("30s", "15m", "2h", "7d", "1.5h", "123.5")] == [
        999_970.0, 999_100.0, 992_800.0, 395_200.0, 994_600.0, 123.5,
    ]  # fmt: skip
    assert moment("since", "2024-05-01T10:00:00Z") == "2024-05-01T10:00:00Z"
    assert moment("since", None) is None
    with pytest.raises(ValueError, match="--until 'yesterday'"):
        moment("until", "yesterday")

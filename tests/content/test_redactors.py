"""The two ready-made redactors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import actionspan
from actionspan.redact import RedactionContext, redact_keys, redact_patterns

CONTEXT = RedactionContext("tool", "call", "search", "gen_ai.tool.call.arguments")


def test_keys_are_whole_names_however_spelled_and_nested() -> None:
    redact = redact_keys("token", "session", "api_key")
    value = {
        "token": "s",
        "Token": 1,
        "API-Key": ["s"],
        "apiKey": {"s": 1},
        "total_tokens": 3,
        "session_id": "kept",
        "deep": [{"SESSION": "s", "tokens": 1}],
    }
    assert redact(value, CONTEXT) == {
        "token": "<secret>",
        "Token": "<secret>",
        "API-Key": "<secret>",
        "apiKey": "<secret>",
        "total_tokens": 3,
        "session_id": "kept",
        "deep": [{"SESSION": "<secret>", "tokens": 1}],
    }
    assert value["token"] == "s"


@pytest.mark.parametrize("names", [(), ("",), ("a", "_-")])
def test_key_names_must_name_something(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least one key name"):
        redact_keys(*names)


def test_key_names_must_be_text() -> None:
    with pytest.raises(TypeError, match="not int"):
        redact_keys(1)  # type: ignore[arg-type]


PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nabc+/=\ndef-x\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key sk-proj-AbCdEfGhIjKlMnOp1234!", "key <secret>!"),
        ("sk-ant-api03-" + "A" * 90, "<secret>"),
        (r"a\nsk-abcdefghijklmnop1", r"a\n<secret>"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        ("ghp_" + "a" * 36, "<secret>"),
        ("github_pat_" + "a" * 22 + "_" + "b" * 59, "<secret>"),
        ("xoxb-1234567890-abcdef", "<secret>"),
        ("AIza" + "x" * 35, "<secret>"),
        ("Authorization: Bearer abc.def-123_456", "Authorization: <secret>"),
        ("BEARER\tabcdefgh1", "<secret>"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "<secret>"),
        (f"a\n{PEM}\nb", "a\n<secret>\nb"),
        (PEM[:60], "<secret>"),
        ("a " + PEM[:60] + "…<truncated 9>", "a <secret>…<truncated 9>"),
        (PEM.replace("\n", "\\n"), "<secret>"),
        (PEM + " and " + PEM, "<secret> and <secret>"),
        ("-----BEGIN PUBLIC KEY-----\nabc", "-----BEGIN PUBLIC KEY-----\nabc"),
        ("to ann.lee+x@mail.example.com.", "to <secret>."),
        ("a@b and @someone at 5@3", "a@b and @someone at 5@3"),
        ("task-management, risk-averse, disk-utilisation", "task-management, risk-averse, disk-utilisation"),
    ],
)
def test_default_patterns(text: str, kept: str) -> None:
    redact = redact_patterns()
    assert redact(text, CONTEXT) == kept
    assert redact({"a": [text, 1, None]}, CONTEXT) == {"a": [kept, 1, None]}


def test_keys_that_match_are_redacted_without_losing_an_entry() -> None:
    assert redact_patterns()({"a@b.com": 1, "c@d.com": 2}, CONTEXT) == {"<secret>": 1, "<secret> 2": 2}


def test_patterns_are_added_or_take_the_place_of_a_default() -> None:
    redact = redact_patterns(ticket=r"T-\d+", email=re.compile("nobody"))
    assert redact("T-17 a@b.com nobody", CONTEXT) == "<secret> a@b.com <secret>"


@pytest.mark.parametrize("pattern", ["(", "a*", "", b"bytes", None, 3])
def test_a_pattern_that_cannot_be_used_is_named(pattern: Any) -> None:
    with pytest.raises(ValueError, match="ticket"):
        redact_patterns(ticket=pattern)


def test_redactors_are_values() -> None:
    assert redact_keys("a", "b") == redact_keys("B", "A")
    assert redact_patterns(x="y") == redact_patterns(x="y")
    assert len({redact_keys("a"), redact_keys("a"), redact_patterns(), redact_patterns()}) == 2


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a.",
        "a@",
        "a@a.",
        "sk-",
        "eyJ",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "xox",
        "AIza",
        "gh_",
    ],
)
def test_the_default_patterns_are_linear(piece: str) -> None:
    """Quadratic search would take minutes for this much text."""
    redact_patterns()(piece * (400_000 // len(piece)) + "@", CONTEXT)


def test_no_group_of_a_pattern_is_possessive_or_atomic() -> None:
    """Before Python 3.11.5 such a group ends where its failed last turn had got to (CPython issue 106052).

    An application sees, on Debian's Python 3.11.2 for one, the rest of a key behind `<secret>`.
    """
    source = Path(actionspan.__file__).parent
    modules = {path.name: path.read_text("utf-8") for path in source.rglob("*.py")}
    assert len(modules) > 50
    assert [name for name, text in modules.items() if re.search(r"\)\s*(?:[*+?]|\{[\d,]+\})\+|\(\?>", text)] == []

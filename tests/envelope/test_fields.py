"""The table of fields: what the validator says, and the instructions made of the same table."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from inline_snapshot import snapshot

from actionspan import envelope as package
from actionspan.envelope import ENVELOPE_CONTRACT, is_error_envelope, project_metadata, validate_envelope

ERROR = {"code": "not_found", "message": "There is no such parcel."}


@pytest.mark.parametrize(
    "value",
    [
        {"status": "ok"},
        {"status": "partial", "content": None},
        {"status": "no_success", "content": [1, {"a": object}], "iteration": []},
        {"status": "ok", "error": None},
        {"status": "error", "error": ERROR},
        {"status": "error", "error": {**ERROR, "details": {}, "hint": 1}, "content": "x", "iteration": [1]},
    ],
)
def test_an_envelope_is_valid(value: dict[str, Any]):
    assert validate_envelope(value) is None


def test_the_first_failure_counts_and_is_named():
    said = [
        str(validate_envelope(value)).removeprefix("ENVELOPE_ERROR: ")
        for value in (
            None,
            [],
            {"x": 1, "y": 2},
            {},
            {"status": None},
            {"status": "OK"},
            {"status": "ok", "error": ERROR},
            {"status": "error"},
            {"status": "error", "error": None},
            {"status": "error", "error": "no"},
            {"status": "error", "error": {"message": "m"}},
            {"status": "error", "error": {"code": "", "message": "m"}},
            {"status": "error", "error": {"code": "c", "message": 1}},
            {"status": "error", "error": {**ERROR, "details": None}, "iteration": None},
            {"status": "ok", "iteration": None},
            {"status": "ok", "iteration": {}},
        )
    ]
    assert said == snapshot(
        [
            "the envelope must be an object",
            "the envelope must be an object",
            "unknown fields 'x', 'y'; permitted are status, error, content, iteration",
            "status is missing: it is required",
            'status must be one of "ok", "partial", "no_success", "error"',
            'status must be one of "ok", "partial", "no_success", "error"',
            'error goes with status "error" only',
            'error is missing: it is required with status "error", otherwise left out or null',
            "error must be an object",
            "error must be an object",
            "error.code is missing: it is required",
            "error.code must be a non-empty string",
            "error.message must be a non-empty string",
            "error.details must be an object, never null",
            "iteration must be a list, never null",
            "iteration must be a list, never null",
        ]
    )


def test_failures_count_in_the_order_unknown_status_error_iteration():
    wrong: dict[str, Any] = {"iteration": None, "error": {}, "status": "done", "x": 1}
    order = [validate_envelope(wrong)]
    del wrong["x"]
    for name, repaired in (("status", "error"), ("error", ERROR), ("iteration", [])):
        order.append(validate_envelope(wrong))
        wrong[name] = repaired
    assert [str(message).split()[1] for message in order] == ["unknown", "status", "error.code", "iteration"]
    assert validate_envelope(wrong) is None


def test_a_message_about_unknown_fields_is_bounded_whatever_the_model_invents():
    many = validate_envelope({"status": "ok", **{f"{n:0>100000}": n for n in range(50)}})
    assert many is not None
    assert len(many) < 1000
    assert "and 42 more" in many
    odd = validate_envelope({"status": "ok", "\ud800\x1b[31m\n": 1, 5: 1})
    assert odd is not None
    assert odd.isprintable()
    assert "of type int" in odd


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("status", [[], {}, Hostile(), 1, True, b"error"])
def test_a_status_of_another_type_is_compared_with_nothing(status: object):
    assert validate_envelope({"status": status}) is not None
    assert not is_error_envelope({"status": status})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"status": "error"}, True),
        ({"status": "error", "x": 1}, True),
        ({"status": "ok", "error": ERROR}, False),
        ({}, False),
        ("error", False),
        (None, False),
    ],
)
def test_an_error_envelope_is_one_by_its_status_valid_or_not(value: object, expected: bool):
    assert is_error_envelope(value) is expected


def test_the_metadata_projection_is_everything_but_content():
    item = {"status": "ok", "content": "secret", "n": 1}
    value = {"status": "ok", "content": "secret", "results": [item, 1, ["content"]], "other": {"content": "kept"}}
    before = repr(value)
    projected = project_metadata(value)
    assert projected == {
        "status": "ok",
        "results": [{"status": "ok", "n": 1}, 1, ["content"]],
        "other": {"content": "kept"},
    }
    assert project_metadata(projected) == projected
    assert repr(value) == before
    for other in (None, 1, "content", [{"content": 1}]):
        assert project_metadata(other) is other


def test_the_contract_says_what_the_table_says():
    said = "\n".join(textwrap.fill(line, 110, subsequent_indent="    ") for line in ENVELOPE_CONTRACT.splitlines())
    assert said == snapshot("""\
Your answer is read by a program. Write exactly one JSON object and nothing else: no text before or after it,
    no code fence around it, no reasoning outside of it. Call tools the usual way: a tool call never goes into
    the object.

The object has these fields:
- "status" (required): one of "ok", "partial", "no_success", "error". "ok": everything that was asked for is
    done; "partial": some of it is; "no_success": none of it, and nothing failed: there was nothing to be
    found or done; "error": it failed.
- "error" (required with status "error", otherwise left out or null): an object. The failure.
  - "code" (required): a non-empty string. A short word for the kind of failure, the same each time it
    happens.
  - "message" (required): a non-empty string. What went wrong, for a person to read.
  - "details" (optional): an object, never null. Facts that help to find the cause.
- "content" (optional): any JSON value. The answer itself.
- "iteration" (optional): a list, never null. Items that are to be worked on one by one; empty when there are
    none.
It has no other field.\
""")


def test_everything_but_the_capability_works_without_pydantic_ai():
    script = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from actionspan.envelope import *\n"
        "print(parse_envelope('[1]').envelope)"
    ).replace("import *", "import parse_envelope, project_metadata, validate_envelope, ENVELOPE_CONTRACT")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "{'status': 'ok', 'iteration': [1]}\n", done.stderr


def test_every_public_name_is_there_and_an_unknown_one_is_not():
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no_such"):
        _ = package.no_such

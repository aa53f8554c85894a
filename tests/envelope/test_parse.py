"""From a text to an envelope: the whole decision table, and every kind of text that has ever broken such a parser."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from actionspan.envelope import EnvelopeResult, parse_envelope


def ok(recovered: str, **fields: object) -> EnvelopeResult:
    return EnvelopeResult({"status": "ok", **fields}, None, recovered)  # type: ignore[arg-type]


def as_content(text: str, recovered: str = "raw") -> EnvelopeResult:
    return ok(recovered, content=text)


FENCED_OBJECT = '```json\n{"a":1}\n```'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('{"status":"ok"}', ok("strict")),
        ('{"status":"ok","error":null}', ok("strict", error=None)),
        ('{"a":1}', as_content('{"a":1}', "strict")),
        (' {"a":1}\n', as_content(' {"a":1}\n', "strict")),
        (FENCED_OBJECT, as_content(FENCED_OBJECT, "fence")),
        ("[1]", ok("strict", iteration=[1])),
        ("[]", ok("strict", iteration=[])),
        ("```\n[1]\n```", ok("fence", iteration=[1])),
        ('"[1]"', ok("string", iteration=[1])),
        (json.dumps('{"status": "ok", "content": 1}'), ok("string", content=1)),
        (json.dumps('{"a": 1}'), as_content(json.dumps('{"a": 1}'), "string")),
        ('"hello"', as_content('"hello"')),
        ("42", as_content("42")),
        ("null", as_content("null")),
        ("true", as_content("true")),
        ("Here it is.", as_content("Here it is.")),
        ('{"status":"ok"', as_content('{"status":"ok"')),
        (json.dumps(FENCED_OBJECT), as_content(json.dumps(FENCED_OBJECT))),
        ('```\n"[1]"\n```', as_content('```\n"[1]"\n```')),
        (json.dumps(json.dumps("[1]")), as_content(json.dumps(json.dumps("[1]")))),
        ("```\n```\n[1]\n```\n```", as_content("```\n```\n[1]\n```\n```")),
        (None, EnvelopeResult(None, "empty")),
        ("", EnvelopeResult(None, "empty")),
        (" \n\t", EnvelopeResult(None, "empty")),
        ("\ufeff", EnvelopeResult(None, "empty")),
    ],
)
def test_a_text_becomes_an_envelope_by_the_first_step_that_knows_it(raw: str | None, expected: EnvelopeResult):
    assert parse_envelope(raw) == expected


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ('{"status":"ok","iteration":null}', "iteration"),
        ('{"status":"ok","error":{}}', "error"),
        ('{"status":"error"}', "error"),
        ('{"status":"ok","x":1}', "'x'"),
        ('{"status":"done"}', "status"),
        ('{"status":"ok","status":"error"}', "status"),
        ('{"status":"ok","content":{},"status":"ok"}', "status"),
    ],
)
@pytest.mark.parametrize(
    ("wrap", "recovered"), [("{}", "strict"), ("```json\n{}\n```", "fence"), ("string", "string")], ids=str
)
def test_an_object_with_a_status_is_validated_and_never_recovered(raw: str, named: str, wrap: str, recovered: str):
    text = json.dumps(raw) if wrap == "string" else wrap.replace("{}", raw)
    result = parse_envelope(text)
    assert result.envelope is None
    assert result.recovered == recovered
    assert result.error is not None
    assert result.error.startswith("ENVELOPE_ERROR: ")
    assert named in result.error
    assert result.feedback == result.error


def test_what_is_told_to_a_model_that_said_nothing():
    assert parse_envelope(" ").feedback == "ENVELOPE_ERROR: the answer is empty"
    assert parse_envelope("[1]").feedback is None


def test_another_field_that_is_there_twice_is_the_last_one():
    assert parse_envelope('{"content":1,"status":"ok","content":2}') == ok("strict", content=2)


def test_a_status_may_be_there_twice_deeper_inside_where_nothing_is_interpreted():
    inside = '{"status":"ok","content":{"status":1,"status":2}}'
    assert parse_envelope(inside).envelope == {"status": "ok", "content": {"status": 2}}


@pytest.mark.parametrize(
    "fenced",
    [
        "```\n{}\n```",
        "```json\n{}\n```",
        "``` json\n{}\n```",
        "```json \n{}\n```",
        "  ```json\n{}\n```  \n\n",
        "\ufeff```json\n{}\n```",
        "```json\r\n{}\r\n```\r\n",
        "```json\n\n{}\n\n  ```",
    ],
)
def test_a_fence_around_the_whole_output_is_peeled(fenced: str):
    raw = fenced.replace("{}", '{"status":"partial"}')
    assert parse_envelope(raw) == EnvelopeResult({"status": "partial"}, None, "fence")


@pytest.mark.parametrize(
    "raw",
    [
        '~~~\n{"status":"partial"}\n~~~',
        '```json title\n{"status":"partial"}\n```',
        '```json`\n{"status":"partial"}\n```',
        '````\n{"status":"partial"}\n````',
        '```\r{"status":"partial"}\r```',
        '``` {"status":"partial"}```',
        '```json\n{"status":"partial"}',
        '{"status":"partial"}\n```',
        'Here:\n```json\n{"status":"partial"}\n```',
        '```json\n{"status":"partial"}\n```\nThat is all.',
        '```json\n{"status":"partial"}\n```\n```json\n{"status":"partial"}\n```',
        '{"status":"partial"} {"status":"partial"}',
        'Sure: {"status":"partial"}',
        "{'status':'partial'}",
    ],
)
def test_anything_around_or_beside_the_object_makes_it_content(raw: str):
    assert parse_envelope(raw) == as_content(raw)


def test_a_line_separator_inside_a_string_splits_no_line():
    document = '{"status":"ok","content":"one\u2028two\u0085three"}'
    for raw, recovered in ((document, "strict"), (f"```json\n{document}\n```", "fence")):
        assert parse_envelope(raw) == ok(recovered, content="one\u2028two\u0085three")


@pytest.mark.parametrize(
    "raw",
    [
        "NaN",
        "[NaN]",
        '{"status":"ok","content":Infinity}',
        '{"status":"ok","content":-Infinity}',
        '{"status":"ok","content":1e999}',
        '{"status":"ok","content":' + "7" * 5000 + "}",
        "[" * 60_000,
        "[" * 60_000 + "]" * 60_000,
        '{"a":' * 60_000 + "1" + "}" * 60_000,
        '{"status":"ok","content":' + '[{"a":' * 30_000 + "1" + "}]" * 30_000 + "}",
        "```\n" + "[" * 60_000 + "]" * 60_000 + "\n```",
        json.dumps("[" * 60_000 + "]" * 60_000),
    ],
    ids=lambda raw: f"{raw[:24]!r} of {len(raw)}",
)
def test_what_is_no_json_or_too_much_for_a_parser_is_content(raw: str):
    assert parse_envelope(raw) == as_content(raw)


def test_the_deepest_nesting_does_not_depend_on_who_calls():
    deepest, deeper = ("[" * depth + "]" * depth for depth in (200, 201))

    def parsed_below(frames: int) -> list[str | None]:
        if frames:
            return parsed_below(frames - 1)
        return [parse_envelope(text).recovered for text in (deepest, deeper)]

    assert parsed_below(0) == ["strict", "raw"]
    assert parsed_below(sys.getrecursionlimit() // 4) == ["strict", "raw"]


def test_the_process_may_allow_longer_integers_and_the_envelope_does_not():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        raw = "[" + "7" * 5000 + "]"
        assert parse_envelope(raw) == as_content(raw)
    finally:
        sys.set_int_max_str_digits(before)


def test_what_is_no_text_is_a_mistake_of_the_caller():
    with pytest.raises(TypeError, match="text or None, not dict"):
        parse_envelope({"status": "ok"})  # type: ignore[arg-type]


MB = 1_000_000

HUGE: dict[str, Callable[[], str]] = {
    "prose": lambda: "word " * (10 * MB),
    "blanks": lambda: " " * (50 * MB),
    "backticks": lambda: "`" * (50 * MB),
    "fences": lambda: "```\n" * (12 * MB),
    "one digit after the other": lambda: "7" * (50 * MB),
    "a digit, in an array": lambda: "[" + "7" * (50 * MB) + "]",
    "brackets": lambda: "[" * (50 * MB),
    "escapes": lambda: '"' + '\\"' * (25 * MB) + '"',
    "quotes": lambda: '"' * (50 * MB),
    "an envelope": lambda: '{"status":"ok","content":"' + "x" * (50 * MB) + '"}',
    "an envelope in a fence": lambda: '```json\n{"status":"ok","content":"' + "\\n" * (25 * MB) + '"}\n```',
    "an envelope in a string": lambda: json.dumps('{"status":"ok","content":"' + "x" * (50 * MB) + '"}'),
    "an unknown field": lambda: '{"status":"ok","' + "x" * (50 * MB) + '":1}',
    "many unknown fields": lambda: '{"status":"ok",' + ",".join(f'"{n}":1' for n in range(MB)) + "}",
    "byte order marks": lambda: "\ufeff" * (25 * MB),
}


@pytest.mark.parametrize("shape", HUGE)
def test_fifty_megabytes_are_read_in_linear_time(shape: str):
    """That it returns at all shows it: the square of the length would be years."""
    result = parse_envelope(HUGE[shape]())
    assert (result.envelope is None) == (result.error is not None)
    assert len(result.error or "") < 1000


def test_many_small_containers_are_read_in_linear_time_too():
    raw = "[" + ",".join(["[{}]"] * MB) + "]"
    result = parse_envelope(raw)
    assert result.envelope is not None
    assert len(result.envelope["iteration"]) == MB

"""Redaction happens before the cut, on a detached copy, and its failures never show the original."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from actionspan import guard
from actionspan.content import ActionContent
from actionspan.policy import ActionPolicy, NormalizationLimits, Redactor, chain_redactors
from actionspan.redact import RedactionContext, redact_keys, redact_patterns

CANARY = "canary-7f3a"
KEY = "sk-ant-api03-" + "K3y" * 30


def content(redactor: Redactor | None, **limits: int) -> ActionContent:
    policy = ActionPolicy.everything(redactor=redactor, limits=NormalizationLimits(**limits))
    return ActionContent(policy, namespace="tool", operation="call", name="search")


def every_kind(redactor: Redactor) -> list[str]:
    """The canary through every way content can take."""
    part = {"type": "text", "content": CANARY}
    made = content(redactor)
    return [
        made.value("f", {"a": [CANARY]}),
        made.text("f", CANARY),
        made.messages("f", [{"role": "user", "parts": [part]}]),
        made.parts("f", [part]),
        made.definitions("f", [{"type": "function", "name": "n", "description": CANARY}]),
    ]


def test_a_redactor_is_told_what_it_is_handed() -> None:
    seen: list[Any] = []

    def redactor(value: Any, context: RedactionContext) -> Any:
        seen.append((value, context))
        return value

    content(redactor).value("gen_ai.tool.call.arguments", {"a": 1})
    assert seen == [({"a": 1}, RedactionContext("tool", "call", "search", "gen_ai.tool.call.arguments"))]


class Callable1:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, value: Any) -> Any:
        return "seen"


class Callable2:
    def __call__(self, value: Any, context: RedactionContext) -> Any:
        return "seen"


@pytest.mark.parametrize(
    "redactor",
    [
        lambda value: "seen",
        lambda value, context: "seen",
        lambda *anything: "seen",
        lambda value, *, loud=False: "seen",
        Callable1(),
        Callable2(),
        Callable2().__call__,
    ],
)
def test_one_argument_is_enough(redactor: Redactor) -> None:
    assert content(redactor).value("f", 1) == '"seen"'


def test_a_redactor_cannot_reach_the_applications_objects() -> None:
    def vandal(value: Any) -> Any:
        value["items"].clear()
        value["more"] = "x"
        return value

    original = {"items": [1, 2]}
    assert content(vandal).value("f", original) == '{"items":[],"more":"x"}'
    assert original == {"items": [1, 2]}


async def coroutine(value: Any) -> Any:
    return value


class Awaitable:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        yield self.value


def raises(value: Any) -> Any:
    raise RuntimeError(value)


def recurses(value: Any) -> Any:
    return recurses(value)


def wrong_arity(one: Any, two: Any, three: Any) -> Any:
    return one


@pytest.mark.contained
@pytest.mark.parametrize(
    "fault", [raises, recurses, wrong_arity, coroutine, Awaitable, lambda value: None, lambda value: asyncio.sleep(0)]
)
@pytest.mark.parametrize("around", [(), (lambda value: value,)])
def test_a_redactor_that_fails_never_shows_the_original(fault: Redactor, around: tuple[Redactor, ...]) -> None:
    redactor = chain_redactors(*around, fault, *around)
    assert redactor is not None
    shown = every_kind(redactor)
    assert shown == ['"<redaction-failed>"', "<redaction-failed>", *['"<redaction-failed>"'] * 3]


@pytest.mark.contained
def test_failures_of_redactors_are_counted() -> None:
    before = guard.failures["redactor"]
    content(raises).value("f", 1)
    assert guard.failures["redactor"] == before + 1
    with guard.strict(), pytest.raises(RuntimeError):
        content(raises).value("f", 1)


def nested() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> Any:
    value: Any = 0
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("make", [nested, deep, lambda: "x" * 10_000_000, object, lambda: {1, 2}, lambda: b"x"])
def test_whatever_a_redactor_returns_is_bounded(make: Callable[[], Any]) -> None:
    for redactor in (lambda value: make(), chain_redactors(lambda value: make(), redact_patterns())):
        for shown in every_kind(redactor):
            assert len(shown.encode()) <= 65536
            assert CANARY not in shown


def test_none_stays_none() -> None:
    assert content(lambda value: value).value("f", None) == "null"


def test_a_redactor_does_not_halve_what_fits() -> None:
    value = [{"id": n, "text": "é" * 40} for n in range(2000)]
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"{n}" + "x" * 700}]} for n in range(200)]
    for limits in ({"max_values": 500}, {"max_total_bytes": 10_000}, {"max_string_characters": 30}):
        assert content(lambda value: value, **limits).value("f", value) == content(None, **limits).value("f", value)
        assert content(lambda value: value, **limits).messages("f", messages) == content(None, **limits).messages(
            "f", messages
        )


@pytest.mark.parametrize("lead", [0, 3990, 4050, 4090, 4095, 4096, 4200, 12_200, 12_288])
def test_a_secret_at_a_cut_is_gone(lead: int) -> None:
    for made in (content(redact_patterns()), content(chain_redactors(lambda value: value, redact_patterns()))):
        text = "." * lead + KEY + "." * 9000
        for shown in (made.value("f", [text]), made.text("f", text), made.value("f", {text: 1})):
            assert "sk-ant" not in shown


def test_a_secret_at_the_first_cut_is_gone_although_the_text_before_it_shrank() -> None:
    mail = "someone.with.a.long.name@mail.example.com "
    for cut in range(0, 42, 7):
        text = mail * 400
        window = 4096 + 8192
        text = text[: window - cut] + "api=" + KEY + text[:9000]
        shown = content(redact_patterns(api=r"api=\S{40,}")).text("f", text)
        assert "api=" not in shown
        assert shown.endswith(">")


def test_the_number_cut_is_of_the_original() -> None:
    assert content(lambda value: value).text("f", "x" * 20_000).endswith("x…<truncated 15904>")
    assert content(redact_keys("a")).value("f", "x" * 20_000).endswith('x…<truncated 15904>"')
    chained = chain_redactors(lambda value: value, lambda value: value)
    assert content(chained).text("f", "x" * 20_000).endswith("x…<truncated 15904>")


def test_text_that_only_looks_cut_is_left_alone() -> None:
    assert content(redact_keys("a")).text("f", "hello…<truncated 5>") == "hello…<truncated 5>"


@pytest.mark.parametrize("padding", [0, 5_000, 20_000, 60_000])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_key_inside_json_text_is_found_however_often_wrapped(padding: int, rounds: int) -> None:
    value: Any = {"password": CANARY, "padding": "x" * padding, "kept": 1}
    for _ in range(rounds):
        value = json.dumps({"arguments": value, "password": CANARY})
    shown = content(redact_keys("password")).value("f", {"call": value})
    assert CANARY not in shown
    assert "<secret>" in shown or "<redaction-failed>" in shown
    if padding < 20_000:
        assert '"kept":1' in shown


def test_json_text_that_was_quoted_once_more_is_found() -> None:
    quoted = json.dumps(json.dumps({"password": CANARY}))
    assert content(redact_keys("password")).value("f", [quoted]) == '[{"password":"<secret>"}]'


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "' + CANARY,
        "{'password': '" + CANARY + "'}",
        '  \n[{"password": "' + CANARY + '"},]',
        '\ufeff{"password": "' + CANARY + '"',
        '{"password": "' + CANARY + '"}\n{"password": "' + CANARY + '"}',
        '{"password": "' + CANARY + '", "padding": "' + "x" * 400_000 + '"}',
    ],
)
def test_json_looking_text_that_does_not_parse_fails_while_keys_are_redacted(text: str) -> None:
    made = content(chain_redactors(lambda value: value, redact_keys("password")))
    assert made.value("f", {"call": text}) == '{"call":"<redaction-failed>"}'
    assert made.text("f", text) == "<redaction-failed>"


def test_text_nested_too_deep_to_parse_or_to_keep_is_not_there_while_keys_are_redacted() -> None:
    """Python 3.13 parses deeper than those before it; what is as deep is beyond what is kept."""
    made = content(chain_redactors(lambda value: value, redact_keys("password")))
    text = "[" * 5_000 + '{"password": "' + CANARY + '"}' + "]" * 5_000
    assert made.value("f", {"call": text}) in (
        '{"call":"<redaction-failed>"}',
        '{"call":[[[[[[["<max-depth>"]]]]]]]}',
    )


@pytest.mark.parametrize("text", ["[Errno 2] No such file or directory", "[1] see the notes", "[INFO] ready"])
def test_bracketed_text_that_cannot_hold_a_key_stays(text: str) -> None:
    assert content(redact_keys("password")).text("f", text) == text


def test_json_text_stays_text_without_a_redactor_and_fails_not_without_keys() -> None:
    assert content(None).value("f", '{"a": 1}') == r'"{\"a\": 1}"'
    assert content(redact_patterns()).value("f", '{"a": 1') == r'"{\"a\": 1"'
    assert content(redact_patterns()).value("f", '{"a": "x@y.com"}') == '{"a":"<secret>"}'


def test_keys_deep_in_message_parts_are_found() -> None:
    call = {
        "type": "tool_call",
        "id": "1",
        "name": "login",
        "arguments": json.dumps({"password": CANARY, "user": "ann"}),
    }
    result = {"type": "tool_call_response", "id": "1", "response": {"session": [{"Password": CANARY}]}}
    messages = [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    assert json.loads(content(redact_keys("password")).messages("f", messages)) == [
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "tool_call",
                    "id": "1",
                    "name": "login",
                    "arguments": {"password": "<secret>", "user": "ann"},
                }
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "1", "response": {"session": [{"Password": "<secret>"}]}}],
        },
    ]


def test_what_is_text_by_its_schema_stays_text() -> None:
    text = json.dumps({"password": CANARY, "padding": "x" * 20_000})
    parts = [{"type": kind, "id": "[1]", "content": text} for kind in ("text", "reasoning")]
    made = content(redact_keys("password"))
    messages = [{"role": "user", "parts": [*parts, {"type": "text", "content": "plain"}]}]
    for shown in (json.loads(made.messages("f", messages))[0]["parts"][:2], json.loads(made.parts("f", parts))):
        for part in shown:
            assert part["id"] == "[1]"
            assert part["content"].startswith('{"password":"<secret>","padding":"xxx')
    tool = {"type": "function", "name": "n", "description": '{"password": 1}', "parameters": {"type": "object"}}
    assert json.loads(made.definitions("f", [tool])) == [tool | {"description": '{"password":"<secret>"}'}]


def test_a_secret_in_a_long_key_is_gone() -> None:
    key = "mail@example.com " * 700 + KEY + "x" * 9000
    assert "sk-ant" not in content(redact_patterns()).value("f", {key: 1})


@pytest.mark.parametrize(
    "blank", [" ", "\n", "\u00a0", "\u2003", "\u2028", "\u3000", "\x1c", "\ufeff", "\u1680", "\x85"]
)
def test_blanks_before_json_text_hide_nothing(blank: str) -> None:
    text = blank + json.dumps({"password": CANARY})
    assert content(redact_keys("password")).value("f", [text]) == '[{"password":"<secret>"}]'


def test_a_chain_runs_in_order_each_on_its_own_copy() -> None:
    kept: list[Any] = []

    def first(value: Any) -> Any:
        kept.append(value)
        return value | {"by": ["first"]}

    def second(value: Any) -> Any:
        value["by"].append("second")
        return value

    chain = chain_redactors(first, second, lambda value: value)
    assert content(chain).value("f", {"a": 1}) == '{"a":1,"by":["first","second"]}'
    assert kept == [{"a": 1}]

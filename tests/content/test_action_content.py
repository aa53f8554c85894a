"""One action's content: what is claimed first, what is left out, and that every limit holds for all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from actionspan import guard
from actionspan.content import ActionContent
from actionspan.policy import ActionPolicy, NormalizationLimits


def content(*, redactor: Any = None, **options: Any) -> ActionContent:
    names = ("attribute_limit", "response_expected", "truncated", "name")
    arguments = {name: options.pop(name) for name in names if name in options}
    policy = ActionPolicy.everything(redactor=redactor, limits=NormalizationLimits(**options))
    return ActionContent(policy, namespace="model", operation="chat", **arguments)


def message(number: int, size: int = 0, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": f"{number}:" + "x" * size}]}


def said(text: str) -> list[int]:
    """The numbers of the messages in this JSON text."""
    parts = [part for message in json.loads(text) for part in message["parts"]]
    return [int(part["content"].split(":")[0]) for part in parts if part["type"] == "text"]


def test_messages_that_fit_are_whole_and_in_order() -> None:
    messages = [message(1), message(2, role="assistant"), {"role": "tool", "name": "t", "parts": []}]
    assert json.loads(content().messages("f", messages)) == messages


def test_the_newest_messages_are_kept_and_the_missing_counted() -> None:
    text = content(max_total_bytes=2000).messages("f", [message(n, 100) for n in range(50)])
    kept = json.loads(text)
    assert said(text) == list(range(50 - len(kept), 50))
    assert kept[0]["parts"][0] == {"type": "omitted", "messages": 50 - len(kept)}
    assert 1500 < len(text.encode()) <= 2000


def test_messages_left_out_by_the_caller_are_counted_too() -> None:
    assert json.loads(content().messages("f", [message(7)], older=6)) == [
        {"role": "user", "parts": [{"type": "omitted", "messages": 6}, {"type": "text", "content": "7:"}]}
    ]
    text = content(max_total_bytes=2000).messages("f", [message(n, 100) for n in range(50)], older=5)
    assert json.loads(text)[0]["parts"][0]["messages"] == 55 - len(json.loads(text))


def test_an_older_message_is_kept_in_part_from_its_last_parts() -> None:
    old = {"role": "user", "parts": [{"type": "text", "content": f"{n}:" + "x" * 300} for n in range(10)]}
    text = content(max_total_bytes=1500).messages("f", [message(99), old, message(100)])
    assert said(text) == [7, 8, 9, 100]
    assert json.loads(text)[0]["parts"][0] == {"type": "omitted", "messages": 1, "parts": 7}


def test_a_newest_message_that_does_not_fit_is_cut_rather_than_lost() -> None:
    text = content(max_total_bytes=500).messages("f", [message(1), message(2, 4000)])
    assert said(text) == [2]
    assert json.loads(text)[0]["parts"][0] == {"type": "omitted", "messages": 1}
    assert json.loads(text)[0]["parts"][1]["content"].endswith(">")


def test_arbitrary_payloads_keep_all_levels_of_nesting() -> None:
    payload: Any = "leaf"
    for _ in range(8):
        payload = [payload]
    part = {"type": "tool_call_response", "id": "1", "response": payload}
    assert json.loads(content().messages("f", [{"role": "tool", "parts": [part]}]))[0]["parts"] == [part]
    deeper = part | {"response": [payload]}
    assert "<max-depth>" in content().messages("f", [{"role": "tool", "parts": [deeper]}])
    assert "<max-depth>" in content().parts("f", [part | {"response": [[payload], object()]}])


class History(Sequence[Any]):
    """A long history that tells which messages were asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: Any) -> Any:
        self.asked.append(position)
        return message(position, 1000)


@pytest.mark.parametrize("redactor", [None, lambda value: value])
def test_no_more_messages_are_looked_at_than_the_budget_holds(redactor: Any) -> None:
    history = History(100_000)
    text = content(redactor=redactor).messages("f", history)
    assert 60 <= len(json.loads(text)) < 66
    assert len(history.asked) <= len(json.loads(text)) * 5 // 4 + 2


def test_half_is_kept_for_the_response() -> None:
    made = content(max_total_bytes=4000, response_expected=True)
    before = made.messages("in", [message(n, 100) for n in range(100)])
    after = made.messages("out", [message(1, 1500, "assistant")], response=True)
    assert len(before) <= 2000
    assert said(after) == [1]
    assert "truncated" not in after
    assert len(before) + len(after) <= 4000


def test_what_the_response_did_not_use_is_free_again() -> None:
    made = content(max_total_bytes=4000, response_expected=True)
    made.value("out", "small", response=True)
    assert len(made.value("in", ["x" * 3000])) > 3000


def test_definitions_are_whole_or_not_there() -> None:
    tools = [{"type": "function", "name": f"t{n}", "description": "d" * size} for n, size in enumerate((10, 900, 20))]
    kept = json.loads(content(max_total_bytes=600).definitions("f", tools))
    assert [tool["name"] for tool in kept] == ["t0", "t2"]


def test_instructions_keep_their_beginning() -> None:
    parts = [{"type": "text", "content": f"{n}:" + "x" * 200} for n in range(10)]
    kept = json.loads(content(max_total_bytes=700).parts("f", parts))
    assert [part["type"] for part in kept] == ["text", "text", "omitted"]
    assert kept[-1] == {"type": "omitted", "parts": 8}


def test_plain_text_is_not_quoted() -> None:
    assert content().text("f", 'a "b"\n') == 'a "b"\n'
    assert content().text("f", "a\ud800b") == "a\ufffdb"
    assert content().text("f", "x" * 5000) == "x" * 4096 + "…<truncated 904>"


class Strange(str):
    def __str__(self) -> str:
        raise AssertionError("application code ran")


def test_plain_text_may_be_a_subclass() -> None:
    assert content().text("f", Strange("x")) == "x"


@pytest.mark.parametrize("limit", [500, 120, 40, 15, 13, 5, 2])
@pytest.mark.parametrize("kind", ["attribute_limit", "max_attribute_bytes", "max_total_bytes"])
@pytest.mark.parametrize("redactor", [None, lambda value: value])
def test_no_attribute_is_longer_than_it_may_be_and_each_is_json(limit: int, kind: str, redactor: Any) -> None:
    def made() -> ActionContent:
        return content(redactor=redactor, **{kind: limit})

    part = {"type": "text", "content": "é\0" * 3000}
    texts = [
        made().value("f", {"key": ["x" * 600, {"a": "\n" * 600}]}),
        made().value("f", "😀" * 600),
        made().messages("f", [{"role": "user", "parts": [part] * 3}] * 5),
        made().parts("f", [part] * 5),
        made().definitions("f", [{"type": "function", "name": "n"}] * 50),
    ]
    for text in texts:
        json.loads(text)
        assert len(text.encode()) <= limit
    assert len(made().text("f", "é\0" * 3000).encode()) <= limit


def test_the_smaller_cap_holds() -> None:
    assert len(content(attribute_limit=100, max_attribute_bytes=50).value("f", "x" * 900)) <= 50
    assert len(content(attribute_limit=50, max_attribute_bytes=100).value("f", "x" * 900)) <= 50


def test_fields_after_the_budget_is_used_up_are_markers() -> None:
    made = content(max_total_bytes=1000)
    texts = [made.value(f"f{n}", "x" * 4000) for n in range(6)]
    assert texts[1:4] == ['"<truncated>"'] * 3
    assert sum(len(text.encode()) for text in texts) <= 1000


def test_what_was_cut_is_told_once_a_field() -> None:
    told: list[str] = []
    made = content(truncated=told.append, max_string_characters=10)
    made.value("whole", "x")
    made.value("long", ["x" * 11, "x" * 11])
    made.text("text", "x" * 11)
    made.messages("messages", [message(1, 20)])
    made.value("deep", [[[[[[[[[1]]]]]]]]])
    assert told == ["long", "text", "messages", "deep"]


def test_messages_that_were_left_out_are_told() -> None:
    told: list[str] = []
    content(truncated=told.append, max_total_bytes=600).messages("f", [message(n, 100) for n in range(9)])
    assert told == ["f"]


@pytest.mark.contained
def test_a_meter_that_fails_costs_no_content() -> None:
    def fails(field: str) -> None:
        raise RuntimeError(field)

    assert content(truncated=fails).text("f", "x" * 5000).startswith("xxx")


@pytest.mark.contained
def test_a_failure_of_ours_is_a_marker() -> None:
    def fault(stage: str) -> None:
        if stage == "content":
            raise RuntimeError

    with guard.inject(fault):
        made = content()
        assert [made.value("f", 1), made.text("f", "a"), made.messages("f", [message(1)])] == [
            '"<unsupported>"',
            "<unsupported>",
            '"<unsupported>"',
        ]
        assert content(attribute_limit=6).value("f", 1) == '""'

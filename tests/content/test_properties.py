"""Whatever the value, the limits and the redactor: valid JSON, bounded, and nothing that had to go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actionspan.content import ActionContent, Budget, snapshot, to_json
from actionspan.content._snapshot import Walker
from actionspan.policy import ActionPolicy, NormalizationLimits, chain_redactors
from actionspan.redact import redact_keys, redact_patterns

few = settings(
    max_examples=80,
    deadline=None,
    database=None,
    # The fixtures that isolate every test hold no state between examples.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

any_text = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from('\ud83d\ude00é\u0301👩‍👩‍👧\0\n"\\x{[data:'), max_size=200
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**400, max_value=10**500),
    st.floats(),
    any_text,
    st.binary(max_size=5),
    st.decimals(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.builds(object),
    st.builds(lambda text: '{"password": "' + text, any_text),
    st.builds(lambda text: "data:image/png;base64," + text, st.text("QZ", min_size=1)),
)
keys = any_text | st.integers() | st.none() | st.sampled_from(["<truncated>", "password", "parts", "data", "type"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=6),
    ),
    max_leaves=40,
)
limits = st.builds(
    NormalizationLimits,
    max_depth=st.integers(1, 10),
    max_values=st.integers(1, 60),
    max_string_characters=st.integers(1, 80),
    max_total_bytes=st.integers(1, 3000),
)
redactors = st.sampled_from(
    [None, lambda value: value, redact_keys("password"), chain_redactors(redact_patterns(), redact_keys("password"))]
)
parts = st.fixed_dictionaries({"type": st.sampled_from(["text", "tool_call"]), "content": values})
messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "parts": st.lists(parts, max_size=4)}),
    max_size=8,
)

LIKELY = [
    {"role": "user", "parts": [{"type": "text", "content": "What does a parcel to Porto cost?"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "4.20"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {"a": [1, 2, None]}}]},
    {"role": "user", "parts": [{"type": "text", "content": "x" * 100}, {"type": "text", "content": "data:x/y,z"}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "response": (1, object())}]},
]
"""Messages as they are, most of them plain."""


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in strings(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []


@few
@given(values, limits)
def test_a_snapshot_respects_every_limit(value: Any, limit: NormalizationLimits) -> None:
    copy = snapshot(value, limit)
    text = to_json(copy)
    assert json.loads(text) == copy
    assert len(text.encode()) <= max(limit.max_total_bytes, len('"<truncated>"'))
    assert depth(copy) <= limit.max_depth
    assert all(len(text) <= limit.max_string_characters + 40 for text in strings(copy))
    # The marker at the end of a cut container is no value of its own.
    assert count(copy) <= limit.max_values + to_json(copy).count("<truncated>") + 1


def taken(content: ActionContent, kind: str, value: Any, history: list[Any], response: bool) -> str:
    flat = [part for message in history for part in message["parts"]]
    match kind:
        case "t":
            return content.text("f", str(value), response=response)
        case "v":
            return content.value("f", value, response=response)
        case "m":
            return content.messages("f", history, response=response)
        case "p":
            return content.parts("f", flat, response=response)
        case _:
            return content.definitions("f", flat)


@few
@given(st.lists(st.tuples(st.sampled_from("vtmpd"), values, messages, st.booleans()), max_size=5), limits, redactors)
def test_all_the_content_of_an_action_fits_its_budget(
    fields: list[tuple[str, Any, list[Any], bool]], limit: NormalizationLimits, redactor: Any
) -> None:
    policy = ActionPolicy.everything(redactor=redactor, limits=limit)
    content = ActionContent(policy, namespace="n", operation="o", response_expected=True)
    texts = [taken(content, *field) for field in fields]
    for text, field in zip(texts, fields, strict=True):
        if field[0] != "t":
            json.loads(text)
    total = sum(len(text.encode()) for text in texts)
    # When nothing at all is left, a field is still the shortest JSON there is.
    assert total <= limit.max_total_bytes + texts.count("0")


@few
@given(values, messages, st.integers(1, 700), redactors)
def test_an_attribute_is_never_longer_than_the_provider_keeps(
    value: Any, history: list[Any], limit: int, redactor: Any
) -> None:
    policy = ActionPolicy.everything(redactor=redactor)

    def content() -> ActionContent:
        return ActionContent(policy, namespace="n", operation="o", attribute_limit=limit)

    for text in (content().value("f", value), content().messages("f", history), content().parts("f", [{"a": value}])):
        assert len(text) <= limit
        json.loads(text)
    assert len(content().text("f", repr(value))) <= limit


@few
@given(values, limits)
def test_the_quick_way_gives_what_the_walk_gives(value: Any, limit: NormalizationLimits) -> None:
    quick = Walker(Budget(limit)).quick(value, 0)
    if quick is not None:
        generous = Budget(limit, values=limit.max_values, bytes=limit.max_total_bytes + 10_000)
        assert to_json(quick) == to_json(Walker(generous).walk(value, 0))


@few
@given(any_text, st.integers(1, 100))
def test_a_cut_at_any_length_is_valid_and_ends_in_its_marker(text: str, limit: int) -> None:
    kept = snapshot(text, NormalizationLimits(max_string_characters=limit))
    kept.encode()
    assert json.loads(to_json(kept)) == kept
    if len(text) > limit and "data:" not in text.lower():
        assert kept.endswith(">") or len(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) <= limit


@few
@given(st.integers(1, 200), st.integers(0, 400), st.sampled_from(["é", "😀", "e\u0301", "\0", "x", "\ud800"]))
def test_a_cut_for_lack_of_bytes_is_valid_and_fits(size: int, length: int, character: str) -> None:
    kept = snapshot(character * length, NormalizationLimits(max_total_bytes=size))
    assert len(to_json(kept).encode()) <= max(size, len('"<truncated>"'))


@few
@given(st.integers(0, 200), st.integers(1, 120), st.sampled_from(["value", "key", "json", "text", "message"]))
def test_a_secret_is_found_wherever_the_cut_falls(lead: int, limit: int, place: str) -> None:
    secret = "sk-ant-api03-" + "C4nary" * 5
    filled = "." * lead + " " + secret + " ." + "." * lead
    policy = ActionPolicy.everything(
        redactor=redact_patterns(), limits=NormalizationLimits(max_string_characters=limit)
    )
    content = ActionContent(policy, namespace="n", operation="o")
    shown = {
        "value": lambda: content.value("f", [filled]),
        "key": lambda: content.value("f", {filled: 1}),
        "json": lambda: content.value("f", json.dumps({"a": filled})),
        "text": lambda: content.text("f", filled),
        "message": lambda: content.messages("f", [{"role": "user", "parts": [{"type": "text", "content": filled}]}]),
    }[place]()
    assert "sk-a" not in shown
    assert "C4na" not in shown


@few
@given(values, st.sampled_from(["raise", "none", "coroutine"]))
@pytest.mark.contained
def test_a_redactor_that_fails_shows_nothing(value: Any, fault: str) -> None:
    async def later() -> Any:
        return value

    def redactor(copy: Any) -> Any:
        if fault == "raise":
            raise ValueError(copy)
        return later() if fault == "coroutine" else None

    policy = ActionPolicy.everything(redactor=redactor)
    shown = ActionContent(policy, namespace="n", operation="o").value("f", [value])
    assert shown == '"<redaction-failed>"'


def alike_one_by_one(history: list[Any], policy: ActionPolicy) -> bool:
    def kept() -> str:
        return ActionContent(policy, namespace="model", operation="request").messages("f", history)

    with pytest.MonkeyPatch.context() as one_by_one:
        one_by_one.setattr("actionspan.content._messages._AT_ONCE", 1)
        alone = kept()
    return kept() == alone


@few
@given(st.lists(st.sampled_from(LIKELY), max_size=60) | messages, limits, redactors)
def test_messages_that_are_tried_together_are_kept_as_they_are_one_by_one(history, limits, redactor):
    assert alike_one_by_one(history, ActionPolicy(limits=limits, redactor=redactor))


def test_messages_that_are_tried_together_take_what_they_take_one_by_one():
    history = LIKELY[:2] * 30
    tight = [NormalizationLimits(max_total_bytes=size) for size in range(1800, 2400)]
    tight += [NormalizationLimits(max_values=number) for number in range(20, 120)]
    assert [limits for limits in tight if not alike_one_by_one(history, ActionPolicy(limits=limits))] == []


def test_most_messages_are_tried_together(monkeypatch: pytest.MonkeyPatch):
    tried: list[int] = []
    quick_items = Walker.quick_items

    def counted(self: Walker, values: Any, depth: int) -> Any:
        tried.append(len(values))
        return quick_items(self, values, depth)

    monkeypatch.setattr(Walker, "quick_items", counted)
    content = ActionContent(ActionPolicy(), namespace="model", operation="request")
    assert len(json.loads(content.messages("f", [LIKELY[0]] * 100))) == 100
    assert (max(tried), sum(tried)) == (16, 99)

"""Whatever a tool returns and however long a conversation gets, what leaves is bounded, valid and about the answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import SpanLimits
from pydantic_ai import Agent, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from actionspan import ActionPolicy, NormalizationLimits
from actionspan.telemetry import names
from actionspan.testing import Capture, capture
from scripted import calls, script

BUDGET = NormalizationLimits().max_total_bytes
PLAIN_TEXT = {names.AGENT_DESCRIPTION, names.INVENTED_TOOL_NAME, names.DENIAL}
EVERYTHING = ActionPolicy.everything()


class Silent(Model):
    """A model that looks at nothing it is sent: what a tool returned is touched by nobody but us."""

    def __init__(self, *answers: ModelResponse) -> None:
        super().__init__()
        self._answers = iter(answers)

    async def request(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        return next(self._answers)

    @property
    def model_name(self) -> str:
        return "silent"

    @property
    def system(self) -> str:
        return "test"


def returning(value: object) -> Agent:
    """An agent whose tool returns `value`."""
    agent = Agent(Silent(calls(("f", {}, "c1")), ModelResponse([TextPart("done")])), name="a")
    agent.tool_plain(lambda: value, name="f")
    return agent


def content_of(seen: Capture) -> list[tuple[str, str]]:
    """Every attribute that carries JSON content."""
    return [
        (name, str(value))
        for span in seen.spans
        for name, value in (span.attributes or {}).items()
        if name in names.CONTENT_ATTRIBUTES - PLAIN_TEXT
    ]


def the_result(seen: Capture) -> Any:
    (tool,) = seen.named("execute_tool f")
    return json.loads(tool.attributes["gen_ai.tool.call.result"])


# --- what a tool may return ---


def itself() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


def nested(levels: int) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return value


def beside(value: object) -> ToolReturn[str]:
    """A result with `value` as its metadata, for what the library could not send to a model."""
    return ToolReturn("fine", metadata=value)


class Hostile:
    """Whatever is asked of it fails, and is noticed."""

    touched: list[str]

    def _touch(self, what: str) -> Any:
        type(self).touched.append(what)
        raise ValueError(what)

    def __getattribute__(self, name: str) -> Any:
        if name == "_touch":
            return object.__getattribute__(self, name)
        return object.__getattribute__(self, "_touch")(name)

    def __repr__(self) -> str:
        return self._touch("repr")

    __str__ = __repr__

    def __len__(self) -> int:
        return self._touch("len")

    def __iter__(self) -> Any:
        return self._touch("iter")

    def __eq__(self, other: object) -> bool:
        return self._touch("eq")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self._touch("bool")


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: "x" * 5_000_000, "x" * 4096 + "…<truncated 4995904>"),
        (lambda: {"k" * 100_000: 1}, {"k" * 4096 + "…<truncated 95904>": 1}),
        (lambda: list(range(1_000_000)), None),
        (lambda: beside(itself()), beside([1, "<cycle>"])),
        (lambda: beside(nested(10_000)), beside(json.loads("[" * 7 + '"<max-depth>"' + "]" * 7))),
        (lambda: {"a": b"\x00" * 1_000_000, "b": float("nan")}, {"a": "<binary>", "b": "<unsupported>"}),
        (lambda: beside(Hostile()), beside("<unsupported>")),
    ],
    ids=["5 MB", "long key", "a million", "itself", "10,000 levels", "bytes", "hostile"],
)
def test_any_result_is_shown_within_the_budget(make: Callable[[], Any], shown: Any):
    Hostile.touched = []
    with capture(mode="content", policy=EVERYTHING) as seen:
        assert returning(make()).run_sync("go").output == "done"
    assert Hostile.touched == []
    for name, text in content_of(seen):
        assert len(text.encode()) <= BUDGET, name
        json.loads(text)
    if shown is None:
        kept = the_result(seen)
        assert kept[:-1] == list(range(len(kept) - 1))
        assert kept[-1] == "<truncated>"
    elif isinstance(shown, ToolReturn):
        assert the_result(seen)["metadata"] == shown.metadata
    else:
        assert the_result(seen) == shown


def test_a_mapping_that_another_thread_is_adding_to():
    growing: dict[str, int] = {"first": 0}
    stop = threading.Event()

    def grow() -> None:
        number = 0
        while not stop.is_set() and number < 5_000_000:
            number += 1
            growing[f"key {number}"] = number

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        with capture(mode="content", policy=EVERYTHING) as seen:
            assert returning(beside(growing)).run_sync("go").output == "done"
    finally:
        stop.set()
        thread.join()
    assert set(the_result(seen)["metadata"]) <= {*growing, "<truncated>"}


# --- how long a conversation may get ---


def exported(turns: int, **arguments: Any) -> int:
    """Bytes that leave of a run with that many turns of 2 KB each, as OTLP encodes them."""
    answers = [ModelResponse([ToolCallPart("f", {"x": "y" * 1000}, f"c{turn}")]) for turn in range(turns)]
    agent = Agent(Silent(*answers, ModelResponse([TextPart("done")])), name="a")
    agent.tool_plain(lambda x: x, name="f")
    with capture(mode="content", policy=EVERYTHING, **arguments) as seen:
        agent.run_sync("go")
        return len(encode_spans(seen.spans).SerializeToString())


def test_forty_turns_stay_within_turns_times_the_budget_and_grow_linearly_as_deltas():
    ten, twenty, forty = exported(10), exported(20), exported(40)
    assert forty <= 41 * (BUDGET + 2048) + 81 * 4096
    assert twenty > 2.5 * ten
    twenty, forty = exported(20, input_messages="delta"), exported(40, input_messages="delta")
    assert 1.8 * twenty < forty < 2.2 * twenty


@pytest.mark.parametrize("size", [40, 4000])
def test_after_a_long_history_the_long_answer_is_there(size: int):
    history: list[ModelMessage] = []
    for _ in range(1000):
        history += [ModelRequest([UserPromptPart("q" * size)]), ModelResponse([TextPart("a" * size)])]
    answer = [TextPart(f"{part} " + "z" * 3000) for part in range(9)]
    agent = Agent(Silent(ModelResponse(answer)), name="a")
    with capture(mode="content", policy=EVERYTHING) as seen:
        output = agent.run_sync("the question", message_history=history).output
    (chat,), (run,) = seen.named("chat silent"), seen.named("invoke_agent a")
    (message,) = json.loads(chat.attributes["gen_ai.output.messages"])
    assert [part["content"] for part in message["parts"]] == [part.content for part in answer]
    asked = json.loads(chat.attributes["gen_ai.input.messages"])
    assert asked[-1] == {"role": "user", "parts": [{"type": "text", "content": "the question"}]}
    assert asked[0]["parts"][0]["messages"] == 2001 - len(asked)
    (final,) = json.loads(run.attributes["gen_ai.output.messages"])
    assert final["parts"][0]["content"].startswith(output[:4096])


# --- the provider's own limits ---

IDENTITY = {f"bound_{number}": f"value {number}" for number in range(12)}
ESSENTIAL = {
    "actionspan.namespace",
    "actionspan.operation",
    "actionspan.action_id",
    "actionspan.root_action_id",
    "actionspan.run_action_id",
    "actionspan.attempt",
    "actionspan.outcome",
    "gen_ai.agent.name",
    "actionspan.run_id",
}
EMOJI = "🧑🏽‍🚀é\u0301👩‍👩‍👧 "


@contextmanager
def talkative(**limits: Any) -> Generator[Capture]:
    """What an agent leaves that says a lot, in text that is easily cut in the wrong place."""
    text = EMOJI * 400
    agent = Agent(
        script(calls(("f", {"x": text, "invented": {"a": [text] * 5}}, "c1")), calls(("g", {"x": text}, "c2")), text),
        name="a",
        instructions=text,
        metadata={"note": text},
        description=text,
        retries=3,
    )

    @agent.tool_plain
    def f(x: str, invented: dict[str, list[str]]) -> dict[str, str]:
        """Do it."""
        return {x: x}

    with capture(mode="content", policy=EVERYTHING, identity=IDENTITY, span_limits=SpanLimits(**limits)) as seen:
        agent.run_sync(text)
        yield seen


@pytest.mark.parametrize("length", [1, 8, 40, 100, 141, 500, 501, 502, 503, 1000])
def test_with_a_length_limit_every_content_attribute_is_still_json(length: int):
    with talkative(max_span_attribute_length=length) as seen:
        assert len(content_of(seen)) > 10
        for name, text in content_of(seen):
            assert len(text) <= length
            json.loads(text)
            assert "\ufffd" not in text, name
            if name == names.TOOL_CALL_RESULT and length >= 40:
                assert re.search(r"(…<truncated \d+>|<truncated>)\W*\d*\W*$", text), text


@pytest.mark.parametrize("count", [16, 32, 40])
def test_with_a_count_limit_identity_survives_and_content_goes_first(count: int):
    with talkative(max_span_attributes=count) as seen:
        for span in seen.spans:
            assert len(span.attributes) <= count
            assert set(span.attributes) >= ESSENTIAL, span.name
    with talkative() as unlimited:
        whole = [set(span.attributes) for span in unlimited.spans]
    for all_of_it, span in zip(whole, seen.spans, strict=True):
        missing = all_of_it - set(span.attributes)
        if missing - names.CONTENT_ATTRIBUTES:
            assert not set(span.attributes) & names.CONTENT_ATTRIBUTES, (span.name, missing)


def test_under_both_limits():
    with talkative(max_span_attributes=32, max_span_attribute_length=500) as seen:
        for span in seen.spans:
            assert set(span.attributes) >= ESSENTIAL
            assert len(span.attributes) <= 32
        for _, text in content_of(seen):
            json.loads(text)

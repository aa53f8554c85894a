"""A secret is gone from everything that leaves, wherever it stands: in JSON text, at a cut, in pieces of a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from actionspan import ActionPolicy, NormalizationLimits, action
from actionspan.redact import RedactionContext, redact_keys, redact_patterns
from actionspan.testing import Capture, capture
from canary.signals import Leaving, leaving
from scripted import calls, script

pytestmark = pytest.mark.anyio

KEY = "sk-proj-Qw3rTy7uIoP9aSdFgHjKl2zXcVbNm4"
PASSWORD = "correct horse battery staple"


def pieces(secret: str, size: int = 7) -> set[str]:
    """Every piece of `secret` of that many characters."""
    return {secret[start : start + size] for start in range(len(secret) - size + 1)}


def left_of(secret: str, gone: Leaving) -> set[tuple[str, str]]:
    """Where a piece of `secret` is."""
    return {where for where, texts in gone.texts.items() if any(piece in "".join(texts) for piece in pieces(secret))}


# --- in JSON, and at the cut ---


async def test_a_password_within_a_long_json_argument(tmp_path: Path):
    body = json.dumps({"padding": "x" * 20_000, "login": {"user": "me", "Password": PASSWORD}})
    doubly = json.dumps({"body": body})
    agent = Agent(script(calls(("send", {"body": body}, "c1"), ("send", {"body": doubly}, "c2")), "done"), name="a")
    agent.tool_plain(lambda body: {"echo": body}, name="send")
    policy = ActionPolicy.everything(redactor=redact_keys("password"))
    with leaving(tmp_path, mode="content", policy=policy) as gone:
        await agent.run(body)
    assert left_of(PASSWORD, gone) == set()
    arguments = [json.loads(text) for text in gone.texts["span", "gen_ai.tool.call.arguments"]]
    assert [value["body"]["login"] for value in arguments if "login" in value["body"]] == [
        {"user": "me", "Password": "<secret>"}
    ] * 2


class Answer(BaseModel):
    text: str
    more: list[str] = []


class Failed(Exception):
    pass


@dataclass
class Said:
    """What one run says, in every place a text can be in."""

    text: str
    output: Any = field(init=False)

    def agent(self) -> Agent[None, Any]:
        answer = {"text": self.text, "more": [self.text] * 3}
        reasoned = ModelResponse(
            [ThinkingPart(self.text), TextPart(self.text), ToolCallPart("f", {"x": self.text}, "c1")]
        )
        agent: Agent[None, Any] = Agent(
            script(reasoned, calls(("final_result", answer, "c2"))),
            name="a",
            output_type=Answer,
            instructions=self.text,
            system_prompt=self.text,
            description=self.text,
            metadata={"note": self.text},
        )

        @agent.tool_plain
        def f(x: str = self.text) -> Any:
            return {"plain": x, "model": Answer(text=x), "key": {x: 1}}

        f.__doc__ = self.text
        return agent

    def failing_agent(self) -> Agent[None, Any]:
        agent: Agent[None, Any] = Agent(script(calls(("f", {}, "c1"))), name="b")

        @agent.tool_plain
        def f() -> str:
            raise Failed(self.text)

        return agent


@pytest.mark.parametrize("before", [4096 - 40, 4096 - 20, 4096 - 10, 4096 - 3, 4096 + 2, 2 * 4096])
async def test_a_provider_key_at_the_cut_leaves_no_piece(before: int, tmp_path: Path):
    said = Said("x" * before + " " + KEY + " and so on" * 500)
    policy = ActionPolicy.everything(redactor=redact_patterns())
    with leaving(tmp_path, mode="content", policy=policy) as gone:
        await said.agent().run(said.text)
        with pytest.raises(Failed):
            await said.failing_agent().run("go")
    assert left_of(KEY, gone) == set()
    assert "…<truncated " in "".join(gone.texts["span", "gen_ai.output.messages"])


@pytest.mark.parametrize("length", [200, 500, 2048])
async def test_a_provider_key_at_a_providers_own_limit(length: int, tmp_path: Path):
    policy = ActionPolicy.everything(
        redactor=redact_patterns(), limits=NormalizationLimits(max_attribute_bytes=length, max_string_characters=length)
    )
    for before in range(length - 60, length, 7):
        said = Said("x" * before + " " + KEY)
        with leaving(tmp_path / str(before), mode="content", policy=policy) as gone:
            await said.agent().run(said.text)
            with pytest.raises(Failed):
                await said.failing_agent().run("go")
        assert left_of(KEY, gone) == set()


async def test_a_provider_key_where_a_long_output_object_is_cut(tmp_path: Path):
    """What is redacted before it makes room, so what was far behind the cut may come to stand before it."""
    policy = ActionPolicy.everything(
        redactor=redact_patterns(number=r"\d{40,}"), limits=NormalizationLimits(max_total_bytes=8192)
    )
    for before in range(3900, 3960, 2):
        output = {"text": "1" * 5000, "more": ["x" * before + " " + KEY]}
        agent = Agent(script(calls(("final_result", output, "c1"))), name="a", output_type=Answer)
        with leaving(tmp_path / str(before), mode="content", policy=policy) as gone:
            await agent.run("go")
        assert left_of(KEY, gone) == set()
    (message,) = json.loads(gone.texts["span", "gen_ai.output.messages"][-1])
    assert json.loads(message["parts"][0]["content"])["text"] == "<secret>"


# --- in pieces ---


@pytest.mark.parametrize("size", [1, 2, 5, 11])
async def test_a_secret_split_over_the_chunks_of_a_stream(size: int, tmp_path: Path):
    text = f"The key is {KEY}, and the mail me@example.com."

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        if len(messages) > 1:
            for chunk in chunks:
                yield chunk
            return
        for chunk in chunks:
            yield {0: DeltaThinkingPart(content=chunk)}
        arguments = json.dumps({"x": text})
        yield {1: DeltaToolCall("f", "", tool_call_id="c1")}
        for start in range(0, len(arguments), size):
            yield {1: DeltaToolCall(json_args=arguments[start : start + size])}

    agent = Agent(FunctionModel(stream_function=stream), name="a")
    agent.tool_plain(lambda x: x, name="f")
    policy = ActionPolicy.everything(redactor=redact_patterns())
    with leaving(tmp_path, mode="content", policy=policy) as gone:
        async with agent.run_stream("go") as result:
            assert await result.get_output() == text
        async with agent.run_stream("again") as result:
            async for _ in result.stream_output(debounce_by=None):
                break  # what arrived is whole, or is not shown
    assert left_of(KEY, gone) == left_of("me@example.com", gone) == set()
    assert "The key is <secret>" in "".join(gone.texts["span", "gen_ai.output.messages"])


# --- redactors that fail ---


def looping(value: Any) -> Any:
    loop: list[Any] = ["gone"]
    loop.append(loop)
    return loop


async def forgotten(value: Any) -> Any:
    return value


def raising(value: Any) -> Any:
    raise ValueError(f"cannot redact {value}")


FAILED = "<redaction-failed>"


@pytest.mark.contained
@pytest.mark.parametrize(
    ("redactor", "shown"),
    [
        (raising, FAILED),
        (lambda value: None, FAILED),
        (forgotten, FAILED),
        (looping, ["gone", "<cycle>"]),
        (lambda value: "y" * 100_000_000, "y" * 4096 + "…<truncated 99995904>"),
        (lambda value: {"k" * 1_000_000: object()}, {"k" * 4096 + "…<truncated 995904>": "<unsupported>"}),
        (lambda value: b"gone", "<binary>"),
        (lambda value, context, third: value, FAILED),
    ],
    ids=["raises", "None", "a coroutine", "itself", "100 MB", "long key", "bytes", "takes three"],
)
async def test_a_redactor_that_fails_never_shows_the_original(redactor: Callable[..., Any], shown: Any, tmp_path: Path):
    agent = Agent(script(calls(("f", {"x": PASSWORD}, "c1")), PASSWORD), name="a", instructions=PASSWORD)

    @agent.tool_plain
    def f(x: str) -> str:
        return x

    with leaving(tmp_path, mode="content", policy=ActionPolicy.everything(redactor=redactor)) as gone:
        assert (await agent.run(PASSWORD)).output == PASSWORD
    assert gone.texts["span", "gen_ai.tool.call.result"] == [
        json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    ]
    left = {place for place in left_of(PASSWORD, gone) if place[0] != "log line"}
    assert left == set()


def results_of(seen: Capture) -> list[Any]:
    return [json.loads(span.attributes["gen_ai.tool.call.result"]) for span in seen.named("execute_tool f")]


@pytest.mark.parametrize(
    ("asked", "hidden"),
    [
        (("token", "session"), {"token", "Session"}),
        (("total_tokens", "session_id"), {"total_tokens", "session_id", "sessionId"}),
    ],
)
async def test_keys_are_whole_names(asked: tuple[str, ...], hidden: set[str]):
    value = {name: "S" for name in ("token", "Session", "total_tokens", "session_id", "sessionId", "tokenizer")}
    agent = Agent(script(calls(("f", {}, "c1")), "done"), name="a")
    agent.tool_plain(lambda: value, name="f")
    with capture(mode="content", policy=ActionPolicy.everything(redactor=redact_keys(*asked))) as seen:
        await agent.run("go")
    assert results_of(seen) == [{name: "<secret>" if name in hidden else "S" for name in value}]


async def test_a_redactor_is_told_what_it_is_handed():
    told: set[tuple[str, str, str | None, str]] = set()

    def look(value: Any, context: RedactionContext) -> Any:
        told.add((context.namespace, context.operation, context.name, context.field))
        return value

    agent = Agent(script(calls(("f", {}, "c1"), ("invented", {}, "c2")), calls(("f", {}, "c3"))), name="support")
    agent.tool_plain(lambda: None, name="f")
    with capture(mode="content", policy=ActionPolicy.everything(redactor=look)):
        with pytest.raises(RuntimeError):  # the script is over
            await agent.run("go")
        with action("billing", "charge", name="ledger", request=1):
            pass
    assert told == {
        ("agent", "run", "support", "gen_ai.input.messages"),
        ("agent", "run", "support", "status"),
        ("model", "request", "scripted", "exception.message"),
        ("model", "request", "scripted", "exception.stacktrace"),
        ("model", "request", "scripted", "gen_ai.input.messages"),
        ("model", "request", "scripted", "gen_ai.output.messages"),
        ("model", "request", "scripted", "gen_ai.tool.definitions"),
        ("model", "request", "scripted", "status"),
        ("tool", "validate", "f", "gen_ai.tool.call.arguments"),
        ("tool", "execute", "f", "gen_ai.tool.call.arguments"),
        ("tool", "execute", "f", "gen_ai.tool.call.result"),
        ("tool", "execute", None, "actionspan.invented_tool_name"),
        ("tool", "execute", None, "gen_ai.tool.call.arguments"),
        ("billing", "charge", "ledger", "actionspan.request"),
    }

"""The same runs under Pydantic AI's own instrumentation and under ours, for the tables of docs/migration.md."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, Embedder, ModelRetry, TextOutput, ToolOutput
from pydantic_ai.embeddings.test import TestEmbeddingModel
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from scripted import calls, script

SETTINGS = ModelSettings(
    max_tokens=100,
    temperature=0.5,
    top_p=0.9,
    seed=7,
    presence_penalty=0.1,
    frequency_penalty=0.2,
    stop_sequences=["END"],
)


class Order(BaseModel):
    number: int


def answered() -> ModelResponse:
    """An answer with everything that a provider says about one."""
    usage = RequestUsage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=30,
        cache_write_tokens=10,
        output_reasoning_tokens=5,
        details={"reasoning_tokens": 5},
        cost=Decimal("0.25"),
    )
    parts = [ThinkingPart("it is 7"), TextPart("order 7")]
    return ModelResponse(
        parts=parts, usage=usage, finish_reason="stop", provider_response_id="r-1", model_name="gpt-4o"
    )


def support(*lines: Any, **options: Any) -> Agent[None, Any]:
    agent: Agent[None, Any] = Agent(
        script(*lines),
        name="support",
        description="answers customers",
        instructions="be kind",
        **options,
    )

    @agent.tool_plain
    def look_up(order: int) -> str:
        return f"order {order} is on its way"

    @agent.tool_plain(retries=2)
    def check(order: int) -> str:
        raise ModelRetry("not this one")

    @agent.tool_plain
    def refund(order: int) -> str:
        raise ApprovalRequired(metadata={"reason": "money"})

    return agent


async def plain() -> None:
    """A tool, then an answer with usage, cache, reasoning, settings and run metadata."""
    agent = support(calls(("look_up", {"order": 7}, "c1")), answered())
    await agent.run("Where is order 7?", model_settings=SETTINGS, metadata={"desk": "north"})


async def with_history() -> None:
    agent = support("hello", "order 7")
    first = await agent.run("hi")
    await agent.run("Where is order 7?", message_history=first.all_messages())


async def streamed() -> None:
    async with support("it is on its way").run_stream("Where is order 7?") as stream:
        await stream.get_output()


async def retried() -> None:
    await support(calls(("check", {"order": 7}, "c1")), "I cannot say").run("Check order 7")


async def invalid_arguments() -> None:
    await support(calls(("look_up", {"order": "seven"}, "c1")), "I cannot say").run("Where is order 7?")


async def deferred() -> None:
    agent = support(calls(("refund", {"order": 7}, "c1")), output_type=[str, DeferredToolRequests])
    await agent.run("Give me my money back")


async def output_function() -> None:
    refusals = iter((True, False))

    def order(number: int) -> Order:
        if next(refusals):
            raise ModelRetry("again")
        return Order(number=number)

    wanted = ToolOutput(order, name="order", max_retries=2)
    lines = [calls(("order", {"number": 7}, f"c{call}")) for call in (1, 2)]
    await support(*lines, output_type=wanted).run("Where is order 7?")


async def text_function() -> None:
    refusals = iter((True, False))

    def shout(text: str) -> str:
        if next(refusals):
            raise ModelRetry("again")
        return text.upper()

    await support("here", "here", output_type=TextOutput(shout)).run("Where is order 7?")


async def instructions_that_vary() -> None:
    agent = support(calls(("look_up", {"order": 7}, "c1")), "here")
    turn = count(1)
    agent.instructions(lambda: f"this is turn {next(turn)}")
    await agent.run("Where is order 7?")


async def failed() -> None:
    try:
        await support(ModelHTTPError(500, "scripted", "no")).run("Where is order 7?")
    except ModelHTTPError:
        return
    raise AssertionError("the model did not fail")


async def fell_back() -> None:
    models = FallbackModel(script(ModelHTTPError(500, "first", "no"), name="first"), script("here", name="second"))
    await Agent(models, name="support").run("Where is order 7?")


async def embedded() -> None:
    await Embedder(TestEmbeddingModel()).embed_query("order 7")


RUNS: tuple[Callable[[], Any], ...] = (
    plain, with_history, streamed, retried, invalid_arguments, deferred, output_function,
    text_function, instructions_that_vary, failed, fell_back, embedded,
)  # fmt: skip

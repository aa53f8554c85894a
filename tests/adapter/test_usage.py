"""Tokens and cost: summed over the spans of a trace they are what was really spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError, RetryModelRequest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.usage import RequestUsage, RunUsage

from actionspan.pydantic_ai.usage import cost_of
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


def total(spans, name: str) -> int:
    return sum(span.attributes.get(name, 0) for span in spans)


def assert_spent(spans, usage: RunUsage) -> None:
    """Both sums are what the library counted."""
    for ours, theirs in (("input_tokens", usage.input_tokens), ("output_tokens", usage.output_tokens)):
        assert total(spans, f"gen_ai.usage.{ours}") == total(spans, f"actionspan.usage.{ours}") == theirs


async def test_a_delegate_called_in_parallel_from_two_tools_with_shared_usage():
    inner = Agent(script("one", "two words"), name="inner")
    outer = Agent(script(calls(("ask", {"x": 1}, "c1"), ("ask", {"x": 2}, "c2")), "out"), name="outer")

    @outer.tool
    async def ask(ctx: RunContext[None], x: int) -> str:
        return (await inner.run("go", usage=ctx.usage)).output

    with capture() as seen:
        result = await outer.run("go")
    assert_spent(seen.spans, result.usage)
    assert total(seen.spans, "actionspan.usage.requests") == 4
    assert total(seen.named("invoke_agent outer"), "actionspan.usage.requests") == 2
    assert total(seen.named("invoke_agent outer"), "actionspan.usage.tool_calls") == 2


async def test_usage_carried_in_from_an_earlier_run_is_not_counted_again():
    agent = Agent(script("one", "two"), name="a")
    first = await agent.run("go")
    before = first.usage.input_tokens
    with capture() as seen:
        second = await agent.run("go", usage=first.usage)
    spent = second.usage.input_tokens - before
    assert total(seen.spans, "gen_ai.usage.input_tokens") == total(seen.spans, "actionspan.usage.input_tokens") == spent


def answer(text: str, **usage: Any) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], usage=RequestUsage(**usage))


async def test_a_fallback_spends_on_the_attempt_that_spent():
    def rejected(response: ModelResponse) -> bool:
        return response.text == "bad"

    model = FallbackModel(
        script(ModelHTTPError(503, "first"), name="first"),
        script(answer("bad", input_tokens=5, output_tokens=5), name="second"),
        script(answer("good", input_tokens=7, output_tokens=3), name="third"),
        fallback_on=[ModelHTTPError, rejected],
    )
    with capture() as seen:
        result = await Agent(model, name="a").run("go")
    assert seen.tree("attempt", "request.model", "usage.input_tokens") == (
        "invoke_agent a [success] attempt=1 usage.input_tokens=12\n"
        "  chat first [error] !503 attempt=1 request.model=first\n"
        "  chat second [success] attempt=2 request.model=second usage.input_tokens=5\n"
        "  chat third [success] attempt=3 request.model=third usage.input_tokens=7"
    )
    assert_spent(seen.spans, result.usage)


class SecondOpinion(AbstractCapability[None]):
    """Rejects the first response."""

    async def after_model_request(self, ctx, *, request_context, response):
        if response.text == "bad":
            raise RetryModelRequest
        return response


async def test_the_tokens_of_a_rejected_response_are_counted():
    model = script(answer("bad", input_tokens=5, output_tokens=5), answer("good", input_tokens=5, output_tokens=5))
    with capture() as seen:
        result = await Agent(model, name="a", capabilities=[SecondOpinion()]).run("go")
    assert result.usage.input_tokens == 10
    assert_spent(seen.spans, result.usage)
    assert seen.tree("attempt") == (
        "invoke_agent a [success] attempt=1\n  chat scripted [success] attempt=1\n  chat scripted [success] attempt=2"
    )


async def test_cached_and_reasoning_tokens_and_a_known_price():
    priced = answer(
        "ok",
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=40,
        cache_write_tokens=10,
        output_reasoning_tokens=5,
        cost=Decimal("0.25"),
    )
    with capture() as seen:
        await Agent(script(priced, answer("x", input_tokens=1)), name="a").run("go")
        (chat,) = seen.named("chat scripted")
        attributes = {key: value for key, value in chat.attributes.items() if "usage" in key or "cost" in key}
        assert attributes == {
            "actionspan.cost_usd": 0.25,
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.cache_write.input_tokens": 10,
            "gen_ai.usage.reasoning.output_tokens": 5,
        }
        (point,) = seen.metrics()["actionspan.cost"]
        assert point.value == 0.25


def test_the_librarys_price_list():
    known = ModelResponse(
        parts=[], usage=RequestUsage(input_tokens=1_000_000), model_name="gpt-4o", provider_name="openai"
    )
    price = float(known.cost().total_price)
    assert price > 0
    assert cost_of(known) == pytest.approx(price)
    unknown = ModelResponse(parts=[], usage=RequestUsage(input_tokens=1), model_name="nobody-knows")
    assert cost_of(unknown) is None
    assert cost_of(unknown) is None  # and the list was not asked again


async def test_an_unknown_price_is_absent_and_never_zero():
    with capture() as seen:
        await Agent(script(answer("x", input_tokens=1)), name="a").run("go")
        assert not any("actionspan.cost_usd" in span.attributes for span in seen.spans)
        assert "actionspan.cost" not in seen.metrics()


async def test_a_stream_that_breaks_keeps_what_was_billed():
    from pydantic_ai.models.function import FunctionModel

    async def breaking(messages, info):
        yield "some words "
        yield "more words"
        raise ModelHTTPError(529, "m")

    with capture() as seen, pytest.raises(ModelHTTPError):
        async with Agent(FunctionModel(stream_function=breaking), name="a").run_stream("go") as result:
            await result.get_output()
    assert total(seen.spans, "gen_ai.usage.output_tokens") > 0
    assert total(seen.spans, "gen_ai.usage.output_tokens") == total(seen.spans, "actionspan.usage.output_tokens")

"""Model requests wherever they are made: fallbacks, wrappers, embeddings, without an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from inline_snapshot import snapshot
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic_ai import Agent, Embedder, ModelRequest, ModelResponse, direct
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.embeddings import EmbeddingResult, TestEmbeddingModel
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelHTTPError, RetryModelRequest, UserError
from pydantic_ai.models import Model
from pydantic_ai.models.concurrency import ConcurrencyLimitedModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from actionspan import ActionPolicy, PydanticAIInstrumentor
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


async def test_a_streamed_fallback():
    model = FallbackModel(script(ModelHTTPError(503, "m"), name="first"), script("one two", name="second"))
    with capture() as seen:
        async with Agent(model, name="a").run_stream("go") as result:
            assert (await result.get_output()).strip() == "one two"
    assert seen.tree("attempt", "request.model", "usage.output_tokens") == snapshot("""\
invoke_agent a [success] attempt=1 usage.output_tokens=2
  chat first [error] !503 attempt=1 request.model=first
  chat second [success] attempt=2 request.model=second usage.output_tokens=2\
""")


class AsksAgain(AbstractCapability[None]):
    """Has the library ask once more when nobody has answered."""

    async def on_model_request_error(self, ctx, *, request_context, error):
        if request_context.attempt == 1:
            raise RetryModelRequest
        raise error


async def test_attempts_are_counted_through_chains_within_chains_and_through_a_chain_asked_again():
    down = ModelHTTPError(503, "m")
    inner = FallbackModel(script(down, "ok", name="second"), script(down, name="third"))
    model = FallbackModel(script(down, down, name="first"), inner, script(down, name="fourth"))
    with capture() as seen:
        await Agent(model, name="a", capabilities=[AsksAgain()]).run("go")
    assert seen.tree("attempt") == snapshot("""\
invoke_agent a [success] attempt=1
  chat first [error] !503 attempt=1
  chat second [error] !503 attempt=2
  chat third [error] !503 attempt=3
  chat first [error] !503 attempt=4
  chat second [success] attempt=5\
""")


async def test_a_fallback_of_which_none_answers():
    model = FallbackModel(
        script(ModelHTTPError(503, "m"), name="first"), script(ModelHTTPError(500, "m"), name="second")
    )
    with capture() as seen, pytest.raises(FallbackExceptionGroup):
        await Agent(model, name="a").run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [error] !pydantic_ai.exceptions.FallbackExceptionGroup
  chat first [error] !503
  chat second [error] !500\
""")


async def test_wrappers_of_the_library_are_not_counted_twice():
    model = ConcurrencyLimitedModel(
        FallbackModel(
            ConcurrencyLimitedModel(script(ModelHTTPError(503, "m"), name="first"), limiter=1),
            script("ok", name="second"),
        ),
        limiter=1,
    )
    with capture() as seen:
        await Agent(model, name="a").run("go")
    assert seen.tree("attempt") == snapshot("""\
invoke_agent a [success] attempt=1
  chat first [error] !503 attempt=1
  chat second [success] attempt=2\
""")


class Counting(WrapperModel):
    """An application's wrapper, whose state must stay its own."""

    requests = 0

    async def request(self, *args, **kwargs):
        self.requests += 1
        return await super().request(*args, **kwargs)


async def test_a_wrapper_of_the_application_is_neither_copied_nor_counted_twice():
    model = Counting(FallbackModel(script(ModelHTTPError(503, "m"), name="first"), script("ok", name="second")))
    with capture() as seen:
        await Agent(model, name="a").run("go")
    assert model.requests == 1
    assert seen.tree() == snapshot("""\
invoke_agent a [success]
  chat fallback:first,second [success]\
""")


class Silent(Model):
    """A model that does not stream."""

    model_name = "silent"
    system = "test"

    async def request(self, messages, model_settings, model_request_parameters):
        raise NotImplementedError


async def test_a_model_that_does_not_stream_still_says_so_itself():
    with capture(), pytest.raises(UserError, match=r"^Silent does not support streamed requests"):
        async with Agent(Silent(), name="a").run_stream("go"):
            pass


async def test_embeddings_alone_and_within_a_run():
    embedder = Embedder(TestEmbeddingModel())
    agent = Agent(script(calls(("look", {}, "c1")), "ok"), name="a")

    @agent.tool_plain
    async def look() -> str:
        return str(len((await embedder.embed_query("within")).embeddings))

    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await embedder.embed_documents(["one", "two"])
        await agent.run("go")
    assert seen.tree("usage.input_tokens", "actionspan.request", "embeddings.dimension.count") == snapshot("""\
embeddings test [success] usage.input_tokens=2 actionspan.request={"inputs":["one","two"]} embeddings.dimension.count=8

invoke_agent a [success] usage.input_tokens=104
  chat scripted [success] usage.input_tokens=51
  validate_tool look [success]
  execute_tool look [success]
    embeddings test [success] usage.input_tokens=1 actionspan.request={"inputs":"within"} embeddings.dimension.count=8
  chat scripted [success] usage.input_tokens=52\
""")
    run, *_ = seen.named("invoke_agent a")
    within = sum(
        span.attributes.get("gen_ai.usage.input_tokens", 0)
        for span in seen.spans
        if span.context.trace_id == run.context.trace_id
    )
    assert run.attributes["actionspan.usage.input_tokens"] == within


class Hosted(TestEmbeddingModel):
    base_url = "https://models.example/v1"


async def test_an_embedder_whose_model_is_overridden():
    embedder = Embedder(TestEmbeddingModel("usual", provider_name="here"))
    with capture() as seen:
        with embedder.override(model=Hosted("other", provider_name="there")):
            await embedder.embed_query("tea")
        await embedder.embed_query("tea")
    assert seen.tree("request.model", "provider.name", "server.address", "server.port") == snapshot("""\
embeddings other [success] request.model=other provider.name=there server.address=models.example server.port=443

embeddings usual [success] request.model=usual provider.name=here\
""")


class Embedding(TestEmbeddingModel):
    """Does something else than to embed."""

    def __init__(self, deed: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self._deed = deed

    async def embed(self, *args: Any, **kwargs: Any) -> Any:
        return await self._deed()


async def test_embeddings_that_fail_or_are_cancelled():
    failure, started = RuntimeError("no such model"), asyncio.Event()

    async def fail() -> None:
        raise failure

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    with capture() as seen:
        with pytest.raises(RuntimeError) as caught:
            await Embedder(Embedding(fail)).embed_query("x")
        assert caught.value is failure
        task = asyncio.ensure_future(Embedder(Embedding(wait)).embed_query("x"))
        await started.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert seen.tree() == snapshot("""\
embeddings test [error] !RuntimeError

embeddings test [cancelled/task_cancelled]\
""")


async def test_embeddings_that_fail_are_requests_of_their_run_too():
    async def fail() -> None:
        raise RuntimeError("no such model")

    agent = Agent(script(calls(("look", {}, "c1")), "ok"), name="a")

    @agent.tool_plain
    async def look() -> str:
        with pytest.raises(RuntimeError):
            await Embedder(Embedding(fail)).embed_query("x")
        return "nothing"

    with capture() as seen:
        await agent.run("go")
    (run,) = seen.named("invoke_agent a")
    assert run.attributes["actionspan.usage.requests"] == 3


async def test_an_embedder_that_has_not_made_its_model_yet():
    """Its name is all there is of it."""
    with capture() as seen, pytest.raises(ValueError, match="Unknown provider"):
        await Embedder("somebody:some-model", defer_model_check=True).embed_query("x")
    (span,) = seen.spans
    assert span.name == "embeddings some-model"
    assert span.attributes["gen_ai.provider.name"] == "somebody"


async def test_embeddings_while_instrumentation_is_suppressed():
    with capture() as seen, suppress_instrumentation():
        assert (await Embedder(TestEmbeddingModel()).embed_query("x")).embeddings
    assert seen.spans == []


async def test_direct_requests_while_instrumentation_is_suppressed():
    with capture() as seen, suppress_instrumentation():
        answer = await direct.model_request(script("ok"), [ModelRequest.user_text_prompt("hi")])
    assert answer.text == "ok"
    assert seen.spans == []


async def test_what_an_embedding_cost_is_what_its_provider_says():
    async def priced() -> EmbeddingResult:
        return EmbeddingResult(
            [[0.0]],
            inputs=["x"],
            input_type="query",
            model_name="test",
            provider_name="test",
            usage=RequestUsage(input_tokens=1, cost=Decimal("0.25")),
        )

    with capture() as seen:
        await Embedder(Embedding(priced)).embed_query("x")
    (span,) = seen.spans
    assert span.attributes["actionspan.cost_usd"] == 0.25


async def test_direct_requests_alone_and_within_a_run():
    early = direct.model_request  # imported before instrumenting, as an application does
    request = [ModelRequest.user_text_prompt("hi")]
    agent = Agent(script(calls(("ask", {}, "c1")), "ok"), name="a")

    @agent.tool_plain
    async def ask() -> str:
        return (await early(script("direct", name="other"), request)).text

    with capture() as seen:
        await early(script("alone", name="other"), request)
        async with direct.model_request_stream(script("one two", name="other"), request) as stream:
            async for _ in stream:
                pass
        result = await agent.run("go")
    assert seen.tree("usage.output_tokens", "actionspan.usage.requests") == snapshot("""\
chat other [success] usage.output_tokens=1

chat other [success] usage.output_tokens=2

invoke_agent a [success] usage.output_tokens=6 actionspan.usage.requests=3
  chat scripted [success] usage.output_tokens=2
  validate_tool ask [success]
  execute_tool ask [success]
    chat other [success] usage.output_tokens=1
  chat scripted [success] usage.output_tokens=3\
""")
    assert result.output == "ok"
    original = direct._prepare_model
    PydanticAIInstrumentor().uninstrument() if PydanticAIInstrumentor().is_instrumented_by_opentelemetry else None
    assert direct._prepare_model is original


async def test_an_empty_answer_is_no_message():
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await direct.model_request(script(ModelResponse([])), [ModelRequest.user_text_prompt("hi")])
    (span,) = seen.spans
    assert "gen_ai.input.messages" in span.attributes
    assert "gen_ai.output.messages" not in span.attributes
    assert span.attributes["actionspan.outcome"] == "success"


async def test_what_a_request_asked_for_and_what_it_got():
    model = FunctionModel(lambda messages, info: script("ok").function(messages, info), model_name="m")
    settings = {"max_tokens": 10, "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop_sequences": ["END"]}
    with capture() as seen:
        await Agent(model, name="a", model_settings=settings).run("go")
    (chat,) = seen.named("chat m")
    assert {key: value for key, value in chat.attributes.items() if key.startswith("gen_ai.re")} == snapshot(
        {
            "gen_ai.request.model": "m",
            "gen_ai.request.max_tokens": 10,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.request.seed": 7,
            "gen_ai.request.stop_sequences": ("END",),
            "gen_ai.response.model": "m",
        }
    )


async def test_each_request_says_what_it_was_asked_with():
    def settings(ctx: Any) -> Any:
        return {"temperature": ctx.run_step / 10} if ctx.run_step < 3 else None

    agent = Agent(
        script(calls(("f", {}, "1")), calls(("f", {}, "2")), calls(("f", {}, "3")), "ok"),
        name="a",
        model_settings=settings,
    )
    agent.tool_plain(lambda: "done", name="f")
    with capture() as seen:
        await agent.run("go")
    asked = [span for span in seen.spans if span.name == "chat scripted"]
    assert [span.attributes.get("gen_ai.request.temperature") for span in asked] == [0.1, 0.2, None, None]

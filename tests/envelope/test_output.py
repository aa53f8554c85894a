"""An agent that answers with envelopes: what it returns, what it is asked again, and what its trace says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from inline_snapshot import snapshot
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import CallDeferred, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, RetryFeedbackPart, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import TextOutput

from actionspan import ActionPolicy
from actionspan.envelope import ENVELOPE_CONTRACT, EnvelopeOutput
from actionspan.testing import Capture, capture
from scripted import Line, calls, script

pytestmark = pytest.mark.anyio

SHOWN = ("envelope_status", "envelope_iteration_count", "envelope_recovered")
TOLD = "ENVELOPE_ERROR: unknown fields 'x'; permitted are status, error, content, iteration"
FAILED = '{"status":"error","error":{"code":"no-van-code","message":"no-van-message"},"content":"no-van-content"}'


def answering(*lines: Line, **arguments: Any) -> Agent[None, Any]:
    return Agent(script(*lines), name="a", capabilities=[EnvelopeOutput()], **arguments)


def attributes(seen: Capture) -> dict[str, Any]:
    """What the run's span says of an envelope."""
    run = next(span for span in seen.spans if span.name == "invoke_agent a")
    return {
        key.removeprefix("actionspan."): value for key, value in (run.attributes or {}).items() if "envelope_" in key
    }


def everything(seen: Capture) -> str:
    spans = [
        (
            span.name,
            dict(span.attributes or {}),
            span.status.description,
            [dict(e.attributes or {}) for e in span.events],
        )
        for span in seen.spans
    ]
    return f"{spans}{seen.records}{seen.metrics()}{seen.logs}"


async def test_the_model_is_told_the_contract_and_the_output_is_the_envelope():
    instructions: list[str | None] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        instructions.append(info.instructions)
        return ModelResponse([TextPart('{"status":"ok","content":[1],"iteration":[1,2]}')])

    agent = Agent(FunctionModel(answer), name="a", instructions="Be brief.", capabilities=[EnvelopeOutput()])
    with capture() as seen:
        result = await agent.run("go")
    assert result.output == {"status": "ok", "content": [1], "iteration": [1, 2]}
    assert instructions == [f"Be brief.\n\n{ENVELOPE_CONTRACT}"]
    assert seen.tree(*SHOWN) == snapshot("""\
invoke_agent a [success] envelope_status=ok envelope_iteration_count=2 envelope_recovered=strict
  chat function:answer: [success]\
""")


async def test_an_invalid_answer_is_one_retry_with_the_validators_message_and_both_are_visible():
    agent = answering('{"status":"ok","x":1}', '{"status":"partial","iteration":[]}')
    with capture() as seen:
        result = await agent.run("go")
    assert result.output == {"status": "partial", "iteration": []}
    assert seen.tree(*SHOWN) == snapshot("""\
invoke_agent a [success] envelope_status=partial envelope_iteration_count=0 envelope_recovered=strict
  chat scripted [success]
  process_output str [error/retry] !pydantic_ai.exceptions.ModelRetry
  chat scripted [success]\
""")
    told = [
        part.content
        for message in result.all_messages()
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, RetryFeedbackPart)
    ]
    assert told == [TOLD]


async def test_one_that_never_gets_it_right_is_an_error_with_the_validators_message_as_content():
    for policy, texts in (
        (ActionPolicy(), {}),
        (
            ActionPolicy(include_model_responses=True),
            {"envelope_error_message": TOLD},
        ),
    ):
        agent = answering('{"status":"ok","x":1}', '{"status":"ok","x":1}')
        with capture(mode="content", policy=policy) as seen, pytest.raises(UnexpectedModelBehavior):
            await agent.run("go")
        assert attributes(seen) == texts
        assert seen.tree(*SHOWN) == snapshot("""\
invoke_agent a [error] !pydantic_ai.exceptions.UnexpectedModelBehavior
  chat scripted [success]
  process_output str [error/retry] !pydantic_ai.exceptions.ModelRetry
  chat scripted [success]
  process_output str [error/retry] !pydantic_ai.exceptions.ModelRetry\
""")


async def test_a_blank_answer_is_asked_for_again():
    agent = answering("  ", "prose")
    with capture() as seen:
        result = await agent.run("go")
    assert result.output == {"status": "ok", "content": "prose"}
    assert attributes(seen) == {"envelope_status": "ok", "envelope_recovered": "raw"}
    assert "the answer is empty" in str(result.all_messages())


async def test_status_error_is_an_error_of_the_run_and_partial_and_no_success_are_not():
    with capture() as seen:
        assert (await answering(FAILED).run("go")).output == json.loads(FAILED)
        for status in ("partial", "no_success"):
            await answering(f'{{"status":"{status}"}}').run("go")
    assert seen.tree(*SHOWN) == snapshot("""\
invoke_agent a [error/envelope_error] !envelope_error envelope_status=error envelope_recovered=strict
  chat scripted [success]

invoke_agent a [success] envelope_status=partial envelope_recovered=strict
  chat scripted [success]

invoke_agent a [success] envelope_status=no_success envelope_recovered=strict
  chat scripted [success]\
""")
    durations = seen.metrics()["gen_ai.invoke_agent.duration"]
    assert [point.attributes.get("error.type") for point in durations if point.attributes.get("error.type")] == [
        "envelope_error"
    ]


@pytest.mark.parametrize("admitted", [True, False])
async def test_what_the_model_wrote_into_its_error_is_content_of_its_responses(admitted: bool):
    every_other = ActionPolicy.everything(include_model_responses=False, include_model_requests=False)
    policy = ActionPolicy(include_model_responses=True) if admitted else every_other
    with capture(mode="content", policy=policy) as seen:
        await answering(FAILED).run("go")
    texts = {"envelope_error_code": "no-van-code", "envelope_error_message": "no-van-message"}
    metadata = {"envelope_status": "error", "envelope_recovered": "strict"}
    assert attributes(seen) == {**metadata, **texts} if admitted else attributes(seen) == metadata
    for text in ("no-van-code", "no-van-message", "no-van-content"):
        assert (text in everything(seen)) is admitted


async def test_the_record_keeps_no_more_of_an_envelope_than_its_metadata():
    with capture() as seen:
        await answering('{"status":"ok","content":"canary-1","iteration":["canary-2"]}').run("go")
    end = next(event for event in seen.records if event["kind"] == "agent.run.end")
    kept = {key: value for key, value in end["attributes"].items() if "envelope" in key}
    assert kept == {
        "actionspan.envelope_status": "ok",
        "actionspan.envelope_iteration_count": 1,
        "actionspan.envelope_recovered": "strict",
    }
    assert "content" not in end
    assert "canary" not in everything(seen)


async def test_a_stream_is_parsed_once_complete_and_its_partials_stay_text():
    agent = answering('{"status": "ok", "iteration": [1, 2]}')
    with capture() as seen:
        async with agent.run_stream("go") as stream:
            parts = [part async for part in stream.stream_output(debounce_by=None)]
            assert not any("envelope" in str(span.attributes) for span in seen.spans)
    assert [type(part) for part in parts[:-1]] == [str] * (len(parts) - 1)
    assert len(parts) > 2
    assert parts[-1] == {"status": "ok", "iteration": [1, 2]}
    assert seen.tree(*SHOWN) == snapshot("""\
invoke_agent a [success] envelope_status=ok envelope_iteration_count=2 envelope_recovered=strict
  chat scripted [success]\
""")


@pytest.mark.parametrize("read", ["text", "output", "events"])
async def test_however_a_stream_is_read_the_run_says_how_it_ended(read: str):
    agent = answering(FAILED)
    with capture() as seen:
        if read == "events":
            async with agent.run_stream_events("go") as events:
                assert [event async for event in events]
        else:
            async with agent.run_stream("go") as stream:
                if read == "text":
                    assert "".join([text async for text in stream.stream_text(delta=True)]).strip() == FAILED
                else:
                    assert (await stream.get_output())["status"] == "error"
    assert attributes(seen) == {"envelope_status": "error", "envelope_recovered": "strict"}
    assert seen.tree().splitlines()[0] == "invoke_agent a [error/envelope_error] !envelope_error"


async def test_a_stream_that_is_left_early_has_no_envelope():
    agent = answering('{"status": "error", "iteration": [1, 2]}')
    with capture() as seen:
        async with agent.run_stream("go") as stream:
            async for _ in stream.stream_output(debounce_by=None):
                break
    assert attributes(seen) == {}


async def test_an_invalid_envelope_at_the_end_of_a_stream_is_an_error():
    agent = answering('{"status":"ok","iteration":null}')
    with capture(mode="content", policy=ActionPolicy(include_model_responses=True)) as seen:
        async with agent.run_stream("go") as stream:
            with pytest.raises(UnexpectedModelBehavior) as raised:
                await stream.get_output()
    assert "ENVELOPE_ERROR: iteration must be a list" in str(raised.value.__cause__)
    assert attributes(seen)["envelope_error_message"] == "ENVELOPE_ERROR: iteration must be a list, never null"


async def test_runs_that_overlap_on_one_agent_keep_their_envelopes_apart():
    both = asyncio.Barrier(2)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await both.wait()
        return ModelResponse([TextPart(f'{{"status":"{messages[0].parts[0].content}"}}')])  # type: ignore[union-attr]

    agent = Agent(FunctionModel(answer, model_name="m"), name="a", capabilities=[EnvelopeOutput()])
    with capture() as seen:
        results = await asyncio.gather(agent.run("partial"), agent.run("no_success"))
    assert [result.output["status"] for result in results] == ["partial", "no_success"]
    said = [(span.attributes or {}).get("actionspan.envelope_status") for span in seen.named("invoke_agent a")]
    assert sorted(map(str, said)) == ["no_success", "partial"]


async def test_an_untraced_run_inside_a_traced_one_says_nothing_of_it():
    inner = answering(FAILED)
    outer = Agent(script(calls(("ask", {}, "c1")), "done"), name="a")

    @outer.tool_plain
    async def ask() -> str:
        with suppress_instrumentation():
            return str((await inner.run("go")).output["status"])

    with capture() as seen:
        await outer.run("go")
    assert attributes(seen) == {}
    assert seen.tree().splitlines()[0] == "invoke_agent a [success]"


async def test_an_agent_inside_a_tool_fails_by_itself():
    inner = Agent(script(FAILED), name="inner", capabilities=[EnvelopeOutput()])
    outer = answering(calls(("ask", {}, "c1")), '{"status":"ok"}')

    @outer.tool_plain
    async def ask() -> str:
        return str((await inner.run("go")).output["status"])

    with capture() as seen:
        await outer.run("go")
    assert seen.tree("envelope_status") == snapshot("""\
invoke_agent a [success] envelope_status=ok
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent inner [error/envelope_error] !envelope_error envelope_status=error
      chat scripted [success]
  chat scripted [success]\
""")


async def test_the_last_answer_counts_when_a_validator_refused_the_first():
    agent = answering(FAILED, '{"status":"ok"}')
    seen_by_validator: list[object] = []

    @agent.output_validator
    def check(output: object) -> object:
        seen_by_validator.append(output)
        if len(seen_by_validator) == 1:
            raise ModelRetry("try again")
        return output

    with capture() as seen:
        assert (await agent.run("go")).output == {"status": "ok"}
    assert seen_by_validator == [FAILED, '{"status":"ok"}']
    assert attributes(seen) == {"envelope_status": "ok", "envelope_recovered": "strict"}


async def test_an_envelope_of_a_run_that_failed_afterwards_is_not_said_to_be_its_end():
    class Refuses(EnvelopeOutput):
        async def after_run(self, ctx: Any, *, result: Any) -> Any:
            raise ValueError("refused")

    agent = Agent(script(FAILED), name="a", capabilities=[Refuses()])
    with capture() as seen, pytest.raises(ValueError, match="refused"):
        await agent.run("go")
    assert attributes(seen) == {}
    assert seen.tree().splitlines()[0] == "invoke_agent a [error] !ValueError"


async def test_what_happened_after_the_envelope_wins_over_what_it_said():
    class Refuses(AbstractCapability[Any]):
        async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
            await handler()
            raise ValueError("refused")

    agent = Agent(script(FAILED), name="a", capabilities=[Refuses(), EnvelopeOutput()])
    with capture() as seen, pytest.raises(ValueError, match="refused"):
        await agent.run("go")
    assert seen.tree("envelope_status") == snapshot("""\
invoke_agent a [error] !ValueError envelope_status=error
  chat scripted [success]\
""")


async def test_text_functions_come_first_and_deferrals_pass():
    def shout(text: str) -> str:
        return text.replace("quiet", "loud")

    agent = answering('{"status":"ok","content":"quiet"}', output_type=TextOutput(shout))
    with capture():
        assert (await agent.run("go")).output == {"status": "ok", "content": "loud"}

    waiting = answering(calls(("later", {}, "c1")), output_type=[str, DeferredToolRequests])

    @waiting.tool_plain
    def later() -> str:
        raise CallDeferred

    with capture() as seen:
        assert isinstance((await waiting.run("go")).output, DeferredToolRequests)
    assert attributes(seen) == {}
    assert seen.tree().splitlines()[0] == "invoke_agent a [deferred]"


async def test_an_output_that_is_no_text_is_a_mistake_of_the_application():
    class Parcel(BaseModel):
        days: int

    agent = answering(calls(("final_result", {"days": 2}, "c1")), output_type=Parcel)
    with pytest.raises(UserError, match=r"EnvelopeOutput\(\) reads text, and the output of this run is a Parcel"):
        await agent.run("go")


async def test_it_works_untraced_and_given_twice_or_for_one_run_it_is_one():
    assert (await answering("[1]").run("go")).output == {"status": "ok", "iteration": [1]}
    agent = Agent(script("[1]"), capabilities=[EnvelopeOutput(), EnvelopeOutput()])
    result = await agent.run("go", capabilities=[EnvelopeOutput()])
    assert result.output == {"status": "ok", "iteration": [1]}
    (request, _) = result.all_messages()
    assert isinstance(request, ModelRequest)
    assert request.instructions == ENVELOPE_CONTRACT

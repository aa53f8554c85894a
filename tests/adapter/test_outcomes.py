"""The outcome table: what happened, and what the trace says of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from inline_snapshot import snapshot
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ModelHTTPError,
    SkipModelRequest,
    SkipToolExecution,
    SkipToolValidation,
    ToolFailed,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import UsageLimitExceeded, UsageLimits

from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


async def test_rejected_arguments_are_one_failed_validation_and_accepted_ones_one_execution():
    agent = Agent(script(calls(("f", {"x": "no"}, "c1")), calls(("f", {"x": 1}, "c2")), "ok"), name="a")

    @agent.tool_plain
    def f(x: int) -> int:
        return x

    with capture() as seen:
        await agent.run("go")
    assert seen.tree("attempt", "tool_executed") == snapshot("""\
invoke_agent a [success] attempt=1
  chat scripted [success] attempt=1
  validate_tool f [error/invalid_arguments] !pydantic_core._pydantic_core.ValidationError attempt=1
  chat scripted [success] attempt=1
  validate_tool f [success] attempt=2
  execute_tool f [success] attempt=2 tool_executed=True
  chat scripted [success] attempt=1\
""")


async def test_an_unknown_tool_is_one_execution_that_did_not_happen_and_its_name_is_nowhere():
    agent = Agent(script(calls(("invented_by_model", {"x": 1}, "c1")), "ok"), name="a")
    with capture() as seen:
        await agent.run("go")
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  execute_tool [error/unknown_tool] !unknown_tool tool_executed=False
  chat scripted [success]\
""")
    everything = f"{[(span.name, dict(span.attributes or {})) for span in seen.spans]}{seen.metrics()}{seen.records}"
    assert "invented_by_model" not in everything


async def test_retry_and_failure_of_a_tool():
    agent = Agent(script(calls(("flaky", {}, "c1")), calls(("flaky", {}, "c2"), ("broken", {}, "c3")), "ok"), name="a")
    tries: list[int] = []

    @agent.tool_plain
    def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry("again")
        return "fine"

    @agent.tool_plain(sequential=True)
    def broken() -> str:
        raise ToolFailed("never")

    with capture() as seen:
        await agent.run("go")
    assert seen.tree("attempt") == snapshot("""\
invoke_agent a [success] attempt=1
  chat scripted [success] attempt=1
  validate_tool flaky [success] attempt=1
  execute_tool flaky [error/retry] !pydantic_ai.exceptions.ModelRetry attempt=1
  chat scripted [success] attempt=1
  validate_tool flaky [success] attempt=2
  validate_tool broken [success] attempt=1
  execute_tool flaky [success] attempt=2
  execute_tool broken [error/tool_failed] !pydantic_ai.exceptions.ToolFailed attempt=1
  chat scripted [success] attempt=1\
""")


async def test_a_tools_own_deadline_is_a_timeout_and_a_retry_that_a_tool_asks_for_is_not():
    agent = Agent(script(calls(("slow", {}, "c1"), ("polite", {}, "c2")), "ok"), name="a")

    @agent.tool_plain(timeout=0.01)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    @agent.tool_plain(sequential=True)
    async def polite() -> str:
        try:
            raise TimeoutError("upstream")
        except TimeoutError:
            raise ModelRetry("later") from None

    with capture() as seen:
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool slow [success]
  validate_tool polite [success]
  execute_tool slow [timeout/tool_timeout] !timeout
  execute_tool polite [error/retry] !pydantic_ai.exceptions.ModelRetry
  chat scripted [success]\
""")


async def test_two_tools_in_parallel_of_which_the_first_fails_the_run():
    agent = Agent(script(calls(("bad", {}, "c1"), ("slow", {}, "c2"))), name="a")
    started = asyncio.Event()

    @agent.tool_plain
    async def bad() -> str:
        await started.wait()
        raise ValueError("boom")

    @agent.tool_plain
    async def slow() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    with capture() as seen, pytest.raises(ValueError, match="boom"):
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [error] !ValueError
  chat scripted [success]
  validate_tool bad [success]
  validate_tool slow [success]
  execute_tool bad [error] !ValueError
  execute_tool slow [cancelled/sibling_failed]\
""")
    events = [(span.name, event.attributes["exception.type"]) for span in seen.spans for event in span.events]
    assert events == [("execute_tool bad", "ValueError")]


async def test_a_model_error_is_on_the_request_and_the_run_and_its_event_once():
    agent = Agent(script(ModelHTTPError(503, "m")), name="a")
    with capture() as seen, pytest.raises(ModelHTTPError):
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [error] !503
  chat scripted [error] !503\
""")
    assert [(span.name, len(span.events)) for span in seen.spans] == snapshot(
        [("chat scripted", 1), ("invoke_agent a", 0)]
    )


async def test_calls_that_were_never_started():
    early = Agent(
        script(calls(("final_result", {"response": 1}, "c1"), ("f", {}, "c2"))),
        name="a",
        output_type=int,
        end_strategy="early",
    )
    limited = Agent(script(calls(("f", {}, "c1"), ("f", {}, "c2"))), name="b")
    for agent in (early, limited):
        agent.tool_plain(lambda: 1, name="f")
    with capture() as seen:
        await early.run("go")
        with pytest.raises(UsageLimitExceeded):
            await limited.run("go", usage_limits=UsageLimits(tool_calls_limit=1))
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_output final_result [success]
  process_output final_result [success]
  execute_tool f [cancelled/not_executed] tool_executed=False

invoke_agent b [error] !pydantic_ai.exceptions.UsageLimitExceeded
  chat scripted [success]
  execute_tool f [cancelled/not_executed] tool_executed=False
  execute_tool f [cancelled/not_executed] tool_executed=False\
""")


class Skips(AbstractCapability[None]):
    """Answers in the place of the model and of tools."""

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        raise SkipToolExecution("cached")


class SkipsByRaising(AbstractCapability[None]):
    async def wrap_model_request(self, ctx, *, request_context, handler):
        raise SkipModelRequest(ModelResponse(parts=[TextPart("cached")]))


class SkipsByReturning(AbstractCapability[None]):
    async def wrap_model_request(self, ctx, *, request_context, handler):
        return ModelResponse(parts=[TextPart("cached")])


async def test_what_a_capability_skipped():
    tool_skipped = Agent(script(calls(("f", {}, "c1")), "ok"), name="tool", capabilities=[Skips()])
    tool_skipped.tool_plain(lambda: 1, name="f")
    with capture() as seen:
        await tool_skipped.run("go")
        await Agent(script(), name="raising", capabilities=[SkipsByRaising()]).run("go")
        await Agent(script(), name="returning", capabilities=[SkipsByReturning()]).run("go")
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent tool [success]
  chat scripted [success]
  validate_tool f [success]
  execute_tool f [success/skipped] tool_executed=False
  chat scripted [success]

invoke_agent raising [success]
  chat scripted [success/skipped]

invoke_agent returning [success]
  chat scripted [success/skipped]\
""")
    assert "gen_ai.client.operation.duration" in seen.metrics()
    durations = seen.metrics()["gen_ai.client.operation.duration"]
    assert sum(point.count for point in durations) == 2  # the two real requests of the first agent


class Answers(AbstractCapability[None]):
    """Has an answer already, so that the tool is not needed."""

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        return "cached"


class Vouches(AbstractCapability[None]):
    """Takes the arguments' validity upon itself."""

    async def wrap_tool_validate(self, ctx, *, call, tool_def, args, handler):
        raise SkipToolValidation({"x": 1})


async def test_what_a_capability_answered_without_asking_the_tool_is_no_execution():
    agent = Agent(script(calls(("f", {"x": "no"}, "c1"), ("f", {"x": "no"}, "c2")), "ok"), name="a")
    agent.tool_plain(lambda x: x, name="f")
    with capture() as seen:
        await agent.run("go", capabilities=[Vouches(), Answers()])
    assert seen.tree("tool_executed", "usage.tool_calls") == snapshot("""\
invoke_agent a [success] usage.tool_calls=0
  chat scripted [success]
  validate_tool f [success/skipped]
  validate_tool f [success/skipped]
  execute_tool f [success/skipped] tool_executed=False
  execute_tool f [success/skipped] tool_executed=False
  chat scripted [success]\
""")
    assert "gen_ai.execute_tool.duration" not in seen.metrics()


class Refuses(AbstractCapability[None]):
    """Raises `error` at one of the places around a tool's execution."""

    def __init__(self, place: str, error: Exception) -> None:
        self.place = place
        self.error = error

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        if self.place == "around":
            raise self.error
        return await handler(args)

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        if self.place == "before":
            raise self.error
        return args

    async def after_tool_execute(self, ctx, *, call, tool_def, args, result):
        if self.place == "after":
            raise self.error
        return result


@pytest.mark.parametrize("error", [ModelRetry("no"), ToolFailed("no"), PermissionError("no")], ids=repr)
@pytest.mark.parametrize(("place", "executed"), [("around", False), ("before", False), ("after", True)])
async def test_what_a_capability_refused_is_an_execution_only_if_the_tool_had_been_called(place, executed, error):
    called: list[str] = []
    agent = Agent(script(calls(("f", {}, "c1")), "ok"), name="a", capabilities=[Refuses(place, error)])
    agent.tool_plain(lambda: called.append("f"), name="f")
    with capture() as seen, suppress(PermissionError):
        await agent.run("go")
    (tool,) = seen.named("execute_tool f")
    assert tool.attributes["actionspan.outcome"] == "error"
    assert tool.attributes["actionspan.tool_executed"] is executed is bool(called)


async def test_a_retry_or_a_deadline_too_many_is_still_what_the_tool_did():
    agent = Agent(script(*(calls(("again", {}, f"c{n}")) for n in range(2))), name="retries", retries=1)
    late = Agent(script(*(calls(("slow", {}, f"c{n}")) for n in range(2))), name="late", retries=1)
    outer = Agent(script(calls(("ask", {}, "c1"))), name="outer")

    @agent.tool_plain
    def again() -> str:
        raise ModelRetry("again")

    @late.tool_plain(timeout=0.001)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    @outer.tool_plain
    async def ask() -> str:
        return (await agent.run("go")).output

    with capture() as seen:
        for each in (late, outer):
            with pytest.raises(UnexpectedModelBehavior):
                await each.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent late [error] !pydantic_ai.exceptions.UnexpectedModelBehavior
  chat scripted [success]
  validate_tool slow [success]
  execute_tool slow [timeout/tool_timeout] !timeout
  chat scripted [success]
  validate_tool slow [success]
  execute_tool slow [timeout/tool_timeout] !timeout

invoke_agent outer [error] !pydantic_ai.exceptions.UnexpectedModelBehavior
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [error] !pydantic_ai.exceptions.UnexpectedModelBehavior
    invoke_agent retries [error] !pydantic_ai.exceptions.UnexpectedModelBehavior
      chat scripted [success]
      validate_tool again [success]
      execute_tool again [error/retry] !pydantic_ai.exceptions.ModelRetry
      chat scripted [success]
      validate_tool again [success]
      execute_tool again [error/retry] !pydantic_ai.exceptions.ModelRetry\
""")


async def test_a_call_that_was_not_executed_is_not_answered_by_an_earlier_one_of_its_id():
    agent = Agent(script(calls(("f", {}, "c1")), calls(("f", {}, "c1"))), name="a")
    agent.tool_plain(lambda: 1, name="f")
    with capture() as seen, pytest.raises(UsageLimitExceeded):
        await agent.run("go", usage_limits=UsageLimits(tool_calls_limit=1))
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [error] !pydantic_ai.exceptions.UsageLimitExceeded
  chat scripted [success]
  validate_tool f [success]
  execute_tool f [success] tool_executed=True
  chat scripted [success]
  execute_tool f [cancelled/not_executed] tool_executed=False\
""")


async def test_output_that_is_rejected_and_output_that_a_validator_rejects():
    agent = Agent(
        script(*(calls(("final_result", {"response": value}, f"c{value}")) for value in ("no", 1, 2))),
        name="a",
        output_type=int,
        retries=3,
    )
    text = Agent(script("first", "second"), name="text")
    seen_values: list[object] = []

    @agent.output_validator
    @text.output_validator
    def picky(value):
        seen_values.append(value)
        if len(seen_values) in (1, 3):
            raise ModelRetry("another")
        return value

    with capture() as seen:
        await agent.run("go")
        await text.run("go")
    assert seen.tree("attempt") == snapshot("""\
invoke_agent a [success] attempt=1
  chat scripted [success] attempt=1
  validate_output final_result [error/invalid_arguments] !pydantic_core._pydantic_core.ValidationError attempt=1
  chat scripted [success] attempt=1
  validate_output final_result [success] attempt=2
  process_output final_result [error/retry] !pydantic_ai.exceptions.ModelRetry attempt=2
  chat scripted [success] attempt=1
  validate_output final_result [success] attempt=3
  process_output final_result [success] attempt=3

invoke_agent text [success] attempt=1
  chat scripted [success] attempt=1
  process_output str [error/retry] !pydantic_ai.exceptions.ModelRetry attempt=1
  chat scripted [success] attempt=1\
""")


async def test_a_run_that_could_not_be_set_up_is_an_error_too():
    with capture() as seen, pytest.raises(UserError):
        await Agent(name="a").run("go")
    assert seen.tree() == snapshot("invoke_agent a [error] !pydantic_ai.exceptions.UserError")


def test_a_process_exit_is_on_the_tool_that_raised_it_and_on_its_run():
    agent = Agent(script(calls(("leave", {}, "c1"))), name="a")

    @agent.tool_plain
    async def leave() -> str:
        raise SystemExit(3)

    with capture() as seen, pytest.raises(SystemExit):
        asyncio.run(agent.run("go"))
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/process_exit]
  chat scripted [success]
  validate_tool leave [success]
  execute_tool leave [cancelled/process_exit]\
""")


async def test_an_argument_validator_that_says_the_call_has_failed():
    def refuse_arguments(ctx: RunContext[None]) -> None:
        raise ToolFailed("not with these")

    agent = Agent(script(calls(("f", {}, "c1")), "ok"), name="arguments")
    agent.tool_plain(lambda: 1, name="f", args_validator=refuse_arguments)
    with capture() as seen:
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent arguments [success]
  chat scripted [success]
  validate_tool f [error/tool_failed] !pydantic_ai.exceptions.ToolFailed
  chat scripted [success]\
""")


async def test_an_error_whose_causes_go_round_in_a_ring():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    def refuse(ctx: RunContext[None]) -> None:
        raise one

    agent = Agent(script(calls(("f", {}, "c1"))), name="a")
    agent.tool_plain(lambda: 1, name="f", args_validator=refuse)
    with capture() as seen, pytest.raises(ValueError, match="one") as caught:
        await agent.run("go")
    assert caught.value is one
    assert seen.tree() == snapshot("""\
invoke_agent a [error] !ValueError
  chat scripted [success]
  validate_tool f [error] !ValueError\
""")


async def test_validation_that_is_interrupted():
    started = asyncio.Event()

    async def wait(ctx: RunContext[None], *args: object) -> object:
        started.set()
        return await asyncio.Event().wait()

    arguments = Agent(script(calls(("f", {}, "c1"))), name="arguments")
    arguments.tool_plain(lambda: 1, name="f", args_validator=wait)
    output = Agent(script(calls(("final_result", {"response": 1}, "c1"))), name="output", output_type=int)
    output.output_validator(wait)
    with capture() as seen:
        for agent in (arguments, output):
            started.clear()
            run = asyncio.create_task(agent.run("go"))
            await started.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
    assert seen.tree() == snapshot("""\
invoke_agent arguments [cancelled/task_cancelled]
  chat scripted [success]
  validate_tool f [cancelled/task_cancelled]
  execute_tool f [cancelled/not_executed]

invoke_agent output [cancelled/task_cancelled]
  chat scripted [success]
  validate_output final_result [success]
  process_output final_result [cancelled/task_cancelled]\
""")


async def test_a_tool_call_seen_by_no_hook_in_a_stream():
    agent = Agent(
        script(calls(("final_result", {"response": 1}, "c1"), ("f", {}, "c2"), ("invented", {}, "c3"))),
        name="a",
        output_type=int,
        end_strategy="early",
    )
    agent.tool_plain(lambda: 1, name="f")
    with capture() as seen:
        async with agent.run_stream("go") as result:
            await result.get_output()
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_output final_result [success]
  process_output final_result [success]
  execute_tool f [cancelled/not_executed] tool_executed=False
  execute_tool [error/unknown_tool] !unknown_tool tool_executed=False\
""")


async def streamed_whole(agent: Agent) -> None:
    async with agent.run_stream("go") as result:
        await result.get_output()


async def streamed_by_node(agent: Agent) -> None:
    async with agent.iter("go") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as events:
                    async for _ in events:
                        pass


@pytest.mark.parametrize("way", [lambda agent: agent.run("go"), streamed_whole, streamed_by_node])
async def test_repeated_tool_call_ids_are_told_apart(way):
    agent = Agent(script(calls(("f", {"x": 1}, "same")), calls(("f", {"x": 2}, "same")), "ok"), name="a")

    @agent.tool
    def f(ctx: RunContext[None], x: int) -> int:
        return x

    with capture() as seen:
        await way(agent)
    assert seen.tree("attempt") == snapshot("""\
invoke_agent a [success] attempt=1
  chat scripted [success] attempt=1
  validate_tool f [success] attempt=1
  execute_tool f [success] attempt=1
  chat scripted [success] attempt=1
  validate_tool f [success] attempt=1
  execute_tool f [success] attempt=1
  chat scripted [success] attempt=1\
""")

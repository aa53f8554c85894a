"""One agent with a canary in everything it is made of, and every way a run of it can go."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pydantic
from opentelemetry import baggage, context, propagate
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    CancellationToken,
    DeferredToolRequests,
    DeferredToolResults,
    Embedder,
    ImageUrl,
    ModelRetry,
    RunContext,
    ToolDenied,
    direct,
)
from pydantic_ai.embeddings import TestEmbeddingModel
from pydantic_ai.exceptions import ModelHTTPError, RunCancelled, ToolFailed, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from actionspan import action
from actionspan.control import RunControl
from actionspan.envelope import EnvelopeOutput
from canary.channels import canary
from canary.signals import Leaving
from deadlines import A_DAY, expired


class Plants:
    """Hands out canaries and remembers which."""

    def __init__(self) -> None:
        self.planted: set[str] = set()

    def __call__(self, channel: str) -> str:
        self.planted.add(channel)
        return canary(channel)


# --- what the agent is made of ---


class Report(pydantic.BaseModel):
    """What was found."""

    answer: str

    @pydantic.field_validator("answer")
    @classmethod
    def _not_empty(cls, answer: str) -> str:
        if answer == "rejected":
            raise ValueError(canary("output validation error text"))
        return answer


class Credentials(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Positive(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def _positive(cls, number: int) -> int:
        if number < 0:
            raise ValueError(canary("validation error text"))
        return number


@dataclass
class Row:
    shown: str
    hidden: str = field(repr=False)


class Record(pydantic.BaseModel):
    shown: str
    excluded: str = pydantic.Field(exclude=True)
    token: pydantic.SecretStr
    picture: BinaryContent


@dataclass
class Deps:
    """Dependencies of a run, which are the application's own."""

    leaving: Leaving
    database: str
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a tool that waits for ever."""


Line = list[ThinkingPart | TextPart | ToolCallPart | BaseException]


def call(name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(name, arguments, tool_call_id=f"call-{name[:8]}")


def scripted(lines: list[Line]) -> FunctionModel:
    """A model that answers with one line after the other; an exception in one is raised when it is reached."""
    remaining = iter(lines)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts: list[Any] = []
        for part in next(remaining):
            if isinstance(part, BaseException):
                raise part
            parts.append(part)
        return ModelResponse(parts)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for index, part in enumerate(next(remaining)):
            if isinstance(part, BaseException):
                raise part
            if isinstance(part, ThinkingPart):
                yield {index: DeltaThinkingPart(content=part.content)}
            elif isinstance(part, TextPart):
                yield part.content[:9]
                yield part.content[9:]
            else:
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=stream, model_name="scripted")


def probe(plant: Plants, *lines: Line) -> Agent[Deps, Any]:
    """The agent. Its tools are named for what they do; the lines say which of them the model calls."""
    agent: Agent[Deps, Any] = Agent(
        scripted(list(lines)),
        name="probe",
        deps_type=Deps,
        output_type=[str, Report, DeferredToolRequests],
        system_prompt=plant("system prompt"),
        instructions=plant("instructions"),
        description=plant("agent description"),
        metadata={"case": {"note": plant("run metadata")}},
        retries=2,
    )

    async def look_up(
        ctx: RunContext[Deps],
        query: str,
        password: pydantic.SecretStr,
        login: Credentials,
        region: str = plant("argument default"),
    ) -> Any:
        headers = ctx.deps.leaving.headers
        propagate.inject(headers)
        assert headers.pop("baggage") == f"tenant={plant('inbound baggage')}"  # the application's own, and only that
        picture = BinaryContent(plant("media within a result").encode(), media_type="image/png")
        return {
            "text": plant("result"),
            "row": Row(plant("dataclass result"), plant("hidden dataclass field")),
            "record": Record(
                shown=plant("model result"),
                excluded=plant("excluded field"),
                token=pydantic.SecretStr(plant("secret field")),
                picture=picture,
            ),
            "raw": plant("bytes result").encode(),
        }

    look_up.__doc__ = plant("tool description")
    agent.tool(look_up)

    @agent.tool_plain
    def break_down() -> str:
        member = KeyError(plant("exception group member"))
        member.add_note(plant("exception note"))
        raise ExceptionGroup(plant("exception message"), [member]) from OSError(plant("cause"))

    @agent.tool_plain
    def ask_again() -> str:
        raise ModelRetry(plant("retry text"))

    @agent.tool_plain
    def give_up() -> str:
        raise ToolFailed(plant("failure text"))

    @agent.tool_plain
    def count(value: Positive) -> int:
        plant("validation error text")
        return value.number

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return "deleted"

    @agent.tool_plain
    def elsewhere() -> str:
        raise CallDeferred(metadata={"ticket": plant("deferral metadata")})

    @agent.tool_plain
    def ask_first() -> str:
        raise ApprovalRequired(metadata={"ticket": plant("deferral metadata")})

    @agent.tool_plain(timeout=0.01)
    async def too_slow() -> str:
        return await asyncio.Event().wait() and plant("result")

    @agent.tool
    async def wait(ctx: RunContext[Deps]) -> str:
        ctx.deps.waiting.set()
        return await asyncio.Event().wait() and plant("result")

    @agent.tool
    async def stop(ctx: RunContext[Deps]) -> str:
        ctx.cancel()
        return await asyncio.Event().wait() and plant("result")

    @agent.output_validator
    def picky(output: Any) -> Any:
        if output == "unwanted":
            raise ModelRetry(plant("output validator's retry text"))
        return output

    return agent


def prompt(plant: Plants) -> list[Any]:
    """What the user says and shows."""
    encoded = base64.b64encode(plant("image data URI").encode()).decode()
    inline = base64.b64encode(plant("data URI within text").encode()).decode()
    address = f"https://{plant('URI userinfo')}:pw@files.example/{plant('URI path')}.png?sig={plant('URI query')}"
    return [
        f"{plant('user text')} and data:image/png;base64,{inline}",
        ImageUrl(address),
        BinaryContent(plant("image bytes").encode(), media_type="image/png"),
        ImageUrl(f"data:image/png;base64,{encoded}"),
    ]


def the_lookup(plant: Plants) -> ToolCallPart:
    secret = {"user": "me", "password": plant("secret within an argument")}
    return call("look_up", query=plant("argument"), password=plant("secret argument"), login=secret)


# --- how its runs go ---

Scenario = Callable[[Plants, Leaving], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


async def run(agent: Agent[Deps, Any], plant: Plants, leaving: Leaving, **arguments: Any) -> Any:
    """Run it with the user's prompt, within an inbound request's baggage."""
    with inbound(plant):
        return await agent.run(prompt(plant), deps=Deps(leaving, plant("dependencies")), **arguments)


class inbound:
    """The context of an inbound request that carries baggage."""

    def __init__(self, plant: Plants) -> None:
        self._context = baggage.set_baggage("tenant", plant("inbound baggage"))

    def __enter__(self) -> None:
        self._token = context.attach(self._context)

    def __exit__(self, *_: object) -> None:
        context.detach(self._token)


async def failing(expected: type[BaseException], work: Awaitable[Any]) -> BaseException:
    """The exception that `work` raises, which has to be of that class."""
    try:
        await work
    except expected as error:
        return error
    raise AssertionError(f"no {expected.__name__} was raised")


@scenario
async def success(plant: Plants, leaving: Leaving) -> None:
    lines: list[Line] = [
        [ThinkingPart(plant("reasoning")), the_lookup(plant)],
        [TextPart(plant("completion")), call("final_result", answer=plant("output object"))],
    ]
    result = await run(probe(plant, *lines), plant, leaving)
    assert result.output == Report(answer=plant("output object"))


@scenario
async def success_with_text(plant: Plants, leaving: Leaving) -> None:
    agent = probe(plant, [TextPart(plant("completion"))], [TextPart("done")])
    first = await run(agent, plant, leaving)
    await run(agent, plant, leaving, message_history=first.all_messages())


@scenario
async def stream(plant: Plants, leaving: Leaving) -> None:
    lines: list[Line] = [[ThinkingPart(plant("reasoning")), the_lookup(plant)], [TextPart(plant("completion"))]]
    agent = probe(plant, *lines)
    with inbound(plant):
        async with agent.run_stream(prompt(plant), deps=Deps(leaving, plant("dependencies"))) as result:
            assert await result.get_output() == plant("completion")


@scenario
async def stream_left_early(plant: Plants, leaving: Leaving) -> None:
    agent = probe(plant, [TextPart(plant("completion"))])
    with inbound(plant):
        async with agent.iter(prompt(plant), deps=Deps(leaving, plant("dependencies"))) as live:
            async for node in live:
                if agent.is_model_request_node(node):
                    async with node.stream(live.ctx) as events:
                        async for _ in events:
                            break
                    break


@scenario
async def tool_error(plant: Plants, leaving: Leaving) -> None:
    await failing(ExceptionGroup, run(probe(plant, [call("break_down")]), plant, leaving))


@scenario
async def retry(plant: Plants, leaving: Leaving) -> None:
    lines: list[Line] = [[call("ask_again"), call("give_up")], [TextPart("unwanted")], [TextPart("done")]]
    await run(probe(plant, *lines), plant, leaving)


@scenario
async def failed_validation(plant: Plants, leaving: Leaving) -> None:
    plant("output validation error text")
    lines: list[Line] = [
        [call("count", value={"number": -1})],
        [call("count", value={"number": 1})],
        [call("final_result", answer="rejected")],
        [call("final_result", answer="fine")],
    ]
    await run(probe(plant, *lines), plant, leaving)


@scenario
async def rejected_arguments(plant: Plants, leaving: Leaving) -> None:
    """Pydantic's errors quote what they reject: a value, or all arguments where one is missing."""
    lines: list[Line] = [
        [call("count", value={"number": plant("argument")})],
        [call("look_up", query="it", password=plant("secret argument"))],
        *[[call("final_result", answer=[plant("completion")])]] * 3,
    ]
    await failing(UnexpectedModelBehavior, run(probe(plant, *lines), plant, leaving))


@scenario
async def unknown_tool(plant: Plants, leaving: Leaving) -> None:
    invented = call(plant("invented tool name"), guess=plant("invented tool's argument"))
    await run(probe(plant, [invented], [TextPart("done")]), plant, leaving)


@scenario
async def deferral_and_denial(plant: Plants, leaving: Leaving) -> None:
    calls = [call("delete", path=plant("argument awaiting approval")), call("ask_first"), call("elsewhere")]
    agent = probe(plant, [*calls], [TextPart("understood")])
    first = await run(agent, plant, leaving)
    assert isinstance(first.output, DeferredToolRequests)
    decided = DeferredToolResults(
        approvals={call.tool_call_id: ToolDenied(plant("denial reason")) for call in first.output.approvals},
        calls={call.tool_call_id: plant("external result") for call in first.output.calls},
    )
    resumed = Deps(leaving, plant("dependencies"))
    await agent.run(message_history=first.all_messages(), deferred_tool_results=decided, deps=resumed)


@scenario
async def timeout(plant: Plants, leaving: Leaving) -> None:
    agent = probe(plant, [call("too_slow")], [the_lookup(plant), call("wait")])
    deps = Deps(leaving, plant("dependencies"))
    with inbound(plant):
        await failing(TimeoutError, expired(agent.run(prompt(plant), deps=deps, timeout=A_DAY), deps.waiting.is_set))


@scenario
async def cancellation(plant: Plants, leaving: Leaving) -> None:
    token = CancellationToken()
    agent = probe(plant, [the_lookup(plant), call("stop")])
    await failing(BaseException, run(agent, plant, leaving, cancellation_token=token))


@scenario
async def model_error(plant: Plants, leaving: Leaving) -> None:
    error = ModelHTTPError(503, "scripted", {"detail": plant("model error body")})
    error.add_note(plant("exception note"))
    await failing(ModelHTTPError, run(probe(plant, [error]), plant, leaving))


@scenario
async def model_error_in_mid_stream(plant: Plants, leaving: Leaving) -> None:
    error = ConnectionError(plant("model error message"))
    agent = probe(plant, [TextPart(plant("completion")), error])

    async def read() -> None:
        async with agent.run_stream(prompt(plant), deps=Deps(leaving, plant("dependencies"))) as result:
            await result.get_output()

    await failing(ConnectionError, read())


@scenario
async def actions_of_the_application(plant: Plants, leaving: Leaving) -> None:
    with action("dispatch", "send", name="orders", request={"body": plant("dispatched request")}) as sending:
        sending.response = plant("dispatched response")

    @action("billing", "charge")
    async def charge(customer: str) -> str:
        return plant("custom response")

    await charge(plant("custom request"))

    async def fail() -> None:
        async with action("billing", "refund"):
            raise LookupError(plant("custom error"))

    await failing(LookupError, fail())


@scenario
async def requests_without_an_agent(plant: Plants, leaving: Leaving) -> None:
    await Embedder(TestEmbeddingModel()).embed_query(plant("embedded text"))
    model = scripted([[TextPart(plant("completion"))]])
    await direct.model_request(model, [ModelRequest.user_text_prompt(plant("direct prompt"))])


@scenario
async def run_control(plant: Plants, leaving: Leaving) -> None:
    control = RunControl()
    control.pause(plant("reason of a verb that matched no run"), agent_id="nobody")
    agent: Agent[None, str] = Agent(
        scripted([[call("interfere")], [call("give_up")], [TextPart("never")]]),
        name="probe",
        capabilities=[control.capability()],
    )

    @agent.tool_plain
    def interfere() -> str:
        control.steer(plant("directive"))
        control.checkpoint(plant("checkpoint label"))
        control.pause(plant("reason of a pause"))
        control.resume()
        return "interfered"

    @agent.tool_plain
    def give_up() -> str:
        control.abort(plant("reason of an abort"))
        return "gave up"

    await failing(RunCancelled, agent.run("go"))


@scenario
async def an_error_envelope(plant: Plants, leaving: Leaving) -> None:
    error = {"code": plant("envelope error code"), "message": plant("envelope error message")}
    answer = {"status": "error", "error": error, "content": plant("envelope content")}
    invalid = {"status": "ok", plant("invalid envelope's field"): 1}
    lines: list[Line] = [[TextPart(json.dumps(invalid))], [TextPart(json.dumps(answer))]]
    await Agent(scripted(lines), name="probe", capabilities=[EnvelopeOutput()]).run("go")

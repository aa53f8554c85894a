"""What an application does, with models that answer at once: the work that is measured with and without tracing.

Nothing here imports actionspan, so that the side without it is really without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

__all__ = ["SCENARIOS", "Scenario", "run_times"]

# 4 tool calls in turn; 32 at once; 5 MB; 500 chunks; 400 messages of 200 characters.
TURNS: Final = 4
PARALLEL: Final = 32
RESULT_BYTES: Final = 5_000_000
CHUNKS: Final = 500
HISTORY: Final = 400
MESSAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Scenario:
    """One shape of work; `prepare` builds the agent and returns what runs it once."""

    name: str
    title: str
    prepare: Callable[[], Callable[[], Awaitable[Any]]]


async def run_times(once: Callable[[], Awaitable[Any]], times: int) -> None:
    """Run it `times` times, one after the other."""
    for _ in range(times):
        await once()


def _answer(*parts: TextPart | ToolCallPart) -> ModelResponse:
    """Usage is stated: the scripted model would otherwise count words, 5 MB of them in one scenario."""
    return ModelResponse(list(parts), usage=RequestUsage(input_tokens=120, output_tokens=30))


def _returned(messages: Sequence[ModelMessage]) -> int:
    return sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)


def _conversation() -> Callable[[], Awaitable[Any]]:
    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = _returned(messages)
        if turn == TURNS:
            return _answer(TextPart("Two days."))
        return _answer(ToolCallPart("distance", {"origin": "Utrecht", "destination": "Porto"}, f"call-{turn}"))

    agent = Agent(FunctionModel(scripted, model_name="scripted"), name="parcels", instructions="Look it up.")

    @agent.tool_plain
    def distance(origin: str, destination: str) -> int:
        """The distance by road in kilometres."""
        return 1990

    return lambda: agent.run("How long does a parcel from Utrecht to Porto take?")


def _with_history(length: int) -> Callable[[], Callable[[], Awaitable[Any]]]:
    def prepare() -> Callable[[], Awaitable[Any]]:
        agent = Agent(FunctionModel(lambda messages, info: _answer(TextPart("Yes.")), model_name="scripted"), name="b")
        history: list[ModelMessage] = []
        for number in range(length // 2):
            text = f"{number:04d} ".ljust(MESSAGE, "x")
            history += [ModelRequest([UserPromptPart(text)]), _answer(TextPart(text))]
        return lambda: agent.run("And now?", message_history=history)

    return prepare


def _parallel() -> Callable[[], Awaitable[Any]]:
    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if _returned(messages):
            return _answer(TextPart("Done."))
        return _answer(*(ToolCallPart("look", {"number": number}, f"call-{number}") for number in range(PARALLEL)))

    agent = Agent(FunctionModel(scripted, model_name="scripted"), name="parallel")

    @agent.tool_plain
    async def look(number: int) -> int:
        """Look one up."""
        await asyncio.sleep(0)
        return number * number

    return lambda: agent.run("All of them.")


def _large_result(result: Any) -> Callable[[], Callable[[], Awaitable[Any]]]:
    def prepare() -> Callable[[], Awaitable[Any]]:
        def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return _answer(TextPart("Read.")) if _returned(messages) else _answer(ToolCallPart("read", {}, "call-1"))

        agent = Agent(FunctionModel(scripted, model_name="scripted"), name="large")
        value = result()

        @agent.tool_plain
        def read() -> Any:
            """Read it."""
            return value

        return lambda: agent.run("Read it.")

    return prepare


def _text() -> str:
    return ("All work and no play makes a long text. " * (RESULT_BYTES // 40))[:RESULT_BYTES]


def _rows() -> list[dict[str, Any]]:
    row = {"name": "A parcel for somebody".ljust(120, "."), "place": "Porto", "weight": 12.5}
    return [{"number": number, **row} for number in range(RESULT_BYTES // 200)]


def _stream() -> Callable[[], Awaitable[Any]]:
    async def chunks(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for number in range(CHUNKS):
            yield f"word{number} "

    agent = Agent(FunctionModel(stream_function=chunks, model_name="scripted"), name="stream")

    async def once() -> None:
        async with agent.run_stream("Tell me.") as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                pass

    return once


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario("A", f"1 run: {TURNS + 1} model requests, {TURNS} tool calls", _conversation),
        Scenario("B0", "1 request, no history", _with_history(0)),
        Scenario("B", f"1 request after {HISTORY} messages", _with_history(HISTORY)),
        Scenario("C", f"{PARALLEL} parallel tools", _parallel),
        Scenario("D", "a 5 MB tool result, one text", _large_result(_text)),
        Scenario("D2", "a 5 MB tool result, 25,000 rows", _large_result(_rows)),
        Scenario("E", f"a stream of {CHUNKS} chunks", _stream),
    )
}

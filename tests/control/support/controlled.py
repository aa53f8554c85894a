"""Models that remember what they were sent, tools that wait, and when a run is where a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import RequestUsage

from actionspan.control import Gate, RunControl, RunState

Line = str | ModelResponse


@dataclass
class Told:
    """A scripted model and everything it was sent: one list of texts a request."""

    lines: list[Line]
    requests: list[list[str]] = field(default_factory=list)
    asked: Callable[[int], None] = lambda number: None
    """Called when a request arrives, with its number from 1."""

    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, stream_function=self._stream, model_name="scripted")

    def _next(self, messages: list[ModelMessage]) -> Line:
        self.requests.append([text for message in messages for text in texts(message)])
        self.asked(len(self.requests))
        return self.lines[len(self.requests) - 1]

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        line = self._next(messages)
        if isinstance(line, ModelResponse):
            return line
        return ModelResponse([TextPart(line)], usage=RequestUsage(input_tokens=10, output_tokens=1))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        line = self._next(messages)
        if isinstance(line, str):
            yield line
            return
        for index, part in enumerate(line.parts):
            assert isinstance(part, ToolCallPart)
            yield {index: DeltaToolCall(part.tool_name, json_args="{}", tool_call_id=part.tool_call_id)}


def texts(message: ModelMessage) -> list[str]:
    """What a message says, a word each for calls."""
    said: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            said.append(f"call {part.tool_name}")
        elif isinstance(message, ModelRequest):
            said.append(str(getattr(part, "content", "")))
        elif isinstance(part, TextPart):
            said.append(f"answer {part.content}")
    return said


def call(name: str, call_id: str = "c1") -> ModelResponse:
    return ModelResponse([ToolCallPart(name, {}, tool_call_id=call_id)])


@dataclass
class Waiting:
    """A tool that says when it has started, and waits until it may go on."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    runs: int = 0
    ended: int = 0

    async def work(self) -> str:
        self.runs += 1
        self.started.set()
        await self.may_end.wait()
        self.ended += 1
        return "tool result"


class Port:
    """A run that is attached by hand, in which nothing happens."""

    def cancel(self) -> None:
        """Nothing runs."""

    def remaining(self) -> None:
        """There is no deadline."""

    def tools_in_threads(self) -> int:
        return 0


async def until(control: RunControl, state: RunState, gate: Gate | None = None) -> None:
    """Return once a run is in `state`, at `gate` if one is given."""
    async with control.events() as events:
        while not any(run.state is state and gate in (None, run.gate) for run in control.status()):
            await anext(events)


async def drive(run: AgentRun) -> None:
    """Let a run entered by `iter` go on to its end."""
    async for _ in run:
        pass

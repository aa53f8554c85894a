"""Models that answer from a script, streamed or not, for agents under test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

Line = str | ModelResponse | BaseException


def calls(*wanted: tuple[str, object, str]) -> ModelResponse:
    """A response that calls tools: (name, arguments, call id) each."""
    return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=call_id) for name, args, call_id in wanted])  # type: ignore[arg-type]


def script(*lines: Line, name: str = "scripted") -> FunctionModel:
    """A model that answers with one line after the other; an exception is raised instead."""
    remaining = iter(lines)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        line = next(remaining)
        if isinstance(line, BaseException):
            raise line
        return line if isinstance(line, ModelResponse) else ModelResponse(parts=[TextPart(line)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        line = next(remaining)
        if isinstance(line, BaseException):
            raise line
        if isinstance(line, str):
            for word in line.split(" "):
                yield word + " "
            return
        for index, part in enumerate(line.parts):
            assert isinstance(part, ToolCallPart)
            args = part.args if isinstance(part.args, str) else json.dumps(part.args)
            yield {index: DeltaToolCall(part.tool_name, json_args=args, tool_call_id=part.tool_call_id)}

    return FunctionModel(answer, stream_function=stream, model_name=name)

"""A realtime session is a run with its tool calls; the library offers no hook for its model requests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from inline_snapshot import snapshot
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic_ai import Agent
from pydantic_ai.realtime import RealtimeModel
from pydantic_ai.realtime.codec import (
    OutputTranscript,
    RealtimeConnection,
    ResponseDone,
    SessionUsage,
    ToolCall,
    ToolResult,
)
from pydantic_ai.realtime.lifecycle import InferredLifecycle
from pydantic_ai.usage import RequestUsage

from actionspan.testing import capture

pytestmark = pytest.mark.anyio


class Connection(RealtimeConnection):
    """Asks for one tool call and says goodbye once it has the result."""

    def __init__(self) -> None:
        self._lifecycle = InferredLifecycle()
        self._result = asyncio.Event()

    async def send(self, content):
        with self._lifecycle.sending(content):
            if isinstance(content, ToolResult):
                self._result.set()
        return self._lifecycle.take_pending()

    async def frames(self):
        yield self._lifecycle.frame_for([ToolCall("c1", tool_name="look", args='{"x": 1}')])
        await self._result.wait()
        usage = SessionUsage(RequestUsage(input_tokens=7, output_tokens=3))
        yield self._lifecycle.frame_for([OutputTranscript("bye"), usage, ResponseDone()])


class Scripted(RealtimeModel):
    model_name = "scripted"
    system = "test"

    @asynccontextmanager
    async def connect(self, *, messages, model_settings, model_request_parameters):
        yield Connection()


async def test_a_session_and_its_tool_call():
    agent = Agent(name="voice")

    @agent.tool_plain
    def look(x: int) -> int:
        return x

    with capture() as seen:
        realtime = agent.realtime(Scripted())
        for _ in range(2):  # one accessor serves many sessions
            async with realtime.session() as session:
                async for _ in session:
                    pass
    assert seen.tree("tool_executed", "usage.requests", "usage.input_tokens") == snapshot("""\
invoke_agent voice [success] usage.requests=2 usage.input_tokens=7
  validate_tool look [success]
  execute_tool look [success] tool_executed=True

invoke_agent voice [success] usage.requests=2 usage.input_tokens=7
  validate_tool look [success]
  execute_tool look [success] tool_executed=True\
""")


async def test_a_session_while_instrumentation_is_suppressed():
    agent = Agent(name="voice")
    agent.tool_plain(lambda x: x, name="look")
    with capture() as seen, suppress_instrumentation():
        async with agent.realtime(Scripted()).session() as session:
            async for _ in session:
                pass
    assert seen.spans == []

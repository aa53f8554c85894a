"""Random runs as data: what the model answers, what the tools do, how the run is made and when it is stopped."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, get_args

from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from pydantic_ai.exceptions import AgentRunError, ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionDef,
    FunctionModel,
    StreamFunctionDef,
)
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.usage import RequestUsage

Deed = Literal[
    "return", "raise", "retry", "approve", "defer", "bad arguments", "unknown tool", "time out", "remote",
    "remote fails", "delegate",
]  # fmt: skip
REMOTE = ("remote", "remote fails") if find_spec("fastmcp") else ()
"""What calls an MCP server, where its client is installed."""
Way = Literal["run", "run_stream", "iter", "events"]


@dataclass
class Call:
    """One tool call of the model: what comes of it, and after how many turns of the event loop."""

    deed: Deed
    pause: int = 0
    delegate: Script | None = None


@dataclass
class Turn:
    """One answer of the model: tool calls, or a text; or it raises after as many turns of the loop."""

    calls: list[Call] = field(default_factory=list[Call])
    text: str = ""
    pause: int = 0
    raises: bool = False


@dataclass
class Script:
    """What the model answers, in order; a text when it is asked once more than that."""

    turns: list[Turn]

    @property
    def calls(self) -> Iterator[Call]:
        return (call for turn in self.turns for call in turn.calls)


@dataclass
class Play:
    """A script, how it is run, and after how many turns of the loop its task is cancelled, if at all."""

    script: Script
    way: Way = "run"
    answer: Literal["none", "approve", "deny"] = "none"
    """What a run that put calls off is resumed with, if at all."""
    cancel_after: int | None = None


_pauses = st.integers(0, 3)
DEEDS: list[Deed] = [deed for deed in get_args(Deed) if deed != "delegate" and (deed in REMOTE or "remote" not in deed)]
"""Without the one that holds a script."""


def _calls(scripts: st.SearchStrategy[Script]) -> st.SearchStrategy[Call]:
    plain = st.builds(Call, st.sampled_from(DEEDS), _pauses)
    return plain | st.builds(lambda pause, inner: Call("delegate", pause, inner), _pauses, scripts)


def _turns(scripts: st.SearchStrategy[Script]) -> st.SearchStrategy[Turn]:
    calling = st.builds(Turn, st.lists(_calls(scripts), min_size=1, max_size=3), pause=_pauses)
    texts = st.builds(Turn, text=st.sampled_from(["", "done", "all is well"]), pause=_pauses)
    raising = st.builds(Turn, pause=_pauses, raises=st.just(True))
    return calling | texts | raising


_leaves = st.builds(Script, st.lists(st.builds(Turn, text=st.just("leaf"), pause=_pauses), max_size=1))
scripts = st.recursive(_leaves, lambda inner: st.builds(Script, st.lists(_turns(inner), max_size=3)), max_leaves=6)
plays = st.builds(
    Play,
    scripts,
    st.sampled_from(["run", "run_stream", "iter", "events"]),
    st.sampled_from(["none", "approve", "deny"]),
    st.none() | st.integers(0, 60),
)


class Failed(Exception):
    """What a tool or a model of a script raises."""


class Stage:
    """Plays scripts, and keeps the books that the trace is compared with."""

    def __init__(self) -> None:
        self.runs = 0
        """Agents made, each of which is run once."""
        self.requests = 0
        """Requests that reached a model."""
        self.input_tokens = 0
        self.output_tokens = 0
        self.executed: list[str] = []
        """Call ids of the tools whose function was entered, and did more than to put the call off."""
        self.asked: list[str] = []
        """Call ids in every answer that the model gave whole."""

    def agent(self, script: Script) -> Agent[None, Any]:
        """A new agent that plays `script` once."""
        self.runs += 1
        name = f"agent{self.runs}"
        plans: dict[str, Call] = {}
        model = self._model(script, name, plans)
        agent: Agent[None, Any] = Agent(
            model,
            name=name,
            output_type=[str, DeferredToolRequests],
            retries=1,
            toolsets=[self._remote()] if any(call.deed in REMOTE for call in script.calls) else (),
        )

        @agent.tool(name="act")
        async def act(ctx: RunContext[None], number: int) -> str:
            assert ctx.tool_call_id is not None
            self.executed.append(ctx.tool_call_id)
            try:
                return await self._do(plans[ctx.tool_call_id], approved=ctx.tool_call_approved)
            except (ApprovalRequired, CallDeferred):
                self.executed.remove(ctx.tool_call_id)
                raise

        @agent.tool(name="time_out", timeout=0.001)
        async def time_out(ctx: RunContext[None], number: int) -> str:
            assert ctx.tool_call_id is not None
            self.executed.append(ctx.tool_call_id)
            await asyncio.Event().wait()
            return "never"

        return agent

    def _remote(self) -> AbstractToolset[None]:
        from pydantic_ai.mcp import MCPToolset

        async def entered(ctx: RunContext[Any], call: Any, name: str, args: dict[str, Any]) -> Any:
            assert ctx.tool_call_id is not None
            self.executed.append(ctx.tool_call_id)
            return await call(name, args)

        return MCPToolset(_server(), id="remote", process_tool_call=entered)

    async def _do(self, plan: Call, *, approved: bool) -> str:
        await _pause(plan.pause)
        if plan.deed == "raise":
            raise Failed("tool")
        if plan.deed == "retry":
            raise ModelRetry("again")
        if plan.deed == "approve" and not approved:
            raise ApprovalRequired()
        if plan.deed == "defer":
            raise CallDeferred()
        if plan.deed == "delegate":
            assert plan.delegate is not None
            return str((await self.agent(plan.delegate).run("go")).output)
        return "returned"

    def _model(self, script: Script, name: str, plans: dict[str, Call]) -> FunctionModel:
        turns = iter([*script.turns, *[Turn(text="end")] * 20])
        places = iter(range(1000))

        def parts(turn: Turn) -> Iterator[ToolCallPart]:
            for call in turn.calls:
                call_id = f"{name}-{next(places)}"
                plans[call_id] = call
                tool = TOOLS.get(call.deed, "act")
                args: dict[str, Any] = {"number": "no number" if call.deed == "bad arguments" else 1}
                yield ToolCallPart(tool, args, tool_call_id=call_id)

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            turn = next(turns)
            await _pause(turn.pause)
            if turn.raises:
                raise Failed("model")
            wanted = list(parts(turn))
            self.asked += [part.tool_call_id for part in wanted]
            usage = RequestUsage(input_tokens=10, output_tokens=3)
            self.input_tokens += 10
            self.output_tokens += 3
            return ModelResponse(parts=wanted or [TextPart(turn.text)], usage=usage)

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
            turn = next(turns)
            if not turn.calls:
                yield turn.text or " "
            wanted = list(parts(turn))
            for index, part in enumerate(wanted):
                await _pause(turn.pause)
                yield {index: DeltaToolCall(part.tool_name, json_args=_json(part), tool_call_id=part.tool_call_id)}
            await _pause(turn.pause)
            if turn.raises:
                raise Failed("stream")
            self.asked += [part.tool_call_id for part in wanted]

        return _Counted(self, answer, stream, name)

    async def perform(self, play: Play) -> tuple[str, str]:
        """Run it; what came of it, as (kind, text), for an end with and an end without us to be compared."""
        task = asyncio.ensure_future(self._run(play))
        if play.cancel_after is not None:
            await _pause(play.cancel_after)
            task.cancel()
        try:
            return "returned", str(await task)
        except asyncio.CancelledError:
            return "cancelled", ""
        except (Failed, AgentRunError) as error:
            return type(error).__name__, str(error)

    async def _run(self, play: Play) -> object:
        agent = self.agent(play.script)
        if play.way == "run":
            result = await agent.run("go")
            if isinstance(result.output, DeferredToolRequests) and play.answer != "none":
                answers = _answers(result.output, play.answer == "approve")
                result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
            return result.output
        if play.way == "run_stream":
            async with agent.run_stream("go") as streamed:
                return await streamed.get_output()
        if play.way == "events":
            async with agent.run_stream_events("go") as events:
                return [type(event).__name__ async for event in events]
        async with agent.iter("go") as run:
            async for _ in run:
                pass
        return None if run.result is None else run.result.output


class _Counted(FunctionModel):
    """Notes each request that reaches the model, also one that is cancelled before its function is called."""

    def __init__(self, stage: Stage, answer: FunctionDef, stream: StreamFunctionDef, name: str) -> None:
        super().__init__(answer, stream_function=stream, model_name=name)
        self._stage = stage

    async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self._stage.requests += 1
        return await super().request(*args, **kwargs)

    @asynccontextmanager
    async def request_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[StreamedResponse]:
        self._stage.requests += 1
        async with super().request_stream(*args, **kwargs) as streamed:
            yield streamed


TOOLS = {"unknown tool": "invented", "time out": "time_out", "remote": "remote", "remote fails": "remote_fails"}
"""Which tool is called, where it is not `act`."""


@functools.cache
def _server() -> Any:
    """A server in this process with tools that return and that fail: one, for FastMCP keeps of each what it made."""
    from fastmcp import FastMCP
    from fastmcp.exceptions import ToolError

    server: Any = FastMCP("remote")

    @server.tool(name="remote")
    async def remote(number: int) -> str:
        return "from afar"

    @server.tool(name="remote_fails")
    async def remote_fails(number: int) -> str:
        raise ToolError("there")

    return server


def _answers(requests: DeferredToolRequests, approve: bool) -> DeferredToolResults:
    return DeferredToolResults(
        calls={call.tool_call_id: "from outside" for call in requests.calls},
        approvals={call.tool_call_id: approve or ToolDenied("no") for call in requests.approvals},
    )


async def _pause(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def _json(part: ToolCallPart) -> str:
    return part.args_as_json_str()

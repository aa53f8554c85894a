"""The course of the demo: the agent asks for a refund, is denied, asks for less, and may; a person looks in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from actionspan.cli.demo.agents import Desk, Output, support_agent
from actionspan.cli.demo.supplier import supplier_toolset

__all__ = ["play"]


async def play(desk: Desk, note: Callable[[str], None]) -> str:
    """Run the demo's runs one after the other; the answer of the last. `note` is told what had to be left out."""
    toolset = supplier_toolset(desk)
    if toolset is None:
        note("MCP is left out: FastMCP's server is not installed (pip install fastmcp).")
    agent = support_agent(desk, None if toolset is None else [toolset])
    first = await agent.run(desk.story.customer, deps=desk)
    second = await _decide(agent, desk, first, ToolDenied(desk.story.denial))
    third, _ = await asyncio.gather(_decide(agent, desk, second, True), _look_in(desk))
    return str(third.output)


async def _look_in(desk: Desk) -> None:
    """A person holds the run once the money is booked, notes where it is, and has one more thing to be said."""
    async with desk.control.events() as events:
        async for event in events:
            if event.kind in ("paused", "ended"):
                break
    desk.control.checkpoint(desk.story.label)
    await desk.take(0.5)
    desk.control.steer(desk.story.directive)
    desk.control.resume()


async def _decide(agent: Agent[Desk, Output], desk: Desk, waiting: Any, decision: bool | ToolDenied) -> Any:
    """Resume a run that waits for an approval."""
    assert isinstance(waiting.output, DeferredToolRequests)
    approvals: dict[str, bool | ToolApproved | ToolDenied] = {
        call.tool_call_id: decision for call in waiting.output.approvals
    }
    return await agent.run(
        message_history=waiting.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals=approvals),
        deps=desk,
    )

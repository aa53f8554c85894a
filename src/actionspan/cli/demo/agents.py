"""The demo's agents: a support agent with its tools, and the clerk it asks about the refund policy.

The models are functions: what they answer depends only on what they have been told so far.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AbstractToolset

from actionspan.cli.demo.story import Story
from actionspan.control import RunControl

__all__ = ["Desk", "clerk_agent", "support_agent"]

Output = str | DeferredToolRequests


@dataclass(slots=True)
class Desk:
    """What a run of the demo depends on: the story, its pace, and the state of the shelf."""

    story: Story = field(default_factory=Story)
    pace: float = 0.0
    """Seconds that a model takes to answer; tools take a part of it. 0: everything at once."""
    counting: bool = True
    """Whether the shelf is still being counted, so that the first question about it must be asked again."""
    control: RunControl = field(default_factory=RunControl)

    async def take(self, share: float = 1.0) -> None:
        """Let as much time pass as the work would have taken."""
        await asyncio.sleep(self.pace * share)


def clerk_agent(desk: Desk) -> Agent[None, str]:
    """The agent that is asked from within a tool of the other."""

    async def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        await desk.take(0.8)
        return ModelResponse([TextPart(desk.story.ruling)])

    return Agent(FunctionModel(answer, model_name="scripted"), name="clerk", instructions=desk.story.clerk_instructions)


def support_agent(desk: Desk, toolsets: list[AbstractToolset[Desk]] | None = None) -> Agent[Desk, Output]:
    """The agent that talks to the customer. `toolsets` are asked for the supplier's stock, when there are any."""
    agent: Agent[Desk, Output] = Agent(
        FunctionModel(_script(desk, bool(toolsets)), model_name="scripted"),
        name="support",
        deps_type=Desk,
        output_type=[str, DeferredToolRequests],
        instructions=desk.story.instructions,
        toolsets=toolsets or (),
        capabilities=[desk.control.capability()],
        retries=2,
    )
    clerk = clerk_agent(desk)

    @agent.tool
    async def lookup_order(ctx: RunContext[Desk], order_id: str) -> str:
        """The order with this number."""
        await ctx.deps.take(0.4)
        return ctx.deps.story.order

    @agent.tool
    async def track_parcel(ctx: RunContext[Desk], order_id: str) -> str:
        """Where the parcel of this order is."""
        await ctx.deps.take(0.7)
        return ctx.deps.story.parcel

    @agent.tool
    async def check_shelf(ctx: RunContext[Desk], title: str, copies: int) -> str:
        """Whether that many copies of a title are here."""
        await ctx.deps.take(0.3)
        if ctx.deps.counting:
            ctx.deps.counting = False
            raise ModelRetry(ctx.deps.story.recount)
        return ctx.deps.story.shelf

    @agent.tool
    async def ask_clerk(ctx: RunContext[Desk], question: str) -> str:
        """What the refund policy says."""
        await ctx.deps.take(0.1)
        answer = await clerk.run(question, usage=ctx.usage)
        return answer.output

    @agent.tool(requires_approval=True)
    async def refund(ctx: RunContext[Desk], order_id: str, euros: float, reason: str) -> str:
        """Pay money back. Somebody has to approve it."""
        await ctx.deps.take(0.5)
        ctx.deps.control.pause(ctx.deps.story.hold_reason)
        return ctx.deps.story.receipt

    return agent


def _script(desk: Desk, supplier: bool) -> Any:
    """The support agent's model: its answer is the next one of the script."""
    story = desk.story
    shelf = {"title": story.title, "copies": 2}
    turns = [
        [ToolCallPart("lookup_order", {"order_id": story.order_id}, "order"),
         ToolCallPart("track_parcel", {"order_id": story.order_id}, "parcel")],
        [ToolCallPart("check_shelf", {**shelf, "copies": story.wrong_copies}, "shelf-1")],
        [ToolCallPart("check_shelf", shelf, "shelf-2")],
        [ToolCallPart("check_shelf", shelf, "shelf-3")],
        [ToolCallPart("ask_clerk", {"question": story.question}, "clerk")],
        [ToolCallPart("refund", {"order_id": story.order_id, "euros": 120, "reason": story.refund_reason}, "refund-1")],
        [ToolCallPart("refund", {"order_id": story.order_id, "euros": 60, "reason": story.second_reason}, "refund-2")],
        [TextPart(story.goodbye)],
    ]  # fmt: skip
    if supplier:
        turns.insert(4, [ToolCallPart("supplier_stock", {"title": story.title}, "supplier")])

    async def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        await desk.take()
        said = sum(isinstance(message, ModelResponse) for message in messages)
        assert isinstance(messages[-1], ModelRequest)
        return ModelResponse(turns[said])

    return answer

"""Agents and workflows for Temporal. What a model answers follows from what it is asked, so that a replay agrees."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from pydantic_ai import Agent
from pydantic_ai.durable_exec.temporal import TemporalDurability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityConfig

import actionspan
from actionspan.testing._memory import MemoryRecorder


class Switch(Sampler):
    """Drops everything when it is off."""

    on = True

    def should_sample(self, *arguments: Any, **keywords: Any) -> SamplingResult:
        return (ALWAYS_ON if self.on else ALWAYS_OFF).should_sample(*arguments, **keywords)

    def get_description(self) -> str:
        return "Switch"


sampler = Switch()
exporter = InMemorySpanExporter()
provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
recorder = MemoryRecorder()


class World:
    """What happened outside of workflows, and what shall."""

    def __init__(self) -> None:
        self.requests = 0
        self.failures = 0
        """How many requests to the model shall fail first."""
        self.tool_runs = 0
        self.tool_started = asyncio.Event()
        self.tool_may_end = asyncio.Event()
        self.tool_may_end.set()


world = World()


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call each tool that the prompt names, one after the other, and be done."""
    world.requests += 1
    if world.failures:
        world.failures -= 1
        raise ConnectionError("no route")
    first = messages[0]
    assert isinstance(first, ModelRequest)
    prompt = next(part.content for part in first.parts if isinstance(part, UserPromptPart))
    tools = [word for word in str(prompt).split() if word in ("f", "ask")]
    done = sum(isinstance(message, ModelResponse) for message in messages)
    if done < len(tools):
        return ModelResponse(parts=[ToolCallPart(tools[done], {"x": done}, tool_call_id=f"c{done}")])
    return ModelResponse(parts=[TextPart("done")])


async def f(x: int) -> int:
    world.tool_runs += 1
    world.tool_started.set()
    await world.tool_may_end.wait()
    return x


def durability() -> TemporalDurability[None]:
    """Retries at once."""
    return TemporalDurability(
        activity_config=ActivityConfig(
            start_to_close_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=1), maximum_interval=timedelta(seconds=1)),
        )
    )


def hand() -> object:
    return actionspan.capability(tracer_provider=provider, recorder=recorder)


model = FunctionModel(answer, model_name="scripted")
plain = Agent(model, name="plain", tools=[f], capabilities=[durability()])
traced = Agent(model, name="traced", tools=[f], capabilities=[durability(), hand()])
outer = Agent(model, name="outer", capabilities=[durability(), hand()])


@outer.tool_plain(metadata={"temporal": False})
async def ask(x: int) -> str:
    return (await traced.run("f")).output


agents = {agent.name: agent for agent in (plain, traced, outer)}


durabilities = [TemporalDurability.from_agent(agent) for agent in agents.values()]
activities = [activity for found in durabilities if found is not None for activity in found.temporal_activities]


@workflow.defn
class OneRun:
    """Runs one agent once."""

    @workflow.run
    async def run(self, agent: str, prompt: str) -> str:
        return (await agents[agent].run(prompt)).output


@workflow.defn
class TwoRuns:
    """Runs an agent, waits to be told, and runs it again."""

    def __init__(self) -> None:
        self.first = ""
        self.told = False

    @workflow.run
    async def run(self) -> str:
        self.first = (await traced.run("f")).output
        await workflow.wait_condition(lambda: self.told)
        return (await traced.run("go")).output

    @workflow.signal
    def go_on(self) -> None:
        self.told = True

    @workflow.query
    def first_output(self) -> str:
        return self.first

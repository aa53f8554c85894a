"""An agent for Temporal, under control; what its model does in an activity is the test's to say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from pydantic_ai import Agent
from pydantic_ai.durable_exec.temporal import TemporalDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio import workflow
from temporalio.workflow import ActivityConfig

from actionspan.control import RunControl

control = RunControl()
asked: list[Callable[[], None]] = []


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    for ask in asked:
        ask()
    return ModelResponse([TextPart("done")])


def durability() -> TemporalDurability[None]:
    return TemporalDurability(activity_config=ActivityConfig(start_to_close_timeout=timedelta(seconds=30)))


by_hand = Agent(
    FunctionModel(answer, model_name="scripted"), name="durable", capabilities=[durability(), control.capability()]
)
durable = TemporalDurability.from_agent(by_hand)
assert durable is not None
activities = durable.temporal_activities


@workflow.defn
class OneRun:
    """Runs the agent once."""

    @workflow.run
    async def run(self) -> str:
        return (await by_hand.run("go")).output

"""An agent that tells how long a parcel will take. MODEL=openai:gpt-5-mini asks a real model; unset, a scripted one."""

import os

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model: asks for the distance, then answers with it."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"It is {last.content} km: two days.")])
    return ModelResponse([ToolCallPart("distance", {"origin": "Utrecht", "destination": "Porto"})])


agent = Agent(
    os.environ.get("MODEL") or FunctionModel(scripted, model_name="scripted"),
    name="parcels",
    instructions="Say how many days a parcel takes; a van covers 1,000 km a day. Look the distance up.",
)


@agent.tool_plain
def distance(origin: str, destination: str) -> int:
    """The distance by road in kilometres."""
    return {("Utrecht", "Porto"): 1990}.get((origin, destination), 500)


if __name__ == "__main__":
    print(agent.run_sync("How long does a parcel from Utrecht to Porto take?").output)

"""A support agent that is at work for about a minute, under the control of another terminal.

python app.py [DIR] [SECONDS A STEP]
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor
from actionspan.control import DirectoryCheckpointStore, RunControl

SHELVES = 20


def model() -> FunctionModel:
    """Stands for a real model: asks for one shelf after the other, and obeys what it was told on the way."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = sum(isinstance(message, ModelResponse) for message in messages)
        said = [
            part.content
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        for directive in said[1:]:
            print(f"  the model was told: {directive}", flush=True)
        if asked < SHELVES and not any("French" in str(directive) for directive in said):
            return ModelResponse([ToolCallPart("count_shelf", {"number": asked + 1})])
        if len(said) > 1:
            return ModelResponse([TextPart(f"Voilà : {asked} étagères comptées.")])
        return ModelResponse([TextPart(f"{asked} shelves counted.")])

    return FunctionModel(answer, model_name="scripted")


async def main(directory: str, pace: float) -> None:
    agent = Agent(model(), name="support")

    @agent.tool_plain
    async def count_shelf(number: int) -> str:
        """Count the books on one shelf."""
        print(f"counting shelf {number}", flush=True)
        await asyncio.sleep(pace)
        return f"{40 + number} books"

    control = RunControl(serve=directory, checkpoints=DirectoryCheckpointStore(f"{directory}/checkpoints"))
    with JsonlRecorder(directory) as recorder, control:
        # Directives and reasons are content: this application wants them on the record.
        PydanticAIInstrumentor().instrument(
            recorder=recorder,
            control=control,
            mode="content",
            policy=ActionPolicy(include_custom_content=True, include_model_requests=True),
        )
        print(f"serving; in another terminal: actionspan control {directory} runs", flush=True)
        try:
            print((await agent.run("How many books are there?")).output)
        except RunCancelled as stopped:
            print(f"stopped: {control.reason_for(stopped.run_id or '')}")
        PydanticAIInstrumentor().uninstrument()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "rec", float(sys.argv[2]) if len(sys.argv) > 2 else 3.0))

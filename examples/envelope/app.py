"""Three agents that answer with envelopes: one at the second try, one with a fence, one that failed and says so."""

import json

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actionspan.envelope import EnvelopeOutput, project_metadata
from actionspan.testing import capture


def scripted(*answers: str) -> FunctionModel:
    """Stands in for a model: gives one answer after the other."""
    remaining = iter(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(next(remaining))])

    return FunctionModel(answer, model_name="scripted")


planner = Agent(
    scripted(
        '{"status": "ok", "iteration": ["Utrecht", "Porto"], "confidence": 0.9}',  # no envelope has a confidence
        '{"status": "ok", "iteration": ["Utrecht", "Porto"]}',
    ),
    name="planner",
    capabilities=[EnvelopeOutput()],
)
writer = Agent(
    scripted('```json\n{"status": "partial", "content": "Porto is two days away."}\n```'),
    name="writer",
    capabilities=[EnvelopeOutput()],
)
booker = Agent(
    scripted('{"status": "error", "error": {"code": "no_van", "message": "All vans are out."}, "content": "sorry"}'),
    name="booker",
    capabilities=[EnvelopeOutput()],
)


def main() -> None:
    """Run the three and show what they answered, and what their traces say of it."""
    with capture() as seen:
        for agent in (planner, writer, booker):
            envelope = agent.run_sync("A parcel for Porto, please.").output
            print(f"{agent.name}: {json.dumps(project_metadata(envelope))}")
    print()
    print(seen.tree("envelope_status", "envelope_iteration_count", "envelope_recovered"))


if __name__ == "__main__":
    main()

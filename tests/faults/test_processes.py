"""Processes that are killed, forked and many: each agent answers, and the record has what was recorded until then."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor, action
from actionspan.recorder import read, verify
from scripted import calls, script

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

Deed = Callable[[], object]


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """What is exported, by each process for itself."""
    return InMemorySpanExporter()


@pytest.fixture
def record(tmp_path: Path, exporter: InMemorySpanExporter) -> Iterator[Path]:
    """What is recorded, by this process and those forked from it: everything was loaded and instrumented before."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    recorder = JsonlRecorder(tmp_path / "record")
    instrumentor = PydanticAIInstrumentor()
    instrumentor.instrument(
        mode="content", policy=ActionPolicy.everything(), recorder=recorder, tracer_provider=provider
    )
    yield tmp_path / "record"
    instrumentor.uninstrument()
    recorder.close()


def agent(name: str = "outer", deed: Deed | None = None) -> Agent[None, Any]:
    """Calls a tool, which does `deed`, and answers."""
    made = Agent(script(calls(("act", {}, "c1")), "done"), name=name)

    @made.tool_plain
    async def act() -> str:
        return "acted" if deed is None else str(deed())

    return made


def answer(agent: Agent[None, Any]) -> object:
    return asyncio.run(agent.run("go")).output


def forked(work: Callable[[], object]) -> int:
    """Fork a child that does `work`; its status is 0 when that is true, 1 when it is not, 2 when it raised."""
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return pid


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def terminals(record: Path) -> list[tuple[str, str]]:
    """Each action that ended, with the agent it is of and how it ended."""
    events = [event for event in read(record).query() if event["phase"] != "start"]
    return [(event["kind"], event["outcome"]) for event in events]


ONE_RUN = Counter(
    {("model.request.end", "success"): 2, ("tool.validate.end", "success"): 1}
    | {("tool.execute.end", "success"): 1, ("agent.run.end", "success"): 1}
)


def times(number: int) -> Counter[tuple[str, str]]:
    return Counter({key: count * number for key, count in ONE_RUN.items()})


def test_sigkill_in_mid_run(record: Path):
    """The application is gone; the record has all that had ended, and names the run and the tool as unfinished."""
    pid = forked(lambda: answer(agent(deed=lambda: os.kill(os.getpid(), signal.SIGKILL))))
    assert status_of(pid) == -signal.SIGKILL
    assert terminals(record) == [("model.request.end", "success"), ("tool.validate.end", "success")]
    report = verify(record)
    assert [event["kind"] for event in report.unfinished] == ["agent.run.start", "tool.execute.start"]
    assert (report.unclosed, report.torn, report.damaged) == (1, 0, False)
    (tool,) = read(record).query(kind="tool.execute.start")
    assert tool["content"] == {"gen_ai.tool.call.arguments": {}}  # what was in flight


def test_sigkill_in_the_middle_of_a_line(record: Path):
    """The application is gone; readers pass over the torn line, and everything before it is there."""

    def die() -> None:
        write = os.write

        def torn(descriptor: int, data: bytes) -> int:
            write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        os.write = torn

    assert status_of(forked(lambda: answer(agent(deed=die)))) == -signal.SIGKILL
    assert terminals(record) == [("model.request.end", "success"), ("tool.validate.end", "success")]
    report = verify(record)
    assert [event["kind"] for event in report.unfinished] == ["agent.run.start", "tool.execute.start"]
    assert (report.torn, report.damaged) == (1, False)
    assert answer(agent()) == "done"  # and whoever writes next is not concerned
    assert read(record).report.skipped == 0


def test_a_tool_that_forks(record: Path):
    """Parent and child both go on; the parent's actions end once, the child's own are below the tool."""

    def fork() -> str:
        pid = forked(lambda: answer(agent("inner")) == "done")
        return str(status_of(pid))

    assert answer(agent(deed=fork)) == "done"
    assert Counter(terminals(record)) == times(2)
    ids = {(event["agent_id"], event["kind"]): event for event in read(record).query() if event["phase"] != "start"}
    inner, tool = ids["inner", "agent.run.end"], ids["outer", "tool.execute.end"]
    assert (inner["parent_action_id"], inner["trace_id"]) == (tool["action_id"], tool["trace_id"])
    assert verify(record).unfinished == []


def test_a_fork_inside_an_action(record: Path, exporter: InMemorySpanExporter):
    """Both processes go on in the action: it ends once, where it began, and what either does then is below it."""
    pid, status = -1, 2
    try:
        with action("billing", "charge"):
            pid = os.fork()
            status = 0 if answer(agent()) == "done" else 1
        ended = [span.name for span in exporter.get_finished_spans()].count("charge")
        status = status if ended == (pid > 0) else 3
    finally:
        if pid == 0:
            os._exit(status)
    assert (status, status_of(pid)) == (0, 0)
    assert Counter(terminals(record)) == times(2) + Counter({("billing.charge.end", "success"): 1})
    events = [event for event in read(record).query() if event["phase"] != "start"]
    (charge,) = [event for event in events if event["kind"] == "billing.charge.end"]
    assert {event["parent_action_id"] for event in events if event["namespace"] == "agent"} == {charge["action_id"]}
    report = verify(record)
    assert (report.duplicates, report.unfinished, report.damaged) == ([], [], False)


def test_preload_and_four_writers_at_once(record: Path):
    """As gunicorn's preload: each worker answers, and has segments of its own in the one directory."""
    answer(agent())  # the parent recorded before it forked
    workers = [forked(lambda: {answer(agent()) for _ in range(20)} == {"done"}) for _ in range(4)]
    assert [status_of(worker) for worker in workers] == [0, 0, 0, 0]
    assert answer(agent()) == "done"
    assert Counter(terminals(record)) == times(4 * 20 + 2)
    writers = {path.name.split("-")[-2] for path in record.glob("*.jsonl")}
    assert writers == {str(process) for process in (os.getpid(), *workers)}
    report = verify(record)
    assert (report.unfinished, report.duplicates, report.damaged) == ([], [], False)


def in_pool(name: str) -> object:
    return answer(agent(name))


def test_multiprocessing(record: Path):
    """Each worker of a pool answers, and what it did is recorded, although a pool ends its workers by SIGTERM."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(in_pool, ["a", "b", "c", "d"]) == ["done"] * 4
    assert Counter(terminals(record)) == times(4)

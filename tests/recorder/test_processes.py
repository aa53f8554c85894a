"""Many processes, one directory: forks, kills, and readers in the middle of it."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.trace import Tracer

from actionspan.recorder import JsonlRecorder, read, verify
from recorder.conftest import action, kinds, segments

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

COUNT = 20_000 if os.environ.get("ACTIONSPAN_SOAK") else 1_500

WRITER = """
import sys
from actionspan.recorder import JsonlRecorder
recorder = JsonlRecorder(sys.argv[1], max_segment_bytes=200_000)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    recorder.emit({"kind": "x", "writer": sys.argv[2], "number": number, "agent_id": "a" * 50})
"""

KILLED = """
import os, signal, sys
from opentelemetry.sdk.trace import TracerProvider
from actionspan.recorder import JsonlRecorder, RecorderSpanProcessor
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(RecorderSpanProcessor(JsonlRecorder(sys.argv[1])))
tracer = provider.get_tracer("actionspan")
def action(namespace, operation):
    return {"actionspan.namespace": namespace, "actionspan.operation": operation}
with tracer.start_as_current_span("chat", attributes=action("model", "request")) as done:
    done.set_attribute("actionspan.outcome", "success")
with tracer.start_as_current_span("run", attributes=action("agent", "run")):
    with tracer.start_as_current_span("tool", attributes=action("tool", "execute")):
        with tracer.start_as_current_span("inner run", attributes=action("agent", "run")):
            os.kill(os.getpid(), signal.SIGKILL)
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_four_writers_and_a_reader(directory: Path) -> None:
    JsonlRecorder(directory).close()
    writers = [python(WRITER, directory, name, COUNT) for name in "abcd"]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("\n")
        writer.stdin.flush()
    seen = 0
    while any(writer.poll() is None for writer in writers):
        reader = read(directory)
        times = [event["time_unix_nano"] for event in reader.query()]
        assert times == sorted(times)
        assert reader.report.skipped == 0
        assert len(times) >= seen
        seen = len(times)
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    by_writer: dict[str, list[int]] = {}
    for event in read(directory).query():
        by_writer.setdefault(event["writer"], []).append(event["number"])
    assert by_writer == {name: list(range(COUNT)) for name in "abcd"}
    report = verify(directory)
    assert (report.events, report.damaged, report.unclosed) == (4 * COUNT, False, 0)
    assert report.segments > 4


def test_a_kill_leaves_what_was_recorded_and_what_was_in_flight(directory: Path) -> None:
    process = python(KILLED, directory)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert kinds(read(directory).replay()) == [
        "model.request.start",
        "model.request.end",
        "agent.run.start",
        "tool.execute.start",
        "agent.run.start",
    ]
    report = verify(directory)
    assert kinds(report.unfinished) == ["agent.run.start", "tool.execute.start", "agent.run.start"]
    assert (report.unclosed, report.damaged) == (1, False)


def in_child(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "child", "pid": os.getpid()})
    recorder.close()


def test_fork_gives_the_child_its_own_segment(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "before"})
    pid = os.fork()
    if pid == 0:
        recorder.emit({"kind": "child"})
        recorder.emit({"kind": "child"})
        os._exit(0)
    os.waitpid(pid, 0)
    recorder.emit({"kind": "after"})
    names = [segment.name for segment in segments(recorder.directory)]
    assert sorted(f"-{process}-" in name for name in names for process in (pid, os.getpid())) == [
        False,
        False,
        True,
        True,
    ]
    assert kinds(recorder.query()) == ["before", "child", "child", "after"]
    recorder.close()
    report = verify(recorder.directory)
    assert (report.events, report.problems, report.unclosed) == (4, [], 1)


def test_a_fork_while_another_thread_writes_does_not_deadlock_the_child(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "before"})
    with recorder._log._lock:
        recorder._log._busy = True  # as another thread in the middle of emit would leave it
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            recorder.emit({"kind": "child"})
            os._exit(0)
        recorder._log._busy = False
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert kinds(recorder.query(kind="child")) == ["child"]


SPAWNED = """
from actionspan.recorder import JsonlRecorder
JsonlRecorder(directory).emit({"kind": "child"})
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(recorder: JsonlRecorder, tmp_path: Path, method: str) -> None:
    recorder.emit({"kind": "parent"})
    context = multiprocessing.get_context(method)
    if method == "fork":
        process = context.Process(target=in_child, args=(recorder,))  # type: ignore[attr-defined] # every context has it
    else:
        (tmp_path / "child.py").write_text(SPAWNED)
        script = str(tmp_path / "child.py"), {"directory": str(recorder.directory)}
        process = context.Process(target=runpy.run_path, args=script)  # type: ignore[attr-defined] # every context has it
    process.start()
    process.join()
    assert process.exitcode == 0
    recorder.emit({"kind": "parent"})
    assert kinds(recorder.query()) == ["parent", "child", "parent"]
    assert len(segments(recorder.directory)) == 2


def test_a_fork_inside_an_action_gives_it_one_terminal(tracer: Tracer, recorder: JsonlRecorder) -> None:
    with tracer.start_as_current_span("tool", attributes=action("tool", "execute")):
        pid = os.fork()
        if pid == 0:
            with tracer.start_as_current_span("chat", attributes=action("model", "request")):
                pass
        else:
            os.waitpid(pid, 0)
    if pid == 0:
        os._exit(0)
    assert kinds(recorder.query()) == [
        "tool.execute.start",
        "model.request.start",
        "model.request.end",
        "tool.execute.end",
    ]


def test_a_batch_is_not_written_twice_after_a_fork(directory: Path) -> None:
    recorder = JsonlRecorder(directory, durability="batch")
    recorder.emit({"kind": "parent"})
    pid = os.fork()
    if pid == 0:
        recorder.emit({"kind": "child"})
        recorder.close()
        os._exit(0)
    os.waitpid(pid, 0)
    recorder.close()
    assert sorted(kinds(read(directory).query())) == ["child", "parent"]


def test_a_process_that_ends_closes_its_segment(directory: Path) -> None:
    code = "import sys; from actionspan.recorder import JsonlRecorder as J; r = J(sys.argv[1]); r.emit({'kind': 'x'})"
    process = python(code, directory)
    process.communicate()
    (segment,) = segments(directory)
    assert json.loads(segment.read_bytes().splitlines()[-1])["kind"] == "segment.trailer"

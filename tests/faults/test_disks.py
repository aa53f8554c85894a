"""Disks that are full, files that may not grow, directories that go: the agent answers, and what is lost is counted."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor
from actionspan.recorder import RecorderStats, read, verify
from scripted import calls, script

pytestmark = [
    pytest.mark.contained,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

THE_OUTPUT = "".join(("the very", " object"))


class Failure(Exception):
    """What the application raises here."""


THE_FAILURE = Failure("the application's own")


@pytest.fixture
def record_to() -> Iterator[Callable[[Path], JsonlRecorder]]:
    """Records every agent to a directory."""
    opened: list[JsonlRecorder] = []

    def begin(directory: Path) -> JsonlRecorder:
        opened.append(JsonlRecorder(directory))
        PydanticAIInstrumentor().instrument(mode="content", policy=ActionPolicy.everything(), recorder=opened[-1])
        return opened[-1]

    yield begin
    PydanticAIInstrumentor().uninstrument()
    for recorder in opened:
        recorder.close()


def agent(deed: Callable[[], object]) -> Agent[None, Any]:
    """Calls a tool that does `deed`, and answers with the very object that the application has."""

    def finish(text: str) -> str:
        return THE_OUTPUT

    made = Agent(
        script(calls(("act", {}, "c1")), calls(("final_result", {"text": "done"}, "c2"))),
        name="outer",
        output_type=finish,
    )

    @made.tool_plain
    def act() -> str:
        deed()
        return "acted" * 100

    return made


def check_unharmed(deed: Callable[[], object] = lambda: None) -> None:
    def fail() -> None:
        raise THE_FAILURE

    assert asyncio.run(agent(deed).run("go")).output is THE_OUTPUT
    with pytest.raises(Failure) as caught:
        asyncio.run(agent(fail).run("go"))
    assert caught.value is THE_FAILURE


def runs(directory: Path) -> list[str]:
    return [event["outcome"] for event in read(directory).query(kind="agent.run.*") if event["phase"] != "start"]


def test_a_disk_that_is_full_from_the_middle_of_a_run(
    record_to: Callable[[Path], JsonlRecorder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    """The application sees nothing but one line in the log; recording goes on in a new segment once there is space."""
    recorder, full = record_to(tmp_path / "record"), list[bool]()
    write = os.write

    def no_space(descriptor: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("os.write", no_space)
    with caplog.at_level(logging.ERROR, "actionspan"):
        check_unharmed(lambda: full.append(True))
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        f"recording to {tmp_path / 'record'} fails"
    ]
    lost = recorder.stats().dropped
    assert lost > 0
    assert runs(tmp_path / "record") == []
    full.clear()
    check_unharmed()
    assert recorder.stats().dropped == lost
    recorder.close()
    assert runs(tmp_path / "record") == ["success", "error"]
    report = verify(tmp_path / "record")
    assert [event["kind"] for event in report.unfinished] == ["agent.run.start", "tool.execute.start"]
    assert (report.damaged, report.torn, report.unclosed) == (False, 0, 1)  # there was no room for its trailer


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_really_full(record_to: Callable[[Path], JsonlRecorder], small_disk: Path):
    """The application sees nothing; whole events are recorded up to the last that fits."""
    recorder = record_to(small_disk / "record")
    for _ in range(6):
        check_unharmed()
    stats = recorder.stats()
    assert stats.dropped > 0
    assert stats.bytes <= 64 * 1024
    recorder.close()
    report = verify(small_disk / "record")
    assert (report.events, report.unparseable, report.damaged) == (stats.written, 0, False)


def test_files_that_may_not_grow(record_to: Callable[[Path], JsonlRecorder], tmp_path: Path):
    """The application sees nothing: a quota that ends one segment begins another, and the event in between is lost."""
    recorder = record_to(tmp_path / "record")
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))
            for _ in range(6):
                check_unharmed()
            status = 0 if (recorder.stats().dropped > 0 and recorder.stats().segments > 1) else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    report = verify(tmp_path / "record")
    assert (report.unparseable, report.damaged) == (0, False)
    assert report.events > 50


def test_a_directory_that_is_removed_in_mid_run(record_to: Callable[[Path], JsonlRecorder], tmp_path: Path):
    """The application sees nothing; what is written until the loss is noticed is lost with the directory."""
    directory = tmp_path / "record"
    recorder = record_to(directory)
    check_unharmed(lambda: shutil.rmtree(directory, ignore_errors=True))
    while not directory.exists():  # noticed after 64 KiB
        check_unharmed()
    check_unharmed()
    recorder.close()
    assert runs(directory)[-2:] == ["success", "error"]
    assert recorder.stats().dropped == 0


def test_a_closed_recorder_is_no_concern_of_the_agent(record_to: Callable[[Path], JsonlRecorder], tmp_path: Path):
    """The application sees one line in the log, of a recorder that it closed itself."""
    recorder = record_to(tmp_path / "record")
    check_unharmed(recorder.close)
    assert recorder.stats() == RecorderStats(6, 0, recorder.stats().bytes, 1)

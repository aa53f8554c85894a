"""Segments: who may write where, when a new one begins, and what a failing file system costs."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import re
import signal
import stat
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from actionspan.recorder import (
    FanOutRecorder,
    JsonlRecorder,
    QueryNotSupported,
    Recorder,
    RecorderClosed,
    RecorderError,
    _log,
    follow,
    read,
    verify,
)
from actionspan.recorder._ticker import Ticker
from recorder.conftest import kinds, segments


def emit(recorder: JsonlRecorder, count: int, **fields: Any) -> None:
    for number in range(count):
        recorder.emit({"kind": "x", "number": number, **fields})


def numbers(directory: Path) -> list[int]:
    return [event["number"] for event in read(directory).query()]


def test_it_is_a_recorder(recorder: JsonlRecorder) -> None:
    assert isinstance(recorder, Recorder)
    assert issubclass(QueryNotSupported, RecorderError)


def test_the_directory_and_its_files_are_ours_alone(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "x"})
    assert stat.S_IMODE(recorder.directory.stat().st_mode) == 0o700
    (segment,) = segments(recorder.directory)
    assert stat.S_IMODE(segment.stat().st_mode) == 0o600
    assert re.fullmatch(r"actions-\d{8}T\d{6}\.\d{6}Z-[\w.-]+-\d+-[0-9a-f]{8}\.jsonl", segment.name)


def test_a_directory_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    with pytest.raises(PermissionError, match="writable by others"):
        JsonlRecorder(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        JsonlRecorder(tmp_path / "file")


def test_a_directory_that_cannot_be_written_to_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="not writable"):
        JsonlRecorder(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        {"durability": "sometimes"},
        {"max_segment_bytes": 0},
        {"max_segment_bytes": True},
        {"max_total_bytes": -1},
        {"max_age": 0},
        {"max_age": timedelta(0)},
        {"max_age": "1d"},
        {"file_mode": 0o400},
        {"file_mode": 0o777},
    ],
    ids=str,
)
def test_arguments_are_checked(directory: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        JsonlRecorder(directory, **arguments)
    assert not directory.exists()


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"kind": ""},
        {"kind": 5},
        {"kind": "segment.header"},
        {"kind": "x", "timestamp": "now"},
        {"kind": "x", "timestamp": float("nan")},
        {"kind": "x", "timestamp": 1e300},
        {"kind": "x", "time_unix_nano": 1.5},
        {"kind": "x", "time_unix_nano": 2**63},
    ],
    ids=str,
)
def test_an_event_without_a_kind_or_with_no_time_is_an_error(recorder: JsonlRecorder, event: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"kind|timestamp|time_unix_nano"):
        recorder.emit(event)


@pytest.mark.parametrize("event", [None, [], [("kind", "x")], "x"], ids=str)
def test_what_is_no_mapping_is_a_type_error(recorder: JsonlRecorder, event: Any) -> None:
    for each in (recorder, FanOutRecorder([recorder])):
        with pytest.raises(TypeError, match=f"an event is a mapping with a kind, not {type(event).__name__}"):
            each.emit(event)
    assert list(recorder.query()) == []


def test_times_are_filled_from_each_other(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "x", "timestamp": 12.5})
    recorder.emit({"kind": "x", "time_unix_nano": 13_500_000_000})
    recorder.emit({"kind": "x", "timestamp": 14, "time_unix_nano": 15_000_000_000})
    recorder.emit({"kind": "x", "time_unix_nano": -1_500_000_000})
    recorder.emit({"kind": "x"})
    times = [(event["timestamp"], event["time_unix_nano"]) for event in recorder.query()]
    assert times[:4] == [(-1.5, -1_500_000_000), (12.5, 12_500_000_000), (13.5, 13_500_000_000), (14.0, 15_000_000_000)]
    assert times[4][0] == times[4][1] / 10**9


def test_a_resource_and_scope_that_are_none_are_passed_over(recorder: JsonlRecorder) -> None:
    for wrong in (7, "x", {}, {"resource": object()}):
        recorder.emit({"kind": "x", "resource_scope": wrong})
    assert [event.get("resource_scope") for event in recorder.query()][:2] == [None, None]


def test_closing_twice_is_fine_and_emitting_afterwards_is_not(recorder: JsonlRecorder) -> None:
    emit(recorder, 2)
    recorder.close()
    recorder.close()
    with pytest.raises(RecorderClosed):
        recorder.emit({"kind": "x"})
    assert kinds(recorder.query()) == ["x", "x"]
    assert kinds(recorder.replay()) == ["x", "x"]


def test_nothing_is_written_before_the_first_event(directory: Path) -> None:
    with JsonlRecorder(directory):
        assert segments(directory) == []
    assert segments(directory) == []


def test_a_recorder_that_is_dropped_closes_its_segment(directory: Path) -> None:
    recorder = JsonlRecorder(directory)
    emit(recorder, 1)
    del recorder
    gc.collect()
    report = verify(directory)
    assert (report.unclosed, report.live, report.problems) == (0, 0, [])


def test_a_full_segment_is_followed_by_another(directory: Path) -> None:
    with JsonlRecorder(directory, max_segment_bytes=4000) as recorder:
        emit(recorder, 100)
        assert recorder.stats().segments == len(segments(directory)) > 2
    assert numbers(directory) == list(range(100))
    assert all(segment.stat().st_size < 4800 for segment in segments(directory))
    trailers = [json.loads(segment.read_bytes().splitlines()[-1]) for segment in segments(directory)]
    assert sum(trailer["events"] for trailer in trailers) == 100
    assert [trailer["number"] for trailer in trailers] == list(range(1, len(trailers) + 1))
    assert verify(directory).problems == []


@pytest.mark.parametrize("durability", ["write", "fsync", "batch"])
def test_every_durability_writes_everything(directory: Path, durability: Any) -> None:
    with JsonlRecorder(directory, durability=durability, max_segment_bytes=20_000) as recorder:
        threads = [threading.Thread(target=emit, args=(recorder, 200)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.flush()
        assert sorted(numbers(directory)) == sorted(list(range(200)) * 4)
    assert recorder.stats().written == 800
    report = verify(directory)
    assert (report.events, report.damaged) == (800, False)


def test_a_batch_is_written_in_whole_lines_of_one_write(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = os.write
    monkeypatch.setattr("os.write", lambda fd, data: (sizes.append(len(data)), write(fd, data))[1])
    with JsonlRecorder(directory, durability="batch") as recorder:
        emit(recorder, 100, text="x" * 1000)
        assert len(sizes) == 2  # the header, and one batch of 64 KiB
        recorder.flush()
    assert numbers(directory) == list(range(100))


def test_fsync_is_called_on_flush(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with JsonlRecorder(directory, durability="fsync") as recorder:
        emit(recorder, 1)
        recorder.flush()
        assert synced


class Disk:
    """A disk that is full while `full` says so: the next write takes that many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: int | None = None
        self._write = os.write
        monkeypatch.setattr("os.write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.full is None:
            return self._write(descriptor, data)
        if self.full == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(descriptor, data[: self.full])


@pytest.mark.parametrize("room", [0, 17])
def test_a_full_disk_costs_the_events_it_has_no_room_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, room: int
) -> None:
    disk = Disk(monkeypatch)
    with JsonlRecorder(directory) as recorder:
        emit(recorder, 3)
        disk.full = room
        with caplog.at_level(logging.ERROR, "actionspan"):
            emit(recorder, 4)
        assert [record.message.partition(",")[0] for record in caplog.records] == [f"recording to {directory} fails"]
        disk.full = None
        emit(recorder, 2, later=True)
        stats = recorder.stats()
        assert (stats.written, stats.dropped) == (5, 4)
    assert sorted(numbers(directory)) == [0, 0, 1, 1, 2]
    assert len(segments(directory)) == 2  # and none that is empty
    report = verify(directory)
    assert (report.events, report.unparseable, report.torn, report.problems) == (5, 0, 0, [])


def test_a_short_write_that_cannot_be_undone_leaves_a_torn_line_that_readers_ignore(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.ftruncate", refuse)
    with JsonlRecorder(directory) as recorder:
        emit(recorder, 2)
        disk.full = 9
        emit(recorder, 1)
        disk.full = None
        emit(recorder, 2)
    assert sorted(numbers(directory)) == [0, 0, 1, 1]
    assert verify(directory).torn == 1


def test_a_removed_directory_is_made_again(directory: Path) -> None:
    with JsonlRecorder(directory) as recorder:
        emit(recorder, 1)
        for path in segments(directory):
            path.unlink()
        directory.rmdir()
        emit(recorder, 200, text="x" * 1000)
    assert numbers(directory)[-1] == 199
    assert recorder.stats().segments == 2


def test_emitting_from_a_signal_handler_in_the_middle_of_emitting(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = JsonlRecorder(directory)
    write = os.write
    raised: list[int] = []

    def interrupted(descriptor: int, data: bytes) -> int:
        if b'"outer"' in data and not raised:
            raised.append(1)
            signal.raise_signal(signal.SIGUSR1)  # the handler runs before this returns
        return write(descriptor, data)

    monkeypatch.setattr("os.write", interrupted)
    before = signal.signal(signal.SIGUSR1, lambda *_: recorder.emit({"kind": "inner"}))
    try:
        recorder.emit({"kind": "outer"})
    finally:
        signal.signal(signal.SIGUSR1, before)
    recorder.close()
    assert kinds(read(directory).replay()) == ["outer", "inner"] or kinds(read(directory).replay()) == [
        "inner",
        "outer",
    ]
    sequence = [json.loads(line).get("seq") for line in segments(directory)[0].read_bytes().splitlines()]
    assert sequence == [None, 1, 2, None]


def test_an_interrupt_in_the_middle_of_a_write_does_not_break_the_chain(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def interrupted(descriptor: int, data: bytes) -> int:
        write(descriptor, data)
        raise KeyboardInterrupt

    with JsonlRecorder(directory) as recorder:
        emit(recorder, 1)
        with monkeypatch.context() as patch:
            patch.setattr("os.write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                emit(recorder, 1)
        emit(recorder, 1)
    report = verify(directory)
    assert (report.events, report.problems) == (3, [])


def test_two_writers_with_the_same_host_pid_and_clock_have_two_files(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import datetime

    from actionspan.recorder import _directory

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override] # the same moment always
            return datetime(2026, 1, 1, tzinfo=tz)

    digits = iter(["00000000", "00000000", "00000001"])
    monkeypatch.setattr(_directory, "datetime", Stopped)
    one, two = JsonlRecorder(directory), JsonlRecorder(directory)
    with one, two:
        monkeypatch.setattr(_directory.secrets, "token_hex", lambda count: next(digits))
        emit(one, 1)
        emit(two, 1)
    assert len(segments(directory)) == 2
    assert len({segment.name[:-15] for segment in segments(directory)}) == 1
    assert numbers(directory) == [0, 0]


@pytest.mark.parametrize("durability", ["batch", "fsync"])
def test_what_waits_is_written_after_a_while_without_anybody_asking(
    directory: Path, monkeypatch: pytest.MonkeyPatch, durability: Any
) -> None:
    for name in ("_BATCH_SECONDS", "_SYNC_SECONDS"):
        monkeypatch.setattr(_log, name, 0.001)
    recorder = JsonlRecorder(directory, durability=durability)
    recorder.emit({"kind": "x"})
    assert next(follow(directory, from_start=True))["kind"] == "x"
    recorder.close()


def test_a_ticker_goes_on_until_it_is_stopped_or_what_it_works_for_is_gone() -> None:
    class Worker:
        def __init__(self) -> None:
            self.worked = threading.Semaphore(0)

        def work(self) -> None:
            self.worked.release()

    def started(worker: Worker) -> tuple[Ticker, threading.Thread]:
        before = set(threading.enumerate())
        ticker = Ticker(0.001, worker.work)
        (thread,) = set(threading.enumerate()) - before
        return ticker, thread

    worker = Worker()
    ticker, thread = started(worker)
    for _ in range(3):
        worker.worked.acquire()
    ticker.stop()
    thread.join()
    _, thread = started(worker)
    del worker
    gc.collect()
    thread.join()

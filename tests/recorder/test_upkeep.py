"""Retention, compaction, erasure and verification: the record over its life."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actionspan.recorder import (
    CompressionUnavailable,
    JsonlRecorder,
    VerifyReport,
    compact,
    erase,
    read,
    verify,
)
from recorder.conftest import kinds, segments


def record(directory: Path, count: int = 60, **options: Any) -> None:
    with JsonlRecorder(directory, max_segment_bytes=options.pop("max_segment_bytes", 2500), **options) as recorder:
        for number in range(count):
            recorder.emit({"kind": "x", "number": number, "conversation_id": f"c{number % 3}", "pad": "p" * 30})


def numbers(directory: Path, **filters: Any) -> list[int]:
    return [event["number"] for event in read(directory).query(**filters)]


def tombstones(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "tombstones.jsonl").read_bytes().splitlines()]


def test_a_sound_record_verifies(directory: Path) -> None:
    record(directory)
    count = len(segments(directory))
    assert verify(directory) == VerifyReport(segments=count, lines=60 + 2 * count, events=60)


def test_one_changed_byte_is_found(directory: Path) -> None:
    record(directory)
    victim = segments(directory)[2]
    victim.write_bytes(victim.read_bytes().replace(b"pppp", b"pppq", 1))
    report = verify(directory)
    assert report.damaged
    assert report.problems == [f"{victim.name}: its bytes are not those its trailer was written for"]


def test_a_changed_segment_with_a_trailer_to_match_is_found(directory: Path) -> None:
    record(directory)
    victim, other = segments(directory)[2], segments(directory)[3]
    erased = erase(directory, {"number": next(read_segment(victim))["number"]})
    assert erased.events == 1
    assert not verify(directory).damaged
    (directory / "tombstones.jsonl").unlink()
    report = verify(directory)
    assert report.problems == [f"{victim.name}: its trailer is not the one that {other.name} was written after"]


def read_segment(path: Path) -> Any:
    return (
        event for line in path.read_bytes().splitlines() if "number" in (event := json.loads(line)) and "seq" in event
    )


def test_a_removed_segment_is_found(directory: Path) -> None:
    record(directory)
    victim, other = segments(directory)[2], segments(directory)[3]
    victim.unlink()
    assert verify(directory).problems == [f"{victim.name}: is missing; {other.name} was written after it"]


def test_a_removed_trailer_is_found(directory: Path) -> None:
    record(directory)
    victim, other = segments(directory)[2], segments(directory)[3]
    victim.write_bytes(b"".join(victim.read_bytes().splitlines(keepends=True)[:-1]))
    report = verify(directory)
    assert report.problems == [f"{victim.name}: its trailer is not the one that {other.name} was written after"]
    assert report.unclosed == 1


def test_lines_added_and_damaged_are_found(directory: Path) -> None:
    record(directory, 10, max_segment_bytes=10**6)
    (segment,) = segments(directory)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:4], b"garbage\n", *lines[4:]]) + b"more")
    report = verify(directory)
    assert report.unparseable == 1
    assert [problem.partition(": ")[2] for problem in report.problems] == [
        "its bytes are not those its trailer was written for",
        "has bytes after its trailer",
    ]


@pytest.mark.parametrize("damage", [
    lambda data: data[: len(data) // 2],
    lambda data: data[: len(data) // 2] + b"\0garbage" + data[len(data) // 2 + 8 :],
    lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    lambda data: b"",
    lambda data: b"garbage",
], ids=["cut short", "overwritten", "checksum", "empty", "nothing of ours"])  # fmt: skip
def test_a_damaged_compressed_segment_is_damage_and_no_exception(
    directory: Path, damage: Callable[[bytes], bytes]
) -> None:
    with JsonlRecorder(directory) as recorder:
        for number in range(200):
            recorder.emit(
                {"kind": "x", "call_id": f"{number}", "timestamp": float(number), "pad": os.urandom(500).hex()}
            )
    compact(directory)
    with JsonlRecorder(directory) as other:
        other.emit({"kind": "y", "timestamp": 1000.0})
    (segment,) = directory.glob("*.jsonl.zst")
    segment.write_bytes(damage(segment.read_bytes()))
    assert verify(directory).damaged
    reader = read(directory)
    *before, last = reader.query()
    assert last["kind"] == "y"
    assert [event["call_id"] for event in before] == [f"{number}" for number in range(len(before))]
    assert list(read(directory).query(call_id="199")) in ([], before[-1:])


def test_calls_are_counted(recorder: JsonlRecorder) -> None:
    def call(call_id: str, phase: str, **fields: Any) -> None:
        recorder.emit(
            {"kind": f"tool.execute.{phase}", "phase": phase, "call_id": call_id, "action_id": call_id, **fields}
        )

    call("one", "start")
    call("one", "end", outcome="success")
    call("two", "start")
    call("two", "error", outcome="error")
    call("two", "end", outcome="success")
    call("three", "start")
    call("four", "end")
    report = verify(recorder.directory)
    assert (report.duplicates, report.without_outcome, report.in_flight, report.live) == (["two"], 1, 1, 1)
    recorder.close()
    report = verify(recorder.directory)
    assert [start["call_id"] for start in report.unfinished] == ["three"]
    assert (report.in_flight, report.live) == (0, 0)


def test_retention_by_size_removes_the_oldest_closed_segments(directory: Path) -> None:
    record(directory, max_total_bytes=8_000)
    assert sum(path.stat().st_size for path in segments(directory)) < 8_000 + 2_500
    kept = numbers(directory)
    assert kept == list(range(kept[0], 60))
    assert kept[0] > 0
    assert {stone["reason"] for stone in tombstones(directory)} == {"retention"}
    assert verify(directory).problems == []


def test_retention_by_age_removes_old_segments_only(directory: Path) -> None:
    record(directory, 20)
    old = segments(directory)[:2]
    for path in old:
        os.utime(path, (1, 1))
    record(directory, 1, max_age=3600.0)
    assert not any(path.exists() for path in old)
    assert verify(directory).problems == []


def test_retention_leaves_live_segments_of_others_alone(directory: Path) -> None:
    with JsonlRecorder(directory) as other:
        other.emit({"kind": "x", "number": -1})
        record(directory, max_total_bytes=3_000)
        assert numbers(directory, extra_filter={"number": -1}) == [-1]


def test_retention_leaves_a_segment_alone_that_is_just_being_made(directory: Path) -> None:
    record(directory)
    new = directory / "actions-20200101T000000.000000Z-host-1-00000000.jsonl"
    new.touch()
    record(directory, 1, max_total_bytes=1)
    assert new.exists()
    assert len(segments(directory)) == 2


def test_retention_while_a_query_reads(directory: Path) -> None:
    record(directory)
    reader = read(directory)
    events = reader.query()
    seen = [next(events)["number"] for _ in range(3)]
    for path in segments(directory)[1:4]:
        path.unlink()
    seen += [event["number"] for event in events]
    assert seen == sorted(seen)
    assert seen[:3] == [0, 1, 2]
    assert seen[-1] == 59
    assert reader.report.removed == 3


def test_compaction_between_two_reads_and_during_one(directory: Path) -> None:
    record(directory)
    before = [event for event in read(directory).query()]
    during = read(directory).query()
    first = next(during)
    with JsonlRecorder(directory) as live:
        live.emit({"kind": "y"})
        report = compact(directory)
        assert (report.segments, report.live) == (len(segments(directory)) - 1, 1)
    assert report.bytes_after < report.bytes_before
    assert [first, *during] == before
    assert [event for event in read(directory).query(kind="x")] == before
    assert numbers(directory, extra_filter={"conversation_id": "c1"}) == list(range(1, 60, 3))
    assert verify(directory).damaged is False
    assert compact(directory).segments == 1  # the one that was live
    assert {path.stat().st_mode & 0o777 for path in segments(directory)} == {0o600}


def test_a_segment_in_both_forms_is_read_once(directory: Path) -> None:
    record(directory)
    plain = segments(directory)[0]
    data = plain.read_bytes()
    compact(directory)
    plain.write_bytes(data)
    assert numbers(directory) == list(range(60))
    assert verify(directory).events == 60
    compact(directory)
    assert not plain.exists()


def test_without_zstandard_there_is_a_named_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(directory)
    compact(directory)
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "zstandard":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CompressionUnavailable, match="actionspan\\[zstd\\]"):
        list(read(directory).query())
    with pytest.raises(CompressionUnavailable):
        compact(directory)


@pytest.mark.parametrize("compressed", [False, True])
def test_erasing_one_conversation_leaves_the_rest(directory: Path, compressed: bool) -> None:
    record(directory)
    if compressed:
        compact(directory)
    kept = [event for event in read(directory).query() if event["conversation_id"] != "c1"]
    report = erase(directory, {"conversation_id": "c1"})
    assert (report.events, report.segments, report.live, report.unreadable) == (20, len(segments(directory)), [], 0)
    assert list(read(directory).query()) == kept
    if not compressed:
        assert not any(b'"c1"' in path.read_bytes() for path in segments(directory))
    stones = [stone for stone in tombstones(directory) if stone["reason"] == "erase"]
    assert sum(stone["events"] for stone in stones) == 20
    assert verify(directory).problems == []
    assert erase(directory, {"conversation_id": "c1"}).segments == 0
    erase(directory, lambda event: event["number"] == 0)
    assert verify(directory).problems == []
    assert numbers(directory)[0] == 2


def test_erasing_leaves_live_segments_and_says_so(recorder: JsonlRecorder) -> None:
    recorder.emit({"kind": "x", "conversation_id": "c"})
    report = erase(recorder.directory, {"conversation_id": "c"})
    assert (report.events, report.live) == (0, [segments(recorder.directory)[0].name])
    recorder.close()
    assert erase(recorder.directory, {"conversation_id": "c"}).events == 1
    assert list(recorder.query()) == []


def test_erasing_everything_by_mistake_is_refused(recorder: JsonlRecorder) -> None:
    with pytest.raises(ValueError, match="empty"):
        erase(recorder.directory, {})


def test_erasing_removes_lines_nobody_can_read(directory: Path) -> None:
    record(directory, 6, max_segment_bytes=10**6)
    (segment,) = segments(directory)
    data = segment.read_bytes().splitlines(keepends=True)[:-1]
    segment.write_bytes(b"".join(data) + b'{"conversation_id":"c1')
    report = erase(directory, {"conversation_id": "c0"})
    assert (report.events, report.unreadable) == (2, 1)
    assert numbers(directory) == [1, 2, 4, 5]
    assert verify(directory).torn == 0
    assert kinds(read(directory).query()) == ["x"] * 4


def test_a_segment_under_the_name_of_another_is_found(directory: Path) -> None:
    record(directory)
    first, second, *_ = segments(directory)
    first.unlink()
    second.rename(first)
    assert f"{first.name}: its trailer is that of {second.name}" in verify(directory).problems


@pytest.mark.parametrize("work", [verify, lambda path: erase(path, {"number": 1}), compact])
def test_a_directory_that_is_none_is_an_error_at_once(tmp_path: Path, work: Callable[[Path], object]) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(NotADirectoryError, match=rf"{path} is not a directory"):
            work(path)


def test_erasing_what_a_segment_does_not_have_leaves_its_unreadable_lines_and_says_so(directory: Path) -> None:
    record(directory, 3)
    (segment,) = segments(directory)
    lines = segment.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], b"nobody can read this\n", *lines[2:]])
    segment.write_bytes(damaged)
    report = erase(directory, {"number": 99})
    assert (report.left, report.segments, report.events) == ([segment.name], 0, 0)
    assert segment.read_bytes() == damaged


def test_tombstones_that_are_none_are_passed_over(directory: Path) -> None:
    record(directory)
    victim = segments(directory)[2]
    erase(directory, {"number": next(read_segment(victim))["number"]})
    with (directory / "tombstones.jsonl").open("ab") as file:
        file.write(
            b'{"kind":"something else"}\n{"kind":"segment.tombstone","segment":5}\nnot JSON\n[1]\n{"a":"\xff"}\n'
            + b"[" * 100_000
            + b"\n"
        )
    assert not verify(directory).damaged


def test_retention_removes_compressed_segments_too_and_none_is_taken_for_lost(directory: Path) -> None:
    pytest.importorskip("zstandard")
    record(directory)
    compact(directory)
    for path in segments(directory):
        os.utime(path, (1, 1))
    record(directory, 1, max_age=3600.0)
    assert numbers(directory) == [0]
    assert {stone["reason"] for stone in tombstones(directory)} == {"compact", "retention"}
    assert verify(directory).problems == []

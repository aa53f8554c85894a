"""Queries and replay: what matches, in which order, over every kind of segment."""

from __future__ import annotations

import json
import random
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from actionspan.recorder import (
    JsonlRecorder,
    ReadReport,
    UnknownCallId,
    VerifyReport,
    _blocks,
    _source,
    compact,
    follow,
    read,
    verify,
)
from recorder.conftest import kinds, segments

_follow = sys.modules["actionspan.recorder.follow"]
"""The module; the package has a function of that name."""

SECOND = 10**9
NEW_YEAR = 1_767_225_600  # 2026-01-01T00:00:00Z


@pytest.fixture
def year(directory: Path) -> Path:
    """Events at seconds 0 to 5 of a year."""
    with JsonlRecorder(directory) as recorder:
        for number, kind in enumerate(["tool.a.start", "tool.a.end", "model.b.start", "model.b.error", "tool", "hook"]):
            recorder.emit(
                {
                    "kind": kind,
                    "timestamp": float(NEW_YEAR + number),
                    "call_id": f"call {number // 2}",
                    "agent_id": "a" if number < 3 else 'b "é"',
                    "attributes": {"gen_ai.tool.name": f"t{number % 2}", "x": {"y.z": number}},
                    "content": {"gen_ai.input.messages": '{"text":"\\u00e9"}'},
                }
            )
    return directory


def found(directory: Path, **filters: Any) -> list[int]:
    return [int(event["timestamp"]) - NEW_YEAR for event in read(directory).query(**filters)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tool.a.end", [1]),
        ("tool.*", [0, 1]),
        ("*.error", [3]),
        ("*", [0, 1, 2, 3, 4, 5]),
        ("t??l", [4]),
        ("[mh]*", [2, 3, 5]),
        ("nothing", []),
        ("", []),
    ],
)
def test_kind_is_exact_or_a_shell_pattern(year: Path, kind: str, expected: list[int]) -> None:
    assert found(year, kind=kind) == expected


@pytest.mark.parametrize(
    "moment",
    [
        NEW_YEAR + 2,
        NEW_YEAR + 2.0,
        datetime.fromtimestamp(NEW_YEAR + 2, UTC),
        datetime.fromtimestamp(NEW_YEAR + 2, timezone(timedelta(hours=5))),
        "2026-01-01T00:00:02Z",
        "2026-01-01T01:00:02+01:00",
    ],
)
def test_since_is_inclusive_and_until_exclusive(year: Path, moment: Any) -> None:
    assert found(year, since=moment) == [2, 3, 4, 5]
    assert found(year, until=moment) == [0, 1]
    assert found(year, since=moment, until=moment) == []


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01T00:00:00", "yesterday", float("nan"), True, b"1"])
def test_a_naive_or_unreadable_time_is_refused_at_once(year: Path, moment: Any) -> None:
    with pytest.raises(ValueError, match="since"):
        read(year).query(since=moment)


def test_filters_are_conjunctive(year: Path) -> None:
    assert found(year, agent_id="a") == [0, 1, 2]
    assert found(year, agent_id='b "é"', kind="*o*") == [3, 4, 5]
    assert found(year, call_id="call 1") == [2, 3]
    assert found(year, call_id="call 1", kind="*.error", agent_id='b "é"', since=NEW_YEAR) == [3]
    assert found(year, call_id="call") == []


@pytest.mark.parametrize(
    ("extra_filter", "expected"),
    [
        ({"attributes.gen_ai.tool.name": "t1"}, [1, 3, 5]),
        ({"attributes.x.y.z": 4}, [4]),
        ({"attributes.x": {"y.z": 4}}, [4]),
        ({"content.gen_ai.input.messages.text": "é"}, [0, 1, 2, 3, 4, 5]),
        ({"agent_id": "a", "call_id": "call 1"}, [2]),
        ({"nowhere": None}, []),
        ({}, [0, 1, 2, 3, 4, 5]),
        (lambda event: event["kind"] == "hook", [5]),
    ],
)
def test_extra_filter(year: Path, extra_filter: Any, expected: list[int]) -> None:
    assert found(year, extra_filter=extra_filter) == expected


def test_a_filter_that_raises_stops_the_query_with_its_exception(year: Path) -> None:
    events = read(year).query(extra_filter=lambda event: 1 / (NEW_YEAR + 2 - event["timestamp"]))
    assert [next(events)["kind"], next(events)["kind"]] == ["tool.a.start", "tool.a.end"]
    with pytest.raises(ZeroDivisionError):
        next(events)


def test_extra_filter_must_be_a_mapping_or_a_callable(year: Path) -> None:
    with pytest.raises(TypeError, match="extra_filter"):
        read(year).query(extra_filter="kind=x")  # type: ignore[arg-type] # on purpose


def test_replay_starts_at_the_first_event_of_a_call(year: Path) -> None:
    assert kinds(read(year).replay("call 1")) == ["model.b.start", "model.b.error", "tool", "hook"]
    assert len(list(read(year).replay())) == 6
    with pytest.raises(UnknownCallId):
        read(year).replay("call 9")


def test_events_of_the_same_time_keep_their_order_and_start_at_the_call(recorder: JsonlRecorder) -> None:
    for number in range(5):
        recorder.emit({"kind": "x", "time_unix_nano": 7, "call_id": str(number)})
    assert [event["call_id"] for event in recorder.replay("2")] == ["2", "3", "4"]


def test_an_empty_directory_has_no_events_and_a_missing_one_is_an_error(directory: Path) -> None:
    directory.mkdir()
    assert list(read(directory).query()) == []
    with pytest.raises(UnknownCallId):
        read(directory).replay("x")
    with pytest.raises(NotADirectoryError):
        read(directory / "missing")


def test_files_that_are_not_ours_are_left_alone(year: Path) -> None:
    for name in ("notes.jsonl", "actions-x.jsonl", "actions-20260101T000000.000000Z-h-1-0123abcd.jsonl.tmp"):
        (year / name).write_text('{"kind":"x"}\n')
    (year / "sub").mkdir()
    assert len(list(read(year).query())) == 6


FOREIGN = "actions-20260101T000000.000000Z-elsewhere-1-0123abcd.jsonl"


def test_segments_of_another_program_are_read_line_by_line(year: Path) -> None:
    lines = [
        '{ "kind": "foreign", "agent_id": "a", "timestamp": 1767225601.5, "new": {"field": 1} }',
        '{"kind":"late","timestamp":1767225600}\r',
        "not JSON",
        "[1]",
        '{"no":"kind"}',
        '{"kind":"escaped","agent_id":"\\u0061","timestamp":1767225602,"v":2}',
        '{"kind":"torn"',
    ]
    (year / FOREIGN).write_bytes("\n".join(lines).encode() + b"\xff")
    reader = read(year)
    assert [event["kind"] for event in reader.query(agent_id="a")] == [
        "tool.a.start",
        "tool.a.end",
        "foreign",
        "escaped",
        "model.b.start",
    ]
    assert (reader.report.skipped, reader.report.newer, reader.report.segments) == (3, 1, 2)
    assert kinds(read(year).query(until=NEW_YEAR + 1)) == ["late", "tool.a.start"]


def test_a_torn_last_line_is_ignored_and_counted(year: Path) -> None:
    (segment,) = segments(year)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-1]) + b'{"v":1,"seq":7,"time_unix_nano":1,"ki')
    reader = read(year)
    assert len(list(reader.query())) == 6
    assert reader.report == ReadReport(segments=1, decoded=7, torn=0, skipped=0) or reader.report.torn in (0, 1)


def test_a_line_that_is_not_json_in_our_own_segment_is_skipped_and_counted(year: Path) -> None:
    (segment,) = segments(year)
    lines = segment.read_bytes().splitlines(keepends=True)
    lines.insert(3, b"\x00" * 100 + b"\n")
    segment.write_bytes(b"".join(lines))
    reader = read(year)
    assert len(list(reader.query())) == 6
    assert reader.report.skipped == 1


@pytest.mark.parametrize("text", [False, True])
def test_a_damaged_line_among_those_that_a_search_finds_costs_that_line_alone(year: Path, text: bool) -> None:
    (segment,) = segments(year)
    lines = segment.read_bytes().splitlines(keepends=True)
    lines.insert(3, b'{"agent_id":"a","kind":"tool.a.end", torn\n')
    segment.write_bytes(b"".join(lines))
    reader = read(year)
    events = list(reader.query(agent_id="a", text=text))
    assert [int(event["timestamp"]) - NEW_YEAR for event in events] == [0, 1, 2]
    assert all(event["content"]["gen_ai.input.messages"] for event in events)
    assert reader.report.skipped == 1


@pytest.mark.parametrize("of_another_program", [False, True])
def test_finished_is_what_has_an_outcome(directory: Path, of_another_program: bool) -> None:
    with JsonlRecorder(directory) as recorder:
        for number, outcome in enumerate([None, "success", None, "error"]):
            fields = {} if number == 0 else {"outcome": outcome}
            recorder.emit(
                {
                    "kind": "tool.execute.end",
                    "timestamp": float(NEW_YEAR + number),
                    "attributes": {"said": '"outcome":'},
                    "resource_scope": {"resource": {"attributes": {"service.name": "s"}}, "scope": {}},
                    **fields,
                }
            )
    if of_another_program:
        (segment,) = segments(directory)
        spaced = [line.replace(b'"outcome":', b'"outcome" : ') for line in segment.read_bytes().splitlines(True)[1:-1]]
        segment.write_bytes(b"".join(spaced))
    assert found(directory, finished=True) == [1, 3]
    assert found(directory, finished=True, extra_filter={"outcome": "error"}) == [3]
    origins = [event["resource_scope"]["resource"] for event in read(directory).query(finished=True)]
    assert origins == [{"attributes": {"service.name": "s"}}] * 2


@pytest.mark.parametrize("place", [0, 1, -1], ids=["header", "context", "trailer"])
@pytest.mark.parametrize("rest", [b'"\xff"}', b"[" * 100_000], ids=["no UTF-8", "nested without end"])
def test_a_segments_own_line_that_cannot_be_read_is_like_one_that_is_not_there(
    year: Path, place: int, rest: bytes
) -> None:
    (segment,) = segments(year)
    header, *events, trailer = segment.read_bytes().splitlines(keepends=True)
    context = b'{"v":1,"kind":"segment.context"}\n'
    lines = [header, context, *events, trailer]
    kind = [b"header", b"context", b"trailer"][place]
    lines[place] = b'{"kind":"segment.' + kind + b'","x":' + rest + b"\n"
    segment.write_bytes(b"".join(lines))
    reader = read(year)
    assert len(list(reader.query())) == len(list(reader.query(agent_id="a"))) * 2 == 6
    assert reader.report.skipped > 0
    assert len(followed(year)) == 6
    assert verify(year).damaged


def followed(record: Path) -> list[dict[str, Any]]:
    """All that is there: a block of each segment a turn."""
    turns = count()
    return list(follow(record, from_start=True, wait=lambda seconds: next(turns) > 200))


@pytest.mark.parametrize("read_record", [
    lambda record: list(read(record).query()),
    lambda record: list(read(record).query(agent_id="a")),
    lambda record: list(read(record).query(extra_filter={"agent_id": "a"})),
    followed,
    verify,
])  # fmt: skip
@pytest.mark.parametrize("compressed", [False, True])
def test_a_line_of_any_length_costs_no_memory(
    directory: Path, read_record: Callable[[Path], Any], compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_blocks, "LONGEST_LINE", 2**18)
    monkeypatch.setattr(_follow, "LONGEST_LINE", 2**18)
    with JsonlRecorder(directory) as recorder:
        recorder.emit({"kind": "x", "agent_id": "a", "timestamp": 1.0})
        recorder.emit({"kind": "x", "agent_id": "a", "timestamp": 2.0})
    (segment,) = segments(directory)
    header, first, second, trailer = segment.read_bytes().splitlines(keepends=True)
    event = b'{"v":1,"kind":"x","time_unix_nano":1,"agent_id":"a"}'
    segment.write_bytes(header + first + b"0" * 2**23 + event + b"\n" + second + trailer)
    if compressed:
        compact(directory)
    tracemalloc.start()
    try:
        found = read_record(directory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * 2**20, "less than the line has"
    if isinstance(found, VerifyReport):
        assert found.unparseable == 1
        assert found.damaged
    else:
        assert [event["timestamp"] for event in found] == [1.0, 2.0]


def test_a_version_we_do_not_know_is_read_with_a_warning(year: Path, caplog: pytest.LogCaptureFixture) -> None:
    (segment,) = segments(year)
    segment.write_bytes(segment.read_bytes().replace(b'{"v":1,"seq"', b'{"v":9,"seq"'))
    reader = read(year)
    assert len(list(reader.query())) == 6
    assert reader.report.newer == 6
    assert "version 9" in caplog.text


def shuffled(directory: Path, count: int, disorder: int, *, segment_bytes: int = 30_000) -> list[int]:
    """Events out of order by up to `disorder` nanoseconds, in several segments of two writers; their sorted times."""
    chance = random.Random(disorder)
    times: list[int] = []
    with (
        JsonlRecorder(directory, max_segment_bytes=segment_bytes) as one,
        JsonlRecorder(directory, max_segment_bytes=segment_bytes) as two,
    ):
        for number in range(count):
            time = NEW_YEAR * SECOND + number * 1000 + chance.randint(0, disorder)
            times.append(time)
            recorder = one if chance.random() < 0.5 else two
            recorder.emit({"kind": "x", "agent_id": f"agent {number % 10}", "time_unix_nano": time, "pad": "p" * 50})
    return sorted(times)


@pytest.mark.parametrize("disorder", [0, 5_000, 40_000_000, 3 * SECOND])
@pytest.mark.parametrize("compressed", [False, True])
def test_order_is_by_time_however_they_were_written(
    directory: Path, monkeypatch: pytest.MonkeyPatch, disorder: int, compressed: bool
) -> None:
    for module in (_blocks, _source):
        monkeypatch.setattr(module, "DECODED_BLOCK", 4096)
        monkeypatch.setattr(module, "BLOCK", 4096)
    times = shuffled(directory, 2_000, disorder)
    assert len(segments(directory)) > 6
    if compressed:
        assert compact(directory).segments > 6
    assert [event["time_unix_nano"] for event in read(directory).query()] == times
    some = [event["time_unix_nano"] for event in read(directory).query(agent_id="agent 3")]
    assert some == sorted(some)
    assert len(some) == 200


def test_events_of_one_time_in_several_segments_are_ordered_by_segment(directory: Path) -> None:
    with JsonlRecorder(directory) as one, JsonlRecorder(directory) as two:
        for number in range(6):
            (one, two)[number % 2].emit({"kind": "x", "writer": number % 2, "time_unix_nano": 5 + number // 4})
        for _ in range(2):
            assert [event["writer"] for event in one.query()] == [0, 0, 1, 1, 0, 1]
            one.close()
            two.close()


def test_live_segments_are_read_as_far_as_they_are_written(directory: Path) -> None:
    with JsonlRecorder(directory) as one, JsonlRecorder(directory) as two:
        for number in range(100):
            (one if number % 2 else two).emit({"kind": "x", "time_unix_nano": 10_000 - number * 7})
        times = [event["time_unix_nano"] for event in one.query()]
        assert times == sorted(times)
        assert len(times) == 100


def test_a_query_does_not_see_what_is_written_after_it_began(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source, "DECODED_BLOCK", 4096)
    with JsonlRecorder(directory) as recorder:

        def emit(start: int) -> None:
            for number in range(start, start + 50):
                recorder.emit({"kind": "x", "time_unix_nano": number, "pad": "p" * 200})

        emit(100)
        events = recorder.query()
        times = [next(events)["time_unix_nano"]]
        emit(0)
        times += [event["time_unix_nano"] for event in events]
    assert times == list(range(100, 150))


def test_a_search_finds_what_a_full_read_finds(directory: Path) -> None:
    shuffled(directory, 500, 5_000)
    everything = [event for event in read(directory).query() if event["agent_id"] == "agent 7"]
    assert list(read(directory).query(agent_id="agent 7")) == everything
    assert list(read(directory).query(extra_filter={"agent_id": "agent 7"})) == everything


def test_a_resource_first_seen_late_in_a_segment_is_found_by_a_search(directory: Path) -> None:
    late = {"resource": {"attributes": {"late": True}}, "scope": {"name": "s"}}
    with JsonlRecorder(directory) as recorder:
        for number in range(50):
            recorder.emit({"kind": "x", "n": number})
        recorder.emit({"kind": "x", "agent_id": "wanted", "resource_scope": late})
    assert next(read(directory).query(agent_id="wanted"))["resource_scope"] == late


@pytest.mark.parametrize("direction", [1, -1], ids=["in order", "in reverse"])
def test_memory_stays_flat(directory: Path, direction: int) -> None:
    with JsonlRecorder(directory, max_segment_bytes=3_000_000) as recorder:
        for number in range(6_000):
            moment = NEW_YEAR * SECOND + direction * number * SECOND
            recorder.emit(
                {"kind": "x", "agent_id": f"agent {number % 50}", "time_unix_nano": moment, "pad": "p" * 1000}
            )
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(directory).query()) == 6_000
        assert sum(1 for _ in read(directory).query(agent_id="agent 7")) == 120
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_segment_outside_the_time_asked_for_is_not_opened(directory: Path) -> None:
    shuffled(directory, 500, 0)
    reader = read(directory)
    assert len(list(reader.query(since=NEW_YEAR + 499e-6))) == 1
    assert reader.report.segments <= 2


def test_a_replay_from_a_call_does_not_open_what_was_closed_before(directory: Path) -> None:
    shuffled(directory, 500, 0)
    *_, last = read(directory).query()
    with JsonlRecorder(directory) as recorder:
        recorder.emit({**last, "call_id": "the one"})
    reader = read(directory)
    assert [event["call_id"] for event in reader.replay("the one")] == ["the one"]
    assert len(segments(directory)) > 4


def test_a_path_into_what_is_no_mapping_leads_nowhere(year: Path) -> None:
    assert list(read(year).query(extra_filter={"kind.inside": "x"})) == []


@pytest.mark.parametrize("field", ["first", "last", "lateness"])
def test_a_trailer_that_makes_no_sense_is_not_believed(year: Path, field: str) -> None:
    before = list(read(year).query())
    (segment,) = segments(year)
    *lines, trailer = segment.read_bytes().splitlines(keepends=True)
    stated = json.loads(trailer) | {field: "soon"}
    segment.write_bytes(b"".join([*lines, json.dumps(stated, separators=(",", ":")).encode() + b"\n"]))
    assert list(read(year).query()) == before
    assert list(read(year).query(since=NEW_YEAR + 10**6)) == []


def test_the_times_of_another_programs_event_are_those_it_has(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    lines = [
        '{"kind":"both","time_unix_nano":3000000000,"timestamp":9.5}',
        '{"kind":"nanoseconds","time_unix_nano":2000000000,"timestamp":"soon"}',
        '{"kind":"seconds","time_unix_nano":null,"timestamp":1}',
        '{"kind":"none","timestamp":true}',
    ]
    (directory / FOREIGN).write_text("\n".join(lines) + "\n")
    times = {event["kind"]: (event["time_unix_nano"], event["timestamp"]) for event in read(directory).query()}
    assert list(times.items()) == [
        ("none", (0, 0.0)),
        ("seconds", (10**9, 1.0)),
        ("nanoseconds", (2 * 10**9, 2.0)),
        ("both", (3 * 10**9, 9.5)),
    ]

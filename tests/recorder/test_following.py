"""Following a record: rotation, new processes, and an end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actionspan.recorder import JsonlRecorder, compact, follow
from recorder.conftest import segments

ORIGIN = {"resource": {"attributes": {"a": 1}}, "scope": None}


def steps(*work: Callable[[], object]) -> Callable[[float], object]:
    """A `wait` that does the next piece of work each time, and then ends the iteration."""
    remaining = list(work)

    def wait(seconds: float) -> bool:
        assert seconds == 0.25
        if not remaining:
            return True
        remaining.pop(0)()
        return False

    return wait


def test_it_follows_rotation_and_new_processes(directory: Path) -> None:
    with JsonlRecorder(directory, max_segment_bytes=1500) as one, JsonlRecorder(directory) as two:

        def emit(recorder: JsonlRecorder, *numbers: int) -> None:
            for number in numbers:
                recorder.emit({"kind": "x", "number": number, "resource_scope": ORIGIN})

        emit(one, -2, -1)
        events = list(
            follow(
                directory,
                wait=steps(
                    lambda: emit(one, *range(20)),
                    lambda: emit(two, 20, 21),
                    one.close,
                    lambda: compact(directory),
                    lambda: emit(two, 22),
                ),
            )
        )
    assert [event["number"] for event in events] == list(range(23))
    assert all(event["resource_scope"]["resource"] == ORIGIN["resource"] for event in events)
    assert len(segments(directory)) == 4


def test_it_can_begin_at_the_start(directory: Path) -> None:
    with JsonlRecorder(directory, max_segment_bytes=1500) as recorder:
        for number in range(30):
            recorder.emit({"kind": "x", "number": number})
        compact(directory)
        assert [event["number"] for event in follow(directory, from_start=True, wait=steps())] == list(range(30))
        assert list(follow(directory, wait=steps())) == []


def test_a_line_that_is_being_written_is_waited_for(directory: Path) -> None:
    with JsonlRecorder(directory) as recorder:
        recorder.emit({"kind": "x"})
        (segment,) = segments(directory)
        line = b'{"v":1,"seq":2,"time_unix_nano":5,"timestamp":5e-9,"kind":"y"}\n'

        def append(data: bytes) -> None:
            with segment.open("ab") as file:
                file.write(data)

        events = follow(directory, wait=steps(lambda: append(line[:30]), lambda: append(line[30:])))
        assert [event["kind"] for event in events] == ["y"]


def test_a_missing_directory_is_an_error_at_once(directory: Path) -> None:
    with pytest.raises(NotADirectoryError):
        follow(directory)


def test_retention_while_following(directory: Path) -> None:
    def emit(count: int, **options: Any) -> None:
        with JsonlRecorder(directory, max_segment_bytes=1500, **options) as recorder:
            for number in range(count):
                recorder.emit({"kind": "x", "number": number})

    emit(1)
    events = list(follow(directory, wait=steps(lambda: emit(30, max_total_bytes=3000))))
    assert [event["number"] for event in events] == sorted(event["number"] for event in events)
    assert events[-1]["number"] == 29

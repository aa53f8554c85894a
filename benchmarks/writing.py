"""What recording costs: one `emit`, and a stream of them, against writing the same bytes without a recorder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Final, get_args

import msgspec

from actionspan.recorder import Durability, JsonlRecorder
from benchmarks.events import application_event, events

__all__ = ["latency", "sustained"]

_BURST: Final = 1000


def latency(event: dict[str, Any], rounds: int) -> dict[str, float]:
    """Processor time (ns) of one `emit`, durability write, and of one `os.write` of the line that it wrote."""
    with tempfile.TemporaryDirectory() as directory, JsonlRecorder(Path(directory, "record")) as recorder:
        recorder.emit(event)
        (segment,) = Path(directory, "record").iterdir()
        line = segment.read_bytes().splitlines(keepends=True)[-1]
        descriptor = os.open(Path(directory, "plain"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        emitted: list[float] = []
        written: list[float] = []
        for _ in range(rounds):
            emitted.append(_each(lambda: recorder.emit(event)))
            written.append(_each(lambda: os.write(descriptor, line)))
        os.close(descriptor)
    return {"emit": median(emitted), "write": median(written), "bytes": len(line)}


def _each(work: Callable[[], object]) -> float:
    began = time.process_time_ns()
    for _ in range(_BURST):
        work()
    return (time.process_time_ns() - began) / _BURST


def sustained(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Events a second, by processor time and by the clock, for each durability and for encoding and buffering."""
    sample = list(islice(events(count), count))
    names = ("encoded and buffered", *get_args(Durability))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as directory:
                found[name].append(_timed(name, Path(directory, "record"), sample))
    return {
        name: {
            "per_second": count / median(cpu for cpu, _ in times),
            "by_clock": count / median(wall for _, wall in times),
        }
        for name, times in found.items()
    }


def _timed(name: str, path: Path, sample: Iterable[dict[str, Any]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    if name in get_args(Durability):
        with JsonlRecorder(path, durability=name) as recorder:  # type: ignore[arg-type] # it was just compared
            for event in sample:
                recorder.emit(event)
    else:
        encode = msgspec.json.Encoder().encode
        with path.open("wb", buffering=64 * 1024) as file:
            for event in sample:
                file.write(encode(event))
                file.write(b"\n")
    return time.process_time() - cpu, time.perf_counter() - wall


def main(rounds: int, count: int) -> None:
    """Print both as JSON."""
    (action,) = islice(events(2), 1, 2)
    found = {
        "latency": latency(application_event(), rounds),
        "latency_action": latency(action, rounds),
        "sustained": sustained(count, max(3, rounds // 10)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

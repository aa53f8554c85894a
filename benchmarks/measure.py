"""Interleaved rounds: in each, every side runs every scenario once, in processes that live as long as a generation.

What is compared is the difference to the untraced side of the same round, so that a machine that slows down slows
both. The order of the sides turns with each round, and generations even out what a process is born with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any, Final, cast

__all__ = ["Cost", "Costs", "measure"]

ROOT: Final = Path(__file__).parent.parent
BASE: Final = "none"
_WINDOW_NS: Final = 20_000_000
"""Processor time that one measurement of the untraced side takes at least."""


@dataclass(slots=True)
class Cost:
    """What one side spent on one scenario, in nanoseconds of processor time per run."""

    times: list[float] = field(default_factory=list[float])
    spans: float = 0.0
    memory: dict[str, int] | None = None

    @property
    def median(self) -> float:
        return median(self.times)


class Costs:
    """All of them, by scenario and side."""

    def __init__(self) -> None:
        self._costs: dict[tuple[str, str], Cost] = {}

    def of(self, scenario: str, side: str) -> Cost:
        return self._costs.setdefault((scenario, side), Cost())

    def has(self, scenario: str, side: str) -> bool:
        return (scenario, side) in self._costs

    def differences(self, scenario: str, side: str) -> list[float]:
        """What the side spent beyond the untraced one, round by round."""
        pairs = zip(self.of(scenario, side).times, self.of(scenario, BASE).times, strict=True)
        return [traced - untraced for traced, untraced in pairs]

    def overhead(self, scenario: str, side: str) -> float:
        """The median of the differences."""
        return median(self.differences(scenario, side))

    def interval(self, scenario: str, side: str) -> tuple[float, float]:
        """Where the true overhead is with 95 % confidence."""
        return _interval(self.differences(scenario, side))

    def share(self, scenario: str, side: str) -> tuple[float, float, float]:
        """The overhead as a part of the untraced run, and where it is with 95 % confidence."""
        untraced = self.of(scenario, BASE).median
        low, high = self.interval(scenario, side)
        return self.overhead(scenario, side) / untraced, low / untraced, high / untraced

    def beyond(self, scenario: str, side: str, times: float, to: str) -> tuple[float, float]:
        """Where, with 95 % confidence, the side's overhead is beyond `times` that of `to`; below zero it is less."""
        pairs = zip(self.differences(scenario, side), self.differences(scenario, to), strict=True)
        return _interval([ours - times * theirs for ours, theirs in pairs])


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The ranks of a binomial distribution around the median: nothing is assumed of how the values are spread."""
    ordered, count = sorted(values), len(values)
    low = max(0, int((count - 1.96 * count**0.5) / 2))
    return ordered[low], ordered[count - 1 - low]


class Worker:
    """The process of one side."""

    def __init__(self, side: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ACTIONSPAN_", "OTEL_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", side],
            cwd=ROOT,
            env={**clean, "PYTHONHASHSEED": "0", "EDRI_PYDANTIC_AI_AUDIT": "content"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def ask(self, **order: Any) -> dict[str, Any]:
        """Have it do something and wait for what that cost."""
        requests = cast(IO[str], self._process.stdin)
        requests.write(json.dumps(order) + "\n")
        requests.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"a worker ended with {self._process.wait()}: {self._process.args!r}")
        return json.loads(line)

    def close(self) -> None:
        cast(IO[str], self._process.stdin).close()
        self._process.wait(30)
        cast(IO[str], self._process.stdout).close()


@contextmanager
def _workers(sides: Sequence[str]) -> Iterator[dict[str, Worker]]:
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for side in sides:
            workers[side] = Worker(side)
            stack.callback(workers[side].close)
        yield workers


def measure(
    scenarios: Sequence[str],
    sides: Sequence[str],
    *,
    rounds: int,
    generations: int,
    with_memory: Sequence[str] = (),
    costs: Costs | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Costs:
    """Measure every side on every scenario, `rounds` times in each of `generations` sets of processes.

    With `costs` the rounds are added to those it has.
    """
    costs = costs or Costs()
    runs: dict[str, int] = {}
    for generation in range(generations):
        progress(f"processes {generation + 1} of {generations}")
        with _workers(sides) as workers:
            for scenario in scenarios:
                if scenario not in runs:
                    runs[scenario] = _enough(workers[BASE], scenario)
                for number in range(rounds):
                    for side in _turned(sides, number):
                        _note(
                            costs.of(scenario, side),
                            workers[side].ask(do="time", scenario=scenario, runs=runs[scenario]),
                        )
                progress(f"processes {generation + 1} of {generations}, scenario {scenario}")
            if generation == 0:
                for scenario in with_memory:
                    for side in sides:
                        costs.of(scenario, side).memory = workers[side].ask(do="memory", scenario=scenario)
    return costs


def _enough(worker: Worker, scenario: str) -> int:
    """How many runs make a measurement long enough to be one."""
    worker.ask(do="time", scenario=scenario, runs=2)
    once = worker.ask(do="time", scenario=scenario, runs=2)["ns"]
    return max(1, round(_WINDOW_NS / once))


def _turned(sides: Sequence[str], by: int) -> list[str]:
    by %= len(sides)
    return [*sides[by:], *sides[:by]]


def _note(cost: Cost, answer: dict[str, float]) -> None:
    cost.times.append(answer["ns"])
    cost.spans = answer["spans"]

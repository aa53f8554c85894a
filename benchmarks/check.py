"""`make bench-check`: whether tracing costs more than it did, as parts of the untraced run measured beside it.

The baseline is a committed file. What is compared is a ratio within one run, so another machine, or a busy one, does
not fail it: only an overhead that is beyond the baseline's by more than the tolerance, with 95 % confidence, does. As
long as the rounds do not tell, more are run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import describe
from benchmarks.measure import Costs, measure
from benchmarks.report import print_table
from benchmarks.targets import NOTHING, Finding

__all__ = ["BASELINE", "Comparison", "compare", "main"]

BASELINE: Final = Path(__file__).parent / "baseline.json"
SCENARIOS: Final = ("A", "B", "C", "D", "E")
SIDES: Final = ("metadata", "content", "recorded", "off")
TOLERANCE: Final = 1.15
"""Times the baseline's overhead: less is no regression."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One side on one scenario; `found` is met where it costs no more than it did."""

    scenario: str
    side: str
    was: float
    is_: float
    low: float
    high: float
    found: Finding


def compare(costs: Costs, baseline: Mapping[str, Mapping[str, float]]) -> list[Comparison]:
    """Every overhead of the baseline with what it is now, as parts of the untraced run."""
    return [
        _compared(costs, scenario, side, was) for scenario, sides in baseline.items() for side, was in sides.items()
    ]


def _compared(costs: Costs, scenario: str, side: str, was: float) -> Comparison:
    share, low, high = costs.share(scenario, side)
    least = max(was, 0.0)  # what costs less than nothing did so by chance, and may cost nothing
    allowed = max(least * TOLERANCE, least + NOTHING)
    found: Finding = "met" if high <= allowed else "missed" if low > allowed else "unclear"
    return Comparison(scenario, side, was, share, low, high, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or with `--write` set the baseline; 1 when something costs more than it did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check", description=__doc__)
    parser.add_argument("--write", action="store_true", help="measure everything and make it the baseline")
    parser.add_argument("--rounds", type=int, default=10, help="rounds in each set of processes")
    parser.add_argument("--most", type=int, default=6, help="sets of processes at most")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    options = parser.parse_args(arguments)
    if options.write:
        _write(options.baseline, options.rounds, options.most)
        return 0
    saved: dict[str, Any] = json.loads(options.baseline.read_text())
    compared = _until_it_tells(saved["shares"], options.rounds, options.most)
    print_table(
        f"Overhead as a part of the untraced run; the baseline is of {saved['machine']['date']}",
        ("scenario", "side", "was", "is", "95 %", ""),
        [_row(one) for one in compared],
    )
    return 1 if any(one.found == "missed" for one in compared) else 0


def _until_it_tells(baseline: Mapping[str, Mapping[str, float]], rounds: int, most: int) -> list[Comparison]:
    costs = Costs()
    waiting = {scenario: dict(sides) for scenario, sides in baseline.items()}
    compared: dict[tuple[str, str], Comparison] = {}
    for generation in range(most):
        print(f"... processes {generation + 1} of at most {most}: {', '.join(waiting)}", file=sys.stderr, flush=True)
        measure(list(waiting), ["none", *SIDES], rounds=rounds, generations=1, costs=costs)
        compared |= {(one.scenario, one.side): one for one in compare(costs, waiting)}
        unclear = {one.scenario for one in compared.values() if one.found == "unclear"}
        waiting = {scenario: dict(sides) for scenario, sides in baseline.items() if scenario in unclear}
        if not waiting:
            break
    return list(compared.values())


def _write(path: Path, rounds: int, generations: int) -> None:
    costs = measure(SCENARIOS, ["none", *SIDES], rounds=rounds, generations=generations)
    shares = {scenario: {side: round(costs.share(scenario, side)[0], 4) for side in SIDES} for scenario in SCENARIOS}
    path.write_text(json.dumps({"machine": describe(), "shares": shares}, indent=1) + "\n")
    print(f"written to {path}")


def _row(one: Comparison) -> Sequence[str]:
    said = {"met": "no more", "missed": "MORE", "unclear": "within the noise"}[one.found]
    interval = f"{one.low:.1%} to {one.high:.1%}"
    return one.scenario, one.side, f"{one.was:.1%}", f"{one.is_:.1%}", interval, said


if __name__ == "__main__":
    sys.exit(main())

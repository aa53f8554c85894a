"""What the figures should be, and whether they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.measure import Costs

__all__ = ["Verdict", "judge", "settled"]

CONTENT_BUDGET: Final = 64 * 1024
"""Bytes of content one action may keep."""
NOTHING: Final = 0.02
"""Of an untraced run: less than that is no difference."""

Finding = Literal["met", "missed", "unclear"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target. Unclear: the rounds differ too much from each other to tell; run more, or on a quieter machine."""

    target: str
    measured: str
    found: Finding


def settled(target: str, measured: str, met: bool) -> Verdict:
    """A verdict that leaves no doubt."""
    return Verdict(target, measured, "met" if met else "missed")


def judge(costs: Costs) -> list[Verdict]:
    """The targets that can be judged by what was measured."""
    return [*_metadata(costs), *_content(costs), *_large(costs), *_nothing(costs)]


def _at_most(costs: Costs, scenario: str, side: str, to: str, limit: float) -> Iterator[Verdict]:
    if not (costs.has(scenario, side) and costs.has(scenario, to)):
        return
    low, high = costs.beyond(scenario, side, limit, to)
    found: Finding = "met" if high <= 0 else "missed" if low > 0 else "unclear"
    base = costs.overhead(scenario, to)
    shown = f"{costs.overhead(scenario, side) / base:.2f} x" if base > 0 else "no overhead to compare with"
    yield Verdict(f"{scenario}: {side} ≤ {limit:g} x {to}", shown, found)


def _metadata(costs: Costs) -> Iterator[Verdict]:
    for scenario in ("A", "C"):
        yield from _at_most(costs, scenario, "metadata", "floor", 1.5)
        yield from _at_most(costs, scenario, "metadata", "native", 1.0)


def _content(costs: Costs) -> Iterator[Verdict]:
    yield from _at_most(costs, "A", "content", "native_content", 1.0)
    yield from _at_most(costs, "B", "content", "native_content", 0.2)


def _large(costs: Costs) -> Iterator[Verdict]:
    for scenario in ("D", "D2"):
        yield from _at_most(costs, scenario, "content", "native_content", 0.1)
        if not (costs.has(scenario, "content") and costs.has(scenario, "metadata")):
            continue
        content, metadata = costs.of(scenario, "content").memory, costs.of(scenario, "metadata").memory
        if content is not None and metadata is not None:
            kept = content["kept"] - metadata["kept"]
            actions = 4  # the run, its two requests, the tool call
            target = f"{scenario}: content kept ≤ {actions} actions x 64 KiB"
            yield settled(target, f"{kept / 1024:.0f} KiB", kept <= actions * CONTENT_BUDGET)


def _nothing(costs: Costs) -> Iterator[Verdict]:
    for scenario in ("A", "C"):
        for side in ("off", "removed"):
            if costs.has(scenario, side):
                _, low, high = costs.share(scenario, side)
                found: Finding = "missed" if low > NOTHING else "met" if high <= NOTHING else "unclear"
                yield Verdict(f"{scenario}: {side} ≤ none + 2 %", f"{low:+.1%} to {high:+.1%}", found)

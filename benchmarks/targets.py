"""What the figures should be, and whether they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchmarks.measure import Costs

__all__ = ["Verdict", "judge"]

CONTENT_BUDGET: Final = 64 * 1024
"""Bytes of content one action may keep."""
NOTHING: Final = 0.01
"""Of an untraced run: less than that cannot be told from nothing here."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target."""

    target: str
    measured: str
    met: bool


def judge(costs: Costs) -> list[Verdict]:
    """The targets that can be judged by what was measured."""
    return [*_metadata(costs), *_content(costs), *_large(costs), *_nothing(costs)]


def _ratio(costs: Costs, scenario: str, side: str, to: str) -> float | None:
    """The overhead of one side over that of another; None when either was not measured or the other costs nothing."""
    if not (costs.has(scenario, side) and costs.has(scenario, to)):
        return None
    base = costs.overhead(scenario, to)
    return costs.overhead(scenario, side) / base if base > 0 else None


def _at_most(costs: Costs, scenario: str, side: str, to: str, limit: float) -> Iterator[Verdict]:
    ratio = _ratio(costs, scenario, side, to)
    if ratio is not None:
        yield Verdict(f"{scenario}: {side} ≤ {limit:g} x {to}", f"{ratio:.2f} x", ratio <= limit)


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
        if not costs.has(scenario, "content"):
            continue
        content, metadata = costs.of(scenario, "content").memory, costs.of(scenario, "metadata").memory
        if content is not None and metadata is not None:
            kept = content["kept"] - metadata["kept"]
            actions = 4  # the run, its two requests, the tool call
            yield Verdict(
                f"{scenario}: content kept ≤ {actions} actions x 64 KiB",
                f"{kept / 1024:.0f} KiB",
                kept <= actions * CONTENT_BUDGET,
            )


def _nothing(costs: Costs) -> Iterator[Verdict]:
    for scenario in ("A", "C"):
        for side in ("control", "off", "removed"):
            if costs.has(scenario, side):
                untraced = costs.of(scenario, "none").median
                low, high = costs.interval(scenario, side)
                shown = f"{low / untraced:+.1%} to {high / untraced:+.1%}"
                yield Verdict(f"{scenario}: {side} is no different from none", shown, low / untraced <= NOTHING)

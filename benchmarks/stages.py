"""Where the time of a traced run goes: what each guarded stage of ours takes, without the stages inside it.

Unlike a tight loop over one span, every stage runs here with the caches as the application's work leaves them, which
makes each of them two to three times as long.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from benchmarks.sides import SIDES
from benchmarks.worker import Bench

__all__ = ["stages"]


def stages(scenario: str, runs: int, side: str = "metadata") -> dict[str, dict[str, float]]:
    """By stage: microseconds by the clock, and how often, in one run."""
    from actionspan import guard

    spent, count, inside = Counter[str](), Counter[str](), [0]
    call = guard.call

    def timed(stage: str, work: Callable[[], Any], default: Any = None) -> Any:
        began = time.perf_counter_ns()
        inside.append(0)
        try:
            return call(stage, work, default)
        finally:
            whole = time.perf_counter_ns() - began
            spent[stage] += whole - inside.pop()
            count[stage] += 1
            inside[-1] += whole

    bench = Bench(SIDES[side])
    bench.time(scenario, 10)
    with patch.object(guard, "call", timed):
        bench.time(scenario, runs)
    bench.close()
    runs += 1  # one goes before what `time` counts
    return {stage: {"us": total / runs / 1e3, "count": count[stage] / runs} for stage, total in spent.most_common()}

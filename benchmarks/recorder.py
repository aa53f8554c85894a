"""The recorder's figures: writing, and reading a directory that is made for it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.reading import GREP, read_all_ways
from benchmarks.targets import Verdict, settled

__all__ = ["Record", "measure_recorder"]

_ROOT: Final = Path(__file__).parent.parent
MEMORY: Final = 64
"""MiB that reading may take beyond the start of the process."""
_BARE: Final = "bare msgspec decode"
_DUCKDB: Final = "DuckDB, the same"


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured."""

    size: int
    """Bytes of the directory."""
    events: int
    writing: dict[str, Any]
    reading: dict[str, dict[str, float]]

    def verdicts(self) -> list[Verdict]:
        return [*self._of_writing(), *self._of_reading()]

    def _of_writing(self) -> list[Verdict]:
        latency = self.writing["latency"]
        slower = latency["emit"] / latency["write"]
        rates = {name: rate["per_second"] for name, rate in self.writing["sustained"].items()}
        share = rates["write"] / rates["encoded and buffered"]
        return [
            settled("one emit of 1 KB ≤ 6 x os.write", f"{slower:.1f} x", slower <= 6),
            settled("sustained, write ≥ 0.3 x encoding and buffering", f"{share:.2f} x", share >= 0.3),
        ]

    def _of_reading(self) -> list[Verdict]:
        verdicts = [self._at_most("selective query", GREP, 1.2), self._at_most("selective query", _DUCKDB, 0.5)]
        verdicts += [self._at_most(name, _BARE, 1.5) for name in ("unselective query", "replay", "stats")]
        most = max(self.reading[name]["memory"] for name in ("selective query", "unselective query", "replay", "stats"))
        return [*verdicts, settled(f"reading takes ≤ {MEMORY} MiB", f"{most:.0f} MiB", most <= MEMORY)]

    def _at_most(self, name: str, to: str, limit: float) -> Verdict:
        ratio = self.reading[name]["cpu"] / self.reading[to]["cpu"]
        return settled(f"{name} ≤ {limit:g} x {to}", f"{ratio:.2f} x", ratio <= limit)


def measure_recorder(megabytes: int, rounds: int, progress: Callable[[str], None]) -> Record:
    """Measure writing in a process of its own, then reading `megabytes` of record."""
    from benchmarks.events import fill

    progress("recorder: writing")
    command = [sys.executable, "-m", "benchmarks.writing", str(rounds * 10), "20000"]
    writing = json.loads(subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary, "record")
        progress(f"recorder: making {megabytes} MB")
        count = fill(directory, megabytes * 10**6)
        size = sum(path.stat().st_size for path in directory.iterdir())
        progress(f"recorder: reading {megabytes} MB")
        reading = read_all_ways(directory, rounds)
    return Record(size, count, writing, reading)

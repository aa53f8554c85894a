"""What reading a record costs. Each way has a process of its own, so that its memory can be told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

__all__ = ["WAYS", "read_all_ways"]

NEEDLE: Final = "agent-007"
_ROOT: Final = Path(__file__).parent.parent


def _selective(directory: Path) -> Callable[[], int]:
    from actionspan.recorder import read

    return lambda: _count(read(directory).query(agent_id=NEEDLE))


def _unselective(directory: Path) -> Callable[[], int]:
    from actionspan.recorder import read

    return lambda: _count(read(directory).query(kind="tool.*"))


def _replay(directory: Path) -> Callable[[], int]:
    from actionspan.recorder import read

    return lambda: _count(read(directory).replay())


def _spans(directory: Path) -> Callable[[], int]:
    from actionspan.recorder import read, spans_of

    return lambda: _count(spans_of(read(directory).replay(text=True)))


def _stats(directory: Path) -> Callable[[], int]:
    from actionspan.cli._summary import Summary
    from actionspan.recorder import read

    def work() -> int:
        summary = Summary()
        for event in read(directory).query(finished=True):
            summary.add(event)
        return summary.all().count

    return work


def _bare(directory: Path) -> Callable[[], int]:
    import msgspec

    def work() -> int:
        decode = msgspec.json.Decoder().decode
        count = 0
        for path in sorted(directory.glob("*.jsonl")):
            with path.open("rb") as file:
                for line in file:
                    decode(line)
                    count += 1
        return count

    return work


def _duckdb(directory: Path) -> Callable[[], int]:
    import duckdb

    def work() -> int:
        source = f"read_json('{directory}/*.jsonl', format='newline_delimited', union_by_name=true)"
        query = f"SELECT timestamp, kind, name, duration FROM {source} WHERE agent_id = '{NEEDLE}'"
        return len(duckdb.sql(query).fetchall())

    return work


WAYS: Final = {
    "selective query": _selective,
    "DuckDB, the same": _duckdb,
    "unselective query": _unselective,
    "replay": _replay,
    "stats": _stats,
    "spans rebuilt": _spans,
    "bare msgspec decode": _bare,
}
GREP: Final = "grep -F, the same"


def _count(items: Iterator[Any]) -> int:
    return sum(1 for _ in items)


def read_all_ways(directory: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Processor seconds, seconds by the clock, MiB beyond the start, and what was found, by way; medians."""
    found: dict[str, list[dict[str, float]]] = {}
    _grep(directory)  # the files are in the page cache from here on
    for _ in range(rounds):
        found.setdefault(GREP, []).append(_grep(directory))
        for name in WAYS:
            found.setdefault(name, []).append(_in_a_process(name, directory))
    return {
        name: {key: median(result[key] for result in results) for key in results[0]} for name, results in found.items()
    }


def _grep(directory: Path) -> dict[str, float]:
    command = ["grep", "-F", "-h", f'"agent_id":"{NEEDLE}"', *map(str, sorted(directory.glob("*.jsonl")))]
    with tempfile.TemporaryFile() as output:  # to /dev/null it would stop at the first line it finds
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, env={"LC_ALL": "C", "PATH": os.environ["PATH"]})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        output.seek(0)
        lines = sum(1 for _ in output)
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "found": lines}


def _in_a_process(name: str, directory: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.reading", name, str(directory)]
    return json.loads(subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout)


def _resident(field: str) -> float:
    """MiB: VmRSS is what there is now, VmHWM the most there was. Not `ru_maxrss`, which a child inherits."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def main(name: str, directory: str) -> None:
    """Read one way and print what it took as JSON."""
    work = WAYS[name](Path(directory))
    start, wall, cpu = _resident("VmRSS"), time.perf_counter(), time.process_time()
    found = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu": cpu, "wall": wall, "memory": _resident("VmHWM") - start, "found": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])

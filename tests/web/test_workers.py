"""Several workers, forked from a process that had everything loaded: every one's spans arrive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actionspan.recorder import read
from web.collector import Collector
from web.servers import Server, until

GUNICORN = ("gunicorn", "app:app", "--bind", "127.0.0.1:{port}", "--workers", "2", "--preload")


def ask_until_both_answered(server: Server) -> dict[str, int]:
    """The worker that answered, by trace."""
    answered: dict[str, int] = {}

    def both() -> bool:
        answer = server.ask()
        answered[str(answer["trace"])] = int(str(answer["worker"]))
        return len(set(answered.values())) == 2

    until(both, "an answer of each worker")
    return answered


@pytest.mark.parametrize("worker", ["asgi", "uvicorn_worker.UvicornWorker"])
def test_every_workers_spans_and_records_arrive(
    serve: Callable[..., Server], collector: Collector, tmp_path: Path, worker: str
):
    record = tmp_path / "record"
    server = serve(*GUNICORN, "--worker-class", worker, ACTIONSPAN_RECORD=str(record))
    answered = ask_until_both_answered(server)
    for trace in answered:
        until(lambda trace=trace: len(collector.trace(trace)) == 6, f"six spans of {trace}")
        assert collector.tree(trace).splitlines()[:2] == ["GET /ask", "  invoke_agent parcels"]
    assert server.stop() == 0

    segments: dict[int, set[str]] = {}
    for event in read(record).replay():
        segments.setdefault(answered[event["trace_id"]], set()).add(event["kind"])
    assert segments.keys() == set(answered.values())
    assert len(list(record.glob("*.jsonl*"))) >= 2


def test_uvicorns_own_workers(serve: Callable[..., Server], collector: Collector):
    server = serve("uvicorn", "app:app", "--port", "{port}", "--workers", "2", "--timeout-worker-healthcheck", "120")
    answered = ask_until_both_answered(server)
    for trace in answered:
        until(lambda trace=trace: len(collector.trace(trace)) == 6, f"six spans of {trace}")
    server.stop()

"""`query`, `stats`, `tail`, `verify`, `compact`, `erase` and `replay`: each asked, each answering with its code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cli.conftest import START, Call, Record, shown


@pytest.fixture
def directory(record: Record) -> Path:
    run = record.action("agent.run", "helper", took=2.0, conversation_id="4711")
    record.action(
        "model.request", "m", parent=run, took=1.0, model="m-1",
        usage={"input_tokens": 10, "output_tokens": 5}, attributes={"actionspan.cost_usd": 0.5},
    )  # fmt: skip
    record.action("model.request", "local", parent=run, at=1, took=0.5, usage={"input_tokens": 1, "output_tokens": 1})
    record.action("tool.execute", "lookup", parent=run, at=1.5, took=0.25, conversation_id="4711")
    record.action(
        "tool.execute", "lookup", parent=run, at=1.8, took=0.1, attempt=2, outcome="error", outcome_reason="retry"
    )
    record.action("tool.validate", "lookup", parent=run, at=1.9, took=0.001, outcome="error", error="ValueError")
    record.action("dispatch.send", "orders", at=3, took=0.02, agent_id="other")
    return record.close()


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """An OTLP/HTTP endpoint and the requests it has had."""
    requests: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") != "gzip":
                requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join()


def _kinds(output: str) -> list[str]:
    return [json.loads(line)["kind"] for line in output.splitlines()]


def test_a_query_is_a_line_an_event(directory: Path, call: Call):
    assert call("query", directory, "--kind", "tool.*").stdout == snapshot("""\
2023-11-14 22:13:21.500  ▸ tool.execute.start            lookup  by helper
2023-11-14 22:13:21.750  ✓ tool.execute.end       250ms  lookup  by helper
2023-11-14 22:13:21.800  ▸ tool.execute.start            lookup · attempt 2  by helper
2023-11-14 22:13:21.900  ✗ tool.execute.error     100ms  lookup · retry · attempt 2  by helper
2023-11-14 22:13:21.900  ▸ tool.validate.start           lookup  by helper
2023-11-14 22:13:21.901  ✗ tool.validate.error    1.0ms  lookup · ValueError  by helper
""")


def test_conditions_narrow_each_other(directory: Path, call: Call):
    assert _kinds(call("query", directory, "--where", "attempt=2", "--json").stdout) == [
        "tool.execute.start", "tool.execute.error",
    ]  # fmt: skip
    assert _kinds(call("query", directory, "--where", "attempt=2", "--where", "outcome=error", "--json").stdout) == [
        "tool.execute.error",
    ]  # fmt: skip
    assert len(_kinds(call("query", directory, "--where", "conversation_id=4711", "--json").stdout)) == 4
    assert len(_kinds(call("query", directory, "--agent-id", "other", "--json").stdout)) == 2
    since = call("query", directory, "--since", START / 1e9 + 3, "--until", START / 1e9 + 3.01, "--json")
    assert _kinds(since.stdout) == ["dispatch.send.start"]
    assert len(_kinds(call("query", directory, "--limit", 3, "--json").stdout)) == 3
    assert len(_kinds(call("query", directory, "--conversation", "4711", "--kind", "tool.*", "--json").stdout)) == 2
    nothing = call("query", directory, "--since", "1h")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    unknown = call("query", "nowhere://host")
    assert (unknown.exit_code, "nowhere://host" in unknown.stderr) == (2, True)


def test_statistics_by_agent_model_tool_and_outcome(directory: Path, call: Call):
    assert shown(call("stats", directory, env={"COLUMNS": "90"}).stdout) == snapshot("""\
7 actions · 2 failed · 11 tokens in · 6 out · $0.5000+
2023-11-14 22:13:21 to 2023-11-14 22:13:23

                 count  failed    p50    p95    p99  tokens in  out      cost
agents
  helper             1       0  2.00s  2.00s  2.00s         11    6  $0.5000+
models
  m-1                1       0  1.00s  1.00s  1.00s         10    5   $0.5000
  local              1       0  500ms  500ms  500ms          1    1
tools
  lookup             3       2  100ms  249ms  249ms
other actions
  dispatch.send      1       0   20ms   20ms   20ms
outcomes
  success            5       0  502ms  1.99s  1.99s         11    6  $0.5000+
  error: retry       1       1  100ms  100ms  100ms
  error              1       1  1.0ms  1.0ms  1.0ms
""")


def test_statistics_as_json(directory: Path, call: Call):
    counted = json.loads(call("stats", directory, "--json").stdout)
    assert set(counted) == {"first", "last", "all", "agents", "models", "tools", "other_actions", "outcomes"}
    assert counted["all"]["input_tokens"] == counted["agents"]["helper"]["input_tokens"] == 11
    assert counted["models"]["local"]["cost_usd"] is None
    assert (counted["all"]["cost_usd"], counted["all"]["cost_is_complete"]) == (0.5, False)
    assert (counted["tools"]["lookup"]["count"], counted["tools"]["lookup"]["failed"]) == (3, 2)
    assert counted["models"]["m-1"]["p50"] == pytest.approx(1.0, rel=0.011)


def test_statistics_of_what_satisfies_conditions(directory: Path, call: Call):
    def counted(*arguments: object) -> dict[str, int]:
        groups = json.loads(call("stats", directory, *arguments, "--json").stdout)["outcomes"]
        return {outcome: group["count"] for outcome, group in groups.items()}

    assert counted("--agent-id", "other") == {"success": 1}
    assert counted("--conversation", "4711") == {"success": 2}
    assert counted("--where", "attempt=2") == {"error: retry": 1}
    assert counted("--since", START / 1e9 + 1.9, "--until", START / 1e9 + 2) == {"error: retry": 1, "error": 1}
    nothing = call("stats", directory, "--since", "1h")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert nothing.stderr == f"actionspan: no finished action in {directory} satisfies that\n"


def test_tail_shows_what_is_there_and_what_is_wanted(directory: Path, call: Call):
    result = call("tail", directory, "--from-start", "--kind", "tool.*.error", "--limit", 2, "--json")
    assert _kinds(result.stdout) == ["tool.execute.error", "tool.validate.error"]
    only = call("tail", directory, "--from-start", "--where", "attempt=2", "--agent-id", "helper", "--limit", 1)
    assert "attempt 2" in only.stdout


def test_a_whole_record_is_whole_and_an_altered_one_is_not(directory: Path, call: Call):
    whole = call("verify", directory)
    assert (whole.exit_code, whole.stdout.splitlines()[-1]) == (0, "whole")
    (segment,) = directory.glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"name":"lookup"', b'"name":"l00kup"', 1))
    damaged = call("verify", directory)
    assert (damaged.exit_code, damaged.stdout.splitlines()[-1]) == (3, "damaged")
    assert segment.name in damaged.stdout
    assert call("verify", directory, "--json").exit_code == 3


def test_what_a_crash_leaves_is_named_and_no_damage(record: Record, call: Call):
    for number in range(25):
        record.action("tool.execute", f"slow-{number}", took=None)
    result = call("verify", record.close())
    assert result.exit_code == 0
    assert "25 actions never ended" in result.stdout
    assert "slow-0" in result.stdout
    assert "and 5 more" in result.stdout
    assert call("verify", record.directory, "--json").exit_code == 0


def test_what_is_still_going_on_is_named_and_no_damage(record: Record, call: Call):
    record.action("agent.run", "helper", took=None)
    result = call("verify", record.directory)
    assert result.exit_code == 0
    assert "1 action in flight" in " ".join(result.stdout.split())
    record.close()


def test_erasing_asks_first_and_says_how_much(directory: Path, call: Call):
    refused = call("erase", directory, "--where", "conversation_id=4711")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    erased = call("erase", directory, "--where", "conversation_id=4711", "--yes")
    assert (erased.exit_code, erased.stdout) == (0, "4 events removed, 1 segment rewritten\n")
    assert call("query", directory, "--where", "conversation_id=4711").exit_code == 1
    assert call("verify", directory).exit_code == 0
    assert call("erase", directory, "--where", "attempt=9", "--yes").exit_code == 1


def test_compressing_changes_nothing_that_is_read(directory: Path, call: Call):
    pytest.importorskip("zstandard")
    before = call("query", directory, "--json").stdout
    assert "are now" in call("compact", directory).stdout
    assert call("query", directory, "--json").stdout == before
    assert call("compact", directory).exit_code == 1


def test_a_record_is_replayed_to_a_receiver(
    directory: Path, call: Call, receiver: tuple[str, list[ExportTraceServiceRequest]]
):
    url, requests = receiver
    result = call("replay", directory, "--otlp", url)
    assert (result.exit_code, result.stdout) == (0, "7 spans sent in 1 request\n")
    spans = [
        span
        for request in requests
        for scoped in request.resource_spans
        for s in scoped.scope_spans
        for span in s.spans
    ]
    assert len(spans) == 7
    unknown = call("replay", directory, "--otlp", url, "--from", "nobody")
    assert (unknown.exit_code, "nobody" in unknown.stderr) == (2, True)


def test_a_receiver_that_is_not_there_is_said_at_once(directory: Path, call: Call):
    result = call("replay", directory, "--otlp", "http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "nothing answers at http://127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("url", ["ftp://localhost", "localhost:4318", "http://", "nonsense"])
def test_an_address_of_another_kind_is_named_with_what_is_understood(url: str, directory: Path, call: Call):
    result = call("replay", directory, "--otlp", url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{url!r} is not a URL" in result.stderr
    assert "http, https, grpc, grpcs" in result.stderr

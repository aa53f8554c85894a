"""One trace from the request to the tool, however the route runs its agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from inline_snapshot import snapshot

from web.collector import Collector
from web.servers import APP, Server, free_port, until

RUN = ["invoke_agent parcels", "  chat scripted", "  validate_tool locate", "  execute_tool locate", "  chat scripted"]


def below(depth: int, *outer: str) -> str:
    return "\n".join([*outer, *("  " * depth + line for line in RUN)])


def test_every_route_is_one_trace_from_the_request_to_the_tool(serve: Callable[..., Server], collector: Collector):
    server = serve("uvicorn", "app:app", "--port", "{port}")
    streamed = server.request("GET", "/stream")
    assert streamed.text.split() == ["Your", "parcel", "is", "in", "Utrecht."]
    traces = {
        str(server.ask()["trace"]): below(1, "GET /ask"),
        str(streamed.headers["x-trace"]): below(1, "GET /stream"),
        json.loads(server.request("POST", "/later").text)["trace"]: below(2, "POST /later", "  BackgroundTask run"),
    }
    for trace, expected in traces.items():
        until(lambda trace=trace, expected=expected: collector.tree(trace) == expected, expected)
    assert len(traces) == 3
    request = next(span for span in collector.spans if span.name == "GET /ask")
    run = next(span for span in collector.trace(request.trace) if span.name == "invoke_agent parcels")
    assert run.parent == request.span
    assert "actionspan.parent_action_id" not in run.attributes  # a request is no action
    assert run.attributes["actionspan.outcome"] == "success"


def test_started_as_a_script_it_prints_each_requests_trace(tmp_path: Path, collector: Collector):
    port = free_port()
    output = tmp_path / "printed.txt"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, APP / "app.py"], env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log
        )
    server = Server(process, port, output)
    try:
        until(server.answers, "a listener")
        trace = server.ask()["trace"]
        until(lambda: "GET /ask" in output.read_text(), "the printed trace")
    finally:
        server.stop()
    heading, _, printed = output.read_text().partition("\n")
    assert heading == f"trace {trace}"
    assert printed == snapshot("""\
GET /ask
  invoke_agent parcels [success]
    chat scripted [success]
    validate_tool locate [success]
    execute_tool locate [success]
    chat scripted [success]

""")

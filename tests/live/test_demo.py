"""The demo, sent to each backend: what it has is what the record has. One test body for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actionspan.recorder import read
from live.conftest import Phoenix, spans_of
from live.test_read_back import PLACES, Live, until

pytestmark = pytest.mark.live

Stored = dict[tuple[str, str], tuple[str, str | None, str]]
"""By trace and span: the span's name, its parent, the outcome."""


def of_phoenix(phoenix: Phoenix, recorded: Stored) -> Stored:
    return {
        (span["context"]["trace_id"], span["context"]["span_id"]): (
            span["name"],
            span["parent_id"],
            span["attributes"].get("actionspan.outcome"),
        )
        for span in spans_of(phoenix, "default", len(recorded))
    }


def of_a_recorder(live: Live, recorded: Stored) -> Stored:
    traces = {trace for trace, _ in recorded}
    return of_events(until(lambda: [event for event in live.query() if event["trace_id"] in traces], len(recorded)))


def of_events(events: list[dict[str, Any]]) -> Stored:
    return {
        (event["trace_id"], event["span_id"]): (event["span_name"], event.get("parent_span_id"), event["outcome"])
        for event in events
        if event.get("phase", "start") != "start"
    }


@pytest.mark.parametrize("name", ["PHOENIX", *PLACES])
def test_the_demo_is_in_the_backend_as_it_is_in_the_record(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    look: Callable[[Stored], Stored]
    if name == "PHOENIX":
        phoenix = request.getfixturevalue("phoenix")
        otlp, look = phoenix.http, partial(of_phoenix, phoenix)
    else:
        url, otlp = PLACES[name]
        if url is None or otlp is None:
            pytest.skip(f"ACTIONSPAN_TEST_{name} and ACTIONSPAN_TEST_{name}_OTLP do not name a {name.title()}")
        look = partial(of_a_recorder, Live(name, url, otlp, tmp_path / "record", "actionspan-demo"))
    program = Path(sys.executable).with_name("actionspan")
    command = [program, "demo", "--otlp", otlp, "--record", tmp_path / "record"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    recorded = of_events(list(read(tmp_path / "record").query()))
    found = look(recorded)
    assert {key: found.get(key) for key in recorded} == recorded
    assert len(recorded) > 30

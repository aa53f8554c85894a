"""The examples as their READMEs start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from actionspan.recorder import read

ROOT = Path(__file__).parents[2]
SILENT = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
"""opentelemetry-distro exports over OTLP unless it is told not to; nobody listens here."""
PROGRAMS = Path(sys.executable).parent


def _run(directory: Path, *command: str, **env: str) -> str:
    """The standard output of a command that must succeed, started in `directory` by the names of installed programs."""
    kept = {name: value for name, value in os.environ.items() if name != "MODEL"} | SILENT
    path = f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        command, cwd=directory, env={**kept, "PATH": path, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def _events(directory: Path) -> list[tuple[str, str]]:
    return [
        (event["kind"], event["name"]) for event in read(directory).query() if event.get("phase", "start") != "start"
    ]


ZERO_CODE = [
    ("model.request.end", "scripted"),
    ("tool.validate.end", "distance"),
    ("tool.execute.end", "distance"),
    ("model.request.end", "scripted"),
    ("agent.run.end", "parcels"),
]


def test_an_application_without_a_line_about_it_is_recorded(tmp_path: Path):
    app = str(ROOT / "examples/zero_code/app.py")
    said = _run(tmp_path, "opentelemetry-instrument", "python", app, ACTIONSPAN_RECORD="record")
    assert said == "It is 1990 km: two days.\n"
    assert _events(tmp_path / "record") == ZERO_CODE
    assert "✓ parcels" in _run(tmp_path, "actionspan", "show", "record")
    tools = _run(tmp_path, "actionspan", "query", "record", "--kind", "tool.*", "--json")
    assert [json.loads(line)["name"] for line in tools.splitlines()] == ["distance"] * 4
    assert "distance" in _run(tmp_path, "actionspan", "stats", "record")


def test_an_application_without_a_line_about_it_is_exported(tmp_path: Path):
    app = str(ROOT / "examples/zero_code/app.py")
    env = {"OTEL_TRACES_EXPORTER": "jsonl", "ACTIONSPAN_JSONL": "out"}
    assert _run(tmp_path, "opentelemetry-instrument", "python", app, **env) == "It is 1990 km: two days.\n"
    assert _events(tmp_path / "out") == ZERO_CODE
    assert "✓ parcels" in _run(tmp_path, "actionspan", "show", "out")


def test_the_zero_code_example_does_not_mention_us():
    assert "actionspan" not in (ROOT / "examples/zero_code/app.py").read_text().lower()


def test_an_application_that_instruments_itself(tmp_path: Path):
    said = _run(tmp_path, "python", str(ROOT / "examples/manual/app.py"), "record")
    assert said == "Good morning, Ada.\n"
    events = [event for event in read(tmp_path / "record").query() if event.get("phase", "start") != "start"]
    (tool,) = [event for event in events if event["kind"] == "tool.execute.end"]
    assert (tool["request"], tool["response"]) == ({"number": 7}, {"name": "Ada", "email": "<secret>"})
    assert not any("content" in event for event in events if event["namespace"] in ("agent", "model"))
    assert {event["prompt_version"] for event in events} == {"2024-11"}
    shown = _run(tmp_path, "actionspan", "show", "record", "--content")
    assert "ada@example.org" not in shown
    assert 'result: {"name":"Ada","email":"<secret>"}' in shown

"""An agent in a DBOS workflow whose process dies: what a recovery does again is shown again, and only that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

pytest.importorskip("dbos", reason="needs the packages of the group `durable`")

pytestmark = pytest.mark.durable


def life(database: Path, die: str) -> dict[str, Any]:
    """One process; returns what it reported."""
    program = Path(__file__).parent / "dbos_app.py"
    finished = subprocess.run(
        [sys.executable, str(program), str(database), die], capture_output=True, text=True, timeout=180, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


def test_a_process_that_dies_in_a_tool(tmp_path: Path):
    first = life(tmp_path / "db.sqlite", "plain")
    assert first["ran"] == ["model 0", "step", "model 1", "plain"]
    assert first["tree"] == snapshot("""\
chat scripted [success]
validate_tool step [success]
execute_tool step [success]
chat scripted [success]
validate_tool plain [success]\
""")
    second = life(tmp_path / "db.sqlite", "nowhere")
    assert second["ran"] == ["plain", "model 2", "after"]
    assert second["tree"] == snapshot("""\
invoke_agent agent [success]
  validate_tool plain [success]
  execute_tool plain [success]
  chat scripted [success]\
""")
    ((run_id, attributes, began),) = second["runs"]
    assert first["parents"] == second["parents"] == [run_id], "what the first process did is below the run"
    assert first["traces"] == second["traces"]
    assert attributes["actionspan.usage.requests"] == 3, "of both"
    assert began <= min(first["starts"]) + 1_000_000, "the journal counts in milliseconds"


def test_a_process_that_dies_after_the_run(tmp_path: Path):
    first = life(tmp_path / "db.sqlite", "after")
    assert first["tree"] == snapshot("""\
invoke_agent agent [success]
  chat scripted [success]
  validate_tool step [success]
  execute_tool step [success]
  chat scripted [success]
  validate_tool plain [success]
  execute_tool plain [success]
  chat scripted [success]\
""")
    assert first["records"] == 16, "a start and a terminal for each action"
    second = life(tmp_path / "db.sqlite", "nowhere")
    assert second["ran"] == ["plain"], "it is no step"
    assert second["tree"] == snapshot("execute_tool plain [success]")

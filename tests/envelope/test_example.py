"""The example runs, and prints what its page shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from inline_snapshot import snapshot

EXAMPLE = Path(__file__).parents[2] / "examples" / "envelope" / "app.py"


def test_the_example_prints_its_tree(capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out == snapshot("""\
planner: {"status": "ok", "iteration": ["Utrecht", "Porto"]}
writer: {"status": "partial"}
booker: {"status": "error", "error": {"code": "no_van", "message": "All vans are out."}}

invoke_agent planner [success] envelope_status=ok envelope_iteration_count=2 envelope_recovered=strict
  chat scripted [success]
  process_output str [error/retry] !pydantic_ai.exceptions.ModelRetry
  chat scripted [success]

invoke_agent writer [success] envelope_status=partial envelope_recovered=fence
  chat scripted [success]

invoke_agent booker [error/envelope_error] !envelope_error envelope_status=error envelope_recovered=strict
  chat scripted [success]
""")

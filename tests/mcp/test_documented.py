"""The example as it is started, and what the documentation says that it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp_servers import MCP2

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown() -> str:
    """What the example prints."""
    command = [sys.executable, str(ROOT / "examples/mcp/app.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_shows_the_servers_spans_below_the_clients(shown: str):
    answer, tree = shown.split("\n", 1)
    assert answer == "There are 12 of tea, and there is no coffee."
    assert (
        """\
  execute_tool stock [success]
    tools/call stock [success] network.transport=pipe
      tools/call stock fastmcp.server.name=warehouse
        look on the shelf
  execute_tool stock [error/retry] !pydantic_ai.exceptions.ModelRetry
    tools/call stock [error/tool_error] !tool_error network.transport=pipe
      tools/call stock !tool_error fastmcp.server.name=warehouse
  chat scripted [success]
"""
        in tree
    )


@pytest.mark.skipif(not MCP2, reason="the documentation shows the current generation")
def test_the_documentation_shows_what_the_example_prints(shown: str):
    text = (ROOT / "docs/mcp.md").read_text()
    printed = text.split("$ python examples/mcp/app.py\n")[1].split("```")[0]
    # A server that takes more than ten seconds to start is asked again.
    assert shown.split("  tools/list")[1] == printed.split("  tools/list")[1]

"""A control, and agents under it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai import Agent

from actionspan.control import RunControl

sys.path.insert(0, str(Path(__file__).parent / "support"))

from controlled import Told, Waiting, call  # the path is added above


@pytest.fixture
def control() -> RunControl:
    return RunControl()


Build = Callable[..., tuple[Agent, Told]]


@pytest.fixture
def build(control: RunControl) -> Build:
    """`agent, told = build("f", "done")`: the words in lower case that name a tool of `tools` are calls of it."""

    def build(*lines: str, name: str = "a", tools: dict[str, Callable[..., object]] | None = None, **options):
        tools = tools or {}
        told = Told([call(line, f"c{place}") if line in tools else line for place, line in enumerate(lines, 1)])
        options.setdefault("capabilities", [control.capability()])
        agent = Agent(told.model(), name=name, **options)
        for tool, function in tools.items():
            agent.tool_plain(getattr(function, "work", function), name=tool)
        return agent, told

    return build


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()

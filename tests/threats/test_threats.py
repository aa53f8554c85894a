"""docs/threat-model.md: the tests it names are there, and what it says that no other test shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.test import TestModel

from actionspan import ActionPolicy, JsonlRecorder
from actionspan.testing import capture
from scripted import script

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text())))


@pytest.mark.parametrize(("path", "test"), NAMED)
def test_every_test_that_is_named_is_there(path: str, test: str):
    source = (ROOT / path).read_text()
    assert re.search(rf"^(async )?def {test or 'test_'}", source, re.MULTILINE)
    assert not test or re.search(rf"^(async )?def {test}\(", source, re.MULTILINE)


def test_many_are_named():
    assert len(NAMED) > 40


async def test_code_in_the_process_can_set_the_ceiling(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "metadata")
    agent = Agent(TestModel(), name="support")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await agent.run("my secret")
    assert "my secret" not in str([dict(span.attributes) for span in seen.spans])
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "content")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await agent.run("my secret")
    assert "my secret" in str([dict(span.attributes) for span in seen.spans])


def lines_of(record: Path) -> list[dict[str, Any]]:
    (segment,) = record.glob("actions-*.jsonl")
    return [json.loads(line) for line in segment.read_bytes().split(b"\n")[:-1]]


async def test_an_event_is_one_line_whatever_is_in_it(tmp_path: Path):
    forged = '\n{"v":1,"kind":"tool.execute.end","name":"forged","time_unix_nano":1}\r\n\u2028\x85\x0b\x0c\n'
    agent = Agent(script(forged), name="support")
    with JsonlRecorder(tmp_path) as recorder, capture(
        mode="content", policy=ActionPolicy.everything(), recorder=recorder
    ):  # fmt: skip
        await agent.run(forged)
    lines = lines_of(tmp_path)
    assert {line["kind"] for line in lines if not line["kind"].startswith("segment.")} == {
        "agent.run.start",
        "agent.run.end",
        "model.request.start",
        "model.request.end",
    }
    assert "forged" in str(lines)


async def test_what_a_provider_gives_as_an_id_is_bounded():
    call = ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="c" * 10_000)], provider_response_id="r" * 10_000)
    agent = Agent(script(call, "done"), name="support")
    agent.tool_plain(lambda: "found", name="look")
    with capture() as seen:
        await agent.run("go")
    texts = [text for span in seen.spans for text in span.attributes.values() if isinstance(text, str)]
    assert max(map(len, texts)) == 1024
    assert max(len(span.name) for span in seen.spans) <= 128 + len("validate_tool ")

"""`report` as a command: which runs it takes, what it leaves out, and what it answers. The page: tests/report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import START, Call, Record

PROMPT = "a prompt nobody else may read"


@pytest.fixture
def directory(record: Record) -> Path:
    for number, trace in enumerate(("1" * 32, "2" * 32)):
        common = {"trace": trace, "at": number, "conversation_id": "talk", "attributes": {"a": "b"}}
        run = record.action("agent.run", f"agent-{number}", run_id=f"run-{number}", **common)
        record.action(
            "model.request", "m", parent=run, outcome="error", error="ValueError", **common,
            content={"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]},
            events=[{"name": "exception", "attributes": {
                "exception.message": f"{PROMPT} (message)", "exception.stacktrace": f"{PROMPT} (stack)"}}],
        )  # fmt: skip
    return record.close()


def data(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_without_content_the_page_has_none(call: Call, directory: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    assert call("report", directory, "-o", page).exit_code == 0
    assert PROMPT not in page.read_text()
    assert call("report", directory, "-o", page, "--content").exit_code == 0
    said = [text for action in data(page)["actions"] for _, text in action["said"]]
    assert said == [PROMPT, f"{PROMPT} (message)", f"{PROMPT} (stack)"] * 2


def test_all_runs_the_newest_or_one(call: Call, directory: Path, tmp_path: Path):
    page = tmp_path / "page.html"

    def runs(*arguments: object) -> list[str]:
        assert call("report", directory, "-o", page, *arguments).exit_code == 0
        return [run["run"] for run in data(page)["runs"]]

    assert runs() == ["run-0", "run-1"]
    assert runs("--limit", 1) == ["run-1"]
    assert runs("--run", "run-0") == ["run-0"]


def test_the_runs_that_satisfy_conditions(call: Call, directory: Path, tmp_path: Path):
    page = tmp_path / "page.html"

    def runs(*arguments: object) -> list[str]:
        assert call("report", directory, "-o", page, *arguments).exit_code == 0
        return [run["run"] for run in data(page)["runs"]]

    assert runs("--where", "name=agent-1") == ["run-1"]
    assert runs("--agent-id", "helper") == ["run-0", "run-1"]
    assert runs("--until", START / 1e9 + 0.5) == ["run-0"]
    assert runs("--since", START / 1e9 + 0.5, "--conversation", "talk") == ["run-1"]
    # Whole, also what does not satisfy them, with all that is said of it.
    assert [action["name"] for action in data(page)["actions"]] == ["agent-1", "m"]
    assert all(action["attributes"] == [["a", "b"]] for action in data(page)["actions"])
    page.unlink()
    for conditions in (["--since", "1h"], ["--agent-id", "nobody"], ["--where", "name=agent-1", "--agent-id", "x"]):
        result = call("report", directory, "-o", page, *conditions)
        assert (result.exit_code, result.stderr) == (1, f"actionspan: nothing in {directory} satisfies that\n")
    twice = call("report", directory, "-o", page, "--conversation", "talk", "--where", "conversation_id=talk")
    assert (twice.exit_code, "the same" in twice.stderr) == (2, True)
    assert call("report", directory, "-o", page, "--run", "run-1", "--since", "1h").exit_code == 2
    assert not page.exists()


def test_it_says_what_it_wrote(call: Call, directory: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    answer = json.loads(call("report", directory, "-o", page, "--json").stdout)
    assert answer == {"output": str(page), "runs": 2, "actions": 4, "bytes": page.stat().st_size}
    words = call("report", directory, "-o", page).stdout
    assert words.startswith(f"2 runs, 4 actions in {page} (")


def test_nothing_to_show_writes_nothing(call: Call, directory: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    (tmp_path / "empty").mkdir()
    assert call("report", tmp_path / "empty", "-o", page).exit_code == 1
    assert call("report", directory, "-o", page, "--run", "ffff").exit_code == 1
    assert not page.exists()


def test_a_target_that_is_none_is_a_usage_error(call: Call, directory: Path, tmp_path: Path):
    result = call("report", directory, "-o", tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"actionspan: --output {tmp_path} is a directory: name a file in it\n",
    )
    missing = tmp_path / "missing"
    result = call("report", directory, "-o", missing / "page.html")
    assert result.exit_code == 2
    assert result.stderr == f"actionspan: --output {missing}/page.html: there is no directory {missing}\n"
    assert call("report", tmp_path / "none", "-o", tmp_path / "page.html").exit_code == 2
    assert call("report", directory, "--limit", 0).exit_code == 2


def test_events_that_are_no_actions_and_stacks_that_are_none_are_left_out(call: Call, record: Record, tmp_path: Path):
    stacks = [{"attributes": {"exception.stacktrace": stack}} for stack in (5, None, "the real one")]
    record.action("agent.run", "helper", outcome="error", events=[*stacks, "no event"])
    record._recorder.emit({"kind": "hook_start", "namespace": "agent", "name": "no id"})
    page = tmp_path / "page.html"
    result = call("report", record.close(), "--content", "-o", page)
    assert result.exit_code == 0, result.output
    (action,) = data(page)["actions"]
    assert [said for said in action["said"] if said[0] == "stack trace"] == [["stack trace", "the real one"]]


def test_whatever_was_said_is_shown_and_by_whom(call: Call, record: Record, tmp_path: Path):
    """Messages in the shapes of the conventions, and in those that no convention knows."""
    run = record.action("agent.run", "helper")
    call_part = {"type": "tool_call", "name": "f", "arguments": {"x": 1}}
    thought = {"type": "reasoning", "content": "hm"}
    answer_part = {"type": "tool_call_response", "response": [1]}
    record.action(
        "model.request", "m", parent=run, at=1,
        content={
            "gen_ai.system_instructions": [{"type": "text", "content": "be brief"}],
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": "first"}]},
                {"role": "assistant", "parts": [call_part]},
                {"role": "tool", "parts": [answer_part, {"type": "unheard of"}]},
                {"role": "user", "parts": []},
                "no message at all",
            ],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [thought, call_part]}],
            "gen_ai.tool.definitions": [{"name": "f"}],
        },
    )  # fmt: skip
    record.action("model.request", "m", parent=run, at=2, content={"gen_ai.input.messages": "cut to a te..."})
    record.action("control.pause", at=3)
    record.action("mcp.tools.call", "f", at=4, content={"actionspan.response": None})
    assert call("report", record.close(), "--content", "-o", tmp_path / "page.html").exit_code == 0
    run, request, cut, verb, mcp = data(tmp_path / "page.html")["actions"]
    assert request["said"] == [
        ["instructions", "be brief"],
        ["history", "2 earlier messages, which stand at the requests before this one"],
        ["tool answers", "[\n  1\n]"],
        ["tool", '{\n  "type": "unheard of"\n}'],
        ["user", ""],
        ["prompt", "no message at all"],
        ["assistant thinks", "hm"],
        ["assistant calls f", '{\n  "x": 1\n}'],
        ["tool definitions", '[\n  {\n    "name": "f"\n  }\n]'],
    ]
    assert (run["said"], cut["said"]) == ([], [["prompt", "cut to a te..."]])
    assert (verb["verb"], mcp["verb"], mcp["said"]) == ("control.pause", "tools/call", [["response", "null"]])

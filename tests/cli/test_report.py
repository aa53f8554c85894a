"""`report` as a command: which runs it takes, what it leaves out, and what it answers. The page: tests/report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Call, Record

PROMPT = "a prompt nobody else may read"


@pytest.fixture
def directory(record: Record) -> Path:
    for number, trace in enumerate(("1" * 32, "2" * 32)):
        run = record.action("agent.run", f"agent-{number}", trace=trace, at=number, run_id=f"run-{number}")
        record.action(
            "model.request", "m", parent=run, trace=trace, at=number, outcome="error", error="ValueError",
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

"""`actionspan demo`: what it shows, and that by default nothing that is said in it leaves."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from actionspan import ActionPolicy
from actionspan.cli._demo import demo
from actionspan.cli.demo.agents import Desk
from actionspan.cli.demo.script import play
from actionspan.cli.demo.story import Story
from actionspan.recorder import read
from actionspan.testing import Capture, capture
from cli.conftest import Call
from cli.test_commands import receiver  # noqa: F401 # a fixture

CANARIES = Story(**{field.name: f"canary-{field.name.replace('_', '-')}" for field in fields(Story)})
SAID = sorted(getattr(CANARIES, field.name) for field in fields(Story))


def _everything(seen: Capture, log: str) -> str:
    """All that was emitted, as text."""
    spans = [span.to_json() for span in seen.spans]
    logs = [record.to_json() for record in seen.logs]
    return "\n".join([*spans, *logs, json.dumps(seen.metrics(), default=repr), json.dumps(seen.records), log])


def _played(caplog: pytest.LogCaptureFixture, **arguments: object) -> str:
    with caplog.at_level(0), capture(**arguments) as seen:
        asyncio.run(play(Desk(CANARIES), lambda _: None))
        return _everything(seen, caplog.text)


def test_by_default_nothing_that_is_said_is_in_any_signal(caplog: pytest.LogCaptureFixture):
    emitted = _played(caplog)
    assert [canary for canary in SAID if canary in emitted] == []
    assert "lookup_order" in emitted  # the canaries were looked for in something


def test_with_everything_admitted_all_of_it_is_there(caplog: pytest.LogCaptureFixture):
    emitted = _played(caplog, mode="content", policy=ActionPolicy.everything())
    assert [canary for canary in SAID if canary not in emitted] == []


def _shape(output: str) -> str:
    """The trees of `output` without what changes from run to run, and with the previous MCP SDK's greeting."""
    lines = [re.sub(r" +[\d.]+m?s +[━╸╺].*", "", line) for line in output.splitlines()]
    lines = [re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{32}\b", "ID", line) for line in lines]
    lines = [line.rstrip().replace("✓ initialize", "✓ server/discover") for line in lines[5:-5]]
    return "\n".join(lines) + "\n"


def test_the_demo_shows_every_kind_of_ending(call: Call, tmp_path: Path):
    result = call("demo", "--pace", 0, "--record", tmp_path, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert _shape(result.stdout) == snapshot("""\
run ID  trace ID
                                                          took                                           tokens in   out
⏸ support · deferred
├─ ✓ server/discover
├─ ✓ tools/list
├─ ✓ chat scripted
├─ ✓ lookup_order
├─ ✓ track_parcel
├─ ✓ chat scripted
├─ ✗ validate check_shelf · invalid_arguments
├─ ✓ chat scripted
├─ ✗ check_shelf · retry · attempt 2
├─ ✓ chat scripted
├─ ✓ check_shelf · attempt 3
├─ ✓ chat scripted
├─ ✓ supplier_stock
│  └─ ✓ tools/call supplier_stock
├─ ✓ chat scripted
├─ ✓ ask_clerk
│  └─ ✓ clerk
│     └─ ✓ chat scripted
├─ ✓ chat scripted
└─ ⏸ refund · approval_required
7 validations that passed are not shown (--full)

run ID  trace ID
resumes run ID
                                                          took                                           tokens in   out
⏸ support · deferred
├─ ✓ server/discover
├─ ✓ tools/list
├─ ⊘ refund · denied
├─ ✓ chat scripted
└─ ⏸ refund · approval_required
1 validation that passed is not shown (--full)

run ID  trace ID
resumes run ID
                                                          took                                           tokens in   out
✓ support
├─ ✓ server/discover
├─ ✓ tools/list
├─ ✓ refund
├─ ✓ control.pause · pending
├─ ✓ control.wait
├─ ✓ control.checkpoint
├─ ✓ control.steer · pending
├─ ✓ control.resume
└─ ✓ chat scripted
1 validation that passed is not shown (--full)
""")


def test_the_demo_records_no_content_unless_the_environment_admits_it(call: Call, tmp_path: Path):
    def recorded(name: str, *options: str, **env: str) -> str:
        result = call("demo", "--pace", 0, "--record", tmp_path / name, *options, env=env)
        assert result.exit_code == 0, result.output
        return json.dumps(list(read(tmp_path / name).query())) + result.stdout

    said = Story().customer
    assert said not in recorded("default")
    assert said in recorded("environment", ACTIONSPAN_AUDIT="content", ACTIONSPAN_CAPTURE="all")
    assert said in recorded("option", "--content")
    assert said not in recorded("forbidden", "--content", ACTIONSPAN_AUDIT="metadata")
    off = call("demo", "--pace", 0, "--record", tmp_path / "off", env={"ACTIONSPAN_AUDIT": "off"})
    assert (off.exit_code, "switches instrumentation off" in off.stderr) == (1, True)


def test_as_json_it_says_what_show_says(call: Call, tmp_path: Path):
    result = call("demo", "--pace", 0, "--record", tmp_path, "--json")
    said = json.loads(result.stdout)
    assert [run["outcome"] for run in said["runs"]] == ["deferred", "deferred", "success"]
    again = json.loads(call("show", tmp_path, "--all", "--json").stdout)
    assert said == again


def test_without_fastmcp_its_server_is_left_out_with_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "fastmcp", None)
    result = call("demo", "--pace", 0, "--record", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("MCP is left out: FastMCP's server is not installed")
    assert "supplier_stock" not in result.stdout


def test_the_demo_sends_its_spans(call: Call, tmp_path: Path, receiver: tuple[str, list[object]]):  # noqa: F811
    url, _ = receiver
    result = call("demo", "--pace", 0, "--record", tmp_path, "--otlp", url)
    assert result.exit_code == 0, result.output
    assert f"Sent to {url}/v1/traces as service actionspan-demo." in result.stdout


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "localhost:4318", "ftp://x"])
def test_an_endpoint_that_cannot_be_is_one_line(call: Call, tmp_path: Path, url: str):
    result = call("demo", "--record", tmp_path / "record", "--otlp", url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert url in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "record").exists()


def test_the_demo_leaves_nothing_instrumented(call: Call, tmp_path: Path):
    assert call("demo", "--pace", 0, "--record", tmp_path).exit_code == 0
    with capture():  # it raises when the process is still instrumented
        pass
    assert demo.__doc__

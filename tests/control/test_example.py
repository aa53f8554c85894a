"""The example, controlled from another process as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from actionspan.cli._app import app
from actionspan.control._client import remotes
from actionspan.recorder import read, verify

APP = Path(__file__).parents[2] / "examples/control/app.py"
ACTIONSPAN = Path(sys.executable).with_name("actionspan")


@contextmanager
def the_app(directory: Path, pace: float = 60) -> Iterator[subprocess.Popen]:
    """The agent at work, counting its first shelf for `pace` seconds."""
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    process = subprocess.Popen(
        [sys.executable, str(APP), "rec", str(pace)], cwd=directory, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().startswith("serving")
        assert process.stdout.readline() == "counting shelf 1\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def control(directory: Path, *arguments: str) -> str:
    done = subprocess.run([ACTIONSPAN, "control", "rec", *arguments], cwd=directory, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_aborted_from_another_process(tmp_path: Path):
    with the_app(tmp_path) as process:
        said = control(tmp_path, "abort", "--agent-id", "support", "--now", "--reason", "customer hung up")
        assert said.split()[:2] in (["pending", "support"], ["done", "support"])
        assert process.stdout.read() == "stopped: customer hung up\n"
        assert process.wait() == 0
    ended = next(event for event in read(tmp_path / "rec").query(kind="agent.run.end"))
    assert (ended["outcome"], ended["outcome_reason"]) == ("cancelled", "aborted")
    assert ended["content"]["actionspan.control_reason"] == "customer hung up"


def test_steered_from_another_process(tmp_path: Path):
    with the_app(tmp_path, pace=3) as process:
        (remote,) = remotes(tmp_path / "rec")
        assert remote.ask("pause", wait=60)["receipt"]["state"] == "done"
        assert remote.ask("checkpoint", label="half way")["receipt"]["state"] == "done"
        assert control(tmp_path, "steer", "--agent-id", "support", "answer in French").startswith("pending")
        assert remote.ask("resume")["receipt"]["state"] == "done"
        output = process.stdout.read()
    assert "the model was told: answer in French\n" in output
    assert "Voilà" in output
    (steer,) = read(tmp_path / "rec").query(kind="control.steer.end")
    assert (steer["source"], steer["agent_id"]) == ("socket", "support")
    assert steer["content"]["actionspan.control_directive"] == "answer in French"
    (settled,) = read(tmp_path / "rec").query(kind="control.steer.settled")
    assert (settled["call_id"], settled["state"]) == (steer["call_id"], "done")
    assert verify(tmp_path / "rec").damaged is False
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "rec"), "--content"]).output
    for words in ("control.pause", "control.steer", "control.checkpoint", "control.wait", "answer in French"):
        assert words in shown

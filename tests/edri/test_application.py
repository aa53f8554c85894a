"""A real EDRI application, its inspector, and the bridge: both hold the same actions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from inline_snapshot import snapshot

pytest.importorskip("edri.abstract", reason="EDRI needs Python 3.12 (and the extra edri)")

from actionspan import PydanticAIInstrumentor
from actionspan.bridges.edri import EdriBridge, EdriBridgeManager
from actionspan.testing import capture

ROOT = Path(__file__).parents[2]
VERBS = {
    ("agent", "run"): "invoke_agent parcel",
    ("model", "request"): "chat ",
    ("tool", "validate"): "validate_tool ",
    ("tool", "execute"): "execute_tool ",
    ("edri", "dispatch"): "send ",
}


def lines_until(script: Path, last: Callable[[str], bool], **environment: str) -> list[str]:
    """What `script` prints, up to the line that is the last one; then its processes are stopped."""
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        # An application that does not get there would otherwise keep the suite waiting.
        watchdog = threading.Timer(180, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if last(line):
                    break
            return lines
        finally:
            watchdog.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def held() -> dict[str, Any]:
    """What the inspector and the bridge hold of two runs."""
    script = Path(__file__).with_name("application.py")
    (line,) = lines_until(script, lambda line: line.startswith("{"), BRIDGE_CONTENT="1")
    return json.loads(line)


def attempts(held: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The inspector's actions by id, each with its one attempt."""
    found = {}
    for action in held["actions"].values():
        (attempt,) = action["attempts"]
        found[action["action_id"]] = (action, attempt)
    return found


def test_spans_equal_what_the_inspector_holds(held: dict[str, Any]):
    known = attempts(held)
    spans = {span["attributes"]["actionspan.action_id"]: span for span in held["spans"]}
    assert spans.keys() == known.keys()
    assert len(held["spans"]) == len(known) == 11
    for key, span in spans.items():
        action, attempt = known[key]
        attributes = span["attributes"]
        parent = action["parent_action_id"]
        assert span["trace"] == UUID(action["root_action_id"]).int
        assert span["span"] == UUID(key).int & (2**64 - 1)
        assert span["parent"] == (None if parent is None else UUID(parent).int & (2**64 - 1))
        assert attributes["actionspan.attempt"] == attempt["attempt"]
        assert attributes["actionspan.outcome"] == attempt["outcome"]
        assert attributes["gen_ai.agent.name"] == action["agent"]
        assert (span["end"] - span["start"]) / 1e9 == pytest.approx(attempt["duration"], abs=1e-6)
        assert span["name"].startswith(VERBS[action["namespace"], action["operation"]])
        if attempt["usage"] is not None:
            prefix = "actionspan.usage." if action["namespace"] == "agent" else "gen_ai.usage."
            assert attributes[prefix + "input_tokens"] == attempt["usage"]["input_tokens"]
            assert attributes[prefix + "output_tokens"] == attempt["usage"]["output_tokens"]


def test_two_runs_under_one_run_id_are_two_trees(held: dict[str, Any]):
    roots = [span for span in held["spans"] if span["parent"] is None]
    assert len({span["trace"] for span in roots}) == len(roots) == 2
    assert {span["attributes"]["actionspan.run_id"] for span in held["spans"]} == {"the-same-for-both"}
    assert sorted(picture(held["spans"], root, 0) for root in roots) == snapshot(
        [
            """\
invoke_agent parcel [error] !TimeoutError
  chat impatient [success]
  validate_tool wait_for_nobody [success]
  execute_tool wait_for_nobody [error] !TimeoutError
    send Nobody [timeout] !timeout\
""",
            """\
invoke_agent parcel [success]
  chat scripted [success]
  validate_tool locate [success]
  execute_tool locate [success]
    send WhereIs [success]
  chat scripted [success]\
""",
        ]
    )


def picture(spans: list[dict[str, Any]], span: dict[str, Any], depth: int) -> str:
    attributes = span["attributes"]
    error = f" !{attributes['error.type']}" if "error.type" in attributes else ""
    line = f"{'  ' * depth}{span['name']} [{attributes['actionspan.outcome']}]{error}"
    below = [each for each in spans if (each["trace"], each["parent"]) == (span["trace"], span["span"])]
    below.sort(key=lambda each: each["start"])
    return "\n".join([line, *(picture(spans, each, depth + 1) for each in below)])


def test_content_is_what_edri_captured(held: dict[str, Any]):
    (dispatch,) = [span for span in held["spans"] if span["name"] == "send WhereIs"]
    action, attempt = attempts(held)[dispatch["attributes"]["actionspan.action_id"]]
    assert json.loads(dispatch["attributes"]["actionspan.request"]) == attempt["request"] == {"parcel": 7}
    assert json.loads(dispatch["attributes"]["actionspan.response"]) == attempt["response_data"] == "Porto"
    assert dispatch["attributes"]["actionspan.edri_dispatched_event_id"] == action["metadata"]["dispatched_event_id"]


def test_the_example_prints_its_tree():
    script = ROOT / "examples" / "edri" / "app.py"
    chats = iter(range(2))
    lines = lines_until(script, lambda line: line.startswith("  chat") and next(chats) == 1)
    assert "\n".join(lines) == snapshot("""\
invoke_agent parcel [success]
  chat scripted [success]
  validate_tool locate [success]
  execute_tool locate [success]
    send WhereIs [success]
  chat scripted [success]\
""")


# --- the manager, without an application around it ---


class Traces(EdriBridgeManager):
    def make_bridge(self) -> EdriBridge:
        return EdriBridge([])


def test_the_manager_takes_the_streams_events(stream: Callable[..., Any]):
    from edri.testing import ManagerTestHarness

    manager = Traces(router_queue=object())
    harness = ManagerTestHarness(manager)
    harness.prepare()
    s = stream()
    harness.resolve(s.start("agent.run", 1))  # before it has started it has no bridge, and nothing breaks
    manager.after_start()
    assert manager.bridge is not None
    harness.resolve(s.start("agent.run", 1))
    assert manager.bridge.open == 1
    harness.resolve(s.end("agent.run", 1))
    assert manager.bridge.open == 0


def test_the_manager_runs_on_without_a_bridge_that_refuses(
    caplog: pytest.LogCaptureFixture, stream: Callable[..., Any]
):
    manager = Traces(router_queue=object())
    with capture():
        manager.after_start()
    assert manager.bridge is None
    assert "Use the instrumentor for agents that run in this process" in caplog.text
    assert not PydanticAIInstrumentor().is_instrumented_by_opentelemetry


def test_edri_can_restart_the_manager_and_send_it_to_another_process():
    from edri.router.health_checker import missing_restart_kwargs

    assert missing_restart_kwargs(EdriBridgeManager) == []
    manager = Traces(router_queue=object())
    manager.after_start()
    assert "bridge" not in manager.__getstate__()


def test_the_managers_own_bridge_exports_over_otlp_and_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ACTIONSPAN_RECORD", str(tmp_path))
    bridge = EdriBridgeManager(router_queue=object()).make_bridge()
    kinds = [type(processor).__name__ for processor in bridge._processors]
    bridge.shutdown()
    assert kinds == ["BatchSpanProcessor", "RecorderSpanProcessor"]


def test_time_passes_for_the_bridge_while_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    expired: list[bool] = []
    manager = Traces(router_queue=object())
    manager.after_start()
    assert manager.bridge is not None
    monkeypatch.setattr(manager.bridge, "expire", lambda: expired.append(True))
    monkeypatch.setattr(manager, "get_pipes", set)
    monkeypatch.setattr(manager, "resolver_idle_delay", 0.0)
    manager.run_resolver_cycle()
    assert expired == [True]


def test_the_bridge_is_shut_down_with_its_manager(monkeypatch: pytest.MonkeyPatch):
    ended: list[bool] = []
    manager = Traces(router_queue=object())
    manager.after_start()
    assert manager.bridge is not None
    monkeypatch.setattr(manager.bridge, "shutdown", lambda: ended.append(True))

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manager, "_start_and_resolve", interrupted)
    monkeypatch.setattr("edri.abstract.manager.manager_base.install_graceful_sigterm", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        manager.run()
    assert ended == [True]

"""Somebody's test suite, run with everything traced: it comes out as it does without, and says what was seen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from actionspan import guard
from actionspan.recorder import verify
from actionspan.testing import capture
from actionspan.testing.transparent import FAULTY

pytestmark = pytest.mark.contained

SUITE = """
import asyncio
import pytest
from opentelemetry import trace, metrics
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(), name="support")

@agent.tool_plain
def lookup(order: int) -> str:
    return "on its way"

async def stream():
    async with agent.run_stream("go") as result:
        return await result.get_output()

def test_passes():
    assert asyncio.run(agent.run("go")).output == '{"lookup":"on its way"}'

def test_fails():
    assert asyncio.run(agent.run("go")).output == "something else"

def test_streams():
    assert asyncio.run(stream()) == '{"lookup":"on its way"}'

def test_nothing_global_is_set():
    assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
    assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"

@pytest.mark.skip
def test_skipped():
    pass
"""

HOLDING = """
import threading
from actionspan import action

held = action("billing", "charge", name="held")

def test_holds():
    thread = threading.Thread(target=held.__enter__)
    thread.start()
    thread.join()
"""

UNINSTRUMENTING = """
from actionspan import PydanticAIInstrumentor

def test_uninstruments():
    PydanticAIInstrumentor().uninstrument()

def test_after():
    pass
"""

BROKEN = """
from actionspan import guard

def fault(stage):
    if stage == "tool.start":
        raise KeyError("ours")

guard._state.fault = fault
"""


Run = Callable[..., tuple[int, dict[str, str], str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a suite with the plugin: the exit status, the tests' outcomes by name, and the plugin's section."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(guard._state, "fault", None)
    guard._state.logged.clear()

    def runs(suite: str, *options: str, conftest: str = "") -> tuple[int, dict[str, str], str]:
        (tmp_path / "test_suite.py").write_text(suite)
        (tmp_path / "conftest.py").write_text(conftest)
        plugins = ["-p", "no:cacheprovider", "-p", "actionspan.testing.transparent", "--import-mode=importlib"]
        with redirect_stdout(StringIO()) as out, redirect_stderr(out):
            status = pytest.main(["--rootdir=.", "-rA", "--capture=no", *plugins, *options, "test_suite.py"])
        sys.modules.pop("test_suite", None)
        outcomes = re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", out.getvalue(), re.MULTILINE)
        _, heading, section = out.getvalue().partition("= actionspan =")
        section = section.partition("\n")[2].partition("\n=")[0] if heading else out.getvalue()
        return status, {name: outcome for outcome, name in outcomes}, section

    return runs


def test_a_suite_comes_out_as_it_does_without(run: Run):
    status, outcomes, section = run(SUITE)
    assert status == 1
    assert "actionspan:" not in section
    status_with, outcomes_with, section = run(SUITE, "--actionspan")
    assert (status_with, outcomes_with) == (status, outcomes)
    assert outcomes == {
        "test_passes": "PASSED",
        "test_fails": "FAILED",
        "test_streams": "PASSED",
        "test_nothing_global_is_set": "PASSED",
    }
    assert re.fullmatch(
        r"15 spans \(\d+ bytes as OTLP\), 15 actions recorded \(\d+ bytes\), 0 unfinished, 0 failures of ours", section
    )


def test_a_failure_of_ours_fails_the_run_and_names_the_test(run: Run):
    status, outcomes, section = run(SUITE, "--actionspan", "-k", "test_passes", conftest=BROKEN)
    assert (status, outcomes) == (FAULTY, {"test_passes": "PASSED"})
    assert "failure: 2 x tool.start" in section
    assert "failure: contained a failure in tool.start: KeyError" in section
    assert "in test_suite.py::test_passes" in section


def test_an_action_that_never_ends_is_named_with_its_test(run: Run):
    status, _, section = run(HOLDING, "--actionspan")
    assert status == 0
    assert section.splitlines()[1:] == ["unfinished: charge held in test_suite.py::test_holds"]


def test_a_suite_that_uninstruments_is_not_taken_for_one_that_was_watched(run: Run):
    status, _, section = run(UNINSTRUMENTING, "--actionspan")
    assert status == FAULTY
    line = "failure: something else instrumented or uninstrumented: test_suite.py::test_uninstruments"
    assert section.splitlines()[1:] == [line]


def test_what_the_workers_saw_is_added_up_and_the_record_kept(run: Run, tmp_path: Path):
    status, _, section = run(SUITE, "--actionspan", "--actionspan-record=kept", "-n", "2")
    assert status == 1
    assert re.match(r"15 spans .* 15 actions recorded .* 0 unfinished, 0 failures of ours", section)
    reports = [verify(directory) for directory in (tmp_path / "kept").iterdir()]
    assert sum(report.events for report in reports) == 30
    assert not any(report.damaged or report.unclosed for report in reports)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ACTIONSPAN_AUDIT", "metadata", "the environment does not admit content"),
        ("OTEL_SDK_DISABLED", "true", "OpenTelemetry's SDK is disabled"),
        ("ACTIONSPAN_AUDIT", "everything", "ACTIONSPAN_AUDIT='everything' is not one of off, metadata, content"),
    ],
)
def test_where_nothing_could_be_seen_nothing_is_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
):
    monkeypatch.setenv(name, value)
    status, outcomes, said = run(SUITE, "--actionspan")
    assert (status, outcomes) == (pytest.ExitCode.USAGE_ERROR, {})
    assert f"--actionspan: {why}" in said


FULL = """
import errno, os
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

def test_runs_on_a_full_disk(monkeypatch):
    import asyncio

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert asyncio.run(Agent(TestModel(), name="a").run("go")).output
"""

ALTERING = """
from pathlib import Path
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

def test_alters_the_record():
    import asyncio

    asyncio.run(Agent(TestModel(), name="a").run("go"))
    (segment,) = Path("kept").rglob("*.jsonl")
    with segment.open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"x")
"""


def test_what_was_not_recorded_is_a_failure_of_ours(run: Run):
    status, outcomes, section = run(FULL, "--actionspan")
    assert (status, outcomes) == (FAULTY, {"test_runs_on_a_full_disk": "PASSED"})
    assert "failure: 4 events were not recorded" in section
    assert "failure: 2 actions ended as spans and not in the record" in section


def test_a_record_that_does_not_verify_is_a_failure_of_ours(run: Run):
    status, outcomes, section = run(ALTERING, "--actionspan", "--actionspan-record=kept")
    assert (status, outcomes) == (FAULTY, {"test_alters_the_record": "PASSED"})
    assert "failure: the record does not verify" in section


def test_a_process_that_is_instrumented_already_is_refused(run: Run):
    with capture():
        status, _, said = run(SUITE, "--actionspan")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "--actionspan: the process is instrumented already" in said

"""An application that knows nothing of us, started by `opentelemetry-instrument`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from actionspan.recorder import read

APPLICATION = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(), name="zero")

@agent.tool_plain
def look(x: int) -> str:
    return "found"

print(agent.run_sync("a secret prompt").output)
"""

OTHER_INSTRUMENTOR = """
class Other:
    def instrument(self, **options):
        print("the other instrumentor is on")
"""


@pytest.fixture
def run(tmp_path: Path):
    """Runs the application under the loader, with another instrumentor that sorts after ours."""
    (tmp_path / "app.py").write_text(APPLICATION)
    site = tmp_path / "site"
    info = site / "zz_other-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "zz_other.py").write_text(OTHER_INSTRUMENTOR)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opentelemetry_instrumentor]\nzz_other = zz_other:Other\n")

    def start(application: str = "app.py", **variables: str) -> subprocess.CompletedProcess[str]:
        quiet = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}
        paths = [str(site), variables.pop("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")]
        environ = {**os.environ, **quiet, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        loader = Path(sysconfig.get_path("scripts")) / "opentelemetry-instrument"
        return subprocess.run(
            [loader, sys.executable, application], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
        )

    return start


def kinds(directory: Path) -> list[str]:
    return [event["kind"] for event in read(directory).query()]


TERMINALS = ["model.request.end", "tool.validate.end", "tool.execute.end", "model.request.end", "agent.run.end"]


def test_the_jsonl_exporter_records_with_zero_code(run, tmp_path: Path):
    done = run(OTEL_TRACES_EXPORTER="jsonl", ACTIONSPAN_JSONL="out")
    assert (done.returncode, done.stderr) == (0, "")
    assert kinds(tmp_path / "out") == TERMINALS
    assert "secret prompt" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())


def test_the_record_has_starts_and_terminals_whatever_is_exported(run, tmp_path: Path):
    for name, sampler in (("all", "always_on"), ("none", "always_off")):
        done = run(ACTIONSPAN_RECORD=name, OTEL_TRACES_SAMPLER=sampler)
        assert (done.returncode, done.stderr) == (0, "")
        recorded = kinds(tmp_path / name)
        assert [kind for kind in recorded if kind.endswith(".end")] == TERMINALS
        assert len(recorded) == 10


def test_both_on_one_directory_record_once(run, tmp_path: Path):
    done = run(ACTIONSPAN_RECORD="rec", ACTIONSPAN_JSONL="rec", OTEL_TRACES_EXPORTER="jsonl")
    assert done.returncode == 0
    assert len(kinds(tmp_path / "rec")) == 10
    assert done.stderr.count("\n") == 1


def test_content_with_zero_code(run, tmp_path: Path):
    run(ACTIONSPAN_RECORD="rec", ACTIONSPAN_AUDIT="content", ACTIONSPAN_CAPTURE="model_requests")
    assert "a secret prompt" in "".join(path.read_text() for path in (tmp_path / "rec").iterdir())


def test_a_wrong_value_is_one_error_line_and_everybody_else_is_on(run, tmp_path: Path):
    done = run(ACTIONSPAN_AUDIT="Full", OTEL_TRACES_EXPORTER="jsonl", ACTIONSPAN_JSONL="out")
    assert done.returncode == 0
    assert done.stdout == 'the other instrumentor is on\n{"look":"found"}\n'
    assert done.stderr == "actionspan stays off: ACTIONSPAN_AUDIT='Full' is not one of off, metadata, content\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("variable", ["OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "OTEL_SDK_DISABLED", "ACTIONSPAN_AUDIT"])
def test_switched_off(run, tmp_path: Path, variable: str):
    value = {"OTEL_SDK_DISABLED": "true", "ACTIONSPAN_AUDIT": "off"}.get(variable, "pydantic_ai")
    done = run(**{variable: value}, OTEL_TRACES_EXPORTER="jsonl", ACTIONSPAN_JSONL="out", ACTIONSPAN_RECORD="rec")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "rec").exists()
    assert not (tmp_path / "out").exists()


def test_pydantic_ai_too_old(run, tmp_path: Path):
    info = tmp_path / "old" / "pydantic_ai_slim-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pydantic-ai-slim\nVersion: 1.0.0\n")
    done = run(PYTHONPATH=str(tmp_path / "old"), ACTIONSPAN_RECORD="rec")
    assert done.returncode == 0
    assert '"found"' in done.stdout
    assert "pydantic-ai-slim 1.0.0" in done.stderr
    assert "nothing can be instrumented" in done.stderr
    assert not (tmp_path / "rec").exists()


HIDE_PYDANTIC_AI = """
import importlib.metadata, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pydantic_ai":
            raise ModuleNotFoundError(name)

def hide():
    sys.meta_path.insert(0, Hidden())
    from opentelemetry.instrumentation import dependencies
    found = dependencies.version

    def version(name):
        if name == "pydantic-ai-slim":
            raise importlib.metadata.PackageNotFoundError(name)
        return found(name)

    dependencies.version = version
"""


def test_pydantic_ai_absent(run, tmp_path: Path):
    hidden = tmp_path / "hidden"
    info = hidden / "hiding-1.0.dist-info"
    info.mkdir(parents=True)
    (hidden / "hiding.py").write_text(HIDE_PYDANTIC_AI)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hiding\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[opentelemetry_pre_instrument]\nhiding = hiding:hide\n")
    (tmp_path / "plain.py").write_text("print('the application runs')")
    done = run("plain.py", PYTHONPATH=str(hidden), ACTIONSPAN_RECORD="rec")
    assert done.returncode == 0
    assert done.stdout == "the other instrumentor is on\nthe application runs\n"
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize(
    "module", ["actionspan", "actionspan.instrumentor", "actionspan.recorder", "actionspan.testing"]
)
def test_importing_us_does_not_import_pydantic_ai(module: str):
    check = f"import sys, {module}; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "False\n"

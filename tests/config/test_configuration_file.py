"""OpenTelemetry's declarative configuration: the file that `OTEL_CONFIG_FILE` names, under the zero-code start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from actionspan.recorder import read

ROOT = Path(__file__).parents[2]
APPLICATION = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

print(Agent(TestModel(custom_output_text="said"), name="a").run_sync("a secret prompt").output)
"""
TO_A_DIRECTORY = """
file_format: "1.0"
resource:
  attributes:
    - name: service.name
      value: parcels
tracer_provider:
  processors:
    - simple:
        exporter:
          jsonl:
            directory: out
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the application with a configuration file."""

    def start(configuration: str, **variables: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "otel.yaml").write_text(configuration)
        (tmp_path / "app.py").write_text(APPLICATION)
        loader = Path(sys.executable).with_name("opentelemetry-instrument")
        environ = {**os.environ, "OTEL_CONFIG_FILE": "otel.yaml", **variables}
        done = subprocess.run(
            [loader, sys.executable, "app.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "said\n"), done.stderr
        return done

    return start


def with_options(options: str) -> str:
    return f"{TO_A_DIRECTORY}instrumentation/development:\n  python:\n    pydantic_ai:\n{options}"


def attributes_of_the_run(directory: Path) -> dict[str, object]:
    (event,) = read(directory / "out").query(kind="agent.run.end")
    assert event["resource_scope"]["resource"]["attributes"]["service.name"] == "parcels"
    return event["attributes"]


def test_without_a_word_about_us_every_action_is_exported(run: Run, tmp_path: Path):
    run(TO_A_DIRECTORY)
    kinds = [event["kind"] for event in read(tmp_path / "out").query()]
    assert kinds == ["model.request.end", "agent.run.end"]


def test_the_arguments_of_instrument_stand_in_the_file(run: Run, tmp_path: Path):
    options = "      mode: content\n      trace: new\n      identity:\n        prompt_version: '7'\n"
    run(with_options(options), ACTIONSPAN_CAPTURE="model_responses")
    attributes = attributes_of_the_run(tmp_path)
    assert attributes["actionspan.prompt_version"] == "7"
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert "said" in written
    assert "a secret prompt" not in written


def test_the_deployments_ceiling_holds_against_the_file(run: Run, tmp_path: Path):
    run(with_options("      mode: content\n"), ACTIONSPAN_CAPTURE="all", ACTIONSPAN_AUDIT="metadata")
    attributes_of_the_run(tmp_path)
    assert "a secret prompt" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())


def test_off_is_a_word_in_quotes(run: Run, tmp_path: Path):
    run(with_options('      mode: "off"\n'))
    assert not (tmp_path / "out").exists()


def test_a_wrong_option_is_logged_and_the_loader_starts_us_with_the_defaults(run: Run, tmp_path: Path):
    done = run(with_options("      mode: full\n"), ACTIONSPAN_CAPTURE="all")
    assert "mode='full' is not one of off, metadata, content" in done.stderr
    attributes_of_the_run(tmp_path)
    assert "a secret prompt" not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())


def test_the_recipe_in_the_documentation(run: Run, tmp_path: Path):
    text = (ROOT / "docs" / "configuration-file.md").read_text()
    (recipe,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert "otlp_http:" in recipe
    exporter = re.search(r"( +)otlp_http:\n(?:\1 +.*\n)+", recipe)
    assert exporter is not None
    indent = exporter[1]
    recipe = recipe.replace(exporter[0], f"{indent}jsonl:\n{indent}  directory: out\n")
    run(recipe)
    assert attributes_of_the_run(tmp_path)["actionspan.prompt_version"] == "7"

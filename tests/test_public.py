"""What is public is exactly what is said to be, and every name imports."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest

import actionspan

MODULES = (
    "actionspan",
    "actionspan.content",
    "actionspan.envelope",
    "actionspan.policy",
    "actionspan.recorder",
    "actionspan.redact",
    "actionspan.settings",
    "actionspan.testing",
    "actionspan.vocabulary",
)


@pytest.mark.parametrize("module", MODULES)
def test_every_exported_name_is_there(module: str):
    loaded = importlib.import_module(module)
    assert sorted(set(loaded.__all__)) == sorted(loaded.__all__)
    for name in loaded.__all__:
        assert getattr(loaded, name) is not None


def test_the_names_of_the_top_level():
    assert set(actionspan.__all__) >= {
        "Action", "ActionNamespace", "ActionOperation", "ActionOutcome", "ActionPhase", "ActionPolicy", "AuditMode",
        "FanOutRecorder", "JsonlRecorder", "JsonlSpanExporter", "NormalizationLimits", "OtelRecorder",
        "PydanticAIInstrumentor", "QueryNotSupported", "Recorder", "RecorderClosed", "RecorderSpanProcessor",
        "UnknownCallId", "action", "capability", "flush", "narrow", "resolve_audit_mode",
    }  # fmt: skip
    assert set(actionspan.__all__) <= set(dir(actionspan))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = actionspan.nothing


def test_the_version_is_that_of_the_distribution():
    assert actionspan.__version__ == version("actionspan")


def test_the_entry_points_load():
    (instrumentor,) = [e for e in entry_points(group="opentelemetry_instrumentor") if e.name == "pydantic_ai"]
    assert instrumentor.load() is actionspan.PydanticAIInstrumentor
    (exporter,) = [e for e in entry_points(group="opentelemetry_traces_exporter") if e.name == "jsonl"]
    assert exporter.load() is actionspan.JsonlSpanExporter


def test_importing_the_package_imports_next_to_nothing():
    check = "import sys, actionspan; print(sorted(m for m in sys.modules if m.startswith(('opentelemetry', 'wrapt'))))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "[]\n"

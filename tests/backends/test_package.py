"""What the package offers, and what it costs to import."""

from __future__ import annotations

import subprocess
import sys

from actionspan import backends
from actionspan.backends import BackendError
from actionspan.recorder import RecorderError


def test_the_names():
    assert set(backends.__all__) == {"BackendError", "BackendReport", "JaegerRecorder", "TempoRecorder"}
    assert all(getattr(backends, name) is not None for name in backends.__all__)
    assert issubclass(BackendError, RecorderError)


def test_who_reads_imports_no_exporter_and_no_pydantic_ai():
    check = """
import sys, actionspan.backends
print([name for name in ("pydantic_ai", "grpc", "opentelemetry.exporter.otlp.proto.http") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "[]\n"

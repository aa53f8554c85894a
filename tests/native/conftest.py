"""These tests run where the other instrumentations are installed: `make test` makes that environment."""

from __future__ import annotations

import pytest

for package in (
    "logfire",
    "openai",
    "opentelemetry.instrumentation.genai.openai",
    "opentelemetry.instrumentation.logging",
):
    pytest.importorskip(package, reason="in the environment of the services group: make test")

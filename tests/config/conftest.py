"""These tests need OpenTelemetry's reader of configuration files: `make test` makes an environment that has it."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.configuration", reason="in the environment of the services group: make test")

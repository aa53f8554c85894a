"""These tests are collected where the reader of configuration files is: `make test` makes an environment with it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("opentelemetry.configuration") else ["test_*.py"]

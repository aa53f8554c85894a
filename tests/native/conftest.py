"""These tests are collected where the other instrumentations are installed: `make test` makes that environment."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("logfire") and find_spec("openai") else ["test_*.py"]

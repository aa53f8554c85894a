"""These tests are collected where OpenInference is installed: `make test` makes that environment."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("openinference") else ["test_*.py"]

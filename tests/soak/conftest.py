"""How long `make soak` goes on."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-runs", type=int, default=10_000, help="outermost runs to make")
    parser.addoption("--soak-seconds", type=float, default=300, help="begin no further runs after this time")
    parser.addoption("--soak-seed", type=int, default=0, help="of the runs that are made")

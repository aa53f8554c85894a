"""Scenarios played, and what was found of them."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from actionspan import ActionPolicy
from canary import scenarios_mcp as _mcp  # noqa: F401 # its scenarios join the others
from canary.channels import CHANNELS, expected
from canary.scenarios import SCENARIOS, Plants
from canary.signals import Leaving, leaving

BYTES = {"recorded bytes"}
"""The place that shows whatever is recorded at all."""


def play(
    scenario: str, within: AbstractContextManager[Any] | None = None, **arguments: Any
) -> tuple[Leaving, set[str]]:
    """What leaves while `scenario` runs, and the channels that it planted a canary in."""
    plant = Plants()
    with (
        tempfile.TemporaryDirectory() as directory,
        leaving(Path(directory), **arguments) as gone,
        within or nullcontext(),
    ):
        asyncio.run(SCENARIOS[scenario](plant, gone))
    return gone, plant.planted


@cache
def played(scenario: str, *categories: str) -> tuple[Leaving, set[str]]:
    """The same when the policy admits `categories`, and the ceiling all of them."""
    return play(scenario, mode="content", policy=ActionPolicy.of(categories))


def found_in(*gone: Leaving) -> dict[str, set[str]]:
    """Where each channel's canary was found, in any of these."""
    found: dict[str, set[str]] = {}
    for one in gone:
        for channel, places in one.everywhere().items():
            found.setdefault(channel, set()).update(places - BYTES)
    return found


def all_expected(categories: tuple[str, ...]) -> dict[str, set[str]]:
    wanted = {channel: expected(channel, set(categories)) for channel in CHANNELS}
    return {channel: places for channel, places in wanted.items() if places}

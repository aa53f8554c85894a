"""Scenarios played, and what was found of them."""

from __future__ import annotations

import asyncio
import importlib
import tempfile
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actionspan import ActionPolicy
from canary.channels import expected
from canary.scenarios import SCENARIOS, Plants
from canary.signals import Leaving, leaving

if find_spec("fastmcp"):
    importlib.import_module("canary.scenarios_mcp")  # its scenarios join the others

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
def with_everything(scenario: str) -> tuple[Leaving, set[str]]:
    """The same when every category is on."""
    return play(scenario, mode="content", policy=ActionPolicy.everything())


def found_in(gone: Leaving) -> dict[str, set[str]]:
    """Where each channel's canary was found."""
    return {channel: places - BYTES for channel, places in gone.everywhere().items()}


@cache
def found_with_everything(scenario: str) -> dict[str, set[str]]:
    """Where each channel's canary is in `scenario` when every category is on."""
    return found_in(with_everything(scenario)[0])


def admitted_of(scenario: str, category: str) -> dict[str, set[str]]:
    """Of that, what `category` admits."""
    everything = found_with_everything(scenario)
    admitted = {channel: places & expected(channel, {category}) for channel, places in everything.items()}
    return {channel: places for channel, places in admitted.items() if places}

"""Deadlines that pass when a test says, not when the machine has been slow for long enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")

A_DAY = 86_400.0
"""In seconds: a deadline that no test waits for."""


async def expired(waited: Awaitable[T], once: Callable[[], bool]) -> T:
    """Await what has a deadline of `A_DAY`, which passes once `once()` holds, by asyncio's own clock and timers."""
    passing = asyncio.ensure_future(_pass(once))
    try:
        return await waited
    finally:
        passing.cancel()


async def within_a_day(waited: Awaitable[T]) -> T:
    """Await it within `asyncio.timeout`."""
    async with asyncio.timeout(A_DAY):
        return await waited


async def _pass(once: Callable[[], bool]) -> None:
    """Move the clock of the loop a day on whenever somebody waits for that long; it never goes back."""
    loop: Any = asyncio.get_running_loop()  # its timers are private
    while True:
        # What has begun may set its deadline later, so it is looked for until all is over.
        soon = loop.time() + A_DAY / 2
        if once() and any(timer.when() > soon for timer in loop._scheduled if not timer.cancelled()):
            loop.time = lambda clock=loop.time: clock() + A_DAY
        await asyncio.sleep(0.001)

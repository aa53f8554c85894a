"""Around a piece of the application's work: the action is current while it runs, and told how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from actionspan import guard
from actionspan.telemetry.span import ActionSpan

__all__ = ["around"]

T = TypeVar("T")


async def around(
    action: ActionSpan | None, work: Awaitable[T], failed: Callable[[BaseException], None], done: Callable[[T], None]
) -> T:
    """Await `work` with `action` current, then call `failed(error)` or `done(result)`; the outcome of `work` stands.

    Attaching and detaching stay in this one coroutine. With no action, because starting it failed or nothing is
    traced, `work` is awaited and that is all.
    """
    if action is None:
        return await work
    token = action.attach()
    try:
        result = await work
    except BaseException as error:
        action.detach(token)
        guard.call("action.end", partial(failed, error))
        raise
    action.detach(token)
    guard.call("action.end", partial(done, result))
    return result

"""Leaving in time: a collector that does not answer holds neither a flush nor the end of the process for long.

The SDK waits for its exporters without heeding the times it was given: `force_flush` as long as they take, and each
signal at its end up to 30 s, whatever `OTEL_BSP_EXPORT_TIMEOUT` and its like say
(https://github.com/open-telemetry/opentelemetry-python/issues/4555 and 4568).
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Thread
from typing import Any, Final

import wrapt

from actionspan import guard
from actionspan.pydantic_ai.wrapping import ActionWrapper, has_ours
from actionspan.telemetry.compat import EXPORTING, export_timeout_of, worker_of

__all__ = ["bound_exit", "flush_within", "release_exit"]

_SDK_WAIT: Final = 30_000
"""Milliseconds that the SDK lets a signal take to end, where nobody gives it a time."""
_LAST_WORDS: Final = 0.5
"""Seconds for the exporting thread to end once its exporter was shut down.

It usually logs that it gives up. A thread that writes to stderr while the interpreter goes can abort the process.
"""

_bound = False


def flush_within(timeout_seconds: float, flushes: Sequence[Callable[[int], bool]]) -> bool:
    """Whether every one of `flushes`, which are given the time in milliseconds, said in time that all has left.

    They run at once, each on a thread that nobody waits for: one that hangs takes no time from the others. Where no
    thread can be started, as while the interpreter ends, nothing is flushed.
    """
    deadline = time.monotonic() + timeout_seconds
    millis = max(1, int(timeout_seconds * 1000))
    flushed: list[bool] = []

    def run(flush: Callable[[int], bool]) -> None:
        flushed.append(guard.call("flush", lambda: flush(millis), False))

    threads = [Thread(target=run, args=(flush,), name="actionspan-flush", daemon=True) for flush in flushes]
    started = [thread for thread in threads if guard.call("flush", lambda thread=thread: _start(thread), False)]
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    # A thread that ends after its time may still append: what counts is what is there now.
    return flushed.count(True) == len(threads)


def _start(thread: Thread) -> bool:
    thread.start()
    return True


def bound_exit() -> None:
    """Let every signal end within its own export timeout, where that is shorter than what the SDK allows."""
    global _bound
    _bound = True
    for owner in _exporting():
        if not has_ours(owner.__dict__["shutdown"]):
            wrapt.wrap_object(owner, "shutdown", ActionWrapper, (_shutdown,))


def release_exit() -> None:
    """Give the SDK its own functions back; beneath another's wrapper ours stays, and does nothing."""
    global _bound
    _bound = False
    for owner in _exporting():
        ours = owner.__dict__["shutdown"]
        if isinstance(ours, ActionWrapper):
            setattr(owner, "shutdown", ours.__wrapped__)  # noqa: B010 # the class is known by its name only


def _exporting() -> Iterator[Any]:
    for module, name in EXPORTING:
        owner = getattr(importlib.import_module(module), name, None)
        if owner is not None:
            yield owner


def _shutdown(wrapped: Callable[..., None], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`shutdown(timeout_millis=30_000)` of what exports one signal."""
    allowed = args[0] if args else kwargs.get("timeout_millis", _SDK_WAIT)
    timeout = export_timeout_of(instance)
    if not _bound or timeout is None or not 0 < timeout < allowed:
        wrapped(*args, **kwargs)
        return
    wrapped(timeout, *args[1:], **{key: value for key, value in kwargs.items() if key != "timeout_millis"})
    worker = worker_of(instance)
    if worker is not None:
        worker.join(_LAST_WORDS)

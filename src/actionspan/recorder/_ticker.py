"""A daemon thread that does one thing at an interval."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from actionspan import guard

__all__ = ["Ticker"]


class Ticker:
    """Calls a bound method of an object every `seconds`, until stopped or the object is gone."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self._stopped = threading.Event()
        reference = weakref.WeakMethod(work)
        thread = threading.Thread(
            target=_run, args=(self._stopped, seconds, reference), name="actionspan-recorder", daemon=True
        )
        thread.start()

    def stop(self) -> None:
        """Return at once; a call in progress finishes by itself."""
        self._stopped.set()


def _run(stopped: threading.Event, seconds: float, reference: weakref.WeakMethod[Callable[[], None]]) -> None:
    while not stopped.wait(seconds):
        work = reference()
        if work is None:
            return
        guard.call("recorder", work)
        del work

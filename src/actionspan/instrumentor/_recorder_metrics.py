"""What the recorders of a process wrote and lost, as metrics.

The SDK cannot take an observable instrument away again, so there is one pair for each meter provider, and it tells of
whichever recording is in use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from actionspan import guard
from actionspan._version import __version__
from actionspan.instrumentor._recording import Recording
from actionspan.telemetry import names

__all__ = ["observe_recording"]


def observe_recording(provider: MeterProvider, recording: Recording) -> None:
    """Tell `provider` of `recording` from now on, and of no other."""
    with _lock:
        observer = _observers.get(provider)
        if observer is None:
            observer = _observers[provider] = _Observer()
            observer.register(provider)
    observer.recording = recording


class _Observer:
    """Reads the totals when a reader collects; says nothing while nothing is recorded."""

    recording: Recording | None = None

    def register(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(names.SCOPE, __version__, names.SCHEMA_URL)
        meter.create_observable_counter(
            names.METRIC_RECORDER_WRITTEN,
            [lambda options: self._observed(options, 0)],
            unit="{event}",
            description="Events that recorders handed to the operating system.",
        )
        meter.create_observable_counter(
            names.METRIC_RECORDER_DROPPED,
            [lambda options: self._observed(options, 1)],
            unit="{event}",
            description="Events that recorders lost to a failing file system.",
        )

    def _observed(self, _options: CallbackOptions, which: int) -> Iterable[Observation]:
        recording = self.recording
        totals = None if recording is None else guard.call("metrics", recording.totals)
        return [] if totals is None else [Observation(totals[which])]


_observers: WeakKeyDictionary[MeterProvider, _Observer] = WeakKeyDictionary()
_lock = threading.Lock()

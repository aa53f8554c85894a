"""An action's span, beyond what the trees of the other suites show."""

from __future__ import annotations

import gc
import weakref

from opentelemetry.sdk.trace import TracerProvider

from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline, TracerSource


def test_a_finished_action_is_freed_at_once():
    """In a cycle it would wait for the garbage collector."""
    provider = TracerProvider(shutdown_on_exit=False)
    action = Pipeline(TracerSource(provider)).start("tool", "execute", name="look", attributes={})
    kept = weakref.ref(action)
    gc.disable()
    try:
        action.detach(action.attach())
        action.finish(Ending.success())
        del action
        assert kept() is None
    finally:
        gc.enable()
        provider.shutdown()

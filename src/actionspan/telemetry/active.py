"""The pipeline of this process, for actions that no adapter starts."""

from __future__ import annotations

from collections.abc import Callable

from actionspan.telemetry.current import current_action
from actionspan.telemetry.pipeline import Pipeline

__all__ = ["active_pipeline", "provide_pipeline"]

PipelineSource = Callable[[], Pipeline | None]


def _none() -> Pipeline | None:
    return None


_source: PipelineSource = _none


def provide_pipeline(source: PipelineSource | None) -> None:
    """Ask `source` for the pipeline from now on; None: there is none."""
    global _source
    _source = _none if source is None else source


def active_pipeline() -> Pipeline | None:
    """The pipeline of the enclosing action, else the instrumented one, else None."""
    action = current_action()
    return _source() if action is None else action.pipeline

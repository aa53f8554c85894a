"""A configuration and a recording made into the pipeline that actions go through."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opentelemetry import metrics

from actionspan.instrumentor._configuration import Configuration
from actionspan.instrumentor._recorder_metrics import observe_recording
from actionspan.instrumentor._recording import PrivateProvider, Recording
from actionspan.instrumentor._redactor import with_environment_redactor
from actionspan.recorder import JsonlRecorder
from actionspan.settings import CONTROL, RECORD, Settings
from actionspan.telemetry.pipeline import Pipeline, TracerSource

if TYPE_CHECKING:
    from actionspan.control import RunControl

__all__ = ["assemble", "control_there", "environment_control", "environment_recorder"]

_logger = logging.getLogger("actionspan")


def assemble(configuration: Configuration, recording: Recording) -> Pipeline:
    """The pipeline; the redactor that the environment names is imported here, if content is admitted at all."""
    active = recording.active
    if active:
        observe_recording(configuration.meter_provider or metrics.get_meter_provider(), recording)
    source = TracerSource(
        configuration.tracer_provider,
        fallback=PrivateProvider() if active else None,
        prepare=recording.attach if active else None,
    )
    return Pipeline(
        source,
        policy=with_environment_redactor(configuration.policy, configuration.settings.redactor),
        identity=configuration.identity,
        trace_mode=configuration.trace,
        input_messages=configuration.input_messages,
        content_on_spans=configuration.content_on_spans,
        content_on_events=configuration.content_on_events,
        sink=recording if active else None,
        meter_provider=configuration.meter_provider,
        logger_provider=configuration.logger_provider,
    )


def environment_recorder(settings: Settings) -> JsonlRecorder | None:
    """The recorder that the environment asks for; a directory that cannot be used is logged, not raised."""
    if settings.record is None:
        return None
    try:
        return JsonlRecorder(settings.record)
    except (OSError, ValueError) as error:
        _logger.error("%s=%s cannot be recorded to: %s", RECORD, settings.record, error)
        return None


def control_there(settings: Settings) -> RunControl | None:
    """The application's own control that serves what the environment names."""
    if settings.control is None:
        return None
    from actionspan.control.controller import control_serving

    return control_serving(settings.control)


def environment_control(settings: Settings) -> RunControl | None:
    """The control that the environment asks for; a directory that cannot be served from is logged, not raised."""
    if settings.control is None:
        return None
    from actionspan.control import RunControl

    try:
        return RunControl()
    except OSError as error:
        _logger.error("%s=%s cannot be served from: %s", CONTROL, settings.control, error)
        return None

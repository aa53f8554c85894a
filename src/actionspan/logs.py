"""The run a log record was written in, beside the ids of OpenTelemetry's logging instrumentation."""

from __future__ import annotations

import logging

from opentelemetry.trace import Span

from actionspan.telemetry import names
from actionspan.telemetry.current import current_action

__all__ = ["log_hook"]


def log_hook(span: Span, record: logging.LogRecord) -> None:
    """For `LoggingInstrumentor().instrument(log_hook=log_hook)`: name the action and its run on `record`.

    The names are those of the span's attributes, `actionspan.action_id` and `actionspan.run_action_id`; a record
    written outside an action has neither.
    """
    action = current_action()
    if action is not None:
        for name, value in ((names.ACTION_ID, action.action_id), (names.RUN_ACTION_ID, action.run_action_id)):
            if value is not None:
                record.__dict__[name] = value

"""What of EDRI's content may go on: the deployment's ceiling and the application's policy, as everywhere."""

from __future__ import annotations

from actionspan.instrumentor._configuration import resolve
from actionspan.instrumentor._redactor import with_environment_redactor
from actionspan.policy import NO_CONTENT, ActionPolicy, AuditMode
from actionspan.settings import read_settings

__all__ = ["bridge_policy"]


def bridge_policy(policy: ActionPolicy | None, mode: AuditMode | str | None) -> ActionPolicy | None:
    """The policy that holds; None when everything is off. Raises `ValueError` or `TypeError` as `instrument()` does."""
    settings = read_settings()
    configuration = resolve(settings, {"policy": policy, "mode": mode})
    if settings.sdk_disabled or configuration.mode is AuditMode.OFF:
        return None
    # There are only spans here: content that may go on log events alone goes nowhere.
    admitted = configuration.policy if configuration.content_on_spans else NO_CONTENT
    return with_environment_redactor(admitted, settings.redactor)

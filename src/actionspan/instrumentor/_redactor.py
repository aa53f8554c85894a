"""The redactor that the environment names, imported when content is first admitted."""

from __future__ import annotations

import importlib
import logging

from actionspan.policy import NO_CONTENT, ActionPolicy, Redactor, chain_redactors
from actionspan.settings import REDACTOR

__all__ = ["with_environment_redactor"]

_logger = logging.getLogger("actionspan")


def with_environment_redactor(policy: ActionPolicy, path: str | None) -> ActionPolicy:
    """`policy` with that redactor run first. One that cannot be imported turns every category off, and says so."""
    if path is None or not policy.any_content:
        return policy
    redactor = _imported(path)
    if redactor is None:
        return NO_CONTENT
    return ActionPolicy(
        **{name: getattr(policy, name) for name in ActionPolicy.__dataclass_fields__ if name != "redactor"},
        redactor=chain_redactors(redactor, policy.redactor),
    )


def _imported(path: str) -> Redactor | None:
    module, _, attribute = path.partition(":")
    try:
        redactor = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001 # importing is the application's code, and a failure must close the gate
        _logger.error("%s=%s cannot be imported (%s): no content is captured", REDACTOR, path, type(error).__name__)
        return None
    if not callable(redactor):
        _logger.error("%s=%s is not callable: no content is captured", REDACTOR, path)
        return None
    return redactor

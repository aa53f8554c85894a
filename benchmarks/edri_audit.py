"""EDRI's own audit on every run, its events counted instead of sent. Only where EDRI is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import wrapt
from opentelemetry.instrumentation.utils import unwrap
from pydantic_ai import Agent

__all__ = ["install"]


class Counting:
    """Stands in for the queue to EDRI's router, which would pickle each event as well."""

    count = 0

    def put_nowait(self, event: object) -> None:
        self.count += 1


def install(mode: str) -> Callable[[], None]:
    """Add EDRI's hooks to every run as its agents do; returns what takes them away."""
    from edri.integrations.pydantic_ai import lifecycle
    from edri.integrations.pydantic_ai import observability as audit

    policy = audit.AgentActionPolicy(**dict.fromkeys(audit.CONTENT_SWITCHES, True))
    effective = audit._resolve_effective_policy(audit.AgentAuditMode(mode), policy)
    context = audit._ObservabilityContext(effective, Counting(), uuid4(), "agent", "scripted")

    def with_audit(wrapped: Any, instance: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        hooks = lifecycle.audit_hooks(audit._RunState(uuid4()), audit._ActionEmitter(context), effective)
        return wrapped(*args, **{**kwargs, "capabilities": [*(kwargs.get("capabilities") or ()), hooks]})

    wrapt.wrap_function_wrapper(Agent, "iter", with_audit)
    return lambda: unwrap(Agent, "iter")

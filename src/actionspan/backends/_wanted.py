"""What of a query a backend can be asked: always more than is wanted, never less. The rest is filtered on our side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from uuid import UUID

from actionspan.recorder.contract import EventFilter
from actionspan.telemetry import names
from actionspan.vocabulary import ActionPhase

__all__ = ["FIELDS", "Wanted", "wanted_of"]

FIELDS: Final = {
    "agent_id": names.AGENT_NAME,
    "namespace": names.NAMESPACE,
    "operation": names.OPERATION,
    "outcome": names.OUTCOME,
    "outcome_reason": names.OUTCOME_REASON,
    "parent_action_id": names.PARENT_ACTION_ID,
    "run_id": names.RUN_ID,
    "conversation_id": names.CONVERSATION_ID,
    "provider": names.PROVIDER_NAME,
    "framework": names.FRAMEWORK,
    "prompt_version": names.PROMPT_VERSION,
    "error": names.ERROR_TYPE,
}
"""Fields of an event that are the text of an attribute under another name, always."""
_WILDCARD: Final = re.compile(r"[*?\[]")
_PLAIN: Final = re.compile(r"[a-zA-Z0-9_.]*")
"""Text that means itself in a regular expression, but for the dot."""
_ATTRIBUTE: Final = re.compile(r"[a-zA-Z0-9_.-]+")
"""Attribute names that need no quoting; conditions on others stay on our side."""
_ATTRIBUTES: Final = "attributes."


@dataclass(slots=True)
class Wanted:
    """Conditions on the spans of a trace that must be read."""

    equal: dict[str, str] = field(default_factory=dict[str, str])
    """Attributes and the text each is."""
    namespaces: list[str] = field(default_factory=list[str])
    """The namespace is one of these,"""
    namespace_prefix: str | None = None
    """or begins with this; neither given: any."""
    failed: bool = False
    """Outcome or status is error."""
    action_id: UUID | None = None
    nothing: bool = False
    """No backend can hold what is asked for."""


def wanted_of(
    *,
    kind: str | None = None,
    agent_id: str | None = None,
    call_id: str | None = None,
    extra_filter: EventFilter | None,
) -> Wanted:
    """What a backend is asked for these arguments of `Recorder.query`."""
    wanted = Wanted()
    if kind is not None:
        _add_kind(wanted, kind)
    if agent_id is not None:
        wanted.equal[names.AGENT_NAME] = agent_id
    if call_id is not None:
        _add_call(wanted, str(call_id))
    if isinstance(extra_filter, Mapping):
        for path, value in cast("Mapping[str, Any]", extra_filter).items():
            attribute = FIELDS.get(path)
            if path.startswith(_ATTRIBUTES) and _ATTRIBUTE.fullmatch(path, len(_ATTRIBUTES)):
                attribute = path.removeprefix(_ATTRIBUTES)
            if attribute is not None and isinstance(value, str):
                wanted.equal.setdefault(attribute, value)
    return wanted


def _add_kind(wanted: Wanted, kind: str) -> None:
    """A kind is `namespace.operation.phase`, and each of the first two may have dots in it."""
    wildcard = _WILDCARD.search(kind)
    literal = kind if wildcard is None else kind[: wildcard.start()]
    words = literal.split(".")
    phase = kind.rpartition(".")[2]
    wanted.failed = phase == ActionPhase.ERROR.value
    # Starts are not held, and a kind without three words is that of an application's own event.
    wanted.nothing = phase == ActionPhase.START.value or (wildcard is None and len(words) < 3)
    if len(words) > 1 and _PLAIN.fullmatch(literal):
        whole = len(words) - (2 if wildcard is None else 1)
        wanted.namespaces = [".".join(words[:count]) for count in range(1, whole + 1)]
        wanted.namespace_prefix = None if wildcard is None else literal


def _add_call(wanted: Wanted, call_id: str) -> None:
    """The id of an action; other ids are of events that a backend does not hold."""
    try:
        wanted.action_id = UUID(call_id)
    except ValueError:
        wanted.nothing = True

"""Counts, durations, tokens and cost of a stream of events, by agent, model, tool and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast

from actionspan.cli._actions import unpriced
from actionspan.cli._sketch import Sketch
from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome

__all__ = ["OTHERS", "Group", "Summary"]

_MOST: Final = 5000
"""Kinds of action kept apart; those that come after them are counted together, so that memory is bounded."""
OTHERS: Final = "(all others)"
_MODEL: Final = ActionNamespace.MODEL
_TOOL: Final = ActionNamespace.TOOL
_FAILED: Final = (ActionOutcome.ERROR.value, ActionOutcome.TIMEOUT.value)
_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class _Kind(NamedTuple):
    """Actions that no group tells apart."""

    namespace: Any
    operation: Any
    name: Any
    """Of a model request the model that answered."""
    agent: Any
    outcome: Any
    reason: Any


@dataclass(slots=True)
class Group:
    """What the actions of one group came to."""

    count: int = 0
    failed: int = 0
    durations: Sketch = field(default_factory=Sketch)
    input_tokens: int | None = None
    output_tokens: int | None = None
    """None where no request told them: that is not the same as none."""
    cost: float | None = None
    unpriced: bool = False
    """Whether there is a request that has no known price and may have had one."""

    def spend(self, event: Mapping[str, Any]) -> None:
        """Add the tokens and the cost of a model request."""
        usage, attributes = _mapping(event.get("usage")), _mapping(event.get("attributes"))
        given, made = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
        self.input_tokens = _sum(self.input_tokens, given)
        self.output_tokens = _sum(self.output_tokens, made)
        cost = attributes.get(names.COST_USD)
        if isinstance(cost, (int, float)):
            self.cost = (self.cost or 0.0) + cost
        elif unpriced(given, made, event.get("outcome")):
            self.unpriced = True

    def merge(self, other: Group, *, times: bool = True, counts: bool = True) -> None:
        """Add what `other` came to; its spending always."""
        if counts:
            self.count += other.count
            self.failed += other.failed
        if times:
            self.durations.merge(other.durations)
        self.input_tokens = _sum(self.input_tokens, other.input_tokens)
        self.output_tokens = _sum(self.output_tokens, other.output_tokens)
        self.unpriced |= other.unpriced
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost

    def fields(self) -> dict[str, Any]:
        """As JSON: durations in seconds; no cost where none is known."""
        return {
            "count": self.count,
            "failed": self.failed,
            **{name: self.durations.quantile(share) for name, share in _PERCENTILES.items()},
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost,
            "cost_is_complete": None if self.cost is None else not self.unpriced,
        }


Groups = dict[str, Group]


class Summary:
    """One pass over events; only terminals count, and the spans that are no actions do not."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Any, ...], Group] = {}
        self.first: float | None = None
        self.last: float | None = None

    def add(self, event: Mapping[str, Any]) -> None:
        get = event.get
        outcome, namespace = get("outcome"), get("namespace")
        if outcome is None or namespace is None:
            return
        name = get("name")
        if namespace == _MODEL and (model := get("model")) is not None:
            name = model
        key = (namespace, get("operation"), name, get("agent_id"), outcome, get("outcome_reason"))
        try:
            group = self._kinds[key]
        except (KeyError, TypeError):
            group = self._new_group(_Kind(*key))
        group.count += 1
        duration = get("duration")
        if type(duration) is float and (namespace != _TOOL or _executed(get("attributes"))):
            group.durations.add(duration)
        if namespace == _MODEL:
            group.spend(event)
        self.last = get("timestamp")
        if self.first is None:
            self.first = self.last

    def all(self) -> Group:
        """Every action together."""
        total = Group()
        for group in self.groups().get("outcomes", {}).values():
            total.merge(group)
        return total

    def groups(self) -> dict[str, Groups]:
        """The groups by what they are groups of, those that there are."""
        found: dict[str, Groups] = {"agents": {}, "models": {}, "tools": {}, "other actions": {}, "outcomes": {}}
        for key, group in self._kinds.items():
            kind = _Kind(*key)
            group.failed = group.count if kind.outcome in _FAILED else 0
            outcome = str(kind.outcome) if kind.reason is None else f"{kind.outcome}: {kind.reason}"
            _merge(found["outcomes"], outcome, group)
            _sort(found, kind, group)
        return {sort: groups for sort, groups in found.items() if groups}

    def _new_group(self, kind: _Kind) -> Group:
        try:
            hash(kind)
        except TypeError:  # a field is no scalar
            kind = _Kind(*map(str, kind))
        if len(self._kinds) >= _MOST and kind not in self._kinds:
            outcome = kind.outcome if kind.outcome in list(ActionOutcome) else OTHERS
            kind = _Kind(OTHERS, OTHERS, OTHERS, OTHERS, outcome, None)
        return self._kinds.setdefault(kind, Group())


def _sort(found: dict[str, Groups], kind: _Kind, group: Group) -> None:
    """Count `group` where somebody would look for it."""
    name = "(no name)" if kind.name is None else str(kind.name)
    if kind.namespace == ActionNamespace.MODEL:
        _merge(found["models"], name, group)
        agent = "(no agent)" if kind.agent is None else str(kind.agent)
        _merge(found["agents"], agent, group, counts=False, times=False)
    elif kind.namespace == ActionNamespace.AGENT:
        _merge(found["agents"], name, group)
    elif kind.namespace == ActionNamespace.TOOL:
        executed = kind.operation == ActionOperation.EXECUTE
        if executed or group.failed:
            _merge(found["tools"], name, group, times=executed)
    else:
        _merge(found["other actions"], f"{kind.namespace}.{kind.operation}", group)


def _merge(groups: Groups, name: str, group: Group, **parts: bool) -> None:
    groups.setdefault(name, Group()).merge(group, **parts)


def _executed(attributes: Any) -> bool:
    return type(attributes) is not dict or cast("dict[str, Any]", attributes).get(names.TOOL_EXECUTED) is not False


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if type(value) is dict else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else (one or 0) + other

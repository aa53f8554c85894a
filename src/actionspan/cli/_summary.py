"""Counts, durations, tokens and cost of a stream of events, by agent, model, tool and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome
from actionspan.cli._sketch import Sketch
from actionspan.telemetry import names

__all__ = ["Group", "Summary"]

_MOST: Final = 1000
"""Groups of one sort; what comes after them is counted together, so that memory is bounded."""
OTHERS: Final = "(all others)"
_FAILED: Final = (ActionOutcome.ERROR.value, ActionOutcome.TIMEOUT.value)
_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(slots=True)
class Group:
    """What the actions of one group came to."""

    count: int = 0
    failed: int = 0
    durations: Sketch = field(default_factory=Sketch)
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    unpriced: bool = False

    def add(self, outcome: Any, duration: Any) -> None:
        self.count += 1
        self.failed += outcome in _FAILED
        if duration is not None:
            self.durations.add(duration)

    def spend(self, event: Mapping[str, Any]) -> None:
        """Add the tokens and the cost of a model request."""
        usage = event.get("usage")
        spent = 0
        if isinstance(usage, dict):
            given, made = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] # decoded JSON
            self.input_tokens += given
            self.output_tokens += made
            spent = given + made
        cost = event["attributes"].get(names.COST_USD) if isinstance(event.get("attributes"), dict) else None
        if isinstance(cost, (int, float)):
            self.cost = (self.cost or 0.0) + cost
        elif spent:
            self.unpriced = True

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
        self.agents: Groups = {}
        self.models: Groups = {}
        self.tools: Groups = {}
        self.others: Groups = {}
        self.outcomes: Groups = {}
        self.all = Group()
        self.first: float | None = None
        self.last: float | None = None

    def add(self, event: Mapping[str, Any]) -> None:
        namespace, outcome = event.get("namespace"), event.get("outcome")
        if not isinstance(namespace, str) or outcome is None:
            return
        if self.first is None:
            self.first = event["timestamp"]
        self.last = event["timestamp"]
        duration = event.get("duration")
        duration = duration if isinstance(duration, (int, float)) else None
        self.all.add(outcome, duration)
        reason = event.get("outcome_reason")
        _group(self.outcomes, f"{outcome}: {reason}" if reason else str(outcome)).add(outcome, duration)
        self._sort(event, namespace, outcome, duration)

    def _sort(self, event: Mapping[str, Any], namespace: str, outcome: Any, duration: float | None) -> None:
        name, operation = str(event.get("name") or "(no name)"), event.get("operation")
        if namespace == ActionNamespace.MODEL:
            group = _group(self.models, str(event.get("model") or name))
            group.add(outcome, duration)
            for spender in (group, self.all, _group(self.agents, str(event.get("agent_id") or "(no agent)"))):
                spender.spend(event)
        elif namespace == ActionNamespace.AGENT:
            _group(self.agents, name).add(outcome, duration)
        elif namespace == ActionNamespace.TOOL:
            if operation == ActionOperation.EXECUTE:
                _group(self.tools, name).add(outcome, duration if _executed(event) else None)
            elif outcome in _FAILED:
                _group(self.tools, name).add(outcome, None)
        else:
            _group(self.others, f"{namespace}.{operation}").add(outcome, duration)

    def groups(self) -> dict[str, Groups]:
        """The groups by what they are groups of, those that there are."""
        found = {
            "agents": self.agents,
            "models": self.models,
            "tools": self.tools,
            "other actions": self.others,
            "outcomes": self.outcomes,
        }
        return {sort: groups for sort, groups in found.items() if groups}


def _group(groups: Groups, name: str) -> Group:
    group = groups.get(name)
    if group is None:
        if len(groups) >= _MOST:
            name = OTHERS
        group = groups.setdefault(name, Group())
    return group


def _executed(event: Mapping[str, Any]) -> bool:
    attributes = event.get("attributes")
    return not isinstance(attributes, dict) or attributes.get(names.TOOL_EXECUTED) is not False  # pyright: ignore[reportUnknownMemberType] # decoded JSON


def _count(value: Any) -> int:
    return value if type(value) is int else 0

"""Events put together again: what the record knows of each action, and how the actions nest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome

__all__ = ["ActionNode", "Forest", "Totals", "unpriced"]


@dataclass(slots=True, eq=False)
class ActionNode:
    """One action: its start, its terminal, or both. Fields that the record does not know are None."""

    action_id: str
    recorded: bool = True
    """False of one that is only known as somebody's parent."""
    parent_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    run_id: str | None = None
    run_action_id: str | None = None
    resumes: str | None = None
    conversation_id: str | None = None
    namespace: str = ""
    operation: str = ""
    name: str | None = None
    agent: str | None = None
    attempt: int = 1
    step: int | None = None
    outcome: str | None = None
    reason: str | None = None
    error: str | None = None
    finished: bool = False
    start: int = 0
    """Nanoseconds since the epoch."""
    end: int | None = None
    call: str | None = None
    """The model's id of the tool call."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    messages: list[str] = field(default_factory=list[str])
    """Messages of the exceptions that arose here, where the policy admitted them."""
    parent: ActionNode | None = None
    children: list[ActionNode] = field(default_factory=list["ActionNode"])

    @property
    def is_run(self) -> bool:
        return self.namespace == ActionNamespace.AGENT and self.operation == ActionOperation.RUN

    @property
    def duration(self) -> float | None:
        return None if self.end is None else (self.end - self.start) / 1e9

    def walk(self) -> Iterator[tuple[int, ActionNode]]:
        """This action and all below it, each after its parent, with its depth from here."""
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in reversed(node.children)]


@dataclass(slots=True)
class Totals:
    """What an action and all below it came to."""

    actions: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    unpriced: bool = False
    """Whether a request that has no known price may have had one, so that the cost is a lower bound."""
    last: int = 0
    """The latest moment anything is known of, in nanoseconds."""

    @classmethod
    def of(cls, top: ActionNode) -> Totals:
        totals = cls()
        for _, node in top.walk():
            totals.actions += node.recorded
            totals.last = max(totals.last, node.start, node.end or 0)
            # A run's own usage is the sum of its requests': only requests are added up.
            if node.namespace == ActionNamespace.MODEL:
                totals._add(node)
        return totals

    def _add(self, node: ActionNode) -> None:
        if node.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + node.input_tokens
        if node.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + node.output_tokens
        if node.cost is not None:
            self.cost = (self.cost or 0.0) + node.cost
        elif unpriced(node.input_tokens, node.output_tokens, node.outcome):
            self.unpriced = True


def unpriced(input_tokens: int | None, output_tokens: int | None, outcome: object) -> bool:
    """Whether a request without a known price may have cost something.

    One that used no tokens has not; of one that failed before it told its tokens nothing is known to be owed.
    """
    if input_tokens is None and output_tokens is None:
        return outcome == ActionOutcome.SUCCESS
    return bool(input_tokens or output_tokens)


class Forest:
    """The actions of some traces, by id."""

    def __init__(self, events: Iterable[Mapping[str, Any]], *, content: bool = False) -> None:
        self._content = content
        self._nodes: dict[str, ActionNode] = {}
        for event in events:
            self._add(event)
        self.roots = self._nested()

    def __len__(self) -> int:
        return len(self._nodes)

    def _add(self, event: Mapping[str, Any]) -> None:
        action_id = _string(event.get("action_id"))
        if action_id is None or not _string(event.get("namespace")):
            return
        node = self._nodes.get(action_id)
        if node is None:
            node = self._nodes[action_id] = ActionNode(action_id)
        if node.finished:
            return  # a second terminal; `verify` reports it
        _identify(node, event)
        if event.get("phase") != "start":
            _finish(node, event)
        if self._content:
            _add_content(node, event)

    def _nested(self) -> list[ActionNode]:
        """Link parents and children; the roots by time. An action that is its own ancestor is a root too."""
        nodes = sorted(self._nodes.values(), key=lambda node: node.start)
        for node in nodes:
            if node.parent_id is not None and node.parent_id != node.action_id:
                node.parent = self._nodes.get(node.parent_id) or self._stand_in(node.parent_id, node)
                node.parent.children.append(node)
        roots: list[ActionNode] = []
        reached: set[str] = set()
        for node in sorted(self._nodes.values(), key=lambda node: (node.parent is not None, node.start)):
            if node.action_id in reached:
                continue
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            reached.update(below.action_id for _, below in node.walk())
        return sorted(roots, key=lambda node: node.start)

    def _stand_in(self, action_id: str, child: ActionNode) -> ActionNode:
        """What stands for a parent that the record does not have: it was still running, or was erased."""
        node = ActionNode(action_id, recorded=False, trace_id=child.trace_id, start=child.start, agent=child.agent)
        if child.run_action_id == action_id:
            node.namespace, node.operation = ActionNamespace.AGENT, ActionOperation.RUN
            node.name, node.run_id = child.agent, child.run_id
        self._nodes[action_id] = node
        return node


def _identify(node: ActionNode, event: Mapping[str, Any]) -> None:
    attributes = _mapping(event.get("attributes"))
    node.parent_id = _told(event.get("parent_action_id"), node.parent_id)
    node.trace_id = _told(event.get("trace_id"), node.trace_id)
    node.span_id = _told(event.get("span_id"), node.span_id)
    node.run_id = _told(event.get("run_id"), node.run_id)
    node.run_action_id = _told(event.get("run_action_id"), node.run_action_id)
    node.resumes = _told(attributes.get(names.RESUMES_RUN_ID), node.resumes)
    node.conversation_id = _told(event.get("conversation_id"), node.conversation_id)
    node.namespace = _string(event.get("namespace")) or node.namespace
    node.operation = _string(event.get("operation")) or node.operation
    node.name = _told(event.get("name"), node.name)
    node.agent = _told(event.get("agent_id"), node.agent)
    node.attempt = _integer(event.get("attempt")) or node.attempt
    node.step = _integer(event.get("step")) or node.step
    node.start = _integer(event.get("start_time_unix_nano")) or node.start or _integer(event.get("time_unix_nano")) or 0
    node.call = _told(attributes.get(names.TOOL_CALL_ID), node.call)


def _finish(node: ActionNode, event: Mapping[str, Any]) -> None:
    node.finished = True
    node.outcome = _string(event.get("outcome"))
    node.reason = _string(event.get("outcome_reason"))
    node.error = _string(event.get("error"))
    node.end = _integer(event.get("end_time_unix_nano")) or _integer(event.get("time_unix_nano"))
    if node.end is not None:
        node.end = max(node.end, node.start)
    usage = _mapping(event.get("usage"))
    node.input_tokens = _integer(usage.get("input_tokens"))
    node.output_tokens = _integer(usage.get("output_tokens"))
    cost = _mapping(event.get("attributes")).get(names.COST_USD)
    node.cost = float(cost) if isinstance(cost, (int, float)) else None


def _add_content(node: ActionNode, event: Mapping[str, Any]) -> None:
    node.content = _mapping(event.get("content")) or node.content
    for item in cast("list[Any]", event["events"]) if isinstance(event.get("events"), list) else []:
        message = _string(_mapping(_mapping(item).get("attributes")).get(names.EXCEPTION_MESSAGE))
        if message is not None:
            node.messages.append(message)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _told(value: Any, before: str | None) -> str | None:
    """What a later event says, else what an earlier one said. Empty is something said."""
    return value if isinstance(value, str) else before


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None

"""What the report page shows, as the JSON that its script reads.

Everything that somebody else wrote becomes text here, so that the page has nothing to interpret, and numbers in it
keep all their digits, which a browser's would not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from actionspan._version import __version__
from actionspan.cli._actions import ActionNode, Totals
from actionspan.telemetry import names
from actionspan.vocabulary import ActionNamespace, ActionOperation

__all__ = ["Facts", "page_data"]

Event = dict[str, Any]
Watch = Callable[[Iterable[Event]], Iterator[Event]]

_FACTS: Final = ("name", "model", "provider", "attributes", "usage")
_APART: Final = (names.SYSTEM_INSTRUCTIONS, names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.TOOL_DEFINITIONS)
"""Content that has a place and a form of its own."""
_EXCEPTION_STACK: Final = "exception.stacktrace"
_VERBS: Final = {
    (ActionNamespace.AGENT, ActionOperation.RUN): "",
    (ActionNamespace.TOOL, ActionOperation.EXECUTE): "",
    (ActionNamespace.MODEL, ActionOperation.REQUEST): "chat",
    (ActionNamespace.OUTPUT, ActionOperation.VALIDATE): "validate output",
    (ActionNamespace.OUTPUT, ActionOperation.PROCESS): "process output",
}
"""The words before a name, where they are not the operation."""


class Facts:
    """What the events say of each action that a tree of actions does not keep. Its last event has the last word."""

    def __init__(self) -> None:
        self._facts: dict[str, Event] = {}

    def __getitem__(self, action_id: str) -> Mapping[str, Any]:
        return self._facts.get(action_id, {})

    def of(self, watch: Watch) -> Watch:
        """`watch`, with what it passes on remembered."""

        def remember(events: Iterable[Event]) -> Iterator[Event]:
            for event in watch(events):
                self._keep(event)
                yield event

        return remember

    def _keep(self, event: Event) -> None:
        action_id = event.get("action_id")
        if isinstance(action_id, str):
            kept = self._facts.setdefault(action_id, {})
            kept |= {field: event[field] for field in _FACTS if field in event}
            stacks = [*_stacks(event)]
            if stacks:
                kept["stacks"] = stacks


def page_data(runs: Sequence[ActionNode], facts: Facts, *, source: str, content: bool) -> dict[str, Any]:
    """Everything the page shows of `runs`: each run, and the actions of all of them, parents first."""
    actions: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    for run in runs:
        nodes = [*run.walk()]
        listed.append(_run(run, [node for _, node in nodes], facts) | {"first": len(actions), "count": len(nodes)})
        actions += [_action(node, depth, run.start, facts[node.action_id], content) for depth, node in nodes]
    return {
        "source": source,
        "made": round(time.time() * 1e3),
        "version": __version__,
        "content": content,
        "runs": listed,
        "actions": actions,
    }


def _run(run: ActionNode, nodes: Sequence[ActionNode], facts: Facts) -> dict[str, Any]:
    totals = Totals.of(run)
    requests = [node for node in nodes if node.namespace == ActionNamespace.MODEL]
    ends = totals.last if run.end is None else run.end
    return {
        "trace": run.trace_id,
        "run": run.run_id,
        "resumes": run.resumes,
        "conversation": run.conversation_id,
        "started": run.start / 1e6,
        "known": max(totals.last, ends) / 1e3 - run.start / 1e3,
        "agents": sorted({node.agent for node in nodes if node.agent is not None}),
        "models": sorted({model for node in requests if (model := _model(node, facts[node.action_id])) is not None}),
        "failed": sum(node.outcome in ("error", "timeout") for node in nodes),
        "recorded": totals.actions,
        **_spent(totals, len(requests)),
    }


def _spent(totals: Totals, requests: int) -> dict[str, Any]:
    """Tokens and cost; absent is unknown, and nothing was asked when there are no requests."""
    return _known(
        {
            "requests": requests,
            "input": totals.input_tokens,
            "output": totals.output_tokens,
            "cost": totals.cost,
            "unpriced": totals.unpriced or None,
        }
    )


def _action(node: ActionNode, depth: int, origin: int, facts: Mapping[str, Any], content: bool) -> dict[str, Any]:
    spent: dict[str, Any] = {}
    if node.is_run:
        below = sum(other.namespace == ActionNamespace.MODEL for _, other in node.walk())
        spent = _spent(Totals.of(node), below)
    elif node.namespace == ActionNamespace.MODEL:
        spent = _known({"requests": 1, "input": node.input_tokens, "output": node.output_tokens, "cost": node.cost})
    return spent | _known(
        {
            "id": node.action_id,
            "depth": depth,
            "namespace": node.namespace,
            "operation": node.operation,
            "verb": _verb(node),
            "name": _name(node, facts),
            "agent": node.agent,
            "model": _model(node, facts) if node.namespace == ActionNamespace.MODEL else None,
            "attempt": node.attempt if node.attempt > 1 else None,
            "step": node.step,
            "outcome": node.outcome,
            "reason": node.reason,
            "error": node.error,
            "missing": None if node.recorded else True,
            "at": (node.start - origin) / 1e3,
            "took": None if node.end is None else (node.end - node.start) / 1e3,
            "attributes": _attributes(facts),
            "said": [*_said(node, facts)] if content else None,
        }
    )


def _verb(node: ActionNode) -> str:
    known = _VERBS.get((node.namespace, node.operation))
    if known is not None:
        return known
    if node.namespace == ActionNamespace.CONTROL:
        return f"control.{node.operation}"
    return node.operation.replace(".", "/") if node.namespace == ActionNamespace.MCP else node.operation


def _name(node: ActionNode, facts: Mapping[str, Any]) -> str | None:
    """The name as it was recorded: an empty one is a name too."""
    name = facts.get("name", node.name)
    return None if name is None else _plain(name)


def _model(node: ActionNode, facts: Mapping[str, Any]) -> str | None:
    model = facts.get("model", node.name)
    return None if model is None else _plain(model)


def _attributes(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, _plain(value)) for name, value in _mapping(facts.get("attributes")).items()]


def _said(node: ActionNode, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Who said what, or which content it is, and the text; all of the text."""
    content = node.content
    for part in _list(content.get(names.SYSTEM_INSTRUCTIONS)):
        yield _part("instructions", _mapping(part), part)
    if names.INPUT_MESSAGES in content:
        yield from _input(content[names.INPUT_MESSAGES])
    for name, value in content.items():
        if name not in _APART:
            yield _words(name), _laid_out(value)
    if names.OUTPUT_MESSAGES in content:
        yield from _messages("response", content[names.OUTPUT_MESSAGES])
    for message in node.messages:
        yield "error", message
    for stack in facts.get("stacks", ()):
        yield "stack trace", stack
    if names.TOOL_DEFINITIONS in content:
        yield _words(names.TOOL_DEFINITIONS), _laid_out(content[names.TOOL_DEFINITIONS])


def _words(name: str) -> str:
    return name.removeprefix("gen_ai.").removeprefix("actionspan.").replace(".", " ").replace("_", " ")


def _input(messages: Any) -> Iterator[tuple[str, str]]:
    """What was said since the model last spoke; the rest stands at the requests before."""
    found = _list(messages)
    last = max((at for at, message in enumerate(found) if _mapping(message).get("role") == "assistant"), default=-1)
    if last >= 0:
        yield "history", f"{last + 1} earlier messages, which stand at the requests before this one"
    yield from _messages("prompt", found[last + 1 :])


def _messages(what: str, messages: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(messages, list) or not messages:
        yield what, "" if messages in ([], "", None) else _laid_out(messages)
        return
    for message in cast("list[Any]", messages):
        fields = _mapping(message)
        role = str(fields.get("role", what))
        parts = fields.get("parts")
        if not isinstance(parts, list) or not parts:
            yield role, "" if parts in ([], None) and fields else _laid_out(message)
            continue
        for part in cast("list[Any]", parts):
            yield _part(role, _mapping(part), part)


def _part(role: str, fields: Mapping[str, Any], part: Any) -> tuple[str, str]:
    kind = fields.get("type")
    if kind == "tool_call":
        return f"{role} calls {_plain(fields.get('name', 'a tool'))}", _laid_out(fields.get("arguments"))
    if kind == "tool_call_response":
        return f"{role} answers", _laid_out(fields.get("response", fields.get("result")))
    if kind in ("text", "reasoning") and isinstance(fields.get("content"), str):
        return (role if kind == "text" else f"{role} thinks"), cast(str, fields["content"])
    return role, _laid_out(part)


def _stacks(event: Mapping[str, Any]) -> Iterator[str]:
    events = event.get("events")
    for item in cast("list[Any]", events) if isinstance(events, list) else []:
        stack = _mapping(_mapping(item).get("attributes")).get(_EXCEPTION_STACK)
        if isinstance(stack, str):
            yield stack


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _laid_out(value: Any) -> str:
    """A string as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else msgspec.json.format(_plain(value), indent=2)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _list(value: Any) -> list[Any]:
    """`value` as a list; what is none is its only item, and what is not there is nothing."""
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

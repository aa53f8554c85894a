"""The directives queued for one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from actionspan.control.contract import PRIORITIES, Priority
from actionspan.control.receipts import Order

__all__ = ["Directive", "DirectiveQueue"]


@dataclass(frozen=True, slots=True)
class Directive:
    """What the model is to be told, and whose receipt says when it was."""

    text: str
    priority: Priority = "normal"
    order: Order | None = None
    """None of one that a checkpoint brought back."""
    id: str = field(default_factory=lambda: str(uuid4()))

    def as_dict(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {"id": self.id, "priority": self.priority, "text": self.text}


class DirectiveQueue:
    """Directives by priority, each in the order it came. Its owner holds the lock."""

    def __init__(self) -> None:
        self._waiting: dict[Priority, list[Directive]] = {priority: [] for priority in PRIORITIES}

    def put(self, directive: Directive) -> None:
        """Queue `directive` after the others of its priority."""
        self._waiting[directive.priority].append(directive)

    def put_back(self, directives: Iterable[Directive]) -> None:
        """Queue those of `directives` that are not queued, before the others of their priority."""
        known = {directive.id for directive in self}
        missing = [directive for directive in directives if directive.id not in known]
        for priority in PRIORITIES:
            waiting = self._waiting[priority]
            waiting[:0] = [directive for directive in missing if directive.priority == priority]

    def take(self, *, ending: bool) -> list[Directive]:
        """What the next model request is to hold; `ending`: the run would end, so that nothing need wait."""
        taken: list[Directive] = []
        for priority in PRIORITIES if ending else PRIORITIES[:-1]:
            taken += self._waiting[priority]
            self._waiting[priority] = []
        return taken

    def __iter__(self) -> Iterator[Directive]:
        for priority in PRIORITIES:
            yield from self._waiting[priority]

    def __len__(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

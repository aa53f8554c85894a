"""Events of EDRI's action stream: the real ones where EDRI is installed, stand-ins with the same fields elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actionspan.bridges.edri import EdriBridge
from actionspan.testing import tree

try:
    from edri.integrations.pydantic_ai import observability as edri
except ImportError:  # below Python 3.12, or not installed
    edri = None

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "parent_action_id": None,
    "root_action_id": None,
    "duration": None,
    "outcome": None,
    "run_id": "run-1",
    "conversation_id": "conversation-1",
    "edri_event_id": None,
    "agent": "parcels",
    "provider": "unknown",
    "framework": "pydantic_ai",
    "model": "large",
    "model_version": None,
    "prompt_version": None,
    "output_mode": "unknown",
    "name": None,
    "usage": None,
    "metadata": {},
    "request": None,
    "response_data": None,
    "error": None,
    "attempt": 1,
}


class Stand(Enum):
    """EDRI's phases and outcomes, where it is not installed."""

    START = "start"
    END = "end"
    ERROR = "error"
    SUCCESS = "success"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    DEFERRED = "deferred"


def an_id(number: int) -> UUID:
    """A version-4 UUID that is easy to read."""
    return UUID(f"00000000-0000-4000-8000-{number:012d}")


class Stream:
    """Makes events of one run, number 1 its root, the clock a second further with each."""

    def __init__(self, root: int = 1) -> None:
        self.root = root
        self.now = NOON

    def event(self, kind: str, number: int, phase: str, outcome: str | None = None, **fields: Any) -> Any:
        """An event of action `number`, of `kind` namespace.operation; its parent is the root."""
        namespace, _, operation = kind.partition(".")
        self.now += timedelta(seconds=1)
        parent = None if number == self.root else an_id(self.root)
        values = {**FIELDS, "parent_action_id": parent, "root_action_id": an_id(self.root), "metadata": {}, **fields}
        if edri is not None:
            return edri.AgentAction(
                action_id=an_id(number),
                namespace=namespace,
                operation=operation,
                phase=edri.AgentActionPhase(phase),
                timestamp=self.now,
                **{**values, "outcome": None if outcome is None else edri.AgentActionOutcome(outcome)},
            )
        return SimpleNamespace(
            action_id=an_id(number),
            namespace=namespace,
            operation=operation,
            phase=Stand(phase),
            timestamp=self.now,
            **{**values, "outcome": None if outcome is None else Stand(outcome)},
        )

    def start(self, kind: str, number: int, **fields: Any) -> Any:
        """Its START."""
        return self.event(kind, number, "start", **fields)

    def end(self, kind: str, number: int, outcome: str = "success", **fields: Any) -> Any:
        """Its END, a second long unless told otherwise; its ERROR for outcome error."""
        phase = "error" if outcome == "error" else "end"
        return self.event(kind, number, phase, outcome, **{"duration": 1.0, **fields})


class Seen:
    """A bridge with an exporter in memory and a clock that stands still unless told."""

    def __init__(self, **arguments: Any) -> None:
        self.time = 0.0
        self._exporter = InMemorySpanExporter()
        processors = [*arguments.pop("more", ()), SimpleSpanProcessor(self._exporter)]
        self.bridge = EdriBridge(processors, clock=lambda: self.time, resource=Resource.get_empty(), **arguments)

    def feed(self, *events: Any) -> Seen:
        """Give the bridge these events."""
        for event in events:
            self.bridge.observe(event)
        return self

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans exported so far."""
        return list(self._exporter.get_finished_spans())

    def tree(self, *attributes: str) -> str:
        """They as `tree` shows them."""
        return tree(self.spans, *attributes)

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the one span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return dict(span.attributes or {})


@pytest.fixture
def stream() -> Callable[..., Stream]:
    """Makes streams of events."""
    return Stream


@pytest.fixture
def bridged() -> Callable[..., Seen]:
    """Makes bridges."""
    return Seen


@pytest.fixture
def number() -> Callable[[int], UUID]:
    """The ids of the events."""
    return an_id


@pytest.fixture(autouse=True)
def quiet_edri() -> Iterator[None]:
    """EDRI logs to the root logger."""
    level = logging.getLogger("edri").level
    yield
    logging.getLogger("edri").setLevel(level)

"""What Tempo and Jaeger give back of what was recorded: one test body, against real servers somebody else started.

`ACTIONSPAN_TEST_TEMPO` (http://localhost:3200) and `ACTIONSPAN_TEST_TEMPO_OTLP` (http://localhost:4318) name a Tempo;
`ACTIONSPAN_TEST_JAEGER` (http://localhost:16686) and `ACTIONSPAN_TEST_JAEGER_OTLP` a Jaeger. A backend shows what it
was given after a delay: each wait is for what is expected, and has an end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic_ai import Agent, ModelRetry

from actionspan import ActionPolicy, JsonlRecorder, PydanticAIInstrumentor, UnknownCallId, action
from actionspan.backends import BackendError, JaegerRecorder, TempoRecorder
from actionspan.recorder import read
from scripted import calls, script

pytestmark = [pytest.mark.live, pytest.mark.anyio]

BACKENDS = ("TEMPO", "JAEGER")
PLACES = {
    name: (os.environ.get(f"ACTIONSPAN_TEST_{name}"), os.environ.get(f"ACTIONSPAN_TEST_{name}_OTLP"))
    for name in BACKENDS
}
"""Read before the tests' own fixtures take our variables out of the environment."""
PATIENCE = 120.0
"""Seconds: Tempo hides the newest half minute unless it is configured not to."""
HOSTILE = 'agent "x" \\ } || { true \u00e9\U0001f600'

Recorder = TempoRecorder | JaegerRecorder


@dataclass
class Live:
    """A backend, and a service of its own in it for this test."""

    name: str
    url: str
    otlp: str
    directory: Path
    service: str = field(default_factory=lambda: f"actionspan-test-{uuid4().hex[:8]}")
    began: float = field(default_factory=lambda: time.time() - 5)

    def recorder(self, **arguments: Any) -> Recorder:
        arguments = {"longest_action_seconds": 60, "otlp_endpoint": self.otlp, **arguments}
        if self.name == "JAEGER":
            return JaegerRecorder(self.url, service=self.service, **arguments)
        return TempoRecorder(self.url, **arguments)

    def mine(self, event: dict[str, Any]) -> bool:
        """Whether an event is of this test: others may use the backend."""
        return event["resource_scope"]["resource"]["attributes"].get(SERVICE_NAME) == self.service

    def query(self, recorder: Recorder | None = None, **filters: Any) -> list[dict[str, Any]]:
        return [
            event
            for event in (recorder or self.recorder()).query(**{"since": self.began, **filters})
            if self.mine(event)
        ]

    def recorded(self, **filters: Any) -> list[dict[str, Any]]:
        """The terminal events of the record on disk, in an order that a backend can know."""
        events = [event for event in read(self.directory).query(**filters) if event.get("phase", "start") != "start"]
        return sorted(events, key=lambda event: (event["time_unix_nano"], event["trace_id"], event["span_id"]))


@pytest.fixture(params=BACKENDS)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Live:
    name = request.param
    url, otlp = PLACES[name]
    if url is None or otlp is None:
        pytest.skip(f"ACTIONSPAN_TEST_{name} and ACTIONSPAN_TEST_{name}_OTLP do not name a {name.title()}")
    return Live(name, url, otlp, tmp_path / "record")


def until(look: Callable[[], list[Any]], count: int) -> list[Any]:
    """What `look` finds as soon as there is as much as expected."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = look()
        if len(found) >= count:
            return found
        if time.monotonic() > deadline:
            pytest.fail(f"{len(found)} of {count} events came within {PATIENCE:.0f} seconds")
        time.sleep(0.5)


async def run_agents(live: Live, runs: int = 1) -> None:
    """Runs with a model request, tools (one asks to be called again) and an action of the application."""
    exporter = OTLPSpanExporter(f"{live.otlp.rstrip('/')}/v1/traces")
    provider = TracerProvider(resource=Resource({SERVICE_NAME: live.service}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = PydanticAIInstrumentor()
    with JsonlRecorder(live.directory) as record:
        instrumentor.instrument(
            tracer_provider=provider, mode="content", policy=ActionPolicy.everything(), recorder=record
        )
        try:
            for number in range(runs):
                agent = Agent(
                    script(
                        calls(("look", {"parcel": f"p-{number}"}, "c1")),
                        calls(("look", {"parcel": "found"}, "c2")),
                        'an answer with "quotes", a \\ and \u00e9',
                    ),
                    name=HOSTILE if number % 2 else "parcels",
                )

                @agent.tool_plain
                def look(parcel: str) -> str:
                    if parcel != "found":
                        raise ModelRetry("look again")
                    with action("billing", "charge", name="orders", request={"cents": 100}):
                        return "here"

                await agent.run("where is it?")
        finally:
            instrumentor.uninstrument()
            provider.shutdown()


FIELDS = (
    "kind", "phase", "trace_id", "span_id", "parent_span_id", "action_id", "call_id", "root_action_id", "agent_id",
    "namespace", "operation", "attempt", "outcome", "outcome_reason", "error", "name", "model", "usage", "span_name",
    "span_kind", "run_action_id", "run_id", "conversation_id", "request", "response", "status", "attributes", "content",
)  # fmt: skip
"""What a backend must give back as it was; times are compared apart, for a backend may keep microseconds."""


def essence(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in FIELDS if name in event}


async def test_every_terminal_event_comes_back(live: Live):
    await run_agents(live)
    recorded = live.recorded()
    found = until(lambda: live.query(), len(recorded))
    assert {event["span_id"]: essence(event) for event in found} == {
        event["span_id"]: essence(event) for event in recorded
    }
    assert len(found) == len(recorded)
    moments = [event["time_unix_nano"] for event in found]
    assert moments == sorted(moments)
    by_span = {event["span_id"]: event for event in recorded}
    for event in found:
        assert abs(event["time_unix_nano"] - by_span[event["span_id"]]["time_unix_nano"]) < 1000
        assert event["resource_scope"]["scope"]["name"] == "actionspan"


async def test_queries_find_what_they_find_in_the_record(live: Live):
    await run_agents(live, runs=2)
    recorded = live.recorded()
    until(lambda: live.query(), len(recorded))
    queries: list[dict[str, Any]] = [
        {"kind": "tool.*"},
        {"kind": "*.error"},
        {"kind": "tool.execute.end"},
        {"kind": "billing.charge.end"},
        {"agent_id": "parcels"},
        {"agent_id": HOSTILE},
        {"agent_id": HOSTILE + '" || true || "'},
        {"call_id": recorded[0]["call_id"]},
        {"call_id": recorded[-1]["call_id"]},
        {"extra_filter": {"outcome": "error", "name": "look"}},
        {"extra_filter": {"attributes.gen_ai.tool.call.id": "c2"}},
        {"kind": "model.*", "extra_filter": lambda event: event.get("usage", {}).get("output_tokens", 0) > 0},
    ]
    for filters in queries:
        wanted = [event["span_id"] for event in live.recorded(**filters)]
        assert sorted(event["span_id"] for event in live.query(**filters)) == sorted(wanted), filters
    assert [bool(live.recorded(**filters)) for filters in queries] == [True] * 6 + [False] + [True] * 5


async def test_more_traces_than_one_answer_may_have(live: Live):
    await run_agents(live, runs=6)
    recorded = live.recorded(kind="agent.*")
    until(lambda: live.query(kind="agent.*"), len(recorded))
    recorder = live.recorder(page_traces=4)
    found = live.query(recorder, kind="agent.*")
    ids = {event["trace_id"] for event in found}
    # All six may be in one second, of which Tempo gives no half: then it is said.
    assert ids == {event["trace_id"] for event in recorded} or recorder.report.incomplete
    assert live.recorder(page_traces=100).report.incomplete == []


async def test_replay_from_a_call_on(live: Live):
    await run_agents(live)
    recorded = live.recorded()
    until(lambda: live.query(), len(recorded))
    first = recorded[3]["call_id"]
    recorder = live.recorder(lookback_seconds=600)
    replayed = [event["span_id"] for event in recorder.replay(first) if live.mine(event)]
    assert replayed[0] == recorded[3]["span_id"]
    assert set(replayed) >= {
        event["span_id"] for event in recorded[4:] if event["time_unix_nano"] > recorded[3]["time_unix_nano"]
    }
    with pytest.raises(UnknownCallId):
        live.recorder(lookback_seconds=60).replay("00000000-0000-0000-0000-000000000001")


async def test_what_is_emitted_is_there(live: Live):
    """Events of a record, emitted to the backend that did not have them."""
    provider = TracerProvider(resource=Resource({SERVICE_NAME: live.service}), shutdown_on_exit=False)
    instrumentor = PydanticAIInstrumentor()
    with JsonlRecorder(live.directory) as record:
        instrumentor.instrument(tracer_provider=provider, recorder=record)
        try:
            await Agent(script("hello"), name="alone").run("hi")
        finally:
            instrumentor.uninstrument()
            provider.shutdown()
    recorder = live.recorder()
    for event in read(live.directory).query(text=True):
        recorder.emit(event)
    recorder.flush()
    recorded = live.recorded()
    found = until(lambda: live.query(), len(recorded))
    assert [essence(event) for event in found] == [essence(event) for event in recorded]
    assert (recorder.report.undelivered, recorder.report.not_kept) == (0, 0)
    recorder.close()


def test_nothing_is_an_answer_and_nonsense_is_an_error(live: Live):
    recorder = live.recorder()
    assert list(recorder.query(agent_id=f"nobody-{uuid4().hex}", since=live.began)) == []
    assert recorder.report.incomplete == []
    wrong = Live(live.name, live.url + "/nonsense", live.otlp, live.directory)
    with pytest.raises(BackendError, match=live.url):
        wrong.query()

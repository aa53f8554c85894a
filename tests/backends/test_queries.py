"""A query asked of a backend gives the terminal events that the same query asked of the record gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actionspan.recorder import UnknownCallId
from backends.conftest import SECOND, Story, kept, recorder_of
from backends.servers import Backend

Query = Callable[[Story], dict[str, Any]]

QUERIES: dict[str, Query] = {
    "everything": lambda story: {},
    "a pattern": lambda story: {"kind": "tool.*"},
    "failures": lambda story: {"kind": "*.error"},
    "one kind": lambda story: {"kind": "tool.execute.end"},
    "an agent": lambda story: {"agent_id": "agent 1"},
    "nobody": lambda story: {"agent_id": "nobody"},
    "from the end of an action on": lambda story: {"since": (story.began + 64 * SECOND) / 1e9},
    "until before the end of an action": lambda story: {"until": (story.began + 64 * SECOND) / 1e9},
    "a minute": lambda story: {"since": story.began / 1e9 + 60, "until": story.began / 1e9 + 120},
    "no time at all": lambda story: {"since": story.began / 1e9 + 60, "until": story.began / 1e9 + 60},
    "a field": lambda story: {"extra_filter": {"outcome": "error"}},
    "an attribute": lambda story: {"extra_filter": {"attributes.gen_ai.request.model": "scripted"}},
    "a number": lambda story: {"extra_filter": {"usage.input_tokens": 52}},
    "a predicate": lambda story: {"extra_filter": lambda event: event.get("duration", 0) > 80},
    "an application's own": lambda story: {"kind": "hook_start"},
    "all at once": lambda story: {
        "kind": "tool.*", "agent_id": "agent 0", "since": story.began / 1e9 + 60, "extra_filter": {"name": "lookup"},
    },
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("page_traces", [100, 2])
def test_the_same_events_in_the_same_order(backend: Backend, story: Story, query: str, page_traces: int):
    story.tell(backend)
    filters = QUERIES[query](story)
    recorder = recorder_of(backend, page_traces=page_traces)
    assert [kept(event) for event in recorder.query(**filters)] == story.ended(**filters)
    assert recorder.report.incomplete == []


def test_there_is_something_to_compare(story: Story):
    assert {name for name, filters in QUERIES.items() if not story.ended(**filters(story))} == {
        "nobody",
        "no time at all",
        "an application's own",
    }


def test_one_call(backend: Backend, story: Story):
    story.tell(backend)
    (recorded,) = [e for e in story.record.query(kind="tool.*.error") if e["timestamp"] == story.began / 1e9 + 64]
    (found,) = recorder_of(backend).query(call_id=recorded["call_id"])
    assert kept(found) == kept(recorded)


@pytest.mark.parametrize("filters", [{"call_id": "call_1"}, {"kind": "tool.execute.start"}, {"kind": "*.start"}])
def test_what_no_backend_holds_is_not_asked_for(backend: Backend, filters: dict[str, Any]):
    assert list(recorder_of(backend).query(**filters)) == []
    assert backend.requests == []


def test_replay_is_everything_in_order(backend: Backend, story: Story):
    story.tell(backend)
    replayed = list(recorder_of(backend).replay())
    assert len(replayed) == 20
    assert [event["time_unix_nano"] for event in replayed] == sorted(event["time_unix_nano"] for event in replayed)
    assert {event["kind"] for event in replayed} == {
        "agent.run.end",
        "model.request.end",
        "tool.execute.end",
        "tool.execute.error",
    }


def test_replay_from_a_call_on(backend: Backend, story: Story):
    story.tell(backend)
    everything = list(recorder_of(backend).replay())
    middle = next(index for index, event in enumerate(everything) if event["name"] == "refund" and index > 8)
    assert list(recorder_of(backend).replay(everything[middle]["call_id"])) == everything[middle:]


def test_replay_from_an_unknown_call(backend: Backend, story: Story):
    story.tell(backend)
    with pytest.raises(
        UnknownCallId, match=r"no event of call '0+-.*' at http://127\.0\.0\.1:\d+ in the last 1209600 seconds"
    ):
        recorder_of(backend).replay("00000000-0000-0000-0000-000000000001")


def test_spans_of_others_are_passed_over(backend: Backend, story: Story):
    story.tell(backend)
    recorder = recorder_of(backend)
    assert "SELECT" not in {event["span_name"] for event in recorder.query()}
    assert (recorder.report.traces, recorder.report.passed_over) == (5, 5)


def test_a_span_that_was_sent_twice_is_one_event(backend: Backend, story: Story):
    story.tell(backend)
    story.tell(backend)
    assert len(list(recorder_of(backend).query())) == 20


def test_an_action_that_began_before_the_time_asked_for(backend: Backend, story: Story):
    story.tell(backend)
    since = story.began / 1e9 + 85
    short = recorder_of(backend, longest_action_seconds=1).query(since=since, until=since + 10, kind="agent.*")
    assert list(short) == []
    long = recorder_of(backend, longest_action_seconds=120).query(since=since, until=since + 10, kind="agent.*")
    assert [event["conversation_id"] for event in long] == ["c-0"]


def test_where_a_query_without_since_begins(backend: Backend, story: Story):
    story.tell(backend)
    recorder = recorder_of(backend, lookback_seconds=60, longest_action_seconds=1)
    assert list(recorder.query()) == []
    assert recorder.report.searched_from is not None
    assert recorder.report.searched_from > story.began / 1e9 + 600


def test_a_predicate_that_raises_stops_the_query(backend: Backend, story: Story):
    story.tell(backend)
    with pytest.raises(ZeroDivisionError):
        list(recorder_of(backend).query(extra_filter=lambda event: 1 / 0))


@pytest.mark.parametrize("name", ["lookback_seconds", "longest_action_seconds", "timeout_seconds", "page_traces"])
def test_a_number_that_cannot_be(backend: Backend, name: str):
    with pytest.raises(ValueError, match=f"{name} must be .*, not 0"):
        recorder_of(backend, **{name: 0})


def test_a_naive_time_is_refused_at_once(backend: Backend):
    with pytest.raises(ValueError, match="has no offset"):
        recorder_of(backend).query(since="2026-01-01T00:00:00")

"""What holds of every trace, whatever the run did and however it ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from opentelemetry.sdk.trace import ReadableSpan

from actionspan.testing import Capture, capture
from actionspan.vocabulary import ActionOutcome
from plays import Play, Stage, plays

OUTCOMES = {outcome.value for outcome in ActionOutcome}


def played(play: Play) -> tuple[Stage, Capture, tuple[str, str]]:
    """The play with us watching."""
    stage = Stage()
    with capture() as seen:
        end = asyncio.run(stage.perform(play))
    assert seen.spans or play.cancel_after is not None
    return stage, seen, end


# `pytest --hypothesis-profile=thorough` plays twenty times as many.
several = settings(
    max_examples=settings.default.max_examples // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@several
@given(plays)
def test_what_is_told_of_a_run_is_true(play: Play):
    stage, seen, _ = played(play)
    every_action_ends_once_with_an_outcome_inside_its_parent(seen)
    every_tool_call_is_accounted_for_and_each_execution_is_told_apart(stage, seen)
    tokens_are_conserved(play, stage, seen)


def every_action_ends_once_with_an_outcome_inside_its_parent(seen: Capture) -> None:
    started = Counter(event["action_id"] for event in seen.records if event["phase"] == "start")
    ended = Counter(event["action_id"] for event in seen.records if event["phase"] != "start")
    assert started == ended
    assert set(ended.values()) <= {1}
    by_id = {span.context.span_id: span for span in seen.spans}
    assert len(by_id) == len(ended) == len(seen.spans)
    for span in seen.spans:
        assert span.attributes["actionspan.outcome"] in OUTCOMES
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time


def every_tool_call_is_accounted_for_and_each_execution_is_told_apart(stage: Stage, seen: Capture) -> None:
    tools = [span for span in seen.spans if span.attributes["actionspan.namespace"] == "tool"]
    executed = [span for span in tools if span.attributes.get("actionspan.tool_executed") is True]
    assert Counter(map(call_id, executed)) == Counter(stage.executed)
    assert {call_id(span) for span in tools} >= set(stage.executed)
    assert set(stage.asked) <= {call_id(span) for span in tools} or unfinished(seen)


def call_id(span: ReadableSpan) -> Any:
    return span.attributes["gen_ai.tool.call.id"]


def unfinished(seen: Capture) -> bool:
    """Whether a run was stopped: calls of an answer that arrived as it stopped were never looked at."""
    return any(span.attributes["actionspan.outcome"] != "success" for span in seen.spans)


def tokens_are_conserved(play: Play, stage: Stage, seen: Capture) -> None:
    spent = [span.attributes.get("gen_ai.usage.input_tokens", 0) for span in seen.spans]
    if play.way == "run" and play.cancel_after is None:
        assert sum(spent) == stage.input_tokens
    of_runs = [s for s in seen.spans if s.attributes["actionspan.namespace"] == "agent"]
    assert sum(s.attributes.get("actionspan.usage.input_tokens", 0) for s in of_runs) == sum(spent)


@several
@given(plays)
def test_the_run_is_what_it_is_without_us(play: Play):
    alone = Stage()
    end_alone = asyncio.run(alone.perform(play))
    stage, _, end = played(play)
    if play.cancel_after is None:
        assert end == end_alone
        assert stage.executed == alone.executed
        assert stage.asked == alone.asked

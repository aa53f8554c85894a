"""Nothing leaves that was not allowed: every channel, category, outcome and signal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from actionspan import ActionPolicy, narrow
from actionspan.policy import CATEGORIES
from actionspan.redact import RedactionContext, redact_patterns
from canary.channels import CHANNELS, canary, expected
from canary.playing import BYTES, SCENARIOS, admitted_of, found_in, found_with_everything, play, with_everything
from canary.signals import HEADER, LOG_LINE, METRIC, RECORD, SPAN, leaves

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS)
each_category = pytest.mark.parametrize("category", CATEGORIES)
EVERYTHING = ActionPolicy.everything()
GENAI_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def test_every_channel_is_planted():
    assert set().union(*(with_everything(scenario)[1] for scenario in SCENARIOS)) == set(CHANNELS)


# --- the ceiling ---


@each_scenario
def test_with_metadata_no_signal_carries_any_content(scenario: str):
    assert play(scenario, mode="metadata", policy=EVERYTHING)[0].everywhere() == {}


@each_scenario
def test_a_request_narrowed_to_nothing_carries_none_either(scenario: str):
    gone, _ = play(scenario, within=narrow(ActionPolicy()), mode="content", policy=EVERYTHING)
    assert gone.everywhere() == {}


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ({}, {}),
        ({"policy": EVERYTHING}, {}),
        ({"mode": "content"}, {}),
        ({"mode": "content", "policy": EVERYTHING}, {"ACTIONSPAN_AUDIT": "metadata"}),
        ({"mode": "content", "policy": EVERYTHING}, {"ACTIONSPAN_CAPTURE": "none"}),
        ({"mode": "content", "policy": EVERYTHING}, {GENAI_CAPTURE: "NO_CONTENT"}),
        ({"mode": "content", "policy": EVERYTHING}, {GENAI_CAPTURE: "true"}),
        ({"mode": "content", "policy": EVERYTHING}, {"ACTIONSPAN_REDACTOR": "no_such_module:redact"}),
    ],
)
@pytest.mark.parametrize("scenario", ["success", "tool error"])
def test_every_way_to_say_no(
    scenario: str, arguments: dict[str, Any], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert play(scenario, **arguments)[0].everywhere() == {}


# --- what is admitted ---


def test_with_every_category_on_each_channel_is_in_every_place_of_the_table_and_no_other():
    found: dict[str, set[str]] = {}
    for scenario in SCENARIOS:
        for channel, places in found_with_everything(scenario).items():
            found.setdefault(channel, set()).update(places)
    assert found == {channel: places for channel, places in CHANNELS.items() if places}


@each_category
@each_scenario
def test_with_one_category_on_its_attributes_carry_content_and_no_others(scenario: str, category: str):
    gone, _ = play(scenario, mode="content", policy=ActionPolicy.of([category]))
    found = gone.everywhere()
    assert {channel: places - BYTES for channel, places in found.items()} == admitted_of(scenario, category)
    assert all(places > BYTES for places in found.values())


@each_scenario
def test_a_record_of_what_a_sampler_dropped_shows_what_a_span_would(scenario: str):
    gone, _ = play(scenario, mode="content", policy=EVERYTHING, sampler=ALWAYS_OFF)
    assert found_in(gone) == found_with_everything(scenario)


@each_scenario
def test_narrowing_to_one_category_shows_only_its_attributes(scenario: str):
    only = ActionPolicy.of(["tool_results"])
    gone, _ = play(scenario, within=narrow(only), mode="content", policy=EVERYTHING)
    assert found_in(gone) == admitted_of(scenario, "tool_results")


# --- log events ---


@each_scenario
def test_content_for_events_only_is_on_no_span(scenario: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(GENAI_CAPTURE, "EVENT_ONLY")
    gone, _ = play(scenario)
    assert gone.everywhere(SPAN, RECORD, METRIC, LOG_LINE, HEADER) == {}
    for channel, places in gone.everywhere().items():
        assert places <= expected(channel, {"model_requests", "model_responses"}), channel


# --- the redactor ---


def strings_in(value: object) -> Iterator[str]:
    return (leaf for leaf in leaves(value) if isinstance(leaf, str))


@each_scenario
def test_the_redactor_sees_what_would_leave_and_nothing_that_must_not(scenario: str):
    seen: dict[str, list[str]] = {}

    def look(value: Any, context: RedactionContext) -> Any:
        seen.setdefault(context.field, []).extend(strings_in(value))
        return value

    gone, _ = play(scenario, mode="content", policy=ActionPolicy.everything(redactor=look))
    found = found_in(gone)
    for channel in CHANNELS:
        by_field = {field for field, strings in seen.items() if any(canary(channel) in text for text in strings)}
        assert by_field == found.get(channel, set()), channel


@each_scenario
def test_the_redactor_can_remove_it_everywhere(scenario: str):
    gone, _ = play(
        scenario, mode="content", policy=ActionPolicy.everything(redactor=redact_patterns(canary=r"canary\d\dx\w+"))
    )
    assert gone.everywhere() == {}
    assert any("<secret>" in text for texts in gone.texts.values() for text in texts)


@each_scenario
def test_a_redactor_that_fails_shows_nothing(scenario: str):
    def fail(value: Any) -> Any:
        return None

    gone, _ = play(scenario, mode="content", policy=ActionPolicy.everything(redactor=fail))
    assert gone.everywhere() == {}

"""The record of an action keeps its invariants."""

from __future__ import annotations

from uuid import UUID

import pytest

from actionspan import Action, ActionOutcome, ActionPhase
from actionspan.vocabulary import phase_of

FIELDS = {
    "namespace": "tool",
    "operation": "execute",
    "phase": ActionPhase.END,
    "action_id": UUID(int=2),
    "root_action_id": UUID(int=1),
    "outcome": ActionOutcome.SUCCESS,
}


def test_a_record():
    assert Action(**FIELDS).kind == "tool.execute.end"


@pytest.mark.parametrize("outcome", ActionOutcome)
def test_the_phase_of_an_outcome(outcome: ActionOutcome):
    assert Action(**{**FIELDS, "outcome": outcome, "phase": phase_of(outcome)}).outcome is outcome


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attempt": 0}, "Action.attempt counts from 1, not 0"),
        ({"phase": ActionPhase.START}, "Action.outcome must be None in phase start, not success"),
        ({"outcome": None}, "Action.outcome is required in phase end"),
        ({"phase": ActionPhase.ERROR}, "Action.phase error does not go with outcome success"),
        ({"outcome": ActionOutcome.ERROR}, "Action.phase end does not go with outcome error"),
        ({"namespace": ""}, "Action.namespace must not be empty"),
        ({"duration": -1.0}, "Action.duration is in seconds and not negative"),
        ({"phase": ActionPhase.START, "outcome": None, "outcome_reason": "x"}, "outcome_reason needs an outcome"),
    ],
)
def test_a_record_that_contradicts_itself(changes, message):
    with pytest.raises(ValueError, match=message):
        Action(**{**FIELDS, **changes})

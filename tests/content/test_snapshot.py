"""What a snapshot keeps of each kind of value."""

from __future__ import annotations

from actionspan.content import snapshot
from actionspan.policy import NormalizationLimits

LIMITS = NormalizationLimits()


def test_json_values_are_kept_as_they_are() -> None:
    value = {"text": "é😀", "number": 1, "ratio": 0.5, "yes": True, "none": None, "items": [1, [2]]}
    copy = snapshot(value, LIMITS)
    assert copy == value
    assert copy is not value
    assert copy["items"] is not value["items"]

"""The agent output envelope: one JSON object, defined once, for models whose answers other programs read.

The table of its fields makes both the instructions for the model and the validator, so they cannot drift apart.
Source of the rules: docs/envelope.md. Nothing here needs Pydantic AI except `EnvelopeOutput`, which is imported when it
is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from actionspan.envelope._fields import ENVELOPE_CONTRACT, is_error_envelope, validate_envelope
from actionspan.envelope._metadata import project_metadata
from actionspan.envelope._parse import EnvelopeResult, Recovered, parse_envelope

if TYPE_CHECKING:
    from actionspan.pydantic_ai.envelope import EnvelopeOutput

__all__ = [
    "ENVELOPE_CONTRACT",
    "EnvelopeOutput",
    "EnvelopeResult",
    "Recovered",
    "is_error_envelope",
    "parse_envelope",
    "project_metadata",
    "validate_envelope",
]


def __getattr__(name: str) -> Any:
    if name != "EnvelopeOutput":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = importlib.import_module("actionspan.pydantic_ai.envelope").EnvelopeOutput
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

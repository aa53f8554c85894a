"""Every action of a Pydantic AI agent as a truthful OpenTelemetry span.

Names are imported when they are first used: `import actionspan` costs little, and nothing of Pydantic AI.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from actionspan._version import __version__

if TYPE_CHECKING:
    from actionspan.instrumentor import PydanticAIInstrumentor, flush
    from actionspan.instrumentor._by_hand import capability
    from actionspan.policy import ActionPolicy, AuditMode, NormalizationLimits, narrow
    from actionspan.recorder import (
        FanOutRecorder,
        JsonlRecorder,
        JsonlSpanExporter,
        OtelRecorder,
        QueryNotSupported,
        Recorder,
        RecorderClosed,
        RecorderSpanProcessor,
        UnknownCallId,
    )
    from actionspan.settings import resolve_audit_mode
    from actionspan.telemetry.application import action
    from actionspan.vocabulary import Action, ActionNamespace, ActionOperation, ActionOutcome, ActionPhase

__all__ = [
    "Action",
    "ActionNamespace",
    "ActionOperation",
    "ActionOutcome",
    "ActionPhase",
    "ActionPolicy",
    "AuditMode",
    "FanOutRecorder",
    "JsonlRecorder",
    "JsonlSpanExporter",
    "NormalizationLimits",
    "OtelRecorder",
    "PydanticAIInstrumentor",
    "QueryNotSupported",
    "Recorder",
    "RecorderClosed",
    "RecorderSpanProcessor",
    "UnknownCallId",
    "__version__",
    "action",
    "capability",
    "flush",
    "narrow",
    "resolve_audit_mode",
]

_HOMES = {
    "actionspan.vocabulary": ("Action", "ActionNamespace", "ActionOperation", "ActionOutcome", "ActionPhase"),
    "actionspan.instrumentor": ("PydanticAIInstrumentor", "flush"),
    "actionspan.instrumentor._by_hand": ("capability",),
    "actionspan.telemetry.application": ("action",),
    "actionspan.policy": ("ActionPolicy", "AuditMode", "NormalizationLimits", "narrow"),
    "actionspan.recorder": (
        "FanOutRecorder",
        "JsonlRecorder",
        "JsonlSpanExporter",
        "OtelRecorder",
        "QueryNotSupported",
        "Recorder",
        "RecorderClosed",
        "RecorderSpanProcessor",
        "UnknownCallId",
    ),
    "actionspan.settings": ("resolve_audit_mode",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})

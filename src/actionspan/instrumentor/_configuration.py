"""What `instrument()` was told, resolved against the environment, and how a later call tightens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, get_args

from opentelemetry import _logs as logs
from opentelemetry import metrics
from opentelemetry.trace import TracerProvider
from opentelemetry.util.types import AttributeValue

from actionspan import guard
from actionspan.policy import CATEGORY_FIELDS, ActionPolicy, AuditMode, effective_policy
from actionspan.settings import (
    GenAICapture,
    InputMessages,
    Settings,
    TraceMode,
    combine_modes,
    parse_mode,
)
from actionspan.telemetry import names

__all__ = ["Configuration", "resolve"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that was decided, by argument, environment or default."""

    mode: AuditMode
    policy: ActionPolicy
    """The ceiling's and the application's intersection, without the redactor that the environment names."""
    identity: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    trace: TraceMode = "join"
    input_messages: InputMessages = "full"
    content_on_spans: bool = True
    content_on_events: bool = False
    tracer_provider: TracerProvider | None = None
    meter_provider: metrics.MeterProvider | None = None
    logger_provider: logs.LoggerProvider | None = None
    settings: Settings = field(default_factory=Settings)

    def tighten(self, later: Configuration, given: Mapping[str, Any]) -> Configuration:
        """This configuration narrowed by a later call; what a later call cannot change is said."""
        for name in ("tracer_provider", "meter_provider", "logger_provider", "trace", "input_messages"):
            if given.get(name) is not None and getattr(later, name) != getattr(self, name):
                guard.warn_once(
                    f"instrument.{name}",
                    "instrument(%s=...) has no effect: actionspan is instrumented already. Call uninstrument() first, "
                    "or leave the pydantic_ai instrumentation out of the zero-code start.",
                    name,
                )
        policy = self.policy if given.get("policy") is None else self.policy.intersect(given["policy"])
        mode = self.mode.lowered_to(later.mode) if given.get("mode") is not None else self.mode
        if (mode is self.mode and later.mode.rank > self.mode.rank and given.get("mode") is not None) or _would_widen(
            self.policy, given.get("policy")
        ):
            guard.warn_once(
                "instrument.widen",
                "instrument() was called again with more than the first call admitted; a later call can only tighten. "
                "To admit more, set ACTIONSPAN_AUDIT and ACTIONSPAN_CAPTURE, or call uninstrument() first.",
            )
        return replace(
            self,
            mode=mode,
            policy=effective_policy(mode, policy),
            identity={**later.identity, **self.identity},
        )


def _would_widen(admitted: ActionPolicy, asked: ActionPolicy | None) -> bool:
    return asked is not None and any(getattr(asked, name) and not getattr(admitted, name) for name in CATEGORY_FIELDS)


def resolve(settings: Settings, given: Mapping[str, Any]) -> Configuration:
    """Argument beats environment beats default, the ceiling excepted. Raises `ValueError` or `TypeError` by name."""
    mode = combine_modes(settings.ceiling, parse_mode(given.get("mode")), settings.genai_capture)
    policy = given.get("policy")
    if policy is not None and not isinstance(policy, ActionPolicy):
        raise TypeError(f"policy must be an ActionPolicy, not {type(policy).__name__}")
    _require_parts(given)
    capture = settings.genai_capture
    to_events = capture in (GenAICapture.EVENT_ONLY, GenAICapture.SPAN_AND_EVENT)
    return Configuration(
        mode=mode,
        policy=effective_policy(mode, *_stated(settings, policy)),
        identity=_identity(given.get("identity")),
        trace=_choice("trace", given.get("trace"), get_args(TraceMode), settings.trace),
        input_messages=_choice(
            "input_messages", given.get("input_messages"), get_args(InputMessages), settings.input_messages
        ),
        content_on_spans=capture is not GenAICapture.EVENT_ONLY,
        content_on_events=to_events,
        tracer_provider=given.get("tracer_provider"),
        meter_provider=given.get("meter_provider"),
        logger_provider=given.get("logger_provider"),
        settings=settings,
    )


_PARTS: Final = {
    "tracer_provider": ("a TracerProvider", "get_tracer"),
    "meter_provider": ("a MeterProvider", "get_meter"),
    "logger_provider": ("a LoggerProvider", "get_logger"),
    "recorder": ("a Recorder, such as JsonlRecorder(directory)", "emit"),
    "control": ("a RunControl", "pause"),
}
"""What each argument that is an object must be, and a method that tells it from a name, a path or a class."""


def _require_parts(given: Mapping[str, Any]) -> None:
    for name, (wanted, method) in _PARTS.items():
        part = given.get(name)
        if part is not None and (isinstance(part, type) or not callable(getattr(part, method, None))):
            found = part if isinstance(part, type) else type(part)
            raise TypeError(f"{name} must be {wanted}, not {'the class ' * (found is part)}{found.__name__}")


def _stated(settings: Settings, policy: ActionPolicy | None) -> list[ActionPolicy]:
    """The application's half: the argument, ANDed with the variable when both are there; none at all: nothing."""
    stated = [part for part in (settings.capture, policy) if part is not None]
    if settings.genai_capture not in (None, GenAICapture.NO_CONTENT):
        # OpenTelemetry's variable speaks of messages and tool calls. It admits those by itself, and holds any other
        # statement to them.
        genai = ActionPolicy(
            include_model_requests=True,
            include_model_responses=True,
            include_tool_arguments=True,
            include_tool_results=True,
        )
        stated.append(genai)
    return stated


def _choice(name: str, value: Any, permitted: tuple[Any, ...], default: Any) -> Any:
    if value is None:
        return default
    if value not in permitted:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(permitted)}")
    return value


_KEY: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_BINDABLE: Final = frozenset({names.PROMPT_VERSION, names.MODEL_VERSION, names.OUTPUT_MODE})
_OWN: Final = frozenset(
    value for value in vars(names).values() if isinstance(value, str) and value.startswith(names.PREFIX)
)


def _identity(identity: Any) -> dict[str, AttributeValue]:
    """The bound identity as attributes by full name."""
    if identity is None:
        return {}
    if not isinstance(identity, Mapping):
        raise TypeError(f"identity must be a mapping, not {type(identity).__name__}")
    bound = cast("Mapping[object, object]", identity)
    return {names.PREFIX + _identity_key(key): _identity_value(key, value) for key, value in bound.items()}


def _identity_key(key: object) -> str:
    if not isinstance(key, str) or not _KEY.match(key):
        raise ValueError(f"identity key {key!r} is not of the form [a-z][a-z0-9_]*")
    name = names.PREFIX + key
    taken = name in _OWN or any(own.startswith(name + ".") for own in _OWN)
    if taken and name not in _BINDABLE:
        raise ValueError(f"identity key {key!r} is an attribute of actionspan itself")
    return key


def _identity_value(key: object, value: object) -> AttributeValue:
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"identity[{key!r}] must be a str, bool, int or float, not {type(value).__name__}")
    return value

"""The only reader of `os.environ`: every variable, what it may be, and the frozen value made of them.

An unknown value of one of our own variables is a `ValueError` that names the variable, the value and the permitted
ones; it is never reinterpreted. An unknown value of an OpenTelemetry variable is one warning and the strictest reading.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, TypeVar, cast

from actionspan import guard
from actionspan.policy import CATEGORIES, ActionPolicy, AuditMode

__all__ = [
    "Exporting",
    "GenAICapture",
    "InputMessages",
    "Settings",
    "TraceMode",
    "jsonl_directory",
    "read_exporting",
    "read_settings",
    "resolve_audit_mode",
    "runtime_directory",
]

TraceMode = Literal["join", "new"]
InputMessages = Literal["full", "delta"]
E = TypeVar("E", bound=str)

AUDIT: Final = "ACTIONSPAN_AUDIT"
"""The deployment's ceiling: off, metadata or content. `mode=` in code can only lower it."""
CAPTURE: Final = "ACTIONSPAN_CAPTURE"
"""Categories admitted without code: a comma list, `all` or `none`; ANDed with `policy=` when one is given."""
REDACTOR: Final = "ACTIONSPAN_REDACTOR"
"""`package.module:callable`, run before the policy's own redactor."""
TRACE: Final = "ACTIONSPAN_TRACE"
"""`join` the surrounding trace (default) or start a `new` one for each outermost run."""
INPUT_MESSAGES: Final = "ACTIONSPAN_INPUT_MESSAGES"
"""`full` (default) or `delta`: what of the history each model request carries."""
RECORD: Final = "ACTIONSPAN_RECORD"
"""Directory that every action is recorded to, whatever the sampler decides."""
JSONL: Final = "ACTIONSPAN_JSONL"
"""Directory of the `jsonl` traces exporter."""
CONTROL: Final = "ACTIONSPAN_CONTROL"
"""Directory that run control is served from."""
MCP_SDK_SPANS: Final = "ACTIONSPAN_MCP_SDK_SPANS"
"""`keep` (default) or `drop` the MCP SDK's own client span."""
QUERY_HEADERS: Final = "ACTIONSPAN_QUERY_HEADERS"
"""`k=v,k=v` sent when reading back from a tracing backend."""
GENAI_CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for message content; the stricter of it and our own variables wins."""
SDK_DISABLED: Final = "OTEL_SDK_DISABLED"
TRACES_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
OTLP_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
OTLP_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
DISABLED: Final = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
CONFIG_FILE: Final = "OTEL_CONFIG_FILE"
RUNTIME_DIRECTORY: Final = "XDG_RUNTIME_DIR"
"""The user's own directory for sockets, as the XDG base directory specification has it."""


class GenAICapture(StrEnum):
    """Where OpenTelemetry's own variable lets message content go."""

    NO_CONTENT = "NO_CONTENT"
    SPAN_ONLY = "SPAN_ONLY"
    EVENT_ONLY = "EVENT_ONLY"
    SPAN_AND_EVENT = "SPAN_AND_EVENT"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says, resolved once."""

    ceiling: AuditMode | None = None
    capture: ActionPolicy | None = None
    redactor: str | None = None
    trace: TraceMode = "join"
    input_messages: InputMessages = "full"
    record: Path | None = None
    jsonl: Path = Path("actionspan")
    control: Path | None = None
    mcp_sdk_spans: Literal["keep", "drop"] = "keep"
    query_headers: tuple[tuple[str, str], ...] = ()
    genai_capture: GenAICapture | None = None
    sdk_disabled: bool = False


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read every variable; `environ` stands in for the process's own. Raises `ValueError` for an unknown value."""
    env = os.environ if environ is None else environ
    return Settings(
        ceiling=_audit_mode(AUDIT, _value(env, AUDIT)),
        capture=_capture(_value(env, CAPTURE)),
        redactor=_redactor(_value(env, REDACTOR)),
        trace=_choice(TRACE, _value(env, TRACE), ("join", "new"), default="join"),
        input_messages=_choice(INPUT_MESSAGES, _value(env, INPUT_MESSAGES), ("full", "delta"), default="full"),
        record=_path(_value(env, RECORD)),
        jsonl=jsonl_directory(env),
        control=_path(_value(env, CONTROL)),
        mcp_sdk_spans=_choice(MCP_SDK_SPANS, _value(env, MCP_SDK_SPANS), ("keep", "drop"), default="keep"),
        query_headers=_headers(_value(env, QUERY_HEADERS)),
        genai_capture=_genai_capture(_value(env, GENAI_CAPTURE)),
        sdk_disabled=(_value(env, SDK_DISABLED) or "").lower() == "true",
    )


@dataclass(frozen=True, slots=True)
class Exporting:
    """What OpenTelemetry's variables say of where spans go, for `actionspan doctor` to tell: the SDK acts on them."""

    exporters: tuple[str, ...] | None = None
    """None when nothing is said; `none` is said by an empty tuple."""
    endpoint: str | None = None
    protocol: str | None = None
    disabled: tuple[str, ...] = ()
    """Instrumentations that the zero-code loader leaves out."""
    config_file: Path | None = None
    """With one, the SDK heeds none of the variables above but `disabled`."""


def read_exporting(environ: Mapping[str, str] | None = None) -> Exporting:
    """Read OpenTelemetry's variables for traces; headers are not read, because they hold credentials."""
    env = os.environ if environ is None else environ
    exporters = _value(env, TRACES_EXPORTER)
    return Exporting(
        exporters=None if exporters is None else tuple(name for name in _items(exporters) if name != "none"),
        endpoint=_first(env, OTLP_ENDPOINTS),
        protocol=_first(env, OTLP_PROTOCOLS),
        disabled=_items(_value(env, DISABLED) or ""),
        config_file=_path(_value(env, CONFIG_FILE)),
    )


def jsonl_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Where the `jsonl` exporter writes. Read by itself: a wrong value elsewhere is not the exporter's to report."""
    return _path(_value(os.environ if environ is None else environ, JSONL)) or Path("actionspan")


def runtime_directory(environ: Mapping[str, str] | None = None) -> Path | None:
    """Where this user's sockets belong, if the system says."""
    return _path(_value(os.environ if environ is None else environ, RUNTIME_DIRECTORY))


def resolve_audit_mode(environ: Mapping[str, str] | None = None, mode: AuditMode | str | None = None) -> AuditMode:
    """The ceiling that holds: `ACTIONSPAN_AUDIT` when set, which `mode` can only lower; else `mode`; else metadata.

    This is the one exception to "argument beats environment": who deploys decides what may leave at most.
    OpenTelemetry's own content variable lowers it as well. Raises `ValueError` naming the variable or argument, its
    value and the permitted ones.
    """
    env = os.environ if environ is None else environ
    ceiling = _audit_mode(AUDIT, _value(env, AUDIT))
    return combine_modes(ceiling, parse_mode(mode), _genai_capture(_value(env, GENAI_CAPTURE)))


def combine_modes(ceiling: AuditMode | None, mode: AuditMode | None, genai: GenAICapture | None) -> AuditMode:
    """The strictest of what was said; metadata when nothing was."""
    said = [part for part in (ceiling, mode) if part is not None]
    if genai is not None:
        said.append(AuditMode.METADATA if genai is GenAICapture.NO_CONTENT else AuditMode.CONTENT)
    result = AuditMode.CONTENT if said else AuditMode.METADATA
    for part in said:
        result = result.lowered_to(part)
    return result


def parse_mode(mode: AuditMode | str | Literal[False] | None, name: str = "mode") -> AuditMode | None:
    """`mode` as an `AuditMode`; `ValueError` when it is none of them."""
    if mode is False:
        return AuditMode.OFF  # what YAML makes of an unquoted `off`
    return mode if mode is None or isinstance(mode, AuditMode) else _audit_mode(name, mode)


def _value(env: Mapping[str, str], name: str) -> str | None:
    """The variable without surrounding blanks; empty counts as unset, as OpenTelemetry's specification has it."""
    return (env.get(name) or "").strip() or None


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := _value(env, name)) is not None), None)


def _items(value: str) -> tuple[str, ...]:
    return tuple(item for part in value.split(",") if (item := part.strip()))


def _choice(name: str, value: str | None, permitted: tuple[E, ...], default: E) -> E:
    if value is None:
        return default
    if value in permitted:
        return cast(E, value)
    raise ValueError(f"{name}={value!r} is not one of {', '.join(permitted)}")


def _audit_mode(name: str, value: str | None) -> AuditMode | None:
    if value is None:
        return None
    return AuditMode(_choice(name, value, tuple(mode.value for mode in AuditMode), default=""))


def _path(value: str | None) -> Path | None:
    return None if value is None else Path(value)


def _capture(value: str | None) -> ActionPolicy | None:
    """The application's half as `ACTIONSPAN_CAPTURE` states it."""
    if value is None:
        return None
    if value == "all":
        return ActionPolicy.everything()
    if value == "none":
        return ActionPolicy()
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        _choice(CAPTURE, name, ("all", "none", *CATEGORIES), default="")
        if name in ("all", "none"):
            raise ValueError(f"{CAPTURE}={value!r}: {name!r} stands alone or not at all")
    return ActionPolicy.of(names)


def _redactor(value: str | None) -> str | None:
    if value is not None:
        module, _, attribute = value.partition(":")
        if not module or not attribute:
            raise ValueError(f"{REDACTOR}={value!r} is not of the form package.module:callable")
    return value


def _headers(value: str | None) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    pairs: list[tuple[str, str]] = []
    for item in value.split(","):
        key, separator, text = item.partition("=")
        if not separator or not key.strip():
            # The value may be a credential, so the message does not repeat it.
            raise ValueError(f"{QUERY_HEADERS}: item {len(pairs) + 1} is not of the form name=value")
        pairs.append((key.strip(), text.strip()))
    return tuple(pairs)


def _genai_capture(value: str | None) -> GenAICapture | None:
    if value is None:
        return None
    try:
        return GenAICapture(value.upper())
    except ValueError:
        guard.warn_once(
            GENAI_CAPTURE + value,
            "%s=%r is not one of %s; no content is captured",
            GENAI_CAPTURE,
            value,
            ", ".join(member.value for member in GenAICapture),
        )
        return GenAICapture.NO_CONTENT

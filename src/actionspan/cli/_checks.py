"""What can keep actions from being traced, recorded or exported, looked at one after the other.

No check leaves anything behind, imports Pydantic AI or prints a header: of a URL only scheme, host and port are shown.
"""

from __future__ import annotations

import importlib.util
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.instrumentation.dependencies import get_dependency_conflicts

from actionspan._version import __version__
from actionspan.cli._endpoint import check_reachable
from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.instrumentor._configuration import resolve
from actionspan.policy import CATEGORIES, AuditMode
from actionspan.recorder._directory import prepare_directory
from actionspan.settings import Exporting, Settings, jsonl_directory, read_exporting, read_settings

__all__ = ["Check", "State", "examine"]

_OURS: Final = "pydantic_ai"
"""The name of our instrumentor, as the loader knows it."""
_PORTS: Final = {"grpc": 4317}
_HTTP_PORT: Final = 4318
_OPENTELEMETRY: Final = ("opentelemetry-sdk", "opentelemetry-instrumentation", "opentelemetry-exporter-otlp")


class State(StrEnum):
    """What a check came to."""

    FINE = "fine"
    NOTE = "note"
    """Worth knowing, and nothing is wrong."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, what it came to, and in which words."""

    name: str
    state: State
    says: str


def examine() -> list[Check]:
    """Every check, in the order in which one thing depends on another."""
    return [*_installed(), *_loader(read_exporting()), *_configured(), *_others(), *_exported(read_exporting())]


def _fine(name: str, says: str) -> Check:
    return Check(name, State.FINE, says)


def _note(name: str, says: str) -> Check:
    return Check(name, State.NOTE, says)


def _problem(name: str, says: str) -> Check:
    return Check(name, State.PROBLEM, says)


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _installed() -> Iterator[Check]:
    yield _fine("actionspan", f"{__version__}, Python {platform.python_version()}")
    found = ", ".join(f"{package} {_version_of(package) or 'is missing'}" for package in _OPENTELEMETRY)
    yield (_problem if "is missing" in found else _fine)("opentelemetry", found)
    needed = PydanticAIInstrumentor().instrumentation_dependencies()
    conflict = get_dependency_conflicts(needed)
    installed = _version_of("pydantic-ai-slim")
    if installed is None:
        yield _problem("pydantic ai", "is not installed: pip install 'actionspan[instruments]'")
    elif conflict is not None:
        yield _problem("pydantic ai", f"{installed} is not supported: it must be {conflict.required}")
    else:
        yield _fine("pydantic ai", f"{installed}, in the supported range ({', '.join(needed)})")


def _loader(exporting: Exporting) -> Iterator[Check]:
    """Whether a start without code would find us, and whether one has."""
    if _OURS in exporting.disabled or "*" in exporting.disabled:
        yield _problem("loader", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS leaves pydantic_ai out")
    elif not any(_is_ours(point) for point in entry_points(group="opentelemetry_instrumentor")):
        yield _problem("loader", "opentelemetry-instrument does not find us: actionspan is not installed as a package")
    elif not entry_points(group="opentelemetry_distro"):
        yield _problem(
            "loader", "no opentelemetry-distro: opentelemetry-instrument would configure no SDK and no exporter"
        )
    else:
        yield _fine("loader", "opentelemetry-instrument finds us, and a distribution that configures the SDK")
    if PydanticAIInstrumentor().is_instrumented_by_opentelemetry:
        yield _fine("this process", "is instrumented")
    else:
        yield _note("this process", "is not instrumented: start with opentelemetry-instrument, or call instrument()")


def _is_ours(point: EntryPoint) -> bool:
    return point.name == _OURS and point.value.partition(".")[0] == "actionspan"


def _configured() -> Iterator[Check]:
    try:
        settings = read_settings()
        configuration = resolve(settings, {})
    except ValueError as error:
        yield _problem("variables", f"{error}: nothing is traced")
        return
    if settings.sdk_disabled:
        yield _problem("sdk", "OTEL_SDK_DISABLED=true switches everything off")
    yield _ceiling(settings, configuration.mode)
    admitted = [name for name in CATEGORIES if getattr(configuration.policy, f"include_{name}")]
    every = len(admitted) == len(CATEGORIES)
    words = "every category of content" if every else ", ".join(admitted)
    yield _note("policy", f"admitted without code: {words or 'no content'} (ACTIONSPAN_CAPTURE; policy= can narrow it)")
    yield from _redactor(settings)
    yield from _directories(settings)


def _ceiling(settings: Settings, mode: AuditMode) -> Check:
    if mode is AuditMode.OFF:
        return _problem("ceiling", "off (ACTIONSPAN_AUDIT): nothing is traced and nothing recorded")
    said = [] if settings.ceiling is None else ["ACTIONSPAN_AUDIT"]
    said += [] if settings.genai_capture is None else ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"]
    return _fine("ceiling", f"{mode.value} ({' and '.join(said) if said else 'the default; mode= can raise it'})")


def _redactor(settings: Settings) -> Iterator[Check]:
    """Its package is looked for; importing it would run the application's code."""
    if settings.redactor is None:
        return
    package = settings.redactor.partition(":")[0].partition(".")[0]
    if importlib.util.find_spec(package) is None:
        yield _problem("redactor", f"{settings.redactor}: there is no package {package}, so no content is captured")
    else:
        yield _fine("redactor", f"{settings.redactor} runs before any other")


def _directories(settings: Settings) -> Iterator[Check]:
    if settings.record is None:
        yield _note("record", "nothing is recorded on disk by the environment (ACTIONSPAN_RECORD=DIR)")
    else:
        yield _writable("record", settings.record)
    if settings.control is not None:
        yield _writable("control", settings.control)


def _writable(name: str, directory: Path) -> Check:
    """Whether a recorder could write there, tried: permission bits say little of root, mounts and full disks."""
    try:
        if directory.exists():
            prepare_directory(directory)
            _try_writing(directory)
            return _fine(name, f"{directory} is ours to write to")
        above = next(parent for parent in directory.absolute().parents if parent.exists())
        _try_writing(above)
    except OSError as error:
        return _problem(name, str(error))
    return _fine(name, f"{directory} does not exist yet, and can be made")


def _try_writing(directory: Path) -> None:
    """Make a directory in `directory` and remove it: what nobody may do who may not write a segment there."""
    try:
        made = tempfile.mkdtemp(prefix=".actionspan-doctor-", dir=directory)
    except OSError as error:
        raise OSError(f"{directory} cannot be written to: {error.strerror}") from None
    Path(made).rmdir()


def _others() -> Iterator[Check]:
    """Who else might trace the same library. That a program switches it on is seen by the program alone."""
    others = sorted(
        {
            f"{point.dist.name if point.dist else point.value} ({point.name})"
            for point in entry_points(group="opentelemetry_instrumentor")
            if "pydantic_ai" in point.name.replace("-", "_") and not _is_ours(point)
        }
    )
    if others:
        yield _problem(
            "other tracing", f"{', '.join(others)} instruments Pydantic AI too: every action is traced twice"
        )
    logfire = " or logfire.instrument_pydantic_ai()" if _version_of("logfire") else ""
    yield _note(
        "native tracing",
        f"is on where the program calls Agent.instrument_all(){logfire}; a run that finds it on logs one warning",
    )


def _exported(exporting: Exporting) -> Iterator[Check]:
    if exporting.config_file is not None:
        state = _fine if exporting.config_file.is_file() else _problem
        yield state(
            "exporter", f"decided by the file {exporting.config_file} (OTEL_CONFIG_FILE), which is not read here"
        )
        return
    if exporting.exporters == ():
        yield _note("exporter", "none (OTEL_TRACES_EXPORTER): spans stay in the process")
        return
    known = {point.name for point in entry_points(group="opentelemetry_traces_exporter")} | {"console", "otlp"}
    for name in exporting.exporters or ("otlp",):
        if name not in known:
            yield _problem("exporter", f"{name} is not installed; there are {', '.join(sorted(known))}")
        elif name == "jsonl":
            yield _writable("exporter jsonl", jsonl_directory())
        elif name.startswith("otlp"):
            yield _reachable(name, exporting)
        else:
            yield _fine("exporter", name)


def _reachable(name: str, exporting: Exporting) -> Check:
    said = exporting.exporters is not None or exporting.endpoint is not None
    protocol = "http" if "http" in name or (exporting.protocol or "grpc").startswith("http") else "grpc"
    try:
        shown = _origin(exporting.endpoint or f"http://localhost:{_PORTS.get(protocol, _HTTP_PORT)}")
        check_reachable(shown)
    except (ValueError, ConnectionError) as error:
        if said:
            return _problem(f"exporter {name}", str(error))
        return _note(f"exporter {name}", f"{error} (the default of opentelemetry-instrument; nothing is configured)")
    return _fine(f"exporter {name}", f"{shown} answers")


def _origin(endpoint: str) -> str:
    """Scheme, host and port: credentials may stand before them, in the path and in the query."""
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"grpc://{endpoint}")
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if host is None:
        # What is wrong with it may be a credential, so the message does not repeat it.
        raise ValueError("the OTLP endpoint is not of the form http://host:port") from None
    return f"{scheme}://" + (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")

"""The composition root: settings, telemetry, recorders and the adapter put together, and taken apart again."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Collection
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import wrapt
from opentelemetry import _logs as logs
from opentelemetry import metrics, trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from actionspan import guard
from actionspan.instrumentor._assembly import assemble, control_there, environment_control, environment_recorder
from actionspan.instrumentor._configuration import Configuration, resolve
from actionspan.instrumentor._exit import bound_exit, flush_within, release_exit
from actionspan.instrumentor._recording import Recording
from actionspan.policy import AuditMode
from actionspan.recorder import JsonlRecorder, Recorder
from actionspan.settings import read_settings
from actionspan.telemetry.active import provide_pipeline
from actionspan.telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from actionspan.control import RunControl

__all__ = ["PydanticAIInstrumentor", "flush"]

_logger = logging.getLogger("actionspan")

_ARGUMENTS = frozenset(
    {
        "tracer_provider",
        "meter_provider",
        "logger_provider",
        "mode",
        "policy",
        "identity",
        "trace",
        "input_messages",
        "recorder",
        "control",
    }
)


class PydanticAIInstrumentor(BaseInstrumentor):  # type: ignore[misc] # the base class is untyped
    """Makes every action of every Pydantic AI agent in this process a span.

    `instrument()` takes `tracer_provider`, `meter_provider`, `logger_provider` (default: the global ones), `mode`
    (`AuditMode` or its value), `policy` (`ActionPolicy`), `identity` (a mapping put on every action), `trace`
    (`join` or `new`), `input_messages` (`full` or `delta`), `recorder` (a `Recorder`, fed until `uninstrument()`) and
    `control` (a `RunControl` that every run is put under). A second call can only tighten, or add a recorder or a
    control. It raises `ValueError` or `TypeError` naming what is wrong;
    started by OpenTelemetry's loader it logs that instead and stays off.
    """

    _configuration: Configuration | None = None
    _pipeline: Pipeline | None = None
    _recording: Recording
    _own_recorder: JsonlRecorder | None = None
    _controls: tuple[RunControl, ...] = ()
    _own_control: RunControl | None = None
    _lock = threading.RLock()

    def instrumentation_dependencies(self) -> Collection[str]:
        """What must be installed for there to be anything to trace."""
        return ("pydantic-ai-slim >= 2.64",)

    def instrument(self, **kwargs: Any) -> None:
        """Start tracing, or tighten what was started."""
        loaded = "skip_dep_check" in kwargs or "raise_exception_on_conflict" in kwargs
        try:
            with self._lock:
                if self.is_instrumented_by_opentelemetry:
                    self._tighten(_checked(kwargs))
                else:
                    super().instrument(**kwargs)
        except (ValueError, TypeError) as error:
            if not loaded:
                raise
            # The loader stops at the first instrumentor that raises, and every other one would stay off with us.
            _logger.error("actionspan stays off: %s", error)

    def _instrument(self, **kwargs: Any) -> None:
        given = _checked(kwargs)
        settings = read_settings()
        configuration = resolve(settings, given)
        if settings.sdk_disabled or configuration.mode is AuditMode.OFF:
            return
        self._recording = Recording()
        if given.get("recorder") is not None:
            self._recording.add(given["recorder"])
        self._own_recorder = environment_recorder(settings)
        if self._own_recorder is not None:
            self._recording.add(self._own_recorder)
        control = given.get("control") or control_there(settings)
        if control is None:
            control = self._own_control = environment_control(settings)
        self._control_also(control)
        self._configuration = configuration
        self._pipeline = None
        guard.observe(self._count_failure)
        provide_pipeline(self.pipeline)
        guard.reveal_messages(self._text_of_failure)
        guard.call("install", bound_exit)
        wrapt.register_post_import_hook(_install, "pydantic_ai")

    def _tighten(self, given: dict[str, Any]) -> None:
        before = self._configuration
        if before is None:
            resolve(read_settings(), given)  # a wrong argument is an error also while everything is off
            return
        self._configuration = before.tighten(resolve(before.settings, given), given)
        if given.get("recorder") is not None:
            self.record_also(given["recorder"])
        self._control_also(given.get("control"))
        self._pipeline = None
        if self._configuration.mode is AuditMode.OFF:
            self.uninstrument()

    def _uninstrument(self, **kwargs: Any) -> None:
        with self._lock:
            if self._configuration is None:
                return
            self._configuration = None
            self._pipeline = None
            self._recording.stop()
            if self._own_recorder is not None:
                self._own_recorder.close()
                self._own_recorder = None
            self._controls = ()
            if self._own_control is not None:
                self._own_control.close()
                self._own_control = None
            guard.observe(None)
            provide_pipeline(None)
            guard.reveal_messages(None)
            guard.call("uninstall", release_exit)
            _remove()

    @property
    def pipeline_wanted(self) -> bool:
        """Whether something is instrumented."""
        return self._configuration is not None

    @property
    def mcp_sdk_spans(self) -> Literal["keep", "drop"]:
        """Whether the MCP SDK's own client span stays beside ours."""
        return "keep" if self._configuration is None else self._configuration.settings.mcp_sdk_spans

    @property
    def controls(self) -> tuple[RunControl, ...]:
        """What every run is put under."""
        return self._controls

    def _control_also(self, control: RunControl | None) -> None:
        if control is not None and control not in self._controls:
            self._controls = (*self._controls, control)

    def pipeline(self) -> Pipeline | None:
        """What runs that start now are traced with; None while nothing is instrumented."""
        if self._pipeline is not None or not self.pipeline_wanted:
            return self._pipeline
        with self._lock:
            configuration = self._configuration
            if self._pipeline is None and configuration is not None:
                self._pipeline = assemble(configuration, self._recording)
            return self._pipeline

    def record_also(self, recorder: Recorder) -> None:
        """Feed `recorder` as well, from the next action on."""
        with self._lock:
            if self._configuration is not None and self._recording.add(recorder):
                self._pipeline = None

    def flush(self, timeout_seconds: float) -> bool:
        """Flush what this process records and exports; False when something failed or time ran out."""
        configuration = self._configuration
        if configuration is None:
            return True
        providers = (
            configuration.tracer_provider or trace.get_tracer_provider(),
            configuration.meter_provider or metrics.get_meter_provider(),
            configuration.logger_provider or logs.get_logger_provider(),
        )
        # A provider that is not the SDK's may have nothing to flush, and then nothing to wait for.
        flushes = [getattr(provider, "force_flush", None) for provider in providers]
        return flush_within(timeout_seconds, [self._recording.flush, *filter(None, flushes)])

    def _text_of_failure(self, error: Exception) -> str | None:
        pipeline = self.pipeline()
        return None if pipeline is None else pipeline.text_of_failure(error)

    def _count_failure(self, stage: str) -> None:
        pipeline = self._pipeline
        if pipeline is not None:
            pipeline.instruments.contained_failures.add(1, {"stage": stage})


def flush(timeout_seconds: float = 30.0) -> bool:
    """Return when everything recorded and exported so far has left: for hosts that freeze or kill a process.

    Flushes the recorders and the tracer, meter and logger providers in use, all at once, and waits for them at most
    `timeout_seconds`. True when all of it left in time. While the interpreter ends (an `atexit` hook) Python 3.12 and
    newer start no thread: it then is False at once, and what is left is sent by the SDK's own hook. Raises
    `ValueError` for a time that is not positive.
    """
    if not timeout_seconds > 0:
        raise ValueError(f"timeout_seconds must be positive, not {timeout_seconds!r}")
    return PydanticAIInstrumentor().flush(timeout_seconds)


def _checked(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are ours; an unknown one is a mistake, not an option of somebody else."""
    given = {key: value for key, value in kwargs.items() if key not in _LOADER_ARGUMENTS}
    unknown = sorted(set(given) - _ARGUMENTS)
    if unknown:
        raise TypeError(f"instrument() has no argument {unknown[0]!r}; it takes {', '.join(sorted(_ARGUMENTS))}")
    return given


_LOADER_ARGUMENTS = frozenset({"skip_dep_check", "raise_exception_on_conflict"})


def _install(_module: ModuleType) -> None:
    """The library was imported, now or before: patch it, if tracing is still wanted."""
    instrumentor = PydanticAIInstrumentor()
    if instrumentor.pipeline_wanted:
        guard.call("install", lambda: _install_adapter(instrumentor))


def _install_adapter(instrumentor: PydanticAIInstrumentor) -> None:
    _adapter().install(instrumentor.pipeline, instrumentor.mcp_sdk_spans, lambda: instrumentor.controls)


def _remove() -> None:
    if "actionspan.pydantic_ai.attach" in sys.modules:
        guard.call("uninstall", lambda: _adapter().remove())


def _adapter() -> Any:
    from actionspan.pydantic_ai import attach

    return attach

"""The ways of tracing that are compared. Each imports what it needs when it is installed, and not before."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.sdk.trace import TracerProvider

__all__ = ["SIDES", "Side"]

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Side:
    """One way; `install` begins it and returns what ends it."""

    name: str
    title: str
    install: Callable[[TracerProvider], Undo]
    spent: bool = False
    """It is measured after it was installed, used and ended."""
    needs: str | None = None
    """A package without which there is no such side."""

    @property
    def available(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


def _nothing(_provider: TracerProvider) -> Undo:
    return lambda: None


def _floor(provider: TracerProvider) -> Undo:
    from benchmarks import floor

    return floor.install(provider.get_tracer("floor"))


def _seams(_provider: TracerProvider) -> Undo:
    from benchmarks import floor

    return floor.install_seams()


def _spans(provider: TracerProvider) -> Undo:
    from benchmarks import floor

    return floor.install_spans(provider.get_tracer("spans"))


def _native(content: bool) -> Callable[[TracerProvider], Undo]:
    def install(provider: TracerProvider) -> Undo:
        from pydantic_ai import Agent
        from pydantic_ai.models.instrumented import InstrumentationSettings

        Agent.instrument_all(InstrumentationSettings(tracer_provider=provider, include_content=content))
        return lambda: Agent.instrument_all(False)

    return install


def _ours(mode: str, *, everything: bool = False, recorded: bool = False) -> Callable[[TracerProvider], Undo]:
    def install(provider: TracerProvider) -> Undo:
        from actionspan import ActionPolicy
        from actionspan.instrumentor import PydanticAIInstrumentor
        from actionspan.recorder import JsonlRecorder

        arguments: dict[str, Any] = {"tracer_provider": provider, "mode": mode}
        if everything:
            arguments["policy"] = ActionPolicy.everything()
        directory = tempfile.TemporaryDirectory() if recorded else None
        recorder = None if directory is None else JsonlRecorder(directory.name)
        if recorder is not None:
            arguments["recorder"] = recorder
        instrumentor = PydanticAIInstrumentor()
        instrumentor.instrument(**arguments)

        def undo() -> None:
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
            if recorder is not None and directory is not None:
                recorder.close()
                directory.cleanup()

        return undo

    return install


def _edri(mode: str) -> Callable[[TracerProvider], Undo]:
    def install(_provider: TracerProvider) -> Undo:
        from benchmarks import edri_audit

        return edri_audit.install(mode)

    return install


SIDES: Final = {
    side.name: side
    for side in (
        Side("none", "no tracing", _nothing),
        Side("control", "no tracing, another process", _nothing),
        Side("floor", "a plain span at every seam", _floor),
        Side("seams", "the hooks we need, no span", _seams),
        Side("spans", "those hooks, spans with as many attributes", _spans),
        Side("metadata", "actionspan, metadata", _ours("metadata")),
        Side("content", "actionspan, all content", _ours("content", everything=True)),
        Side("recorded", "actionspan, metadata and a record", _ours("metadata", recorded=True)),
        Side("native", "native instrumentation, no content", _native(False)),
        Side("native_content", "native instrumentation, content", _native(True)),
        Side("off", "actionspan, mode off", _ours("off")),
        Side("removed", "after uninstrument()", _ours("metadata"), spent=True),
        Side("edri", "EDRI's audit, metadata", _edri("metadata"), needs="edri"),
        Side("edri_content", "EDRI's audit, content", _edri("content"), needs="edri"),
    )
}

"""Tracing one agent by hand, whether or not the process is instrumented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.instrumentor._assembly import assemble, environment_recorder
from actionspan.instrumentor._configuration import Configuration, resolve
from actionspan.instrumentor._recording import Recording
from actionspan.policy import ActionPolicy, AuditMode
from actionspan.recorder import Recorder
from actionspan.settings import InputMessages, TraceMode, read_settings
from actionspan.telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from pydantic_ai.capabilities import AbstractCapability

__all__ = ["capability"]


def capability(
    *,
    policy: ActionPolicy | None = None,
    identity: Mapping[str, str | bool | int | float] | None = None,
    mode: AuditMode | str | None = None,
    trace: TraceMode | None = None,
    input_messages: InputMessages | None = None,
    recorder: Recorder | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: LoggerProvider | None = None,
) -> AbstractCapability[Any]:
    """A Pydantic AI capability that makes every action of the agent it is put on a span.

        agent = Agent("openai:gpt-5", capabilities=[actionspan.capability(policy=...)])

    For one agent rather than all of a process, and for agents of a durable workflow, which take no capability per
    run. Arguments, environment and ceiling are those of `PydanticAIInstrumentor.instrument`, and so are the errors.
    Where the process is instrumented too, its providers and recorders are used, this policy and that one are
    intersected, and the agent is traced once.
    """
    given: dict[str, Any] = {
        "policy": policy,
        "identity": identity,
        "mode": mode,
        "trace": trace,
        "input_messages": input_messages,
        "recorder": recorder,
        "tracer_provider": tracer_provider,
        "meter_provider": meter_provider,
        "logger_provider": logger_provider,
    }
    hand = _Hand(resolve(read_settings(), given), policy, recorder)
    from actionspan.pydantic_ai.capability import ActionCapability

    return ActionCapability(pipeline=hand.pipeline)


class _Hand:
    """The pipeline of one such capability, made when it is first used."""

    def __init__(self, configuration: Configuration, policy: ActionPolicy | None, recorder: Recorder | None) -> None:
        self._configuration = configuration
        self._policy = policy
        self._recorder = recorder
        self._own: Pipeline | None = None
        self._derived: tuple[Pipeline, Pipeline] | None = None

    def pipeline(self) -> Pipeline | None:
        """The process's pipeline narrowed, where there is one; else its own. None when the ceiling is off."""
        if self._configuration.mode is AuditMode.OFF or self._configuration.settings.sdk_disabled:
            return None
        instrumentor = PydanticAIInstrumentor()
        base = instrumentor.pipeline()
        if base is None:
            if self._own is None:
                self._own = self._assemble()
            return self._own
        if self._recorder is not None:
            instrumentor.record_also(self._recorder)
            base = instrumentor.pipeline() or base
        if self._derived is None or self._derived[0] is not base:
            self._derived = base, self._narrowed(base)
        return self._derived[1]

    def _narrowed(self, base: Pipeline) -> Pipeline:
        policy = base.policy
        if self._policy is not None or self._configuration.mode is not AuditMode.CONTENT:
            policy = policy.intersect(self._configuration.policy)
        return replace(base, policy=policy, identity={**base.identity, **self._configuration.identity})

    def _assemble(self) -> Pipeline:
        recording = Recording()
        for recorder in (self._recorder, environment_recorder(self._configuration.settings)):
            if recorder is not None:
                recording.add(recorder)
        return assemble(self._configuration, recording)

"""A manager for EDRI applications that gives the action stream to a bridge."""

# No `from __future__ import annotations`: EDRI reads the annotations of handlers when it starts.
# EDRI has no stubs, and below Python 3.12 it is not there at all:
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUntypedBaseClass=false
# pyright: reportUntypedFunctionDecorator=false, reportUnknownVariableType=false, reportUnknownParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from typing import Any

from edri.abstract import ManagerBase, request
from edri.integrations.pydantic_ai.observability import AgentAction
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from actionspan.bridges.edri._bridge import EdriBridge
from actionspan.recorder import JsonlRecorder, RecorderSpanProcessor
from actionspan.settings import read_settings

__all__ = ["EdriBridgeManager"]


class EdriBridgeManager(ManagerBase):
    """Gives every `AgentAction` of an EDRI application to the bridge that `make_bridge` makes.

    Register it like any component: `edri.add_component(EdriBridgeManager())`. Override `make_bridge` for processors and
    a policy of your own. A bridge that refuses is logged as an error, and the application runs on without it.
    """

    bridge: EdriBridge | None = None

    def make_bridge(self) -> EdriBridge:
        """The bridge, made in the manager's own process when it starts.

        By default it exports over OTLP to where the environment says, and records to `ACTIONSPAN_RECORD`.
        """
        processors: list[SpanProcessor] = [BatchSpanProcessor(OTLPSpanExporter())]
        directory = read_settings().record
        if directory is not None:
            processors.append(RecorderSpanProcessor(JsonlRecorder(directory)))
        return EdriBridge(processors)

    @request
    def observe(self, event: AgentAction) -> None:
        """Take one event."""
        if self.bridge is not None:
            self.bridge.observe(event)

    def after_start(self) -> None:
        """Make the bridge, before the first event is resolved."""
        super().after_start()
        try:
            self.bridge = self.make_bridge()
        except RuntimeError as error:
            self.logger.error("%s", error)

    def run_resolver_cycle(self) -> None:
        """One turn of EDRI's loop, at least every second: time passes for the bridge as well."""
        super().run_resolver_cycle()
        if self.bridge is not None:
            self.bridge.expire()

    def run(self) -> None:
        """The manager's life; what the bridge still holds goes out at its end."""
        try:
            super().run()
        finally:
            if self.bridge is not None:
                self.bridge.shutdown()

    def __getstate__(self) -> dict[str, Any]:
        # Where processes are spawned the manager is sent to its own: without a bridge, which is made there.
        return {key: value for key, value in self.__dict__.items() if key != "bridge"}

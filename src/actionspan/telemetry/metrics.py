"""The instruments, with names, units and boundaries as the GenAI and MCP conventions define them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, NoOpMeter
from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.telemetry.compat import REAL_METER

__all__ = ["Instruments"]

# Doubling from 10 ms, from 100 ms, and by four from one token: the conventions' advice for each.
CLIENT_SECONDS: Final = tuple(0.01 * 2**step for step in range(14))
AGENT_SECONDS: Final = tuple(0.1 * 2**step for step in range(13))
TOKENS: Final = tuple(float(4**step) for step in range(14))
MCP_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Instruments:
    """Every instrument of one meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._none = isinstance(meter, NoOpMeter)

        def seconds(name: str, description: str, boundaries: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=boundaries
            )

        self.durations: dict[str, Histogram] = {
            names.METRIC_OPERATION_DURATION: seconds(
                names.METRIC_OPERATION_DURATION, "Duration of a request to a model.", CLIENT_SECONDS
            ),
            names.METRIC_EXECUTE_TOOL_DURATION: seconds(
                names.METRIC_EXECUTE_TOOL_DURATION, "Duration of a tool execution.", CLIENT_SECONDS
            ),
            names.METRIC_INVOKE_AGENT_DURATION: seconds(
                names.METRIC_INVOKE_AGENT_DURATION, "Duration of an agent run.", AGENT_SECONDS
            ),
            names.METRIC_MCP_DURATION: seconds(
                names.METRIC_MCP_DURATION, "Duration of an MCP request as its client observed it.", MCP_SECONDS
            ),
        }
        self.time_to_first_chunk = seconds(
            names.METRIC_TIME_TO_FIRST_CHUNK, "Time from the request to its first chunk.", CLIENT_SECONDS
        )
        self.time_per_output_chunk = seconds(
            names.METRIC_TIME_PER_OUTPUT_CHUNK, "Time from one chunk to the next.", CLIENT_SECONDS
        )
        self.tokens: Histogram = meter.create_histogram(
            names.METRIC_TOKEN_USAGE,
            unit="{token}",
            description="Tokens used by a request, by type.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self.cost: Counter = meter.create_counter(
            names.METRIC_COST, unit="{USD}", description="Cost of model requests whose price is known."
        )
        self.contained_failures: Counter = meter.create_counter(
            names.METRIC_CONTAINED_FAILURES, unit="{failure}", description="Failures of actionspan itself, by stage."
        )
        self.truncations: Counter = meter.create_counter(
            names.METRIC_TRUNCATIONS, unit="{truncation}", description="Content fields cut to their limits, by field."
        )

    @property
    def wanted(self) -> bool:
        """Whether what is recorded goes anywhere: a meter provider that is set later counts from then on."""
        return not self._none and getattr(self._meter, REAL_METER, self._meter) is not None

    def record_tokens(
        self, usage: Mapping[str, object], attributes: Mapping[str, AttributeValue], context: Context
    ) -> None:
        """Record a request's input and output tokens, where known."""
        for key, token_type in ((names.USAGE_INPUT_TOKENS, "input"), (names.USAGE_OUTPUT_TOKENS, "output")):
            count = usage.get(key)
            if isinstance(count, int):
                self.tokens.record(count, {**attributes, names.TOKEN_TYPE: token_type}, context)

"""Which metrics each kind of action is measured by, and with which dimensions.

A dimension is metadata that somebody declared: nothing a model invented becomes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.metrics import Instruments
from actionspan.telemetry.values import attribute_table
from actionspan.vocabulary import ActionNamespace, ActionOperation

if TYPE_CHECKING:
    from actionspan.telemetry.span import ActionSpan

__all__ = ["measure"]


def measure(instruments: Instruments, action: ActionSpan, ending: Ending, seconds: float) -> None:
    """Record the metrics of a finished action; some have none."""
    if action.namespace == ActionNamespace.MCP:
        _measure_mcp(instruments, action, ending, seconds)
        return
    recorder = _BY_OPERATION.get((action.namespace, action.operation))
    if recorder is not None:
        recorder(instruments, action, ending, seconds)


def _dimensions(action: ActionSpan, ending: Ending, *keys: str) -> dict[str, AttributeValue]:
    attributes = action.attributes
    dimensions: dict[str, AttributeValue] = {key: attributes[key] for key in keys if key in attributes}
    dimensions[names.OUTCOME] = ending.outcome.value
    if ending.failed:
        dimensions.update(attribute_table({names.ERROR_TYPE: ending.error_type}))
    return dimensions


def _measure_agent(instruments: Instruments, action: ActionSpan, ending: Ending, seconds: float) -> None:
    dimensions = _dimensions(action, ending, names.AGENT_NAME, names.OPERATION_NAME, names.PROVIDER_NAME)
    instruments.durations[names.METRIC_INVOKE_AGENT_DURATION].record(seconds, dimensions, action.span_in_context)


def _measure_tool(instruments: Instruments, action: ActionSpan, ending: Ending, seconds: float) -> None:
    if action.observed(names.TOOL_EXECUTED) is True:
        dimensions = _dimensions(action, ending, names.TOOL_NAME, names.TOOL_TYPE, names.AGENT_NAME)
        instruments.durations[names.METRIC_EXECUTE_TOOL_DURATION].record(seconds, dimensions, action.span_in_context)


_MODEL_DIMENSIONS: Final = (
    names.OPERATION_NAME,
    names.PROVIDER_NAME,
    names.REQUEST_MODEL,
    names.RESPONSE_MODEL,
    names.SERVER_ADDRESS,
    names.SERVER_PORT,
)


def _measure_model(instruments: Instruments, action: ActionSpan, ending: Ending, seconds: float) -> None:
    dimensions = _dimensions(action, ending, *_MODEL_DIMENSIONS)
    if ending.reason != "skipped":
        instruments.durations[names.METRIC_OPERATION_DURATION].record(seconds, dimensions, action.span_in_context)
    plain = _dimensions(action, Ending.success(), *_MODEL_DIMENSIONS)
    plain[names.OUTCOME] = ending.outcome.value
    usage: dict[str, Any] = {key: action.observed(key) for key in (names.USAGE_INPUT_TOKENS, names.USAGE_OUTPUT_TOKENS)}
    instruments.record_tokens(usage, plain, action.span_in_context)
    first = action.observed(names.RESPONSE_TIME_TO_FIRST_CHUNK)
    if isinstance(first, float):
        instruments.time_to_first_chunk.record(first, plain, action.span_in_context)
    for gap in action.chunk_gaps:
        instruments.time_per_output_chunk.record(gap, plain, action.span_in_context)
    cost = action.observed(names.COST_USD)
    if isinstance(cost, float):
        instruments.cost.add(cost, plain, action.span_in_context)


def _measure_mcp(instruments: Instruments, action: ActionSpan, ending: Ending, seconds: float) -> None:
    dimensions = _dimensions(
        action,
        ending,
        names.MCP_METHOD_NAME,
        names.MCP_PROTOCOL_VERSION,
        names.TOOL_NAME,
        names.PROMPT_NAME,
        names.OPERATION_NAME,
        names.NETWORK_TRANSPORT,
        names.SERVER_ADDRESS,
        names.SERVER_PORT,
    )
    instruments.durations[names.METRIC_MCP_DURATION].record(seconds, dimensions, action.span_in_context)


_Recorder = Callable[[Instruments, "ActionSpan", Ending, float], None]
_BY_OPERATION: Final[dict[tuple[str, str], _Recorder]] = {
    (ActionNamespace.AGENT, ActionOperation.RUN): _measure_agent,
    (ActionNamespace.TOOL, ActionOperation.EXECUTE): _measure_tool,
    (ActionNamespace.MODEL, ActionOperation.REQUEST): _measure_model,
    (ActionNamespace.MODEL, ActionOperation.EMBED): _measure_model,
}

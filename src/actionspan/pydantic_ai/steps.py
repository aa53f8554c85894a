"""The steps of a run that handle tool calls, read for what no tool hook sees."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai import CallToolsNode, ModelRequestNode
from pydantic_ai.messages import ModelMessage
from pydantic_ai.result import FinalResult
from pydantic_ai.tools import RunContext
from pydantic_graph import End

from actionspan.pydantic_ai.run import RunTracker
from actionspan.pydantic_ai.tools import answers_of

__all__ = ["close_step", "expect_step", "handles_calls"]


def handles_calls(node: Any) -> bool:
    """Whether the step is one that handles what a model answered."""
    return isinstance(node, CallToolsNode)


def expect_step(tracker: RunTracker, ctx: RunContext[Any], node: Any) -> None:
    """Note the calls that a step is about to handle."""
    tracker.seen(ctx)
    if isinstance(node, CallToolsNode):
        tracker.ledger.expect(node.model_response.tool_calls, node.tool_call_results)


def close_step(tracker: RunTracker, ctx: RunContext[Any], node: CallToolsNode[Any, Any], result: Any) -> None:
    """Show the calls that a step answered without executing them."""
    if not node.model_response.tool_calls:
        return
    tracker.context = ctx
    ended = isinstance(result, End)
    output = cast("End[FinalResult[object]]", result).data.output if ended else None
    tracker.close_calls(
        parts=answers_of(_answering(ctx, result)),
        output=output,
        ended=ended,
    )


def _answering(ctx: RunContext[Any], result: Any) -> list[ModelMessage]:
    """The request that answers the step's calls: the next node's, or the new tail of the history."""
    if isinstance(result, ModelRequestNode):
        return [result.request]
    return list(ctx.messages[-1:])

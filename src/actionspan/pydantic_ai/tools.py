"""The ledger of a run's tool calls: each one the model made ends in exactly one terminal action, hook or no hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import DeferredToolRequests, ToolApproved, ToolDefinition, ToolDenied

from actionspan.telemetry.endings import Ending
from actionspan.vocabulary import ActionOutcome

__all__ = ["CallRecord", "Closing", "ToolLedger", "unanswered_calls"]


@dataclass(slots=True, eq=False)
class CallRecord:
    """What is known of one tool call."""

    call: ToolCallPart
    attempts: int = 0
    """Executions shown so far."""
    validations: int = 0
    last: Ending | None = None
    """How its latest terminal action ended; None while it has none."""
    supplied: object = None
    """What the run was resumed with for it: a result, an approval, a denial, or "skip" where it was answered before."""

    @property
    def settled(self) -> bool:
        """Whether it has a terminal action that nothing can follow in this run."""
        return self.last is not None and self.last.outcome is not ActionOutcome.DEFERRED


@dataclass(frozen=True, slots=True)
class Closing:
    """The terminal action of a call that no hook saw."""

    record: CallRecord
    tool: ToolDefinition | None
    ending: Ending
    content: object = None
    """The result that came from elsewhere, or the text of a denial."""


class ToolLedger:
    """The tool calls of one run, matched by identity first and by id then: ids repeat."""

    def __init__(self) -> None:
        self._records: list[CallRecord] = []
        self._by_address: dict[int, CallRecord] = {}
        """The same; a record keeps its call alive, so that no other call has its address."""
        self._open_from = 0

    def expect(self, calls: Iterable[ToolCallPart], results: Mapping[str, Any] | None = None) -> None:
        """Calls that the run is about to handle, and the results by call id that it was resumed with for them.

        The results are these calls' own: the ids may come again in what the model says next.
        """
        for call in calls:
            record = self._by_address.get(id(call)) or self._add(call)
            if results is not None:
                record.supplied = results.get(call.tool_call_id)

    def leave_out(self, response: ModelResponse, unanswered: Sequence[ToolCallPart]) -> None:
        """Of the response that a run goes on from, the calls answered before it began: an earlier run has told them."""
        still = {call.tool_call_id for call in unanswered}
        answered = [call for call in response.tool_calls if call.tool_call_id not in still]
        self.expect(answered, {call.tool_call_id: "skip" for call in answered})

    def _add(self, call: ToolCallPart) -> CallRecord:
        record = self._by_address[id(call)] = CallRecord(call)
        self._records.append(record)
        return record

    def record_of(self, call: ToolCallPart, history: Sequence[ModelMessage]) -> CallRecord:
        """The record of `call`, which a capability or an approval may have copied.

        A step that is streamed handles its calls before it is announced: then they are those of the latest response.
        """
        if id(call) not in self._by_address:
            self.expect(_latest_calls(history))
        record = self._by_address.get(id(call))
        if record is None:
            alike = (one for one in reversed(self._records) if one.call.tool_call_id == call.tool_call_id)
            record = next(alike, None) or self._add(call)
        return record

    def adopt(self, responses: Iterable[ModelResponse]) -> None:
        """Calls of responses that no node was seen to handle, counted by id where they were copied."""
        counts: dict[str, int] = {}
        for record in self._records:
            counts[record.call.tool_call_id] = counts.get(record.call.tool_call_id, 0) + 1
        for response in responses:
            for call in response.tool_calls:
                remaining = counts.get(call.tool_call_id, 0)
                if remaining:
                    counts[call.tool_call_id] = remaining - 1
                elif id(call) not in self._by_address:
                    self._add(call)

    def all_settled(self) -> bool:
        """Whether no call is left that something may still happen to."""
        if all(record.settled for record in self._records[self._open_from :]):
            self._open_from = len(self._records)
        return self._open_from == len(self._records)

    def closings(
        self,
        *,
        tool_of: Callable[[str], ToolDefinition | None] | None,
        parts: Mapping[str, ToolReturnPart],
        output: object,
        ended: bool,
    ) -> list[Closing]:
        """The terminal actions still missing.

        `tool_of` finds a declared tool by name, and is None where the tools of the step are not known: then no call is
        said to be of an unknown tool. `parts` are the answers by call id, `output` the run's output where it has ended
        with one, `ended` whether nothing further can happen to a call.
        """
        found: list[Closing] = []
        for record in self._records[self._open_from :]:
            if record.settled:
                continue
            tool = None if tool_of is None else tool_of(record.call.tool_name)
            if tool is not None and tool.kind == "output":
                record.last = Ending.success()  # it counts through output.*
                continue
            unknown = tool is None and tool_of is not None
            closing = _closing(record, tool, unknown, parts.get(record.call.tool_call_id), output, ended)
            if closing is not None:
                record.last = closing.ending
                found.append(closing)
        return found


def _closing(
    record: CallRecord,
    tool: ToolDefinition | None,
    unknown: bool,
    part: ToolReturnPart | None,
    output: object,
    ended: bool,
) -> Closing | None:
    supplied = record.supplied
    if supplied == "skip":
        record.last = Ending.success()  # it was handled, and shown, by the run that made it
        return None
    if isinstance(supplied, ToolDenied):
        return Closing(record, tool, Ending.cancelled("denied"), supplied.message)
    if unknown:
        return Closing(record, None, Ending.failure(reason="unknown_tool"))
    if part is not None:
        return _answered(record, tool, part, output)
    if isinstance(output, DeferredToolRequests) and record.last is None:
        deferral = _deferral(record.call, output)
        if deferral is not None:
            return Closing(record, tool, Ending.deferred(deferral))
    if ended and record.last is None:
        return Closing(record, tool, Ending.cancelled("not_executed"))
    return None


def _answered(record: CallRecord, tool: ToolDefinition | None, part: ToolReturnPart, output: object) -> Closing | None:
    """A call with an answer that no execution of ours gave."""
    supplied = record.supplied
    if part.outcome == "denied":
        return Closing(record, tool, Ending.cancelled("denied"), part.content)
    if part.outcome == "failed":
        return Closing(record, tool, Ending.failure(_error(supplied), "tool_failed"), part.content)
    if part.outcome == "retried":
        return Closing(record, tool, Ending.failure(_error(supplied), "retry"), part.content)
    if part.outcome == "interrupted":
        return Closing(record, tool, Ending.cancelled("not_executed"))
    if supplied is not None and not isinstance(supplied, ToolApproved):
        return Closing(record, tool, Ending.success("external_result"), part.content)
    if output is None or isinstance(output, DeferredToolRequests):
        # The run goes on, or waits for others: this answer came from a handler of deferred calls.
        return Closing(record, tool, Ending.success("external_result"), part.content)
    # The run has its output, so this is the stub of a call that was not needed any more.
    return Closing(record, tool, Ending.cancelled("not_executed"))


def _error(supplied: object) -> BaseException | None:
    return supplied if isinstance(supplied, (ModelRetry, ToolFailed)) else None


def _deferral(call: ToolCallPart, requests: DeferredToolRequests) -> str | None:
    for reason, calls in (("approval_required", requests.approvals), ("external", requests.calls)):
        if any(deferred is call or deferred.tool_call_id == call.tool_call_id for deferred in calls):
            return reason
    return None


def _latest_calls(history: Sequence[ModelMessage]) -> Iterable[ToolCallPart]:
    return next((message.tool_calls for message in reversed(history) if isinstance(message, ModelResponse)), ())


def unanswered_calls(history: Sequence[ModelMessage]) -> tuple[ModelResponse, list[ToolCallPart]] | None:
    """The last response of `history` with its calls that nothing after it answers; None when there are none."""
    answered: set[str] = set()
    for message in reversed(history):
        if isinstance(message, ModelResponse):
            calls = [call for call in message.tool_calls if call.tool_call_id not in answered]
            return (message, calls) if calls else None
        answered.update(_answers(message))
    return None


def _answers(request: ModelRequest) -> Iterable[str]:
    return (part.tool_call_id for part in request.parts if isinstance(part, ToolReturnPart))


def answers_of(messages: Iterable[ModelMessage]) -> dict[str, ToolReturnPart]:
    """The latest answer to each call id in `messages`."""
    return {
        part.tool_call_id: part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }

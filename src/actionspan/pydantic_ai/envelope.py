"""The agent output envelope as a Pydantic AI capability, and what its run's action says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry, UserError
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext

from actionspan import guard
from actionspan.envelope import ENVELOPE_CONTRACT, EnvelopeResult, is_error_envelope, parse_envelope
from actionspan.pydantic_ai.run import RunTracker, current_tracker
from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.span import ActionSpan

__all__ = ["EnvelopeOutput"]

ENVELOPE_ERROR: Final = "envelope_error"
"""`error.type` of a run whose envelope has status error."""


@dataclass
class EnvelopeOutput(AbstractCapability[AgentDepsT]):
    """Makes an agent with text output answer with an envelope: `result.output` is the dict.

    It adds the contract to the instructions, parses the output after the agent's own output functions and validators,
    and asks the model for a retry with the validator's message when the answer is an invalid envelope or empty. While
    a stream is under way its partial outputs stay text. Raises `UserError` in a run whose output is not text.
    """

    id: str | None = field(default="actionspan_envelope", kw_only=True)
    _latest: EnvelopeResult | None = field(default=None, init=False, repr=False, compare=False)
    """What the latest complete output of this run was."""

    def get_instructions(self) -> str:
        """The contract."""
        return ENVELOPE_CONTRACT

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """A copy: runs of one agent may overlap."""
        return replace(self)

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: Callable[[], Any]) -> AgentRunResult[Any]:
        """Say on the run's action what envelope it ended with."""
        returned = False
        try:
            result = await handler()
            returned = True
            return result
        finally:
            self._report(ctx, returned=returned)

    async def after_output_process(
        self, ctx: RunContext[AgentDepsT], *, output_context: OutputContext, output: Any
    ) -> Any:
        """The envelope in place of the text."""
        if ctx.partial_output:
            return output
        if output is not None and not isinstance(output, str):
            raise UserError(
                f"EnvelopeOutput() reads text, and the output of this run is a {type(output).__name__}: "
                "leave the agent's output_type at str"
            )
        self._latest = parsed = parse_envelope(output)
        if parsed.feedback is not None:
            raise ModelRetry(parsed.feedback)
        return parsed.envelope

    def _report(self, ctx: RunContext[AgentDepsT], *, returned: bool) -> None:
        latest, tracker = self._latest, current_tracker.get()
        # A run that is not traced, inside one that is, finds that one's.
        if latest is not None and tracker is not None and tracker.facts.run_id == ctx.run_id:
            guard.call("envelope", lambda: _describe(tracker, latest, returned))


def _describe(tracker: RunTracker, latest: EnvelopeResult, returned: bool) -> None:
    """Put the envelope's metadata on the run's action, and the text of its error where that is admitted."""
    action = tracker.action
    if action is None:
        return
    envelope = latest.envelope
    if envelope is None:
        _add_text(action, names.ENVELOPE_ERROR_MESSAGE, latest.feedback or "")
    elif returned:
        iteration = envelope.get("iteration")
        action.set(
            {
                names.ENVELOPE_STATUS: envelope["status"],
                names.ENVELOPE_ITERATION_COUNT: None if iteration is None else len(iteration),
                names.ENVELOPE_RECOVERED: latest.recovered,
            }
        )
        if is_error_envelope(envelope):
            _add_text(action, names.ENVELOPE_ERROR_CODE, envelope["error"]["code"])
            _add_text(action, names.ENVELOPE_ERROR_MESSAGE, envelope["error"]["message"])
            tracker.verdict = Ending.failure(reason=ENVELOPE_ERROR)


def _add_text(action: ActionSpan, name: str, text: str) -> None:
    action.add_content("include_model_responses", name, lambda content: content.text(name, text))

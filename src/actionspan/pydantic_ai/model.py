"""The model of a run, wrapped so that every request to it is one action."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from actionspan import guard
from actionspan.pydantic_ai.around import around
from actionspan.pydantic_ai.chunks import ChunkClock
from actionspan.pydantic_ai.compat import is_library_wrapper, supports_streaming
from actionspan.pydantic_ai.declared_secrets import secrets_of
from actionspan.pydantic_ai.messages import MessageView, definitions, instructions, message_of_response
from actionspan.pydantic_ai.outcomes import ending_of_error, interrupted
from actionspan.pydantic_ai.usage import cost_of, usage_of
from actionspan.telemetry import names
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.operations import Requested, request_settings, start_model_request
from actionspan.telemetry.span import ActionSpan
from actionspan.telemetry.values import server_of

if TYPE_CHECKING:
    from actionspan.pydantic_ai.run import RunTracker

__all__ = ["observe"]


def observe(model: Model, tracker: RunTracker, attempt: int = 1, *, direct: bool = False) -> Model:
    """`model`, with every request to it, or to each model it falls back to, an action of the run.

    `attempt` is the number of its first. A `direct` request is made by the application's own code, beside the run's
    steps.
    """
    return _observed(model, tracker, count(attempt), direct)


def _observed(model: Model, tracker: RunTracker, places: Iterator[int], direct: bool) -> Model:
    """The same, with each model that may be asked at the next of `places`, also where one chain is part of another."""
    inner = _with_observed_models(model, tracker, places, direct)
    if inner is not None:
        return _wrapper_for(model)(model, inner, None)
    return _wrapper_for(model)(model, model, Observer(tracker, next(places), direct))


def _with_observed_models(model: Model, tracker: RunTracker, places: Iterator[int], direct: bool) -> Model | None:
    """A copy of `model` whose inner models are observed, when it is a wrapper that may be copied and holds a choice."""
    if not is_library_wrapper(model):
        return None
    if isinstance(model, FallbackModel):
        chain = copy.copy(model)
        chain.models = [_observed(candidate, tracker, places, direct) for candidate in model.models]
        return chain
    assert isinstance(model, WrapperModel)
    inner = _with_observed_models(model.wrapped, tracker, places, direct)
    if inner is None:
        return None
    wrapper = copy.copy(model)
    wrapper.wrapped = inner
    return wrapper


class ObservedModel(WrapperModel):
    """Delegates everything; requests go to `target`, which is the wrapped model or a copy of it, and are actions."""

    def __init__(self, wrapped: Model, target: Model, observer: Observer | None) -> None:
        super().__init__(wrapped)
        self._target = target
        self._observer = observer

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send one request, as an action."""
        work = self._target.request(messages, model_settings, model_request_parameters)
        action, observer = self._start(messages, model_settings, model_request_parameters, stream=False)
        if action is None or observer is None:
            return await work
        return await around(
            action,
            work,
            lambda error: observer.failed(action, error),
            lambda response: observer.answered(action, response),
        )

    def _start(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        *,
        stream: bool,
    ) -> tuple[ActionSpan | None, Observer | None]:
        observer = self._observer
        if observer is None:
            return None, None
        return guard.call(
            "model.start", lambda: observer.start(self.wrapped, messages, settings, parameters, stream=stream)
        ), observer


class ObservedStreamingModel(ObservedModel):
    """The same for a model that streams; one that does not must not seem to, or the library's own error is lost."""

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open one stream, as an action that ends with it."""
        stream_of_target = self._target.request_stream(messages, model_settings, model_request_parameters, run_context)
        action, observer = self._start(messages, model_settings, model_request_parameters, stream=True)
        if action is None or observer is None:
            async with stream_of_target as stream:
                yield stream
            return
        started = time.perf_counter()
        stream = await _enter(stream_of_target, action, observer)
        guard.call("model.chunks", lambda: observer.time_chunks(action, stream))
        try:
            yield stream
        except BaseException as error:
            observer.stream_stopped(action, stream, started, error)
            if not await stream_of_target.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            observer.stream_left(action, stream, started)
            await stream_of_target.__aexit__(None, None, None)


class ObservedPlainModel(ObservedModel):
    """The same for a model that does not stream."""


# The library asks whether a model's class has the method of the base class. It also wraps what a class body defines,
# and what it has wrapped is not that method any more.
ObservedPlainModel.request_stream = Model.request_stream


@functools.cache
def _plain_class(name: str) -> type[ObservedPlainModel]:
    """The class under the model's own name, which the library puts into the error it raises."""
    return type(name, (ObservedPlainModel,), {})


def _wrapper_for(model: Model) -> type[ObservedModel]:
    return ObservedStreamingModel if supports_streaming(model) else _plain_class(type(model).__name__)


async def _enter(
    manager: AbstractAsyncContextManager[StreamedResponse], action: ActionSpan, observer: Observer
) -> StreamedResponse:
    """Open the stream with the action current, and only that long: its reader is somebody else's code."""
    return await around(action, manager.__aenter__(), lambda error: observer.failed(action, error), lambda _: None)


class Observer:
    """Makes the actions of one model in one run."""

    def __init__(self, tracker: RunTracker, place: int, direct: bool) -> None:
        self._tracker = tracker
        self._place = place
        self._direct = direct
        self._parameters: ModelRequestParameters | None = None
        """What the request under way offers the model."""

    def start(
        self,
        model: Model,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        *,
        stream: bool,
    ) -> ActionSpan:
        """Start the action of one request."""
        self._parameters = parameters
        tracker = self._tracker
        action = start_model_request(
            tracker.pipeline,
            tracker.facts,
            tracker.action,
            Requested(
                guard.call("model.system", lambda: model.system),
                guard.call("model.name", lambda: model.model_name),
                guard.call("model.server", lambda: server_of(model.base_url), (None, None)),
                stream,
                request_settings(cast("dict[str, object]", settings)) if settings else {},
                parameters.output_mode,
            ),
            step=tracker.step,
            attempt=self._place if self._direct else tracker.attempt_at(self._place),
        )
        self._add_request(action, messages, parameters)
        return action

    def _add_request(
        self,
        action: ActionSpan,
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
    ) -> None:
        if not (action.policy.include_model_requests and action.wanted):
            return
        offset = 0 if self._direct else self._tracker.next_offset(messages)
        view = MessageView(messages[offset:], secrets_of(parameters))
        older = len(MessageView(messages[:offset])) if offset else 0
        category = "include_model_requests"
        action.add_content(
            category,
            names.INPUT_MESSAGES,
            lambda content: content.messages(names.INPUT_MESSAGES, view, older=older),
        )
        if offset:
            action.set({names.INPUT_MESSAGES_OFFSET: older})
        parts = guard.call("content", lambda: instructions(messages, parameters))
        if parts:
            action.add_content(
                category,
                names.SYSTEM_INSTRUCTIONS,
                lambda content: content.parts(names.SYSTEM_INSTRUCTIONS, parts),
            )
        tools = definitions(parameters)
        if tools:
            action.add_content(
                category,
                names.TOOL_DEFINITIONS,
                lambda content: content.definitions(names.TOOL_DEFINITIONS, tools),
            )

    def answered(self, action: ActionSpan, response: ModelResponse) -> None:
        """The model answered."""
        self._describe(action, response)
        action.finish(Ending.success())

    def _describe(self, action: ActionSpan, response: ModelResponse) -> None:
        usage = usage_of(response.usage)
        self._tracker.totals.add(usage)
        reasons: Sequence[str] | None = None if response.finish_reason is None else [response.finish_reason]
        action.set(
            {
                names.RESPONSE_ID: response.provider_response_id,
                names.RESPONSE_MODEL: response.model_name,
                names.RESPONSE_FINISH_REASONS: reasons,
                names.MODEL_VERSION: response.model_name,
                **usage.of_request(),
                names.COST_USD: guard.call("model.cost", lambda: cost_of(response)),
            }
        )
        if not self._direct:
            self._tracker.answered_by(response)
        if response.parts:
            action.add_content(
                "include_model_responses",
                names.OUTPUT_MESSAGES,
                lambda content: content.messages(
                    names.OUTPUT_MESSAGES,
                    [message_of_response(response, secrets_of(self._parameters))],
                    response=True,
                ),
            )

    def failed(self, action: ActionSpan, error: BaseException) -> None:
        """The request raised: nothing is known of an answer."""
        self._tracker.totals.requests += 1
        if interrupted(error):
            action.interrupt(error)
        else:
            action.finish(ending_of_error(error))

    def time_chunks(self, action: ActionSpan, stream: StreamedResponse) -> None:
        """Measure the time from chunk to chunk; the response must not have been read from."""
        clock = ChunkClock()
        clock.watch(stream)
        action.chunk_gaps = clock.gaps

    def stream_left(self, action: ActionSpan, stream: StreamedResponse, started: float) -> None:
        """The stream was left without an exception: it is complete, or its reader had enough."""
        guard.call("model.end", lambda: self._stream_over(action, stream, started, None))

    def stream_stopped(
        self, action: ActionSpan, stream: StreamedResponse, started: float, error: BaseException
    ) -> None:
        """An exception arrived while the stream was read."""
        guard.call("model.end", lambda: self._stream_over(action, stream, started, error))

    def _stream_over(
        self, action: ActionSpan, stream: StreamedResponse, started: float, error: BaseException | None
    ) -> None:
        response = guard.call("model.response", stream.get)
        complete = response is not None and response.state in ("complete", "suspended")
        first = guard.call("model.first_chunk", lambda: stream.time_to_first_chunk(started))
        action.set({names.RESPONSE_TIME_TO_FIRST_CHUNK: first, names.INCOMPLETE: True if not complete else None})
        if response is not None:
            self._describe(action, response)
        if error is not None and not interrupted(error):
            action.finish(ending_of_error(error))
        elif complete:
            action.finish(Ending.success())
        else:
            action.interrupt(GeneratorExit() if error is None else error)

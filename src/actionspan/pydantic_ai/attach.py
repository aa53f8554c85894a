"""Attaching to the library: one patch of `Agent.iter` covers every way of running an agent."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary, ref

import wrapt
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from pydantic_ai import direct
from pydantic_ai.agent import AbstractAgent, Agent, AgentRunEvents
from pydantic_ai.embeddings import Embedder
from pydantic_ai.run import AgentRun

from actionspan import guard
from actionspan.pydantic_ai import mcp
from actionspan.pydantic_ai.capability import ActionCapability, SessionCapability
from actionspan.pydantic_ai.compat import PREPARE_MODEL
from actionspan.pydantic_ai.control import ControlCapability
from actionspan.pydantic_ai.direct import prepare_model
from actionspan.pydantic_ai.embeddings import embed
from actionspan.pydantic_ai.run import Releasable, RunTracker, ending_of_run
from actionspan.pydantic_ai.wrapping import ActionWrapper, has_ours
from actionspan.telemetry.endings import Ending
from actionspan.telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from actionspan.control import RunControl

__all__ = ["install", "remove"]

PipelineSource = Callable[[], Pipeline | None]
ControlSource = Callable[[], Sequence["RunControl"]]

_pipeline: PipelineSource = lambda: None  # noqa: E731 # replaced by `install`; a def would need a second name
_controls: ControlSource = lambda: ()  # noqa: E731


def install(
    pipeline: PipelineSource,
    mcp_sdk_spans: Literal["keep", "drop"] = "keep",
    controls: ControlSource = lambda: (),
) -> None:
    """Patch the library, once; runs ask `pipeline` what to be traced with, and are left alone when it says None.

    They are put under those of `controls` that nobody put on the agent by hand.
    """
    global _pipeline, _controls
    _pipeline = pipeline
    _controls = controls
    for owner, name, wrapper in _PATCHES:
        if not has_ours(owner.__dict__[name]):
            wrapt.wrap_object(owner, name, ActionWrapper, (wrapper,))
    mcp.install(mcp_sdk_spans)


def remove() -> None:
    """Give back the very functions that were patched. Runs under way finish their spans."""
    global _pipeline, _controls
    _pipeline = lambda: None  # noqa: E731
    _controls = lambda: ()  # noqa: E731
    for owner, name, _ in _PATCHES:
        ours = owner.__dict__[name]
        # Beneath somebody else's wrapper it stays, and does nothing any more.
        if isinstance(ours, ActionWrapper):
            setattr(owner, name, ours.__wrapped__)
    mcp.remove()


def _iter(wrapped: Callable[..., Any], instance: Agent[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Agent.iter`, with a tracker for this run."""
    tracker = guard.call("run.enter", lambda: _tracker_for(instance, kwargs))
    controls: Sequence[ControlCapability] = guard.call("run.control", lambda: _controls_for(instance, kwargs), ())
    if tracker is None and not controls:
        return wrapped(*args, **kwargs)
    capabilities: list[Any] = [*(kwargs.get("capabilities") or ()), *controls]
    if tracker is not None:
        capabilities.append(ActionCapability(tracker))
    return _tracked(wrapped, args, {**kwargs, "capabilities": capabilities}, tracker, controls)


def _controls_for(agent: Agent[Any, Any], kwargs: Mapping[str, Any]) -> list[ControlCapability]:
    """The capabilities of the controls that this run is not under anyhow."""
    controls = _controls()
    if not controls:
        return []
    found = [*_capabilities_of(agent), *(kwargs.get("capabilities") or ())]
    there = [capability.control for capability in found if isinstance(capability, ControlCapability)]
    return [ControlCapability(control, per_run=True) for control in controls if control not in there]


def _tracker_for(agent: Agent[Any, Any], kwargs: Mapping[str, Any]) -> RunTracker | None:
    pipeline = _pipeline()
    if pipeline is None or not is_instrumentation_enabled() or _has_one(agent, kwargs.get("capabilities") or ()):
        return None
    description = agent.description
    tracker = RunTracker(pipeline, agent.name, description if isinstance(description, str) else None)
    consumer = _consumer.get()
    if consumer is not None:
        _consumer.set(None)  # a run inside this one has a consumer of its own, or none
        consumer.tracker = ref(tracker)
    return tracker


def _has_one(agent: Agent[Any, Any], extra: Any) -> bool:
    """Whether somebody put our capability on the agent or this run by hand: one is enough."""
    return any(isinstance(capability, SessionCapability) for capability in (*_capabilities_of(agent), *extra))


def _capabilities_of(agent: Agent[Any, Any]) -> list[Any]:
    """Every capability that was put on the agent."""
    found: list[Any] = []
    agent.root_capability.apply(found.append)
    return found


@asynccontextmanager
async def _tracked(
    wrapped: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tracker: RunTracker | None,
    controls: Sequence[ControlCapability],
) -> AsyncGenerator[AgentRun[Any, Any]]:
    """Enter the run, hand it to the caller, and see both the exception that arrives and the one that leaves.

    A generator rather than a class: a context manager that is dropped half-way is finalised all the same.
    """
    arrived: BaseException | None = None
    run: AgentRun[Any, Any] | None = None
    if tracker is not None:
        tracker.to_release = []
    try:
        async with wrapped(*args, **kwargs) as entered:
            run = entered
            if tracker is not None:
                tracker.live = entered
            try:
                yield entered
            except BaseException as error:
                arrived = error
                raise
    except BaseException as error:
        _release(controls, tracker, error)
        _left(tracker, run, arrived, error)
        raise
    else:
        _release(controls, tracker, None)
        _left(tracker, run, arrived, None)
    finally:
        del arrived, run  # an exception's frames must not hold the exception


def _release(controls: Sequence[ControlCapability], tracker: RunTracker | None, error: BaseException | None) -> None:
    known: list[Releasable] = [] if tracker is None else tracker.to_release or []
    for each in (*controls, *known):
        each.release(tracker, error)


def _left(
    tracker: RunTracker | None,
    run: AgentRun[Any, Any] | None,
    arrived: BaseException | None,
    left: BaseException | None,
) -> None:
    if tracker is not None:
        guard.call("run.end", lambda: _close(tracker, run, arrived, left))


def _close(
    tracker: RunTracker, run: AgentRun[Any, Any] | None, arrived: BaseException | None, left: BaseException | None
) -> None:
    if tracker.aside:
        return
    result = None if run is None else run.result
    output = None if result is None else result.output
    messages = () if run is None else run.all_messages()
    ending = ending_of_run(arrived, left, output, has_result=result is not None, abandoned=tracker.abandoned)
    if ending.reason == "task_cancelled" and tracker.process_exit:
        ending = Ending.cancelled("process_exit")
    if ending.reason == "task_cancelled" and left is not None:
        tracker.hand_on(left, messages=messages)
    else:
        tracker.close(ending, messages=messages, output=output)
    tracker.live = None


class _Consumer:
    """Who reads a run's events; leaves early, perhaps."""

    tracker: ref[RunTracker] | None = None
    """Of the run, which lives as long as it runs: what failed in it leads back to what it is looked up by here."""


_consumer: ContextVar[_Consumer | None] = ContextVar("actionspan_consumer", default=None)
_consumers: Final[WeakKeyDictionary[AgentRunEvents[Any], _Consumer]] = WeakKeyDictionary()


async def _anext(
    wrapped: Callable[..., Any], instance: AgentRunEvents[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The first pull starts the run in a task of its own, which copies the context this sets."""
    if instance in _consumers:
        return await wrapped(*args, **kwargs)
    consumer = _consumers[instance] = _Consumer()
    token = _consumer.set(consumer)
    try:
        return await wrapped(*args, **kwargs)
    finally:
        guard.call("context", lambda: _consumer.reset(token))


async def _aclose(
    wrapped: Callable[..., Any], instance: AgentRunEvents[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A consumer that goes early cancels the run, which then looks like any cancelled task."""
    consumer = _consumers.get(instance)
    tracker = None if consumer is None or consumer.tracker is None else consumer.tracker()
    if tracker is not None:
        # Closed because the consumer itself was cancelled: then the run was, too.
        tracker.abandoned = not isinstance(sys.exception(), CancelledError)
    return await wrapped(*args, **kwargs)


def _realtime(
    wrapped: Callable[..., Any], instance: AbstractAgent[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`Agent.realtime`, whose sessions each make a tracker of their own: one accessor serves many."""
    if _pipeline() is None or not is_instrumentation_enabled():
        return wrapped(*args, **kwargs)
    capabilities = [*(kwargs.get("capabilities") or ()), SessionCapability(pipeline=_pipeline)]
    return wrapped(*args, **{**kwargs, "capabilities": capabilities})


_PATCHES: Final[tuple[tuple[Any, str, Callable[..., Any]], ...]] = (
    (Agent, "iter", _iter),
    (AgentRunEvents, "__anext__", _anext),
    (AgentRunEvents, "aclose", _aclose),
    (AbstractAgent, "realtime", _realtime),
    (Embedder, "embed", embed),
    (direct, PREPARE_MODEL, prepare_model),
)
"""What is wrapped: the owner, the name in it, and the wrapper."""

"""What every test gets: our own failures raised, no real model, no environment, and a context left as it was."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from opentelemetry import context
from pydantic_ai import models

from actionspan import guard
from actionspan.instrumentor import PydanticAIInstrumentor
from actionspan.telemetry.current import current_action

settings.register_profile("thorough", max_examples=2_000)
models.ALLOW_MODEL_REQUESTS = False


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of ours or OpenTelemetry's, nothing instrumented before or after, no context left attached."""
    for name in list(os.environ):
        if name.startswith(("ACTIONSPAN_", "OTEL_")):
            monkeypatch.delenv(name)
    before = context.get_current()
    yield
    assert context.get_current() == before, "a context was left attached"
    assert current_action() is None
    instrumentor = PydanticAIInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    guard._state.logged.clear()


@pytest.fixture(autouse=True)
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def strict(request: pytest.FixtureRequest) -> Iterator[None]:
    """Failures of ours are raised, unless the test is about containing them."""
    if "contained" in request.keywords:
        yield
        return
    with guard.strict():
        yield


@pytest.fixture(autouse=True)
def event_loop_of_sync_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """`run_sync` makes the thread an event loop and leaves it: give it one, and close that."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        yield
        return
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()

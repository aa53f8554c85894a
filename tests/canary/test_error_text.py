"""The text of what went wrong: there where it is admitted, whatever else the action carries."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from actionspan import ActionPolicy
from actionspan.testing import capture
from scripted import calls, script


def failing_tool(error: BaseException) -> Agent:
    agent = Agent(script(calls(("f", {}, "c1"))), name="a")

    @agent.tool_plain
    def f() -> str:
        raise error

    return agent


@pytest.mark.parametrize("policy", [ActionPolicy.everything(), ActionPolicy.of(["model_requests", "error_messages"])])
@pytest.mark.parametrize("size", [10, 300, 3000])
def test_after_a_history_that_fills_the_budget_the_error_is_there(size: int, policy: ActionPolicy):
    history: list[ModelMessage] = []
    for _ in range(300):
        history.append(ModelRequest([UserPromptPart("x" * size)]))
        history.append(ModelResponse([TextPart("y" * size)]))
    agent = Agent(script(ConnectionError("the model is not there")), name="a")
    with capture(mode="content", policy=policy) as seen, pytest.raises(ConnectionError):
        agent.run_sync("go", message_history=history)
    (chat,) = seen.named("chat scripted")
    (event,) = chat.events
    assert event.attributes["exception.message"] == "the model is not there"
    assert event.attributes["exception.stacktrace"].endswith("ConnectionError: the model is not there\n")
    assert chat.status.description == "the model is not there"


def test_a_stack_trace_shows_where_the_error_arose_and_what_it_says():
    def deep(level: int) -> None:
        if level:
            return deep(level - 1) if level % 2 else deeper(level - 1)
        raise LookupError("at the bottom")

    def deeper(level: int) -> None:
        deep(level)

    error = RuntimeError("at the top")
    try:
        try:
            deep(50)
        except LookupError as cause:
            raise error from cause
    except RuntimeError:
        pass
    with capture(mode="content", policy=ActionPolicy.everything()) as seen, pytest.raises(RuntimeError):
        failing_tool(error).run_sync("go")
    stack = seen.named("execute_tool f")[0].events[0].attributes["exception.stacktrace"]
    assert "LookupError: at the bottom\n" in stack
    assert "raise LookupError" in stack
    assert stack.endswith("RuntimeError: at the top\n")


@pytest.mark.contained
def test_an_exception_that_has_no_text_is_still_an_event():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    with capture(mode="content", policy=ActionPolicy.everything()) as seen, pytest.raises(Mute):
        failing_tool(Mute()).run_sync("go")
    (tool,) = seen.named("execute_tool f")
    assert [event.attributes["exception.message"] for event in tool.events] == ["<unsupported>"]
    assert tool.status.description == "<unsupported>"

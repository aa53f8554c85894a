"""What our log lines say of a contained failure: where, and its type; its text only where error text is admitted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from actionspan import ActionPolicy, guard, narrow
from actionspan.policy import CATEGORIES
from canary.signals import LOG_LINE, Leaving, leaving
from scripted import calls, script

pytestmark = [pytest.mark.anyio, pytest.mark.contained]

TEXT = "what only the application may know"


@contextmanager
def failing(directory: Path, **arguments: Any) -> Generator[tuple[Leaving, Agent]]:
    """An agent, while everything else of ours fails in turn and says so with the application's text."""

    def fault(stage: str) -> None:
        if stage != "content":  # what passes there is what the log line may say
            raise ValueError(TEXT)

    agent = Agent(script(calls(("f", {"x": TEXT}, "c1")), "done"), name="a")
    agent.tool_plain(lambda x: x, name="f")
    with leaving(directory, **arguments) as gone, guard.inject(fault):
        yield gone, agent


def lines_of(gone: Leaving) -> str:
    return "".join(gone.texts[LOG_LINE, "message"])


@pytest.mark.parametrize("category", [None, *(category for category in CATEGORIES if category != "error_messages")])
async def test_a_contained_failure_is_logged_without_its_text(category: str | None, tmp_path: Path):
    policy = ActionPolicy.of([] if category is None else [category])
    with failing(tmp_path, mode="content", policy=policy) as (gone, agent):
        assert (await agent.run(TEXT)).output == "done"
    assert "contained a failure in run.enter: ValueError" in lines_of(gone)
    assert TEXT not in lines_of(gone)


async def test_with_error_messages_it_is_logged_with_it(tmp_path: Path):
    with failing(tmp_path, mode="content", policy=ActionPolicy.of(["error_messages"])) as (gone, agent):
        assert (await agent.run(TEXT)).output == "done"
    assert TEXT in lines_of(gone)


async def test_within_a_request_that_is_narrowed_it_is_not(tmp_path: Path):
    traced = failing(tmp_path, mode="content", policy=ActionPolicy.everything())
    with traced as (gone, agent), narrow(ActionPolicy()):
        assert (await agent.run(TEXT)).output == "done"
    assert TEXT not in lines_of(gone)


async def test_the_redactor_is_asked_before_it_is(tmp_path: Path):
    def redact(value: Any) -> Any:
        return "gone" if isinstance(value, str) else value

    policy = ActionPolicy.everything(redactor=redact)
    with failing(tmp_path, mode="content", policy=policy) as (gone, agent):
        assert (await agent.run(TEXT)).output == "done"
    assert TEXT not in lines_of(gone)


async def test_a_redactor_that_fails_with_what_it_was_given_does_not_leave_it_in_the_log(tmp_path: Path):
    def raising(value: Any) -> Any:
        raise ValueError(f"cannot redact {value}")

    agent = Agent(script(TEXT), name="a")
    with leaving(tmp_path, mode="content", policy=ActionPolicy.everything(redactor=raising)) as gone:
        await agent.run(TEXT)
    assert TEXT not in lines_of(gone)

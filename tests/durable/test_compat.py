"""The private names that durable workflows need: each fails here when it goes."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from actionspan.pydantic_ai.compat import current_run_context, dbos_position

pytestmark = [pytest.mark.anyio, pytest.mark.durable]


async def test_the_context_of_the_run_whose_code_this_is():
    seen: list[object] = []
    agent = Agent(TestModel(), name="a")

    @agent.tool_plain
    def look() -> str:
        seen.append(current_run_context())
        return "seen"

    result = await agent.run("go")
    assert [context.run_id for context in seen] == [result.run_id]
    assert current_run_context() is None


def test_the_position_of_a_dbos_workflow():
    context = pytest.importorskip("dbos._context", reason="needs the packages of the group `durable`")
    assert dbos_position() is None
    with context.DBOSContextEnsure() as workflow:
        workflow.workflow_id, workflow.function_id = "w", 3
        assert dbos_position() == 3

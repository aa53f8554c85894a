"""Approvals, external calls, and the runs that resume them."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    ModelRetry,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.capabilities import AbstractCapability, HandleDeferredToolCalls
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from actionspan import ActionPolicy
from actionspan.testing import capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


def approving_agent(*lines, **options) -> Agent:
    agent = Agent(script(*lines), name="a", output_type=[str, DeferredToolRequests], **options)

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return "deleted"

    return agent


async def test_a_deferred_call_resumed_once_approved_and_once_denied_is_three_traces():
    agent = approving_agent(calls(("delete", {"path": "x"}, "c1")), "done", "understood")
    with capture() as seen:
        first = await agent.run("go")
        # The history survives a round trip through JSON, and so does the link.
        history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
        await agent.run(message_history=history, deferred_tool_results=DeferredToolResults(approvals={"c1": True}))
        denied = DeferredToolResults(approvals={"c1": ToolDenied("not today")})
        await agent.run(message_history=history, deferred_tool_results=denied)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool delete [success]
  execute_tool delete [deferred/approval_required] tool_executed=False

invoke_agent a [success]
  validate_tool delete [success]
  execute_tool delete [success] tool_executed=True
  chat scripted [success]

invoke_agent a [success]
  execute_tool delete [cancelled/denied] tool_executed=False
  chat scripted [success]\
""")
    deferring, *resuming = seen.named("invoke_agent a")
    assert [span.attributes["actionspan.resumes_run_id"] for span in resuming] == [
        deferring.attributes["actionspan.run_id"]
    ] * 2
    assert [[link.context.span_id for link in span.links] for span in resuming] == [[deferring.context.span_id]] * 2
    assert len({span.context.trace_id for span in (deferring, *resuming)}) == 3


async def test_a_resumed_run_that_fails_tells_only_what_it_handled_itself():
    model = script(calls(("look", {}, "c1"), ("invented", {}, "c2"), ("delete", {}, "c3")))
    agent = Agent(model, name="a", output_type=[str, DeferredToolRequests])
    agent.tool_plain(lambda: "seen", name="look")

    @agent.tool_plain(requires_approval=True)
    def delete() -> str:
        raise OSError("read-only")

    results = DeferredToolResults(approvals={"c3": True})
    with capture() as seen:
        first = await agent.run("go")
        with pytest.raises(OSError, match="read-only"):
            await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
        with pytest.raises(OSError, match="read-only"):
            async with agent.run_stream(message_history=first.all_messages(), deferred_tool_results=results):
                pass
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool look [success]
  execute_tool look [success] tool_executed=True
  validate_tool delete [success]
  execute_tool [error/unknown_tool] !unknown_tool tool_executed=False
  execute_tool delete [deferred/approval_required] tool_executed=False

invoke_agent a [error] !OSError
  validate_tool delete [success]
  execute_tool delete [error] !OSError tool_executed=True

invoke_agent a [error] !OSError
  validate_tool delete [success]
  execute_tool delete [error] !OSError tool_executed=True\
""")


async def test_what_a_run_was_resumed_with_says_nothing_of_a_later_call_of_the_same_id():
    again = calls(("final_result", {"response": 1}, "c0"), ("delete", {}, "c1"))
    agent = Agent(
        script(calls(("delete", {}, "c1")), again),
        name="a",
        output_type=[int, DeferredToolRequests],
        end_strategy="early",
    )
    agent.tool_plain(lambda: "deleted", name="delete", requires_approval=True)
    with capture() as seen:
        first = await agent.run("go")
        seen.clear()
        denied = DeferredToolResults(approvals={"c1": ToolDenied("not today")})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=denied)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  execute_tool delete [cancelled/denied] tool_executed=False
  chat scripted [success]
  validate_output final_result [success]
  process_output final_result [success]
  execute_tool delete [cancelled/not_executed] tool_executed=False\
""")


async def test_an_approval_with_other_arguments_that_are_rejected_in_a_stream():
    agent = approving_agent(calls(("delete", {"path": "x"}, "c1")), "done")
    with capture() as seen:
        first = await agent.run("go")
        seen.clear()
        approved = DeferredToolResults(approvals={"c1": ToolApproved(override_args={"path": 7})})
        async with agent.run_stream(message_history=first.all_messages(), deferred_tool_results=approved) as result:
            await result.get_output()
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  validate_tool delete [error/invalid_arguments] !pydantic_core._pydantic_core.ValidationError
  chat scripted [success]\
""")


async def test_an_external_call_and_its_result():
    tools = ExternalToolset(
        [ToolDefinition(name="elsewhere", parameters_json_schema={"type": "object", "properties": {}})]
    )
    agent = Agent(
        script(calls(("elsewhere", {}, "c1")), "done"),
        name="a",
        output_type=[str, DeferredToolRequests],
        toolsets=[tools],
    )
    with capture() as seen:
        first = await agent.run("go")
        results = DeferredToolResults(calls={"c1": "from elsewhere"})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool elsewhere [success]
  execute_tool elsewhere [deferred/external] tool_executed=False

invoke_agent a [success]
  execute_tool elsewhere [success/external_result] tool_executed=False
  chat scripted [success]\
""")


async def test_deferrals_that_tools_raise_beside_one_that_runs():
    agent = Agent(
        script(calls(("external", {}, "c1"), ("approval", {}, "c2"), ("plain", {}, "c3"))),
        name="a",
        output_type=[str, DeferredToolRequests],
    )

    @agent.tool_plain(sequential=True)
    def external() -> str:
        raise CallDeferred

    @agent.tool_plain(sequential=True)
    def approval() -> str:
        raise ApprovalRequired

    @agent.tool_plain(sequential=True)
    def plain() -> str:
        return "ran"

    with capture() as seen:
        await agent.run("go")
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool external [success]
  validate_tool approval [success]
  validate_tool plain [success]
  execute_tool external [deferred/external] tool_executed=False
  execute_tool approval [deferred/approval_required] tool_executed=False
  execute_tool plain [success] tool_executed=True\
""")


async def test_a_deferral_that_an_argument_validator_raises():
    def must_ask(ctx: RunContext[None], path: str) -> None:
        if not ctx.tool_call_approved:
            raise ApprovalRequired

    agent = Agent(
        script(calls(("wipe", {"path": "x"}, "c1")), "done"), name="a", output_type=[str, DeferredToolRequests]
    )

    @agent.tool_plain(args_validator=must_ask)
    def wipe(path: str) -> str:
        return "wiped"

    with capture() as seen:
        first = await agent.run("go")
        approved = DeferredToolResults(approvals={"c1": True})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=approved)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool wipe [success]
  execute_tool wipe [deferred/approval_required] tool_executed=False

invoke_agent a [success]
  validate_tool wipe [success]
  execute_tool wipe [success] tool_executed=True
  chat scripted [success]\
""")


def handler(decide) -> AbstractCapability[None]:
    async def handle(ctx: RunContext[None], requests: DeferredToolRequests) -> DeferredToolResults:
        return decide(requests)

    return HandleDeferredToolCalls(handler=handle)


async def test_a_tool_that_raised_and_is_approved_inline_runs_again_as_a_second_attempt():
    inline = handler(lambda requests: requests.build_results(approve_all=True))
    agent = Agent(script(calls(("careful", {}, "c1")), "done"), name="a", capabilities=[inline])

    @agent.tool
    def careful(ctx: RunContext[None]) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return "ran"

    with capture() as seen:
        await agent.run("go")
    assert seen.tree("attempt", "tool_executed") == snapshot("""\
invoke_agent a [success] attempt=1
  chat scripted [success] attempt=1
  validate_tool careful [success] attempt=1
  execute_tool careful [deferred/approval_required] attempt=1 tool_executed=False
  validate_tool careful [success] attempt=2
  execute_tool careful [success] attempt=2 tool_executed=True
  chat scripted [success] attempt=1\
""")


async def test_a_call_denied_inline_and_one_answered_inline():
    inline = handler(
        lambda requests: DeferredToolResults(
            approvals={call.tool_call_id: ToolDenied("no") for call in requests.approvals},
            calls={call.tool_call_id: "an answer" for call in requests.calls},
        )
    )
    tools = ExternalToolset(
        [ToolDefinition(name="elsewhere", parameters_json_schema={"type": "object", "properties": {}})]
    )
    agent = approving_agent(
        calls(("delete", {"path": "x"}, "c1"), ("elsewhere", {}, "c2")), "done", capabilities=[inline], toolsets=[tools]
    )
    with capture() as seen:
        await agent.run("go")
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool elsewhere [success]
  validate_tool delete [success]
  execute_tool delete [cancelled/denied] tool_executed=False
  execute_tool elsewhere [success/external_result] tool_executed=False
  chat scripted [success]\
""")


async def test_a_call_that_ran_before_the_run_waited_for_another_is_not_shown_again():
    agent = approving_agent(calls(("delete", {"path": "x"}, "c1"), ("look", {}, "c2")), "done")
    agent.tool_plain(lambda: "seen", name="look")
    with capture() as seen:
        first = await agent.run("go")
        approved = DeferredToolResults(approvals={"c1": True})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=approved)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool look [success]
  execute_tool look [success] tool_executed=True
  validate_tool delete [success]
  execute_tool delete [deferred/approval_required] tool_executed=False

invoke_agent a [success]
  validate_tool delete [success]
  execute_tool delete [success] tool_executed=True
  chat scripted [success]\
""")


async def test_results_from_elsewhere_that_are_failures():
    agent = Agent(
        script(calls(("elsewhere", {}, "c1"), ("elsewhere", {}, "c2"), ("elsewhere", {}, "c3")), "done"),
        name="a",
        output_type=[str, DeferredToolRequests],
        toolsets=[ExternalToolset([ToolDefinition(name="elsewhere")])],
    )
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        first = await agent.run("go")
        results = DeferredToolResults(calls={"c1": "fine", "c2": ToolFailed("gone"), "c3": ModelRetry("again")})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert seen.tree("tool_executed") == snapshot("""\
invoke_agent a [deferred]
  chat scripted [success]
  validate_tool elsewhere [success]
  validate_tool elsewhere [success]
  validate_tool elsewhere [success]
  execute_tool elsewhere [deferred/external] tool_executed=False
  execute_tool elsewhere [deferred/external] tool_executed=False
  execute_tool elsewhere [deferred/external] tool_executed=False

invoke_agent a [success]
  execute_tool elsewhere [success/external_result] tool_executed=False
  execute_tool elsewhere [error/tool_failed] !pydantic_ai.exceptions.ToolFailed tool_executed=False
  execute_tool elsewhere [error/retry] !pydantic_ai.exceptions.ModelRetry tool_executed=False
  chat scripted [success]\
""")


async def test_what_was_deferred_where_nobody_looked_is_resumed_without_a_link():
    agent = approving_agent(calls(("delete", {"path": "x"}, "c1")), "done")
    first = await agent.run("go")
    with capture() as seen:
        approved = DeferredToolResults(approvals={"c1": True})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=approved)
    (run,) = seen.named("invoke_agent a")
    assert run.links == ()
    assert run.attributes["actionspan.resumes_run_id"] == first.run_id

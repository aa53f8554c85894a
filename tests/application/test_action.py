"""An application's own actions, in all three forms."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
from inline_snapshot import snapshot
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic_ai import Agent
from pydantic_ai.exceptions import RunCancelled

from actionspan import ActionPolicy, action, narrow
from actionspan.testing import capture
from scripted import calls, script

CONTENT = {"mode": "content", "policy": ActionPolicy.everything()}


def test_a_block_with_a_request_and_a_response():
    with capture(**CONTENT) as seen, action("dispatch", "send", name="orders", request={"id": 1}) as sending:
        sending.response = {"accepted": True}
    assert seen.tree("request", "response", "name") == snapshot(
        'send orders [success] request={"id":1} response={"accepted":true} name=orders'
    )
    (span,) = seen.spans
    assert span.attributes["actionspan.namespace"] == "dispatch"
    assert sending.action_id == span.attributes["actionspan.action_id"]


@pytest.mark.anyio
async def test_an_async_block_and_both_kinds_of_decorated_function():
    @action("billing", "charge")
    async def charge(customer: str, cents: int) -> str:
        return f"charged {cents}"

    class Books:
        @action("billing", "enter", name="ledger")
        def enter(self, cents: int) -> int:
            return -cents

    with capture(**CONTENT) as seen:
        async with action("billing", "month") as month:
            assert await charge("acme", cents=5) == "charged 5"
            assert Books().enter(7) == -7
            month.response = "closed"
    assert seen.tree("request", "response") == snapshot("""\
month [success] response="closed"
  charge [success] request={"customer":"acme","cents":5} response="charged 5"
  enter ledger [success] request={"cents":7} response=-7\
""")
    assert charge.__name__ == "charge"


def test_a_request_that_the_decorator_was_given_stands_for_the_arguments():
    @action("billing", "charge", request={"of": "the month"})
    def charge(card: str) -> str:
        return "charged"

    with capture(**CONTENT) as seen:
        charge("4111 1111 1111 1111")
    assert seen.tree("request", "response") == 'charge [success] request={"of":"the month"} response="charged"'


def test_content_goes_by_the_namespaces_category():
    def both():
        for namespace in ("dispatch", "billing"):
            with action(namespace, "do", request="asked") as doing:
                doing.response = "answered"

    for admitted, expected in (
        ({"include_dispatch_requests": True}, [("dispatch", "request")]),
        ({"include_dispatch_responses": True}, [("dispatch", "response")]),
        ({"include_custom_content": True}, [("billing", "request"), ("billing", "response")]),
        ({}, []),
    ):
        with capture(mode="content", policy=ActionPolicy(**admitted)) as seen:
            both()
        assert [
            (span.attributes["actionspan.namespace"], key.removeprefix("actionspan."))
            for span in seen.spans
            for key in sorted(span.attributes)
            if key in ("actionspan.request", "actionspan.response")
        ] == expected


@pytest.mark.parametrize(
    ("error", "options", "outcome"),
    [
        (ValueError("x"), {}, "[error] !ValueError"),
        (TimeoutError(), {}, "[error] !TimeoutError"),
        (TimeoutError(), {"owns_deadline": True}, "[timeout] !timeout"),
        (asyncio.CancelledError(), {}, "[cancelled/task_cancelled]"),
        (KeyboardInterrupt(), {}, "[cancelled/process_exit]"),
        (SystemExit(), {}, "[cancelled/process_exit]"),
    ],
)
def test_how_it_ended(error: BaseException, options, outcome: str):
    with capture() as seen, pytest.raises(type(error)) as caught, action("billing", "charge", **options):
        raise error
    assert caught.value is error
    assert seen.tree() == f"charge {outcome}"


@pytest.mark.anyio
async def test_it_nests_in_a_run_and_a_run_in_it():
    inner = Agent(script("in"), name="inner")
    outer = Agent(script(calls(("work", {}, "c1")), "out"), name="outer")

    @outer.tool_plain
    async def work() -> str:
        async with action("billing", "charge"):
            return (await inner.run("go")).output

    with capture() as seen, action("billing", "month"):
        await outer.run("go")
    assert seen.tree() == snapshot("""\
month [success]
  invoke_agent outer [success]
    chat scripted [success]
    validate_tool work [success]
    execute_tool work [success]
      charge [success]
        invoke_agent inner [success]
          chat scripted [success]
    chat scripted [success]\
""")
    (charge,) = seen.named("charge")
    (run,) = seen.named("invoke_agent outer")
    (month,) = seen.named("month")
    assert charge.attributes["actionspan.run_action_id"] == run.attributes["actionspan.action_id"]
    assert "actionspan.run_action_id" not in month.attributes


@pytest.mark.anyio
async def test_an_interrupted_one_takes_its_runs_outcome():
    agent = Agent(script(calls(("work", {}, "c1"))), name="a")

    @agent.tool
    async def work(ctx) -> str:
        async with action("billing", "charge"):
            ctx.cancel()
            await asyncio.Event().wait()
        return "never"

    with capture() as seen, pytest.raises(RunCancelled):
        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [cancelled/run_cancelled]
  chat scripted [success]
  validate_tool work [success]
  execute_tool work [cancelled/run_cancelled]
    charge [cancelled/run_cancelled]\
""")


def test_in_a_thread_that_copies_the_context():
    def work() -> None:
        with action("billing", "day"):
            pass

    with capture() as seen, action("billing", "month"):
        run = contextvars.copy_context().run
        thread = threading.Thread(
            target=run, args=(lambda: action("billing", "day").__enter__().__exit__(None, None, None),)
        )
        thread.start()
        thread.join()
    assert seen.tree() == "month [success]\n  day [success]"


def test_it_does_nothing_while_nothing_is_instrumented_or_instrumentation_is_suppressed():
    with action("billing", "charge", request="x") as charging:
        charging.response = "y"
    assert charging.action_id is None
    with capture() as seen, suppress_instrumentation(), action("billing", "charge"):
        pass
    assert seen.spans == []


def test_it_is_narrowed_like_everything():
    with capture(**CONTENT) as seen, narrow(ActionPolicy()), action("billing", "charge", request="x"):
        pass
    assert "actionspan.request" not in seen.spans[0].attributes


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: action("tool", "run"), ValueError, "namespace 'tool' is for the library's own actions"),
        (lambda: action("Billing", "run"), ValueError, "action namespace 'Billing' is not of the form"),
        (lambda: action("billing", ""), ValueError, "action operation '' is not of the form"),
        (lambda: action("billing", "run")(generate), TypeError, "not generators"),
        (lambda: action("billing", "run")(generate_async), TypeError, "not generators"),
    ],
)
def test_wrong_use_is_an_error_that_says_what_is_right(make, error, message):
    with pytest.raises(error, match=message):
        make()


def generate():
    yield


async def generate_async():
    yield


def test_entering_twice_is_an_error():
    twice = action("billing", "charge")
    with twice:
        pass
    with pytest.raises(TypeError, match="an action is entered once"), twice:
        pass

"""A run is held at its next boundary for as long as somebody wants, however it is run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from typing import ClassVar

import pytest
from controlled import Port, drive, until
from dirty_equals import IsPartialDict
from inline_snapshot import snapshot
from opentelemetry.instrumentation.utils import suppress_instrumentation
from pydantic_ai import Agent
from pydantic_ai.exceptions import RunTimedOut

from actionspan import ActionPolicy, guard
from actionspan.control import Control, Gate, RunControl, RunState, TargetState
from actionspan.control._gates import Hold
from actionspan.control._runs import RunIdentity
from actionspan.testing import capture

pytestmark = pytest.mark.anyio


def test_it_is_a_control():
    assert isinstance(RunControl(), Control)


async def test_paused_between_tool_and_model_and_steered(control, build):
    receipts = {}

    def look_up() -> str:
        receipts["pause"] = control.pause("wait for it")
        receipts["normal"] = control.steer("first")
        receipts["high"] = control.steer("urgent", priority="high")
        receipts["again"] = control.steer("second", priority="normal")
        return "found"

    agent, told = build("look_up", "done", tools={"look_up": look_up})
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        run = asyncio.create_task(agent.run("go"))
        await until(control, RunState.PAUSED)
        assert [(status.state, status.gate) for status in control.status()] == [(RunState.PAUSED, Gate.MODEL)]
        assert len(told.requests) == 1
        control.resume()
        await run
    assert told.requests[1] == ["go", "call look_up", "found", "urgent", "first", "second"]
    assert {name: (r.state.value, r.targets[0].step) for name, r in receipts.items()} == snapshot(
        {"pause": ("done", None), "normal": ("done", 2), "high": ("done", 2), "again": ("done", 2)}
    )
    assert seen.tree("control_state", "control_gate") == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool look_up [success]
  execute_tool look_up [success]
  control.pause [success/pending] control_state=pending
  control.steer [success/pending] control_state=pending
  control.steer [success/pending] control_state=pending
  control.steer [success/pending] control_state=pending
  control.wait [success] control_gate=model
  control.resume [success] control_state=done
  chat scripted [success]\
""")


async def test_a_verb_is_one_event_and_no_start_and_what_becomes_of_it_another(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await waiting.started.wait()
        receipt = control.pause("because", agent_id="a")
        waiting.may_end.set()
        await receipt
        control.resume()
        await run
    events = [event for event in seen.records if event["kind"].startswith("control.")]
    assert [event["kind"] for event in events] == [
        "control.pause.end",
        "control.pause.settled",
        "control.wait.start",
        "control.resume.end",
        "control.wait.end",
    ]
    assert events[0] == IsPartialDict(
        call_id=receipt.call_id,
        source="api",
        outcome="success",
        outcome_reason="pending",
        run_action_id=seen.records[0]["action_id"],
        parent_action_id=seen.records[0]["action_id"],
    )
    assert events[0]["targets"] == [IsPartialDict(agent_name="a", state="pending", action_id=events[0]["action_id"])]
    assert events[1] == IsPartialDict(call_id=receipt.call_id, state="done")
    assert "because" not in repr(seen.records)
    (span,) = seen.named("control.pause")
    assert span.start_time == span.end_time


async def test_the_wait_is_measured_and_is_no_model_latency(control, build):
    agent, _ = build("one")
    with capture(control=control) as seen:
        async with agent.iter("go") as run:
            assert control.pause().state is TargetState.PENDING
            stepping = asyncio.create_task(drive(run))
            await until(control, RunState.PAUSED)
            control.resume()
            await stepping
    (wait,) = seen.named("control.wait")
    (chat,) = seen.named("chat scripted")
    assert wait.end_time < chat.start_time
    assert wait.parent.span_id == seen.named("invoke_agent a")[0].context.span_id


@pytest.mark.parametrize("way", ["run", "run_stream", "run_stream_events", "iter"])
async def test_every_way_of_running_passes_the_gates(control, build, way):
    agent, told = build("f", "done", tools={"f": lambda: control.pause() and "x"})

    async def go() -> None:
        if way == "run":
            await agent.run("go")
        elif way == "run_stream":
            async with agent.run_stream("go") as result:
                await result.get_output()
        elif way == "run_stream_events":
            async with agent.run_stream_events("go") as events:
                async for _ in events:
                    pass
        else:
            async with agent.iter("go") as run:
                await drive(run)

    running = asyncio.create_task(go())
    await until(control, RunState.PAUSED)
    assert len(told.requests) == 1
    control.steer("on with it")
    control.resume()
    await running
    assert told.requests[1][-2:] == ["x", "on with it"]


def test_run_sync_in_a_thread_controlled_from_the_main_thread(control, build):
    asked = threading.Event()
    receipts = []

    def f() -> str:
        receipts.append(control.pause())
        asked.set()
        return "x"

    agent, told = build("f", "done", tools={"f": f})
    outputs: list[str] = []

    def work() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        outputs.append(agent.run_sync("go").output)
        asyncio.get_event_loop().close()

    thread = threading.Thread(target=work)
    thread.start()
    asked.wait()
    assert receipts[0].wait(30)
    assert control.steer("hello").state is TargetState.PENDING
    control.resume()
    thread.join()
    assert outputs == ["done"]
    assert told.requests[1][-1] == "hello"


async def test_one_of_two_runs_of_an_agent_is_paused(control, build, waiting):
    agent, _ = build("wait", "wait", "done", "done", tools={"wait": waiting})
    held = asyncio.create_task(agent.run("held"))
    await waiting.started.wait()
    (first,) = control.status()
    receipt = control.pause(agent_id=first.run_id)
    waiting.may_end.set()
    assert (await agent.run("free")).output == "done"
    await receipt
    assert [status.state for status in control.status()] == [RunState.ENDED, RunState.PAUSED]
    control.resume(first.run_id)
    await held


async def test_a_run_is_held_before_the_calls_of_a_response(control, build, waiting):
    waiting.may_end.set()
    agent, told = build("wait", "done", tools={"wait": waiting})
    told.asked = lambda number: control.pause() if number == 1 else None
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    assert control.status()[0].gate is Gate.TOOLS
    assert waiting.runs == 0
    control.resume()
    await run
    assert waiting.runs == 1


async def test_what_changes_nothing_says_so(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    said = [control.resume(), control.pause(), control.pause(), control.resume(), control.resume()]
    run_id = control.status()[0].run_id
    waiting.may_end.set()
    await run
    said += [control.pause(agent_id=run_id), control.resume(run_id), control.abort(agent_id=run_id)]
    said += [control.checkpoint(agent_id=run_id), control.steer("late", run_id), control.drain_steering(run_id)]
    said += [control.pause(), control.pause(agent_id="nobody")]
    assert [(receipt.verb.value, receipt.state.value) for receipt in said] == snapshot(
        [
            ("resume", "unchanged"),
            ("pause", "unchanged"),
            ("pause", "unchanged"),
            ("resume", "done"),
            ("resume", "unchanged"),
            ("pause", "ended"),
            ("resume", "ended"),
            ("abort", "ended"),
            ("checkpoint", "ended"),
            ("steer", "not_consumed"),
            ("drain", "ended"),
            ("pause", "no_match"),
            ("pause", "no_match"),
        ]
    )
    assert [receipt.targets[0].note for receipt in said[:3]] == snapshot(
        ["it was not paused", "resumed before it reached a boundary", "it was paused already"]
    )


async def test_two_verbs_at_once(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    barrier = threading.Barrier(8)

    said: list[str] = []

    def pause() -> None:
        barrier.wait()
        said.append(control.pause().state.value)

    threads = [threading.Thread(target=pause) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(said) == ["pending"] + ["unchanged"] * 7
    waiting.may_end.set()
    await until(control, RunState.PAUSED)
    control.resume()
    await run


def test_control_needs_no_pydantic_ai():
    program = "import sys, actionspan.control as c; c.RunControl(); print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_verbs_on_the_runs_own_loop_do_not_wait(control, build):
    async def everything() -> str:
        control.pause()
        control.resume()
        control.steer("x")
        control.checkpoint()
        return control.drain_steering().directives[0]

    agent, told = build("everything", "done", tools={"everything": everything})
    assert (await agent.run("go")).output == "done"
    assert told.requests[1][-1] == "x"


async def test_waiting_for_a_receipt_on_a_running_loop_is_refused(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipt = control.pause()
    with pytest.raises(RuntimeError, match="await the receipt"):
        receipt.wait()
    waiting.may_end.set()
    assert (await receipt).state is TargetState.DONE
    control.resume()
    await run
    assert receipt.wait()


async def test_a_pause_that_nobody_ends(build):
    control = RunControl(max_pause=0.01)
    agent, _ = build("done", capabilities=[control.capability()])
    with capture(tick=False) as seen:
        async with control.events() as events, agent.iter("go") as run:
            control.pause()
            await drive(run)
            kinds = [(await anext(events)).kind for _ in range(6)]
    assert kinds == ["attached", "pause", "paused", "settled", "expired", "resumed"]
    assert "  control.wait [success/max_pause]" in seen.tree()


@pytest.mark.parametrize("wrong", [0, -1, timedelta(0)])
def test_a_pause_has_to_end_some_time(wrong):
    with pytest.raises(ValueError, match="max_pause must be positive"):
        RunControl(max_pause=wrong)


async def test_a_pause_longer_than_the_runs_timeout(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    with capture(tick=False) as seen:
        run = asyncio.create_task(agent.run("go", timeout=86_400))
        await waiting.started.wait()
        receipt = control.pause()
        assert receipt.targets[0].note.startswith("the run's own timeout goes on while it is held: 86")
        waiting.may_end.set()
        await receipt
        for timer in asyncio.get_running_loop()._scheduled:
            if timer.when() > asyncio.get_running_loop().time() + 80_000:
                timer._run()
        with pytest.raises(RunTimedOut):
            await run
    assert seen.tree() == snapshot("""\
invoke_agent a [timeout] !timeout
  chat scripted [success]
  validate_tool wait [success]
  execute_tool wait [success]
  control.pause [success/pending]
  control.wait [timeout] !timeout\
""")
    assert control.status()[0].state is RunState.ENDED


@pytest.mark.contained
async def test_a_gate_that_fails_lets_the_run_go_on(control, build, waiting):
    agent, told = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipts = [control.pause(), control.steer("never"), control.checkpoint(), control.abort("no")]

    def fault(stage: str) -> None:
        if stage == "control.gate":
            raise LookupError("boom")

    with guard.inject(fault):
        waiting.may_end.set()
        assert (await run).output == "done"
    assert [receipt.state.value for receipt in receipts[1:]] == ["failed"] * 3
    assert receipts[0].state is TargetState.UNCHANGED
    assert len(told.requests) == 2


async def test_a_hook_vetoes_and_a_hook_sees(build, waiting):
    class Careful(RunControl):
        seen: ClassVar[list[tuple[str, bool, str | None]]] = []

        def pre_control_action(self, action, reason, agent_id):
            if action == "abort":
                raise PermissionError("not on Fridays")

        def post_control_action(self, action, success, agent_id):
            self.seen.append((action, success, agent_id))

    control = Careful()
    agent, _ = build("wait", "done", tools={"wait": waiting}, capabilities=[control.capability()])
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await waiting.started.wait()
        receipt = control.abort("stop", "a")
        control.pause()
        control.resume()
        waiting.may_end.set()
        assert (await run).output == "done"
    assert (receipt.state, receipt.error) == (TargetState.VETOED, "PermissionError: not on Fridays")
    assert Careful.seen == [("abort", False, "a"), ("pause", True, None), ("resume", True, None)]
    assert "  control.abort [cancelled/vetoed]" in seen.tree()
    (event,) = [event for event in seen.records if event["kind"] == "control.abort.end"]
    assert (event["outcome"], event["outcome_reason"]) == ("cancelled", "vetoed")
    assert "Fridays" not in repr(seen.records)


@pytest.mark.contained
async def test_a_hook_that_fails_afterwards_changes_nothing(build):
    class Broken(RunControl):
        def post_control_action(self, action, success, agent_id):
            raise ZeroDivisionError

    control = Broken()
    agent, told = build("done", capabilities=[control.capability()])
    async with agent.iter("go") as run:
        receipt = control.steer("still there")
        await drive(run)
    assert receipt.state is TargetState.DONE
    assert told.requests == [["go", "still there"]]


async def test_control_without_a_tracer_writes_to_its_own_recorder(build, waiting):
    from actionspan.testing._memory import MemoryRecorder

    recorder = MemoryRecorder()
    control = RunControl(recorder=recorder)
    agent, _ = build("wait", "done", tools={"wait": waiting}, capabilities=[control.capability()])
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipt = control.pause("secret reason")
    waiting.may_end.set()
    await receipt
    control.resume("nobody")
    control.resume()
    await run
    assert [(event["kind"], event.get("outcome_reason")) for event in recorder.events] == [
        ("control.pause.end", "pending"),
        ("control.pause.settled", None),
        ("control.resume.end", "no_match"),
        ("control.resume.end", None),
    ]
    assert "secret" not in repr(recorder.events)
    assert recorder.events[0]["targets"] == [IsPartialDict(agent_name="a", state="pending")]


async def test_every_run_is_under_the_control_of_an_instrumented_process(build):
    control = RunControl()
    agent, told = build("done", capabilities=[])
    with capture(control=control):
        async with agent.iter("go") as run:
            assert [status.agent_name for status in control.status()] == ["a"]
            control.steer("instrumented")
            await drive(run)
    assert told.requests == [["go", "instrumented"]]
    other = Agent(told.model(), name="b")
    told.lines.append("x")
    await other.run("go")
    assert len(control.status()) == 1


async def test_a_control_on_the_agent_and_on_the_process_holds_once(build):
    control = RunControl()
    agent, told = build("done", capabilities=[control.capability()])
    with capture(control=control):
        async with agent.iter("go") as run:
            assert len(control.status()) == 1
            control.steer("once")
            await drive(run)
    assert told.requests == [["go", "once"]]


async def test_a_run_that_is_not_traced_is_under_the_control_of_the_process_all_the_same(build):
    control = RunControl()
    agent, told = build("done", capabilities=[])
    with capture(control=control) as seen, suppress_instrumentation():
        async with agent.iter("go") as run:
            control.steer("unseen")
            await drive(run)
    assert told.requests == [["go", "unseen"]]
    assert seen.spans == []


@pytest.mark.contained
async def test_a_run_that_cannot_be_attached_goes_on_without_control(build):
    def fault(stage: str) -> None:
        if stage == "control.attach":
            raise LookupError("boom")

    control = RunControl()
    agent, told = build("f", "done", tools={"f": lambda: "x"}, capabilities=[])
    before = guard.failures.copy()
    with capture(control=control) as seen, guard.inject(fault):
        assert (await agent.run("go")).output == "done"
    assert guard.failures - before == {"control.attach": 1}
    assert len(told.requests) == 2
    assert control.status() == ()
    assert seen.tree().startswith("invoke_agent a [success]")


async def test_a_pause_that_the_run_ends_before_it_can_keep(control, build):
    """A streamed run's last request is its last boundary."""
    agent, told = build("the answer")
    receipts = []
    told.asked = lambda number: receipts.append(control.pause())
    async with agent.run_stream("go") as result:
        assert await result.get_output() == "the answer"
    assert receipts[0].state is TargetState.ENDED
    assert receipts[0].targets[0].note == "it ended before it reached a boundary"


async def test_an_expiry_that_comes_late_changes_nothing(control):
    """Between a resume and the run's going on its timer may still fire, and so it may once it is held again."""
    loop = asyncio.get_running_loop()

    def hold() -> Hold:
        return Hold(loop, loop.create_future())

    run = control.attach(RunIdentity("a", "r"), Port())
    control.pause()
    first = run.decide(hold)
    control.resume()
    run.expire(first)
    assert (first.ended_by, run.state) == (None, RunState.RUNNING)
    run.leave()
    control.pause()
    second = run.decide(hold)
    run.expire(first)
    assert (run.state, second.let_go) == (RunState.PAUSED, False)
    control.detach(run, cancelled=False)


async def test_ended_runs_are_remembered_for_a_while(control):
    for number in range(1025):
        control.detach(control.attach(RunIdentity("a", f"run {number}"), Port()), cancelled=False)
    assert control.pause(agent_id="run 0").state is TargetState.NO_MATCH
    assert control.pause(agent_id="run 1").state is TargetState.ENDED
    assert len(control.status()) == 1024


@pytest.mark.contained
async def test_a_verb_that_fails_says_so_and_the_run_goes_on(control, build):
    def fault(stage: str) -> None:
        if stage == "control.verb":
            raise LookupError("boom")

    agent, _ = build("done")
    async with agent.iter("go") as run:
        with guard.inject(fault):
            receipt = control.pause()
        await drive(run)
        assert run.result.output == "done"
    assert receipt.state is TargetState.FAILED
    assert receipt.targets[0].note == "a failure of run control itself"


async def test_who_gave_up_waiting_for_a_receipt_is_not_in_the_way_of_others(control, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    receipt = control.pause()

    async def settled() -> TargetState:
        return (await receipt).state

    impatient, patient = asyncio.create_task(settled()), asyncio.create_task(settled())
    await asyncio.sleep(0)  # both are waiting
    impatient.cancel()
    waiting.may_end.set()
    assert await patient is TargetState.DONE
    control.resume()
    await run
    assert impatient.cancelled()


async def test_closing_ends_the_streams_of_events(control, build):
    agent, _ = build("done")
    events = control.events()
    await agent.run("go")
    control.close()
    assert [event.kind async for event in events] == ["attached", "ended"]
    assert [event async for event in control.events()] == []

"""A checkpoint is the run at a boundary; a run restored from it goes on as that one would have."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import stat
import traceback
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from controlled import Told, drive, until
from inline_snapshot import snapshot
from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.usage import UsageLimits

from actionspan import ActionPolicy, JsonlRecorder
from actionspan.control import (
    Checkpoint,
    CheckpointDamaged,
    CheckpointOfAnotherAgent,
    CheckpointTooNew,
    DirectoryCheckpointStore,
    Gate,
    RestoreVetoed,
    RunControl,
    RunState,
    TargetState,
    UnknownCheckpoint,
)
from actionspan.testing import capture

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path) -> DirectoryCheckpointStore:
    return DirectoryCheckpointStore(tmp_path / "checkpoints")


@pytest.fixture
def control(store) -> RunControl:
    return RunControl(checkpoints=store)


async def held_between_tool_and_model(control, build, *lines):
    """A run that is held after its tool and before its second request."""
    agent, told = build("f", *lines, tools={"f": lambda: control.pause() and "x"})
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED)
    return agent, told, run


async def test_taken_at_a_gate_it_is_what_the_model_is_sent(control, build, store):
    _, told, run = await held_between_tool_and_model(control, build, "done")
    control.steer("and this")
    receipt = control.checkpoint("before the answer")
    assert receipt.state is TargetState.DONE
    control.resume()
    await run
    checkpoint = store.load(receipt.id)
    said = [
        part.get("content") or f"call {part['tool_name']}"
        for message in json.loads(checkpoint.messages)
        for part in message["parts"]
    ]
    assert said == told.requests[1][:-1] == ["go", "call f", "x"]
    assert [item["text"] for item in checkpoint.queued] == told.requests[1][-1:]
    (status,) = control.status()
    assert checkpoint == replace(
        checkpoint,
        label="before the answer",
        agent_name="a",
        model_name="scripted",
        run_id=status.run_id,
        conversation_id=status.conversation_id,
        gate=Gate.MODEL,
        step=2,
        parent_id=None,
    )
    assert (checkpoint.usage["requests"], checkpoint.usage["tool_calls"]) == (1, 1)


async def test_asked_for_in_a_tool_it_is_taken_at_the_next_gate(control, build):
    receipts = []
    agent, _ = build("f", "done", tools={"f": lambda: receipts.append(control.checkpoint()) or "x"})
    await agent.run("go")
    assert receipts[0].state is TargetState.DONE
    assert receipts[0].id is not None


async def test_a_restored_run_makes_the_same_next_request(control, build, store):
    _, told, run = await held_between_tool_and_model(control, build, "done")
    control.steer("and this")
    receipt = control.checkpoint()
    control.resume()
    await run

    restored = RunControl(checkpoints=DirectoryCheckpointStore(store.directory)).restore_checkpoint(receipt.id)
    assert restored.receipt.state is TargetState.NO_MATCH
    told_again = Told(["done again"])
    ran: list[str] = []
    again = Agent(told_again.model(), name="a", capabilities=[control.capability()])
    again.tool_plain(lambda: ran.append("f") or "x", name="f")
    with capture() as seen:
        result = await again.run(**restored.run_kwargs(again))
    assert (result.output, ran) == ("done again", [])
    assert told_again.requests == [told.requests[1]]
    assert result.usage.requests == 2
    assert result.usage.input_tokens > 10
    (root,) = seen.named("invoke_agent a")
    assert root.attributes["actionspan.checkpoint_id"] == receipt.id
    assert root.attributes["actionspan.resumes_run_id"] == restored.checkpoint.run_id
    assert root.attributes["actionspan.usage.requests"] == 1


async def test_its_usage_still_counts_against_a_limit(control, build):
    agent, told, run = await held_between_tool_and_model(control, build, "done")
    receipt = control.checkpoint()
    control.resume()
    await run
    restored = control.restore_checkpoint(receipt.id)
    with pytest.raises(UsageLimitExceeded):
        await agent.run(**restored.run_kwargs(), usage_limits=UsageLimits(request_limit=1))
    assert len(told.requests) == 2


async def test_restored_from_before_its_tools_they_run_and_from_after_they_do_not(control, build, waiting):
    waiting.may_end.set()
    agent, told = build("wait", "first", "second", "third", tools={"wait": waiting})
    told.asked = lambda number: control.pause() if number == 1 else None
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED, Gate.TOOLS)
    before = control.checkpoint("before")
    control.resume()
    control.pause()
    await until(control, RunState.PAUSED, Gate.MODEL)
    after = control.checkpoint("after")
    control.resume()
    await run
    assert waiting.runs == 1
    assert (await agent.run(**control.restore_checkpoint(after.id).run_kwargs())).output == "second"
    assert waiting.runs == 1
    assert (await agent.run(**control.restore_checkpoint(before.id).run_kwargs())).output == "third"
    assert waiting.runs == 2
    assert told.requests[2] == told.requests[3] == ["go", "call wait", "tool result"]


async def test_a_checkpoint_knows_the_one_before_it(control, build, store):
    _, _, run = await held_between_tool_and_model(control, build, "done", "done")
    first, second = (
        control.checkpoint(),
        control.checkpoint("same label"),
    )
    third = control.checkpoint("same label")
    control.resume()
    await run
    assert [store.load(receipt.id).parent_id for receipt in (first, second, third)] == [None, first.id, second.id]
    assert store.ids() == [first.id, second.id, third.id]


@pytest.mark.parametrize("way", ["run", "run_stream", "iter"])
async def test_a_live_run_is_rolled_back_before_a_request(control, build, way):
    agent, told = build(
        "f", "g", "done", tools={"f": lambda: control.pause() and "x", "g": lambda: control.pause() and "y"}
    )

    async def go() -> str:
        if way == "run":
            return (await agent.run("go")).output
        if way == "run_stream":
            async with agent.run_stream("go") as result:
                return await result.get_output()
        async with agent.iter("go") as run:
            await drive(run)
            return run.result.output

    run = asyncio.create_task(go())
    await until(control, RunState.PAUSED, Gate.MODEL)
    saved = control.checkpoint()
    control.resume()
    await until(control, RunState.PAUSED, Gate.MODEL)
    restored = control.restore_checkpoint(saved.id)
    assert restored.receipt.state is TargetState.DONE
    control.steer("another way")
    control.resume()
    assert await run == "done"
    assert told.requests[1:] == [["go", "call f", "x"], ["go", "call f", "x", "another way"]]


async def test_usage_does_not_go_back_and_directives_come_back(control, build):
    agent, told = build(
        "f", "g", "done", tools={"f": lambda: control.pause() and "x", "g": lambda: control.pause() and "y"}
    )
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED, Gate.MODEL)
    control.steer("said once")
    saved = control.checkpoint()
    control.resume()
    await until(control, RunState.PAUSED, Gate.MODEL)
    control.restore_checkpoint(saved.id)
    control.resume()
    result = await run
    assert told.requests[1] == told.requests[2] == ["go", "call f", "x", "said once"]
    assert result.usage.requests == 3
    assert result.usage.tool_calls == 2


async def test_a_live_run_is_rolled_back_before_tools_that_then_do_not_run(control, build, waiting):
    agent, told = build("f", "wait", "done", tools={"f": lambda: control.pause() and "x", "wait": waiting})
    told.asked = lambda number: control.pause() if number == 2 else None
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await until(control, RunState.PAUSED, Gate.MODEL)
        saved = control.checkpoint()
        control.resume()
        await until(control, RunState.PAUSED, Gate.TOOLS)
        assert control.restore_checkpoint(saved.id).receipt.state is TargetState.DONE
        again = control.checkpoint()
        control.resume()
        assert (await run).output == "done"
    assert waiting.runs == 0
    assert told.requests[1] == told.requests[2] == ["go", "call f", "x"]
    assert messages_of(control, again.id) == messages_of(control, saved.id)
    assert "  execute_tool wait [cancelled/not_executed]" in seen.tree()


async def test_rolled_back_to_before_its_tools_it_runs_them_again(control, build, waiting):
    waiting.may_end.set()
    agent, told = build("wait", "done", tools={"wait": waiting})
    told.asked = lambda number: control.pause() if number == 1 else None
    with capture() as seen:
        run = asyncio.create_task(agent.run("go"))
        await until(control, RunState.PAUSED, Gate.TOOLS)
        saved = control.checkpoint()
        control.resume()
        control.pause()
        await until(control, RunState.PAUSED, Gate.MODEL)
        control.restore_checkpoint(saved.id)
        assert messages_of(control, control.checkpoint().id) == messages_of(control, saved.id)
        control.resume()
        result = await run
    assert result.output == "done"
    spent = [span.attributes.get("gen_ai.usage.input_tokens", 0) for span in seen.named("chat scripted")]
    assert result.usage.input_tokens == sum(spent) > 0
    assert waiting.runs == 2
    assert told.requests == [["go"], ["go", "call wait", "tool result"]]


def messages_of(control: RunControl, checkpoint_id: str) -> object:
    return json.loads(control.restore_checkpoint(checkpoint_id).checkpoint.messages)


async def test_a_pending_rollback_comes_at_the_next_gate(control, build):
    receipts = []
    kept = []
    tools = {
        "f": lambda: kept.append(control.checkpoint()) or "x",
        "g": lambda: receipts.append(control.restore_checkpoint(kept[0].id).receipt) or "y",
    }
    agent, told = build("f", "g", "done", tools=tools)
    await agent.run("go")
    assert receipts[0].state is TargetState.DONE
    assert told.requests[2] == ["go", "call f", "x"]


async def test_a_restore_is_on_the_record(control, build):
    with capture(mode="content", policy=ActionPolicy(include_custom_content=True)) as seen:
        _, _, run = await held_between_tool_and_model(control, build, "done")
        saved = control.checkpoint("a label")
        control.restore_checkpoint(saved.id)
        control.resume()
        await run
        with pytest.raises(UnknownCheckpoint):
            control.restore_checkpoint(str(uuid4()))
    assert re.sub(r"=.{36}", "=ID", seen.tree("checkpoint_id", "control_label")) == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool f [success]
  execute_tool f [success]
  control.pause [success/pending]
  control.wait [success]
  control.checkpoint [success] checkpoint_id=ID control_label=a label
  control.restore [success] checkpoint_id=ID
  control.resume [success]
  chat scripted [success]\
""")
    failed = seen.records[-1]
    assert (failed["kind"], failed["error"]) == (
        "control.restore.error",
        "actionspan.control.errors.UnknownCheckpoint",
    )


async def test_a_veto_gives_nothing_to_start_a_run_with():
    class Closed(RunControl):
        def pre_control_action(self, action, reason, agent_id):
            raise PermissionError("closed")

    restored = Closed().restore_checkpoint(str(uuid4()))
    assert (restored.receipt.state, restored.checkpoint) == (TargetState.VETOED, None)
    with pytest.raises(RestoreVetoed, match="closed"):
        restored.run_kwargs()


async def test_a_checkpoint_of_another_agent(control, build):
    agent, _, run = await held_between_tool_and_model(control, build, "done")
    receipt = control.checkpoint()
    control.resume()
    await run
    other = Agent(agent.model, name="b")
    with pytest.raises(CheckpointOfAnotherAgent, match=r"was taken from a run of 'a', not of 'b'"):
        control.restore_checkpoint(receipt.id).run_kwargs(other)


# --- the store ---


def saved(store: DirectoryCheckpointStore, **fields) -> tuple[Checkpoint, Path]:
    checkpoint = Checkpoint(agent_name="a", messages=b'[{"parts": []}]', **fields)
    store.save(checkpoint)
    return checkpoint, store.directory / f"{checkpoint.id}.checkpoint.json"


def test_a_checkpoint_comes_back_as_it_was(store):
    checkpoint, path = saved(
        store,
        label="../../../etc/passwd\n",
        usage={"requests": 1},
        queued=({"id": "1", "priority": "low", "text": "x"},),
    )
    assert store.load(checkpoint.id) == checkpoint
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert os.listdir(store.directory) == [path.name]


def test_labels_do_not_collide(store):
    ids = {saved(store, label="same")[0].id for _ in range(3)}
    assert set(store.ids()) == ids


def test_a_crash_between_write_and_rename_leaves_nothing_that_is_listed(store, monkeypatch):
    whole, _ = saved(store)
    with monkeypatch.context() as patch:

        def crash(*arguments):
            raise KeyboardInterrupt

        patch.setattr(Path, "rename", crash)
        patch.setattr(Path, "unlink", lambda self: None)  # a process that is killed does not tidy up, either
        with pytest.raises(KeyboardInterrupt):
            store.save(Checkpoint())
    assert len(os.listdir(store.directory)) == 2
    assert store.ids() == [whole.id]


def test_a_file_cut_short_is_damaged(store):
    checkpoint, path = saved(store)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointDamaged, match=checkpoint.id):
        store.load(checkpoint.id)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"v": 0}', b'{"v": 1}', b"\xff\xfe", b'{"v": "1"}', b"null", b'{"v":"\xff"}', b"[" * 100_000],
    ids=lambda content: repr(content)[:12],
)
def test_a_file_that_is_none_is_damaged(store, content):
    checkpoint, path = saved(store)
    path.write_bytes(content)
    with pytest.raises(CheckpointDamaged, match=checkpoint.id):
        store.load(checkpoint.id)


@pytest.mark.parametrize(
    "damage", [{"messages": [{"kind": "secret"}]}, {"messages": {}}, {"messages": 7}, {"usage": {"requests": "secret"}}]
)
def test_a_history_that_is_none_is_damaged_and_not_quoted(store, damage):
    checkpoint, path = saved(store)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | damage))
    restored = RunControl(checkpoints=store).restore_checkpoint(checkpoint.id)
    with pytest.raises(CheckpointDamaged, match=checkpoint.id) as raised:
        restored.run_kwargs()
    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_a_file_under_another_ones_name_is_damaged(store):
    (_, path), (second, other) = saved(store), saved(store)
    other.write_bytes(path.read_bytes())
    with pytest.raises(CheckpointDamaged, match=second.id):
        store.load(second.id)


def test_a_newer_version_is_refused_by_name(store):
    checkpoint, path = saved(store)
    path.write_text(path.read_text().replace('"v":1', '"v":2'))
    with pytest.raises(CheckpointTooNew, match=f"{checkpoint.id} has schema version 2; this version knows 1"):
        store.load(checkpoint.id)


ANY_ID = "5e758c87-d4b4-48e9-9451-8d511c3deec0"


@pytest.mark.parametrize(
    "name", [None, 7, "../secret", "", "x" * 36, "/etc/passwd", ANY_ID.upper(), "{" + ANY_ID + "}"]
)
def test_what_is_no_id_never_becomes_a_path(store, name):
    with pytest.raises(UnknownCheckpoint):
        store.load(name)


def test_a_file_that_somebody_else_put_there_is_not_listed(store):
    saved = Checkpoint(messages=b"[]", usage={})
    store.save(saved)
    (kept,) = store.directory.iterdir()
    (store.directory / kept.name.replace(saved.id, "notes")).write_text("{}")
    assert store.ids() == [saved.id]


def test_a_directory_that_others_may_write_to_is_refused(tmp_path):
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod 700"):
        DirectoryCheckpointStore(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away needs root")
@pytest.mark.parametrize("open_one", [DirectoryCheckpointStore, JsonlRecorder, lambda path: RunControl(serve=path)])
def test_a_directory_of_another_user_is_refused(tmp_path, open_one):
    """Its owner could put other files in the place of ours, whatever its mode; root is not kept from writing there."""
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o755)
    os.chown(directory, 12345, 12345)
    with pytest.raises(PermissionError, match="belong"):
        open_one(directory)
    assert list(directory.iterdir()) == []


async def test_it_says_once_that_histories_are_in_clear_below_content(control, build, caplog):
    _, _, run = await held_between_tool_and_model(control, build, "done")
    with caplog.at_level(logging.WARNING, "actionspan"):
        control.checkpoint()
        control.checkpoint()
    control.resume()
    await run
    assert [record.message for record in caplog.records] == [
        f"checkpoints in {control._checkpoints.directory} hold whole histories in clear, "
        "although the telemetry ceiling is below content"
    ]


@pytest.mark.contained
async def test_a_store_that_fails_fails_the_receipt_and_not_the_run(build):
    class Full:
        def save(self, checkpoint):
            raise OSError(28, "No space left on device")

    control = RunControl(checkpoints=Full())
    receipts = []
    agent, _ = build(
        "f",
        "done",
        tools={"f": lambda: receipts.append(control.checkpoint()) or "x"},
        capabilities=[control.capability()],
    )
    assert (await agent.run("go")).output == "done"
    assert receipts[0].state is TargetState.FAILED


async def test_held_before_one_calls_a_run_is_rolled_back_to_before_others(control, build):
    ran: list[str] = []
    tools = {"f": lambda: ran.append("f") or "x", "g": lambda: ran.append("g") or "y"}
    agent, told = build("f", "g", "done", tools=tools)
    told.asked = lambda number: control.pause() if number < 3 else None
    run = asyncio.create_task(agent.run("go"))
    await until(control, RunState.PAUSED, Gate.TOOLS)
    saved = control.checkpoint()
    control.resume()
    await until(control, RunState.PAUSED, Gate.TOOLS)
    assert ran == ["f"]
    assert control.restore_checkpoint(saved.id).receipt.state is TargetState.DONE
    assert messages_of(control, control.checkpoint().id) == messages_of(control, saved.id)
    control.resume()
    assert (await run).output == "done"
    assert ran == ["f", "f"]
    assert told.requests[2] == ["go", "call f", "x"]

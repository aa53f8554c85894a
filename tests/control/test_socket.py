"""Another process of the same user, and nobody else, controls the runs; whatever it sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from controlled import Port, drive, until
from typer.testing import CliRunner

from actionspan.cli._app import app
from actionspan.control import RunControl, RunState
from actionspan.control import _place as place_module
from actionspan.control import _server as server_module
from actionspan.control._client import Remote, remotes
from actionspan.control._place import pointers
from actionspan.control._runs import RunIdentity
from actionspan.control.errors import ControlRejected, ControlUnreachable
from actionspan.testing import capture

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return tmp_path / "served"


@pytest.fixture
def control(directory: Path):
    with RunControl(serve=directory) as control:
        yield control


def the_remote(directory: Path) -> Remote:
    (remote,) = remotes(directory)
    return remote


def connected(directory: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    ((_, pointer),) = pointers(directory)
    connection.connect(pointer.socket)
    return connection


def said(connection: socket.socket) -> dict:
    return json.loads(connection.makefile("rb").readline())


async def test_runs_are_seen_and_steered(control, directory, build, waiting):
    agent, told = build("wait", "done", tools={"wait": waiting}, name="support")
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    remote = the_remote(directory)

    def ask(*arguments, **fields):
        return asyncio.to_thread(remote.ask, *arguments, **fields)

    (seen,) = (await ask("runs"))["runs"]
    assert (seen["agent_name"], seen["state"]) == ("support", "running")
    assert (await ask("pause", agent_id="support", reason="hm"))["receipt"]["state"] == "pending"
    waiting.may_end.set()
    await until(control, RunState.PAUSED)
    assert (await ask("steer", directive="answer in French"))["receipt"]["state"] == "pending"
    made = (await ask("checkpoint", label="here"))["receipt"]
    assert (await ask("restore", checkpoint_id=made["id"]))["receipt"]["state"] == "done"
    assert (await ask("resume"))["receipt"]["state"] == "done"
    await run
    assert told.requests[1] == ["go", "call wait", "tool result", "answer in French"]
    assert (await ask("abort"))["receipt"]["state"] == "no_match"


async def test_a_request_may_wait_for_its_receipt(control, directory, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting})
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    asking = asyncio.create_task(asyncio.to_thread(the_remote(directory).ask, "pause", wait=30.0))
    async with control.events() as events:
        while (await anext(events)).kind != "pause":
            pass
    waiting.may_end.set()
    assert (await asking)["receipt"]["state"] == "done"
    control.resume()
    await run


def test_the_files_are_private(control, directory):
    names = sorted(path.name.rpartition(".")[2] for path in directory.iterdir())
    assert names == ["json", "token"]
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    private = Path(the_remote(directory).pointer.socket).parent
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    control.close()
    assert list(directory.iterdir()) == []
    assert not private.exists()


def test_without_a_token_only_looking_is_allowed(control, directory):
    remote = the_remote(directory)
    (directory / remote.pointer.token).write_text("another")
    assert remote.ask("runs")["runs"] == []
    with pytest.raises(ControlRejected, match="the token is missing or not the one"):
        remote.ask("pause")
    (directory / remote.pointer.token).unlink()
    with pytest.raises(ControlRejected, match="the token is missing"):
        remote.ask("pause")


def test_a_child_does_not_find_the_token_in_its_environment(control, directory):
    token = (directory / the_remote(directory).pointer.token).read_text()
    seen = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True)
    assert token not in seen.stdout
    assert token not in repr(os.environ)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"not json\n", "JSON is malformed"),
        (b"\xff\xfe\n", "JSON is malformed"),
        (b'{"v":1,"verb":"\xff"}\n', "Error: "),
        (b"[]\n", "Expected `object`"),
        (b'{"v":1}\n', "missing required field `verb`"),
        (b'{"v":2,"verb":"runs"}\n', "speaks version 1, not 2"),
        (b'{"v":1,"verb":"runs","extra":1}\n', "unknown field `extra`"),
        (b'{"v":1,"verb":"explode","token":"TOKEN"}\n', "there is no verb 'explode'"),
        (b'{"v":1,"verb":"steer","directive":"","token":"TOKEN"}\n', "a directive is text, and not empty"),
        (b'{"v":1,"verb":"steer","directive":"x","priority":"soon","token":"TOKEN"}\n', "Invalid enum value"),
        (b'{"v":1,"verb":"restore","checkpoint_id":"../x","token":"TOKEN"}\n', "UnknownCheckpoint"),
    ],
)
def test_bad_input_gets_an_error_line_and_the_connection_goes_on(control, directory, line, error):
    token = (directory / the_remote(directory).pointer.token).read_bytes()
    with connected(directory) as connection:
        connection.sendall(line.replace(b"TOKEN", token))
        answer = said(connection)
        assert answer["ok"] is False
        assert error in answer["error"]
        connection.sendall(b'{"v":1,"verb":"runs"}\n')
        assert said(connection)["ok"] is True


def test_ten_megabytes_of_junk(control, directory):
    with connected(directory) as connection:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(b"x" * 10_000_000)
        assert said(connection)["error"] == "a line has at most 65536 bytes"
    assert the_remote(directory).ask("runs")["ok"] is True


def test_a_client_that_hangs_up_in_mid_line(control, directory):
    with connected(directory) as connection:
        connection.sendall(b'{"v":1,"verb":"ab')
    assert the_remote(directory).ask("runs")["ok"] is True


def test_a_client_that_says_nothing_does_not_keep_others_out(control, directory):
    with connected(directory), connected(directory) as second:
        second.sendall(b'{"v":1,"verb":"runs"}\n{"v":1,"verb":"runs"}\n')
        lines = second.makefile("rb")
        assert [json.loads(lines.readline())["ok"] for _ in range(2)] == [True, True]


def test_a_line_that_takes_too_long_ends_the_connection(control, directory, monkeypatch):
    monkeypatch.setattr(server_module, "_PATIENCE", 0.05)
    with connected(directory) as connection:
        connection.sendall(b"{")
        assert connection.recv(1) == b""


def test_a_line_that_is_too_long_is_refused_although_it_ends(control, directory):
    with connected(directory) as connection:
        connection.sendall(b'{"v":1,"verb":"runs"}\n' + b"x" * 40_000)
        assert said(connection)["ok"] is True
        connection.sendall(b"x" * 40_000 + b"\n")
        assert said(connection)["error"] == "a line has at most 65536 bytes"


def test_who_is_connected_when_it_closes_is_not_answered_any_more(control, directory):
    with connected(directory) as connection:
        connection.sendall(b'{"v":1,"verb":"runs"}\n')
        assert said(connection)["ok"] is True
        control.close()
        connection.sendall(b'{"v":1,"verb":"runs"}\n')
        assert connection.recv(1) == b""


def test_a_process_that_stopped_serving_since_it_was_found(control, directory):
    remote = the_remote(directory)
    control.close()
    with pytest.raises(ControlUnreachable, match=f"process {os.getpid()} does not listen any more"):
        remote.ask("runs")


@contextlib.contextmanager
def impostor(directory: Path, program: str):
    """Another process listens where the pointer leads."""
    ((_, pointer),) = pointers(directory)
    path = Path(pointer.socket)
    path.unlink()
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "listening\n"
    try:
        yield
    finally:
        process.communicate("")


LISTENS = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
{first}
listener.listen()
print("listening", flush=True)
connection, _ = listener.accept()
connection.recv(65536)
connection.close()
sys.stdin.read()
"""


def test_a_process_that_hangs_up_without_an_answer(control, directory):
    remote = the_remote(directory)
    with (
        impostor(directory, LISTENS.format(first="")),
        pytest.raises(ControlUnreachable, match="the process hung up without an answer"),
    ):
        remote.ask("pause")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_the_token_is_not_told_to_another_users_process(control, directory):
    remote = the_remote(directory)
    with (
        impostor(directory, LISTENS.format(first="os.setuid(12345)")),
        pytest.raises(ControlRejected, match="belongs to another user"),
    ):
        remote.ask("pause")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
def test_a_pointer_of_another_user_is_not_followed(control, directory):
    ((path, _),) = pointers(directory)
    os.chown(path, 12345, 12345)
    with pytest.raises(ControlUnreachable, match=f"no process serves control from {directory}$"):
        remotes(directory)


def test_too_many_clients_are_told_so(control, directory):
    crowd = [connected(directory) for _ in range(16)]
    for connection in crowd:  # each of them is being served once it is answered
        connection.sendall(b'{"v":1,"verb":"runs"}\n')
        assert said(connection)["ok"]
    with pytest.raises(ControlRejected, match="16 clients are connected already"):
        the_remote(directory).ask("runs")
    for connection in crowd:
        connection.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_is_refused(control, directory):
    socket_file = Path(the_remote(directory).pointer.socket)
    for path in (socket_file, socket_file.parent):
        path.chmod(0o777)  # not even open files let somebody in
    program = (
        "import os, socket, sys\n"
        "os.setuid(12345)\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(sys.argv[1])\n"
        "print(connection.makefile('rb').readline().decode())\n"
    )
    # From inside, so that nothing above needs to be opened.
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, socket_file.name], cwd=socket_file.parent, capture_output=True, text=True
    )
    assert "only the user of this process may control it" in done.stdout, done.stderr


def test_paths_of_150_characters(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * (150 - len(str(tmp_path)) if len(str(tmp_path)) < 140 else 60))
    deep.mkdir()
    assert len(str(deep)) >= 100
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with RunControl(serve=deep / "served") as control:
        assert control.status() == ()
        assert len(the_remote(deep / "served").pointer.socket) <= 100
        assert the_remote(deep / "served").ask("runs")["ok"] is True


def test_a_directory_that_others_may_write_to_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="nobody else may write to it"):
        RunControl(serve=tmp_path / "open")


SERVES = """
import sys
from actionspan.control import RunControl
control = RunControl(serve=sys.argv[1])
print("serving", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_leaves_is_cleaned_up(directory):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVES, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "serving\n"
    pointer = the_remote(directory).pointer
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert Path(pointer.socket).exists()
    with pytest.raises(ControlUnreachable, match=f"process {process.pid} that did is gone"):
        remotes(directory)
    with RunControl(serve=directory):
        assert [found.pid for _, found in pointers(directory)] == [os.getpid()]
        assert not Path(pointer.socket).parent.exists()
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("named", ["notes.txt", "actionspan-x/notes.txt", "actionspan-x/control.sock"])
def test_cleaning_up_takes_away_only_what_is_a_socket_of_ours(directory, tmp_path, named):
    """A pointer is a file like any other, and could name one of the user's own."""
    kept = tmp_path / named
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("kept")
    directory.mkdir()
    pointer = {"v": 1, "pid": 1, "socket": str(kept), "token": "control-1-x.token"}
    (directory / "control-1-x.json").write_text(json.dumps(pointer))
    with RunControl(serve=directory):
        assert [found.pid for _, found in pointers(directory)] == [os.getpid()]
    assert kept.read_text() == "kept"


def test_no_directory_with_a_path_that_is_short_enough(directory, monkeypatch):
    monkeypatch.setattr(place_module, "_MOST_PATH", 8)
    with pytest.raises(OSError, match="set XDG_RUNTIME_DIR or TMPDIR"):
        RunControl(serve=directory)
    assert list(directory.iterdir()) == []


def test_a_forked_child_does_not_serve_nor_tidy_up(control, directory):
    pid = os.fork()
    if pid == 0:
        control.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert the_remote(directory).ask("runs")["ok"] is True


def test_two_processes_serve_from_one_directory(control, directory):
    with RunControl(serve=directory):
        assert [remote.ask("runs")["ok"] for remote in remotes(directory)] == [True, True]
    assert len(remotes(directory)) == 1


def test_the_environment_names_the_directory(directory, monkeypatch):
    monkeypatch.setenv("ACTIONSPAN_CONTROL", str(directory))
    with RunControl(), RunControl():
        assert the_remote(directory).ask("runs")["ok"] is True
    monkeypatch.delenv("ACTIONSPAN_CONTROL")
    with RunControl():
        assert list(directory.iterdir()) == []


@pytest.mark.parametrize("first", ["application", "instrumentor"])
async def test_a_verb_from_the_environments_directory_reaches_a_run_once(directory, monkeypatch, build, first):
    monkeypatch.setenv("ACTIONSPAN_CONTROL", str(directory))
    with contextlib.ExitStack() as stack:
        if first == "instrumentor":
            stack.enter_context(capture())
        own = stack.enter_context(RunControl())
        if first == "application":
            stack.enter_context(capture())
        agent, told = build("done", capabilities=[own.capability()])
        async with agent.iter("go") as run:
            for remote in remotes(directory):
                await asyncio.to_thread(remote.ask, "steer", directive="once")
            await drive(run)
    assert told.requests == [["go", "once"]]


def test_an_instrumented_process_serves_what_the_environment_names(directory, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("ACTIONSPAN_CONTROL", str(directory))
    with capture():
        assert the_remote(directory).ask("runs")["ok"] is True
    assert list(directory.iterdir()) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACTIONSPAN_CONTROL", str(tmp_path / "file"))
    with capture():
        pass
    assert "ACTIONSPAN_CONTROL" in caplog.text
    assert "cannot be served from" in caplog.text


# --- the command line ---


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["control", *map(str, arguments)])
    return result.exit_code, result.output


async def test_the_command_line(control, directory, build, waiting):
    agent, _ = build("wait", "done", tools={"wait": waiting}, name="support")
    run = asyncio.create_task(agent.run("go"))
    await waiting.started.wait()
    run_id = control.status()[0].run_id

    def cli(*arguments):
        return asyncio.to_thread(call, directory, *arguments)

    code, shown = await cli("runs")
    assert code == 0
    assert f"running  support  1        -       {run_id}" in shown
    assert await cli("pause", "--agent-id", "support") == (0, f"pending  support  run {run_id}\n")
    assert (await cli("steer", "x", "--agent-id", "nobody")) == (1, "actionspan: no run matches\n")
    code, shown = await cli("restore", "nothing")
    assert (code, "no checkpoint 'nothing'" in shown) == (2, True)
    code, shown = await cli("steer", "x", "--priority", "soon")
    assert (code, "--priority" in shown, "'high'" in shown) == (2, True, True)
    code, shown = await cli("resume", "--json")
    assert json.loads(shown)[0]["targets"][0]["state"] == "done"
    waiting.may_end.set()
    await run
    assert "ended" in (await cli("pause", "--agent-id", run_id))[1]
    control.close()
    assert await cli("runs") == (1, f"actionspan: no process serves control from {directory}\n")


def test_a_reason_from_elsewhere_cannot_steer_the_terminal(control, directory):
    run = control.attach(RunIdentity("a\x1b[31m", "r"), Port())
    control.abort("\x1b]0;owned\x07", now=True)
    code, shown = call(directory, "runs")
    control.detach(run, cancelled=True)
    assert (code, "\x1b" in shown, "\\x1b[31m" in shown) == (0, False, True)


def test_threads_end_with_the_server(directory):
    before = threading.active_count()
    with RunControl(serve=directory), connected(directory) as connection:
        connection.sendall(b'{"v":1,"verb":"runs"}\n')
        assert said(connection)["ok"] is True
    assert not any(thread.name == "actionspan-control" for thread in threading.enumerate())
    assert threading.active_count() <= before + 1


async def test_the_runs_as_json(control, directory, build):
    def runs() -> tuple[int, str]:
        return call(directory, "runs", "--json")

    code, shown = await asyncio.to_thread(runs)
    assert (code, shown) == (1, "[]\nactionspan: no runs\n")
    agent, _ = build("done", name="support")
    async with agent.iter("go") as run:
        code, shown = await asyncio.to_thread(runs)
        await drive(run)
    (seen,) = json.loads(shown)
    assert (code, seen["pid"], seen["agent_name"], seen["state"]) == (0, os.getpid(), "support", "running")

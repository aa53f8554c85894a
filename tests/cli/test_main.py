"""The program as a shell starts it: exit codes, pipes, terminals that can do less, and what is not installed."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from actionspan.cli._app import app
from cli.conftest import Call, Record

NAMED = 'import sys; sys.argv[0] = "actionspan"'
"""Completion is for a program of this name."""
PROGRAM = [sys.executable, "-c", "from actionspan.cli import main; main()"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def run(*arguments: object, code: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM if code is None else [sys.executable, "-c", f"{code}; from actionspan.cli import main; main()"]
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run([*program, *map(str, arguments)], capture_output=True, text=True, env=kept | env, check=False)


@pytest.fixture
def directory(record: Record) -> Path:
    run = record.action("agent.run", "hélper")
    record.action("tool.execute", "lookup", parent=run, outcome="error", error="KeyError")
    return record.close()


def on_a_terminal(directory: Path, **env: str) -> str:
    """What `show` writes when a terminal reads it."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*PROGRAM, "show", str(directory)],
        stdout=slave, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"} | env,
    )  # fmt: skip
    os.close(slave)
    chunks: list[bytes] = []
    try:
        while chunk := os.read(master, 65536):
            chunks.append(chunk)
    except OSError:  # the terminal is gone with the program
        pass
    os.close(master)
    assert child.wait() == 0
    return b"".join(chunks).decode()


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing: str):
    result = run("show", "x", code=f"import sys; sys.modules[{missing!r}] = None")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "actionspan: the command line needs typer and rich: pip install 'actionspan[cli]'\n"


def test_without_pydantic_ai_only_the_demo_is_missing(directory: Path):
    code = "import sys; sys.modules['pydantic_ai'] = None"
    result = run("demo", code=code)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "actionspan: the demo needs Pydantic AI: pip install 'actionspan[instruments]'\n"
    assert run("show", directory, code=code).returncode == 0
    checked = run("leakcheck", "module:agent", "hi", code=code)
    assert (checked.returncode, checked.stdout) == (2, "")
    assert checked.stderr == "actionspan: leakcheck needs Pydantic AI: pip install 'actionspan[instruments]'\n"


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [("msgspec", ["show", "x"]), ("pydantic_graph", ["demo"]), ("pydantic_graph", ["leakcheck", "module:agent", "hi"])],
)
def test_a_broken_installation_is_not_said_to_be_a_missing_extra(missing: str, arguments: list[str]):
    result = run(*arguments, code=f"import sys; sys.modules[{missing!r}] = None")
    assert (result.returncode, result.stdout) == (1, "")
    assert "ModuleNotFoundError" in result.stderr
    assert missing in result.stderr.splitlines()[-1]
    assert "pip install" not in result.stderr


def test_reading_a_record_does_not_import_pydantic_ai(directory: Path):
    code = "import atexit, sys; atexit.register(lambda: print('pydantic_ai' in sys.modules, file=sys.stderr))"
    assert run("stats", directory, code=code).stderr == "False\n"


def test_a_locale_that_is_not_utf_8_is_no_error(directory: Path):
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (["--help"], ["show", directory], ["query", directory], ["stats", directory], ["doctor"]):
        result = run(*arguments, **poor)
        assert (result.returncode, result.stderr) == (0, ""), arguments
        assert result.stdout.isascii()
    assert json.loads(run("show", directory, "--json", **poor).stdout)["runs"][0]["name"] == "h\xe9lper"
    odd = Record(directory.with_name("r\xe9cord-\udcff"))  # the last is no UTF-8 either
    for number in range(2):
        odd.action("agent.run", "a", trace=f"{number + 1:032x}")
    odd.close()
    for arguments in (["show"], ["verify"], ["show", "--json"], ["report", "-o", odd.directory / "page"]):
        for env in (poor, {"PYTHONIOENCODING": "ascii:strict"}, {"PYTHONIOENCODING": "utf-8:strict"}):
            result = run(arguments[0], odd.directory, *arguments[1:], **env)
            assert (result.returncode, result.stderr) == (0, ""), arguments


def test_a_wrong_option_or_time_is_a_usage_error(directory: Path):
    assert run("show", directory, "--nonsense").returncode == 2
    naive = run("query", directory, "--since", "2024-01-01T00:00:00")
    assert (naive.returncode, naive.stderr.count("\n"), "no offset" in naive.stderr) == (2, 1, True)
    assert "actionspan 0" in run("--version").stdout


def test_a_pipe_gets_plain_text_at_a_width_that_suits_logs(directory: Path):
    result = run("show", directory)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) > 100


def test_a_terminal_gets_colour_unless_it_is_told_not_to(directory: Path):
    coloured = on_a_terminal(directory)
    assert COLOUR.search(coloured)
    plain = on_a_terminal(directory, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3\dm", plain)
    assert COLOUR.sub("", coloured) == COLOUR.sub("", plain)


def with_errors_on_a_terminal(*arguments: str) -> tuple[bytes, str]:
    """What the program writes to a pipe, and meanwhile to a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE, stderr=slave, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:  # the terminal is gone with the program
        pass
    os.close(master)
    output, _ = child.communicate()
    assert child.returncode == 0
    return output, shown.decode()


def test_the_demo_says_on_a_terminal_that_it_is_at_work(tmp_path: Path):
    output, shown = with_errors_on_a_terminal("demo", "--pace", "0", "--json", "--record", str(tmp_path / "record"))
    assert "the support agent is at work" in shown
    assert len(json.loads(output)["runs"]) == 3


@pytest.mark.parametrize("command", ["verify", "compact", "erase"])
def test_long_work_has_a_bar_on_a_terminal_and_none_in_a_pipe(directory: Path, command: str):
    if command == "compact":
        pytest.importorskip("zstandard")
    arguments = [command, str(directory), *(["--where", "name=lookup", "--yes"] if command == "erase" else [])]
    output, shown = with_errors_on_a_terminal(*arguments)
    assert "0/1" in COLOUR.sub("", shown)
    assert b"\x1b" not in output
    piped = run("verify", directory)
    assert (piped.returncode, piped.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_every_shell(shell: str):
    script = run(_ACTIONSPAN_COMPLETE=f"source_{shell}", code=NAMED)
    assert (script.returncode, "_ACTIONSPAN_COMPLETE=complete_" + shell in script.stdout) == (0, True)


def test_bash_completes_commands_options_and_verbs(tmp_path: Path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    program = tmp_path / "actionspan"
    program.write_text(f"#!{sys.executable}\nfrom actionspan.cli import main\nmain()\n")
    program.chmod(0o755)
    asking = """
        eval "$(actionspan --show-completion)"
        ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _actionspan_completion actionspan; echo "${COMPREPLY[@]}"; }
        ask actionspan qu; ask actionspan query --si; ask actionspan control record re
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([bash, "--norc", "-c", asking], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["query", "--since", "resume restore"]


def test_installing_completion_writes_to_the_home_directory(tmp_path: Path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    program = f"{sys.executable} -c '{NAMED}; from actionspan.cli import main; main()'"
    env = {**os.environ, "HOME": str(tmp_path)}
    command = [bash, "--norc", "-c", f"{program} --install-completion; exit $?"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "completion installed" in done.stdout
    assert "_ACTIONSPAN_COMPLETE" in "".join(path.read_text() for path in tmp_path.rglob("*actionspan*"))


def _commands(group: TyperGroup, *above: str) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield [*above, name], command
            yield from _commands(command, *above, name, "DIR")
        else:
            yield [*above, name], command


@pytest.mark.parametrize("words", [" ".join(words) for words, _ in _commands(get_command(app))])
def test_every_command_has_an_example_in_its_help(call: Call, words: str):
    result = call(*words.replace("DIR", "record").split(), "--help", env={"COLUMNS": "100"})
    assert result.exit_code == 0
    example = f"actionspan {words.replace('DIR', 'record')}"
    assert example in result.stdout.partition("Examples")[2]


def test_an_ascii_terminal_gets_ascii(directory: Path):
    result = run("show", directory, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (result.returncode, result.stdout.isascii()) == (0, True)
    assert "`- x lookup - KeyError" in result.stdout
    assert "h\\xe9lper" in result.stdout


@pytest.mark.parametrize("options", [["--json"], []])
@pytest.mark.parametrize("actions", [1, 2_000])
@pytest.mark.parametrize("command", ["query", "show", "stats"])
def test_a_reader_that_goes_away_is_no_error(record: Record, command: str, actions: int, options: list[str]):
    for _ in range(actions):
        record.action("tool.execute", "x")
    reading, writing = os.pipe()
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    arguments = [*PROGRAM, command, str(record.close()), *options]
    child = subprocess.Popen(arguments, stdout=writing, stderr=subprocess.PIPE, env=buffered)
    os.close(writing)
    os.close(reading)
    _, errors = child.communicate()
    assert (child.returncode, errors) == (0, b"")


def test_a_reader_that_goes_away_in_the_middle_is_no_error_either(record: Record):
    for _ in range(2_000):
        record.action("tool.execute", "x")
    child = subprocess.Popen([*PROGRAM, "query", str(record.close())], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


def test_interrupting_is_quiet(directory: Path):
    # What a shell starts in the background, as it may have this test, is not interrupted.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {PROGRAM[-1]}"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "tail", str(directory), "--from-start"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()  # it is at work
    child.send_signal(2)
    _, errors = child.communicate()
    assert (child.returncode, errors) == (130, b"")


def test_each_line_of_query_is_one_json_object(directory: Path):
    lines = run("query", directory, "--kind", "tool.*", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["tool.execute.start", "tool.execute.error"]

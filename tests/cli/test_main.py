"""The program as a shell starts it: exit codes, pipes, terminals that can do less, and what is not installed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Record

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


def test_reading_a_record_does_not_import_pydantic_ai(directory: Path):
    code = "import atexit, sys; atexit.register(lambda: print('pydantic_ai' in sys.modules, file=sys.stderr))"
    assert run("stats", directory, code=code).stderr == "False\n"


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


def test_an_ascii_terminal_gets_ascii(directory: Path):
    result = run("show", directory, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (result.returncode, result.stdout.isascii()) == (0, True)
    assert "`- x lookup - KeyError" in result.stdout
    assert "h\\xe9lper" in result.stdout


@pytest.mark.parametrize("options", [["--json"], []])
def test_a_reader_that_goes_away_is_no_error(record: Record, options: list[str]):
    for _ in range(2_000):
        record.action("tool.execute", "x")
    child = subprocess.Popen(
        [*PROGRAM, "query", str(record.close()), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    child.wait()


def test_interrupting_is_quiet(directory: Path):
    child = subprocess.Popen(
        [*PROGRAM, "tail", str(directory), "--from-start"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()  # it is at work
    child.send_signal(2)
    _, errors = child.communicate()
    assert (child.returncode, errors) == (130, b"")


def test_each_line_of_query_is_one_json_object(directory: Path):
    lines = run("query", directory, "--kind", "tool.*", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["tool.execute.start", "tool.execute.error"]

"""What `replay`, `verify`, `erase` and `compact` answer when not all is well, and to programs."""

from __future__ import annotations

import json
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from actionspan import JsonlRecorder
from actionspan.recorder import read
from cli.conftest import START, Call, Record

PROGRAM = Path(sys.executable).with_name("actionspan")


class Receiver:
    """An OTLP/HTTP endpoint that answers as it is told."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.answer = ExportTraceServiceResponse()
        self.headers: dict[str, str] = {}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            told.headers = dict(self.headers)
            self.send_response(told.status)
            self.end_headers()
            self.wfile.write(told.answer.SerializeToString())

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        told = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield told
        server.shutdown()
        thread.join()


def two_actions(record: Record) -> Path:
    record.action("tool.execute", "done")
    record.action("tool.execute", "lost", at=1, took=None)
    return record.close()


def test_a_replay_says_what_never_ended_and_what_was_refused(record: Record, receiver: Receiver, call: Call):
    receiver.answer.partial_success.rejected_spans = 1
    receiver.answer.partial_success.error_message = "too\x1b[31m old"
    result = call("replay", two_actions(record), "--otlp", receiver.url, "--header", "Authorization=Bearer x")
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            "1 span sent in 1 request",
            "1 of them never ended, and say so (actionspan.unfinished)",
            "1 span refused",
            "the receiver said: too\\x1b[31m old",
        ],
    )
    assert receiver.headers["Authorization"] == "Bearer x"


def test_a_replay_told_to_a_program(record: Record, receiver: Receiver, call: Call):
    result = call("replay", two_actions(record), "--otlp", receiver.url, "--json")
    report = json.loads(result.stdout)
    assert (report["exported"], report["unfinished"], report["rejected"]) == (2, 1, 0)


def test_a_replay_says_what_no_span_can_be_made_of(record: Record, receiver: Receiver, call: Call):
    record.action("tool.execute", "no ids", trace="not hexadecimal")
    result = call("replay", two_actions(record), "--otlp", receiver.url)
    assert result.exit_code == 0
    assert "left out: no span can be made of" in result.stdout


def test_a_receiver_that_refuses_everything(record: Record, receiver: Receiver, call: Call):
    receiver.status = 401
    result = call("replay", two_actions(record), "--otlp", receiver.url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{receiver.url} does not take the spans" in result.stderr


def test_a_record_without_spans_is_not_replayed(tmp_path: Path, receiver: Receiver, call: Call):
    JsonlRecorder(tmp_path / "record").close()
    result = call("replay", tmp_path / "record", "--otlp", receiver.url)
    assert (result.exit_code, "no spans to send" in result.stderr) == (1, True)


def test_a_header_that_is_none_is_not_repeated(record: Record, receiver: Receiver, call: Call):
    result = call("replay", two_actions(record), "--otlp", receiver.url, "--header", "sk-secret")
    assert (result.exit_code, "NAME=VALUE" in result.stderr) == (2, True)
    assert "sk-secret" not in result.stderr


def test_every_kind_of_damage_is_named(record: Record, call: Call):
    action = {"kind": "tool.execute.end", "phase": "end", "trace_id": "t", "span_id": "s", "call_id": "twice\x1b[2J"}
    recorder = JsonlRecorder(record.directory)
    for _ in range(2):
        recorder.emit({**action, "action_id": "twice", "time_unix_nano": START})
    recorder.close()
    directory = two_actions(record)
    (segment, *_) = sorted(directory.glob("*.jsonl"))
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:-1], b"not an event\n", b'{"kind":"torn']))
    result = call("verify", directory)
    assert result.exit_code == 3
    said = " ".join(result.stdout.split())
    for words in (
        "1 line that no event can be read from",
        "twice\\x1b[2J ended more than once",
        "1 segment never closed",
        "1 segment with a torn last line",
        "2 actions without an outcome",
        "1 action never ended",
    ):
        assert words in said


def test_a_record_without_segments_is_neither_whole_nor_damaged(tmp_path: Path, call: Call):
    (tmp_path / "record").mkdir(mode=0o700)
    result = call("verify", tmp_path / "record")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no segments in" in result.stderr


def test_erasing_says_what_went_along_and_what_was_left(record: Record, call: Call):
    directory = two_actions(record)
    (segment,) = directory.glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:2], b"not an event\n", *lines[2:]]))
    with JsonlRecorder(directory) as recorder:
        recorder.emit({"kind": "tool.execute.start", "name": "done"})
        result = call("erase", directory, "--where", "name=done", "--yes")
    assert result.exit_code == 0
    said = result.stdout.splitlines()
    assert said[0] == "2 events removed, 1 segment rewritten"
    assert said[1] == "1 unreadable line of those segments went with them"
    assert said[2].startswith("left alone (being written, erase again later): actions-")
    assert call("verify", directory, "--json").exit_code == 0
    again = call("erase", directory, "--where", "name=lost", "--yes", "--json")
    assert json.loads(again.stdout)["events"] == 1


def test_compressing_told_to_a_program(record: Record, call: Call):
    pytest.importorskip("zstandard")
    report = json.loads(call("compact", two_actions(record), "--json").stdout)
    assert report["segments"] == 1
    assert report["bytes_after"] < report["bytes_before"]


@pytest.mark.parametrize(("typed", "left"), [("n\n", 3), ("\n", 3), ("y\n", 1)])
def test_erasing_asks_whoever_is_there(record: Record, typed: str, left: int):
    directory = two_actions(record)
    ours, theirs = pty.openpty()
    command = [PROGRAM, "erase", str(directory), "--where", "name=done"]
    with open(ours, "wb", buffering=0) as keyboard, open(theirs, "rb", buffering=0) as stdin:
        keyboard.write(typed.encode())
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    assert "for good? [y/N]" in " ".join(done.stderr.split())
    assert done.returncode == (0 if left == 1 else 1)
    assert len(list(read(directory).query())) == left


@pytest.mark.parametrize("command", ["query", "verify", "stats", "compact"])
def test_progress_on_a_terminal_is_not_in_what_a_program_reads(command: str, record: Record, call: Call):
    pytest.importorskip("zstandard")
    directory = two_actions(record)
    answer = call(command, directory, "--json", env={"TTY_COMPATIBLE": "1", "TERM": "xterm"})
    assert answer.exit_code == 0
    assert "\x1b" in answer.stderr
    for line in answer.stdout.splitlines():
        json.loads(line)

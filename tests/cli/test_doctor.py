"""`doctor`: what it finds in an environment, with which exit code, and that it keeps secrets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from opentelemetry.instrumentation.dependencies import DependencyConflict

from actionspan import PydanticAIInstrumentor
from actionspan.cli import _checks
from cli.conftest import Call

SECRET = "s3cr3t-t0ken"


@pytest.fixture
def listening() -> Iterator[str]:
    """The URL of something that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> Iterator[str]:
    """The URL of a port that nobody else can have and nobody listens at."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def examine(call: Call, monkeypatch: pytest.MonkeyPatch):
    """The state and the words of every check in an environment; the exit code must go with them."""

    def examined(**variables: object) -> dict[str, tuple[str, str]]:
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        result = call("doctor", "--json")
        answer = json.loads(result.stdout)
        problems = [check for check in answer["checks"] if check["state"] == "problem"]
        assert (answer["fine"], result.exit_code) == ((False, 1) if problems else (True, 0))
        return {check["name"]: (check["state"], check["says"]) for check in answer["checks"]}

    return examined


def test_nothing_set_is_fine_and_says_what_that_means(call: Call):
    result = call("doctor")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "nothing wrong")
    for words in (
        "ceiling         metadata (the default",
        "admitted without code: no content",
        "in the supported range",
    ):
        assert words in result.stdout


def test_a_whole_configuration(examine, tmp_path: Path, listening: str):
    found = examine(
        ACTIONSPAN_AUDIT="content",
        ACTIONSPAN_CAPTURE="tool_arguments,tool_results",
        ACTIONSPAN_RECORD=tmp_path / "record",
        ACTIONSPAN_REDACTOR="json:dumps",
        OTEL_TRACES_EXPORTER="otlp,jsonl",
        OTEL_EXPORTER_OTLP_ENDPOINT=listening,
        ACTIONSPAN_JSONL=tmp_path / "spans",
    )
    assert found["ceiling"] == ("fine", "content (ACTIONSPAN_AUDIT)")
    assert found["policy"][1].startswith("admitted without code: tool_arguments, tool_results (")
    assert found["record"] == ("fine", f"{tmp_path}/record does not exist yet, and can be made")
    assert found["redactor"][0] == "fine"
    assert found["exporter otlp"] == ("fine", f"{listening} answers")
    assert found["exporter jsonl"][0] == "fine"
    assert not (tmp_path / "record").exists()
    assert not (tmp_path / "spans").exists()


@pytest.mark.parametrize(
    ("variables", "check", "words"),
    [
        ({"ACTIONSPAN_AUDIT": "off"}, "ceiling", "off (ACTIONSPAN_AUDIT): nothing is traced and nothing recorded"),
        (
            {"ACTIONSPAN_AUDIT": "all"},
            "variables",
            "ACTIONSPAN_AUDIT='all' is not one of off, metadata, content: nothing is traced",
        ),
        ({"OTEL_SDK_DISABLED": "true"}, "sdk", "OTEL_SDK_DISABLED=true switches everything off"),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis, pydantic_ai"},
            "loader",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS leaves pydantic_ai out",
        ),
        (
            {"ACTIONSPAN_REDACTOR": "no_such_package.mod:redact"},
            "redactor",
            "no_such_package.mod:redact: there is no package no_such_package, so no content is captured",
        ),
        (
            {"OTEL_CONFIG_FILE": "/nowhere/otel.yaml"},
            "exporter",
            "decided by the file /nowhere/otel.yaml (OTEL_CONFIG_FILE), which is not read here",
        ),
    ],
)
def test_what_a_variable_switches_off(examine, variables: dict[str, str], check: str, words: str):
    assert examine(**variables)[check] == ("problem", words)


def test_an_exporter_that_is_not_installed(examine):
    state, words = examine(OTEL_TRACES_EXPORTER="console,carrier_pigeon")["exporter"]
    assert (state, words.partition(";")[0]) == ("problem", "carrier_pigeon is not installed")


def test_no_exporter_is_a_choice(examine):
    assert examine(OTEL_TRACES_EXPORTER="none")["exporter"][0] == "note"


def test_a_directory_that_cannot_be_recorded_to(examine, tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    assert examine(ACTIONSPAN_RECORD=file)["record"] == ("problem", f"{file} is not a directory")
    assert examine(ACTIONSPAN_RECORD=file / "below")["record"][0] == "problem"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert examine(ACTIONSPAN_RECORD=empty)["record"] == ("fine", f"{empty} is ours to write to")
    assert examine(ACTIONSPAN_CONTROL=tmp_path / "new")["control"][0] == "fine"
    assert sorted(tmp_path.iterdir()) == [empty, file]  # what was tried is gone again
    assert list(empty.iterdir()) == []
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    assert "writable by others" in examine(ACTIONSPAN_RECORD=shared)["record"][1]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system that not even root may write to")
def test_permission_bits_are_not_believed(examine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.access", lambda *_: True)  # as it is for root
    assert examine(ACTIONSPAN_RECORD="/proc/record")["record"] == (
        "problem", "/proc cannot be written to: No such file or directory",
    )  # fmt: skip
    state, words = examine(ACTIONSPAN_RECORD="/proc/self")["record"]
    assert (state, words.partition(":")[0]) == ("problem", "/proc/self cannot be written to")


def test_an_endpoint_that_does_not_answer_is_wrong_only_when_somebody_named_it(examine, closed: str, monkeypatch):
    found = examine(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{closed}/v1/traces")["exporter otlp"]
    assert (found[0], found[1].startswith(f"nothing answers at {closed}: ")) == ("problem", True)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    monkeypatch.setattr(_checks, "_PORTS", {"grpc": int(closed.rpartition(":")[2])})
    assert examine()["exporter otlp"][0] == "note"


def test_the_port_follows_the_protocol(examine, closed: str, listening: str, monkeypatch):
    monkeypatch.setattr(_checks, "_PORTS", {"grpc": int(closed.rpartition(":")[2])})
    monkeypatch.setattr(_checks, "_HTTP_PORT", int(listening.rpartition(":")[2]))
    assert examine(OTEL_TRACES_EXPORTER="otlp")["exporter otlp"][0] == "problem"
    assert examine(OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf")["exporter otlp"][0] == "fine"


@pytest.mark.parametrize("endpoint", ["localhost:port", "http://", "http://[::1"])
def test_an_endpoint_that_is_none(examine, endpoint: str):
    assert examine(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)["exporter otlp"][0] == "problem"


def test_a_library_that_is_absent_or_too_old(examine, monkeypatch: pytest.MonkeyPatch):
    version_of = _checks._version_of
    monkeypatch.setattr(_checks, "_version_of", lambda name: None if name == "pydantic-ai-slim" else version_of(name))
    assert examine()["pydantic ai"] == ("problem", "is not installed: pip install 'actionspan[instruments]'")
    monkeypatch.setattr(_checks, "_version_of", lambda name: "1.0")
    conflict = DependencyConflict("pydantic-ai-slim >= 2.64", "pydantic-ai-slim 1.0")
    monkeypatch.setattr(_checks, "get_dependency_conflicts", lambda needed: conflict)
    assert examine()["pydantic ai"] == ("problem", "1.0 is not supported: it must be pydantic-ai-slim >= 2.64")


def test_a_loader_that_would_find_nothing_or_too_much(examine, monkeypatch: pytest.MonkeyPatch):
    ours = EntryPoint("pydantic_ai", "actionspan.instrumentor:PydanticAIInstrumentor", "opentelemetry_instrumentor")
    theirs = EntryPoint("pydantic_ai", "elsewhere:Instrumentor", "opentelemetry_instrumentor")
    distro = EntryPoint("distro", "distro:Distro", "opentelemetry_distro")

    def installed(*points: EntryPoint) -> None:
        monkeypatch.setattr(_checks, "entry_points", EntryPoints(points).select)

    installed(distro, theirs)
    assert examine()["loader"][0] == "problem"
    installed(ours)
    assert "no opentelemetry-distro" in examine()["loader"][1]
    installed(ours, distro)
    found = examine()
    assert (found["loader"][0], "other tracing" in found) == ("fine", False)
    installed(ours, distro, theirs)
    assert examine()["other tracing"][0] == "problem"


def test_an_instrumented_process_says_so(examine):
    assert examine()["this process"][0] == "note"
    PydanticAIInstrumentor().instrument()
    assert examine()["this process"] == ("fine", "is instrumented")


def test_no_secret_is_printed(call: Call, monkeypatch: pytest.MonkeyPatch, closed: str):
    address = closed.removeprefix("http://")
    for variables in (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@{address}/{SECRET}?key={SECRET}"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@host:{SECRET}"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@host\N{ACCOUNT OF}"},
    ):
        variables |= {
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {SECRET}",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": SECRET,
            "ACTIONSPAN_QUERY_HEADERS": f"authorization={SECRET}",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for arguments in (["doctor"], ["doctor", "--json"]):
            result = call(*arguments)
            assert result.exit_code == 1
            assert SECRET not in result.output
    monkeypatch.setenv("ACTIONSPAN_QUERY_HEADERS", SECRET)
    assert SECRET not in call("doctor").output


def test_a_wrong_option_is_a_usage_error(call: Call):
    assert call("doctor", "--nonsense").exit_code == 2

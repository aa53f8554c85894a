"""`actionspan query` of a backend."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from actionspan.cli._app import app
from backends.conftest import Story
from backends.servers import Backend, Jaeger, Tempo


def url_of(backend: Backend, secure: str = "") -> str:
    place = backend.url.removeprefix("http://")
    return f"jaeger{secure}://{place}?service=shop" if isinstance(backend, Jaeger) else f"tempo{secure}://{place}"


def test_query(backend: Backend, story: Story):
    story.tell(backend)
    arguments = ["--kind", "tool.*", "--agent-id", "agent 1", "--where", "name=lookup", "--since", "2h", "--json"]
    done = CliRunner().invoke(app, ["query", url_of(backend), *arguments])
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(event["kind"], event["agent_id"], event["name"]) for event in found] == [
        ("tool.execute.error", "agent 1", "lookup"),
        ("tool.execute.error", "agent 1", "lookup"),
    ]


def test_as_text(backend: Backend, story: Story):
    story.tell(backend)
    done = CliRunner().invoke(app, ["query", url_of(backend), "--kind", "model.*", "--limit", "1"])
    assert done.exit_code == 0, done.output
    assert "model.request.end" in done.stdout


def test_nothing(backend: Backend):
    done = CliRunner().invoke(app, ["query", url_of(backend), "--since", "1h"])
    assert done.exit_code == 1
    assert f"nothing in {url_of(backend)} satisfies that" in done.stderr


def test_the_encrypted_form(backend: Backend):
    done = CliRunner().invoke(app, ["query", url_of(backend, "+https")])
    assert done.exit_code == 2
    assert "actionspan: GET https://127.0.0.1" in done.stderr


def test_headers_of_the_environment(tempo: Tempo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_QUERY_HEADERS", "X-Scope-OrgID=acme")
    CliRunner().invoke(app, ["query", url_of(tempo), "--since", "1h"])
    assert tempo.requests[0].headers["X-Scope-OrgID"] == "acme"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("jaeger://localhost:16686", "name it, as in jaeger://localhost:16686?service=NAME"),
        ("jaeger://localhost:16686?service=", "name it, as in jaeger://localhost:16686?service=NAME"),
        ("jaeger://localhost:16686?server=x", "jaeger:// does not know the parameter 'server'; it may be service"),
        ("tempo://localhost:3200?service=x", "does not know the parameter 'service': it takes no parameters"),
        ("tempo://", "is not the http or https URL"),
        ("zipkin://localhost", "it must be a directory, tempo://..., tempo+https://..., jaeger://..., jaeger+https://"),
    ],
)
def test_a_source_that_is_none(source: str, message: str):
    done = CliRunner().invoke(app, ["query", source])
    assert done.exit_code == 2
    assert message in done.stderr

"""Reaching a backend: headers, time limits, errors, and URLs that are none."""

from __future__ import annotations

import socket

import pytest

from actionspan.backends import BackendError, JaegerRecorder, TempoRecorder, _http
from backends.conftest import Story, recorder_of
from backends.servers import Backend, Reply

AT = {"since": 1_700_000_000, "until": 1_700_000_001}
SECRET = "Bearer the-query-token"


def test_headers_come_from_their_own_variable(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_QUERY_HEADERS", f"Authorization={SECRET},X-Scope-OrgID=acme")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer the-ingest-token")
    list(recorder_of(backend).query(**AT))
    headers = backend.requests[0].headers
    assert (headers["Authorization"], headers["X-Scope-OrgID"]) == (SECRET, "acme")


def test_an_argument_beats_the_variable(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_QUERY_HEADERS", "X-Scope-OrgID=acme")
    list(recorder_of(backend, headers={"Authorization": SECRET}).query(**AT))
    headers = backend.requests[0].headers
    assert headers["Authorization"] == SECRET
    assert "X-Scope-OrgID" not in headers


def test_a_netrc_file_does_not_replace_the_header(backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: object):
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:
        file.write("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", netrc)
    list(recorder_of(backend, headers={"Authorization": SECRET}).query(**AT))
    assert backend.requests[0].headers["Authorization"] == SECRET


def test_redirections_are_not_followed(backend: Backend):
    backend.scripted.append(Reply("", 302, headers={"Location": "http://elsewhere.example/login"}))
    with pytest.raises(BackendError, match=r"points elsewhere \('http://elsewhere\.example/login'\)"):
        list(recorder_of(backend, headers={"X-Api-Key": "secret"}).query(**AT))
    assert len(backend.requests) == 1


def test_a_backend_that_never_answers(backend: Backend):
    backend.silent = True
    with pytest.raises(BackendError, match=r"GET http://127\.0\.0\.1:\d+/api/\S+ got no answer within 0\.05 seconds"):
        list(recorder_of(backend, timeout_seconds=0.05).query(**AT))


def test_nobody_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(BackendError, match=f"GET {url}/api/search failed: no connection, or it was cut"):
            list(TempoRecorder(url).query(**AT))


def test_https_to_a_server_that_has_none(backend: Backend):
    url = backend.url.replace("http://", "https://")
    with pytest.raises(BackendError, match="certificate or TLS is not acceptable"):
        list(TempoRecorder(url).query(**AT))


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_refusal_is_said_in_the_backends_words(backend: Backend, status: int):
    backend.scripted.append(Reply("no\tvalid\ncredentials", status, "text/plain"))
    with pytest.raises(BackendError, match=f"GET {backend.url}/api/.* answered {status}: no valid credentials"):
        list(recorder_of(backend).query(**AT))


@pytest.mark.parametrize("body", ["null", "[]", '"text"', "7"])
def test_json_of_another_form_is_an_error_that_says_so(backend: Backend, body: str):
    backend.scripted.append(Reply(body))
    with pytest.raises(BackendError, match="answered JSON of another form than this API's: ") as raised:
        list(recorder_of(backend).query(**AT))
    assert str(raised.value).endswith(body)


def test_a_busy_backend_is_asked_again(backend: Backend, story: Story, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_http, "_PAUSE", 0)
    story.tell(backend)
    backend.scripted += [Reply("busy", 503), Reply("slower", 429, headers={"Retry-After": "3600"})]
    assert len(list(recorder_of(backend).query(since=story.began / 1e9))) == 20


def test_a_backend_that_stays_busy(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_http, "_PAUSE", 0)
    backend.scripted += [Reply("too many requests", 429)] * 4
    with pytest.raises(BackendError, match="answered 429: too many requests"):
        list(recorder_of(backend).query(**AT))
    assert len(backend.requests) == 4


def test_a_header_that_http_does_not_permit_is_not_repeated(backend: Backend):
    with pytest.raises(BackendError, match="a header has a name or value that HTTP does not permit") as raised:
        list(recorder_of(backend, headers={"Authorization": "the-secret\nX: y"}).query(**AT))
    assert "the-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:3200", "'localhost:3200' is not the http or https URL of a query API, such as http://localhost:"),
        ("grpc://localhost:3200", "is not the http or https URL"),
        ("http://", "is not the http or https URL"),
        ("http://localhost:3200/?x=1", "has a query or fragment"),
        ("http://me:secret@localhost:3200", "^a backend's URL has no user or password in it"),
    ],
)
def test_a_url_that_is_none(url: str, message: str):
    with pytest.raises(ValueError, match=message):
        TempoRecorder(url)
    with pytest.raises(ValueError, match=message):
        JaegerRecorder(url, service="x")


def test_a_path_before_the_api(backend: Backend):
    backend.scripted += [Reply('{"traces": []}')]
    list(TempoRecorder(backend.url + "/tempo/").query(**AT))
    assert backend.requests[0].path == "/tempo/api/search"

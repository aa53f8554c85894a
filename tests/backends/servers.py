"""Backends of the documented shape on a local port: they hold what is sent over OTLP and answer queries about it."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """What came in."""

    path: str
    parameters: dict[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """What goes out."""

    body: str
    status: int = 200
    kind: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Backend:
    """Holds spans; subclasses answer `reply`."""

    integers = False
    """Whether enumerations are numbers in its JSON."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.scripted: list[Reply] = []
        """Given out first, whatever is asked."""
        self.refuse_spans = False
        self.ingested_headers: list[Mapping[str, str]] = []
        self.resource_spans: list[dict[str, Any]] = []
        """One span in each."""
        self._release = threading.Event()
        self.silent = False
        """Whether it takes requests and never answers them."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def ingest(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        sent = MessageToDict(request, use_integers_for_enums=self.integers)
        for resource_spans in sent["resourceSpans"]:
            for scope_spans in resource_spans["scopeSpans"]:
                for span in scope_spans["spans"]:
                    self.resource_spans.append(resource_spans | {"scopeSpans": [scope_spans | {"spans": [span]}]})

    def traces(self) -> dict[str, list[dict[str, Any]]]:
        """The resource spans of each trace by its hexadecimal id, newest first: a backend promises no order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for resource_spans in reversed(self.resource_spans):
            found.setdefault(b64decode(the_span(resource_spans)["traceId"]).hex(), []).append(resource_spans)
        return found

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.silent:
            self._release.wait()
        return self.scripted.pop(0) if self.scripted else self.reply(request)

    def reply(self, request: Request) -> Reply:
        raise NotImplementedError


class Tempo(Backend):
    """As Tempo answers; what of the query is TraceQL is written down, not executed."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_range = 7 * 86_400
        self.jobs = (3, 3)
        self.hidden_from = 10**12
        """Seconds since the epoch: what began later is not found yet."""
        self.highest_limit = 10**6

    @property
    def queries(self) -> list[str]:
        return [request.parameters["q"] for request in self.requests if request.path == "/api/search"]

    def reply(self, request: Request) -> Reply:
        if request.path == "/api/search":
            return self._search(request.parameters)
        prefix, trace_id = request.path[:15], request.path[15:]
        if prefix != "/api/v2/traces/":
            return Reply("404 page not found", 404, TEXT)
        found = self.traces().get(trace_id)
        trace = {} if found is None else {"resourceSpans": found}
        return Reply(json.dumps({"trace": trace, "metrics": {}}))

    def _search(self, parameters: dict[str, str]) -> Reply:
        start, end, limit = (int(parameters[name]) for name in ("start", "end", "limit"))
        end = min(end, self.hidden_from)
        if start >= end:
            return Reply(f"http parameter start must be before end. received start={start} end={end}", 400, TEXT)
        if limit > self.highest_limit:
            return Reply(f"limit {limit} exceeds max limit {self.highest_limit}", 400, TEXT)
        if end - start > self.longest_range:
            message = (
                f"range specified by start and end exceeds {self.longest_range}s. received start={start} end={end}"
            )
            return Reply(message, 400, TEXT)
        found = [
            {"traceID": trace_id.lstrip("0"), "spanSet": {"matched": 1}}
            for trace_id, parts in self.traces().items()
            if any(start <= int(the_span(part)["startTimeUnixNano"]) / 1e9 < end for part in parts)
        ]
        done, total = self.jobs
        return Reply(json.dumps({"traces": found[:limit], "metrics": {"completedJobs": done, "totalJobs": total}}))


class Jaeger(Backend):
    """As Jaeger's third API is documented; that a real one answers like this was not tried."""

    integers = True
    spelling: ClassVar = {
        "service": "query.serviceName",
        "start": "query.startTimeMin",
        "end": "query.startTimeMax",
        "limit": "query.searchDepth",
        "attributes": "query.attributes",
    }

    def reply(self, request: Request) -> Reply:
        if request.path != "/api/v3/traces":
            return Reply("<html>its page, whatever the path</html>", 200, "text/html")
        given = {name: request.parameters.get(spelt) for name, spelt in self.spelling.items()}
        if given["start"] is None or given["end"] is None:
            needed = f"{self.spelling['start']} and {self.spelling['end']} are required"
            return self.error(400, needed)
        start, end = (datetime.fromisoformat(given[name]).timestamp() for name in ("start", "end"))
        wanted = json.loads(given["attributes"] or "{}")
        found: list[dict[str, Any]] = []
        for parts in list(self.traces().values()):
            if any(self._matches(part, given["service"], start, end, wanted) for part in parts):
                found.append({"parts": parts})
        found = found[: int(given["limit"] or 100)]
        if not found:
            return self.error(404, "No traces found")
        spans = [_in_hexadecimal(part) for trace in found for part in trace["parts"]]
        return Reply(json.dumps({"result": {"resourceSpans": spans}}))

    def reply_to_everything(self, service: str) -> str:
        """The answer that has all there is of a service."""
        times = {"start": "2000-01-01T00:00:00Z", "end": "2200-01-01T00:00:00Z"}
        given = {**times, "service": service}
        parameters = {self.spelling[name]: value for name, value in given.items()}
        return self.reply(Request("/api/v3/traces", parameters, {})).body

    @staticmethod
    def error(status: int, message: str) -> Reply:
        return Reply(json.dumps({"error": {"httpCode": status, "message": message}}) + "\n", status, TEXT)

    @staticmethod
    def _matches(part: dict[str, Any], service: str | None, start: float, end: float, wanted: dict[str, str]) -> bool:
        span = the_span(part)
        resource = {item["key"]: item["value"].get("stringValue") for item in part["resource"]["attributes"]}
        attributes = {item["key"]: item["value"].get("stringValue") for item in span.get("attributes", ())}
        return (
            resource.get("service.name") == service
            and start <= int(span["startTimeUnixNano"]) / 1e9 <= end
            and wanted.items() <= attributes.items()
        )


class OldJaeger(Jaeger):
    """As it was before the middle of 2026: other names, and attributes are ignored."""

    spelling: ClassVar = {
        "service": "query.service_name",
        "start": "query.start_time_min",
        "end": "query.start_time_max",
        "limit": "query.num_traces",
        "attributes": "nothing",
    }


def the_span(resource_spans: dict[str, Any]) -> dict[str, Any]:
    return resource_spans["scopeSpans"][0]["spans"][0]


def _in_hexadecimal(resource_spans: dict[str, Any]) -> dict[str, Any]:
    def hexed(value: Any) -> Any:
        if isinstance(value, list):
            return [hexed(item) for item in value]
        if isinstance(value, dict):
            ids = ("traceId", "spanId", "parentSpanId")
            return {key: b64decode(item).hex() if key in ids else hexed(item) for key, item in value.items()}
        return value

    return hexed(resource_spans)


def _handler(backend: Backend) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._send(backend.answer(Request(parts.path, dict(parse_qsl(parts.query)), dict(self.headers))))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            backend.ingested_headers.append(dict(self.headers))
            if backend.refuse_spans:
                self._send(Reply("no", 400, TEXT))
                return
            assert self.path == "/v1/traces"
            backend.ingest(body)
            self._send(Reply("", 200, "application/x-protobuf"))

        def _send(self, reply: Reply) -> None:
            body = reply.body.encode()
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(body)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except BrokenPipeError:
                pass  # whoever asked did not want to wait

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler

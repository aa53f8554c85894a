"""A collector that takes OTLP over HTTP and keeps what arrived."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_MESSAGES = (" http send", " http receive")


@dataclass(frozen=True)
class Arrived:
    """A span or a log record as it came over the wire."""

    name: str
    trace: str
    span: str
    parent: str
    kind: int
    attributes: dict[str, Any]


class Collector:
    """Listens on a port of its own from `with` on."""

    def __init__(self) -> None:
        self.spans: list[Arrived] = []
        """In the order they started."""
        self.logs: list[Arrived] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def trace(self, trace: str) -> list[Arrived]:
        """The spans of that trace that have arrived, but for the framework's one a message."""
        return [span for span in self.spans if span.trace == trace and not span.name.endswith(_MESSAGES)]

    def tree(self, trace: str) -> str:
        """A trace, a line a span, indented by parent."""
        spans = self.trace(trace)
        known = {span.span for span in spans}

        def lines(parent: str | None, depth: int) -> Iterator[str]:
            for span in spans:
                if span.parent == parent or (parent is None and span.parent not in known):
                    yield "  " * depth + span.name
                    yield from lines(span.span, depth + 1)

        return "\n".join(lines(None, 0))

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(collector) -> type[BaseHTTPRequestHandler]:  # the handler below has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found = [span for scope in resource.scope_spans for span in scope.spans]
                self.spans = [*self.spans, *map(_span, found)]
                self.spans.sort(key=lambda span: span.attributes["start"])
        elif path == "/v1/logs":
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.logs += [_log(record) for scope in resource.scope_logs for record in scope.log_records]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


def _span(span: Any) -> Arrived:
    attributes = {**_attributes(span.attributes), "start": span.start_time_unix_nano}
    return Arrived(span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.kind, attributes)


def _log(record: Any) -> Arrived:
    attributes = _attributes(record.attributes)
    return Arrived(record.body.string_value, record.trace_id.hex(), record.span_id.hex(), "", 0, attributes)

"""Sending one OTLP request, and what the receiver's answer means.

The SDK's exporter only says success or failure; a replay has to tell a request that is too large from one to try again
and from one that was partly refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast
from urllib.parse import urlsplit

import grpc
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

__all__ = ["Answer", "Sender", "Verdict", "sender_for"]

_TRACES_PATH: Final = "/v1/traces"
_RETRYABLE_HTTP: Final = frozenset({408, 429, 502, 503, 504})
_RETRYABLE_GRPC: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


class Verdict(Enum):
    """What to do about a request."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    TOO_LARGE = "too_large"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """The receiver's answer."""

    verdict: Verdict
    message: str = ""
    rejected: int = 0
    """Spans it did not take of a request it accepted."""
    retry_after: float | None = None
    """Seconds it asked to be left alone."""


Sender = Callable[[ExportTraceServiceRequest], Answer]


def sender_for(url: str, headers: Mapping[str, str] | None = None, timeout: float = 10.0) -> Sender:
    """A sender to `url`: http(s), where a missing path means `/v1/traces`, or grpc(s)://host:port.

    `timeout` in seconds. `ValueError` for another scheme.
    """
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        path = parts.path.rstrip("/") or _TRACES_PATH
        return _http_sender(parts._replace(path=path).geturl(), dict(headers or {}), timeout)
    if parts.scheme in ("grpc", "grpcs"):
        return _grpc_sender(parts.netloc, parts.scheme == "grpcs", dict(headers or {}), timeout)
    raise ValueError(f"{url!r}: an OTLP endpoint is an http, https, grpc or grpcs URL")


def _http_sender(url: str, headers: dict[str, str], timeout: float) -> Sender:
    session = requests.Session()
    session.headers.update({"Content-Type": "application/x-protobuf"} | headers)

    def send(request: ExportTraceServiceRequest) -> Answer:
        try:
            response = session.post(url, data=request.SerializeToString(), timeout=timeout)
        except (requests.ConnectionError, requests.Timeout) as error:
            return Answer(Verdict.RETRY, f"{type(error).__name__} at {url}")
        if response.ok:
            return _accepted(ExportTraceServiceResponse.FromString(response.content) if response.content else None)
        message = f"{response.status_code} {response.reason} from {url}"
        if response.status_code == requests.codes.request_entity_too_large:
            return Answer(Verdict.TOO_LARGE, message)
        if response.status_code in _RETRYABLE_HTTP:
            return Answer(Verdict.RETRY, message, retry_after=_seconds(response.headers.get("Retry-After")))
        return Answer(Verdict.REFUSED, message)

    return send


def _grpc_sender(target: str, secure: bool, headers: dict[str, str], timeout: float) -> Sender:
    credentials = grpc.ssl_channel_credentials() if secure else None
    channel = grpc.secure_channel(target, credentials) if credentials else grpc.insecure_channel(target)
    export = cast(Any, TraceServiceStub(channel)).Export
    metadata = tuple((name.lower(), value) for name, value in headers.items())

    def send(request: ExportTraceServiceRequest) -> Answer:
        try:
            return _accepted(export(request, timeout=timeout, metadata=metadata))
        except grpc.RpcError as error:
            code = cast(Any, error).code()
            message = f"{code.name} from {target}"
            if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return Answer(Verdict.TOO_LARGE, message)
            return Answer(Verdict.RETRY if code in _RETRYABLE_GRPC else Verdict.REFUSED, message)

    return send


def _accepted(response: ExportTraceServiceResponse | None) -> Answer:
    if response is None:
        return Answer(Verdict.ACCEPTED)
    partial = response.partial_success
    return Answer(Verdict.ACCEPTED, partial.error_message, rejected=partial.rejected_spans)


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:  # a date: our own backoff will do
        return None

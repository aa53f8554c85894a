"""An event as one line of JSON, whole or degraded field by field.

A line is `{"v":1,"seq":n,"time_unix_nano":t,"timestamp":s,...}`: the writer knows the first fields only when it holds
its lock, so a line is the head and the body, encoded apart.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from actionspan.recorder._values import PLAIN, jsonable, without_surrogates
from actionspan.recorder.contract import Event

__all__ = ["MAX_LINE", "SEGMENT_PREFIX", "Encoded", "encode_event", "encode_json", "line"]

MAX_LINE: Final = 2**20
"""Bytes of one line; a larger event loses its largest fields."""
SEGMENT_PREFIX: Final = "segment."
"""Kinds of a segment's own lines: header, context, trailer."""
_ASSIGNED: Final = frozenset({"v", "seq", "time_unix_nano", "timestamp", "resource_scope"})
"""Fields the writer fills, so they are not taken over from an event that was read back."""
_KEPT: Final = frozenset({"kind", "trace_id", "span_id", "parent_span_id", "phase", "call_id", "action_id"})
"""Fields that are never left out."""
_NESTING: Final = 200
"""Embedded content must decode with this much nesting to spare, so that every reader can."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Encoded(NamedTuple):
    """An event that is ready to be written, but for its place in a segment."""

    body: bytes
    """The fields after the head, from the first name to the closing brace."""
    time_unix_nano: int
    timestamp: float
    stated: bool
    """Whether the timestamp is the application's own and not made of the nanoseconds."""
    origin: Mapping[str, Any] | None
    """Resource and scope, for the writer to refer to."""


def encode_event(event: Event) -> Encoded:
    """`event` encoded. `ValueError`: no usable `kind` or time."""
    kind = event.get("kind")
    if not isinstance(kind, str) or not kind or kind.startswith(SEGMENT_PREFIX):
        raise ValueError(f"an event's kind must be a string that does not start with {SEGMENT_PREFIX!r}, not {kind!r}")
    nanoseconds, seconds = _moment(event.get("time_unix_nano"), event.get("timestamp"))
    fields: dict[str, Any] = {
        str(name): value if type(value) in PLAIN else jsonable(value)
        for name, value in event.items()
        if name not in _ASSIGNED
    }
    content = fields.get("content")
    if type(content) is dict:
        fields["content"] = {name: embedded(text) for name, text in cast(dict[str, Any], content).items()}
    body = encode_json(fields)
    if len(body) > MAX_LINE:
        body = _degraded(fields)
    origin = event.get("resource_scope")
    return Encoded(
        body[1:],
        nanoseconds,
        seconds,
        event.get("timestamp") is not None,
        cast(Mapping[str, Any], origin) if isinstance(origin, Mapping) else None,
    )


def line(encoded: Encoded, seq: int, origin: int | None) -> bytes:
    """The whole line of `encoded` at its place in a segment."""
    head = b'{"v":1,"seq":%d,"time_unix_nano":%d,"timestamp":%b,' % (
        seq,
        encoded.time_unix_nano,
        repr(encoded.timestamp).encode(),
    )
    reference = b"" if origin is None else b'"resource_scope":%d,' % origin
    return head + reference + encoded.body + b"\n"


def encode_json(value: Any) -> bytes:
    """`value`, which is `jsonable` or holds `msgspec.Raw`, as compact JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(without_surrogates(value))


def embedded(text: Any) -> Any:
    """Content as the JSON value it is the text of, byte for byte, or as it is when it cannot stand in a line.

    A text that is itself a JSON string stays text: embedded, it could not be told from text that is not JSON.
    """
    if type(text) is not str or not text or text[0] in ' \t"' or text[-1] in " \t" or "\n" in text or "\r" in text:
        return text
    try:
        raw = text.encode()
        _decode(b"[" * _NESTING + raw + b"]" * _NESTING)
    except (UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        return text
    return msgspec.Raw(raw)


def _moment(nanoseconds: Any, seconds: Any) -> tuple[int, float]:
    if seconds is not None and (type(seconds) not in (int, float) or not math.isfinite(seconds)):
        raise ValueError(f"an event's timestamp is in epoch seconds, not {seconds!r}")
    if nanoseconds is None:
        nanoseconds = time.time_ns() if seconds is None else round(seconds * 1e9)
    elif type(nanoseconds) is not int:
        raise ValueError(f"an event's time_unix_nano is an integer, not {nanoseconds!r}")
    return nanoseconds, nanoseconds / 1e9 if seconds is None else float(seconds)


def _degraded(fields: dict[str, Any]) -> bytes:
    """The event without as many of its largest fields as it takes; `omitted` says which, and their bytes."""
    sizes = sorted(_sizes(fields), key=lambda entry: entry[0], reverse=True)
    omitted: dict[str, int] = {}
    total = sum(size for size, _, _ in sizes)
    for size, group, name in sizes:
        if total < MAX_LINE * 3 // 4:
            break
        owner = fields if group is None else fields[group]
        del owner[name]
        omitted[name if group is None else f"{group}.{name}"] = size
        total -= size
    fields["omitted"] = omitted
    body = encode_json(fields)
    if len(body) <= MAX_LINE:
        return body
    kept = {name: fields[name] for name in _KEPT if len(encode_json(fields.get(name))) < 1024 and name in fields}
    return encode_json({"kind": "oversized", **kept, "omitted": {"*": len(body)}})


def _sizes(fields: dict[str, Any]) -> list[tuple[int, str | None, str]]:
    """The bytes of each field that may be left out; attributes and content count one by one."""
    sizes: list[tuple[int, str | None, str]] = []
    for name, value in fields.items():
        if name in ("attributes", "content") and isinstance(value, dict):
            members = cast(dict[str, Any], value)
            sizes += [(len(encode_json(item)) + len(member), name, member) for member, item in members.items()]
        elif name not in _KEPT:
            sizes.append((len(encode_json(value)) + len(name), None, name))
    return sizes

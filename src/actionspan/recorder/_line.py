"""An event as one line of JSON, whole or degraded field by field.

A line is `{"v":1,"seq":n,"time_unix_nano":t,"timestamp":s,...}`: the writer knows the first fields only when it holds
its lock, so a line is the head and the body, encoded apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, Protocol, cast

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._values import jsonable, without_surrogates
from actionspan.recorder.contract import Event

__all__ = ["MAX_LINE", "SECOND", "SEGMENT_PREFIX", "Encoded", "encode_event", "encode_json", "line", "moment_of"]

MAX_LINE: Final = 2**20
"""Bytes of one line; a larger event loses its largest fields."""
SEGMENT_PREFIX: Final = "segment."
"""Kinds of a segment's own lines: header, context, trailer."""
_ASSIGNED: Final = ("v", "seq", "time_unix_nano", "timestamp")
_KEPT: Final = frozenset({"kind", "trace_id", "span_id", "parent_span_id", "phase", "call_id", "action_id"})
"""Fields that are never left out."""
_NESTING: Final = 200
"""Embedded content must decode with this much nesting to spare, so that every reader can."""
SECOND: Final = 10**9
"""Nanoseconds."""
_FAR: Final = 2**63
_DOLLAR: Final = ord("$")
_TAG: Final = b'{"$'

_FINITE = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_Plain = str | int | bool | None | _FINITE
for _ in range(5):
    _Plain = str | int | bool | None | _FINITE | list[_Plain] | dict[str, _Plain]  # pyright: ignore[reportInvalidTypeForm] # built at run time


class _Carried(Protocol):
    fields: dict[str, Any]


class _Carriable(msgspec.Struct):
    """What JSON can carry as it is, five levels deep: a type msgspec can check in one call."""

    fields: dict[str, _Plain]  # pyright: ignore[reportInvalidTypeForm] # built at run time


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """An event that is ready to be written, but for its place in a segment."""

    body: bytes
    """The fields after the head, from the first name to the closing brace."""
    time_unix_nano: int
    timestamp: float | None
    """Epoch seconds as the application gave them; None: what the nanoseconds say."""
    origin: Any
    """Resource and scope, for the writer to refer to."""


def encode_event(event: Event) -> Encoded:
    """`event` encoded. `ValueError`: no usable `kind` or time."""
    nanoseconds = moment_of(event)
    origin = event.get("resource_scope")
    if origin is not None:
        event = dict(event)
        del event["resource_scope"]
    return Encoded(_body(event), nanoseconds, event.get("timestamp"), origin)


def moment_of(event: Event) -> int:
    """When `event` was, in nanoseconds: as it says, else now.

    `ValueError`: no usable `kind` or time. `TypeError`: it is no mapping.
    """
    try:
        kind = event.get("kind")
    except AttributeError:
        raise TypeError(f"an event is a mapping with a kind, not {type(event).__name__}") from None
    if not isinstance(kind, str) or not kind or kind.startswith(SEGMENT_PREFIX):
        raise ValueError(f"an event's kind must be a string that does not start with {SEGMENT_PREFIX!r}, not {kind!r}")
    nanoseconds, seconds = event.get("time_unix_nano"), event.get("timestamp")
    if seconds is not None and (type(seconds) not in (int, float) or not abs(seconds) < _FAR / SECOND):
        raise ValueError(f"an event's timestamp is in epoch seconds, not {seconds!r}")
    if nanoseconds is None:
        return time.time_ns() if seconds is None else round(seconds * SECOND)
    if type(nanoseconds) is not int or not abs(nanoseconds) < _FAR:
        raise ValueError(f"an event's time_unix_nano is a 64-bit integer, not {nanoseconds!r}")
    return nanoseconds


def _body(event: Event) -> bytes:
    """The fields encoded, without the opening brace.

    Nearly always one strict conversion finds that all of it can be written as it is, without a loop of ours.
    """
    fields = _carriable(event)
    try:
        body = encode_json(_as_written(fields))
    except TypeError:  # a subclass of str, which the conversion lets pass and the encoder does not
        body = None
    if body is None or (_DOLLAR in body and _TAG in body):
        fields = _tagged(event)
        body = encode_json(_as_written(fields))
    return (body if len(body) <= MAX_LINE else _degraded(fields))[1:]


def _carriable(event: Event) -> dict[str, Any]:
    """A copy of `event` that JSON can carry; a mapping in it may still look like a type tag."""
    try:
        return cast("_Carried", msgspec.convert({"fields": event}, _Carriable)).fields
    except (msgspec.ValidationError, RecursionError):
        return _tagged(event)


def _tagged(event: Event) -> dict[str, Any]:
    return {str(name): jsonable(value) for name, value in event.items()}


def _as_written(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` without those the writer fills, with content embedded as the JSON it is the text of."""
    for name in _ASSIGNED:
        fields.pop(name, None)
    content: Any = fields.get("content")
    if type(content) is dict:
        fields["content"] = {name: embedded(text) for name, text in cast("dict[str, Any]", content).items()}
    return fields


def line(encoded: Encoded, seq: int, origin: int | None) -> bytes:
    """The whole line of `encoded` at its place in a segment."""
    moment, stated = encoded.time_unix_nano, encoded.timestamp
    if stated is not None or moment < 0:
        seconds = repr(moment / SECOND if stated is None else float(stated)).encode()
    else:
        # All digits of the nanoseconds: to a reader the same double as that of the division, and faster to write.
        seconds = b"%d.%09d" % divmod(moment, SECOND)
    if origin is None:
        return b'{"v":1,"seq":%d,"time_unix_nano":%d,"timestamp":%b,%b\n' % (seq, moment, seconds, encoded.body)
    return b'{"v":1,"seq":%d,"time_unix_nano":%d,"timestamp":%b,"resource_scope":%d,%b\n' % (
        seq,
        moment,
        seconds,
        origin,
        encoded.body,
    )


def encode_json(value: Any) -> bytes:
    """`value`, which is `jsonable` or holds `msgspec.Raw`, as compact JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(without_surrogates(value))


def embedded(text: Any) -> Any:
    """Content as the JSON value it is the text of, byte for byte, or as it is when it cannot stand in a line.

    Lone surrogates, which no exporter can send either, become question marks. A text that is itself a JSON string stays
    text: embedded, it could not be told from text that is not JSON.
    """
    if type(text) is not str:
        return text
    raw = text.encode(errors="replace")
    try:
        if not raw or raw[0] in b' \t"' or raw[-1] in b" \t" or b"\n" in raw or b"\r" in raw:
            return raw.decode()
        _decode(raw if len(raw) < _NESTING else b"[" * _NESTING + raw + b"]" * _NESTING)
    except UNDECODABLE:
        return raw.decode()
    return msgspec.Raw(raw)


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
        if name in ("attributes", "content") and isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            sizes += [(len(encode_json(item)) + len(member), name, member) for member, item in members.items()]
        elif name not in _KEPT:
            sizes.append((len(encode_json(value)) + len(name), None, name))
    return sizes

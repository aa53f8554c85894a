"""Lines of a segment to the events a caller sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec

from actionspan import guard
from actionspan._json import UNDECODABLE
from actionspan.recorder._blocks import whole_lines
from actionspan.recorder._line import SECOND, SEGMENT_PREFIX
from actionspan.recorder._report import ReadReport
from actionspan.recorder._segment import CONTEXT
from actionspan.recorder._values import restored
from actionspan.telemetry import names

__all__ = ["LineDecoder", "fill_time"]

_VERSION: Final = 1
_TAG: Final = b'{"$'
_REQUESTS: Final = (names.REQUEST, names.TOOL_CALL_ARGUMENTS, names.INPUT_MESSAGES)
_RESPONSES: Final = (names.RESPONSE, names.TOOL_CALL_RESULT, names.OUTPUT_MESSAGES)


class _Content(msgspec.Struct):
    content: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict[str, msgspec.Raw])


_OBJECT: type[Any] = dict
"""Compared with by identity, as the values come from the decoder: an isinstance here costs a tenth of the decoding."""
_decoder: Final = msgspec.json.Decoder()
_content_decoder: Final = msgspec.json.Decoder(_Content)


class LineDecoder:
    """Decodes the lines of one segment, and remembers the resources and scopes it has come across.

    With `text`, the values of `content` are the texts that were recorded, byte for byte; otherwise what they are the
    JSON text of, with `request` and `response` as a view of the most telling of them.
    """

    def __init__(self, report: ReadReport, *, text: bool = False) -> None:
        self.contexts: dict[int, dict[str, Any]] = {}
        self.report = report
        self._text = text

    def decode_block(self, buffer: bytearray, end: int) -> list[dict[str, Any]]:
        """The events of `buffer[:end]`, whole lines."""
        if self._text:
            return self.decode_lines(whole_lines(bytes(buffer[:end])))
        try:
            with memoryview(buffer) as view, view[:end] as block:
                decoded = _decoder.decode_lines(block)
        except UNDECODABLE:
            return self.decode_lines(bytes(buffer[:end]).split(b"\n"))
        return self._events(decoded, buffer.find(_TAG, 0, end) >= 0)

    def decode_found(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """The events of whole lines that a search has picked out, decoded together where that can be done."""
        if self._text:
            return self.decode_lines(lines)
        block = b"".join(lines)
        try:
            decoded = _decoder.decode_lines(block)
        except UNDECODABLE:
            return self.decode_lines(lines)
        return self._events(decoded, _TAG in block)

    def decode_lines(self, lines: Iterable[bytes]) -> list[dict[str, Any]]:
        """The events of `lines`; a line that is no JSON is counted."""
        events: list[dict[str, Any]] = []
        for line in lines:
            try:
                decoded = [_decoder.decode(line)]
            except UNDECODABLE:
                self.report.skipped += bool(line.strip())
                continue
            found = self._events(decoded, _TAG in line)
            if self._text and found and "content" in found[0]:
                found[0]["content"] = _content_texts(line)
            events += found
        return events

    def _events(self, decoded: list[Any], tagged: bool) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        append, contexts, text = events.append, self.contexts, self._text
        self.report.decoded += len(decoded)
        event: dict[str, Any]
        for event in decoded:
            kind = event.get("kind") if type(event) is _OBJECT else None
            if type(kind) is not str:
                self.report.skipped += 1
                continue
            if kind[:8] == SEGMENT_PREFIX:
                self.learn(event)
                continue
            if type(event.get("time_unix_nano")) is not int or type(event.get("timestamp")) is not float:
                fill_time(event)
            if event.get("v") != _VERSION:
                self._note_version(event)
            if tagged:
                event = _restored(event)
            reference = event.get("resource_scope")
            if reference is not None:
                event["resource_scope"] = contexts.get(reference, reference)
            if "content" in event and not text:
                _add_view(event)
            append(event)
        return events

    def learn(self, fields: dict[str, Any]) -> None:
        """Remember the resource and scope of a context line."""
        number = fields.get("resource_scope")
        if fields.get("kind") == CONTEXT and type(number) is int:
            self.contexts[number] = {
                "resource": restored(fields.get("resource")),
                "scope": restored(fields.get("scope")),
            }

    def _note_version(self, event: dict[str, Any]) -> None:
        version = event.get("v")
        if type(version) is int and version > _VERSION:
            self.report.newer += 1
            guard.warn_once(
                f"record version {version}",
                "the record has events of version %d, this reader knows version %d: some fields may be missed",
                version,
                _VERSION,
            )


def fill_time(event: dict[str, Any]) -> None:
    """The times of an event that another program wrote; without any it comes first."""
    nanoseconds, seconds = event.get("time_unix_nano"), event.get("timestamp")
    if type(seconds) not in (int, float):
        seconds = None
    if type(nanoseconds) is not int:
        nanoseconds = 0 if seconds is None else round(seconds * SECOND)
    event["time_unix_nano"] = nanoseconds
    event["timestamp"] = nanoseconds / SECOND if seconds is None else float(seconds)


def _restored(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name == "content" else restored(value) for name, value in event.items()}


def _add_view(event: dict[str, Any]) -> None:
    content = event["content"]
    if type(content) is _OBJECT:
        for field, candidates in (("request", _REQUESTS), ("response", _RESPONSES)):
            for name in candidates:
                if name in content:
                    event.setdefault(field, content[name])
                    break


def _content_texts(line: bytes) -> dict[str, str]:
    raw = _content_decoder.decode(line).content
    return {name: _text(bytes(value)) for name, value in raw.items()}


def _text(raw: bytes) -> str:
    """A JSON string is text that could not be embedded; anything else is the text of the value itself."""
    if raw.startswith(b'"'):
        return cast(str, _decoder.decode(raw))
    return raw.decode()

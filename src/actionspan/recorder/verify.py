"""Checking a record: is it whole, unaltered, and does every call that began have an end."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.recorder._blocks import DECODED_BLOCK, LineBlocks, open_segment
from actionspan.recorder._calls import Call, OpenCalls, call_key
from actionspan.recorder._decode import LineDecoder
from actionspan.recorder._directory import Progress, SegmentFile, each_segment, is_live
from actionspan.recorder._report import ReadReport
from actionspan.recorder._segment import HEADER
from actionspan.recorder._tombstones import read_tombstones
from actionspan.recorder._trailer import Trailer, parse_trailer
from actionspan.vocabulary import ActionPhase

__all__ = ["VerifyReport", "verify"]

_TERMINALS: Final = (ActionPhase.END.value, ActionPhase.ERROR.value)


@dataclass(slots=True)
class VerifyReport:
    """What `verify` found. `damaged` is the verdict; calls without an end are what a crash leaves, not damage."""

    segments: int = 0
    live: int = 0
    """Segments being written at this moment."""
    unclosed: int = 0
    """Segments nobody writes to that have no trailer: their process was killed, or ended by `os._exit`."""
    lines: int = 0
    events: int = 0
    unparseable: int = 0
    """Lines that are no event."""
    torn: int = 0
    """Segments, of those nobody writes to, that end in the middle of a line."""
    unfinished: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Start events without a terminal, of processes that are gone: who and what, not their content."""
    in_flight: int = 0
    """The same of processes still writing."""
    duplicates: list[str] = field(default_factory=list[str])
    """Calls with more than one terminal: `call_id`, or the ids of the span."""
    without_outcome: int = 0
    """Terminal events of actions that do not say how they ended."""
    problems: list[str] = field(default_factory=list[str])
    """What is wrong with segments and their chain, a sentence each that names the segment."""

    @property
    def damaged(self) -> bool:
        """Whether something was altered, removed or written that should not have been."""
        return bool(self.problems or self.duplicates or self.unparseable)


@dataclass(slots=True)
class _Link:
    """A segment's place in its writer's chain."""

    name: str
    header: dict[str, Any]
    trailer: Trailer | None
    live: bool

    @property
    def previous_segment(self) -> str | None:
        return self.header.get("previous_segment")

    @property
    def previous(self) -> str | None:
        """The hash of the trailer this one hangs on, as far as it says."""
        return None if self.trailer is None else self.trailer.fields.get("previous")


def verify(directory: str | os.PathLike[str], *, progress: Progress | None = None) -> VerifyReport:
    """Read every line of `directory`, and say what is missing, broken or altered.

    The chain shows any alteration or removal that does not rewrite every later trailer of its writer; it cannot show
    that the newest segment of a writer was removed. `progress` is told the segments done, and how many there are.
    `CompressionUnavailable`: it takes zstandard to read a segment; `NotADirectoryError`.
    """
    path = Path(directory)
    report = VerifyReport()
    calls, ended = OpenCalls(), set[Call]()
    links: dict[str, _Link] = {}
    for segment in each_segment(path, progress):
        try:
            links[segment.name] = _Check(segment, report, calls, ended).run()
        except FileNotFoundError:  # retention was quicker, and has left a tombstone
            continue
    _check_chains(links, read_tombstones(path), report)
    _sum_up_calls(links, calls, report)
    return report


class _Check:
    """Reads one segment from end to end."""

    def __init__(self, segment: SegmentFile, report: VerifyReport, calls: OpenCalls, ended: set[Call]) -> None:
        self._segment = segment
        self._report = report
        self._calls = calls
        self._ended = ended
        self._reading = ReadReport()
        self._decoder = LineDecoder(self._reading)
        self._hash = hashlib.sha256()
        self._last = b""
        self._header: dict[str, Any] | None = None
        self._events = 0

    def run(self) -> _Link:
        report = self._report
        live = is_live(self._segment)
        source = open_segment(self._segment)
        try:
            blocks = LineBlocks(source, DECODED_BLOCK)
            for buffer, end in blocks:
                self._block(buffer, end)
        finally:
            source.close()
        trailer = parse_trailer(self._last)
        report.segments += 1
        report.live += live
        report.unclosed += trailer is None and not live
        report.torn += blocks.torn > 0 and not live
        report.unparseable += self._reading.skipped
        if trailer is not None:
            self._check_trailer(trailer, blocks.torn)
        return _Link(self._segment.name, self._header or {}, trailer, live)

    def _block(self, buffer: bytearray, end: int) -> None:
        """Hash all but the last line, which may be the trailer, and look at the events."""
        start = buffer.rfind(b"\n", 0, end - 1) + 1
        self._hash.update(self._last)
        self._hash.update(bytes(buffer[:start]))
        self._last = bytes(buffer[start:end])
        self._report.lines += buffer.count(b"\n", 0, end)
        if self._header is None:
            self._header = _header(bytes(buffer[: buffer.find(b"\n")]))
        for event in self._decoder.decode_block(buffer, end):
            self._event(event)

    def _event(self, event: dict[str, Any]) -> None:
        self._events += 1
        self._report.events += 1
        self._calls.note((self._header or {}).get("writer", self._segment.name), event)
        key = call_key(event)
        if key is None or event["phase"] not in _TERMINALS:
            return
        if key in self._ended:
            self._report.duplicates.append(str(event.get("call_id") or ":".join(key)))
        self._ended.add(key)
        if "action_id" in event and "outcome" not in event:
            self._report.without_outcome += 1

    def _check_trailer(self, trailer: Trailer, torn: int) -> None:
        fields, problems, name = trailer.fields, self._report.problems, self._segment.name
        if fields.get("sha256") != self._hash.hexdigest():
            problems.append(f"{name}: its bytes are not those its trailer was written for")
        if fields.get("events") != self._events:
            problems.append(f"{name}: has {self._events} events, its trailer says {fields.get('events')}")
        if fields.get("segment") != name:
            problems.append(f"{name}: its trailer is that of {fields.get('segment')}")
        if torn:
            problems.append(f"{name}: has bytes after its trailer")


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = msgspec.json.decode(line, type=dict[str, Any])
    except UNDECODABLE:
        return {}
    return header if header.get("kind") == HEADER else {}


def _check_chains(links: dict[str, _Link], tombstones: dict[str, list[dict[str, Any]]], report: VerifyReport) -> None:
    for link in links.values():
        if link.trailer is None and any("trailer" in tombstone for tombstone in tombstones.get(link.name, ())):
            report.problems.append(f"{link.name}: is cut short: it had a trailer when it was rewritten")
        name = link.previous_segment
        if name is None:
            continue
        hashes = set(_known_hashes(links.get(name), tombstones.get(name, [])))
        if name not in links and name not in tombstones:
            report.problems.append(f"{name}: is missing; {link.name} was written after it")
        elif link.previous is not None and link.previous not in hashes:
            report.problems.append(f"{name}: its trailer is not the one that {link.name} was written after")


def _known_hashes(link: _Link | None, tombstones: list[dict[str, Any]]) -> Iterator[str]:
    """What a later trailer may rightly refer to: the trailer there is, and those there were before a rewrite."""
    current = link.trailer.sha256 if link is not None and link.trailer is not None else None
    if current is not None:
        yield current
    for tombstone in reversed(tombstones):
        old, new = tombstone.get("trailer_sha256"), tombstone.get("new_trailer_sha256")
        if isinstance(old, str) and (link is None or new == current):
            yield old
            current = old


def _sum_up_calls(links: dict[str, _Link], calls: OpenCalls, report: VerifyReport) -> None:
    live = {link.header.get("writer", link.name) for link in links.values() if link.live}
    for writer, starts in calls.open.items():
        if writer in live:
            report.in_flight += len(starts)
        else:
            report.unfinished += starts.values()

"""Reading a record: queries and replay over every segment of a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actionspan.recorder._directory import SegmentFile, list_segments
from actionspan.recorder._merge import merged
from actionspan.recorder._report import ReadReport
from actionspan.recorder._select import Selection, select
from actionspan.recorder._source import SegmentSource
from actionspan.recorder._tombstones import read_tombstones
from actionspan.recorder._trailer import read_trailer
from actionspan.recorder.contract import EventFilter, Moment
from actionspan.recorder.errors import UnknownCallId

__all__ = ["Reader", "read"]


class Reader:
    """Reads the segments of one directory: those being written, closed, compressed, and written by others.

    Each query sees the segments there are when its iteration begins. `report` counts what was no event.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self.report = ReadReport()
        if not self.directory.is_dir():
            raise NotADirectoryError(f"{self.directory} is not a directory")

    def query(
        self,
        *,
        kind: str | None = None,
        agent_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        call_id: str | None = None,
        extra_filter: EventFilter | None = None,
        finished: bool = False,
        text: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Iterate matching events in time order; see `Recorder.query`.

        With `finished`, only those that have an outcome: the ends of actions, of whatever kind. With `text`, the values
        of `content` are the recorded texts, byte for byte, not what they are the JSON of.
        """
        selection = select(
            kind=kind,
            agent_id=agent_id,
            since=since,
            until=until,
            call_id=call_id,
            extra_filter=extra_filter,
            finished=finished,
        )
        return self.run(selection, text)

    def replay(self, from_call_id: str | None = None, *, text: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate all events in time order, from the first of `from_call_id` on; `UnknownCallId` when there is none."""
        if from_call_id is None:
            return self.run(Selection(), text)
        first = next(self.query(call_id=from_call_id), None)
        if first is None:
            raise UnknownCallId(f"no event of call {from_call_id!r} in {self.directory}")
        return self._from_call(from_call_id, first["time_unix_nano"], text)

    def _from_call(self, call_id: str, time: int, text: bool) -> Iterator[dict[str, Any]]:
        events = self.run(Selection.starting(time), text)
        for event in events:
            if call_id in (event.get("call_id"), event.get("action_id")):
                yield event
                break
        yield from events

    def run(self, selection: Selection, text: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate what `selection` asks for, in time order."""
        events = merged(self.sources(selection, text))
        predicate = selection.predicate
        if predicate is None:
            yield from events
            return
        for event in events:
            if predicate(event):
                yield event

    def sources(self, selection: Selection, text: bool = False) -> list[SegmentSource]:
        """The segments that may have what `selection` asks for, by name."""
        tombstones = read_tombstones(self.directory)
        sources: list[SegmentSource] = []
        for segment in list_segments(self.directory):
            try:
                trailer = self._trailer(segment, tombstones)
                source = SegmentSource(segment, selection, self.report, trailer, text=text)
            except FileNotFoundError:  # retention was quicker
                self.report.removed += 1
                continue
            if source.wanted:
                sources.append(source)
        return sources

    @staticmethod
    def _trailer(segment: SegmentFile, tombstones: dict[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
        """What is known of a segment without reading it; of a compressed one it is in its last tombstone."""
        if segment.compressed:
            notes = [note["trailer"] for note in tombstones.get(segment.name, ()) if "trailer" in note]
            return notes[-1] if notes else None
        try:
            trailer = read_trailer(segment)
        except FileNotFoundError:  # compressed meanwhile
            return None
        return None if trailer is None else trailer.fields


def read(directory: str | os.PathLike[str]) -> Reader:
    """A reader of `directory`. `NotADirectoryError` when it is none."""
    return Reader(directory)

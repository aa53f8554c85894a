"""Replaying a record to an OpenTelemetry backend: the spans again, as they were."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from actionspan.policy import AuditMode
from actionspan.recorder import _reshape
from actionspan.recorder._calls import OpenCalls, call_key
from actionspan.recorder._cursor import Cursor, load_cursor, save_cursor
from actionspan.recorder._directory import is_live
from actionspan.recorder._otlp import Answer, Sender, Verdict, sender_for
from actionspan.recorder._select import Selection
from actionspan.recorder.errors import RecorderError
from actionspan.recorder.reader import Reader
from actionspan.recorder.spans import span_of, unfinished_span_of
from actionspan.settings import resolve_audit_mode
from actionspan.vocabulary import ActionPhase

__all__ = ["ReplayFailed", "ReplayReport", "replay_to_otlp"]

_ATTEMPTS: Final = 6
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_NOT_A_SPAN: Final = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What making and encoding a span raise for an event with parts missing or of another type."""


class ReplayFailed(RecorderError):
    """The receiver refused a request, or did not take it after several attempts. The cursor stands before it."""


@dataclass(slots=True)
class ReplayReport:
    """What a replay has done so far."""

    exported: int = 0
    """Spans the receiver took."""
    rejected: int = 0
    """Spans it refused, by its own count, and those too large for it alone. They are not tried again."""
    unfinished: int = 0
    """Of those exported, actions that never ended."""
    unreadable: int = 0
    """Events of actions that no span can be made of, such as an application's own with half the fields. Left out."""
    requests: int = 0
    messages: list[str] = field(default_factory=list[str])
    """What the receiver said, each once."""


@dataclass(slots=True)
class _Item:
    """A span on its way, and the event it is made of."""

    event: dict[str, Any]
    span: ReadableSpan
    unfinished: bool = False


def replay_to_otlp(
    directory: str | os.PathLike[str],
    url: str,
    *,
    from_call_id: str | None = None,
    shift_to_now: bool = False,
    keep_ids: bool = False,
    mode: AuditMode | str = AuditMode.CONTENT,
    rate: float | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    batch: int = 256,
    cursor: str | os.PathLike[str] | None = None,
    progress: Callable[[ReplayReport], None] | None = None,
    sender: Sender | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayReport:
    """Export the spans of the record in `directory` to `url`, in time order, `batch` spans a request.

    `url`: http(s), without a path `/v1/traces`, or grpc(s)://host:port. `shift_to_now` moves the whole record so that
    it ends now, under new ids that link to the original, or with `keep_ids` under the same. The deployment's ceiling
    holds, and `mode` can lower it: below `content`, content and error text stay behind; with `off` nothing is sent.
    `rate`: spans a second at most. `cursor`: a file that lets a later call go on where this one stopped. `timeout` in
    seconds. `UnknownCallId`; `ReplayFailed`; `ValueError`.
    """
    report = ReplayReport()
    mode = resolve_audit_mode(mode=mode)
    if mode is AuditMode.OFF:
        return report
    if batch < 1 or (rate is not None and rate <= 0):
        raise ValueError("batch and rate must be positive")
    reader = Reader(directory)
    cursor_path = None if cursor is None else Path(cursor)
    place = load_cursor(cursor_path, str(reader.directory.resolve()), url)
    unfinished, last = _survey(reader)
    if place.shift is None:
        place.shift = time.time_ns() - last if shift_to_now and last else 0
    reshape = _reshaping(place.shift, new_ids=shift_to_now and not keep_ids, content=mode is AuditMode.CONTENT)
    items = _items(reader, from_call_id, unfinished, place, reshape, report)
    exporter = _Exporter(sender or sender_for(url, headers, timeout), report, sleep)
    while chunk := list(islice(items, batch)):
        started = time.monotonic()
        exporter.export(chunk)
        for item in chunk:
            place.advance(item.event)
        save_cursor(cursor_path, place)
        if progress is not None:
            progress(report)
        if rate is not None:
            sleep(max(0.0, len(chunk) / rate - (time.monotonic() - started)))
    return report


def _survey(reader: Reader) -> tuple[dict[tuple[str, str], int], int]:
    """The calls that never ended, with the last time their process was heard of, and the last time of the record.

    A process that is still writing may yet end its calls: they are left out.
    """
    calls = OpenCalls()
    live: set[str] = set()
    for source in reader.sources(Selection()):
        writer = source.header.get("writer", source.name)
        if is_live(source.segment):
            live.add(writer)
        for batch in source.as_written():
            for event in batch:
                calls.note(writer, event)
    unfinished = {key: calls.last[writer] for writer, keys in calls.open.items() if writer not in live for key in keys}
    return unfinished, max(calls.last.values(), default=0)


def _reshaping(shift: int, *, new_ids: bool, content: bool) -> _reshape.Reshape:
    def reshape(event: dict[str, Any]) -> dict[str, Any]:
        if not content:
            event = _reshape.without_content(event)
        if shift:
            event = _reshape.shifted(event, shift)
        # The shift is part of the salt: two replays of one record are two recordings to the backend.
        return _reshape.with_new_ids(event, str(shift)) if new_ids else event

    return reshape


def _items(
    reader: Reader,
    from_call_id: str | None,
    unfinished: dict[tuple[str, str], int],
    place: Cursor,
    reshape: _reshape.Reshape,
    report: ReplayReport,
) -> Iterator[_Item]:
    if from_call_id is None:
        events = reader.run(Selection.starting(place.time_unix_nano), text=True)
    else:
        events = reader.replay(from_call_id, text=True)
    for event in events:
        key = call_key(event)
        if key is None or "span_name" not in event or "span_id" not in event or place.passed(event):
            continue
        started = event["phase"] == ActionPhase.START.value
        if started and key not in unfinished:
            continue
        try:
            if started:
                span = unfinished_span_of(reshape(event), unfinished[key] + (place.shift or 0))
            else:
                span = span_of(reshape(event))
        except _NOT_A_SPAN:
            # Anybody may write to a record: one bad event must not stand in the way of all that follow.
            report.unreadable += 1
            continue
        yield _Item(event, span, unfinished=started)


class _Exporter:
    """Sends spans until the receiver has taken or refused each of them."""

    def __init__(self, send: Sender, report: ReplayReport, sleep: Callable[[float], None]) -> None:
        self._send = send
        self._report = report
        self._sleep = sleep

    def export(self, items: Sequence[_Item]) -> None:
        """Export `items`, in halves when they are too large for one request or one of them cannot be encoded."""
        try:
            request = encode_spans([item.span for item in items])
        except _NOT_A_SPAN:
            if len(items) == 1:
                self._report.unreadable += 1
            else:
                self._export_halves(items)
            return
        answer = self._answer(request)
        if answer.message and answer.message not in self._report.messages:
            self._report.messages.append(answer.message)
        if answer.verdict is Verdict.TOO_LARGE:
            if len(items) == 1:
                self._report.rejected += 1
                return
            self._export_halves(items)
        elif answer.verdict is Verdict.ACCEPTED:
            self._report.exported += len(items) - answer.rejected
            self._report.rejected += answer.rejected
            self._report.unfinished += sum(item.unfinished for item in items)
        else:
            raise ReplayFailed(answer.message)

    def _export_halves(self, items: Sequence[_Item]) -> None:
        middle = len(items) // 2
        self.export(items[:middle])
        self.export(items[middle:])

    def _answer(self, request: Any) -> Answer:
        """The answer to one request, after as many attempts as a receiver in trouble is worth."""
        pause, left = _FIRST_PAUSE, _ATTEMPTS
        while True:
            self._report.requests += 1
            answer = self._send(request)
            left -= 1
            if answer.verdict is not Verdict.RETRY or not left:
                return answer
            self._sleep(pause if answer.retry_after is None else answer.retry_after)
            pause = min(pause * 2, _LONGEST_PAUSE)

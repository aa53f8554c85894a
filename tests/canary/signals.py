"""Everything that leaves a process while agents run, as texts by signal and place."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actionspan import PydanticAIInstrumentor
from actionspan.recorder import JsonlRecorder, read
from actionspan.testing import Capture, capture
from canary.channels import CHANNELS, STATUS, traces_of

LOGGERS = ("actionspan", "opentelemetry")
SPAN, METRIC, LOG_EVENT, LOG_LINE, RECORD, HEADER = "span", "metric", "log event", "log line", "record", "header"


@dataclass
class Leaving:
    """What left. A place is an attribute's name, or the part of the signal that has none."""

    texts: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that an HTTP request made inside a tool would carry."""

    def add(self, signal: str, place: str, value: object) -> None:
        self.texts.setdefault((signal, place), []).append(value if isinstance(value, str) else repr(value))

    def add_table(self, signal: str, attributes: Mapping[str, Any] | None) -> None:
        for name, value in (attributes or {}).items():
            self.add(signal, "name of an attribute", name)
            self.add(signal, name, value)

    def everywhere(self, *signals: str) -> dict[str, set[str]]:
        """Where each channel's canary is, of those that are anywhere; in these signals, or all of them."""
        found: dict[str, set[str]] = {}
        for (signal, place), texts in self.texts.items():
            text = "\n".join(texts) if not signals or signal in signals else ""
            for channel in CHANNELS:
                if any(trace in text for trace in traces_of(channel)):
                    found.setdefault(channel, set()).add(place)
        return found


class _Lines(logging.Handler):
    def __init__(self, gone: Leaving) -> None:
        super().__init__(level=1)
        self._gone = gone

    def emit(self, record: logging.LogRecord) -> None:
        self._gone.add(LOG_LINE, "message", f"{self.format(record)} {record.args!r}")


@contextmanager
def leaving(directory: Path, **arguments: Any) -> Generator[Leaving]:
    """Instrument with `arguments`; when the block ends, its `Leaving` holds all that left while it ran."""
    gone = Leaving()
    recorder = JsonlRecorder(directory)
    try:
        with _listening(_Lines(gone)), capture(**arguments) as seen:
            PydanticAIInstrumentor().instrument(recorder=recorder)
            yield gone
            _collect(gone, seen)
    finally:
        recorder.close()
    for event in read(directory).query():
        _add_event(gone, event)
    for file in directory.rglob("*"):
        if file.is_file():
            gone.add(RECORD, "recorded bytes", file.read_bytes().decode())


@contextmanager
def _listening(handler: logging.Handler) -> Generator[None]:
    loggers = {name: logging.getLogger(name) for name in LOGGERS}
    levels = {name: logger.level for name, logger in loggers.items()}
    for logger in loggers.values():
        logger.addHandler(handler)
        logger.setLevel(1)
    try:
        yield
    finally:
        for name, logger in loggers.items():
            logger.removeHandler(handler)
            logger.setLevel(levels[name])


def _collect(gone: Leaving, seen: Capture) -> None:
    for span in seen.spans:
        gone.add(SPAN, "name", span.name)
        gone.add(SPAN, STATUS, span.status.description or "")
        gone.add_table(SPAN, span.attributes)
        gone.add(SPAN, "resource", span.resource.to_json())
        gone.add(SPAN, "context", f"{span.context!r} {span.parent!r}")
        for event in span.events:
            gone.add(SPAN, "event name", event.name)
            gone.add_table(SPAN, event.attributes)
        for link in span.links:
            gone.add(SPAN, "link", f"{link.context!r} {dict(link.attributes or {})!r}")
    for name, points in seen.metrics().items():
        gone.add(METRIC, "data points", f"{name} {points!r}")
    for record in seen.logs:
        gone.add(LOG_EVENT, "name and body", f"{record.log_record.event_name} {record.log_record.body!r}")
        gone.add_table(LOG_EVENT, record.log_record.attributes)
    for event in seen.records:
        _add_event(gone, event)
    for name, value in gone.headers.items():
        gone.add(HEADER, name, value)


def _add_event(gone: Leaving, event: Mapping[str, Any]) -> None:
    """A recorded event: its tables of attributes by name, its other fields as the record's own."""
    for name, value in event.items():
        if name in ("attributes", "content"):
            gone.add_table(RECORD, value)
        elif name == "status":
            gone.add(RECORD, STATUS, value)
        elif name == "events":
            for item in value:
                gone.add(RECORD, "event name", item["name"])
                gone.add_table(RECORD, item.get("attributes"))
        elif name in ("request", "response") and value in event.get("content", {}).values():
            continue  # the reader's view of a content attribute
        else:
            gone.add(RECORD, f"field {name}", f"{name} {value!r}")


def leaves(value: object) -> Iterator[object]:
    """Every key and scalar of a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value

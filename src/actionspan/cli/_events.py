"""An event as one line: when, what, how it ended, how long it took, whose it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from rich.text import Text

from actionspan.cli._screen import OUTCOME_STYLES, Screen
from actionspan.cli._text import seconds

__all__ = ["print_event"]

_KIND_WIDTH: Final = 20
_TOOK_WIDTH: Final = 7
_LONGEST: Final = 80
"""Characters of a name that somebody else chose."""


def print_event(screen: Screen, event: Mapping[str, Any]) -> None:
    """Print `event` on a line of its own, as far as the terminal is wide."""
    kind = screen.text(event.get("kind", ""))
    kind.truncate(max(_KIND_WIDTH, kind.cell_len), pad=True)
    outcome = event.get("outcome")
    style = OUTCOME_STYLES.get(str(outcome), "")
    parts: list[Text | str] = [
        Text(_clock(event.get("timestamp")), "dim"),
        "  ",
        _mark(screen, event, style),
        " ",
        kind,
        f" {_took(event):>{_TOOK_WIDTH}}  ",
        "" if event.get("name") is None else screen.name(event["name"], "bold", _LONGEST),
    ]
    for note in _notes(event):
        parts += [Text(f" {screen.symbols.dot} ", "dim"), screen.text(note, style, _LONGEST)]
    agent = event.get("agent_id")
    if agent is not None and agent != event.get("name"):
        parts += [Text("  by ", "dim"), screen.name(agent, "dim", _LONGEST)]
    screen.line(*parts)


def _notes(event: Mapping[str, Any]) -> Iterator[str]:
    reason, error = event.get("outcome_reason"), event.get("error")
    if reason is not None:
        yield str(reason)
    elif error is not None:
        yield str(error)
    attempt = event.get("attempt")
    if attempt not in (None, 1):
        yield f"attempt {attempt}"


def _mark(screen: Screen, event: Mapping[str, Any], style: str) -> Text:
    if event.get("phase") == "start":
        return Text(screen.symbols.started, "dim")
    return Text(screen.symbols.outcomes.get(str(event.get("outcome")), " "), style)


def _took(event: Mapping[str, Any]) -> str:
    duration = event.get("duration")
    return seconds(float(duration)) if isinstance(duration, (int, float)) else ""


def _clock(timestamp: Any) -> str:
    """Local time to the millisecond; a time that no calendar has is left as it is."""
    try:
        return datetime.fromtimestamp(timestamp).isoformat(" ", "milliseconds")
    except (ValueError, TypeError, OverflowError, OSError):
        return str(timestamp)

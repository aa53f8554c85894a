"""What reading from, and writing to, a backend came across besides events."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

__all__ = ["BackendReport"]

_logger = logging.getLogger("actionspan")
_MOST_REASONS: Final = 20
"""More of them say nothing new."""


@dataclass(slots=True)
class BackendReport:
    """Counts of one recorder, over everything it has done so far."""

    url: str
    requests: int = 0
    """Requests of queries and replays, without those repeated because the backend was busy."""
    traces: int = 0
    """Traces read."""
    passed_over: int = 0
    """Spans in them that are no actions of ours."""
    incomplete: list[str] = field(default_factory=list[str])
    """Why an answer may lack what the backend holds, in words; empty: as far as the backend says, it is whole."""
    searched_from: float | None = None
    """Epoch seconds where the latest query began to search: one without `since` does not go back for ever."""
    not_kept: int = 0
    """Events emitted that a tracing backend cannot hold: they are neither the start nor the end of an action."""
    undelivered: int = 0
    """Spans emitted that could not be delivered."""

    def miss(self, reason: str) -> None:
        """Say that an answer is incomplete, in the log and here; the same reason once."""
        if reason not in self.incomplete and len(self.incomplete) < _MOST_REASONS:
            self.incomplete.append(reason)
            _logger.warning("the answer of %s is incomplete: %s", self.url, reason)

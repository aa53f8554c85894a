"""Progress of long reading, on the terminal's error stream: a pipe gets nothing, a quick command neither."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from actionspan.recorder import Reader

__all__ = ["Watching", "at_work", "by_segment", "watching"]

_PATIENCE: Final = 0.5
"""Seconds of work before a bar appears."""
_STRIDE: Final = 2048
"""Events between two looks at the clock."""


class Watching:
    """Passes events on, and moves a bar by the segments that have been read."""

    def __init__(self, reader: Reader, progress: Progress | None) -> None:
        self._reader = reader
        self._progress = progress
        self._began = time.monotonic()

    def __call__(self, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        if self._progress is None:
            yield from events
            return
        task = self._progress.add_task("reading", total=None, visible=False, events="0")
        before = self._reader.report.segments
        segments = sum(1 for _ in self._reader.directory.glob("actions-*.jsonl*"))
        for count, event in enumerate(events):
            if count % _STRIDE == 0 and time.monotonic() - self._began > _PATIENCE:
                read = self._reader.report.segments - before - 1
                self._progress.update(task, completed=read, total=segments, visible=True, events=f"{count:,}")
            yield event
        self._progress.remove_task(task)

    def stop(self) -> None:
        """Take the bar away: from now on the results are seen."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def watching(reader: Reader) -> Generator[Watching]:
    """A `Watching` that shows a bar where there is somebody to see it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Watching(reader, None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.fields[events]} events"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Watching(reader, progress)


@contextmanager
def by_segment(what: str) -> Generator[Callable[[int, int], None]]:
    """Show on a terminal a bar of the segments done; yields how to say how many there are, and of how many."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def at_work(what: str) -> Generator[Callable[[str], None]]:
    """Show on a terminal that something is being done; yields how to say how far it is."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words: None
        return
    with console.status(Text(what)) as status:
        yield lambda words: status.update(Text(words))

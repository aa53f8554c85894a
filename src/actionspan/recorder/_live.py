"""Which directories recorders of this process write to, so that an exporter does not record the same spans again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

__all__ = ["enter", "is_recorded", "leave"]

_recorders: Counter[Path] = Counter()


def enter(directory: Path) -> None:
    """A recorder of `directory` was opened."""
    _recorders[directory.resolve()] += 1


def leave(directory: Path) -> None:
    """A recorder of `directory` was closed."""
    _recorders[directory.resolve()] -= 1


def is_recorded(directory: Path) -> bool:
    """Whether a recorder of this process is open on `directory`."""
    return _recorders[directory.resolve()] > 0

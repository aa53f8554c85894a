"""The directory of a record: who may write to it, and which of its files are segments."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import socket
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

__all__ = [
    "COMPRESSED",
    "Progress",
    "SegmentFile",
    "each_segment",
    "is_live",
    "list_segments",
    "lock_closed",
    "new_segment_name",
    "prepare_directory",
]

COMPRESSED: Final = ".zst"
_SEGMENT: Final = re.compile(r"actions-\d{8}T\d{6}\.\d{6}Z-[A-Za-z0-9._-]+-\d+-[0-9a-f]{8}\.jsonl")
_GROUP_OR_OTHER_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True, order=True)
class SegmentFile:
    """A segment on disk. Its name, without the ending of a compressed one, orders it and never changes."""

    name: str
    path: Path

    @property
    def compressed(self) -> bool:
        return self.path.name.endswith(COMPRESSED)


def prepare_directory(directory: Path) -> None:
    """Make `directory` (mode 0700) or check that it is ours alone to write to.

    `PermissionError`: somebody else owns it or may write to it, or we may not. `NotADirectoryError`: it is a file.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        pass
    state = directory.stat()
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(f"{directory} is not a directory")
    if state.st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to user {state.st_uid}, not to us ({os.geteuid()})")
    if state.st_mode & _GROUP_OR_OTHER_WRITE:
        raise PermissionError(f"{directory} is writable by others (mode {state.st_mode & 0o777:04o}): chmod go-w it")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"{directory} is not writable")


def new_segment_name() -> str:
    """A name no other segment has: start, host and process for the reader, random digits for uniqueness."""
    start = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    host = re.sub(r"[^A-Za-z0-9._-]", "_", socket.gethostname())[:64] or "unknown"
    return f"actions-{start}-{host}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"


def list_segments(directory: Path) -> list[SegmentFile]:
    """The segments of `directory` by name; of a segment in both forms only the compressed one. Other files: no."""
    found: dict[str, SegmentFile] = {}
    for entry in os.scandir(directory):
        name = entry.name.removesuffix(COMPRESSED)
        if _SEGMENT.fullmatch(name) and (name not in found or entry.name != name):
            found[name] = SegmentFile(name, Path(entry.path))
    return sorted(found.values())


Progress = Callable[[int, int], None]
"""Called with how many segments are done, and of how many."""


def each_segment(directory: Path, progress: Progress | None) -> Iterator[SegmentFile]:
    """The segments of `directory` by name, and word of each that is done with. `NotADirectoryError`."""
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    segments = list_segments(directory)
    for done, segment in enumerate(segments):
        if progress is not None:
            progress(done, len(segments))
        yield segment


@contextmanager
def lock_closed(path: Path) -> Generator[int | None]:
    """The open, locked descriptor of a segment that nobody writes to; None when a writer (or the deleter) has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        state = os.fstat(descriptor)
        # Empty: its writer has created it and is about to lock it. No name left: another process was quicker.
        yield descriptor if state.st_size and state.st_nlink else None
    finally:
        os.close(descriptor)


def is_live(segment: SegmentFile) -> bool:
    """Whether a process is writing to the segment now."""
    try:
        descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two that look at the same time do not take each other for the writer.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

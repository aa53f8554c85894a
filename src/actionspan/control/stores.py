"""Where checkpoints are kept: in memory, or one file each in a directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from actionspan.control.checkpoints import Checkpoint, checkpoint_id, decode_checkpoint, encode_checkpoint
from actionspan.control.errors import UnknownCheckpoint

__all__ = ["CheckpointStore", "DirectoryCheckpointStore", "MemoryCheckpointStore"]

_SUFFIX: Final = ".checkpoint.json"


class CheckpointStore(Protocol):
    """Keeps checkpoints by id. Methods may be called from any thread."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep `checkpoint`."""
        ...

    def load(self, checkpoint_id: str) -> Checkpoint:
        """The checkpoint with this id. Raises a `CheckpointError`."""
        ...

    def ids(self) -> list[str]:
        """The ids of all that are whole, the oldest first."""
        ...


class MemoryCheckpointStore:
    """Keeps checkpoints for as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[str, Checkpoint] = {}

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep `checkpoint`."""
        self._kept[checkpoint.id] = checkpoint

    def load(self, checkpoint_id: str) -> Checkpoint:
        """The checkpoint with this id, else `UnknownCheckpoint`."""
        try:
            return self._kept[checkpoint_id]
        except KeyError:
            raise UnknownCheckpoint(f"there is no checkpoint {checkpoint_id!r}") from None

    def ids(self) -> list[str]:
        """All of them, the oldest first."""
        return list(self._kept)


class DirectoryCheckpointStore:
    """Keeps each checkpoint in a file of its own: JSON, mode 0600, in a directory of mode 0700.

    The files hold whole histories in clear, whatever the telemetry ceiling says. A file appears under its name only
    when it is whole and on the disk. Nothing in a file is executed when it is loaded. Raises `OSError` for a directory
    that cannot be used, `PermissionError` for one that others own or may write to.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory: Final = Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.directory.stat()
        if found.st_uid != os.geteuid():
            raise PermissionError(f"{self.directory} belongs to user {found.st_uid}, not to us ({os.geteuid()})")
        if found.st_mode & 0o022:
            raise PermissionError(f"{self.directory} may be written to by others: chmod 700 it")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write `checkpoint`. Raises `OSError`; then there is none under its id."""
        final = self._path(checkpoint.id)
        draft = self.directory / f".{checkpoint.id}.{os.getpid()}.tmp"
        try:
            with open(draft, "xb", opener=_private) as file:
                file.write(encode_checkpoint(checkpoint))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(final)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise
        _sync_directory(self.directory)

    def load(self, checkpoint_id: str) -> Checkpoint:
        """Read one. Raises `UnknownCheckpoint`, `CheckpointDamaged` or `CheckpointTooNew`."""
        try:
            data = self._path(checkpoint_id).read_bytes()
        except FileNotFoundError:
            raise UnknownCheckpoint(f"there is no checkpoint {checkpoint_id!r} in {self.directory}") from None
        return decode_checkpoint(data, checkpoint_id)

    def ids(self) -> list[str]:
        """The ids of the files there, the oldest first. What a crash left half-written is not among them."""
        found: list[tuple[int, str]] = []
        for path in self.directory.glob(f"*{_SUFFIX}"):
            name = path.name.removesuffix(_SUFFIX)
            if checkpoint_id(name) is not None:
                with suppress(FileNotFoundError):
                    found.append((path.stat().st_mtime_ns, name))
        return [name for _, name in sorted(found)]

    def _path(self, value: str) -> Path:
        """The file of one. What is not a UUID names no file, here or elsewhere."""
        name = checkpoint_id(value)
        if name is None:
            raise UnknownCheckpoint(f"{value!r} is not the id of a checkpoint")
        return self.directory / f"{name}{_SUFFIX}"

    def __repr__(self) -> str:
        return f"DirectoryCheckpointStore({str(self.directory)!r})"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(directory: Path) -> None:
    """The rename is on the disk, too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

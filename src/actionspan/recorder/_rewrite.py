"""Putting a new file in the place of another, whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["replacing"]


@contextmanager
def replacing(target: Path, like: os.stat_result) -> Generator[IO[bytes]]:
    """A file to write; `target` is it, synced to disk, once the block is left, and as it was when the block raises.

    Mode and modification time are those of `like`, so that retention by age does not start anew.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, like.st_mode & 0o666)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.utime(temporary, ns=(like.st_atime_ns, like.st_mtime_ns))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

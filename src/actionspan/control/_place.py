"""Where a process can be found: a pointer and a token in the directory it serves, its socket in a private one."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.settings import runtime_directory

__all__ = ["Place", "Pointer", "connect", "listens", "pointers", "remove_stale"]

_MOST_PATH: Final = 100
"""Bytes of a socket's path: the kernels have room for 104 (macOS) or 108 (Linux)."""
_PREFIX: Final = "actionspan-"
_SOCKET: Final = "control.sock"


class Pointer(msgspec.Struct, kw_only=True):
    """What the file in the served directory says."""

    v: int
    pid: int
    socket: str
    token: str
    """The name of the token's file, beside this one."""


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one serving process."""

    directory: Path
    private: Path
    pointer: Path
    token_file: Path
    token: str

    @property
    def socket(self) -> Path:
        return self.private / _SOCKET

    @classmethod
    def make(cls, directory: Path) -> Place:
        """Everything but the pointer, which `announce` writes once somebody listens. Raises `OSError`."""
        _prepare(directory)
        name = f"control-{os.getpid()}-{secrets.token_hex(4)}"
        token = secrets.token_urlsafe(32)
        token_file = directory / f"{name}.token"
        private = _private_directory()
        _write(token_file, token.encode())
        return cls(directory, private, directory / f"{name}.json", token_file, token)

    def announce(self) -> None:
        """Let others find the socket."""
        pointer = Pointer(v=1, pid=os.getpid(), socket=str(self.socket), token=self.token_file.name)
        draft = self.pointer.with_suffix(".tmp")
        _write(draft, msgspec.json.encode(pointer))
        draft.rename(self.pointer)

    def remove(self) -> None:
        """Take it all away."""
        for path in (self.pointer, self.token_file):
            with suppress(OSError):
                path.unlink()
        shutil.rmtree(self.private, ignore_errors=True)


def _prepare(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{directory} must belong to this user, and nobody else may write to it")


def _private_directory() -> Path:
    """A directory of our own, mode 0700, whose path leaves room for the socket's."""
    for base in (runtime_directory(), Path(tempfile.gettempdir()), Path("/tmp")):
        if base is None or len(os.fsencode(base / f"{_PREFIX}xxxxxxxx" / _SOCKET)) > _MOST_PATH:
            continue
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    raise OSError("no directory has a path short enough for a Unix socket: set XDG_RUNTIME_DIR or TMPDIR")


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)


def pointers(directory: Path) -> Iterator[tuple[Path, Pointer]]:
    """The pointers in `directory` that this user, or root, wrote."""
    for path in sorted(directory.glob("control-*.json")):
        try:
            if path.stat().st_uid in (os.geteuid(), 0):
                yield path, msgspec.json.decode(path.read_bytes(), type=Pointer)
        except (OSError, *UNDECODABLE):
            continue


def connect(pointer: Pointer, timeout: float) -> socket.socket | None:
    """A connection to the process, or None when nobody listens there any more. Raises `OSError`: it may be busy."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout)
    try:
        connection.connect(pointer.socket)
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def listens(pointer: Pointer) -> bool:
    """Whether somebody does; one who is too busy to answer is there."""
    try:
        connection = connect(pointer, timeout=1.0)
    except OSError:
        return True
    if connection is None:
        return False
    connection.close()
    return True


def remove_stale(directory: Path) -> None:
    """Take away what processes that were killed left behind."""
    for path, pointer in list(pointers(directory)):
        if listens(pointer):
            continue
        for name in (path, directory / Path(pointer.token).name):
            with suppress(OSError):
                name.unlink()
        left = Path(pointer.socket)
        with suppress(OSError):
            # The pointer is a file that others could have written for us: what it names must look like ours.
            if left.name == _SOCKET and left.parent.name.startswith(_PREFIX) and stat.S_ISSOCK(left.lstat().st_mode):
                left.unlink()
                left.parent.rmdir()

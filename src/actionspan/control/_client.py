"""Asking another process of this user to control its runs."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.control._peer import peer_uid
from actionspan.control._place import Pointer, connect, listens, pointers
from actionspan.control._wire import MAX_WAIT, VERSION, Request
from actionspan.control.errors import ControlRejected, ControlUnreachable

__all__ = ["Remote", "remotes"]

_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Remote:
    """One process that serves control."""

    directory: Path
    pointer: Pointer

    @property
    def pid(self) -> int:
        return self.pointer.pid

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """What it answers. Raises `ControlUnreachable` when it is gone, `ControlRejected` when it refuses."""
        wait = min(float(fields.get("wait") or 0.0), MAX_WAIT)
        request = Request(v=VERSION, verb=verb, token=self._token(), **fields)
        try:
            answer = cast("dict[str, Any]", msgspec.json.decode(self._exchange(request, _PATIENCE + wait)))
        except (OSError, *UNDECODABLE) as error:
            raise ControlUnreachable(f"process {self.pid} does not answer: {error}") from error
        if not answer.get("ok"):
            raise ControlRejected(str(answer.get("error")))
        return answer

    def _exchange(self, request: Request, timeout: float) -> bytes:
        connection = connect(self.pointer, _PATIENCE)
        if connection is None:
            raise ControlUnreachable(f"process {self.pid} does not listen any more")
        with connection:
            if peer_uid(connection) != os.geteuid():
                raise ControlRejected(f"the socket {self.pointer.socket} belongs to another user")
            connection.settimeout(timeout)
            # One who is refused before it has said anything may find the other end closed, with the reason in it.
            with suppress(BrokenPipeError):
                connection.sendall(msgspec.json.encode(request) + b"\n")
            return _line(connection)

    def _token(self) -> str | None:
        try:
            return (self.directory / Path(self.pointer.token).name).read_text()
        except OSError:
            return None


def _line(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        received = connection.recv(65536)
        if not received:
            raise ControlUnreachable("the process hung up without an answer")
        parts.append(received)
    return b"".join(parts)


def remotes(directory: Path) -> list[Remote]:
    """The processes that serve control from `directory` and are alive. Raises `ControlUnreachable` when none is."""
    found = [Remote(directory, pointer) for _, pointer in pointers(directory)]
    alive = [remote for remote in found if listens(remote.pointer)]
    if alive:
        return alive
    gone = f"; process {found[0].pid} that did is gone" if found else ""
    raise ControlUnreachable(f"no process serves control from {directory}{gone}")

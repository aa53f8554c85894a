"""The socket that other processes of this user control the runs through."""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actionspan import guard
from actionspan.control._peer import same_user
from actionspan.control._place import Place, remove_stale
from actionspan.control._wire import MAX_LINE, answer, refusal

if TYPE_CHECKING:
    from actionspan.control.controller import RunControl

__all__ = ["ControlServer"]

_MOST_CLIENTS: Final = 16
_LAST_WORDS: Final = 2.0
"""Seconds that closing waits for answers that are being given."""
_PATIENCE: Final = 10.0
"""Seconds in which a line has to arrive, or an answer to leave."""


class ControlServer:
    """Serves `control` from `directory`, in threads that do not keep the process alive. Raises `OSError`."""

    def __init__(self, control: RunControl, directory: str | os.PathLike[str]) -> None:
        self._control = weakref.ref(control)
        served = Path(directory)
        if served.is_dir():
            remove_stale(served)
        self.place: Final = Place.make(served)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(self.place.socket))
            self._listener.listen(4 * _MOST_CLIENTS)  # so many may wait until they are told that there are too many
            self._listener.setblocking(False)
            self.place.announce()
        except BaseException:
            self._listener.close()
            self.place.remove()
            raise
        self._waker, self._woken = socket.socketpair()
        self._closed = False
        self._pid = os.getpid()
        self._clients = threading.BoundedSemaphore(_MOST_CLIENTS)
        self._answering = 0
        self._idle = threading.Condition()
        self._thread = threading.Thread(target=self._accept, name="actionspan-control", daemon=True)
        self._thread.start()
        _servers.add(self)
        atexit.register(self.close)

    def close(self) -> None:
        """Stop listening, and take the files away; a second call does nothing, nor does one in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._waker.close()
        self._thread.join(_PATIENCE)
        with self._idle:  # who ended the last run is to be told so
            self._idle.wait_for(lambda: not self._answering, _LAST_WORDS)
        self.place.remove()

    def _accept(self) -> None:
        with self._listener, self._woken, selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._closed:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._listener in ready:
                    guard.call("control.socket", self._accept_one)

    def _accept_one(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client went away again
            return
        connection.settimeout(_PATIENCE)
        refused = None
        if not same_user(connection):
            refused = "only the user of this process may control it"
        elif not self._clients.acquire(blocking=False):
            refused = f"{_MOST_CLIENTS} clients are connected already"
        if refused is not None:
            with connection, suppress(OSError):
                connection.sendall(refusal(refused))
            return
        threading.Thread(target=self._serve, args=(connection,), name="actionspan-control-client", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            guard.call("control.socket", lambda: self._converse(connection))
        finally:
            self._clients.release()
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        """Answer line by line, until the client leaves, takes too long, or says too much."""
        from actionspan.control.controller import called_from

        with suppress(OSError), called_from("socket"):
            for line in _lines(connection):
                control = self._control()
                if control is None or self._closed:
                    return
                if line is None:
                    connection.sendall(refusal(f"a line has at most {MAX_LINE} bytes"))
                    return
                with self._busy():
                    connection.sendall(answer(control, line, self.place.token))

    @contextmanager
    def _busy(self) -> Generator[None]:
        with self._idle:
            self._answering += 1
        try:
            yield
        finally:
            with self._idle:
                self._answering -= 1
                self._idle.notify_all()

    def after_fork(self) -> None:
        """In a child: the parent serves on, and nobody may think that we do."""
        self._listener.close()
        self._waker.close()
        self._woken.close()


def _lines(connection: socket.socket) -> Iterator[bytes | None]:
    """The lines that come, each in time; None for one that is too long, which is the last."""
    buffer = bytearray()
    while True:
        deadline = time.monotonic() + _PATIENCE
        while b"\n" not in buffer:
            if len(buffer) >= MAX_LINE:
                yield None
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            connection.settimeout(left)
            received = connection.recv(MAX_LINE)
            if not received:
                return
            buffer += received
        line, _, rest = bytes(buffer).partition(b"\n")
        buffer = bytearray(rest)
        if len(line) >= MAX_LINE:
            yield None
            return
        connection.settimeout(_PATIENCE)
        yield line


_servers: weakref.WeakSet[ControlServer] = weakref.WeakSet()


def _after_fork() -> None:
    for server in list(_servers):
        server.after_fork()


os.register_at_fork(after_in_child=_after_fork)

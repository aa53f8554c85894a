"""What happens under a controller, as a stream for whoever watches."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Self

from actionspan.control.contract import Gate, RunState
from actionspan.control.receipts import Receipt, Target, wake

__all__ = ["ControlEvent", "EventHub", "EventStream"]

_MOST_UNREAD: Final = 10_000
"""Events kept for a reader that is slow; beyond that its oldest are lost, and `lost` counts them."""


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """One thing that happened."""

    kind: str
    """`attached`, `paused`, `resumed`, `expired` (a pause that nobody ended), `aborting`, `ended`; the verb of a
    receipt just made; `settled` when a pending target of one is no longer pending."""
    time: float
    """Epoch seconds."""
    run: str | None = None
    """Our handle of the run; None of a verb."""
    agent_name: str | None = None
    run_id: str | None = None
    state: RunState | None = None
    gate: Gate | None = None
    receipt: Receipt | None = None
    target: Target | None = None


class EventHub:
    """Gives every event to every stream that is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: tuple[EventStream, ...] = ()
        self._closed = False

    def publish(self, event: ControlEvent) -> None:
        """Give `event` to the streams, from any thread."""
        for stream in self._streams:
            stream.put(event)

    def open(self) -> EventStream:
        """A stream of everything from now on."""
        stream = EventStream(self)
        with self._lock:
            if self._closed:
                stream.stop()
            else:
                self._streams = (*self._streams, stream)
        return stream

    def leave(self, stream: EventStream) -> None:
        """Give `stream` nothing any more."""
        with self._lock:
            self._streams = tuple(other for other in self._streams if other is not stream)

    def close(self) -> None:
        """End every stream once it is read."""
        with self._lock:
            streams, self._streams, self._closed = self._streams, (), True
        for stream in streams:
            stream.stop()


class EventStream(AsyncIterator[ControlEvent]):
    """The events since it was opened; iterate it in one task. `aclose()` or leaving `async with` ends it."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._unread: deque[ControlEvent] = deque(maxlen=_MOST_UNREAD)
        self._reader: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._stopped = False
        self.lost = 0

    def put(self, event: ControlEvent) -> None:
        """Keep `event` for the reader, and wake it."""
        with self._lock:
            self.lost += len(self._unread) == _MOST_UNREAD
            self._unread.append(event)
        self._wake()

    def stop(self) -> None:
        """End once what is unread is read."""
        with self._lock:
            self._stopped = True
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            wake(*reader)

    async def __anext__(self) -> ControlEvent:
        while True:
            loop = asyncio.get_running_loop()
            with self._lock:
                if self._unread:
                    return self._unread.popleft()
                if self._stopped:
                    raise StopAsyncIteration
                future: asyncio.Future[None] = loop.create_future()
                self._reader = (loop, future)
            await future

    async def aclose(self) -> None:
        """Leave the stream."""
        self._hub.leave(self)
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

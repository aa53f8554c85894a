"""When the chunks of a streamed response arrived."""

from __future__ import annotations

import time
from array import array
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import StreamedResponse

__all__ = ["ChunkClock"]

_MAX_GAPS = 10_000
"""How many gaps of one response are kept: enough for any answer, and no more than 80 kB."""


class ChunkClock:
    """The seconds from each chunk of one response to the next, as the model hands them on.

    Every model class supplies its chunks through `_get_event_iterator`, which the library asks for once, when the
    response is first read. It is looked up on the instance, so one response can be watched without touching a class.
    """

    def __init__(self) -> None:
        self.gaps = array("d")
        self._last: float | None = None

    def watch(self, stream: StreamedResponse) -> None:
        """Time the chunks of `stream`, which nobody has read from yet."""
        supply = stream._get_event_iterator  # pyright: ignore[reportPrivateUsage]
        vars(stream)["_get_event_iterator"] = lambda: _Timed(supply(), self)

    def tick(self) -> None:
        """A chunk has arrived."""
        now = time.perf_counter()
        if self._last is not None and len(self.gaps) < _MAX_GAPS:
            self.gaps.append(now - self._last)
        self._last = now


class _Timed:
    """An iterator that is the model's own in everything but that it tells the time.

    Not a generator: the model's is then finalised when and how it is without us.
    """

    def __init__(self, chunks: AsyncIterator[ModelResponseStreamEvent], clock: ChunkClock) -> None:
        self._chunks = chunks
        self._clock = clock

    def __aiter__(self) -> _Timed:
        return self

    async def __anext__(self) -> ModelResponseStreamEvent:
        chunk = await self._chunks.__anext__()
        self._clock.tick()
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chunks, name)

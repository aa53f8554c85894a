"""The recorder that writes lines of JSON to a directory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, get_args

from actionspan.recorder import _live
from actionspan.recorder._directory import prepare_directory
from actionspan.recorder._log import Durability, RecorderStats, SegmentLog
from actionspan.recorder._retention import Retention
from actionspan.recorder.contract import Event, EventFilter, Moment
from actionspan.recorder.reader import read

__all__ = ["JsonlRecorder", "open_log"]

DEFAULT_SEGMENT_BYTES: Final = 64 * 2**20
DEFAULT_FILE_MODE: Final = 0o600


class JsonlRecorder:
    """Records to segment files in `directory`, which is made with mode 0700 when it is not there.

    Any number of recorders and processes may share a directory: each writes its own segments. Raises `ValueError` for
    an argument that is not permitted, `OSError` (`PermissionError`, `NotADirectoryError`) for a directory that cannot
    be written to or that others may write to. Once it is open, failures of the file system are counted in `stats()`
    and logged, never raised.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durability: Durability = "write",
        max_segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        max_total_bytes: int | None = None,
        max_age: float | timedelta | None = None,
        file_mode: int = DEFAULT_FILE_MODE,
    ) -> None:
        """Open a recorder.

        `durability`: `"write"` survives SIGKILL, `"fsync"` a power failure but for 50 ms, `"batch"` neither but for
        1 s or 64 KiB. `max_total_bytes` and `max_age` (seconds) remove whole closed segments, the oldest first.
        """
        self._directory = Path(directory)
        self._log = open_log(
            self._directory,
            durability=durability,
            max_segment_bytes=max_segment_bytes,
            max_total_bytes=max_total_bytes,
            max_age=max_age,
            file_mode=file_mode,
        )
        self._closed = False
        _live.enter(self._directory)
        # At exit, or when the recorder is dropped without close(): the segment gets its trailer.
        weakref.finalize(self, self._log.finish)

    @property
    def directory(self) -> Path:
        return self._directory

    def emit(self, event: Event) -> None:
        """Write one event; see `Recorder.emit`."""
        self._log.append(event)

    def flush(self) -> None:
        """Hand everything to the operating system, and with durability fsync to the disk."""
        self._log.flush()

    def close(self) -> None:
        """Write the trailer and release the segment; a second call does nothing."""
        if not self._closed:
            self._closed = True
            _live.leave(self._directory)
            self._log.close()

    def query(
        self,
        *,
        kind: str | None = None,
        agent_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        call_id: str | None = None,
        extra_filter: EventFilter | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Iterate matching events of every process in the directory; also after `close()`. See `Recorder.query`."""
        self._log.flush()
        return read(self._directory).query(
            kind=kind, agent_id=agent_id, since=since, until=until, call_id=call_id, extra_filter=extra_filter
        )

    def replay(self, from_call_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Iterate all events of every process in the directory; also after `close()`. See `Recorder.replay`."""
        self._log.flush()
        return read(self._directory).replay(from_call_id)

    def stats(self) -> RecorderStats:
        """What this recorder did in this process."""
        return self._log.stats

    def __enter__(self) -> JsonlRecorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"JsonlRecorder({str(self._directory)!r})"


def open_log(
    directory: Path,
    *,
    durability: Durability = "write",
    max_segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    max_total_bytes: int | None = None,
    max_age: float | timedelta | None = None,
    file_mode: int = DEFAULT_FILE_MODE,
) -> SegmentLog:
    """A log in `directory`, its arguments checked and the directory prepared; raises as `JsonlRecorder` says."""
    if durability not in get_args(Durability):
        raise ValueError(f"durability={durability!r} is not one of {', '.join(get_args(Durability))}")
    _positive("max_segment_bytes", max_segment_bytes)
    if max_total_bytes is not None:
        _positive("max_total_bytes", max_total_bytes)
    seconds = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
    if seconds is not None and not (type(seconds) in (int, float) and seconds > 0):
        raise ValueError(f"max_age is a positive number of seconds or a timedelta, not {max_age!r}")
    if type(file_mode) is not int or file_mode & 0o600 != 0o600 or file_mode & ~0o666:
        raise ValueError(f"file_mode must let the owner read and write and nobody execute, not {file_mode!r}")
    prepare_directory(directory)
    return SegmentLog(directory, durability, max_segment_bytes, Retention(max_total_bytes, seconds), file_mode)


def _positive(name: str, value: object) -> None:
    if type(value) is not int or value <= 0:
        raise ValueError(f"{name} must be a positive integer, not {value!r}")

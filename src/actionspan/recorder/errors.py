"""What a recorder raises.

RecorderError
    RecorderClosed          emit after close
    UnknownCallId           replay from a call that is not in the record
    QueryNotSupported       query or replay of a recorder that can only write
    CompressionUnavailable  a compressed segment, or compact(), without the `zstd` extra
"""

from __future__ import annotations

__all__ = ["CompressionUnavailable", "QueryNotSupported", "RecorderClosed", "RecorderError", "UnknownCallId"]


class RecorderError(Exception):
    """Base of the errors below; arguments that are not permitted are `ValueError`s as everywhere."""


class RecorderClosed(RecorderError):
    """An event was emitted to a recorder after `close()`."""


class UnknownCallId(RecorderError, LookupError):
    """No event of the record has the call id that a replay was to start from."""


class QueryNotSupported(RecorderError):
    """This recorder writes only; the message names those that read back."""


class CompressionUnavailable(RecorderError):
    """zstandard is not installed: `pip install 'actionspan[zstd]'`."""

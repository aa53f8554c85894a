"""What reading from a backend raises."""

from __future__ import annotations

from actionspan.recorder.errors import RecorderError

__all__ = ["BackendError"]


class BackendError(RecorderError):
    """A backend could not be reached, refused a request, or answered what is no answer; the message names its URL."""


class AnswerTooLarge(BackendError):
    """An answer is larger than this process is willing to hold."""

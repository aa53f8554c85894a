"""What reading JSON that somebody else wrote may raise."""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["UNDECODABLE"]

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Besides the decoder's own: text that is no UTF-8, which some of its releases tell so, and nesting without end."""

"""The texts that stand where something was not kept."""

from __future__ import annotations

from typing import Any, Final

from actionspan.redact import SECRET as SECRET

BINARY: Final = "<binary>"
"""Bytes in any form, and the payload of a `data:` URI."""
CYCLE: Final = "<cycle>"
"""A container inside itself."""
MAX_DEPTH: Final = "<max-depth>"
TRUNCATED: Final = "<truncated>"
"""Something left out for lack of room; as a key of a mapping, with how many entries."""
UNSUPPORTED: Final = "<unsupported>"
"""A value that has no JSON form we can read without running application code."""
REDACTION_FAILED: Final = "<redaction-failed>"

NO_ROOM: Final[Any] = object()
"""Not a marker: says that not even a marker fits."""


def cut_suffix(characters: int) -> str:
    """What a string ends in when that many of its characters were cut."""
    return f"…<truncated {characters}>"

"""What an exception says, without the values that a validation rejected: those have categories of their own."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["without_rejected_input"]

_INPUT: Final = ", input_value="
_QUOTED: Final = re.compile(
    rf"(?P<type>\[type=[\w.]+){_INPUT}"
    # Pydantic's own text names the type of the input after it, which may be an object whose repr has several lines;
    # Pydantic AI's does not.
    r"(?:(?:(?!\[type=).)*?, input_type=[^\n\]]*\](?=\n|\Z)|[^\n]*)",
    re.DOTALL,
)
_UNDECLARED: Final = re.compile(
    r"^[^\n]*\n(?=[ |]*(?:Extra inputs are not permitted|Unexpected keyword argument) \[type=)", re.MULTILINE
)
_TAG: Final = re.compile(r"Input tag '(?:(?!Input tag ').)*?' found using", re.DOTALL)


def without_rejected_input(text: str) -> str:
    """`text` where it is, or contains, that of a Pydantic `ValidationError`, as with `hide_input_in_errors`.

    Also gone are the names of fields that no schema has, and a union's tag: the input's author chose them.
    """
    if "[type=" not in text:
        return text
    text = _UNDECLARED.sub("<undeclared>\n", text)
    text = _TAG.sub("Input tag found using", text)
    return _QUOTED.sub(r"\g<type>]", text)

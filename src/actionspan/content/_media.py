"""Media that hides in text: only its media type is kept."""

from __future__ import annotations

import re
from typing import Any, Final

from actionspan.content._markers import BINARY


def hide_media(mapping: dict[str, Any]) -> None:
    """Replace base64 text in a JSON mapping that names a media type beside it, as MCP and provider messages do."""
    kind = next((mapping[name] for name in _MEDIA_TYPES if name in mapping), None)
    if type(kind) is not str or kind.startswith("text/"):
        return
    names = ("data", "blob", "content") if mapping.get("type") == "blob" else ("data", "blob")
    for name in names:
        if type(mapping.get(name)) is str:
            mapping[name] = BINARY


_MEDIA_TYPES: Final = ("media_type", "mime_type", "mimeType")


def without_media(text: str) -> str:
    """`text` with the payload of every `data:` URI in it replaced by `<binary>`."""
    if ":" not in text or "data:" not in text.lower():
        return text
    kept: list[str] = []
    at = 0
    while uri := _DATA_URI.search(text, at):
        base64 = ";base64" if uri["base64"] else ""
        kept += text[at : uri.start()], f"data:{uri['type'] or ''}{base64},{BINARY}"
        at = _end_of_base64(text, uri.end()) if base64 else uri.end()
    return "".join(kept) + text[at:]


def _end_of_base64(text: str, at: int) -> int:
    """Where the lines of a payload end whose first ends at `at`. In one expression each line would cost memory."""
    while line := _BASE64_LINE.match(text, at):
        at = line.end()
    return at


# The header is bounded and the payload consumed, so the search is linear. A payload may be wrapped into lines, and in
# JSON text the slash and the line's end are escaped; a backslash at its end belongs to what follows. One that is not
# base64 needs a media type before it, for prose also says "data: a, b"; it ends at a blank, a quote or a bracket. No
# group is possessive, as in `actionspan.redact`.
_BASE64: Final = r"[A-Za-z0-9+/=_%\\-]+ (?<! \\ )"
_DATA_URI: Final = re.compile(
    rf"""
    data: (?P<type> [\w.+-]{{1,64}} \\?/ [\w.+*-]{{1,128}} )?
    (?: ; (?!base64\s*,) [\w.+-]{{1,64}} (?: = [^;,\s]{{0,256}} )? ){{0,8}}
    (?: (?P<base64> ;base64 ) \s{{0,4}} , \s{{0,4}} {_BASE64}
      | (?(type) , (?!<binary>) [^\s"'()\[\]{{}}]+ | (?!) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BASE64_LINE: Final = re.compile(
    rf"""
    (?: [ \t]{{0,8}} \r?\n [ \t]{{0,8}} | (?<=\\n) [ \t]{{1,8}} | [ \t]{{1,8}} (?= (?:\\r)? \\n ) )
    {_BASE64}
    """,
    re.VERBOSE,
)

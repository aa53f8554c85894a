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
    return _DATA_URI.sub(_without_payload, text)


def _without_payload(uri: re.Match[str]) -> str:
    base64 = ";base64" if uri["base64"] else ""
    return f"data:{uri['type'] or ''}{base64},{BINARY}"


# The header is bounded and the payload consumed, so the search is linear. A payload may be wrapped into lines, and JSON
# text may escape the slash. One that is not base64 needs a media type before it, for prose also says "data: a, b"; it
# ends at a blank, a quote or a bracket.
_DATA_URI: Final = re.compile(
    r"""
    data: (?P<type> [\w.+-]{1,64} \\?/ [\w.+*-]{1,128} )?
    (?: ; (?!base64\s*,) [\w.+-]{1,64} (?: = [^;,\s]{0,256} )? ){0,8}
    (?: (?P<base64> ;base64 ) \s{0,4} , \s{0,4}
            (?: [A-Za-z0-9+/=_%-] | \\/ )++
            (?: [ \t]{0,8} (?: \r?\n | (?:\\r)?\\n ) [ \t]{0,8} [A-Za-z0-9+/=_%-]++ )*+
      | (?(type) , (?!<binary>) [^\s"'()\[\]{}]++ | (?!) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)

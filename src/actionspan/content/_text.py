"""One string, bounded: mended, without the media written into it, and cut."""

from __future__ import annotations

import re
from typing import Final

from actionspan.content._json import encode
from actionspan.content._markers import cut_suffix
from actionspan.content._media import without_media

ALLOWANCE: Final = 8 * 1024
"""Characters beyond the limit that are looked at, so that what straddles the cut is still recognised."""


def bounded(text: str, limit: int, more: int = 0) -> tuple[str, bool]:
    """`text` as at most `limit` valid characters, and whether it was cut; a cut text ends in the number cut.

    `more` characters were left out by the caller already. Looks at no more than the limit and the allowance.
    """
    head = text[: limit + ALLOWANCE]
    more += len(text) - len(head)
    head = without_media(mended(head))
    if len(head) <= limit and not more:
        return head, False
    kept = head[:limit]
    return kept + cut_suffix(len(head) - len(kept) + more), True


def mended(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def fitting(text: str, size: int) -> str | None:
    """The longest beginning of `text`, with the number of characters cut, whose JSON text has at most `size` bytes.

    None when that would not be worth more than a marker.
    """
    whole, already = uncut(text)
    least, most = 8, len(whole)
    if len(whole) <= least or _cut_size(whole, least, already) > size:
        return None
    while most - least > 1:
        middle = (least + most) // 2
        if len(whole) <= least or _cut_size(whole, middle, already) <= size:
            least = middle
        else:
            most = middle
    return whole[:least] + cut_suffix(len(whole) - least + already)


def _cut_size(text: str, kept: int, already: int) -> int:
    return len(encode(text[:kept] + cut_suffix(len(text) - kept + already)))


def uncut(text: str) -> tuple[str, int]:
    """`text` without the suffix of an earlier cut, and the number it tells."""
    found = _SUFFIX.search(text, max(0, len(text) - 32))
    return (text[: found.start()], int(found[1])) if found else (text, 0)


_SUFFIX: Final = re.compile(cut_suffix(0).replace("0", "([0-9]{1,15})") + r"\Z")

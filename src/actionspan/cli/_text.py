"""What a person reads: recorded text made harmless, and numbers made short."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = [
    "ascii_json",
    "cut",
    "dollars",
    "encodable",
    "harmless",
    "harmless_json",
    "many",
    "number",
    "seconds",
    "short_number",
]

_DANGEROUS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that steer a terminal or reorder its text, or that nobody can see."""
_ASCII_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_NOT_ASCII: Final = re.compile("[^\x20-\x7e]")
_LEAST_PRICE: Final = 0.00005
"""Dollars that four decimals still tell from nothing."""
_MINUTE: Final = 60
_HOUR: Final = 3600


def harmless(text: object) -> str:
    """`text` with everything that could steer the terminal spelt out: escapes, controls, bidi marks, line breaks."""
    text = str(text)
    if text.isascii() and not _ASCII_CONTROL.search(text):
        return text
    return _NOT_ASCII.sub(_spelt, text)


def harmless_json(encoded: str) -> str:
    """JSON text that means the same and holds nothing that could steer the terminal."""
    if encoded.isascii() and "\x7f" not in encoded:
        return encoded
    return _NOT_ASCII.sub(_json_escape, encoded)


def ascii_json(encoded: str) -> str:
    """JSON text that means the same and is ASCII."""
    return _NOT_ASCII.sub(lambda match: match[0] if match[0] < "\x20" else _units(match[0]), encoded)


def encodable(text: str, encoding: str) -> bool:
    """Whether `encoding` has all characters of `text`."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _spelt(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) not in _DANGEROUS:
        return character
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    if character < "\x20" or unicodedata.category(character) not in _DANGEROUS:
        return character  # below 0x20 JSON has only its own layout
    return _units(character)


def _units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def cut(text: str, characters: int) -> str:
    """`text`, or its beginning and how much more there was."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]} [{number(len(text) - characters)} more characters]"


def seconds(value: float | None) -> str:
    """A duration in the unit that suits it: `0.4ms`, `81ms`, `1.24s`, `3m 05s`, `2h 07m`."""
    if value is None:
        return ""
    if value < 0.00995:
        return f"{value * 1e3:.1f}ms"
    if value < 0.9995:
        return f"{value * 1e3:.0f}ms"
    if value < _MINUTE - 0.005:
        return f"{value:.2f}s"
    if value < _HOUR - 0.5:
        whole = round(value)
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    minutes = round(value / _MINUTE)
    return f"{minutes // _MINUTE}h {minutes % _MINUTE:02d}m"


def number(value: int | None) -> str:
    """`1,234`; nothing for what is not known."""
    return "" if value is None else f"{value:,}"


def many(count: int, thing: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number(count)} {thing}" if count == 1 else f"{number(count)} {thing}s"


def short_number(value: int | None) -> str:
    """A count in at most five characters or so: `9,999`, `12.3k`, `4.5M`."""
    if value is None or value < 10_000:
        return number(value)
    for size, unit in ((10**9, "G"), (10**6, "M")):
        if value >= size * 0.99995:
            return f"{value / size:.1f}{unit}"
    return f"{value / 1000:.1f}k"


def dollars(value: float | None, *, atleast: bool = False) -> str:
    """`$0.0123`, as a lower bound `$0.0123+`; nothing for an unknown price, which is not a price of nothing."""
    if value is None:
        return ""
    shown = f"${value:,.2f}" if value >= 1 else f"${value:.4f}"
    if 0 < value < _LEAST_PRICE:
        shown = "<$0.0001"
    return f"{shown}+" if atleast else shown

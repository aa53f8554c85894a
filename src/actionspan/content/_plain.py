"""The quick way for most content: values of exact JSON types that fit as they are.

It gives the same copy as the walk through a value would, or none at the first thing that needs a decision.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from actionspan.content._stored import class_of


class NotPlain(Exception):
    """The value needs the full walk."""


class Left:
    """What a plain copy may still hold."""

    __slots__ = ("characters", "string_limit", "values")

    def __init__(self, values: int, characters: int, string_limit: int) -> None:
        self.values = values
        self.characters = characters
        self.string_limit = string_limit


def plain_copy(value: Any, levels: int, left: Left) -> Any:
    """The copy of a dict or list of exact JSON types with at most that many levels; raises `NotPlain` for any other.

    Raises `RuntimeError` when another thread changes it meanwhile.
    """
    left.values -= len(value)
    if levels <= 0 or left.values < 0:
        raise NotPlain
    if class_of(value) is list:
        return [_plain(item, levels, left) for item in value]
    copy: dict[str, Any] = {}
    for key, item in value.items():
        if class_of(key) is not str or len(key) > left.string_limit:
            raise NotPlain
        if class_of(item) is str and len(item) <= left.string_limit:
            left.characters -= len(key) + len(item)
            copy[key] = item
        else:
            left.characters -= len(key)
            copy[key] = _plain(item, levels, left)
    if left.characters < 0:
        raise NotPlain
    return copy


def _plain(item: Any, levels: int, left: Left) -> Any:
    kind = class_of(item)
    if kind is str:
        size = len(item)
        left.characters -= size
        if size > left.string_limit or left.characters < 0:
            raise NotPlain
        return item
    if kind is dict or kind is list:
        return plain_copy(item, levels - 1, left)
    if item is None or kind is bool or (kind is int and item.bit_length() < 64) or (kind is float and isfinite(item)):
        return item
    raise NotPlain

"""What the instances of each class become, decided once per class.

The built-in types are read through their own methods, whatever a subclass of them overrides.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from actionspan.content._layouts import Layout, layout_of
from actionspan.content._markers import BINARY, SECRET, TRUNCATED, UNSUPPORTED
from actionspan.content._standard import Standard, standard_text
from actionspan.content._stored import (
    class_attribute,
    class_mro,
    derives_from,
    dict_entries,
    dict_size,
    has_base,
    stored_attribute,
)

if TYPE_CHECKING:
    from actionspan.content._snapshot import Walker


class Reader(Protocol):
    """Copies a value of one class into JSON types."""

    def __call__(self, walker: Walker, value: Any, depth: int, /) -> Any: ...


def reader_of(cls: type) -> Reader:
    """The reader for instances of exactly `cls`."""
    # By identity: hashing a class may run its metaclass's code. The class is kept, so its identity is not reused.
    known = _readers.get(id(cls))
    if known is not None:
        return known[1]
    reader, stable = _decide(cls)
    if stable:
        if len(_readers) >= _MOST_CLASSES:
            _readers.clear()
        _readers[id(cls)] = (cls, reader)
    return reader


_MOST_CLASSES: Final = 2048
_readers: Final[dict[int, tuple[type, Reader]]] = {}


def _decide(cls: type) -> tuple[Reader, bool]:
    """The reader, and whether it stays the right one."""
    if derives_from(cls, BaseException):
        return _unsupported, True
    if has_base(cls, "pydantic.types", ("SecretStr", "SecretBytes", "_SecretBase")):
        return _secret, True
    if has_base(cls, "pydantic_ai.messages", ("BinaryContent",)):
        return _media, True
    if derives_from(cls, Enum):
        return _member, True
    standard = standard_text(cls)
    if standard is not None:
        return _writer(standard), True
    layout = layout_of(cls)
    if layout is not None:
        root = class_attribute(cls, "__pydantic_root_model__") is True
        return (_root if root else _fields(layout)), layout.stable
    for base in class_mro(cls):
        if id(base) in _BUILT_IN:
            return _BUILT_IN[id(base)], True
    return _unsupported, True


def _unsupported(walker: Walker, value: Any, depth: int) -> Any:
    return walker.marker(UNSUPPORTED)


def _secret(walker: Walker, value: Any, depth: int) -> Any:
    return walker.marker(SECRET)


def _binary(walker: Walker, value: Any, depth: int) -> Any:
    return walker.marker(BINARY)


def _media(walker: Walker, value: Any, depth: int) -> Any:
    shown = [("media_type", stored_attribute(value, "media_type")), ("data", b"")]
    return walker.mapping(value, shown, len(shown), depth)


def _member(walker: Walker, value: Any, depth: int) -> Any:
    return walker.nested(value, stored_attribute(value, "_value_"), depth)


def _root(walker: Walker, value: Any, depth: int) -> Any:
    return walker.nested(value, stored_attribute(value, "root"), depth)


def _writer(standard: Standard) -> Reader:
    def write(walker: Walker, value: Any, depth: int) -> Any:
        text = standard(value, walker.string_limit)
        return walker.marker(text) if text in (TRUNCATED, UNSUPPORTED) else walker.whole(text)

    return write


def _fields(layout: Layout) -> Reader:
    def read_fields(walker: Walker, value: Any, depth: int) -> Any:
        pairs = layout.fields(value)
        return walker.mapping(value, pairs, len(pairs), depth)

    return read_fields


def _text(walker: Walker, value: Any, depth: int) -> Any:
    size, most = str.__len__(value), walker.window
    head = str.__getitem__(value, slice(0, most))
    return walker.string(head, depth, size - len(head))


def _integer(walker: Walker, value: Any, depth: int) -> Any:
    return walker.integer(int.__index__(value))


def _float(walker: Walker, value: Any, depth: int) -> Any:
    return walker.walk(float.__float__(value), depth)


def _dict(walker: Walker, value: Any, depth: int) -> Any:
    return walker.mapping(value, dict_entries(value, walker.room.values + 1), dict_size(value), depth)


def _items(kind: Any) -> Reader:
    def read_items(walker: Walker, value: Any, depth: int) -> Any:
        return walker.sequence(value, kind.__iter__(value), kind.__len__(value), depth)

    return read_items


_BUILT_IN: Final[dict[int, Reader]] = {
    id(str): _text,
    id(int): _integer,
    id(float): _float,
    id(bytes): _binary,
    id(bytearray): _binary,
    id(memoryview): _binary,
    id(dict): _dict,
    **{id(kind): _items(kind) for kind in (list, tuple, set, frozenset, deque)},
}

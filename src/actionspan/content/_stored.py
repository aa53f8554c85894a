"""What classes and instances store, read without calling anything they define.

`type(x)` is the only question asked of a value; `isinstance` would ask its `__class__`, attribute access its
`__getattribute__`, and a metaclass may define both. So the interpreter's own descriptors are applied by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, cast

Getter = Callable[[Any], Any]

MISSING: Final[Any] = object()
"""There is no such thing stored."""

class_of: Final[Callable[[Any], type[object]]] = type
"""`type(x)`, without the narrowing that leaves a type checker with unknown parts."""
class_mro: Final[Callable[[Any], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
class_dict: Final[Callable[[Any], Mapping[str, Any]]] = type.__dict__["__dict__"].__get__
class_name: Final[Callable[[Any], str]] = type.__dict__["__name__"].__get__

_MOST_ENTRIES: Final = 4096
"""Entries of an instance dictionary that are looked at."""


def class_attribute(cls: type, name: str) -> Any:
    """What the class or a base stores under `name`, itself and not what a descriptor would make of it, or MISSING."""
    for base in class_mro(cls):
        found = class_dict(base).get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


def is_class(cls: type, module: str, names: tuple[str, ...]) -> bool:
    """Whether the class calls itself one of `names` in `module`: so a library's class is known without its import."""
    defined_in = class_dict(cls).get("__module__")
    return type(defined_in) is str and defined_in == module and class_name(cls) in names


def has_base(cls: type, module: str, names: tuple[str, ...]) -> bool:
    """Whether the class is, or derives from, one of those."""
    return any(is_class(base, module, names) for base in class_mro(cls))


def derives_from(cls: type, ancestor: type) -> bool:
    """`issubclass` by identity alone."""
    return any(base is ancestor for base in class_mro(cls))


def slot_getter(cls: type, name: str) -> Getter | None:
    """The reader of the slot `name` of the class's instances, or None when it is anything else."""
    found = class_attribute(cls, name)
    return found.__get__ if type(found) is MemberDescriptorType else None


def dict_getter(cls: type) -> Getter | None:
    """The reader of the real `__dict__` of the class's instances, whatever else the class calls so."""
    for base in class_mro(cls):
        found = class_dict(base).get("__dict__")
        if type(found) is GetSetDescriptorType:
            return found.__get__
    return None


def read(getter: Getter | None, value: Any) -> Any:
    """What `getter` finds in `value`; MISSING when there is none or the slot is empty."""
    if getter is None:
        return MISSING
    try:
        return getter(value)
    except (AttributeError, TypeError):
        return MISSING


_dict_items: Final = cast("Callable[[Any], Iterable[tuple[Any, Any]]]", dict.__dict__["items"])
dict_size: Final = cast("Callable[[Any], int]", dict.__dict__["__len__"])
tuple_items: Final = cast("Callable[[Any], Iterable[Any]]", tuple.__dict__["__iter__"])


def dict_entries(mapping: Any, most: int) -> list[tuple[Any, Any]]:
    """Up to `most` entries of a `dict` or what derives from one, without calling what it overrides.

    Another thread may be adding to it: then the copy is made anew, and after some attempts it is empty.
    """
    for _ in range(8):
        try:
            return list(islice(_dict_items(mapping), max(0, most)))
        except RuntimeError:
            continue
    return []


def instance_entries(getter: Getter | None, value: Any) -> list[tuple[str, Any]]:
    """The entries of `value`'s instance dictionary whose key is an exact string."""
    stored: object = read(getter, value)
    if stored is MISSING or not derives_from(type(stored), dict):
        return []
    return [entry for entry in dict_entries(stored, _MOST_ENTRIES) if type(entry[0]) is str]


def stored_attribute(value: object, name: str) -> Any:
    """What `value` itself stores as `name`, in a slot or its instance dictionary, or MISSING."""
    cls = type(value)
    found = read(slot_getter(cls, name), value)
    if found is MISSING:
        # Not looked up: that could compare `name` with a key of the application's.
        for key, item in instance_entries(dict_getter(cls), value):
            if key == name:
                return item
    return found

"""Which fields the instances of a typed class store: dataclasses, Pydantic models, msgspec structs, attrs classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from actionspan.content._stored import (
    MISSING,
    Getter,
    class_attribute,
    class_dict,
    derives_from,
    dict_entries,
    dict_getter,
    instance_entries,
    read,
    slot_getter,
    stored_attribute,
    tuple_items,
)

_MOST_FIELDS: Final = 4096
_struct_fields: Final[Getter] = type(msgspec.Struct).__dict__["__struct_fields__"].__get__


class Layout:
    """How to read the shown fields of one class's instances."""

    __slots__ = ("_dict", "_extra", "_names", "_slots", "stable")

    def __init__(self, cls: type, names: Iterable[str], *, stable: bool = True) -> None:
        self._names = frozenset(names)
        self._dict = dict_getter(cls)
        self._slots = [(name, getter) for name in names if (getter := slot_getter(cls, name)) is not None]
        self._extra = slot_getter(cls, "__pydantic_extra__")
        self.stable = stable
        """Whether the class's fields are final; a Pydantic model with unresolved references may gain some."""

    def fields(self, value: Any) -> list[tuple[Any, Any]]:
        """Name and stored value of each field of `value` that has one."""
        pairs: list[tuple[Any, Any]] = [(name, item) for name, item in self._in_slots(value)]
        if self._dict is not None:
            pairs += [entry for entry in instance_entries(self._dict, value) if entry[0] in self._names]
        if self._extra is not None:
            extra = read(self._extra, value)
            if type(extra) is dict:
                pairs += dict_entries(extra, _MOST_FIELDS)
        return pairs

    def _in_slots(self, value: Any) -> Iterator[tuple[str, Any]]:
        for name, getter in self._slots:
            item = read(getter, value)
            if item is not MISSING:
                yield name, item


def layout_of(cls: type) -> Layout | None:
    """The layout of a typed class, or None when it is none of the kinds we know."""
    if derives_from(cls, msgspec.Struct):
        return Layout(cls, _struct_fields(cls))
    pydantic = class_attribute(cls, "__pydantic_fields__")
    dataclass = class_attribute(cls, "__dataclass_fields__")
    attrs = class_attribute(cls, "__attrs_attrs__")
    shown: dict[str, bool] = {}
    for declared in (_dataclass_fields(dataclass), _attrs_fields(attrs), _pydantic_fields(pydantic)):
        for name, show in declared:
            # A Pydantic dataclass declares its fields twice; hidden in one place is hidden.
            shown[name] = show and shown.get(name, True)
    if pydantic is MISSING and dataclass is MISSING and attrs is MISSING:
        return None
    complete = class_dict(cls).get("__pydantic_complete__", True) is True
    return Layout(cls, [name for name, show in shown.items() if show], stable=complete)


def _dataclass_fields(fields: Any) -> Iterator[tuple[str, bool]]:
    if type(fields) is dict:
        for name, field in dict_entries(fields, _MOST_FIELDS):
            if type(name) is str and type(field) is dataclasses.Field:
                yield name, _field_repr(field) is True


_field_repr: Final[Getter] = dataclasses.Field.__dict__["repr"].__get__


def _attrs_fields(attributes: object) -> Iterator[tuple[str, bool]]:
    if attributes is not MISSING and derives_from(type(attributes), tuple):
        for attribute in tuple_items(attributes):
            name = stored_attribute(attribute, "name")
            if type(name) is str:
                # `repr` may be a function, which is how one hides a value in part: not shown either.
                yield name, stored_attribute(attribute, "repr") is True


def _pydantic_fields(fields: Any) -> Iterator[tuple[str, bool]]:
    if type(fields) is dict:
        for name, field in dict_entries(fields, _MOST_FIELDS):
            if type(name) is str:
                yield name, _pydantic_shown(field)


def _pydantic_shown(field: Any) -> bool:
    """Not excluded, not hidden from repr, and not excluded by a condition that we would have to run."""
    excluded = stored_attribute(field, "exclude")
    condition = stored_attribute(field, "exclude_if")
    return (
        (excluded is None or excluded is False)
        and (condition is None or condition is MISSING)
        and stored_attribute(field, "repr") is True
    )

"""No input makes a snapshot raise, or run any of the application's code."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import attrs
import pydantic
import pytest

from actionspan.content import Budget, snapshot, to_json
from actionspan.content._snapshot import Walker
from actionspan.policy import NormalizationLimits

LIMITS = NormalizationLimits()
SPECIAL = [
    *("__getattribute__", "__getattr__", "__repr__", "__str__", "__format__", "__bytes__", "__hash__", "__eq__"),
    *("__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__len__", "__length_hint__", "__iter__"),
    *("__next__", "__reversed__", "__contains__", "__getitem__", "__int__", "__index__", "__float__", "__complex__"),
    *("__round__", "__add__", "__radd__", "__iadd__", "__mul__", "__mod__", "__and__", "__call__", "__dir__"),
    *("__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__sizeof__", "__fspath__", "__buffer__"),
    *("__instancecheck__", "__subclasscheck__"),
]
ORDINARY = [
    *("keys", "values", "items", "get", "copy", "model_dump", "model_dump_json", "dict", "json", "isoformat"),
    *("utcoffset", "tzinfo", "year", "hour", "days", "int", "hex", "bit_length", "encode", "lower", "startswith"),
    *("_asdict", "_value_", "value", "to_dict", "tolist", "as_tuple", "adjusted", "__class__", "__dict__"),
    "__await__",
]


def refuses(name: str, calls: list[str]) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        calls.append(name)
        raise RuntimeError(f"{name} is application code")

    return refuse


class Traps(type):
    """A metaclass that refuses every question about its classes, too."""

    armed = False
    calls: list[str] = []  # noqa: RUF012 # shared on purpose

    def __getattribute__(cls, name: str) -> Any:
        if Traps.armed:
            Traps.calls.append(f"class.{name}")
            raise RuntimeError("application code")
        return super().__getattribute__(name)

    def __hash__(cls) -> int:
        return Traps._refuse("class.__hash__", 0)

    def __eq__(cls, other: object) -> bool:
        return Traps._refuse("class.__eq__", cls is other)

    def __instancecheck__(cls, instance: object) -> bool:
        return Traps._refuse("class.__instancecheck__", False)

    @staticmethod
    def _refuse(name: str, otherwise: Any) -> Any:
        if type.__getattribute__(Traps, "armed"):
            type.__getattribute__(Traps, "calls").append(name)
            raise RuntimeError("application code")
        return otherwise


def hostile(base: type, calls: list[str]) -> type:
    """A subclass of `base` everything of which raises, and says that it was called."""
    refused = {name: refuses(name, calls) for name in SPECIAL}
    return type("Hostile", (base,), refused | {name: property(refused["__call__"]) for name in ORDINARY})


@pytest.fixture
def calls() -> Iterator[list[str]]:
    made: list[str] = []
    yield made
    assert made == [], "application code ran"


BUILT_IN: list[tuple[type, tuple[Any, ...], Any]] = [
    (object, (), "<unsupported>"),
    (dict, ({"a": 1},), {"a": 1}),
    (OrderedDict, ({"a": 1},), {"a": 1}),
    (list, ([1],), [1]),
    (tuple, ((1,),), [1]),
    (set, ({1},), [1]),
    (frozenset, ({1},), [1]),
    (deque, ([1],), [1]),
    (str, ("text",), "text"),
    (int, (7,), 7),
    (float, (0.5,), 0.5),
    (bytes, (b"x",), "<binary>"),
    (bytearray, (b"x",), "<binary>"),
    (Decimal, ("1.5",), "1.5"),
    (dt.date, (2026, 1, 2), "2026-01-02"),
    (dt.datetime, (2026, 1, 2, 3), "2026-01-02T03:00:00"),
    (dt.time, (3, 4), "03:04:00"),
    (dt.timedelta, (1,), "1 day, 0:00:00"),
    (ValueError, ("x",), "<unsupported>"),
]


@pytest.mark.parametrize(("base", "arguments", "shown"), BUILT_IN, ids=lambda value: getattr(value, "__name__", ""))
def test_subclasses_are_read_through_the_built_in_type(
    base: type, arguments: tuple[Any, ...], shown: Any, calls: list[str]
) -> None:
    cls = hostile(base, calls)
    value = base.__new__(cls, *arguments)
    if base in (dict, OrderedDict, list, set, deque, bytearray):
        base.__init__(value, *arguments)
    calls.clear()
    assert snapshot(value, LIMITS) == shown
    assert snapshot({"inside": [value]}, LIMITS) == {"inside": [shown]}


def test_typed_values_are_read_without_their_code(calls: list[str]) -> None:
    @dataclasses.dataclass
    class Data:
        field: int

    @attrs.define
    class Defined:
        field: int

    class Model(pydantic.BaseModel):
        field: int

    for kind in (Data, Defined, Model):
        value = kind(field=1)
        for name in SPECIAL:
            setattr(kind, name, refuses(name, calls))
        # The instance is only ever asked by the interpreter's own descriptors.
        calls.clear()
        assert snapshot(value, LIMITS) == {"field": 1}


def test_a_property_called_dict_is_not_the_instance_dictionary(calls: list[str]) -> None:
    @dataclasses.dataclass
    class Data:
        field: int

    class Liar(Data):
        __dict__ = property(refuses("__dict__", calls))  # type: ignore[assignment]
        __class__ = property(refuses("__class__", calls))  # type: ignore[assignment]

    assert snapshot(Liar(1), LIMITS) == {"field": 1}


def test_a_uuid_with_a_foreign_number_is_unsupported(calls: list[str]) -> None:
    cls = type("Hostile", (uuid.UUID,), {"__str__": refuses("__str__", calls), "int": property(refuses("int", calls))})
    assert snapshot(object.__new__(cls), LIMITS) == "<unsupported>"


def test_a_metaclass_is_not_asked_either() -> None:
    class Thing(metaclass=Traps):
        pass

    thing, type_of_thing = Thing(), Thing
    Traps.calls.clear()
    Traps.armed = True
    try:
        kept = snapshot([thing, type_of_thing], LIMITS), list(type.__getattribute__(Traps, "calls"))
    finally:
        Traps.armed = False
    assert kept == (["<unsupported>", "<unsupported>"], [])


def test_keys_are_neither_hashed_nor_compared(calls: list[str]) -> None:
    class Key(str):
        armed = False

        def __hash__(self) -> int:
            if Key.armed:
                calls.append("__hash__")
            return hash("<truncated>")

        def __eq__(self, other: object) -> bool:
            if Key.armed:
                calls.append("__eq__")
            return False

    value = {Key("<truncated>"): 1, "plain": 2}
    holder = SimpleNamespace()
    holder.__dict__[Key("_value_")] = 1
    Key.armed = True
    assert snapshot([value, holder], LIMITS) == [{"plain": 2, "<truncated>": 1}, "<unsupported>"]


def test_the_cost_is_bounded_by_the_budget_not_by_the_size() -> None:
    looked_at = 0

    class Counting(list[int]):
        pass

    class Endless:
        def __iter__(self) -> Iterator[int]:
            raise AssertionError("application code ran")

    def numbers() -> Iterator[int]:
        nonlocal looked_at
        while True:
            looked_at += 1
            yield looked_at

    walker = Walker(Budget(NormalizationLimits(max_values=50)))
    kept = walker.sequence(object(), numbers(), 10**9, 0)
    assert kept[-1] == "<truncated>"
    assert looked_at <= 51
    assert snapshot(Endless(), LIMITS) == "<unsupported>"
    assert snapshot(Counting(range(5)), LIMITS) == [0, 1, 2, 3, 4]


def test_unusable_keys_and_nested_breadth_end_with_the_budget() -> None:
    wide = {n: n for n in range(100_000)}
    tree = [[[[n] * 100] * 100] * 100 for n in range(100)]
    limits = NormalizationLimits(max_values=200, max_total_bytes=2000)
    assert snapshot(wide, limits) == {"<truncated>": 100_000}
    assert len(to_json(snapshot(tree, limits))) <= 2000


def test_a_dict_that_grows_meanwhile() -> None:
    growing: dict[str, Any] = {str(n): n for n in range(500)}
    stop = threading.Event()

    def grow() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            growing[f"new {number % 1000}"] = number
            growing.pop(f"new {(number + 500) % 1000}", None)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(200):
            assert isinstance(snapshot({"inside": growing}, LIMITS), dict)
    finally:
        stop.set()
        writer.join()


class NotFields:
    """Declares what only looks like the fields of a dataclass."""

    __dataclass_fields__ = {1: "a", "a": "b", "kept": dataclasses.field()}  # noqa: RUF012 # what it is a test of

    def __init__(self) -> None:
        self.a, self.kept = "secret", "shown"


class NotAttributes:
    """Declares what only looks like the attributes of attrs."""

    __attrs_attrs__ = (1, "a", *attrs.fields(attrs.make_class("Real", ["kept"])))

    def __init__(self) -> None:
        self.a, self.kept = "secret", "shown"


class NotModel:
    """Declares what only looks like the fields of a model."""

    __pydantic_fields__ = {  # noqa: RUF012
        1: pydantic.fields.FieldInfo(annotation=str),
        "a": "b",
        "kept": pydantic.fields.FieldInfo(annotation=str),
    }

    def __init__(self) -> None:
        self.a, self.kept = "secret", "shown"


@pytest.mark.parametrize("kind", [NotFields, NotAttributes, NotModel])
def test_declarations_that_are_none_show_nothing(kind: Callable[[], object]) -> None:
    assert snapshot(kind(), LIMITS) == {"kept": "shown"}

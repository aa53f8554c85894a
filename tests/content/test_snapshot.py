"""What a snapshot keeps of each kind of value, and what stands where something is not kept."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import attrs
import msgspec
import pydantic
import pydantic_core
import pytest
from inline_snapshot import snapshot as expected
from pydantic_ai.messages import BinaryContent, BinaryImage, ImageUrl, ToolReturnPart, UserPromptPart

from actionspan.content import Budget, snapshot, to_json
from actionspan.policy import NormalizationLimits

LIMITS = NormalizationLimits()
SMALL = NormalizationLimits(max_depth=3, max_values=12, max_string_characters=20, max_total_bytes=400)


def take(value: object, limits: NormalizationLimits = LIMITS) -> Any:
    return snapshot(value, limits)


def test_json_values_are_kept_as_they_are_and_detached() -> None:
    value = {"text": "é😀", "number": 1, "ratio": 0.5, "yes": True, "none": None, "items": [1, [2]]}
    copy = take(value)
    assert copy == value
    assert copy is not value
    assert copy["items"] is not value["items"]


def test_containers_become_lists_and_mappings() -> None:
    Point = namedtuple("Point", "x y")  # the untyped kind is what is tested
    assert [
        take(value)
        for value in (
            (1, 2),
            Point(1, 2),
            {3},
            frozenset({4}),
            deque([5]),
            OrderedDict(a=6),
            defaultdict(int, b=7),
            Counter("z"),
            urlsplit("http://h/p?q"),
        )
    ] == [[1, 2], [1, 2], [3], [4], [5], {"a": 6}, {"b": 7}, {"z": 1}, ["http", "h", "/p", "q", ""]]


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, object(), int, len, ValueError("secret"), range(3), (n for n in "ab"), 1j, ...],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_unsupported(value: object) -> None:
    assert take([value]) == ["<unsupported>"]


@pytest.mark.parametrize("value", [b"ab", bytearray(b"ab"), memoryview(b"ab")], ids=lambda value: type(value).__name__)
def test_bytes_in_any_form_are_binary(value: object) -> None:
    assert take({"payload": value}) == {"payload": "<binary>"}


def test_standard_texts() -> None:
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    assert take(
        [
            Decimal("1.50"),
            dt.date(2026, 1, 2),
            dt.time(3, 4, tzinfo=dt.UTC),
            dt.timedelta(days=1, seconds=3),
            dt.datetime(2026, 1, 2, 3, 4, 5, 6),
            dt.datetime(2026, 7, 2, 3, 4, tzinfo=berlin),
            uuid.UUID(int=5),
            Path("/a/b"),
            PurePosixPath("c"),
            pydantic.AnyUrl("https://host/x"),
            pydantic.PostgresDsn("postgres://h/db"),
        ]
    ) == expected(
        [
            "1.50",
            "2026-01-02",
            "03:04:00+00:00",
            "1 day, 0:00:03",
            "2026-01-02T03:04:05.000006",
            "2026-07-02T03:04:00+02:00",
            "00000000-0000-0000-0000-000000000005",
            "/a/b",
            "c",
            "https://host/x",
            "postgres://h/db",
        ]
    )


def test_standard_texts_are_whole_or_not_at_all() -> None:
    values = [Path("/" + "p" * 40), Decimal("1" * 40), uuid.UUID(int=5)]
    assert take(values, SMALL) == ["<truncated>"] * 3
    assert take(Decimal("9" * 100_000)) == "<truncated>"


def test_an_offset_computed_by_the_application_is_left_out() -> None:
    class Zone(dt.tzinfo):
        def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
            raise AssertionError("application code ran")

    assert take(dt.datetime(2026, 1, 2, tzinfo=Zone())) == "2026-01-02T00:00:00"
    assert take(dt.time(1, 2, tzinfo=Zone())) == "01:02:00"


class Colour(enum.Enum):
    RED = "red"
    PAIR = ("a", 1)


class Level(enum.IntEnum):
    HIGH = 3


class Name(str, enum.Enum):  # noqa: UP042 # the older form is the common one
    FIRST = "first"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


def test_enums_are_their_stored_values() -> None:
    assert take([Colour.RED, Colour.PAIR, Level.HIGH, Name.FIRST, Access.READ | Access.WRITE]) == [
        "red",
        ["a", 1],
        3,
        "first",
        3,
    ]


class Account(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    user: str = pydantic.Field(alias="login")
    password: pydantic.SecretStr = pydantic.SecretStr("hunter2")
    key: pydantic.SecretBytes = pydantic.SecretBytes(b"hunter2")
    unshown: str = pydantic.Field("hunter2", repr=False)
    excluded: str = pydantic.Field("hunter2", exclude=True)
    sometimes: str = pydantic.Field("hunter2", exclude_if=lambda value: False)
    _private: str = "hunter2"

    @pydantic.computed_field
    @property
    def computed(self) -> str:
        raise AssertionError("application code ran")


def test_pydantic_models_show_their_stored_fields() -> None:
    account = Account.model_validate({"login": "ann", "more": [1]})
    assert take(account) == {"user": "ann", "password": "<secret>", "key": "<secret>", "more": [1]}


class Root(pydantic.RootModel[list[int]]):
    pass


class Later(pydantic.BaseModel):
    early: int = 1
    late: "list[Undefined] | None" = None  # noqa: F821, UP037 # resolved only when it exists


def test_a_root_model_is_its_root_and_an_incomplete_model_does_not_raise() -> None:
    assert take(Root([1, 2])) == [1, 2]
    assert take(Later.model_construct(early=2))["early"] == 2


@pydantic.dataclasses.dataclass
class Checked:
    shown: int
    excluded: str = pydantic.Field("hunter2", exclude=True)


@dataclasses.dataclass
class Plain:
    shown: int
    unshown: str = dataclasses.field(default="hunter2", repr=False)


@dataclasses.dataclass(slots=True)
class Slotted:
    shown: int
    unshown: str = dataclasses.field(default="hunter2", repr=False)


@attrs.define
class Defined:
    shown: int
    unshown: str = attrs.field(default="hunter2", repr=False)
    masked: str = attrs.field(default="hunter2", repr=lambda value: "***")


@attrs.define(slots=False)
class Loose:
    shown: int
    unshown: str = attrs.field(default="hunter2", repr=False)


class Struct(msgspec.Struct):
    shown: int


@pytest.mark.parametrize("kind", [Checked, Plain, Slotted, Defined, Loose, Struct])
def test_typed_values_show_the_fields_that_are_in_their_repr(kind: Any) -> None:
    assert take(kind(shown=1)) == {"shown": 1}


def test_fields_that_were_never_set_are_not_there() -> None:
    assert take(object.__new__(Slotted)) == {}
    assert take(object.__new__(Plain)) == {}


def test_media_is_its_type_and_a_marker() -> None:
    png = BinaryContent(data=b"hunter2", media_type="image/png")
    assert take({"deep": [png, BinaryImage(data=b"hunter2", media_type="image/gif")]}) == {
        "deep": [
            {"media_type": "image/png", "data": "<binary>"},
            {"media_type": "image/gif", "data": "<binary>"},
        ]
    }
    assert "hunter2" not in to_json(take(UserPromptPart(["look", png])))
    assert "hunter2" not in to_json(take(ToolReturnPart(tool_name="t", content=png, tool_call_id="1")))
    assert take(ImageUrl("data:image/png;base64,aHVudGVyMg=="))["url"] == "data:image/png;base64,<binary>"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "image", "data": "aHVudGVyMg==", "mimeType": "image/png"},
        {"uri": "x", "blob": "aHVudGVyMg==", "mimeType": "application/pdf"},
        {"type": "base64", "media_type": "image/png", "data": "aHVudGVyMg=="},
        {"type": "blob", "mime_type": "image/png", "content": "aHVudGVyMg=="},
    ],
    ids=["mcp-image", "mcp-blob", "anthropic", "genai"],
)
def test_base64_next_to_a_media_type_is_binary(message: dict[str, str]) -> None:
    copy = take(message)
    assert "aHVudGVyMg" not in to_json(copy)
    assert "<binary>" in copy.values()


def test_data_that_is_text_stays() -> None:
    assert take({"data": "a,b", "mime_type": "text/csv"}) == {"data": "a,b", "mime_type": "text/csv"}
    assert take({"data": "a,b"}) == {"data": "a,b"}


def test_a_container_in_itself_is_a_cycle_and_a_shared_one_is_not() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    shared = [0]
    assert take(loop) == [1, "<cycle>"]
    assert take([shared, shared]) == [[0], [0]]
    member = object.__new__(Colour)
    member._value_ = member
    assert take(member) == "<cycle>"


def test_depth_is_bounded() -> None:
    deep: Any = 0
    for _ in range(10_000):
        deep = [deep]
    assert take(deep, SMALL) == [[["<max-depth>"]]]
    huge = NormalizationLimits(max_depth=1_000_000)
    assert to_json(take(deep, huge)).count("[") == 100


def test_values_are_bounded() -> None:
    assert take(list(range(100)), SMALL) == [*range(11), "<truncated>"]
    assert take({str(n): n for n in range(100)}, SMALL) == {str(n): n for n in range(11)} | {"<truncated>": 89}


def test_the_marker_of_a_cut_mapping_never_overwrites_a_key() -> None:
    value = {"<truncated>": "mine", "<truncated> 2": "mine", **{str(n): n for n in range(100)}}
    copy = take(value, SMALL)
    assert copy["<truncated>"] == copy["<truncated> 2"] == "mine"
    assert copy["<truncated> 3"] == len(value) - (len(copy) - 1)


def test_keys_that_are_no_exact_strings_are_counted_not_kept() -> None:
    assert take({1: "a", "b": 2, Name.FIRST: 3, None: 4}) == {"b": 2, "<truncated>": 3}


def test_keys_are_cut_and_mended_like_strings_and_do_not_collide() -> None:
    assert take({"k" * 25: 1, "\ud800": 2}, SMALL) == {"k" * 20 + "…<truncated 5>": 1, "\ufffd": 2}
    assert take({"k" * 20 + "a": 1, "k" * 20 + "b": 2}, SMALL) == {"k" * 20 + "…<truncated 1>": 1, "<truncated>": 1}


def test_wide_integers() -> None:
    assert take(10**300) == 10**300
    assert take(-(10**5000)) == "<truncated>"
    assert take(10**19, NormalizationLimits(max_string_characters=20)) == 10**19
    generous = NormalizationLimits(max_string_characters=100_000)
    assert take(10 ** (sys.get_int_max_str_digits() + 1), generous) == "<truncated>"


def test_a_budget_is_shared_by_what_is_charged_to_it() -> None:
    budget = Budget(SMALL)
    assert snapshot(list(range(8)), budget) == list(range(8))
    assert snapshot(list(range(8)), budget) == [0, 1, "<truncated>"]
    assert snapshot("more", budget) == "<truncated>"
    assert budget.values <= 0 < budget.bytes


def test_json_text_is_compact_utf8() -> None:
    assert to_json({"a": ["é😀", None, 0.5]}) == '{"a":["é😀",null,0.5]}'


def test_the_urls_of_pydantics_core_are_their_text() -> None:
    several = pydantic_core.MultiHostUrl("postgres://one:1,two:2/db")
    assert take([pydantic_core.Url("https://example.com/a?b=1"), several]) == [
        "https://example.com/a?b=1",
        "postgres://one:1,two:2/db",
    ]

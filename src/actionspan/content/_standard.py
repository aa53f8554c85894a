"""Values with a standard text: decimals, dates and times, UUIDs, paths, URLs. Whole, or not at all."""

from __future__ import annotations

import datetime as dt
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final, cast

from actionspan.content._markers import TRUNCATED, UNSUPPORTED
from actionspan.content._stored import class_mro, is_class, read, slot_getter, stored_attribute

Standard = Callable[[Any, int], str]
"""The text of a value that has at most about this many characters, or a marker."""


def standard_text(cls: type) -> Standard | None:
    """The function that writes instances of `cls`, or None when there is no standard text for them."""
    exact = _EXACT.get(id(cls))
    if exact is not None:
        return exact
    if _is_core_url(cls):
        return _core_url
    for base in class_mro(cls):
        inherited = _BASES.get(id(base))
        if inherited is not None:
            return inherited
        if is_class(base, "pydantic.networks", ("_BaseUrl", "_BaseMultiHostUrl")):
            return _pydantic_url
    return None


def _decimal(value: Decimal, limit: int) -> str:
    # Its size in memory tells the number of digits, at least two a byte, before they are written out.
    if Decimal.__sizeof__(value) > 256 + limit:
        return TRUNCATED
    return Decimal.__str__(value)


def _datetime(value: dt.datetime, limit: int) -> str:
    # Rebuilt as the exact class: the C code asks a subclass for its overridden attributes.
    moment = dt.datetime(
        _year(value),
        _month(value),
        _day(value),
        *(_field(dt.datetime, name, value) for name in ("hour", "minute", "second", "microsecond")),
        tzinfo=_known_zone(_field(dt.datetime, "tzinfo", value)),
        fold=_field(dt.datetime, "fold", value),
    )
    return moment.isoformat()


def _time(value: dt.time, limit: int) -> str:
    moment = dt.time(
        *(_field(dt.time, name, value) for name in ("hour", "minute", "second", "microsecond")),
        tzinfo=_known_zone(_field(dt.time, "tzinfo", value)),
    )
    return moment.isoformat()


def _date(value: dt.date, limit: int) -> str:
    return dt.date(_year(value), _month(value), _day(value)).isoformat()


def _timedelta(value: dt.timedelta, limit: int) -> str:
    days, seconds, micros = (_field(dt.timedelta, name, value) for name in ("days", "seconds", "microseconds"))
    return str(dt.timedelta(days, seconds, micros))


def _field(owner: type, name: str, value: Any) -> Any:
    return owner.__dict__[name].__get__(value)


_year: Final = dt.date.__dict__["year"].__get__
_month: Final = dt.date.__dict__["month"].__get__
_day: Final = dt.date.__dict__["day"].__get__


def _known_zone(zone: Any) -> dt.tzinfo | None:
    """`zone` when its offset is computed by the standard library alone; an application's class is left out."""
    # By identity: a metaclass may define equality.
    return zone if type(zone) is dt.timezone or type(zone) is zoneinfo.ZoneInfo else None


def _uuid(value: uuid.UUID, limit: int) -> str:
    number = read(slot_getter(uuid.UUID, "int"), value)
    if type(number) is not int or not 0 <= number < 1 << 128:
        return UNSUPPORTED
    return str(uuid.UUID(int=number))


def _path(value: PurePath, limit: int) -> str:
    # From 3.12 on a path keeps what it was made of and joins it on demand: only exact strings are joined.
    parts: object = stored_attribute(value, "_raw_paths")
    if type(parts) is list and any(type(part) is not str for part in cast("list[object]", parts)):
        return UNSUPPORTED
    return str(value)


def _is_core_url(cls: type) -> bool:
    return is_class(cls, "pydantic_core._pydantic_core", ("Url", "MultiHostUrl"))


def _core_url(value: Any, limit: int) -> str:
    return str(value)


def _pydantic_url(value: Any, limit: int) -> str:
    url: object = stored_attribute(value, "_url")
    return _core_url(url, limit) if _is_core_url(type(url)) else UNSUPPORTED


_BASES: Final[dict[int, Standard]] = {
    id(Decimal): _decimal,
    id(dt.datetime): _datetime,
    id(dt.date): _date,
    id(dt.time): _time,
    id(dt.timedelta): _timedelta,
    id(uuid.UUID): _uuid,
}
_EXACT: Final[dict[int, Standard]] = {
    id(cls): _path for cls in (PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
}

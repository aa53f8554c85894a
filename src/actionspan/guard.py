"""The one place where a failure of ours is contained, so that it never reaches the application.

Every call we make around an application's work goes through `call`. A failure is counted by stage, logged once per
stage and exception type, and forgotten. `BaseException`s that are not `Exception`s (a cancelled task, an interrupted
process) are never ours to keep: they pass through.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar, overload

__all__ = ["call", "contained", "failures", "inject", "observe", "reveal_messages", "strict", "warn_once"]

T = TypeVar("T")
D = TypeVar("D")

_logger = logging.getLogger("actionspan")
_package = str(Path(__file__).parent)

failures: Counter[str] = Counter()
"""How many failures were contained in this process, by stage."""


class _State:
    """Process-wide switches of the guard; everything else in the package is passed, not global."""

    logged: set[tuple[str, str]]
    strict: bool = False
    reveal: Callable[[Exception], str | None] | None = None
    fault: Callable[[str], None] | None = None
    observer: Callable[[str], None] | None = None

    def __init__(self) -> None:
        self.logged = set()


_state = _State()


@overload
def call(stage: str, work: Callable[[], T]) -> T | None: ...
@overload
def call(stage: str, work: Callable[[], T], default: D) -> T | D: ...
def call(stage: str, work: Callable[[], T], default: D | None = None) -> T | D | None:
    """Return `work()`, or `default` when it raises an `Exception`, which is then counted and logged once."""
    try:
        if _state.fault is not None:
            _state.fault(stage)
        return work()
    except Exception as error:
        contained(stage, error)
        return default


def contained(stage: str, error: Exception) -> None:
    """Count and log `error` as contained in `stage`; raises it again inside `strict()`."""
    if _state.strict:
        raise error
    failures[stage] += 1
    if _state.observer is not None:
        try:
            _state.observer(stage)
        except Exception:  # the meter failed too: there is nothing left to tell it with
            pass
    kind = type(error).__qualname__
    if (stage, kind) in _state.logged:
        return
    _state.logged.add((stage, kind))
    _logger.error(
        "contained a failure in %s: %s at %s%s", stage, kind, _own_frame(error.__traceback__), _detail_of(error)
    )


def _detail_of(error: Exception) -> str:
    """The message, as far as it may be told. It may quote content: a redactor's argument, a tool's result."""
    if _state.reveal is None:
        return ""
    try:
        text = _state.reveal(error)
    except Exception:  # then nobody has looked at it, and it stays here
        return ""
    return f": {text}" if text else ""


def warn_once(key: str, message: str, *args: object, level: int = logging.WARNING) -> None:
    """Log `message` unless one with this `key` was logged before in this process."""
    if ("", key) not in _state.logged:
        _state.logged.add(("", key))
        _logger.log(level, message, *args)


def observe(observer: Callable[[str], None] | None) -> None:
    """Call `observer(stage)` at each contained failure; `None` takes it away."""
    _state.observer = observer


def reveal_messages(text_of: Callable[[Exception], str | None] | None) -> None:
    """Let log lines about contained failures quote what `text_of` makes of the exception; `None`: nothing."""
    _state.reveal = text_of


@contextmanager
def strict() -> Generator[None]:
    """Within this block contained failures are raised instead: for our own tests."""
    before = _state.strict
    _state.strict = True
    try:
        yield
    finally:
        _state.strict = before


@contextmanager
def inject(fault: Callable[[str], None]) -> Generator[None]:
    """Call `fault(stage)` inside every guarded call, so that a test can make any of them fail."""
    before, _state.fault = _state.fault, fault
    logged, _state.logged = _state.logged, set()
    try:
        yield
    finally:
        _state.fault, _state.logged = before, logged


def _own_frame(traceback: TracebackType | None) -> str:
    """The innermost frame of this package in `traceback`, as file:line, or "?"."""
    place = "?"
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(_package) and code.co_filename != __file__:
            place = f"{Path(code.co_filename).relative_to(_package)}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place

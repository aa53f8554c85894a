"""Telling our wrapper of a function from that of another instrumentation of the same function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wrapt

__all__ = ["ActionWrapper", "has_ours"]

if TYPE_CHECKING:
    FunctionWrapper = wrapt.FunctionWrapper[..., Any]
else:
    FunctionWrapper = wrapt.FunctionWrapper  # wrapt 1 has no type parameters


class ActionWrapper(FunctionWrapper):
    """A wrapper of ours; wrapt is what most others wrap with."""


def has_ours(function: object) -> bool:
    """Whether `function` is wrapped by us, however many others wrapped it since."""
    while function is not None:
        if isinstance(function, ActionWrapper):
            return True
        function = getattr(function, "__wrapped__", None)
    return False

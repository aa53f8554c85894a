"""EDRI's action stream as traces: its `AgentAction` events become spans, under the ids its inspector shows.

`EdriBridge` needs no EDRI: it takes whatever has the fields of an `AgentAction`. `EdriBridgeManager` is an EDRI
manager, and importing it imports EDRI (extra `edri`, Python 3.12 and newer). Source of the rules: docs/edri.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actionspan.bridges.edri._bridge import EdriBridge
    from actionspan.bridges.edri._manager import EdriBridgeManager

__all__ = ["EdriBridge", "EdriBridgeManager"]

_HOMES = {"EdriBridge": "_bridge", "EdriBridgeManager": "_manager"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

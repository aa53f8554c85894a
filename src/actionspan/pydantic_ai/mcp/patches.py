"""Where we enter: each function that is wrapped, when its module is imported, and given back on removal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getattr_static
from types import ModuleType
from typing import Any, Final, Literal

import wrapt

from actionspan import guard
from actionspan.pydantic_ai.mcp import client, session
from actionspan.pydantic_ai.mcp.compat import FASTMCP_TRACER, FROM_SERVER, SDK_SPAN
from actionspan.pydantic_ai.wrapping import ActionWrapper, has_ours

__all__ = ["install", "remove"]

SdkSpans = Literal["keep", "drop"]
Wrapper = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Patch:
    """A function of a module or of a class in it; one that this generation does not have is left out."""

    module: str
    owner: str | None
    name: str
    wrapper: Wrapper

    def apply(self, module: ModuleType) -> None:
        owner = self._owner(module)
        if hasattr(owner, self.name) and not has_ours(getattr_static(owner, self.name)):
            wrapt.wrap_object(owner, self.name, ActionWrapper, (self.wrapper,))

    def undo(self, module: ModuleType) -> None:
        owner = self._owner(module)
        ours = owner.__dict__.get(self.name)
        if not isinstance(ours, ActionWrapper):
            return  # not there, or beneath somebody else's: then it does nothing any more
        original: object = ours.__wrapped__
        # Not OpenTelemetry's `unwrap`: over another's wrapper that would put a bound copy of it in its place.
        setattr(owner, self.name, original)
        if isinstance(owner, type) and any(vars(base).get(self.name) is original for base in owner.__mro__[1:]):
            delattr(owner, self.name)  # it was inherited, and is again

    def _owner(self, module: ModuleType) -> Any:
        return module if self.owner is None else getattr(module, self.owner)


_CLIENT: Final = "fastmcp.client.client"
_SESSION: Final = "mcp.client.session"
_PATCHES: Final = (
    *(_Patch(_CLIENT, "Client", name, wrapper) for name, wrapper in client.CALLS.items()),
    _Patch(_CLIENT, "Client", "__aenter__", client.connect),
    _Patch(FASTMCP_TRACER[0], None, FASTMCP_TRACER[1], client.client_tracer),
    _Patch(_SESSION, "ClientSession", "initialize", session.initialize),
    _Patch(_SESSION, "ClientSession", "send_discover", session.discover),
    _Patch(_SESSION, "ClientSession", "send_request", session.send_request),
    *(_Patch(_SESSION, "ClientSession", name, session.from_server) for name in FROM_SERVER),
    _Patch(SDK_SPAN[0], None, SDK_SPAN[1], session.sdk_span),
)
_MODULES: Final = tuple(dict.fromkeys(patch.module for patch in _PATCHES))

_installed = False
_hooked = False


def install(sdk_spans: SdkSpans = "keep") -> None:
    """Trace MCP operations, in modules imported already and in those still to come.

    `sdk_spans`: whether the SDK's own client span stays beside ours.
    """
    global _hooked, _installed
    session.drop_sdk_spans(sdk_spans == "drop")
    _installed = True
    for name in _MODULES:
        if not _hooked:
            wrapt.register_post_import_hook(_imported, name)  # at once, where it is imported already
        elif name in sys.modules:
            _imported(sys.modules[name])
    _hooked = True


def remove() -> None:
    """Give back the very functions that were wrapped. Operations under way finish their spans."""
    global _installed
    session.drop_sdk_spans(False)
    _installed = False
    for patch in _PATCHES:
        module = sys.modules.get(patch.module)
        if module is not None:
            guard.call("uninstall", lambda patch=patch, module=module: patch.undo(module))


def _imported(module: ModuleType) -> None:
    """A module of theirs was imported. A failure here would be a failed import, to whoever imports it."""
    if not _installed:
        return
    for patch in _PATCHES:
        if patch.module == module.__name__:
            guard.call("install", lambda patch=patch: patch.apply(module))

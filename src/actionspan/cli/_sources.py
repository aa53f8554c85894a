"""What a query can be asked of: a directory, or a backend by its URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from actionspan.cli._backends import open_jaeger, open_tempo
from actionspan.cli._command import open_reader
from actionspan.cli._options import Source
from actionspan.cli._screen import fail

__all__ = ["open_source"]


_SCHEMES: Final[Mapping[str, Callable[[str], Source]]] = {
    "tempo": open_tempo,
    "tempo+https": open_tempo,
    "jaeger": open_jaeger,
    "jaeger+https": open_jaeger,
}
"""How to open a URL, by its scheme."""


def open_source(source: str) -> Source:
    """The directory or backend that `source` names; an exit that says what it could be."""
    scheme, separator, _ = source.partition("://")
    if not separator:
        return open_reader(Path(source))
    opener = _SCHEMES.get(scheme)
    if opener is None:
        known = "".join(f", {name}://..." for name in _SCHEMES)
        fail(f"{source} is not something to query: it must be a directory{known}")
    return opener(source)

"""Backends as sources of a query, by their URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from actionspan.backends import JaegerRecorder, TempoRecorder

__all__ = ["open_jaeger", "open_tempo"]

_SCHEMES = {"tempo": "http", "tempo+https": "https", "jaeger": "http", "jaeger+https": "https"}
"""What the URL of a source means as the URL of a query API."""


def open_tempo(source: str) -> TempoRecorder:
    """`tempo://host:3200` or `tempo+https://host`, with a path where the API has one."""
    from actionspan.backends import TempoRecorder

    url, _ = _url_and_options(source, ())
    return TempoRecorder(url)


def open_jaeger(source: str) -> JaegerRecorder:
    """`jaeger://host:16686?service=x` or `jaeger+https://host?service=x`."""
    from actionspan.backends import JaegerRecorder

    url, options = _url_and_options(source, ("service",))
    if not options.get("service"):
        raise ValueError("Jaeger searches within one service: name it, as in jaeger://localhost:16686?service=NAME")
    return JaegerRecorder(url, service=options["service"])


def _url_and_options(source: str, permitted: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    parts = urlsplit(source)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in permitted:
            known = f"; it may be {', '.join(permitted)}" if permitted else ": it takes no parameters"
            raise ValueError(f"{parts.scheme}:// does not know the parameter {name!r}{known}")
    return parts._replace(scheme=_SCHEMES[parts.scheme], query="").geturl(), options

"""What a redactor is, and the two ready-made ones.

A redactor is applied to all admitted content before it is cut to the limits: it gets a detached JSON value, in which
strings that were themselves JSON are already structure, and returns what may be recorded in its place. One that
raises, or returns an awaitable or nothing, leaves `<redaction-failed>`: never the original.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from actionspan.policy import Redactor

__all__ = ["RedactionContext", "Redactor", "redact_keys", "redact_patterns"]

SECRET: Final = "<secret>"


@dataclass(frozen=True, slots=True)
class RedactionContext:
    """Which content a redactor was handed."""

    namespace: str
    """The action's namespace, such as `model` or `tool`."""
    operation: str
    name: str | None
    """The action's declared name, such as the tool's."""
    field: str
    """The attribute the content is for, such as `gen_ai.tool.call.arguments`."""


@dataclass(frozen=True, slots=True)
class KeyRedactor:
    """Replaces the values of certain keys; see `redact_keys`."""

    names: frozenset[str]

    def __call__(self, value: Any, context: RedactionContext | None = None) -> Any:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            return {key: SECRET if _spelling(key) in self.names else self(item) for key, item in entries}
        if isinstance(value, list):
            return [self(item) for item in cast("list[Any]", value)]
        return value


@dataclass(frozen=True, slots=True)
class PatternRedactor:
    """Replaces what certain patterns match, in every string and key; see `redact_patterns`."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    """Pairs of a lower-case literal that every match contains, which is quick to look for, and the pattern."""

    def __call__(self, value: Any, context: RedactionContext | None = None) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            redacted: dict[str, Any] = {}
            for key, item in cast("dict[str, Any]", value).items():
                redacted[free_key(self._text(key), redacted)] = self(item)
            return redacted
        return value

    def _text(self, text: str) -> str:
        lowered = text.lower()
        for literal, pattern in self.patterns:
            if literal in lowered:
                text = pattern.sub(SECRET, text)
        return text


def redact_keys(*names: str) -> Redactor:
    """A redactor that replaces the value of every key called one of `names`, at any nesting, by `<secret>`.

    Whole names are compared, without regard to case, `-`, `_` and spaces: "api_key" is also "apiKey" and "API-Key",
    and "token" is not "total_tokens". While it is active a string that looks like JSON and does not parse becomes
    `<redaction-failed>`. Raises `TypeError` for a name that is not a string and `ValueError` for none, or an empty one.
    """
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers are not all typed
            raise TypeError(f"redact_keys() takes key names, not {type(name).__name__}")
    spellings = frozenset(_spelling(name) for name in names)
    if not spellings or "" in spellings:
        raise ValueError("redact_keys() needs at least one key name, and none of them empty")
    return KeyRedactor(spellings)


def redact_patterns(**regex: str | re.Pattern[str]) -> Redactor:
    """A redactor that replaces what a pattern matches, in any string or key, by `<secret>`.

    The default set is provider keys, bearer tokens, private key blocks and e-mail addresses. Each `regex` is added to
    it under its name, or takes the place of the default of that name: `private_key`, `provider_key`, `aws_key`,
    `github_token`, `github_pat`, `slack_token`, `google_key`, `bearer`, `jwt`, `email`. Raises `ValueError` naming a
    pattern that does not compile, is not text, or matches nothing at all, which would mark every position.
    """
    chosen: dict[str, tuple[str, re.Pattern[str]]] = {**_DEFAULT_PATTERNS}
    for name, pattern in regex.items():
        chosen[name] = ("", _compiled(name, pattern))
    return PatternRedactor(tuple(chosen.values()))


def _compiled(name: str, pattern: object) -> re.Pattern[str]:
    source = cast("re.Pattern[Any]", pattern).pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(source, str):
        raise ValueError(f"redact_patterns: {name} is not a text pattern but {type(source).__name__}")
    try:
        compiled = re.compile(cast("str | re.Pattern[str]", pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"redact_patterns: {name}={source!r} does not compile: {error}") from None
    if compiled.search("") is not None:
        raise ValueError(f"redact_patterns: {name}={source!r} matches empty text")
    return compiled


def _spelling(name: str) -> str:
    """`name` without what people spell differently."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")


def free_key(name: str, taken: Mapping[str, Any]) -> str:
    """`name`, or one made from it that is not in `taken`."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


# Each is linear in the text: what follows a beginning is either consumed or bounded. A letter before a key does not
# make it none where it may be that of an escape, a literal backslash and n. No group is possessive or atomic: before
# Python 3.11.5 such a group leaves the match where its last, failed turn had got to (CPython issue 106052).
_PROVIDER_KEY: Final = r"""
    (?: (?<![A-Za-z0-9])sk- | sk-(?=[A-Za-z_-]{0,64}[0-9]) ) [A-Za-z0-9_-]{10,}
"""
_PRIVATE_KEY: Final = r"""
    -----BEGIN\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?s: .*? ) (?= -----END\  | …<truncated\  | \Z )        # to its end or, when it has none, that of the text
    (?: -----END\ [A-Z0-9\ ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?----- )?
"""

_DEFAULT_PATTERNS: Final[dict[str, tuple[str, re.Pattern[str]]]] = {
    "private_key": ("private key", re.compile(_PRIVATE_KEY, re.VERBOSE)),
    "provider_key": ("sk-", re.compile(_PROVIDER_KEY, re.VERBOSE)),  # OpenAI, Anthropic and their like
    "aws_key": ("ia", re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}")),
    "github_token": ("gh", re.compile(r"gh[a-z]_[A-Za-z0-9]{20,}")),
    "github_pat": ("github_pat_", re.compile(r"github_pat_[A-Za-z0-9_]{20,}")),
    "slack_token": ("xox", re.compile(r"xox[a-z]-[A-Za-z0-9-]{10,}")),
    "google_key": ("aiza", re.compile(r"AIza[A-Za-z0-9_-]{30,}")),
    "bearer": ("bearer", re.compile(r"bearer\s{1,8}[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)),
    "jwt": ("eyj", re.compile(r"eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,4}")),
    "email": ("@", re.compile(r"(?<![\w.+%-])[\w.+%-]++@\w[\w-]*+(?:\.[\w-]++)+")),
}

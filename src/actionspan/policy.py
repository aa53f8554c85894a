"""Who decides what content may leave: the deployment's ceiling and the application's policy, intersected.

Source of the rules: docs/content.md. A policy can narrow the ceiling and never widen it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

__all__ = [
    "CATEGORIES",
    "ActionPolicy",
    "AuditMode",
    "NormalizationLimits",
    "Redactor",
    "current_narrowing",
    "effective_policy",
    "narrow",
]

Redactor = Callable[..., Any]
"""A synchronous, in-memory function of a detached JSON value, and optionally of a `RedactionContext`.

It returns what may be recorded in its place. See `actionspan.redact`.
"""


class AuditMode(StrEnum):
    """The deployment's ceiling, from nothing to content."""

    OFF = "off"
    """No patch, no processor, no file."""
    METADATA = "metadata"
    """Names, ids, counts, tokens, durations, outcomes; no content of any kind, error text included."""
    CONTENT = "content"
    """What the application's policy admits, too."""

    @property
    def rank(self) -> int:
        """Position in the order off < metadata < content."""
        return _RANKS[self]

    def lowered_to(self, other: AuditMode) -> AuditMode:
        """The stricter of the two."""
        return self if self.rank <= other.rank else other


_RANKS: Final = {AuditMode.OFF: 0, AuditMode.METADATA: 1, AuditMode.CONTENT: 2}


@dataclass(frozen=True, slots=True)
class NormalizationLimits:
    """How much of admitted content is kept. Each limit must be positive; `ValueError` names the one that is not."""

    max_depth: int = 8
    """Levels of nesting in a value."""
    max_values: int = 1024
    """JSON values (scalars and containers), shared by all the content of one action."""
    max_string_characters: int = 4096
    """Characters of one string or key before it is cut."""
    max_total_bytes: int = 65536
    """Bytes of serialised content, shared by all the content of one action."""
    max_attribute_bytes: int | None = None
    """Bytes of one serialised attribute; None: only the provider's own length limit counts."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "max_attribute_bytes":
                continue
            if type(value) is not int or value <= 0:
                raise ValueError(f"NormalizationLimits.{field.name} must be a positive integer, not {value!r}")

    def minimum(self, other: NormalizationLimits) -> NormalizationLimits:
        """The smaller of each limit."""
        caps = [cap for cap in (self.max_attribute_bytes, other.max_attribute_bytes) if cap is not None]
        return NormalizationLimits(
            max_depth=min(self.max_depth, other.max_depth),
            max_values=min(self.max_values, other.max_values),
            max_string_characters=min(self.max_string_characters, other.max_string_characters),
            max_total_bytes=min(self.max_total_bytes, other.max_total_bytes),
            max_attribute_bytes=min(caps) if caps else None,
        )


@dataclass(frozen=True, slots=True)
class ActionPolicy:
    """The application's half of the decision: which categories of content it wants recorded, and how.

    Every category is off by default. `TypeError` or `ValueError` name a field whose value is not permitted.
    """

    include_model_requests: bool = False
    """Instructions, messages sent to a model, tool definitions, run metadata, agent description."""
    include_model_responses: bool = False
    """Completions, reasoning, outputs, tool names a model invented, envelope errors."""
    include_tool_arguments: bool = False
    include_tool_results: bool = False
    include_mcp_requests: bool = False
    """MCP request payloads, and the userinfo, path and query of resource URIs."""
    include_mcp_responses: bool = False
    include_dispatch_requests: bool = False
    include_dispatch_responses: bool = False
    include_custom_content: bool = False
    """Content of an application's own actions; control reasons, directives and labels."""
    include_error_messages: bool = False
    """Exception messages, stack traces, status text, denial reasons."""
    redactor: Redactor | None = None
    """Applied to all content before it is cut to the limits."""
    limits: NormalizationLimits = NormalizationLimits()

    def __post_init__(self) -> None:
        for name in CATEGORY_FIELDS:
            value = getattr(self, name)
            if type(value) is not bool:
                raise TypeError(f"ActionPolicy.{name} must be True or False, not {value!r}")
        if self.redactor is not None and not callable(self.redactor):
            raise TypeError(f"ActionPolicy.redactor must be a callable or None, not {type(self.redactor).__name__}")
        if type(self.limits) is not NormalizationLimits:
            raise TypeError(f"ActionPolicy.limits must be a NormalizationLimits, not {type(self.limits).__name__}")

    def intersect(self, other: ActionPolicy) -> ActionPolicy:
        """What both admit: categories ANDed, the smaller limits, this redactor first and then the other's."""
        both: dict[str, Any] = {name: getattr(self, name) and getattr(other, name) for name in CATEGORY_FIELDS}
        return ActionPolicy(
            **both,
            redactor=chain_redactors(self.redactor, other.redactor),
            limits=self.limits.minimum(other.limits),
        )

    @property
    def any_content(self) -> bool:
        """Whether at least one category is on."""
        return any(getattr(self, name) for name in CATEGORY_FIELDS)

    @classmethod
    def of(cls, categories: Iterable[str]) -> ActionPolicy:
        """A policy with these categories on, spelt without `include_`."""
        admitted: dict[str, Any] = {f"include_{category}": True for category in categories}
        return cls(**admitted)

    @classmethod
    def everything(cls, **changes: Any) -> ActionPolicy:
        """A policy with every category on; `changes` are further fields."""
        fields: dict[str, Any] = {**dict.fromkeys(CATEGORY_FIELDS, True), **changes}
        return cls(**fields)


CATEGORY_FIELDS: Final = (
    "include_model_requests",
    "include_model_responses",
    "include_tool_arguments",
    "include_tool_results",
    "include_mcp_requests",
    "include_mcp_responses",
    "include_dispatch_requests",
    "include_dispatch_responses",
    "include_custom_content",
    "include_error_messages",
)

CATEGORIES: Final = tuple(name.removeprefix("include_") for name in CATEGORY_FIELDS)
"""The categories as `ACTIONSPAN_CAPTURE` spells them."""


@dataclass(frozen=True, slots=True)
class RedactorChain:
    """Redactors applied one after the other; `content` runs them and closes every way they can fail."""

    redactors: tuple[Redactor, ...]

    def __call__(self, value: Any, context: Any) -> Any:
        raise TypeError("a RedactorChain is run by actionspan.content, one redactor at a time")


def chain_redactors(*redactors: Redactor | None) -> Redactor | None:
    """One redactor that stands for all of `redactors` in this order, or None. The same one twice runs once."""
    flat: list[Redactor] = []
    for redactor in redactors:
        for member in redactor.redactors if isinstance(redactor, RedactorChain) else (redactor,):
            if member is not None and member not in flat:
                flat.append(member)
    if len(flat) <= 1:
        return flat[0] if flat else None
    return RedactorChain(tuple(flat))


NO_CONTENT: Final = ActionPolicy()
"""The policy of a deployment below `content`: every category off."""


def effective_policy(mode: AuditMode, *policies: ActionPolicy) -> ActionPolicy:
    """The intersection of the ceiling `mode` and all `policies` (none at all: nothing is admitted)."""
    if mode is not AuditMode.CONTENT or not policies:
        return NO_CONTENT
    effective = policies[0]
    for policy in policies[1:]:
        effective = effective.intersect(policy)
    return effective


_narrowing: ContextVar[ActionPolicy | None] = ContextVar("actionspan_narrowing", default=None)


def current_narrowing() -> ActionPolicy | None:
    """The policy that the enclosing `narrow` blocks leave, or None outside of them."""
    return _narrowing.get()


@contextmanager
def narrow(policy: ActionPolicy) -> Generator[ActionPolicy]:
    """Within this block (a request, a tenant) record no more content than `policy` admits.

    Blocks nest and only ever tighten. Actions that start inside keep the narrowing until they end.
    Raises `TypeError` when `policy` is not an `ActionPolicy`.
    """
    if not isinstance(policy, ActionPolicy):  # pyright: ignore[reportUnnecessaryIsInstance] # callers are not all typed
        raise TypeError(f"narrow() takes an ActionPolicy, not {type(policy).__name__}")
    outer = _narrowing.get()
    inner = policy if outer is None else outer.intersect(policy)
    token = _narrowing.set(inner)
    try:
        yield inner
    finally:
        _narrowing.reset(token)


def without_error_messages(policy: ActionPolicy) -> ActionPolicy:
    """`policy` with error text off."""
    return replace(policy, include_error_messages=False)

"""What the actions of one kind within one run have in common, put together once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.trace import SpanKind
from opentelemetry.util.types import AttributeValue

from actionspan.telemetry import names
from actionspan.telemetry.values import MAX_METADATA, attribute_table, clean_name

__all__ = ["Template"]


@dataclass(frozen=True, slots=True)
class Template:
    """The beginning of an action, fit for a span as it is."""

    namespace: str
    operation: str
    name: str
    """Of the span."""
    kind: SpanKind
    attributes: Mapping[str, AttributeValue]

    @classmethod
    def of(
        cls,
        namespace: str,
        operation: str,
        *,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, object],
        known: Mapping[str, AttributeValue] | None = None,
    ) -> Template:
        """One with these attributes made fit, and those that are `known` to be."""
        table = {**(known or {}), **attribute_table(attributes)}
        table[names.NAMESPACE] = namespace[:MAX_METADATA]
        table[names.OPERATION] = operation[:MAX_METADATA]
        return cls(namespace, operation, clean_name(name), kind, table)

"""Spans as a readable tree: a line each, indented by parent, in the order they started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from actionspan.telemetry import names

__all__ = ["tree"]


def tree(spans: Iterable[ReadableSpan], *attributes: str) -> str:
    """One line a span: its name, its outcome and reason, `!` and the error type of a failed one, then `attributes`.

    Traces are separated by an empty line. A span whose parent is not among `spans` stands at the left. Attributes are
    named in full or without their `actionspan.` or `gen_ai.` prefix, and shown where they are set.
    """
    ordered = sorted(spans, key=lambda span: (span.start_time or 0, _span_id(span)))
    known = {(_trace_id(span), _span_id(span)) for span in ordered}
    children: dict[tuple[int, int], list[ReadableSpan]] = {}
    roots: dict[int, list[ReadableSpan]] = {}
    for span in ordered:
        parent = None if span.parent is None else (span.parent.trace_id, span.parent.span_id)
        if parent is not None and parent in known:
            children.setdefault(parent, []).append(span)
        else:
            roots.setdefault(_trace_id(span), []).append(span)
    return "\n\n".join("\n".join(_lines(spans, children, attributes, 0)) for spans in roots.values())


def _lines(
    spans: Sequence[ReadableSpan],
    children: dict[tuple[int, int], list[ReadableSpan]],
    attributes: Sequence[str],
    depth: int,
) -> Iterable[str]:
    for span in spans:
        yield "  " * depth + _line(span, attributes)
        yield from _lines(children.get((_trace_id(span), _span_id(span)), ()), children, attributes, depth + 1)


def _line(span: ReadableSpan, attributes: Sequence[str]) -> str:
    values = dict(span.attributes or {})
    words = [span.name]
    outcome = values.get(names.OUTCOME)
    if outcome is not None:
        reason = values.get(names.OUTCOME_REASON)
        words.append(f"[{outcome}]" if reason is None else f"[{outcome}/{reason}]")
    if span.status.status_code is StatusCode.ERROR:
        words.append(f"!{values.get(names.ERROR_TYPE)}")
    for name in attributes:
        key = next((key for key in (name, names.PREFIX + name, "gen_ai." + name) if key in values), None)
        if key is not None:
            words.append(f"{name}={values[key]}")
    return " ".join(words)


def _trace_id(span: ReadableSpan) -> int:
    return 0 if span.context is None else span.context.trace_id


def _span_id(span: ReadableSpan) -> int:
    return 0 if span.context is None else span.context.span_id

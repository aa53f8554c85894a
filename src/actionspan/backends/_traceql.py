"""A query in TraceQL, Tempo's language: https://grafana.com/docs/tempo/latest/traceql/."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from actionspan.backends._wanted import Wanted
from actionspan.telemetry import names
from actionspan.vocabulary import ActionOutcome

__all__ = ["quoted", "traceql_of"]

_LOW: Final = 2**64 - 1
_FAILED: Final = f'(span.{names.OUTCOME} = "{ActionOutcome.ERROR.value}" || status = error)'


def traceql_of(wanted: Wanted) -> str:
    """The spans that `wanted` describes."""
    return "{ " + " && ".join(_conditions(wanted)) + " }"


def _conditions(wanted: Wanted) -> Iterator[str]:
    if wanted.action_id is not None:
        # The low half of an action's id is its span's id; a bridged action also has an attribute of its own.
        span_id = f"{wanted.action_id.int & _LOW:016x}"
        yield f'(span:id = "{span_id}" || span.{names.ACTION_ID} = {quoted(str(wanted.action_id))})'
    yield _namespace(wanted)
    if wanted.failed:
        yield _FAILED
    for attribute, value in wanted.equal.items():
        yield f"span.{attribute} = {quoted(value)}"


def _namespace(wanted: Wanted) -> str:
    patterns = [name.replace(".", "[.]") for name in wanted.namespaces]
    if wanted.namespace_prefix is not None:
        patterns.append(wanted.namespace_prefix.replace(".", "[.]") + ".*")
    if not patterns:
        return f"span.{names.NAMESPACE} != nil"
    if len(patterns) == 1 and wanted.namespace_prefix is None:
        return f"span.{names.NAMESPACE} = {quoted(wanted.namespaces[0])}"
    return f"span.{names.NAMESPACE} =~ {quoted('|'.join(patterns))}"


def quoted(text: str) -> str:
    """`text` as a string literal, which TraceQL reads as Go does: ASCII, everything that is not harmless escaped."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    if 0xD800 <= code < 0xE000:  # half a character, which no backend can hold
        return "\\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

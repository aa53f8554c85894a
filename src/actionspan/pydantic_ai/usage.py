"""The library's usage as ours."""

from __future__ import annotations

from decimal import Decimal

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage, RunUsage

from actionspan.telemetry.operations import Usage

__all__ = ["cost_of", "usage_of", "usage_of_session"]

_unpriced: set[tuple[str | None, str | None, str | None]] = set()
"""Models the price list does not know, so that it is asked once."""


def usage_of(usage: RequestUsage) -> Usage:
    """The tokens of one request."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
        requests=1,
    )


def usage_of_session(usage: RunUsage) -> Usage:
    """What the library has counted for a realtime session so far."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
        requests=usage.requests,
        tool_calls=usage.tool_calls,
    )


def cost_of(response: ModelResponse) -> float | None:
    """US dollars as the library prices the response; None, never 0, when its price is unknown."""
    known: Decimal | None = response.usage.cost
    if known is not None:
        return float(known)
    key = (response.provider_name, response.provider_url, response.model_name)
    if response.model_name is None or key in _unpriced:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        if len(_unpriced) < 4096:
            _unpriced.add(key)
        return None

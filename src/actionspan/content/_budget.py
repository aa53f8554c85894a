"""What is left of the limits for all the content of one action."""

from __future__ import annotations

from actionspan.policy import NormalizationLimits


class Budget:
    """Values and bytes left of a `NormalizationLimits`, shared by all content of one action."""

    __slots__ = ("bytes", "limits", "values")

    def __init__(self, limits: NormalizationLimits, *, values: int | None = None, bytes: int | None = None) -> None:
        self.limits = limits
        self.values = limits.max_values if values is None else values
        """JSON values that may still be kept."""
        self.bytes = limits.max_total_bytes if bytes is None else bytes
        """Bytes of JSON text that may still be kept."""

    def __repr__(self) -> str:
        return f"Budget(values={self.values}, bytes={self.bytes})"

"""The machine and the versions that figures were measured with."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

__all__ = ["describe"]

_PACKAGES: Final = ("actionspan", "pydantic-ai-slim", "opentelemetry-sdk", "msgspec", "duckdb", "edri")


def describe() -> dict[str, Any]:
    """Date, processor, memory, system, load, Python and packages."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:  # not Linux
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)

"""How long `import actionspan` takes beyond what it imports of OpenTelemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median
from typing import Final

__all__ = ["import_seconds"]

_OTEL: Final = """
import sys
before = set(sys.modules)
import {module}
print("pydantic_ai" in sys.modules)
print(*(name for name in sys.modules if name not in before and name.partition(".")[0] == "opentelemetry"), sep=",")
"""
_TIMED: Final = """
import sys, time
began = time.process_time()
for name in filter(None, sys.argv[1].split(",")):
    try:
        __import__(name)
    except ImportError:  # a name that a module made for itself
        pass
between = time.process_time()
import {module}
print(between - began, time.process_time() - between)
"""


def import_seconds(module: str, rounds: int) -> dict[str, float | bool]:
    """Processor seconds of the OpenTelemetry modules that `module` imports, then of `module`; is Pydantic AI there."""
    library, _, names = _python(_OTEL.format(module=module)).partition("\n")
    code = _TIMED.format(module=module)
    times = [tuple(map(float, _python(code, names.strip()).split())) for _ in range(rounds)]
    return {
        "opentelemetry": median(time[0] for time in times),
        "ours": median(time[1] for time in times),
        "imports_pydantic_ai": library == "True",
    }


def _python(code: str, *arguments: str) -> str:
    # The first import compiles what is not compiled; where bytecode may not be written, each would.
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, text=True, env=writing
    ).stdout

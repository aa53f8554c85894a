"""The fast suite on every Python and at both ends of the dependency ranges: `make matrix`.

Each combination has an environment of its own, `.venv-matrix-{python}-{resolution}`, kept between runs. A Python that
is not installed is skipped, and said to be. `python scripts/matrix.py 3.12-lowest 3.13-latest` runs some of them;
what follows `--` goes to pytest.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from environments import PYTHONS, RESOLUTIONS, ROOT, build, interpreter, lowest_direct, uv

EXTRAS = ("instruments", "cli", "zstd", "edri")
# FastMCP 4 needs a newer OpenTelemetry than we do; FastMCP 3 is the previous generation of the MCP SDK, tested here.
WITH_THE_LOWEST = ("fastmcp<4", "pydantic-ai-slim[mcp]")
NOT_WITH_THE_LOWEST = (
    # OpenTelemetry's GenAI utilities need a newer OpenTelemetry than we do.
    "--ignore=tests/telemetry/test_names.py",
    # Before OpenTelemetry 0.66 its loader says nothing of a library that is too old, and an OTLP exporter before 1.45
    # sends the names of headers as they were written.
    "--deselect=tests/zero_code/test_loader.py::test_pydantic_ai_too_old",
    "--deselect=tests/backends/test_writing.py::test_there_and_back",
)
WHEELS = ROOT / "build" / "matrix"


def environment(python: str, found: Path, resolution: str, wheel: Path) -> Path:
    """The environment of one combination, brought up to date; its Python."""
    home = ROOT / f".venv-matrix-{python}-{resolution}"
    uv("venv", "--allow-existing", "--no-project", "--python", found, home)
    executable = home / "bin" / "python"
    target = ["--python", executable, "--reinstall-package", "actionspan", f"{wheel}[{','.join(EXTRAS)}]"]
    if resolution == "lowest":
        lowest = lowest_direct(python, EXTRAS, WHEELS)
        uv("pip", "install", *target, *WITH_THE_LOWEST, "--group", "test", "--constraint", lowest)
    else:
        uv("pip", "install", *target, "--group", "dev", "--upgrade")
    return executable


def main(arguments: list[str]) -> int:
    """Run the combinations asked for; 0 when every one that could run passed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    asked, for_pytest = arguments[:split], arguments[split + 1 :]
    wheel = build(WHEELS, "--wheel")
    results: dict[str, str] = {}
    failed = False
    for python, resolution in product(PYTHONS, RESOLUTIONS):
        name = f"{python}-{resolution}"
        if asked and name not in asked:
            continue
        found = interpreter(python)
        if found is None:
            results[name] = f"skipped: Python {python} is not installed"
            continue
        started = time.monotonic()
        print(f"--- {name}", flush=True)
        executable = environment(python, found, resolution, wheel)
        ignored = NOT_WITH_THE_LOWEST if resolution == "lowest" else ()
        done = subprocess.run([executable, "-m", "pytest", "-n", "auto", "-q", *ignored, *for_pytest], cwd=ROOT)
        failed = failed or done.returncode != 0
        verdict = "passed" if done.returncode == 0 else f"failed ({done.returncode})"
        results[name] = f"{verdict} in {time.monotonic() - started:.0f} s"
    print("\n".join(f"{name:12} {result}" for name, result in results.items()), flush=True)
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

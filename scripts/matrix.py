"""The fast suite on every Python and at both ends of the dependency ranges: `make matrix`.

Each combination has an environment of its own, `.venv-matrix-{python}-{resolution}`, kept between runs. A Python that
is not installed is skipped, and said to be. `python scripts/matrix.py 3.12-lowest 3.13-latest` runs some of them;
what follows `--` goes to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = os.environ.get("UV", "uv")
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = ("lowest", "latest")
EXTRAS = ("instruments", "cli", "zstd")
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


def uv(*arguments: str | Path, quiet: bool = True) -> str:
    """Run uv in the checkout; its output. Exits with uv's own message when it fails."""
    command = [UV, *(["--quiet"] if quiet else []), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def interpreter(python: str) -> Path | None:
    """That Python on this machine: on the path, or among pyenv's, whose shims only start the one in use."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    on_path = shutil.which(f"python{python}")
    for candidate in filter(None, (on_path, *sorted(pyenv.glob(f"{python}.*/bin/python"), reverse=True))):
        says = [candidate, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        if subprocess.run(says, capture_output=True, text=True).stdout.strip() == python:
            return Path(candidate)
    return None


def build() -> Path:
    """The wheel of this checkout: what is tested is what is published."""
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    uv("build", "--wheel", "--out-dir", WHEELS)
    (wheel,) = WHEELS.glob("*.whl")
    return wheel


def lowest_direct(python: str) -> Path:
    """The lowest release that each direct dependency's range admits, as constraints."""
    constraints = WHEELS / f"lowest-{python}.txt"
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    pinned = ["--resolution", "lowest-direct", "--no-deps", "--python-version", python]
    uv("pip", "compile", "pyproject.toml", *extras, *pinned, "--output-file", constraints)
    return constraints


def environment(python: str, found: Path, resolution: str, wheel: Path) -> Path:
    """The environment of one combination, brought up to date; its Python."""
    home = ROOT / f".venv-matrix-{python}-{resolution}"
    uv("venv", "--allow-existing", "--no-project", "--python", found, home)
    executable = home / "bin" / "python"
    target = ["--python", executable, "--reinstall-package", "actionspan", f"{wheel}[{','.join(EXTRAS)}]"]
    if resolution == "lowest":
        uv("pip", "install", *target, *WITH_THE_LOWEST, "--group", "test", "--constraint", lowest_direct(python))
    else:
        uv("pip", "install", *target, "--group", "dev", "--upgrade")
    return executable


def main(arguments: list[str]) -> int:
    """Run the combinations asked for; 0 when every one that could run passed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    asked, for_pytest = arguments[:split], arguments[split + 1 :]
    wheel = build()
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

"""Pythons, wheels and environments: what `make matrix` and `make package` share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
UV = os.environ.get("UV", "uv")
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = ("lowest", "latest")


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


def build(directory: Path, *what: str) -> Path:
    """The wheel of this checkout, alone in the directory: what is tested is what is published.

    `what` is passed to `uv build`. Without it the wheel is built from a source distribution, which is kept, too.
    """
    for old in (*directory.glob("*.whl"), *directory.glob("*.tar.gz")):
        old.unlink()
    uv("build", *what, "--out-dir", directory)
    (wheel,) = directory.glob("*.whl")
    return wheel


def lowest_direct(python: str, extras: tuple[str, ...], directory: Path) -> Path:
    """The lowest release that each direct dependency's range admits, as constraints."""
    constraints = directory / f"lowest-{python}.txt"
    with_extras = [word for extra in extras for word in ("--extra", extra)]
    pinned = ["--resolution", "lowest-direct", "--no-deps", "--python-version", python]
    uv("pip", "compile", "pyproject.toml", *with_extras, *pinned, "--output-file", constraints)
    return constraints

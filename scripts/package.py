"""Build what is published and look at it from outside: `make package`.

The wheel is built from the source distribution, both are compared with what git has, and the wheel is installed into
empty environments, by itself and with extras, on every Python that is found and at both ends of the dependency ranges.
`make matrix` has the tests in environments of their own; here nothing is installed that the wheel does not ask for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from itertools import product
from pathlib import Path

import licences
from environments import PYTHONS, RESOLUTIONS, ROOT, build, interpreter, lowest_direct, uv

DIST = ROOT / "dist"
WORK = ROOT / "build" / "package"
EXTRAS = ("instruments", "cli")
NOT_PUBLISHED = (".ci/", ".github/")
MADE = frozenset({"PKG-INFO"})
"""What the build adds to a source distribution."""


def tracked() -> set[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if (ROOT / line).exists()}


def compared(what: str, has: set[str], expected: set[str]) -> list[str]:
    return [f"{what} lacks {name}" for name in sorted(expected - has)] + [
        f"{what} has {name}, which git has not" for name in sorted(has - expected)
    ]


def contents(wheel: Path, sdist: Path) -> list[str]:
    """What the archives lack, and what they have that nobody put there."""
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    published = {name for name in tracked() if not name.startswith(NOT_PUBLISHED)}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    return compared(sdist.name, in_sdist - MADE, published) + compared(wheel.name, in_wheel, source)


def tool(name: str, *arguments: str | Path) -> None:
    home = WORK / "tools"
    if not home.exists():
        uv("venv", "--no-project", "--python", sys.executable, home)
        uv("pip", "install", "--python", home / "bin" / "python", "--group", "package")
    run(home / "bin" / name, *arguments)


def run(*command: str | Path) -> str:
    """Run it where nothing of this checkout is; its output."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(list(map(str, command)), cwd=elsewhere, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def look_at(wheel: Path, python: str, found: Path, resolution: str) -> Path:
    """Install the wheel by itself, then with extras, and look at it each time; the Python of the environment."""
    home = WORK / f"{python}-{resolution}"
    uv("venv", "--clear", "--no-project", "--python", found, home)
    executable = home / "bin" / "python"
    constraint = ["--constraint", lowest_direct(python, EXTRAS, WORK)] if resolution == "lowest" else []
    check = [executable, "-I", ROOT / "scripts" / "installed.py"]
    uv("pip", "install", "--python", executable, *constraint, wheel)
    run(*check)
    uv("pip", "install", "--python", executable, *constraint, f"{wheel}[{','.join(EXTRAS)}]")
    run(*check, "with-extras")
    return executable


def licensed(wheel: Path, executable: Path) -> list[licences.Licensed]:
    uv("pip", "install", "--python", executable, f"{wheel}[{','.join(licences.EXTRAS)}]")
    said = run(executable, "-I", ROOT / "scripts" / "licences.py")
    return [licences.Licensed(**row) for row in json.loads(said)]


def main(arguments: list[str]) -> int:
    """0 when there is nothing to find fault with. `--write` writes `docs/licences.md` anew."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel = build(DIST)
    (sdist,) = DIST.glob("*.tar.gz")
    faults = contents(wheel, sdist)
    tool("twine", "check", "--strict", wheel, sdist)
    tool("towncrier", "build", "--draft", "--dir", ROOT)
    print(f"{wheel.name}, {sdist.name}: built; their descriptions and the changelog's fragments are valid", flush=True)

    environments: list[list[licences.Licensed]] = []
    for python, resolution in product(PYTHONS, RESOLUTIONS):
        if (found := interpreter(python)) is None:
            print(f"{python}-{resolution}: skipped: Python {python} is not installed", flush=True)
            continue
        executable = look_at(wheel, python, found, resolution)
        print(f"{python}-{resolution}: installs and runs", flush=True)
        if resolution == "latest":
            environments.append(licensed(wheel, executable))

    packages = licences.merged(environments)
    if "--write" in arguments:
        licences.PAGE.write_text(licences.page(packages))
    everywhere = len(environments) == len(PYTHONS)
    faults += licences.faults(packages)
    # A dependency that gains one of its own is no fault of this checkout, so the list may wait for the next change.
    for difference in licences.differences(packages, licences.PAGE.read_text(), everywhere=everywhere):
        print(f"note: {difference}", flush=True)
    print("\n".join(faults) or f"{len(packages)} licences known", flush=True)
    return 1 if faults or not environments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

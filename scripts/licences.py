"""The licences of what is installed with actionspan: `docs/licences.md`, made and compared by `make package`.

Run by the Python of an environment it prints what is there, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution, metadata
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "licences.md"
EXTRAS = ("instruments", "cli", "zstd", "edri")
PERMISSIVE = frozenset(
    {"0BSD", "Apache-2.0", "Apache-2.0 OR BSD-2-Clause", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "PSF-2.0"}
)
KNOWN = {"certifi": "MPL-2.0"}
"""Not permissive, and looked at: certifi's covers its own files, which nothing of ours is made from."""
SPELLED = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache License 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
}
"""What metadata says without being SPDX; "BSD License" alone is not here, as it does not say which."""
INTRODUCTION = """\
# Licences

actionspan is Apache-2.0. This is what is installed with it on the Pythons it supports, made from
the metadata of the installed packages by `make package ARGS=--write`. `make package` says when it is out of date,
and fails when a licence is neither permissive nor one that was looked at.

| package | licence | comes with |
|---|---|---|
"""


@dataclass(frozen=True, order=True)
class Licensed:
    """A distribution that is installed."""

    name: str
    licence: str
    """An SPDX expression where it is known, else what the metadata says."""
    comes_with: str
    """`actionspan`, or the extras that bring it."""

    @property
    def row(self) -> str:
        return f"| {self.name} | {self.licence} | {self.comes_with} |\n"


def licence(name: str) -> str:
    about = metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    classifiers = [text for text in about.get_all("Classifier") or () if text.startswith("License ::")]
    said = [text.strip() for text in (about.get("License") or "", *classifiers) if text.strip()]
    for text in said:
        if (known := SPELLED.get(text, text)) in PERMISSIVE or known == KNOWN.get(name):
            return known
    return " / ".join(text.partition("\n")[0] for text in said) or "none stated"


def needed(name: str, extras: Iterable[str] = ()) -> set[str]:
    """What the distribution needs here, itself and the needs of its needs included; names as PyPI normalises them."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for text in distribution(current[0]).requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": current[1]}):
                wanted = canonicalize_name(requirement.name)
                waiting += [(wanted, extra) for extra in ("", *requirement.extras)]
    return {name for name, _ in seen}


def installed() -> list[Licensed]:
    """What an environment with every extra has, without actionspan itself."""
    always = needed("actionspan")
    by_extra = {extra: needed("actionspan", [extra]) for extra in EXTRAS}
    found: list[Licensed] = []
    for name in sorted(always.union(*by_extra.values()) - {"actionspan"}):
        extras = [extra for extra in EXTRAS if name in by_extra[extra]]
        found.append(Licensed(name, licence(name), "actionspan" if name in always else ", ".join(extras)))
    return found


def merged(environments: Iterable[Iterable[Licensed]]) -> list[Licensed]:
    """One row a package: a marker may have one extra bring it on one Python only."""
    comes_with: dict[tuple[str, str], set[str]] = {}
    for one in (one for environment in environments for one in environment):
        comes_with.setdefault((one.name, one.licence), set()).update(one.comes_with.split(", "))
    order = ("actionspan", *EXTRAS)
    rows = {key: ["actionspan"] if "actionspan" in found else sorted(found, key=order.index)
            for key, found in comes_with.items()}  # fmt: skip
    return sorted(Licensed(name, licence, ", ".join(found)) for (name, licence), found in rows.items())


def page(found: Iterable[Licensed]) -> str:
    return INTRODUCTION + "".join(one.row for one in found)


def listed(text: str) -> list[Licensed]:
    """The rows of the page."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [Licensed(*row) for row in rows if row[0] != "package"]


def faults(found: Iterable[Licensed]) -> list[str]:
    """Licences that nobody looked at."""
    return [
        f"{one.name}: its licence is {one.licence}"
        for one in found
        if one.licence not in PERMISSIVE and KNOWN.get(one.name) != one.licence
    ]


def differences(found: Iterable[Licensed], text: str, *, everywhere: bool) -> list[str]:
    """What the page lacks; and, when every Python was looked at, what it has too much."""
    here, there = set(found), set(listed(text))
    lacks = [f"docs/licences.md lacks: {one.row.strip()}" for one in sorted(here - there)]
    stale = [f"docs/licences.md has what is not installed: {one.row.strip()}" for one in sorted(there - here)]
    return lacks + stale if everywhere else lacks


if __name__ == "__main__":
    try:
        print(json.dumps([asdict(one) for one in installed()]))
    except PackageNotFoundError as missing:
        raise SystemExit(f"not installed here: {missing.name}") from missing

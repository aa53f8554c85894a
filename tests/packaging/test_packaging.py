"""What is published says one version, and which licences come with it. `make package` looks at the archives."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import actionspan

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture
def licences(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("licences")


def test_the_version_is_written_once():
    project: dict[str, Any] = DECLARED["project"]
    assert "version" not in project
    place = ROOT / DECLARED["tool"]["hatch"]["version"]["path"]
    said = [path for path in (ROOT / "src").rglob("*.py") if re.search(r"^__version__\s*=", path.read_text(), re.M)]
    assert said == [place]
    assert f'"{actionspan.__version__}"' in place.read_text()


def test_every_dependency_has_a_licence_that_somebody_looked_at(licences: ModuleType):
    listed = licences.listed(licences.PAGE.read_text())
    extras: dict[str, list[str]] = DECLARED["project"]["optional-dependencies"]
    declared = [*DECLARED["project"]["dependencies"], *(text for extra in extras.values() for text in extra)]
    assert {re.split(r"[^\w.-]", text)[0] for text in declared} <= {one.name for one in listed}
    assert licences.faults(listed) == []
    assert set(extras) == set(licences.EXTRAS)
    assert licences.page(listed) == licences.PAGE.read_text()


def test_a_licence_that_nobody_looked_at_is_a_fault(licences: ModuleType):
    copyleft = licences.Licensed("something", "AGPL-3.0-only", "cli")
    exempt_elsewhere = licences.Licensed("something", "MPL-2.0", "cli")
    assert licences.faults([copyleft, exempt_elsewhere]) == [
        "something: its licence is AGPL-3.0-only",
        "something: its licence is MPL-2.0",
    ]
    assert licences.faults([licences.Licensed("certifi", "MPL-2.0", "actionspan")]) == []


def test_a_list_that_is_out_of_date_is_a_fault(licences: ModuleType):
    known = licences.Licensed("known", "MIT", "cli")
    new = licences.Licensed("new", "ISC", "actionspan")
    page = licences.page([known])
    assert licences.differences([known], page, everywhere=True) == []
    lacks = "docs/licences.md lacks: | new | ISC | actionspan |"
    assert licences.differences([known, new], page, everywhere=True) == [lacks]
    stale = "docs/licences.md has what is not installed: | known | MIT | cli |"
    assert licences.differences([new], page, everywhere=True) == [lacks, stale]
    assert licences.differences([new], page, everywhere=False) == [lacks], "a Python is missing here, not a package"


def test_what_one_python_brings_is_one_row(licences: ModuleType):
    on_one = [licences.Licensed("shared", "MIT", "instruments"), licences.Licensed("only", "MIT", "cli")]
    on_another = [licences.Licensed("shared", "MIT", "edri")]
    assert licences.merged([on_one, on_another]) == [
        licences.Licensed("only", "MIT", "cli"),
        licences.Licensed("shared", "MIT", "instruments, edri"),
    ]


def test_every_changelog_fragment_is_of_a_kind_that_towncrier_knows():
    kinds = {kind["directory"] for kind in DECLARED["tool"]["towncrier"]["type"]}
    directory = ROOT / DECLARED["tool"]["towncrier"]["directory"]
    fragments = [path.name for path in directory.iterdir() if path.name != "README.md"]
    assert [name for name in fragments if not re.fullmatch(rf"(\+[a-z0-9-]+|\d+)\.({'|'.join(kinds)})\.md", name)] == []


def test_where_fragments_go_is_marked():
    assert DECLARED["tool"]["towncrier"]["start_string"] in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda form: form.stem
)
def test_a_form_for_issues_is_one(form: Path):
    fields = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= fields.keys()
    asked = [element for element in fields["body"] if element["type"] != "markdown"]
    assert len({element["id"] for element in asked}) == len(asked)
    assert all(element["attributes"]["label"] for element in asked)
    assert {element["type"] for element in asked} <= {"textarea", "input", "dropdown", "checkboxes"}

"""docs/faults.md: the tests it names are there and say what the application sees, and it names all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "faults.md").read_text())))
HERE = Path(__file__).parent.relative_to(ROOT)
ABOUT_THE_TESTS = {"test_the_guarded_points_are_known", "test_a_contained_failure_is_counted_and_its_message_kept_back"}


def said_by(path: Path) -> dict[str, str | None]:
    """The tests of a file, and what each says of itself."""
    functions = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {node.name: ast.get_docstring(node) for node in functions if node.name.startswith("test_")}


@pytest.mark.parametrize(("path", "test"), NAMED)
def test_every_test_that_is_named_is_there(path: str, test: str):
    assert test in said_by(ROOT / path)


@pytest.mark.parametrize(
    "path", sorted(set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)}), ids=lambda path: path.stem
)
def test_every_fault_is_on_the_page_and_says_what_the_application_sees(path: Path):
    for name, docstring in said_by(path).items():
        if name not in ABOUT_THE_TESTS:
            assert (str(HERE / path.name), name) in NAMED
            assert docstring is not None
            assert docstring.count("\n") == 0

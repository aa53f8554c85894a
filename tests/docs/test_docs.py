"""Every Python block of the README and the documentation runs, by itself and from an empty directory.

A fence that says more than `python` (`python {test="skip"}`) is not run.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "edri": "needs Python 3.12",
    "fastapi": "make docs has it",
    "logfire": "make docs has it",
    "openai": "make docs has it",
    "openinference": "make docs has it",
    "uvicorn": "make docs has it",
}
"""Packages that not every environment has, and where they are."""


@dataclass(frozen=True)
class Block:
    """A fenced block of Python."""

    page: Path
    line: int
    """Where its code begins, from 1."""
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> list[Block]:
    found: list[Block] = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text()
        found += [Block(page, text.count("\n", 0, match.start(1)) + 1, match[1]) for match in FENCED.finditer(text)]
    return found


def run(block: Block, directory: Path) -> None:
    """Import the block as a module; a line of a traceback is that line of the page."""
    path = directory / "block.py"
    path.write_text("\n" * (block.line - 1) + block.code)
    spec = importlib.util.spec_from_file_location("block", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["block"] = module  # where annotations are resolved
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["block"]


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    """A block may show how a process is told to stop; this one is not to learn it."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("signals_as_before")
@pytest.mark.parametrize("block", blocks(), ids=str)
def test_block(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    try:
        run(block, tmp_path)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        package = "openai" if (error.name or "").startswith("opentelemetry.instrumentation.") else package
        if package not in ELSEWHERE:
            raise
        pytest.skip(f"no {error.name} here: {ELSEWHERE[package]}")


def test_there_are_blocks_to_run():
    assert {block.page.name for block in blocks()} > {"README.md"}

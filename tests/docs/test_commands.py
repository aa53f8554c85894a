"""Every command line in the README and the documentation is one that `actionspan` understands, and none is left out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from actionspan.cli._app import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
FENCED = re.compile(r"^```(?:console|sh|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ |opentelemetry-instrument )*actionspan (.*)$", re.MULTILINE)
PROGRAM = get_command(app)


def typed() -> Iterator[str]:
    """The arguments of each `actionspan` that is typed somewhere, as far as the next pipe or comment."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in FENCED.findall(page.read_text()):
            for line in TYPED.findall(block.replace("\\\n", " ")):
                words = shlex.split(line, comments=True)
                yield shlex.join(takewhile(lambda word: word not in ("|", "&", "&&", ">"), words))


def parse(program: Any, name: str, arguments: list[str]) -> None:
    """Parse as the program would, and run nothing."""
    context = program.make_context(name, arguments)
    if isinstance(program, TyperGroup):
        below, command, rest = program.resolve_command(context, [*context._protected_args, *context.args])
        parse(command, str(below), rest)


@pytest.mark.parametrize("line", sorted(set(typed())))
def test_what_is_typed_is_understood(line: str):
    arguments = shlex.split(line)
    if arguments[0] in ("--install-completion", "--show-completion"):
        return  # they are acted on at once; tests/cli has them
    parse(PROGRAM, "actionspan", arguments)


def test_every_command_is_on_the_page_with_an_example():
    page = PAGE.read_text()
    examples = "\n".join(FENCED.findall(page))
    assert isinstance(PROGRAM, TyperGroup)
    for name, command in PROGRAM.commands.items():
        assert f"\n| [`{name}`](#" in page, name
        assert f"actionspan {name}" in examples, name
        for verb in command.commands if isinstance(command, TyperGroup) else ():
            assert re.search(rf"actionspan {name} record {verb}\b", examples), verb


def test_every_link_within_the_page_leads_somewhere():
    page = PAGE.read_text()
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", head.lower()).replace(" ", "-") for head in heads}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= anchors

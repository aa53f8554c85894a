"""The commands together."""

from __future__ import annotations

from typing import Annotated

import typer

from actionspan._version import __version__
from actionspan.cli._control import control_app
from actionspan.cli._demo import demo
from actionspan.cli._doctor import doctor
from actionspan.cli._query import query
from actionspan.cli._replay import replay
from actionspan.cli._report import report
from actionspan.cli._show import show
from actionspan.cli._stats import stats
from actionspan.cli._tail import tail
from actionspan.cli._upkeep import compact_command, erase_command
from actionspan.cli._verify import verify_command
from actionspan.cli.leakcheck import leakcheck

__all__ = ["app", "run"]

app = typer.Typer(
    name="actionspan",
    help="What your agents did: records of actions shown, queried, counted and replayed.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"actionspan {__version__}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction] # typer calls it
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """What your agents did: records of actions shown, queried, counted and replayed."""


_COMMANDS = {
    "demo": demo,
    "show": show,
    "tail": tail,
    "query": query,
    "stats": stats,
    "report": report,
    "verify": verify_command,
    "compact": compact_command,
    "erase": erase_command,
    "replay": replay,
    "doctor": doctor,
    "leakcheck": leakcheck,
}
for _name, _function in _COMMANDS.items():
    app.command(_name)(_function)
app.add_typer(control_app, name="control")


def run() -> None:
    """Run the command line."""
    app()

"""The command line: `actionspan show`, `query`, `stats` and the rest. Needs the extra `cli`."""

from __future__ import annotations

import sys

__all__ = ["main"]

_NEEDED = frozenset({"typer", "rich", "click", "shellingham"})


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    try:
        from actionspan.cli._app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write("actionspan: the command line needs typer and rich: pip install 'actionspan[cli]'\n")
        sys.exit(2)
    run()

"""`actionspan doctor`: what is instrumented and why not, as far as this environment decides it."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.text import Text

from actionspan.cli._checks import Check, State, examine
from actionspan.cli._command import JsonFlag, command
from actionspan.cli._screen import Screen, print_json
from actionspan.cli._text import many

__all__ = ["doctor"]

_STYLES = {State.FINE: "green", State.NOTE: "dim", State.PROBLEM: "bold red"}


@command
def doctor(as_json: JsonFlag = False) -> None:
    """Say what would be traced here, what not, and why. Exits with 1 when something is wrong.

    It sees the environment it is started in: the packages and the variables. Start it as the application is started,
    with the same variables; under opentelemetry-instrument it also sees whether the loader instrumented.

    [bold]Examples[/]

      actionspan doctor
      ACTIONSPAN_AUDIT=content opentelemetry-instrument actionspan doctor
      actionspan doctor --json | jq '.checks[] | select(.state == "problem")'
    """
    checks = examine()
    problems = sum(check.state is State.PROBLEM for check in checks)
    if as_json:
        print_json({"fine": not problems, "checks": [asdict(check) for check in checks]})
    else:
        _print(Screen(), checks, problems)
    if problems:
        raise typer.Exit(1)


def _print(screen: Screen, checks: list[Check], problems: int) -> None:
    marks = {
        State.FINE: screen.symbols.outcomes["success"],
        State.NOTE: screen.symbols.dot,
        State.PROBLEM: screen.symbols.outcomes["error"],
    }
    width = max(len(check.name) for check in checks)
    for check in checks:
        style = _STYLES[check.state]
        name = f" {check.name:{width}}  "
        screen.line(Text(marks[check.state], style), Text(name, "bold"), screen.text(check.says, most=1_000))
    screen.gap()
    screen.line(Text(many(problems, "problem"), "bold red") if problems else Text("nothing wrong", "bold green"))

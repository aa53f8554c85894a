"""`actionspan demo`: a scripted support agent, recorded and shown; no key, no network."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from actionspan.cli._actions import ActionNode, Forest
from actionspan.cli._command import JsonFlag, command
from actionspan.cli._progress import at_work
from actionspan.cli._screen import NOTHING, USAGE, Screen, fail, print_json
from actionspan.cli._show import print_run, print_runs, shown_as_json
from actionspan.policy import ActionPolicy
from actionspan.recorder import JsonlRecorder, read

if TYPE_CHECKING:
    from actionspan.cli._otlp import OtlpTarget
    from actionspan.cli.demo.agents import Desk

__all__ = ["demo"]

_SERVICE = "actionspan-demo"


@command
def demo(
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Record to this directory instead of a temporary one.")
    ] = None,
    otlp: Annotated[
        str | None, typer.Option(metavar="URL", help="Also send the spans to this OTLP/HTTP endpoint.")
    ] = None,
    content: Annotated[
        bool,
        typer.Option(
            "--content", help="Record and show prompts, arguments and results; ACTIONSPAN_AUDIT can forbid it."
        ),
    ] = False,
    pace: Annotated[float, typer.Option(min=0, help="Seconds that a scripted model takes to answer.")] = 0.1,
    as_json: JsonFlag = False,
) -> None:
    """Run a scripted support agent, record what it does and show it. Needs no key and no network.

    The agent looks two things up at once, is corrected over arguments, is asked to try again, asks another agent,
    and wants to pay money back: which is denied, and then approved in part. A person holds the run there, saves
    where it is, and has one more thing to be said.

    [bold]Examples[/]

      actionspan demo
      actionspan demo --record record --content
      actionspan demo --otlp http://localhost:4318
    """
    screen = Screen(stderr=as_json)
    desk = _desk(pace)
    target = None if otlp is None else _target(otlp)
    directory = record or Path(tempfile.mkdtemp(prefix="actionspan-demo-"))
    try:
        _record(screen, directory, desk, target, content)
    finally:
        delivered = target is None or target.close()
    runs = Forest(read(directory).query(), content=content).roots
    if not runs:
        fail("nothing was recorded: the environment switches instrumentation off", NOTHING)
    if as_json:
        print_json(shown_as_json(directory, runs, runs, content))
    else:
        _show(screen, directory, runs, content)
    if target is not None:
        if not delivered:
            fail(f"the spans did not reach {target.endpoint}: {target.problem}", NOTHING)
        screen.line(Text(f"Sent to {target.endpoint} as service {_SERVICE}.", "dim"))


def _desk(pace: float) -> Desk:
    """What the demo's agents work at; an exit that says what to install when Pydantic AI is missing."""
    try:
        from actionspan.cli.demo.agents import Desk
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise
        fail("the demo needs Pydantic AI: pip install 'actionspan[instruments]'", USAGE)
    return Desk(pace=pace)


def _target(url: str) -> OtlpTarget:
    from actionspan.cli._otlp import OtlpTarget

    return OtlpTarget(url, _SERVICE)


def _record(screen: Screen, directory: Path, desk: Desk, target: OtlpTarget | None, content: bool) -> None:
    """Run the demo with every action recorded. Without `content` it is instrumented as an application is by default."""
    import asyncio

    from actionspan.cli.demo.script import play
    from actionspan.instrumentor import PydanticAIInstrumentor

    instrumentor = PydanticAIInstrumentor()
    recorder = JsonlRecorder(directory)
    asked = {"mode": "content", "policy": ActionPolicy.everything()} if content else {}
    instrumentor.instrument(recorder=recorder, tracer_provider=None if target is None else target.provider, **asked)
    try:
        with at_work("the support agent is at work"):
            asyncio.run(play(desk, lambda words: screen.line(Text(words, "dim"))))
    finally:
        instrumentor.uninstrument()
        recorder.close()


def _show(screen: Screen, directory: Path, runs: Sequence[ActionNode], content: bool) -> None:
    print_runs(screen, runs)
    for run in runs:
        screen.gap()
        print_run(screen, run, content=content)
    screen.gap()
    screen.line(Text(f"Recorded in {directory}. Next:", "bold"))
    for line in (
        f"actionspan show {directory} --full",
        f"actionspan query {directory} --kind 'tool.*' --where outcome=error",
        f"actionspan stats {directory}",
    ):
        screen.line("  ", line)

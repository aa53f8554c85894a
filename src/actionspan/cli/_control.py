"""`actionspan control`: the runs of a live process seen and steered from another terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from actionspan.cli._command import JsonFlag, command, existing
from actionspan.cli._screen import USAGE, Screen, fail, fail_nothing, print_json
from actionspan.control.contract import Priority
from actionspan.control.errors import ControlError, ControlRejected, ControlUnreachable

__all__ = ["control_app"]

control_app = typer.Typer(no_args_is_help=True)

Served = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory that control is served from.", show_default=False)
]
AgentId = Annotated[
    str | None,
    typer.Option("--agent-id", metavar="ID", help="An agent's name, a run id or a run action id; else every run."),
]
Reason = Annotated[str | None, typer.Option(help="Why; content, recorded only where the policy admits it.")]
Wait = Annotated[float, typer.Option(min=0, max=60, help="Seconds to wait until it has taken effect.")]

_STYLES = {"done": "green", "pending": "yellow", "unchanged": "dim", "paused": "yellow", "running": "green"}


@control_app.callback()
def choose(context: typer.Context, directory: Served) -> None:
    """Pause, steer, checkpoint and abort the runs of a live process that serves control from DIR.

    A process serves with RunControl(serve=DIR) or ACTIONSPAN_CONTROL=DIR.

    [bold]Examples[/]

      actionspan control record runs
      actionspan control record steer --agent-id support "answer in French"
      actionspan control record abort --agent-id support --now --reason "customer hung up"
    """
    context.obj = directory


@control_app.command()
@command
def runs(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the runs that are attached, and the latest that have ended.

    [bold]Examples[/]

      actionspan control record runs
      actionspan control record runs --json
    """
    found: list[dict[str, Any]] = []
    for pid, answer in _ask(context.obj, "runs"):
        found += [{"pid": pid, **run} for run in answer["runs"]]
    if as_json:
        print_json(found)
    if not found:
        fail_nothing("no runs")
    if not as_json:
        _print_runs(found)


@control_app.command()
@command
def pause(
    context: typer.Context,
    agent_id: AgentId = None,
    reason: Reason = None,
    wait: Wait = 0,
    as_json: JsonFlag = False,
) -> None:
    """Hold matching runs at their next safe boundary.

    [bold]Examples[/]

      actionspan control record pause --agent-id support --wait 10
    """
    _verb(context, "pause", as_json, agent_id=agent_id, reason=reason, wait=wait)


@control_app.command()
@command
def resume(context: typer.Context, agent_id: AgentId = None, as_json: JsonFlag = False) -> None:
    """Let paused runs go on.

    [bold]Examples[/]

      actionspan control record resume --agent-id support
    """
    _verb(context, "resume", as_json, agent_id=agent_id)


@control_app.command()
@command
def steer(
    context: typer.Context,
    directive: Annotated[str, typer.Argument(help="What the model is to be told before its next request.")],
    agent_id: AgentId = None,
    priority: Annotated[Priority, typer.Option(help="low waits until the run would end.")] = "normal",
    wait: Wait = 0,
    as_json: JsonFlag = False,
) -> None:
    """Put a directive into matching runs before their next model request.

    [bold]Examples[/]

      actionspan control record steer --agent-id support "answer in French"
    """
    _verb(context, "steer", as_json, agent_id=agent_id, directive=directive, priority=priority, wait=wait)


@control_app.command()
@command
def abort(
    context: typer.Context,
    agent_id: AgentId = None,
    reason: Reason = None,
    now: Annotated[bool, typer.Option("--now", help="Cancel what it is waiting for as well.")] = False,
    wait: Wait = 0,
    as_json: JsonFlag = False,
) -> None:
    """Stop matching runs for good.

    [bold]Examples[/]

      actionspan control record abort --agent-id support --now --reason "customer hung up"
    """
    _verb(context, "abort", as_json, agent_id=agent_id, reason=reason, now=now, wait=wait)


@control_app.command()
@command
def checkpoint(
    context: typer.Context,
    agent_id: AgentId = None,
    label: Annotated[str | None, typer.Option(help="What to call it; content.")] = None,
    wait: Wait = 0,
    as_json: JsonFlag = False,
) -> None:
    """Save matching runs: at once those that are held, the others at their next boundary.

    [bold]Examples[/]

      actionspan control record checkpoint --agent-id support --label "before the refund"
    """
    _verb(context, "checkpoint", as_json, agent_id=agent_id, label=label, wait=wait)


@control_app.command()
@command
def restore(
    context: typer.Context,
    checkpoint_id: Annotated[str, typer.Argument(metavar="ID", help="The checkpoint.")],
    wait: Wait = 0,
    as_json: JsonFlag = False,
) -> None:
    """Roll the live run that a checkpoint was taken from back to it.

    [bold]Examples[/]

      actionspan control record restore 01JD2Z7Q6T
    """
    _verb(context, "restore", as_json, checkpoint_id=checkpoint_id, wait=wait)


def _ask(directory: Path, verb: str, **fields: Any) -> list[tuple[int, dict[str, Any]]]:
    """What every process that serves there answers."""
    from actionspan.control._client import remotes

    answers: list[tuple[int, dict[str, Any]]] = []
    refused: ControlError | None = None
    try:
        for remote in remotes(existing(directory)):
            try:
                answers.append((remote.pid, remote.ask(verb, **fields)))
            except ControlRejected as error:  # several processes may serve there, and a checkpoint is one's own
                refused = error
    except ControlUnreachable as error:
        fail_nothing(str(error))
    if refused is not None and not answers:
        fail(refused, USAGE)
    return answers


def _verb(context: typer.Context, verb: str, as_json: bool, **fields: Any) -> None:
    receipts: list[dict[str, Any]] = [
        {"pid": pid, **answer["receipt"]} for pid, answer in _ask(context.obj, verb, **fields)
    ]
    targets: list[dict[str, Any]] = [target for receipt in receipts for target in receipt["targets"]]
    if as_json:
        print_json(receipts)
    else:
        screen = Screen()
        for target in targets:
            screen.line(*_described(screen, target))
    if not targets:
        fail_nothing("no run matches")


def _described(screen: Screen, target: dict[str, Any]) -> list[Text | str]:
    said: list[Text | str] = [screen.text(target["state"], _STYLES.get(target["state"], "red")), "  "]
    said.append(screen.text(target.get("agent_name") or "agent", "bold"))
    for name, words in (("run_id", "run "), ("step", "request "), ("checkpoint_id", "checkpoint "), ("note", "")):
        if target.get(name) is not None:
            said += ["  ", Text(words, "dim"), screen.text(target[name])]
    return said


def _print_runs(found: list[dict[str, Any]]) -> None:
    screen = Screen()
    columns: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
        ("pid", lambda run: run["pid"]),
        ("state", lambda run: run["state"] + (f" ({run['gate']} gate)" if run["gate"] else "")),
        ("agent", lambda run: run["agent_name"] or "-"),
        ("request", lambda run: run["step"] or "-"),
        ("queued", lambda run: run["queued"] or "-"),
        ("run id", lambda run: run["run_id"] or run["run"]),
        ("reason", lambda run: run["reason"] or run["refusal"] or ""),
    )
    rows = [[screen.text(value(run)) for _, value in columns] for run in found]
    widths = [
        max(len(title), *(cell.cell_len for cell in cells))
        for (title, _), cells in zip(columns, zip(*rows, strict=True), strict=True)
    ]
    screen.line(Text("  ".join(f"{title:{width}}" for (title, _), width in zip(columns, widths, strict=True)), "dim"))
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append_text(cell).append(" " * (width - cell.cell_len + 2))
        line.rstrip()
        screen.line(line)

"""`actionspan show`: the runs of a record, and one of them as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from actionspan.cli._actions import ActionNode, Totals
from actionspan.cli._command import Directory, JsonFlag, command, open_reader
from actionspan.cli._options import (
    AgentOption,
    ConversationOption,
    SinceOption,
    UntilOption,
    WhereOption,
    conditions,
)
from actionspan.cli._progress import watching
from actionspan.cli._runs import newest_runs, no_runs, one_run, run_or_conditions
from actionspan.cli._screen import OUTCOME_STYLES, Screen, fail_nothing, print_json
from actionspan.cli._table import Column, print_table
from actionspan.cli._text import dollars, number, seconds
from actionspan.cli._tree import label, mark, print_tree

__all__ = ["print_run", "print_runs", "show", "shown_as_json"]

_WIDEST: Final = 32
"""Columns for a name, so that a long one does not push the numbers out."""


@command
def show(
    directory: Directory,
    run: Annotated[
        str | None, typer.Option(help="The run to show: any of its ids or its trace's, or the beginning of one.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many traces to list, the newest.")] = 20,
    agent_id: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    all_runs: Annotated[bool, typer.Option("--all", help="Every listed run as a tree, not only the newest.")] = False,
    content: Annotated[bool, typer.Option("--content", help="Also the content that was recorded.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Also validations that passed.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """The runs of a record, newest last, and one of them as a tree.

    With conditions those runs in which some event satisfies all of them.

    [bold]Examples[/]

      actionspan show record
      actionspan show record --since 1h --where outcome=error
      actionspan show record --run 4f1c2ab9 --content
      actionspan show record --json | jq '.runs[] | select(.outcome != "success")'
    """
    wanted = conditions(where, agent_id=agent_id, conversation=conversation, since=since, until=until)
    run_or_conditions(run, wanted)
    reader = open_reader(directory)
    with watching(reader) as watch:
        if run is None:
            runs = newest_runs(reader, limit, watch, wanted, content=content).roots
            chosen = runs if all_runs else runs[-1:]
        else:
            runs = chosen = one_run(reader, run, watch, content=content)
    if not runs:
        fail_nothing(no_runs(directory, run, wanted))
    if as_json:
        print_json(shown_as_json(directory, runs, chosen, content))
        return
    screen = Screen()
    if run is None:
        print_runs(screen, runs)
    for node in chosen:
        screen.gap()
        print_run(screen, node, full=full, content=content)
    if run is None and len(chosen) < len(runs):
        screen.gap()
        screen.line(Text(f"Another one: actionspan show {directory} --run ID", "dim"))


def print_runs(screen: Screen, runs: Sequence[ActionNode]) -> None:
    """The list of runs, a line each."""
    totals = [Totals.of(node) for node in runs]
    priced = any(total.cost is not None for total in totals)
    # Of one day the date stands once, at the head.
    days = {_clock(node.start, "%Y-%m-%d") for node in runs}
    columns = [
        Column("run", "left"),
        Column("agent", "left", _WIDEST),
        Column("outcome", "left", _WIDEST),
        *map(Column, ("took", "tokens in", "out", *(("cost",) if priced else ()), "actions")),
        Column(days.pop() if len(days) == 1 else "started", "left"),
    ]
    form = "%H:%M:%S" if not days else "%Y-%m-%d %H:%M:%S"
    rows: list[list[Text | str]] = []
    for node, total in zip(runs, totals, strict=True):
        cells = [screen.text(_short_id(node), "bold"), label(screen, node), _outcome(screen, node)]
        numbers = [seconds(node.duration), number(total.input_tokens), number(total.output_tokens)]
        cost = [dollars(total.cost, atleast=total.unpriced)] if priced else []
        rows.append([*cells, *numbers, *cost, number(total.actions), _clock(node.start, form)])
    print_table(screen, columns, rows)


def print_run(screen: Screen, node: ActionNode, *, full: bool = False, content: bool = False) -> None:
    """One run: what identifies it, and its tree."""
    identity = [("run", node.run_id), ("trace", node.trace_id)]
    parts = [Text(f"{name} ", "dim") + screen.text(value, "dim") for name, value in identity if value]
    screen.line(Text("  ").join(parts))
    if node.resumes:
        screen.line(Text("resumes run ", "dim"), screen.text(node.resumes, "dim"))
    print_tree(screen, node, full=full, content=content)


def _outcome(screen: Screen, node: ActionNode) -> Text:
    said = node.outcome or ("unfinished" if node.recorded else "not in the record")
    if node.reason:
        said = f"{said}: {node.reason}"
    style = OUTCOME_STYLES.get(node.outcome or "", "yellow")
    return Text.assemble(mark(screen, node), " ", screen.text(said, style))


def _short_id(node: ActionNode) -> str:
    return (node.span_id or node.action_id.replace("-", "")[16:])[:8]


def _clock(nanoseconds: int, form: str) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9).strftime(form) if nanoseconds else ""


def shown_as_json(directory: Path, runs: Sequence[ActionNode], chosen: Sequence[ActionNode], content: bool) -> Any:
    """What `show --json` prints: every run in short, and the actions of those that were chosen."""
    return {
        "directory": str(directory),
        "runs": [_run_fields(node) for node in runs],
        "actions": [_action_fields(node, depth, content) for top in chosen for depth, node in top.walk()],
    }


def _run_fields(node: ActionNode) -> dict[str, Any]:
    totals = Totals.of(node)
    return _action_fields(node, 0, False) | {
        "actions": totals.actions,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cost_usd": totals.cost,
        "cost_is_complete": None if totals.cost is None else not totals.unpriced,
    }


def _action_fields(node: ActionNode, depth: int, content: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "action_id": node.action_id,
        "parent_action_id": node.parent_id,
        "depth": depth,
        "trace_id": node.trace_id,
        "span_id": node.span_id,
        "run_id": node.run_id,
        "resumes_run_id": node.resumes,
        "conversation_id": node.conversation_id,
        "kind": f"{node.namespace}.{node.operation}",
        "name": node.name,
        "agent": node.agent,
        "attempt": node.attempt,
        "step": node.step,
        "outcome": node.outcome,
        "outcome_reason": node.reason,
        "error": node.error,
        "finished": node.finished,
        "started": node.start / 1e9,
        "duration": node.duration,
        "input_tokens": node.input_tokens,
        "output_tokens": node.output_tokens,
        "cost_usd": node.cost,
    }
    if content:
        fields |= {"content": node.content, "error_messages": node.messages}
    return fields

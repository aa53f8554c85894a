"""`actionspan report`: a record as one HTML page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

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
from actionspan.cli._report_data import Facts, page_data
from actionspan.cli._runs import newest_runs, no_runs, one_run, run_or_conditions
from actionspan.cli._screen import Screen, fail, fail_nothing, print_json
from actionspan.cli._text import many, number

__all__ = ["report"]


@command
def report(
    directory: Directory,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the page.")] = Path(
        "report.html"
    ),
    run: Annotated[
        str | None, typer.Option(help="Only this run: any of its ids or its trace's, or the beginning of one.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many traces, the newest.")] = 200,
    agent_id: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    content: Annotated[bool, typer.Option("--content", help="Also the content that was recorded.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Runs, timelines, tokens, cost and durations of a record as one page that opens from disk, without a network.

    Only you can read the file. Without --content it has names, ids, numbers and outcomes, and no prompts, arguments,
    results or error texts. With conditions it has those runs in which some event satisfies all of them.

    [bold]Examples[/]

      actionspan report record -o report.html
      actionspan report record --since 24h --agent-id support --where outcome=error
      actionspan report record -o incident.html --run 4f1c2ab9 --content
    """
    from actionspan.report import render, write_private

    if output.is_dir():
        fail(f"--output {output} is a directory: name a file in it")
    if not output.parent.is_dir():
        fail(f"--output {output}: there is no directory {output.parent}")
    wanted = conditions(where, agent_id=agent_id, conversation=conversation, since=since, until=until)
    run_or_conditions(run, wanted)
    reader = open_reader(directory)
    facts = Facts()
    with watching(reader) as watch:
        if run is None:
            runs = newest_runs(reader, limit, watch, wanted, keep=facts.of(watch), content=content).roots
        else:
            runs = one_run(reader, run, facts.of(watch), content=content)
    if not runs:
        fail_nothing(no_runs(directory, run, wanted))
    data = page_data(
        runs, facts, source=os.fsencode(directory.resolve().name).decode(errors="replace"), content=content
    )
    written = write_private(output, render(data))
    actions = len(data["actions"])
    if as_json:
        print_json({"output": str(output), "runs": len(runs), "actions": actions, "bytes": written})
        return
    screen = Screen()
    screen.line(
        f"{many(len(runs), 'run')}, {many(actions, 'action')} in ",
        screen.text(output, "bold"),
        f" ({number(written)} bytes, readable by you only)",
    )

"""`actionspan report`: a record as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actionspan.cli._command import Directory, JsonFlag, command, open_reader
from actionspan.cli._progress import watching
from actionspan.cli._report_data import Facts, page_data
from actionspan.cli._runs import newest_runs, one_run
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
    content: Annotated[bool, typer.Option("--content", help="Also the content that was recorded.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Runs, timelines, tokens, cost and durations of a record as one page that opens from disk, without a network.

    Only you can read the file. Without --content it has names, ids, numbers and outcomes, and no prompts, arguments,
    results or error texts.

    [bold]Examples[/]

      actionspan report record -o report.html
      actionspan report record -o incident.html --run 4f1c2ab9 --content
    """
    from actionspan.report import render, write_private

    if output.is_dir():
        fail(f"--output {output} is a directory: name a file in it")
    if not output.parent.is_dir():
        fail(f"--output {output}: there is no directory {output.parent}")
    reader = open_reader(directory)
    facts = Facts()
    with watching(reader) as watch:
        if run is None:
            runs = newest_runs(reader, limit, facts.of(watch), content=content).roots
        else:
            runs = one_run(reader, run, facts.of(watch), content=content)
    if not runs:
        fail_nothing(f"no actions in {directory}" if run is None else f"no run {run} in {directory}")
    data = page_data(runs, facts, source=directory.resolve().name, content=content)
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

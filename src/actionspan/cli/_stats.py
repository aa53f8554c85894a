"""`actionspan stats`: counts, durations, tokens and cost of a record."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from rich.text import Text

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
from actionspan.cli._screen import OUTCOME_STYLES, Screen, fail_nothing, print_json
from actionspan.cli._summary import Group, Summary
from actionspan.cli._table import Column, print_table
from actionspan.cli._text import dollars, many, number, seconds, short_number

__all__ = ["stats"]

_WIDEST: Final = 48
"""Columns for a name, so that a long one does not push the numbers out."""


@command
def stats(
    directory: Directory,
    agent_id: AgentOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    where: WhereOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Counts, durations, tokens and cost, by agent, model, tool and outcome; percentiles are within 1 %.

    An agent's tokens and cost are those of its own model requests, not of the agents it asked. With conditions only
    the actions count that ended in an event that satisfies all of them.

    [bold]Examples[/]

      actionspan stats record
      actionspan stats record --since 24h --agent-id support
      actionspan stats record --json | jq '.tools'
    """
    wanted = conditions(where, agent_id=agent_id, conversation=conversation, since=since, until=until)
    reader = open_reader(directory)
    summary = Summary()
    with watching(reader) as watch:
        for event in wanted.events(reader, watch, finished=True):
            summary.add(event)
    if summary.last is None:
        found = f"no finished action in {directory}"
        fail_nothing(f"{found} satisfies that" if wanted else found)
    if as_json:
        print_json(_as_json(summary))
    else:
        _print(Screen(), summary)


def _print(screen: Screen, summary: Summary) -> None:
    total = summary.all()
    words = [many(total.count, "action"), f"{number(total.failed)} failed"]
    if total.input_tokens is not None or total.output_tokens is not None:
        words += [f"{number(total.input_tokens) or '?'} tokens in", f"{number(total.output_tokens) or '?'} out"]
    words += [_cost(total)] if total.cost is not None else []
    screen.line(Text(f" {screen.symbols.dot} ".join(words), "bold"))
    screen.line(Text(f"{_clock(summary.first)} to {_clock(summary.last)}", "dim"))
    screen.gap()
    _print_groups(screen, summary, priced=total.cost is not None)


def _print_groups(screen: Screen, summary: Summary, *, priced: bool) -> None:
    heads = ("count", "failed", "p50", "p95", "p99", "tokens in", "out", *(("cost",) if priced else ()))
    rows: list[list[Text | str]] = []
    for sort, groups in summary.groups().items():
        rows.append([Text(sort, "bold")])
        for name, group in sorted(groups.items(), key=lambda item: -item[1].count):
            style = OUTCOME_STYLES.get(name.partition(":")[0], "") if sort == "outcomes" else ""
            rows.append([Text.assemble("  ", screen.name(name, style)), *_cells(group, priced)])
    print_table(screen, [Column("", "left", _WIDEST), *map(Column, heads)], rows)


def _cells(group: Group, priced: bool) -> list[str | Text]:
    cells: list[str | Text] = [number(group.count), Text(number(group.failed), "red" if group.failed else "dim")]
    cells += [seconds(group.durations.quantile(share)) for share in (0.5, 0.95, 0.99)]
    cells += [short_number(tokens) for tokens in (group.input_tokens, group.output_tokens)]
    return [*cells, _cost(group)] if priced else cells


def _cost(group: Group) -> str:
    return dollars(group.cost, atleast=group.unpriced)


def _clock(timestamp: float | None) -> str:
    return "" if timestamp is None else datetime.fromtimestamp(timestamp).strftime("%Y-%m-%d %H:%M:%S")


def _as_json(summary: Summary) -> dict[str, Any]:
    groups = {
        sort.replace(" ", "_"): {name: group.fields() for name, group in found.items()}
        for sort, found in summary.groups().items()
    }
    return {"first": summary.first, "last": summary.last, "all": summary.all().fields(), **groups}

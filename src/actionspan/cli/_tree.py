"""A run as a tree: one line an action, with its outcome, how long it took and when, its tokens and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from actionspan.cli._actions import ActionNode, Totals
from actionspan.cli._content import content_lines
from actionspan.cli._screen import OUTCOME_STYLES, Screen
from actionspan.cli._text import dollars, seconds, short_number
from actionspan.vocabulary import ActionNamespace, ActionOperation, ActionOutcome

__all__ = ["label", "mark", "print_tree"]

_BAR_STYLES: Final = {
    ActionNamespace.AGENT: "blue",
    ActionNamespace.MODEL: "magenta",
    ActionNamespace.TOOL: "cyan",
    ActionNamespace.OUTPUT: "green",
    ActionNamespace.MCP: "bright_cyan",
    ActionNamespace.CONTROL: "yellow",
}
_FAILED: Final = (ActionOutcome.ERROR, ActionOutcome.TIMEOUT)
_TOOK_WIDTH: Final = 7
_COUNT_WIDTHS: Final = (10, 6)
_COST_WIDTH: Final = 10
_GAPS: Final = 3
_LABEL_WIDTH: Final = 48
"""What names and reasons need; bars get what is left, within their bounds or not at all, then the labels the rest."""
_LABEL_BOUNDS: Final = (16, 64)
_BAR_BOUNDS: Final = (8, 40)
_NAME_WIDTH: Final = 20
"""Columns that are kept for the name: levels so deep that they would take them are not drawn deeper."""


@dataclass(frozen=True, slots=True)
class _Line:
    node: ActionNode
    guide: str
    """What is drawn left of the action."""
    below: str
    """What is drawn left of anything that belongs to it."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The widths of the columns, and the time that the bars are drawn in."""

    label: int
    bar: int
    cost: bool
    start: int
    span: int

    @classmethod
    def fitting(cls, screen: Screen, top: ActionNode, totals: Totals) -> _Layout:
        width = screen.console.width
        cost = totals.cost is not None
        room = width - _TOOK_WIDTH - sum(_COUNT_WIDTHS) - (_COST_WIDTH if cost else 0) - _GAPS
        bar = _within(_BAR_BOUNDS, room - _LABEL_WIDTH) if room >= _LABEL_BOUNDS[0] + _BAR_BOUNDS[0] else 0
        label_width = _within(_LABEL_BOUNDS, room - bar)
        return cls(label_width, bar, cost, top.start, max(1, totals.last - top.start))


def _within(bounds: tuple[int, int], value: int) -> int:
    least, most = bounds
    return min(most, max(least, value))


def print_tree(screen: Screen, top: ActionNode, *, full: bool = False, content: bool = False) -> None:
    """Print `top` and all below it. `full`: also the validations that nothing came of but the call itself."""
    totals = Totals.of(top)
    layout = _Layout.fitting(screen, top, totals)
    lines = list(_lines(screen, top, layout.label - _NAME_WIDTH, full))
    screen.line(_heads(layout))
    for line in lines:
        screen.line(_row(screen, layout, line))
        if content:
            for said in content_lines(screen, line.node):
                trunk = screen.symbols.trunk if line.node.children else " " * len(screen.symbols.trunk)
                screen.line(Text(line.below + trunk, "dim"), said)
    hidden = totals.actions - sum(line.node.recorded for line in lines)
    if hidden:
        words = "validation that passed is" if hidden == 1 else "validations that passed are"
        screen.line(Text(f"{hidden} {words} not shown (--full)", "dim"))


def mark(screen: Screen, node: ActionNode) -> Text:
    """The sign of the outcome."""
    if not node.finished:
        return Text(screen.symbols.unfinished, "bold yellow")
    outcome = node.outcome or ""
    return Text(screen.symbols.outcomes.get(outcome, " "), OUTCOME_STYLES.get(outcome, ""))


def label(screen: Screen, node: ActionNode) -> Text:
    """What was done, in the words of the application."""
    if node.is_run:
        return Text("agent", "bold") if node.name is None else screen.name(node.name, "bold")
    if node.namespace == ActionNamespace.TOOL and node.operation == ActionOperation.EXECUTE:
        return Text("a tool that is not declared", "italic") if node.name is None else screen.name(node.name)
    if not node.recorded and not node.namespace:
        return Text("an action", "italic")
    verb = node.operation
    if node.namespace == ActionNamespace.MODEL and verb == ActionOperation.REQUEST:
        verb = "chat"
    elif node.namespace == ActionNamespace.OUTPUT:
        verb = f"{verb} output"
    elif node.namespace == ActionNamespace.MCP:
        verb = verb.replace(".", "/")
    elif node.namespace == ActionNamespace.CONTROL:
        verb = f"control.{verb}"
    words = screen.text(verb, "dim")
    return words if node.name is None else Text.assemble(words, " ", screen.name(node.name))


def _lines(screen: Screen, top: ActionNode, room: int, full: bool) -> Iterator[_Line]:
    symbols = screen.symbols
    waiting = [(top, "", "")]
    while waiting:
        node, guide, below = waiting.pop()
        yield _Line(node, guide, below)
        children = node.children if full else [child for child in node.children if not _implied(child)]
        deeper: list[tuple[ActionNode, str, str]] = []
        trunk = below if len(below) < room else below[: -len(symbols.trunk)]
        for child in children:
            is_last = child is children[-1]
            deeper.append(
                (
                    child,
                    trunk + (symbols.last if is_last else symbols.branch),
                    trunk + ("   " if is_last else symbols.trunk),
                )
            )
        waiting += reversed(deeper)


def _implied(node: ActionNode) -> bool:
    """Whether this is the validation of a call whose execution is shown beside it."""
    return (
        (node.namespace, node.operation, node.outcome)
        == (ActionNamespace.TOOL, ActionOperation.VALIDATE, ActionOutcome.SUCCESS)
        and not node.children
        and node.parent is not None
        and any(
            other.operation == ActionOperation.EXECUTE and other.call == node.call and other.name == node.name
            for other in node.parent.children
        )
    )


def _label(screen: Screen, line: _Line) -> Text:
    node = line.node
    text = Text.assemble(Text(line.guide, "dim"), mark(screen, node), " ", label(screen, node))
    style = OUTCOME_STYLES.get(node.outcome or "", "")
    for note in _notes(node):
        text.append(f" {screen.symbols.dot} ", "dim").append_text(screen.text(note, style))
    if node.attempt > 1:
        text.append(f" {screen.symbols.dot} attempt {node.attempt}", "dim")
    return text


def _notes(node: ActionNode) -> Iterator[str]:
    """Why it ended as it did, in as few words as tell it."""
    if not node.recorded:
        yield "not in the record"
    elif not node.finished:
        yield "unfinished"
    elif node.reason:
        yield node.reason
    elif node.outcome in _FAILED and node.error:
        yield node.error.rpartition(".")[2] or node.error
    elif node.outcome not in (None, ActionOutcome.SUCCESS):
        yield str(node.outcome)


def _heads(layout: _Layout) -> Text:
    cost = f"{'cost':>{_COST_WIDTH}}" if layout.cost else ""
    given, made = _COUNT_WIDTHS
    tokens = f"{'tokens in':>{given}}{'out':>{made}}"
    columns = f"{'':{layout.label}} {'took':>{_TOOK_WIDTH}}  {'':{layout.bar}}{tokens}"
    return Text(columns + cost, "dim")


def _row(screen: Screen, layout: _Layout, line: _Line) -> Text:
    node, text = line.node, _label(screen, line)
    text.truncate(layout.label, overflow=screen.symbols.cut, pad=True)
    spent = Totals.of(node) if node.is_run else None
    tokens = (spent.input_tokens, spent.output_tokens) if spent else (node.input_tokens, node.output_tokens)
    cost = spent.cost if spent else node.cost
    row = Text.assemble(text, f" {seconds(node.duration):>{_TOOK_WIDTH}}  ", _bar(screen, layout, node))
    row.append(
        "".join(f"{short_number(count):>{width}}" for count, width in zip(tokens, _COUNT_WIDTHS, strict=True)),
        "bold" if spent else "",
    )
    if layout.cost:
        row.append(f"{dollars(cost, atleast=spent is not None and spent.unpriced):>{_COST_WIDTH}}")
    row.rstrip()
    return row


def _bar(screen: Screen, layout: _Layout, node: ActionNode) -> Text:
    """When it happened within the tree's time, to half a cell; up to the end of what is known when unfinished."""
    halves = 2 * layout.bar
    if not halves:
        return Text()
    end = node.end if node.end is not None else layout.start + layout.span
    first = min(halves - 1, max(0, (node.start - layout.start) * halves // layout.span))
    last = min(halves, max(first + 1, -((layout.start - end) * halves // layout.span)))
    cells = screen.symbols.bar
    drawn = "".join(cells[(first <= cell < last) + 2 * (first <= cell + 1 < last)] for cell in range(0, halves, 2))
    style = "red" if node.outcome in _FAILED else _BAR_STYLES.get(node.namespace, "white")
    return Text(drawn, style if node.finished else "yellow")

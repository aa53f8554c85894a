"""The figures as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.measure import Costs
from benchmarks.recorder import Record
from benchmarks.scenarios import SCENARIOS
from benchmarks.sides import SIDES
from benchmarks.span import FLOOR
from benchmarks.targets import Verdict

__all__ = [
    "as_json",
    "print_costs",
    "print_imports",
    "print_record",
    "print_span",
    "print_stages",
    "print_table",
    "print_verdicts",
]

Row = Sequence[str]


def print_table(title: str, heads: Row, rows: Iterable[Row]) -> None:
    """With rich where it is installed and there is a terminal to draw on, else as Markdown."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _print_plain(title, heads, rows)
        return
    if not sys.stdout.isatty():
        _print_plain(title, heads, rows)
        return
    table = Table(title=title, title_justify="left")
    for position, head in enumerate(heads):
        table.add_column(head, justify="right" if position else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _print_plain(title: str, heads: Row, rows: Iterable[Row]) -> None:
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'|'.join([' --- ', *[' ---: '] * (len(heads) - 1)])}|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_costs(costs: Costs, scenarios: Sequence[str], sides: Sequence[str]) -> None:
    """One table for each scenario."""
    heads = ("side", "ms a run", "over none, µs", "95 %", "spans", "µs a span", "x floor", "x native", "kept", "peak")
    for scenario in scenarios:
        rows = [_cost_row(costs, scenario, side) for side in sides]
        print_table(f"{scenario}: {SCENARIOS[scenario].title}", heads, rows)


def _cost_row(costs: Costs, scenario: str, side: str) -> Row:
    cost, overhead = costs.of(scenario, side), costs.overhead(scenario, side)
    low, high = costs.interval(scenario, side)
    native = "native_content" if side.endswith("content") else "native"
    return (
        SIDES[side].title,
        f"{cost.median / 1e6:.2f}",
        "" if side == "none" else f"{overhead / 1e3:,.0f}",
        "" if side == "none" else f"{low / 1e3:,.0f} to {high / 1e3:,.0f}",
        f"{cost.spans:g}",
        f"{overhead / cost.spans / 1e3:.0f}" if cost.spans else "",
        _times(costs, scenario, side, "floor"),
        _times(costs, scenario, side, native),
        "" if cost.memory is None else _kib(cost.memory["kept"]),
        "" if cost.memory is None else _kib(cost.memory["peak"]),
    )


def _times(costs: Costs, scenario: str, side: str, to: str) -> str:
    if side == "none" or not costs.has(scenario, to) or (base := costs.overhead(scenario, to)) <= 0:
        return ""
    return f"{costs.overhead(scenario, side) / base:.2f}"


def _kib(count: int) -> str:
    return f"{count / 1024:,.0f} KiB"


def print_span(found: dict[str, float]) -> None:
    """Where the cost of one action goes."""
    rows = [(name, f"{spent / 1e3:.1f}", f"{spent / found[FLOOR]:.2f}") for name, spent in found.items()]
    print_table("One tool call's span", ("", "µs", "x floor"), rows)


def print_stages(found: dict[str, dict[str, dict[str, float]]]) -> None:
    """What each stage of ours takes in a run."""
    for scenario, by_stage in found.items():
        whole = sum(stage["us"] for stage in by_stage.values())
        rows = [
            (name, f"{stage['us']:.0f}", f"{stage['count']:g}", f"{stage['us'] / whole:.0%}")
            for name, stage in by_stage.items()
        ]
        print_table(f"{scenario}: stages of ours, {whole:,.0f} µs a run", ("stage", "µs", "times", "share"), rows)


def print_record(record: Record) -> None:
    """Writing and reading."""
    rows: list[Row] = []
    for name, found in (("1 KB event", record.writing["latency"]), ("tool call", record.writing["latency_action"])):
        ratio = found["emit"] / found["write"]
        rows.append(
            (name, f"{found['bytes']:g}", f"{found['emit'] / 1e3:.1f}", f"{found['write'] / 1e3:.1f}", f"{ratio:.1f}")
        )
    print_table("One emit, durability write", ("event", "bytes", "emit, µs", "os.write, µs", "x"), rows)
    sustained = record.writing["sustained"]
    base = sustained["encoded and buffered"]["per_second"]
    print_table(
        "Sustained recording, one process",
        ("durability", "events/s of processor time", "events/s by the clock", "x buffered"),
        [
            (name, f"{rate['per_second']:,.0f}", f"{rate['by_clock']:,.0f}", f"{rate['per_second'] / base:.2f}")
            for name, rate in sustained.items()
        ],
    )
    print_table(
        f"Reading {record.size / 1e6:,.0f} MB, {record.events:,} events",
        ("way", "processor s", "clock s", "MB/s", "events/s", "MiB beyond start", "found"),
        [_reading_row(record, name, found) for name, found in record.reading.items()],
    )


def _reading_row(record: Record, name: str, found: dict[str, float]) -> Row:
    memory = f"{found['memory']:.0f}" if "memory" in found else ""
    rate = f"{record.size / 1e6 / found['cpu']:,.0f}"
    events = f"{record.events / found['cpu']:,.0f}"
    return name, f"{found['cpu']:.2f}", f"{found['wall']:.2f}", rate, events, memory, f"{found['found']:,.0f}"


def print_imports(imports: dict[str, dict[str, Any]]) -> None:
    """The import times."""
    rows = [
        (name, *(f"{found[part] * 1e3:.0f}" for part in ("opentelemetry", "ours"))) for name, found in imports.items()
    ]
    print_table("Import, processor time", ("module", "OpenTelemetry's modules, ms", "beyond them, ms"), rows)


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Targets, what was measured, and whether that meets them."""
    if not verdicts:
        return
    rows = [(verdict.target, verdict.measured, verdict.found) for verdict in verdicts]
    print_table("Targets", ("target", "measured", ""), rows)


def as_json(costs: Costs, scenarios: Sequence[str], sides: Sequence[str]) -> dict[str, Any]:
    """Every figure of every scenario and side, in nanoseconds and bytes."""
    return {
        scenario: {
            side: {
                "median_ns": costs.of(scenario, side).median,
                "overhead_ns": costs.overhead(scenario, side),
                "interval_ns": costs.interval(scenario, side),
                "spans": costs.of(scenario, side).spans,
                "memory": costs.of(scenario, side).memory,
                "times_ns": costs.of(scenario, side).times,
            }
            for side in sides
        }
        for scenario in scenarios
    }

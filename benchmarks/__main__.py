"""`python -m benchmarks`: measure, print, and write JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.imports import import_seconds
from benchmarks.machine import describe
from benchmarks.measure import measure
from benchmarks.recorder import measure_recorder
from benchmarks.scenarios import SCENARIOS
from benchmarks.sides import SIDES
from benchmarks.span import one_span
from benchmarks.stages import stages
from benchmarks.targets import Verdict, judge, settled

RECORDER: Final = "recorder"
IMPORT: Final = "import"
SPAN: Final = "span"
STAGES: Final = "stages"
MODULES: Final = ("actionspan", "actionspan.instrumentor")
"""What an application imports, and what OpenTelemetry's loader does."""
_RESULTS: Final = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; 0 also when targets are missed, which the table says."""
    options = _parser().parse_args(arguments)
    chosen = options.scenario or [*SCENARIOS, SPAN, STAGES, RECORDER, IMPORT]
    rounds, generations = options.rounds or (5 if options.quick else 15), 2 if options.quick else 4
    machine = describe()
    print(json.dumps(machine, indent=2))
    results: dict[str, Any] = {"machine": machine, "rounds": rounds * generations}
    verdicts: list[Verdict] = []
    scenarios = [name for name in chosen if name in SCENARIOS]
    if scenarios:
        sides = ["none", *(name for name in options.side or SIDES if name != "none" and SIDES[name].available)]
        large = [name for name in scenarios if name.startswith("D")]
        costs = measure(scenarios, sides, rounds=rounds, generations=generations, with_memory=large, progress=_say)
        report.print_costs(costs, scenarios, sides)
        verdicts += judge(costs)
        results["scenarios"] = report.as_json(costs, scenarios, sides)
    if SPAN in chosen:
        results["span"] = one_span(100 if options.quick else 400)
        report.print_span(results["span"])
    if STAGES in chosen:
        results["stages"] = {scenario: stages(scenario, 50 if options.quick else 200) for scenario in ("A", "C")}
        report.print_stages(results["stages"])
    if RECORDER in chosen:
        record = measure_recorder(options.megabytes or (100 if options.quick else 500), 3 if options.quick else 5, _say)
        report.print_record(record)
        verdicts += record.verdicts()
        results["recorder"] = {
            "size": record.size,
            "events": record.events,
            **record.writing,
            "reading": record.reading,
        }
    if IMPORT in chosen:
        imports = {module: import_seconds(module, 5 if options.quick else 15) for module in MODULES}
        report.print_imports(imports)
        results["import"] = imports
        for module, found in imports.items():
            spent = f"{found['ours'] * 1e3:.0f} ms"
            verdicts.append(settled(f"import {module} ≤ 60 ms beyond OpenTelemetry's", spent, found["ours"] <= 0.06))
            said = "imported" if found["imports_pydantic_ai"] else "not imported"
            verdicts.append(settled(f"import {module} leaves Pydantic AI alone", said, said == "not imported"))
    report.print_verdicts(verdicts)
    results["targets"] = [{"target": v.target, "measured": v.measured, "found": v.found} for v in verdicts]
    _write(results, options.output)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--scenario", action="append", choices=[*SCENARIOS, SPAN, STAGES, RECORDER, IMPORT], help="only this; repeat"
    )
    parser.add_argument("--side", action="append", choices=list(SIDES), help="only this and none; repeat")
    parser.add_argument("--rounds", type=int, help="rounds in each set of processes (15, quick 5)")
    parser.add_argument("--megabytes", type=int, help="size of the record to read (500, quick 100)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and a smaller record")
    parser.add_argument("--output", type=Path, help="the JSON file (default: benchmarks/results/{date}.json)")
    return parser


def _say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def _write(results: dict[str, Any], output: Path | None) -> None:
    if output is None:
        date = results["machine"]["date"].replace(" UTC", "").replace(" ", "T").replace(":", "")
        output = _RESULTS / f"{date}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"\nwritten to {output}")


if __name__ == "__main__":
    sys.exit(main())

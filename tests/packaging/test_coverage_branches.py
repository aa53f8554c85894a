"""What `make coverage` says of branches alone, from the JSON that coverage itself writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "coverage_branches.py"


@pytest.mark.parametrize(
    ("covered", "branches", "code", "said"),
    [
        (950, 1000, 0, "branches alone: 950 of 1000, 95.0%"),
        (9499, 10000, 2, "branches alone: 9499 of 10000, 94.9%, which is less than 95%"),
        (0, 0, 0, "branches alone: 0 of 0, 100.0%"),
    ],
)
def test_it_fails_below_what_is_wanted(covered: int, branches: int, code: int, said: str):
    totals = {"covered_branches": covered, "num_branches": branches, "percent_covered": 99.0}
    done = subprocess.run(
        [sys.executable, SCRIPT], input=json.dumps({"totals": totals}), capture_output=True, text=True
    )
    assert (done.stdout, done.returncode, done.stderr) == (f"{said}\n", code, "")


def test_it_reads_what_coverage_writes(tmp_path: Path):
    pytest.importorskip("coverage")
    (tmp_path / "program.py").write_text("import sys\nif len(sys.argv) > 1:\n    print(1)\n")

    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

    def coverage(verb: str, *arguments: str) -> bytes:
        command = [sys.executable, "-m", "coverage", verb, "--data-file=data", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, check=True).stdout

    coverage("run", "--branch", "program.py")
    done = subprocess.run([sys.executable, SCRIPT], input=coverage("json", "-o", "-"), capture_output=True)
    assert (done.stdout, done.returncode) == (b"branches alone: 1 of 2, 50.0%, which is less than 95%\n", 2)

"""The coverage of branches by themselves, which `coverage report` only gives together with that of statements.

Reads what `coverage json` writes from its standard input, prints the figure, and fails below `FAIL_UNDER`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

FAIL_UNDER = 95.0
"""In percent, as `fail_under` of `[tool.coverage.report]` is of statements and branches together."""


def judged(totals: Mapping[str, int]) -> tuple[str, bool]:
    """The figure as a line, and whether it is enough."""
    covered, branches = totals["covered_branches"], totals["num_branches"]
    percent = 100 * covered / branches if branches else 100.0
    enough = percent >= FAIL_UNDER
    wanted = "" if enough else f", which is less than {FAIL_UNDER:.0f}%"
    # Cut, not rounded: what fails is not to look as if it were enough.
    return f"branches alone: {covered} of {branches}, {int(percent * 10) / 10}%{wanted}", enough


if __name__ == "__main__":
    line, enough = judged(json.load(sys.stdin)["totals"])
    print(line)
    sys.exit(0 if enough else 2)

"""A command line to call, and records to call it on."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import Result
from typer.testing import CliRunner

from actionspan import JsonlRecorder
from actionspan.cli._app import app

START = 1_700_000_000_000_000_000
ENDINGS = {"outcome_reason", "error", "usage", "events"}
TRACE = "0123456789abcdef0123456789abcdef"

Call = Callable[..., Result]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command line as a pipe would: `call("show", directory)`."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    runner = CliRunner()
    return lambda *arguments, **kwargs: runner.invoke(app, [str(argument) for argument in arguments], **kwargs)


def shown(text: str) -> str:
    """`text` without the blanks at the ends of its lines."""
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


class Record:
    """A record made by hand: `record.action(...)` adds the events of one action."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._recorder = JsonlRecorder(directory)
        self._numbers = itertools.count(1)

    def action(
        self,
        kind: str,
        name: str | None = None,
        *,
        parent: str | None = None,
        at: float = 0.0,
        took: float | None = 0.1,
        outcome: str = "success",
        trace: str = TRACE,
        starts: bool = True,
        attributes: dict[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Record an action that began at second `at`; with `took=None` one that never ended. Its id.

        Those of `fields` that tell how it ended are only on its terminal.
        """
        number = next(self._numbers)
        namespace, _, operation = kind.partition(".")
        action_id = str(UUID(int=number))
        start = START + round(at * 1e9)
        common = {
            "trace_id": trace,
            "span_id": f"{number:016x}",
            "action_id": action_id,
            "call_id": action_id,
            "namespace": namespace,
            "operation": operation,
            "start_time_unix_nano": start,
            "span_name": kind,
            "span_kind": "INTERNAL",
            "attributes": attributes or {},
            "agent_id": "helper",
        }
        common |= {} if parent is None else {"parent_action_id": parent}
        common |= {} if name is None else {"name": name}
        common |= {field: value for field, value in fields.items() if field not in ENDINGS}
        if starts:
            self._recorder.emit({**common, "kind": f"{kind}.start", "phase": "start", "time_unix_nano": start})
        if took is not None:
            phase = "error" if outcome == "error" else "end"
            end = start + round(took * 1e9)
            self._recorder.emit(
                {
                    **common,
                    "kind": f"{kind}.{phase}",
                    "phase": phase,
                    "time_unix_nano": end,
                    "end_time_unix_nano": end,
                    "duration": took,
                    "outcome": outcome,
                }
                | {field: value for field, value in fields.items() if field in ENDINGS}
            )
        return action_id

    def close(self) -> Path:
        """Close it; its directory."""
        self._recorder.close()
        return self.directory


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path / "record")

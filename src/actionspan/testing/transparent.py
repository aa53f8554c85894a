"""A pytest plugin that runs somebody's test suite with every action traced in full, to see that nothing changes.

`pytest -p actionspan.testing.transparent --actionspan`. Without the option it does nothing. Each test should come out
as it does without it. The run ends with what was seen, and with exit status 70 when something of ours went wrong.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from actionspan.testing._watching import NotWatching, Watch, Watched

__all__ = ["FAULTY", "Transparency"]

FAULTY: Final = 70
"""Exit status of a run in which something of ours went wrong, whatever came of the tests."""

_SHOWN: Final = 20
_OUTPUT: Final = "actionspan"
"""Where a worker of pytest-xdist leaves what it saw."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; nothing happens without the first."""
    group = parser.getgroup("actionspan", "run with every Pydantic AI agent traced")
    group.addoption("--actionspan", action="store_true", help="trace every agent, with all content, and record it")
    group.addoption("--actionspan-record", metavar="DIR", help="keep the record in DIR, for `actionspan show`")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    if config.getoption("actionspan"):
        config.pluginmanager.register(Transparency(config), "actionspan-transparent")


class Transparency:
    """Watches one process of a test run; the controller of pytest-xdist adds up what its workers saw."""

    def __init__(self, config: pytest.Config) -> None:
        record: str | None = config.getoption("actionspan_record")
        try:
            self._watch = Watch(None if record is None else Path(record))
        except (NotWatching, OSError, ValueError) as error:
            raise pytest.UsageError(f"--actionspan: {error}") from error
        self._seen = Watched()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool | None, bool | None]:
        """Note what is being run."""
        if not self._watch.interrupted:
            self._watch.place = item.nodeid
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker is done."""
        output = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if output is None:
            self._seen.faults.append(f"{node.gateway.id} ended without telling what it saw")
        else:
            self._seen.add(Watched(**output))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop, and let the exit status tell of what went wrong."""
        self._seen.add(self._watch.stop())
        output = _worker(session.config)
        if output is not None:
            output[_OUTPUT] = asdict(self._seen)
        elif self._seen.faults:
            session.exitstatus = FAULTY

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was seen."""
        seen = self._seen
        terminalreporter.section("actionspan")
        terminalreporter.line(
            f"{seen.spans} spans ({seen.exported_bytes} bytes as OTLP), {seen.actions} actions recorded "
            f"({seen.recorded_bytes} bytes), {len(seen.unfinished)} unfinished, {len(seen.faults)} failures of ours"
        )
        for title, lines in (("unfinished", seen.unfinished), ("failure", seen.faults)):
            for line in lines[:_SHOWN]:
                terminalreporter.line(f"{title}: {line}", red=title == "failure")
            if len(lines) > _SHOWN:
                terminalreporter.line(f"{title}: and {len(lines) - _SHOWN} more")


def _worker(config: pytest.Config) -> dict[str, Any] | None:
    """What a worker of pytest-xdist tells its controller; None in any other process."""
    return getattr(config, "workeroutput", None)

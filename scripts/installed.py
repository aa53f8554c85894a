"""What an installed wheel must have and do; run by the environment's own Python, away from this checkout.

`python -I installed.py` for the wheel alone, `python -I installed.py with-extras` with `[instruments,cli]`.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path

ENTRY_POINTS = {
    ("opentelemetry_instrumentor", "pydantic_ai"): "PydanticAIInstrumentor",
    ("opentelemetry_traces_exporter", "jsonl"): "JsonlSpanExporter",
}
WITHOUT_PYDANTIC_AI = ("backends", "control", "envelope", "redact")
COMMAND = Path(sys.executable).parent / "actionspan"


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True)


def in_any_case() -> None:
    import actionspan

    assert "site-packages" in str(actionspan.__file__), f"imported from {actionspan.__file__}"
    assert actionspan.__version__ == version("actionspan")
    assert files("actionspan").joinpath("py.typed").is_file(), "no py.typed"
    for name in actionspan.__all__:
        getattr(actionspan, name)
    for (group, name), expected in ENTRY_POINTS.items():
        (found,) = [point for point in entry_points(group=group) if point.name == name]
        assert found.load() is getattr(actionspan, expected), f"{group}: {name}"


def alone() -> None:
    for name in WITHOUT_PYDANTIC_AI:
        import_module(f"actionspan.{name}")
    assert "pydantic_ai" not in sys.modules
    done = command("--help")
    assert done.returncode == 2, done
    assert "pip install 'actionspan[cli]'" in done.stderr, done.stderr


def with_extras() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from actionspan.testing import capture

    done = command("--help")
    assert done.returncode == 0, done.stderr
    assert "query" in done.stdout, done.stdout
    with capture() as seen:
        Agent(TestModel(), name="support").run_sync("hi")
    assert seen.tree() == "invoke_agent support [success]\n  chat test [success]", seen.tree()


if __name__ == "__main__":
    in_any_case()
    with_extras() if sys.argv[1:] == ["with-extras"] else alone()

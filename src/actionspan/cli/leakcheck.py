"""`actionspan leakcheck`: an agent run offline with canaries in it, and what each category would export."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from actionspan.cli._command import JsonFlag, command
from actionspan.cli._screen import USAGE, Screen, fail, print_json
from actionspan.policy import CATEGORIES, ActionPolicy, AuditMode
from actionspan.settings import read_settings
from actionspan.telemetry import names

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent

    from actionspan.cli._canary_runs import Carried, Harness

__all__ = ["leakcheck"]

SECRET_ARGUMENT: Final = "secret argument"
"""What no category admits: an argument that its tool declares secret."""
LEAKS: Final = 1
"""Exit code: something leaves that its category does not admit."""

_ERROR_TEXT: Final = frozenset({names.EXCEPTION_MESSAGE, names.EXCEPTION_STACKTRACE, names.DENIAL, "status"})
ADMITS: Final = {
    "model_requests": frozenset(
        {
            names.INPUT_MESSAGES,
            names.SYSTEM_INSTRUCTIONS,
            names.TOOL_DEFINITIONS,
            names.METADATA,
            names.AGENT_DESCRIPTION,
            names.REQUEST,
            names.CONTROL_DIRECTIVE,
        }
    ),
    "model_responses": frozenset(
        {
            names.OUTPUT_MESSAGES,
            names.INVENTED_TOOL_NAME,
            names.ENVELOPE_ERROR_CODE,
            names.ENVELOPE_ERROR_MESSAGE,
        }
    ),
    "tool_arguments": frozenset({names.TOOL_CALL_ARGUMENTS}),
    "tool_results": frozenset({names.TOOL_CALL_RESULT}),
    "mcp_requests": frozenset({names.REQUEST, names.MCP_RESOURCE_URI}),
    "mcp_responses": frozenset({names.RESPONSE}),
    "dispatch_requests": frozenset({names.REQUEST}),
    "dispatch_responses": frozenset({names.RESPONSE}),
    "custom_content": frozenset({names.REQUEST, names.RESPONSE, names.CONTROL_REASON, names.CONTROL_LABEL}),
    "error_messages": _ERROR_TEXT,
}
"""The places that each category opens; docs/content.md has the same table in prose."""


@command
def leakcheck(
    agent: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="Where the agent is, such as shop.agents:support.")
    ],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask it.")],
    as_json: JsonFlag = False,
    no_tools: Annotated[
        bool, typer.Option("--no-tools", help="Answer in the place of the tools instead of calling them.")
    ] = False,
    deps: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="The run's dependencies: an object, or a function that makes them."),
    ] = None,
) -> None:
    """Run your agent offline with canaries in it, and say what each category of content would export.

    The model is replaced by Pydantic AI's TestModel, and no model is asked. [bold]The agent's tools are really
    called[/], once each, with arguments that are made up; --no-tools answers in their place. An MCP server that the
    agent uses is connected to either way.

    Canaries go into the prompt, instructions, metadata, answers, arguments, results and errors; the agent's own
    prompts and descriptions are looked for as well. Each category is switched on alone, whatever the environment says;
    what it says is shown beside. Exit code 1: something leaves that its category does not admit, or an argument that
    a tool declares secret does. Exit code 2: the agent is not there, or cannot be run.

    [bold]Examples[/]

      actionspan leakcheck shop.agents:support "Where is my order?"
      actionspan leakcheck shop.agents:support "Where is my order?" --no-tools --json | jq '.leaks'
    """
    _without_model_requests()
    sys.path.insert(0, os.getcwd())
    checked = _agent(agent)
    here = _effective()
    harness = _harness(checked, prompt, deps, call_tools=not no_tools)
    without = _found(harness, None)
    found = {category: _found(harness, category) for category in CATEGORIES}
    leaks = {category: _leaks(category, carried) for category, carried in (("metadata", without), *found.items())}
    leaks = {category: carried for category, carried in leaks.items() if carried}
    if as_json:
        print_json(_as_json(agent, harness, here, found, leaks))
    else:
        _print(Screen(), agent, harness, here, found, leaks)
    if leaks:
        raise typer.Exit(LEAKS)


# --- the agent ---


def _without_model_requests() -> None:
    try:
        from pydantic_ai import models
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise
        fail("leakcheck needs Pydantic AI: pip install 'actionspan[instruments]'", USAGE)
    models.ALLOW_MODEL_REQUESTS = False


def _agent(path: str) -> AbstractAgent[Any, Any]:
    from pydantic_ai.agent import AbstractAgent

    found = _object(path)
    if not isinstance(found, AbstractAgent):
        fail(f"{path} is no agent but of type {type(found).__name__}", USAGE)
    return found  # pyright: ignore[reportUnknownVariableType] # of whatever dependencies and output


def _object(path: str) -> Any:
    """What `module:name` names; an exit that says what is wrong with it."""
    module, _, name = path.partition(":")
    if not module or not name:
        fail(f"{path!r} is not of the form module:name", USAGE)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            fail(f"{module} cannot be imported: {error}", USAGE)
        fail(f"there is no module {error.name!r} here or among what is installed", USAGE)
    except Exception as error:  # noqa: BLE001 # importing is the application's code
        fail(f"{module} cannot be imported: {type(error).__name__}: {error}", USAGE)
    for part in name.split("."):
        if not hasattr(found, part):
            fail(f"{module} has no {name!r}; it has {_what_it_has(found)}", USAGE)
        found = getattr(found, part)
    return found


def _what_it_has(owner: object) -> str:
    from pydantic_ai.agent import AbstractAgent

    agents = [name for name in dir(owner) if isinstance(getattr(owner, name, None), AbstractAgent)]
    return f"these agents: {', '.join(agents)}" if agents else "no agent"


def _effective() -> tuple[AuditMode, ActionPolicy]:
    """The ceiling and policy that hold here: what the module configured when it was imported, else the environment."""
    from actionspan.instrumentor import PydanticAIInstrumentor  # as dear as all else this command line imports
    from actionspan.instrumentor._configuration import resolve

    instrumentor = PydanticAIInstrumentor()
    pipeline = instrumentor.pipeline()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()  # what is checked is traced by the check alone
    if pipeline is not None:
        return (AuditMode.CONTENT if pipeline.policy.any_content else AuditMode.METADATA), pipeline.policy
    configuration = resolve(read_settings(), {})
    return configuration.mode, configuration.policy


def _harness(agent: AbstractAgent[Any, Any], prompt: str, deps: str | None, *, call_tools: bool) -> Harness:
    from actionspan.cli._canary_runs import Harness

    made = None if deps is None else _object(deps)
    make: Callable[[], Any] = made if callable(made) else lambda: made
    return Harness(agent, prompt, make, call_tools)


def _found(harness: Harness, category: str | None) -> list[Carried]:
    try:
        return harness.found_with(ActionPolicy.of([] if category is None else [category]))
    except Exception as error:  # noqa: BLE001 # the application's code, which may fail in any way
        fail(f"the agent cannot be run: {type(error).__name__}: {error}", USAGE)


# --- the answer ---


def _leaks(category: str, found: list[Carried]) -> list[Carried]:
    admitted = ADMITS.get(category, frozenset[str]())
    return [carried for carried in found if carried.place not in admitted or SECRET_ARGUMENT in carried.carries]


def _as_json(
    path: str,
    harness: Harness,
    here: tuple[AuditMode, ActionPolicy],
    found: dict[str, list[Carried]],
    leaks: dict[str, list[Carried]],
) -> dict[str, Any]:
    ceiling, policy = here
    return {
        "agent": path,
        "ceiling": ceiling.value,
        "tools": harness.called,
        "categories": {
            category: {"admitted_here": _admitted(policy, category), "exports": [_entry(item) for item in carried]}
            for category, carried in found.items()
        },
        "leaks": [{"with": category, **_entry(item)} for category, carried in leaks.items() for item in carried],
        "warnings": sorted(harness.warnings),
    }


def _entry(carried: Carried) -> dict[str, Any]:
    return {"signal": carried.signal, "place": carried.place, "carries": carried.carries}


def _admitted(policy: ActionPolicy, category: str) -> bool:
    return bool(getattr(policy, f"include_{category}"))


def _print(
    screen: Screen,
    path: str,
    harness: Harness,
    here: tuple[AuditMode, ActionPolicy],
    found: dict[str, list[Carried]],
    leaks: dict[str, list[Carried]],
) -> None:
    ceiling, policy = here
    dot = screen.symbols.dot
    screen.line(screen.text(path, "bold"), f" {dot} no model was asked {dot} {_tools(harness)}")
    for tool, error in sorted(harness.called.items()):
        if error is not None:
            screen.line(screen.text(f"{tool} raised {error}; a canary stood in for its result", "yellow"))
    for warning in sorted(harness.warnings):
        screen.line(Text(warning, "yellow"))
    screen.gap()
    for category, carried in found.items():
        admitted = _admitted(policy, category)
        screen.line(
            Text(f"{category:<20}", "bold"), Text("on here" if admitted else "off here", "" if admitted else "dim")
        )
        for place, carries in _by_place(carried).items():
            screen.line("  ", screen.text(place), Text(": ", "dim"), screen.text(", ".join(carries), most=2000))
        if not carried:
            screen.line(Text("  nothing, in these runs", "dim"))
    screen.gap()
    screen.line(_verdict_here(ceiling, policy))
    for category, items in leaks.items():
        for item in items:
            words = f"LEAK with {category}: {item.signal} {item.place} carries {', '.join(item.carries)}"
            screen.line(screen.text(words, "bold red", most=2000))
    if not leaks:
        screen.line(Text("Nothing leaves that its category does not admit.", "green"))


def _tools(harness: Harness) -> str:
    if not harness.call_tools:
        return "no tool was called (--no-tools)"
    if not harness.called:
        return "it has no tool that was called"
    return f"really called, once each: {', '.join(sorted(harness.called))}"


def _by_place(carried: list[Carried]) -> dict[str, list[str]]:
    places: dict[str, set[str]] = {}
    for item in carried:
        places.setdefault(item.place, set()).update(item.carries)
    return {place: sorted(carries) for place, carries in sorted(places.items())}


def _verdict_here(ceiling: AuditMode, policy: ActionPolicy) -> str:
    admitted = [category for category in CATEGORIES if _admitted(policy, category)]
    if not admitted:
        return f"Here the ceiling is {ceiling.value} and no category is on: none of this leaves."
    return f"Here the ceiling is {ceiling.value}, with {', '.join(admitted)} on: what they export, leaves."

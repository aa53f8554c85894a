"""`leakcheck`: an agent of the user's, what its runs would export, and what leaves although nothing admits it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import models

from actionspan.policy import CATEGORIES
from cli.conftest import Call

SHOP = '''
from dataclasses import dataclass, field
from typing import Annotated

from opentelemetry import trace
from pydantic import AfterValidator, BaseModel, SecretStr
from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.capabilities import Instrumentation

calls = []


@dataclass
class Shop:
    orders: dict = field(default_factory=lambda: {"a": 1})


class Answer(BaseModel):
    text: str
    sure: bool


support = Agent(
    name="support",
    deps_type=Shop,
    output_type=Answer,
    description="Answers the customers of a bookshop.",
    system_prompt="You answer the customers of a bookshop.",
    instructions="Be kind, and never promise a refund.",
)


@support.tool
def look_up(ctx: RunContext[Shop], order: str, password: SecretStr) -> str:
    """The order with this number, and its parcel."""
    calls.append("look_up")
    return f"{order}: {len(ctx.deps.orders)}"


@support.tool_plain
def refund(order: str, euros: float) -> str:
    calls.append("refund")
    raise KeyError(order)


plain = Agent(name="plain")
strict = Agent(name="strict")


def short(word: str) -> str:
    assert len(word) < 9
    return word


@strict.tool_plain
def fussy(word: Annotated[str, AfterValidator(short)]) -> str:
    return word


@strict.tool_plain
def wanting() -> str:
    raise ModelRetry("more")


broken = Agent(name="broken", instructions=lambda ctx: ctx.deps.missing)
talkative = Agent(name="talkative")


@talkative.tool_plain
def query(text: str) -> str:
    trace.get_current_span().set_attribute("db.query.text", f"select {text}")
    return "found"


class Person(BaseModel):
    name: str
    aliases: list[str] = []


elaborate = Agent(name="elaborate")


@elaborate.tool_plain
def greet(who: Person, words: list[str], title: str | None, pair: Annotated[int, "unchanged"]) -> ToolReturn:
    calls.append((who.name, words, title, pair))
    return ToolReturn(return_value="greeted", metadata={"kept": "back"})


watched = Agent(name="watched", capabilities=[Instrumentation()])


@watched.tool_plain
def act() -> str:
    return "acted"


not_an_agent = 5
'''

OURSELVES = """
from pydantic_ai import Agent

from actionspan import ActionPolicy, PydanticAIInstrumentor

PydanticAIInstrumentor().instrument(mode="content", policy=ActionPolicy(include_tool_results=True))
agent = Agent(name="a")
"""

Check = Callable[..., tuple[int, Any]]


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's modules, in the directory the command is given in."""
    (tmp_path / "leaky_shop.py").write_text(SHOP)
    (tmp_path / "leaky_ourselves.py").write_text(OURSELVES)
    (tmp_path / "leaky_import.py").write_text("import no_such_thing\n")
    (tmp_path / "leaky_raise.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in [name for name in sys.modules if name.startswith("leaky_")]:
        del sys.modules[name]


@pytest.fixture
def check(call: Call) -> Check:
    """Exit code and JSON of a check."""

    def run(*arguments: str) -> tuple[int, Any]:
        result = call("leakcheck", *arguments, "--json")
        return result.exit_code, json.loads(result.stdout)

    return run


def test_what_each_category_would_export(call: Call):
    result = call("leakcheck", "leaky_shop:support", "Where is my order?", "--deps", "leaky_shop:Shop")
    assert result.exit_code == 0
    assert result.stdout == snapshot("""\
leaky_shop:support · no model was asked · really called, once each: look_up, refund
refund raised KeyError; a canary stood in for its result

model_requests      off here
  actionspan.metadata: run metadata
  gen_ai.agent.description: its description
  gen_ai.input.messages: argument, invented argument, invented tool name, its system prompt, prompt, reasoning, result
  gen_ai.system_instructions: instructions, its instructions
  gen_ai.tool.definitions: the description of final_result, the description of look_up
model_responses     off here
  actionspan.invented_tool_name: invented tool name
  gen_ai.output.messages: argument, invented argument, invented tool name, output, reasoning
tool_arguments      off here
  gen_ai.tool.call.arguments: argument, invented argument
tool_results        off here
  gen_ai.tool.call.result: argument, result
mcp_requests        off here
  nothing, in these runs
mcp_responses       off here
  nothing, in these runs
dispatch_requests   off here
  nothing, in these runs
dispatch_responses  off here
  nothing, in these runs
custom_content      off here
  nothing, in these runs
error_messages      off here
  exception.message: model error, tool error
  exception.stacktrace: cause of an error, model error, tool error
  status: model error, tool error

Here the ceiling is metadata and no category is on: none of this leaves.
Nothing leaves that its category does not admit.
""")


def test_as_json_by_signal(check: Check):
    code, found = check("leaky_shop:support", "Where is my order?", "--deps", "leaky_shop:Shop")
    assert (code, found["leaks"], found["ceiling"]) == (0, [], "metadata")
    assert found["tools"] == {"look_up": None, "refund": "KeyError"}
    assert list(found["categories"]) == list(CATEGORIES)
    exports = found["categories"]["tool_arguments"]["exports"]
    assert exports == [
        {"signal": signal, "place": "gen_ai.tool.call.arguments", "carries": ["argument", "invented argument"]}
        for signal in ("record", "span")
    ]
    assert {item["signal"] for item in found["categories"]["model_requests"]["exports"]} == {
        "span",
        "record",
        "log event",
    }


def test_a_tool_is_called_once_for_all_categories_or_not_at_all(check: Check):
    code, found = check("leaky_shop:support", "hi", "--no-tools")
    assert (code, found["tools"]) == (0, {})
    assert sys.modules["leaky_shop"].calls == []
    check("leaky_shop:support", "hi")
    assert sys.modules["leaky_shop"].calls in (["look_up", "refund"], ["refund", "look_up"])  # they run at once
    assert models.ALLOW_MODEL_REQUESTS is False


def test_what_a_tool_itself_puts_on_the_span_is_a_leak(call: Call):
    result = call("leakcheck", "leaky_shop:talkative", "hi")
    assert result.exit_code == 1
    assert "LEAK with metadata: span db.query.text carries argument\n" in result.stdout
    assert "LEAK with metadata: record db.query.text carries argument\n" in result.stdout
    assert call("leakcheck", "leaky_shop:talkative", "hi", "--no-tools").exit_code == 0


def test_canaries_go_wherever_an_argument_is_any_text(check: Check):
    code, found = check("leaky_shop:elaborate", "hi")
    ((name, words, title, pair),) = sys.modules["leaky_shop"].calls
    assert code == 0
    assert {type(pair), name, title, *words} == {int, name}
    exported = found["categories"]["tool_results"]["exports"]
    assert {"signal": "span", "place": "gen_ai.tool.call.result", "carries": ["result"]} in exported


def test_the_librarys_own_instrumentation_is_warned_of(call: Call):
    result = call("leakcheck", "leaky_shop:watched", "hi")
    assert "Pydantic AI's own instrumentation is on for this agent: it exports content" in result.stdout
    assert "own instrumentation" not in call("leakcheck", "leaky_shop:strict", "hi").stdout


def test_an_agent_that_takes_no_canary_for_an_argument_is_asked_without(check: Check):
    code, found = check("leaky_shop:strict", "hi")
    assert code == 0
    assert found["tools"] == {"fussy": None, "wanting": "ModelRetry"}


def test_what_is_on_here_is_what_the_environment_says(check: Check, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "content")
    monkeypatch.setenv("ACTIONSPAN_CAPTURE", "tool_results, error_messages")
    code, found = check("leaky_shop:plain", "hi")
    on = [name for name, category in found["categories"].items() if category["admitted_here"]]
    assert (code, found["ceiling"], on) == (0, "content", ["tool_results", "error_messages"])


def test_or_what_the_module_says_when_it_instruments_itself(call: Call):
    result = call("leakcheck", "leaky_ourselves:agent", "hi")
    assert result.exit_code == 0
    assert "tool_results        on here" in result.stdout
    assert "Here the ceiling is content, with tool_results on: what they export, leaves." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("leaky_shop:suport",),
            "leaky_shop has no 'suport'; it has these agents: broken, elaborate, plain, strict, support",
        ),
        (("leaky_shop",), "'leaky_shop' is not of the form module:name"),
        (("leaky_shop:not_an_agent",), "leaky_shop:not_an_agent is no agent but of type int"),
        (("leaky_nowhere:agent",), "there is no module 'leaky_nowhere' here or among what is installed"),
        (("leaky_nowhere.inside:agent",), "there is no module 'leaky_nowhere' here or among what is installed"),
        (("leaky_import:agent",), "leaky_import cannot be imported: No module named 'no_such_thing'"),
        (("leaky_raise:agent",), "leaky_raise cannot be imported: RuntimeError: not today"),
        (("leaky_shop:plain", "--deps", "leaky_shop:nothing"), "leaky_shop has no 'nothing'"),
        (("leaky_shop:broken",), "the agent cannot be run: AttributeError: 'NoneType' object has no attribute"),
    ],
)
def test_what_cannot_be_checked_is_said_in_one_line(arguments: tuple[str, ...], message: str, call: Call):
    result = call("leakcheck", arguments[0], "hi", *arguments[1:])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"actionspan: {message}")
    assert result.stderr.count("\n") == 1


def test_a_wrong_variable_is_an_error_as_everywhere(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "all")
    result = call("leakcheck", "leaky_shop:plain", "hi")
    assert (result.exit_code, result.stderr) == (
        2,
        "actionspan: ACTIONSPAN_AUDIT='all' is not one of off, metadata, content\n",
    )

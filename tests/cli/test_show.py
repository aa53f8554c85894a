"""`actionspan show`: the list of runs and the tree, whatever the record holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from actionspan.recorder import read
from actionspan.telemetry import names
from cli.conftest import START, TRACE, Call, Record, shown

OTHER_TRACE = "f" * 32
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe [bold red]loud[/] \u2028" + "x" * 5000


def _varied(record: Record) -> Path:
    spent = {"usage": {"input_tokens": 12_000, "output_tokens": 300}}
    run = record.action(
        "agent.run",
        "helper",
        took=4.0,
        outcome="timeout",
        error="timeout",
        run_id="run-1",
        usage={"input_tokens": 12_000, "output_tokens": 300},
    )
    record.action("model.request", "gpt", parent=run, took=1.0, attributes={"actionspan.cost_usd": 0.0125}, **spent)
    record.action("tool.validate", "lookup", parent=run, at=1, took=0.0001, attributes={"gen_ai.tool.call.id": "c"})
    record.action(
        "tool.execute", "lookup", parent=run, at=1, took=0.5, outcome="error", error="builtins.KeyError",
        attempt=2, attributes={"gen_ai.tool.call.id": "c"},
    )  # fmt: skip
    record.action("tool.execute", parent=run, at=1.5, took=0, outcome="error", outcome_reason="unknown_tool")
    tool = record.action("tool.execute", "ask", parent=run, at=2, took=2, outcome="cancelled", outcome_reason="denied")
    inner = record.action("agent.run", "expert", parent=tool, at=2, took=1.5, agent_id="expert")
    record.action("model.request", "local", parent=inner, at=2, took=1.4, agent_id="expert", **spent)
    record.action("mcp.tools.call", "add", parent=tool, at=3.5, took=None)
    record.action("dispatch.send", "orders", parent=run, at=3.9, outcome="deferred")
    return record.close()


def test_a_run_is_a_tree_of_its_actions(record: Record, call: Call):
    result = call("show", _varied(record), env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert shown(result.stdout) == snapshot("""\
run       agent   outcome     took  tokens in  out      cost  actions  2023-11-14
00000000  helper  ⏱ timeout  4.00s     24,000  600  $0.0125+       10  22:13:20

run run-1  trace 0123456789abcdef0123456789abcdef
                                                    took                   tokens in   out      cost
⏱ helper · timeout                                 4.00s  ━━━━━━━━━━━━━━━━     24.0k   600  $0.0125+
├─ ✓ chat gpt                                      1.00s  ━━━━                 12.0k   300   $0.0125
├─ ✗ lookup · KeyError · attempt 2                 500ms      ━━
├─ ✗ a tool that is not declared · unknown_tool    0.0ms        ╸
├─ ⊘ ask · denied                                  2.00s          ━━━━━━━━
│  ├─ ✓ expert                                     1.50s          ━━━━━━       12.0k   300
│  │  └─ ✓ chat local                              1.40s          ━━━━━━       12.0k   300
│  └─ ◌ tools/call add · unfinished                                     ━━
└─ ⏸ send orders · deferred                        100ms                 ╺
1 validation that passed is not shown (--full)
""")


def test_where_there_is_no_room_names_are_shortened_and_numbers_are_not(record: Record, call: Call):
    record.action("agent.run", "an-agent-with-a-very-long-name", outcome="cancelled", outcome_reason="task_cancelled")
    listed, first, *_ = call("show", record.close(), env={"COLUMNS": "76"}).stdout.splitlines()
    assert (len(listed) <= 76, len(first) <= 76) == (True, True)
    assert "an-agent-with-a-very-long-name" not in first
    assert first.split()[-3:] == ["100ms", "1", "22:13:20"]


def test_json_says_the_same(record: Record, call: Call):
    result = call("show", _varied(record), "--json")
    shown = json.loads(result.stdout)
    (run,) = shown["runs"]
    assert (run["outcome"], run["actions"], run["input_tokens"], run["cost_usd"], run["cost_is_complete"]) == (
        "timeout", 10, 24_000, 0.0125, False,
    )  # fmt: skip
    assert [(action["depth"], action["kind"], action["finished"]) for action in shown["actions"]][-3:] == [
        (3, "model.request", True), (2, "mcp.tools.call", False), (1, "dispatch.send", True),
    ]  # fmt: skip


def test_nothing_recorded_steers_the_terminal(record: Record, call: Call):
    run = record.action("agent.run", HOSTILE, agent_id=HOSTILE, run_id=HOSTILE, outcome=HOSTILE)
    record.action("tool.execute", HOSTILE, parent=run, outcome="error", error=HOSTILE, outcome_reason=HOSTILE)
    record.action("dispatch.send", HOSTILE, parent=run, content={"actionspan.request": HOSTILE, HOSTILE: HOSTILE})
    directory = record.close()
    for arguments in (
        ("show", "--content"),
        ("show", "--json", "--content"),
        ("query",),
        ("query", "--json"),
        ("stats",),
    ):
        result = call(arguments[0], directory, *arguments[1:])
        assert result.exit_code == 0, arguments
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", result.stdout), arguments
        if "--json" not in arguments:
            assert max(map(len, result.stdout.splitlines())) < 1_000
            assert "[bold" in result.stdout


def test_content_is_shown_only_when_asked_for(record: Record, call: Call):
    run = record.action("agent.run", "helper")
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "an old question"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "an old answer"}]},
        {"role": "user", "parts": [{"type": "text", "content": "the new question"}]},
    ]
    reply = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "f", "arguments": {"x": 1}}]}]
    content = {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps(reply)}
    record.action("model.request", "m", parent=run, content=content)
    record.action(
        "tool.execute", "f", parent=run, outcome="error", content={"gen_ai.tool.call.arguments": '{"x":1}'},
        events=[{"name": "exception", "attributes": {"exception.message": "it broke"}}],
    )  # fmt: skip
    directory = record.close()
    assert "question" not in call("show", directory).stdout
    shown = call("show", directory, "--content").stdout
    assert [line.partition("  ")[2].strip("│ ") for line in shown.splitlines() if ": " in line] == snapshot(
        [
            "user: the new question",
            'assistant: calls f {"x":1}',
            'arguments: {"x":1}',
            "error: it broke",
        ]
    )


def test_an_unknown_cost_is_never_a_cost_of_nothing(record: Record, call: Call):
    record.action("model.request", "m", parent=record.action("agent.run", "helper"), usage={"input_tokens": 1})
    assert "$" not in call("show", record.close()).stdout


def test_what_control_was_told_is_content_too(record: Record, call: Call):
    run = record.action("agent.run", "helper")
    for verb, name, value in (
        ("pause", "control_reason", "a person looks"),
        ("steer", "control_directive", "answer in French"),
        ("checkpoint", "control_label", "before the refund"),
        ("later", "something_new", {"a": 1}),
    ):
        record.action(f"control.{verb}", parent=run, content={f"actionspan.{name}": value})
    directory = record.close()
    assert "French" not in call("show", directory).stdout
    shown = call("show", directory, "--content").stdout
    assert [line.strip("│ ") for line in shown.splitlines() if ": " in line] == snapshot(
        [
            "reason: a person looks",
            "directive: answer in French",
            "label: before the refund",
            'something new: {"a":1}',
        ]
    )


def test_every_kind_of_content_has_a_place(record: Record, call: Call):
    content = {name: f"the {name}" for name in names.CONTENT_ATTRIBUTES - {names.TOOL_DEFINITIONS}}
    record.action("dispatch.send", "x", content=content)
    shown = call("show", record.close(), "--content").stdout
    assert [name for name, value in content.items() if value not in shown] == []


def test_what_is_empty_is_shown_as_empty_and_not_as_unknown(record: Record, call: Call):
    run = record.action("agent.run", "", agent_id="", run_id="r")
    said = [{"role": "user", "parts": []}, {"role": "user", "parts": [{"type": "text", "content": ""}]}]
    nothing = {"usage": {"input_tokens": 0, "output_tokens": 0}, "agent_id": ""}
    record.action("model.request", "", parent=run, model="", content={"gen_ai.input.messages": said}, **nothing)
    record.action("tool.execute", "", parent=run, agent_id="", content={"gen_ai.tool.call.result": ""})
    record.action("tool.execute", parent=run, outcome="error", outcome_reason="unknown_tool", agent_id="")
    record.action(
        "dispatch.send", "x", parent=run, outcome="error", agent_id="",
        events=[{"name": "exception", "attributes": {"exception.message": ""}}],
        content={"gen_ai.output.messages": []},
    )  # fmt: skip
    directory = record.close()
    result = call("show", directory, "--content", env={"COLUMNS": "100"})
    assert shown(result.stdout) == snapshot("""\
run       agent         outcome     took  tokens in  out  actions  2023-11-14
00000000  (empty name)  ✓ success  100ms          0    0        5  22:13:20

run r  trace 0123456789abcdef0123456789abcdef
                                                    took                             tokens in   out
✓ (empty name)                                     100ms  ━━━━━━━━━━━━━━━━━━━━━━━━━━         0     0
├─ ✓ chat (empty name)                             100ms  ━━━━━━━━━━━━━━━━━━━━━━━━━━         0     0
│     user: (empty)
│     user: (empty)
├─ ✓ (empty name)                                  100ms  ━━━━━━━━━━━━━━━━━━━━━━━━━━
│     result: (empty)
├─ ✗ a tool that is not declared · unknown_tool    100ms  ━━━━━━━━━━━━━━━━━━━━━━━━━━
└─ ✗ send x · error                                100ms  ━━━━━━━━━━━━━━━━━━━━━━━━━━
      response: (empty)
      error: (empty)
""")
    assert "(empty name)  by (empty name)" not in call("query", directory).stdout
    assert "start           (empty name)" in call("query", directory, "--kind", "model.*").stdout
    counted = json.loads(call("stats", directory, "--json").stdout)
    assert (counted["models"][""]["input_tokens"], counted["tools"][""]["input_tokens"]) == (0, None)
    assert counted["models"][""]["cost_usd"] is None
    assert shown(call("stats", directory).stdout).count("(empty name)") == 3
    action = json.loads(call("show", directory, "--json").stdout)["actions"][0]
    assert (action["name"], action["agent"]) == ("", "")


@pytest.mark.parametrize(
    ("usage", "outcome", "complete"),
    [
        ({"input_tokens": 5, "output_tokens": 5}, "error", False),
        ({"input_tokens": 0, "output_tokens": 0}, "success", True),
        ({}, "success", False),
        ({}, "error", True),
    ],
)
def test_a_cost_is_a_lower_bound_where_something_may_have_been_paid(
    record: Record, call: Call, usage: dict[str, int], outcome: str, complete: bool
):
    run = record.action("agent.run", "helper")
    record.action("model.request", "priced", parent=run, attributes={"actionspan.cost_usd": 0.0})
    record.action("model.request", "unpriced", parent=run, outcome=outcome, usage=usage)
    directory = record.close()
    (found,) = json.loads(call("show", directory, "--json").stdout)["runs"]
    assert (found["cost_usd"], found["cost_is_complete"]) == (0.0, complete)
    assert json.loads(call("stats", directory, "--json").stdout)["all"]["cost_is_complete"] is complete
    for command in ("show", "stats"):
        assert ("$0.0000+" not in call(command, directory).stdout) is complete


def test_a_narrow_terminal_gets_no_bars_and_all_the_numbers(record: Record, call: Call):
    directory = _varied(record)
    tree = call("show", directory, env={"COLUMNS": "44"}).stdout.partition("\n\n")[2]
    assert "━" not in tree
    assert max(map(len, shown(tree).splitlines()[2:])) <= 52  # a name keeps 16 columns
    assert "12.0k   300   $0.0125" in tree


def test_runs_are_chosen_by_what_happened_in_them(record: Record, call: Call):
    for number, tenant in enumerate(("acme", "acme", "globex")):
        trace = f"{number + 1:032x}"
        run = record.action(
            "agent.run", f"agent-{number}", trace=trace, at=10 * number, took=5, run_id=f"run-{number}",
            agent_id=f"agent-{number}", conversation_id=f"talk-{number}",
        )  # fmt: skip
        record.action(
            "tool.execute", "lookup", parent=run, trace=trace, at=10 * number + 2, agent_id="clerk" if number else "x",
            outcome="error" if number == 1 else "success", attributes={"actionspan.tenant": tenant},
        )  # fmt: skip
    directory = record.close()

    def chosen(*arguments: object) -> list[str]:
        result = call("show", directory, *arguments, "--all", "--json")
        if result.exit_code:
            assert (result.exit_code, result.stdout) == (1, "")
            assert result.stderr == f"actionspan: nothing in {directory} satisfies that\n"
            return []
        answer = json.loads(result.stdout)
        assert len(answer["actions"]) == 2 * len(answer["runs"])  # each is whole
        return [run["name"] for run in answer["runs"]]

    assert chosen("--agent-id", "clerk") == ["agent-1", "agent-2"]
    assert chosen("--conversation", "talk-2") == ["agent-2"]
    assert chosen("--where", "outcome=error") == ["agent-1"]
    assert chosen("--where", "attributes.actionspan.tenant=acme") == ["agent-0", "agent-1"]
    assert chosen("--where", "attributes.actionspan.tenant=acme", "--limit", 1) == ["agent-1"]
    assert chosen("--since", START / 1e9 + 12, "--until", START / 1e9 + 14) == ["agent-1"]
    assert chosen("--where", "outcome=error", "--agent-id", "agent-2") == []
    both = call("show", directory, "--run", "run-0", "--since", "1h")
    assert (both.exit_code, "--run names one run" in both.stderr) == (2, True)


def test_the_newest_runs_are_listed_and_the_newest_isshown(record: Record, call: Call):
    for number in range(5):
        run = record.action("agent.run", f"agent-{number}", trace=f"{number:032x}", at=number)
        record.action("tool.execute", f"tool-{number}", parent=run, trace=f"{number:032x}", at=number)
    directory = record.close()
    shown = call("show", directory, "--limit", 3).stdout
    assert re.findall(r"agent-\d", shown) == ["agent-2", "agent-3", "agent-4", "agent-4"]
    assert re.findall(r"tool-\d", shown) == ["tool-4"]
    assert re.findall(r"tool-\d", call("show", directory, "--all").stdout) == [f"tool-{number}" for number in range(5)]


def test_a_run_is_found_by_any_of_its_ids(record: Record, call: Call):
    first = record.action("agent.run", "one", run_id="run-one")
    tool = record.action("tool.execute", "ask", parent=first)
    inner = record.action("agent.run", "inner", parent=tool, run_id="run-inner")
    record.action("agent.run", "two", trace=OTHER_TRACE, run_id="run-two")
    directory = record.close()
    assert "ask" in call("show", directory, "--run", "run-one").stdout
    assert "ask" in call("show", directory, "--run", TRACE[:10]).stdout
    assert "ask" in call("show", directory, "--run", first).stdout
    assert "ask" not in call("show", directory, "--run", inner).stdout
    assert "ask" not in call("show", directory, "--run", "run-inner").stdout
    assert "two" in call("show", directory, "--run", "ffff").stdout
    missing = call("show", directory, "--run", "nobody")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "no run nobody" in missing.stderr
    ambiguous = call("show", directory, "--run", "run-")
    assert (ambiguous.exit_code, "2 runs" in ambiguous.stderr) == (2, True)


def test_a_parent_that_is_not_in_the_record_is_stood_in_for(record: Record, call: Call):
    gone = "00000000-0000-0000-0000-00000000ffff"
    record.action("tool.execute", "first", parent=gone, run_action_id=gone, starts=False)
    record.action("tool.execute", "second", parent=gone, run_action_id=gone, starts=False, at=1)
    shown = call("show", record.close()).stdout
    assert "helper · not in the record" in shown
    assert shown.index("├─ ✓ first") < shown.index("└─ ✓ second")


def test_a_parent_that_is_not_in_the_record_and_no_run_is_an_action(record: Record, call: Call):
    run = record.action("agent.run", "helper")
    gone = "00000000-0000-0000-0000-00000000ffff"
    record.action("tool.execute", "first", parent=gone, run_action_id=run, starts=False)
    shown = call("show", record.close(), "--all").stdout
    assert "an action · not in the record" in shown


def test_a_second_end_changes_nothing(record: Record, call: Call):
    """`verify` reports it."""
    record.action("agent.run", "helper")
    (first,) = [event for event in read(record.directory).query() if event["phase"] == "end"]
    record._recorder.emit({**first, "outcome": "error", "error": "KeyError"})
    action = json.loads(call("show", record.close(), "--json").stdout)["runs"][0]
    assert (action["outcome"], action["error"]) == ("success", None)


def test_an_output_is_named_for_what_was_done_with_it(record: Record, call: Call):
    run = record.action("agent.run", "helper")
    record.action("output.validate", "final_result", parent=run)
    record.action("output.process", "final_result", parent=run, at=1)
    shown = call("show", record.close()).stdout
    assert "├─ ✓ validate output final_result" in shown
    assert "└─ ✓ process output final_result" in shown


def test_a_part_of_no_known_kind_is_shown_as_it_is(record: Record, call: Call):
    parts = [{"type": "uri", "uri": "https://example.com/a.png"}, {"type": "text", "content": 5}]
    content = {"gen_ai.input.messages": [{"role": "user", "parts": parts}]}
    record.action("model.request", "m", parent=record.action("agent.run", "helper"), content=content)
    shown = call("show", record.close(), "--content").stdout
    assert '{"type":"uri","uri":"https://example.com/a.png"}' in shown
    assert '{"type":"text","content":5}' in shown


def test_actions_that_are_each_others_parents_are_shown_once(record: Record, call: Call):
    one, two = ("00000000-0000-0000-0000-00000000000" + digit for digit in "12")
    record.action("tool.execute", "egg", parent=two)
    record.action("tool.execute", "hen", parent=one)
    record.action("tool.execute", "self", parent="00000000-0000-0000-0000-000000000003")
    shown = call("show", record.close(), "--json")
    assert sorted(action["name"] for action in json.loads(shown.stdout)["runs"]) == ["egg", "self"]
    assert "hen" in call("show", record.directory, "--all").stdout


def test_a_deep_chain_is_shown_to_its_end(record: Record, call: Call):
    parent = record.action("agent.run", "helper")
    for _ in range(1_500):
        parent = record.action("tool.execute", "deeper", parent=parent, starts=False)
    result = call("show", record.close())
    assert result.exit_code == 0
    assert result.stdout.count("└─ ✓") == 1_500


def test_values_of_the_wrong_type_are_not_believed(record: Record, call: Call):
    record.action(
        "agent.run", "helper", usage=[], attempt="2", step={}, outcome_reason=4, error=[], events="x", content=[],
        attributes="none", start_time_unix_nano="soon",
    )  # fmt: skip
    assert call("show", record.close(), "--content").exit_code == 0


def test_events_of_others_are_no_actions(record: Record, call: Call):
    record._recorder.emit({"kind": "hook_start", "name": "x"})
    result = call("show", record.close())
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_missing_directory_is_named(call: Call, tmp_path: Path):
    for command in ("show", "query", "stats", "tail", "verify", "compact"):
        result = call(command, tmp_path / "nowhere")
        assert result.exit_code == 2, command
        assert result.stderr == f"actionspan: there is no directory {tmp_path / 'nowhere'}\n"
    (tmp_path / "file").write_text("")
    assert call("show", tmp_path / "file").exit_code == 2
    (tmp_path / "empty").mkdir()
    assert call("show", tmp_path / "empty").exit_code == 1

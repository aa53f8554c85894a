"""Who decides: the ceiling, the application's policy, the environment, and a second call."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai import Agent

from actionspan import (
    ActionPolicy,
    AuditMode,
    JsonlRecorder,
    NormalizationLimits,
    PydanticAIInstrumentor,
    narrow,
    resolve_audit_mode,
)
from actionspan.policy import CATEGORIES, CATEGORY_FIELDS, effective_policy
from actionspan.recorder import read, verify
from actionspan.settings import read_settings
from actionspan.testing import capture
from scripted import calls, script


@pytest.mark.parametrize(
    ("environ", "mode", "expected"),
    [
        ({}, None, "metadata"),
        ({}, "content", "content"),
        ({}, AuditMode.OFF, "off"),
        ({"ACTIONSPAN_AUDIT": "metadata"}, "content", "metadata"),
        ({"ACTIONSPAN_AUDIT": "content"}, None, "content"),
        ({"ACTIONSPAN_AUDIT": "content"}, "metadata", "metadata"),
        ({"ACTIONSPAN_AUDIT": "off"}, "content", "off"),
        ({"ACTIONSPAN_AUDIT": " content "}, None, "content"),
        ({"ACTIONSPAN_AUDIT": ""}, None, "metadata"),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "no_content"}, "content", "metadata"),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"}, None, "content"),
        ({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY"}, "metadata", "metadata"),
    ],
)
def test_the_ceiling(environ, mode, expected):
    assert resolve_audit_mode(environ, mode) == expected


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ACTIONSPAN_AUDIT": "Content"}, "ACTIONSPAN_AUDIT='Content' is not one of off, metadata, content"),
        ({"ACTIONSPAN_CAPTURE": "prompts"}, "ACTIONSPAN_CAPTURE='prompts' is not one of all, none, model_requests"),
        ({"ACTIONSPAN_CAPTURE": "all,tool_results"}, "'all' stands alone or not at all"),
        ({"ACTIONSPAN_TRACE": "fresh"}, "ACTIONSPAN_TRACE='fresh' is not one of join, new"),
        ({"ACTIONSPAN_INPUT_MESSAGES": "some"}, "ACTIONSPAN_INPUT_MESSAGES='some' is not one of full, delta"),
        ({"ACTIONSPAN_MCP_SDK_SPANS": "no"}, "ACTIONSPAN_MCP_SDK_SPANS='no' is not one of keep, drop"),
        ({"ACTIONSPAN_REDACTOR": "module"}, "ACTIONSPAN_REDACTOR='module' is not of the form package.module:callable"),
        (
            {"ACTIONSPAN_QUERY_HEADERS": "secret-token"},
            "ACTIONSPAN_QUERY_HEADERS: item 1 is not of the form name=value",
        ),
    ],
)
def test_a_wrong_variable_is_an_error_that_names_it(environ, message, monkeypatch):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        read_settings(environ)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        PydanticAIInstrumentor().instrument()
    assert not PydanticAIInstrumentor().is_instrumented_by_opentelemetry


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mode": "everything"}, ValueError, "mode='everything' is not one of off, metadata, content"),
        ({"policy": {"include_tool_results": True}}, TypeError, "policy must be an ActionPolicy, not dict"),
        ({"recorder": "rec"}, TypeError, r"recorder must be a Recorder, such as JsonlRecorder\(directory\), not str"),
        ({"recorder": JsonlRecorder}, TypeError, "not the class JsonlRecorder"),
        ({"control": "rec"}, TypeError, "control must be a RunControl, not str"),
        ({"tracer_provider": "http://localhost:4318"}, TypeError, "tracer_provider must be a TracerProvider, not str"),
        ({"meter_provider": 1}, TypeError, "meter_provider must be a MeterProvider, not int"),
        ({"logger_provider": []}, TypeError, "logger_provider must be a LoggerProvider, not list"),
        ({"trace": "fresh"}, ValueError, "trace='fresh' is not one of join, new"),
        ({"input_messages": "some"}, ValueError, "input_messages='some' is not one of full, delta"),
        ({"tracer": None}, TypeError, r"instrument\(\) has no argument 'tracer'"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it(arguments, error, message):
    with pytest.raises(error, match=message):
        PydanticAIInstrumentor().instrument(**arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ActionPolicy(include_tool_results="yes"), "ActionPolicy.include_tool_results must be True or False"),
        (lambda: ActionPolicy(redactor="keys"), "ActionPolicy.redactor must be a callable or None, not str"),
        (lambda: ActionPolicy(limits=8), "ActionPolicy.limits must be a NormalizationLimits, not int"),
        (lambda: NormalizationLimits(max_depth=0), "NormalizationLimits.max_depth must be a positive integer, not 0"),
        (lambda: NormalizationLimits(max_attribute_bytes=-1), "max_attribute_bytes must be a positive integer"),
        (lambda: narrow({}).__enter__(), r"narrow\(\) takes an ActionPolicy, not dict"),
    ],
)
def test_a_wrong_policy_is_an_error_that_names_the_field(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_the_effective_policy_is_the_intersection():
    tools = ActionPolicy(include_tool_arguments=True, include_tool_results=True)
    results = ActionPolicy(include_tool_results=True, limits=NormalizationLimits(max_depth=2))
    assert effective_policy(AuditMode.CONTENT, tools, results) == results
    assert effective_policy(AuditMode.METADATA, tools) == ActionPolicy()
    assert effective_policy(AuditMode.CONTENT) == ActionPolicy()


def content_attributes(seen) -> set[str]:
    return {
        key
        for span in seen.spans
        for key in span.attributes
        if key.startswith(("gen_ai.input", "gen_ai.output.m", "gen_ai.tool.call.a", "gen_ai.tool.call.r"))
    }


def using_agent() -> Agent:
    agent = Agent(script(calls(("f", {"x": 1}, "c1")), "ok", calls(("f", {"x": 1}, "c1")), "ok"), name="a")
    agent.tool_plain(lambda x: x, name="f")
    return agent


ALL = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}


def test_metadata_is_the_default_and_the_environment_beats_the_code(monkeypatch):
    everything = ActionPolicy.everything()
    with capture(policy=everything) as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    with capture(mode="content", policy=everything) as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == ALL
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "metadata")
    with capture(mode="content", policy=everything) as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()


def test_capture_is_the_applications_half_and_anded_with_a_policy(monkeypatch):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "content")
    monkeypatch.setenv("ACTIONSPAN_CAPTURE", "tool_arguments, tool_results")
    with capture() as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}
    with capture(policy=ActionPolicy(include_tool_results=True, include_model_requests=True)) as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == {"gen_ai.tool.call.result"}


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_category_can_be_captured_by_name(category):
    policy = read_settings({"ACTIONSPAN_CAPTURE": category}).capture
    assert [name for name in CATEGORY_FIELDS if getattr(policy, name)] == [f"include_{category}"]


def test_a_second_call_tightens():
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        PydanticAIInstrumentor().instrument(
            policy=ActionPolicy(include_tool_arguments=True, redactor=lambda value: "redacted")
        )
        using_agent().run_sync("go")
        arguments = {span.attributes.get("gen_ai.tool.call.arguments") for span in seen.spans} - {None}
        assert arguments == {'"redacted"'}
        assert content_attributes(seen) == {"gen_ai.tool.call.arguments"}
        seen.clear()
        PydanticAIInstrumentor().instrument(mode="metadata")
        using_agent().run_sync("go")
        assert content_attributes(seen) == set()
        seen.clear()
        PydanticAIInstrumentor().instrument(mode="off")
        using_agent().run_sync("go")
        assert seen.spans == []


def test_a_second_call_never_widens_and_says_so(caplog):
    with capture() as seen:
        PydanticAIInstrumentor().instrument(mode="content", policy=ActionPolicy.everything())
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    assert ["a later call can only tighten" in record.getMessage() for record in caplog.records] == [True]


def test_a_second_call_adds_a_recorder_and_says_what_it_cannot_change(tmp_path: Path, caplog):
    recorder = JsonlRecorder(tmp_path / "rec")
    with capture() as seen:
        PydanticAIInstrumentor().instrument(recorder=recorder, trace="new")
        using_agent().run_sync("go")
        kinds = [event["kind"] for event in seen.records]
    assert [event["kind"] for event in recorder.query()] == kinds
    recorder.close()
    assert ["instrument(trace=...) has no effect" in record.getMessage() for record in caplog.records] == [True]


def test_uninstrument_forgets_everything():
    instrumentor = PydanticAIInstrumentor()
    with capture(mode="content", policy=ActionPolicy.everything(), identity={"tenant": "acme"}):
        pass
    with capture() as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    assert not any("actionspan.tenant" in span.attributes for span in seen.spans)
    assert not instrumentor.is_instrumented_by_opentelemetry


def test_uninstrument_closes_the_recorder_of_the_environment(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ACTIONSPAN_RECORD", str(tmp_path / "rec"))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    PydanticAIInstrumentor().instrument()
    using_agent().run_sync("go")
    assert verify(tmp_path / "rec").live == 1
    PydanticAIInstrumentor().uninstrument()
    report = verify(tmp_path / "rec")
    assert (report.unclosed, report.live, report.segments) == (0, 0, 1)
    using_agent().run_sync("go")
    assert verify(tmp_path / "rec") == report


def test_what_was_given_up_before_the_library_was_imported_is_not_patched():
    program = (
        "import sys\n"
        "from actionspan import PydanticAIInstrumentor\n"
        "PydanticAIInstrumentor().instrument()\n"
        "PydanticAIInstrumentor().uninstrument()\n"
        "assert 'pydantic_ai' not in sys.modules\n"
        "from pydantic_ai import Agent\n"
        "print(hasattr(Agent.iter, '__wrapped__'), 'actionspan.pydantic_ai.attach' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    plain = subprocess.run(
        [sys.executable, "-c", "from pydantic_ai import Agent\nprint(hasattr(Agent.iter, '__wrapped__'), False)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == plain.stdout


def test_two_captures_at_once_are_refused():
    with (
        capture(),
        pytest.raises(RuntimeError, match="the process is instrumented already: uninstrument first"),
        capture(),
    ):
        pass


def test_a_name_that_no_exporter_could_encode_is_mended():
    agent = Agent(script("ok"), name="h\u00e9l\ud800per")
    with capture() as seen:
        agent.run_sync("go")
    (run,) = [span for span in seen.spans if span.name.startswith("invoke_agent")]
    assert run.name.encode().decode() == run.name
    assert run.name.startswith("invoke_agent h\u00e9l")


@pytest.mark.parametrize("mode", ["off", False], ids=["text", "what YAML reads"])
def test_off_touches_nothing(mode, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ACTIONSPAN_RECORD", str(tmp_path / "rec"))
    original = Agent.__dict__["iter"]
    with capture(mode=mode) as seen:
        assert Agent.__dict__["iter"] is original
        using_agent().run_sync("go")
    assert (seen.spans, seen.records) == ([], [])
    assert not (tmp_path / "rec").exists()


def test_the_sdk_disabled_by_its_own_variable(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    original = Agent.__dict__["iter"]
    PydanticAIInstrumentor().instrument()
    assert Agent.__dict__["iter"] is original
    PydanticAIInstrumentor().uninstrument()


def test_narrow_is_this_request_and_nothing_else():
    agent = using_agent()
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        with narrow(ActionPolicy(include_tool_results=True)), narrow(ActionPolicy.everything()):
            agent.run_sync("go")
        assert content_attributes(seen) == {"gen_ai.tool.call.result"}
        seen.clear()
        agent.run_sync("go")
        assert content_attributes(seen) == ALL


def test_a_redactor_from_the_environment(monkeypatch, caplog):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "content")
    monkeypatch.setenv("ACTIONSPAN_CAPTURE", "all")
    monkeypatch.setenv("ACTIONSPAN_REDACTOR", "json:dumps")  # any importable callable of one argument
    with capture(policy=ActionPolicy(include_tool_arguments=True)) as seen:
        using_agent().run_sync("go")
    arguments = {span.attributes.get("gen_ai.tool.call.arguments") for span in seen.spans} - {None}
    assert arguments == {'"{\\"x\\": 1}"'}

    monkeypatch.setenv("ACTIONSPAN_REDACTOR", "no_such_module:redact")
    with capture() as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == (
        "ACTIONSPAN_REDACTOR=no_such_module:redact cannot be imported (ModuleNotFoundError): no content is captured"
    )


def test_a_redactor_from_the_environment_that_cannot_be_called_closes_the_gate(monkeypatch, caplog):
    monkeypatch.setenv("ACTIONSPAN_AUDIT", "content")
    monkeypatch.setenv("ACTIONSPAN_CAPTURE", "all")
    monkeypatch.setenv("ACTIONSPAN_REDACTOR", "string:digits")
    with capture() as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "ACTIONSPAN_REDACTOR=string:digits is not callable: no content is captured"


def test_event_only_puts_content_on_log_events_and_never_on_spans(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "event_only")
    with capture() as seen:
        using_agent().run_sync("go")
        assert content_attributes(seen) == set()
        events = [record.log_record for record in seen.logs]
    assert [event.event_name for event in events] == ["gen_ai.client.inference.operation.details"] * 2
    assert '"content":"go"' in events[0].attributes["gen_ai.input.messages"]
    (chat, _) = seen.named("chat scripted")
    assert events[0].span_id == chat.context.span_id


def test_span_and_event_puts_it_on_both_and_span_only_on_spans(monkeypatch):
    for value, logged in (("SPAN_AND_EVENT", 2), ("SPAN_ONLY", 0)):
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
        with capture() as seen:
            using_agent().run_sync("go")
            assert content_attributes(seen) == ALL
            assert len(seen.logs) == logged


def test_an_unknown_value_of_opentelemetrys_variable_is_one_warning_and_no_content(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        using_agent().run_sync("go")
    assert content_attributes(seen) == set()
    (record,) = caplog.records
    assert "'true' is not one of NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT" in record.getMessage()


def test_recording_without_any_tracer_provider(tmp_path: Path):
    recorder = JsonlRecorder(tmp_path / "rec")
    PydanticAIInstrumentor().instrument(recorder=recorder)
    using_agent().run_sync("go")
    PydanticAIInstrumentor().uninstrument()
    recorder.close()
    events = list(read(tmp_path / "rec").query(kind="*.end"))
    assert [event["kind"] for event in events][-1] == "agent.run.end"
    assert len({event["trace_id"] for event in events}) == 1
    by_id = {event["action_id"] for event in events}
    assert all(event["parent_action_id"] in by_id for event in events[:-1])


def test_the_environments_recorder_that_cannot_be_opened_is_logged(monkeypatch, tmp_path: Path, caplog):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ACTIONSPAN_RECORD", str(file))
    with capture() as seen:
        assert using_agent().run_sync("go").output == "ok"
    assert len(seen.spans) == 5
    (record,) = [record for record in caplog.records if record.name == "actionspan"]
    assert record.getMessage().startswith(f"ACTIONSPAN_RECORD={file} cannot be recorded to: ")

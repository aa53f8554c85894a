"""Tempo: paging, incompleteness, parsing of a real one's answers, and what it is asked."""

from __future__ import annotations

import ast
import itertools
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from actionspan.backends import BackendError, TempoRecorder, _http
from actionspan.backends._report import BackendReport
from actionspan.backends._spans import events_of
from actionspan.backends._traceql import quoted, traceql_of
from actionspan.backends._wanted import FIELDS, wanted_of
from backends.conftest import SECOND, Story
from backends.servers import JSON, TEXT, Reply, Tempo
from backends.test_spans import event_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tempo"
DAY = 86_400
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.json").read_text()


def scripted(tempo: Tempo, *names: str) -> TempoRecorder:
    """A recorder whose next answers are those of a real Tempo."""
    statuses = dict(line.split(" ", 1) for line in (FIXTURES / "STATUS").read_text().splitlines())
    for name in names:
        status, kind = statuses[name].split(" ", 1)
        tempo.scripted.append(Reply(fixture(name), int(status), kind))
    return TempoRecorder(tempo.url)


AT = {"since": 1796045500, "until": 1796045600}
"""When the fixtures were made."""


def test_a_real_answer(tempo: Tempo):
    recorder = scripted(tempo, "search-tool", "trace-by-id", "trace-unknown")
    found = list(recorder.query(kind="tool.*", **AT))
    assert [request.path for request in tempo.requests] == [
        "/api/search",
        "/api/v2/traces/fa9b709a5af5dcddd0544a51bb331b36",
        "/api/v2/traces/a8dbbcc7652539008f397a1d9125d97a",
    ]
    assert [(event["kind"], event["outcome"], event["name"]) for event in found] == [
        ("tool.execute.error", "error", "lookup"),
        ("tool.execute.end", "deferred", "refund"),
    ]
    assert found[0] == snapshot({
        "v": 1,
        "time_unix_nano": 1796045563792904048,
        "timestamp": 1796045563.7929041,
        "kind": "tool.execute.error",
        "phase": "error",
        "trace_id": "fa9b709a5af5dcddd0544a51bb331b36",
        "span_id": "dc7575af211ce8d4",
        "parent_span_id": "92e357466c1bcf2f",
        "agent_id": "support",
        "call_id": "d0544a51-bb33-1b36-dc75-75af211ce8d4",
        "action_id": "d0544a51-bb33-1b36-dc75-75af211ce8d4",
        "root_action_id": "fa9b709a-5af5-dcdd-d054-4a51bb331b36",
        "conversation_id": "c-1",
        "namespace": "tool",
        "operation": "execute",
        "attempt": 1,
        "outcome": "error",
        "outcome_reason": "retry",
        "error": "pydantic_ai.exceptions.ModelRetry",
        "name": "lookup",
        "span_name": "execute_tool lookup",
        "span_kind": "INTERNAL",
        "start_time_unix_nano": 1796045563792784450,
        "attributes": {
            "actionspan.namespace": "tool",
            "actionspan.operation": "execute",
            "actionspan.attempt": 1,
            "gen_ai.agent.name": "support",
            "gen_ai.conversation.id": "c-1",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.id": "call_1",
            "actionspan.action_id": "d0544a51-bb33-1b36-dc75-75af211ce8d4",
            "actionspan.root_action_id": "fa9b709a-5af5-dcdd-d054-4a51bb331b36",
            "actionspan.outcome": "error",
            "actionspan.outcome_reason": "retry",
            "error.type": "pydantic_ai.exceptions.ModelRetry",
        },
        "duration": 0.000119598,
        "end_time_unix_nano": 1796045563792904048,
        "status": {"code": "ERROR"},
        "events": [
            {
                "name": "exception",
                "time_unix_nano": 1796045563792889367,
                "attributes": {"exception.type": "pydantic_ai.exceptions.ModelRetry"},
            }
        ],
        "resource_scope": {
            "resource": {
                "attributes": {
                    "service.instance.id": "3748dea2-7d41-40b7-ac1e-7e240ae67bf5",
                    "service.version": "1.0",
                    "telemetry.sdk.language": "python",
                    "telemetry.sdk.name": "opentelemetry",
                    "telemetry.sdk.version": "1.45.2",
                    "service.name": "support-bot",
                }
            },
            "scope": {"name": "actionspan", "version": "0.1.0"},
        },
    })  # fmt: skip


def test_the_content_of_a_real_answer():
    (model,) = [
        event
        for _, event in events_of(json.loads(fixture("trace-by-id"))["trace"], BackendReport("it"))
        if event["namespace"] == "model"
    ]
    assert model["request"] == model["content"]["gen_ai.input.messages"]
    assert model["request"][0]["role"] == "user"
    assert model["usage"] == {"input_tokens": 51, "output_tokens": 7}
    assert model["attributes"]["gen_ai.response.finish_reasons"] == ["tool_calls"]


def test_nothing_found(tempo: Tempo):
    recorder = scripted(tempo, "search-none")
    assert list(recorder.query(**AT)) == []
    assert recorder.report.incomplete == []


def test_an_older_tempo_has_its_traces_elsewhere_and_in_another_form(tempo: Tempo):
    traces = fixture("trace-by-id")
    tempo.scripted += [
        Reply('{"traces":[{"traceID":"fa9b709a5af5dcddd0544a51bb331b36"}]}'),
        Reply("404 page not found", 404, TEXT),
        Reply(json.dumps({"batches": json.loads(traces)["trace"]["resourceSpans"]})),
    ]
    recorder = TempoRecorder(tempo.url)
    old = list(recorder.query(**AT))
    assert [request.path for request in tempo.requests[1:]] == [
        "/api/v2/traces/fa9b709a5af5dcddd0544a51bb331b36",
        "/api/traces/fa9b709a5af5dcddd0544a51bb331b36",
    ]
    tempo.scripted += [Reply('{"traces":[{"traceID":"fa9b709a5af5dcddd0544a51bb331b36"}]}'), Reply(traces)]
    assert old == list(recorder.query(**AT)) != []
    assert recorder.report.incomplete == []


def test_a_trace_that_is_gone_makes_the_answer_incomplete(tempo: Tempo, caplog: pytest.LogCaptureFixture):
    recorder = scripted(tempo, "search-tool", "trace-unknown", "trace-by-id")
    with caplog.at_level(logging.WARNING):
        assert len(list(recorder.query(kind="tool.*", **AT))) == 2
    reason = "trace fa9b709a5af5dcddd0544a51bb331b36 is found by search and cannot be read"
    assert recorder.report.incomplete == [reason]
    assert caplog.messages == [f"the answer of {tempo.url} is incomplete: {reason}"]


def test_a_refused_query_says_where_and_why(tempo: Tempo):
    recorder = scripted(tempo, "search-bad-query")
    with pytest.raises(BackendError) as raised:
        list(recorder.query(**AT))
    assert str(raised.value) == (
        f"GET {tempo.url}/api/search answered 400: invalid TraceQL query: parse error at line 1, col 31: "
        "syntax error: unexpected }"
    )


def test_a_refused_trace_says_where_and_why(tempo: Tempo):
    recorder = scripted(tempo, "search-tool", "trace-bad-id")
    with pytest.raises(BackendError, match=r"/api/v2/traces/fa9b\w+ answered 400: trace IDs can only contain hex"):
        list(recorder.query(**AT))


def test_windows_are_halved_until_the_answer_is_whole(tempo: Tempo, story: Story):
    story.tell(tempo)
    began = story.began / 1e9
    recorder = TempoRecorder(tempo.url, page_traces=2, longest_action_seconds=1)
    assert len(list(recorder.query(since=began, until=began + 600, kind="agent.*"))) == 5
    searched = [request.parameters for request in tempo.requests if request.path == "/api/search"]
    lengths = [int(each["end"]) - int(each["start"]) for each in searched]
    assert lengths[0] > 600
    assert min(lengths) < 120
    assert {each["limit"] for each in searched} == {"2"}
    assert recorder.report.requests == len(tempo.requests)


def test_a_second_with_more_traces_than_the_limit_is_said_to_be_incomplete(
    tempo: Tempo, story: Story, caplog: pytest.LogCaptureFixture
):
    story.tell(tempo)
    story.tell(tempo)
    recorder = TempoRecorder(tempo.url, page_traces=1, longest_action_seconds=1)
    with caplog.at_level(logging.WARNING):
        found = list(recorder.query(since=story.began / 1e9, until=story.began / 1e9 + 100, kind="model.*"))
    assert [event["usage"]["input_tokens"] for event in found] == [50, 51]
    assert recorder.report.incomplete
    assert re.fullmatch(
        r"one answer has no more than 1 traces, \S+\+00:00 to \S+\+00:00", recorder.report.incomplete[0]
    )
    assert caplog.messages[0] == f"the answer of {tempo.url} is incomplete: {recorder.report.incomplete[0]}"


def test_a_long_time_is_searched_in_weeks(tempo: Tempo):
    list(TempoRecorder(tempo.url).query(since=1_700_000_000, until=1_700_000_000 + 20 * DAY))
    ranges = [(int(request.parameters["start"]), int(request.parameters["end"])) for request in tempo.requests]
    assert [end - start for start, end in ranges][:2] == [7 * DAY, 7 * DAY]
    assert all(this[1] == following[0] for this, following in itertools.pairwise(ranges))
    assert ranges[0][0] == 1_700_000_000 - 3_600 - 1
    assert ranges[-1][1] >= 1_700_000_000 + 20 * DAY


def test_a_tempo_that_searches_shorter_ranges(tempo: Tempo, story: Story):
    story.tell(tempo)
    tempo.longest_range = DAY
    recorder = TempoRecorder(tempo.url, lookback_seconds=4 * DAY)
    assert len(list(recorder.query(kind="agent.*"))) == 5
    assert recorder.report.incomplete == []


def test_a_tempo_that_gives_fewer_traces(tempo: Tempo, story: Story):
    story.tell(tempo)
    tempo.highest_limit = 2
    recorder = TempoRecorder(tempo.url, longest_action_seconds=1)
    assert len(list(recorder.query(since=story.began / 1e9))) == 20
    assert recorder.report.incomplete == []


def test_what_is_hidden_because_it_is_new_is_said(tempo: Tempo, story: Story):
    story.tell(tempo)
    tempo.hidden_from = story.began // SECOND + 150
    began = story.began / 1e9
    recorder = TempoRecorder(tempo.url, page_traces=2, longest_action_seconds=1)
    assert len(list(recorder.query(kind="agent.*", since=began, until=began + 600))) == 3
    assert recorder.report.incomplete[0].startswith("the newest spans are hidden (query_end_cutoff), 20")


def test_a_search_that_was_not_finished_is_said_to_be_incomplete(tempo: Tempo, story: Story):
    story.tell(tempo)
    tempo.jobs = (2, 3)
    recorder = TempoRecorder(tempo.url)
    assert len(list(recorder.query(since=story.began / 1e9))) == 20
    (reason,) = recorder.report.incomplete
    assert reason.startswith("only 2 of 3 parts were searched, 20")


def test_a_trace_that_was_cut_off_is_said_to_be_incomplete(tempo: Tempo):
    recorder = scripted(tempo, "search-tool")
    cut = json.loads(fixture("trace-by-id")) | {"status": "PARTIAL", "message": "trace exceeds max size"}
    tempo.scripted += [Reply(json.dumps(cut)), Reply(fixture("trace-by-id"))]
    list(recorder.query(**AT))
    assert recorder.report.incomplete == ["trace fa9b709a5af5dcddd0544a51bb331b36 is cut off: trace exceeds max size"]


def test_a_span_that_cannot_be_read_is_said(tempo: Tempo):
    recorder = scripted(tempo, "search-tool")
    broken = json.loads(fixture("trace-by-id"))
    del broken["trace"]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["endTimeUnixNano"]
    tempo.scripted += [Reply(json.dumps(broken)), Reply(fixture("trace-by-id"))]
    found = list(recorder.query(kind="tool.*", **AT))
    assert {event["name"] for event in found} == {"lookup", "refund"}
    assert recorder.report.incomplete == ["a span that cannot be read (KeyError)"]


def test_a_trace_that_is_too_large_to_hold_is_said(tempo: Tempo, monkeypatch: pytest.MonkeyPatch):
    recorder = scripted(tempo, "search-tool", "trace-by-id", "trace-unknown")
    monkeypatch.setattr(_http, "MAX_ANSWER", len(fixture("trace-by-id")) - 1)
    assert list(recorder.query(**AT)) == []
    assert re.fullmatch(
        rf"GET {tempo.url}/api/v2/traces/fa9b\w+ answered more than \d+ bytes", recorder.report.incomplete[0]
    )


def test_a_span_in_our_scope_that_is_no_action_is_passed_over():
    answer = json.loads(fixture("trace-by-id"))["trace"]
    span = answer["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["attributes"] = [item for item in span["attributes"] if item["key"] != "actionspan.namespace"]
    report = BackendReport("it")
    assert len(list(events_of(answer, report))) == 3
    assert report.passed_over == 1


@pytest.mark.parametrize("kind", [JSON, TEXT])
def test_an_answer_that_is_no_json(tempo: Tempo, kind: str):
    tempo.scripted.append(Reply("<html>welcome</html>", 200, kind))
    with pytest.raises(BackendError, match=r"is not JSON: is this the backend's query port\? <html>welcome"):
        list(TempoRecorder(tempo.url).query(**AT))


@pytest.mark.parametrize(
    "answer",
    [
        *(f'{{"traces":{traces}}}' for traces in ("7", "[{}]", "[null]", '["x"]')),
        *(f'{{"traces":[],"metrics":{metrics}}}' for metrics in ("[1]", '{"totalJobs":{"a":1}}', '{"totalJobs":"x"}')),
    ],
)
def test_search_results_of_another_form(tempo: Tempo, answer: str):
    tempo.scripted.append(Reply(answer))
    with pytest.raises(BackendError, match="answered JSON of another form than this API's"):
        list(TempoRecorder(tempo.url).query(**AT))


@pytest.mark.parametrize("trace", ["[7]", '"x"'])
def test_a_trace_of_another_form(tempo: Tempo, trace: str):
    tempo.scripted += [Reply('{"traces":[{"traceID":"ab"}]}'), Reply(f'{{"trace":{trace}}}')]
    with pytest.raises(BackendError, match="answered JSON of another form than this API's"):
        list(TempoRecorder(tempo.url).query(**AT))


def test_a_trace_that_is_null_makes_the_answer_incomplete(tempo: Tempo):
    tempo.scripted += [Reply('{"traces":[{"traceID":"ab"}]}'), Reply('{"trace":null}')]
    recorder = TempoRecorder(tempo.url)
    assert list(recorder.query(**AT)) == []
    assert recorder.report.incomplete == [f"trace {'ab':0>32} is found by search and cannot be read"]


# --- What it is asked ---


@pytest.mark.parametrize(
    ("filters", "query"),
    [
        ({}, "{ span.actionspan.namespace != nil }"),
        ({"kind": "tool.*"}, '{ span.actionspan.namespace =~ "tool|tool[.].*" }'),
        ({"kind": "tool.execute.end"}, '{ span.actionspan.namespace = "tool" }'),
        ({"kind": "mcp.tools.list.end"}, '{ span.actionspan.namespace =~ "mcp|mcp[.]tools" }'),
        ({"kind": "to*"}, "{ span.actionspan.namespace != nil }"),
        (
            {"kind": "*.error"},
            '{ span.actionspan.namespace != nil && (span.actionspan.outcome = "error" || status = error) }',
        ),
        ({"agent_id": "x"}, '{ span.actionspan.namespace != nil && span.gen_ai.agent.name = "x" }'),
        (
            {"extra_filter": {"outcome": "timeout", "name": "x", "attempt": 2, "attributes.tenant": "acme"}},
            '{ span.actionspan.namespace != nil && span.actionspan.outcome = "timeout" && span.tenant = "acme" }',
        ),
        ({"extra_filter": {"attributes.a b": "x", 'attributes.x" }': "y"}}, "{ span.actionspan.namespace != nil }"),
        (
            {"call_id": "d0544a51-bb33-1b36-dc75-75af211ce8d4"},
            '{ (span:id = "dc7575af211ce8d4" || '
            'span.actionspan.action_id = "d0544a51-bb33-1b36-dc75-75af211ce8d4") && '
            "span.actionspan.namespace != nil }",
        ),
    ],
)
def test_the_query(tempo: Tempo, filters: dict[str, Any], query: str):
    list(TempoRecorder(tempo.url).query(**filters, since=1_700_000_000, until=1_700_000_001))
    assert tempo.queries == [query]


@pytest.mark.parametrize(
    "hostile",
    [
        'x" } || { true',
        "x\\",
        'x\\" || true || "',
        "a\nb",
        "a\x00b",
        "`",
        "{}",
        "\u202e",
        "\U0001f600",
        "\ud800",
        "日本",
    ],
)
def test_a_hostile_value_stays_a_value(tempo: Tempo, hostile: str):
    recorder = TempoRecorder(tempo.url)
    list(recorder.query(agent_id=hostile, extra_filter={"outcome": hostile}, since=1_700_000_000, until=1_700_000_001))
    (query,) = tempo.queries
    assert LITERAL.sub("S", query) == (
        "{ span.actionspan.namespace != nil && span.gen_ai.agent.name = S && span.actionspan.outcome = S }"
    )
    for literal in LITERAL.findall(query):
        assert ast.literal_eval(literal).encode()  # half a character is no text, and Tempo would refuse the query


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_literal_is_the_text_and_ascii(text: str):
    literal = quoted(text)
    assert LITERAL.fullmatch(literal)
    assert literal.isascii()
    assert literal.isprintable()
    assert ast.literal_eval(literal) == text  # Python's escapes are Go's, as far as they are used


def test_fields_are_the_attributes_they_are_said_to_be():
    attributes = [{"key": name, "value": {"stringValue": f"that of {name}"}} for name in FIELDS.values()]
    event = event_of(attributes=attributes)
    assert {field: event.get(field) for field in FIELDS} == {field: f"that of {name}" for field, name in FIELDS.items()}


def test_a_pattern_never_asks_for_less_than_it_matches():
    wanted = wanted_of(kind="a.b.*", extra_filter=None)
    (pattern,) = (ast.literal_eval(literal) for literal in LITERAL.findall(traceql_of(wanted)))
    for namespace in ("a", "a.b", "a.b.c"):
        assert re.fullmatch(pattern, namespace)
    assert not re.fullmatch(pattern, "ab")

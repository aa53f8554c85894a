"""Jaeger: paging, spellings, errors. The server is made after Jaeger's source; it was not compared with a real one."""

from __future__ import annotations

import json
import logging

import pytest

from actionspan.backends import BackendError, JaegerRecorder, _http
from backends.conftest import SERVICE, Story, kept
from backends.servers import Jaeger, OldJaeger, Reply

AT = {"since": 1_700_000_000, "until": 1_700_000_001}


def recorder_of(jaeger: Jaeger, **arguments: int) -> JaegerRecorder:
    return JaegerRecorder(jaeger.url, service=SERVICE, **arguments)


def test_what_it_is_asked(jaeger: Jaeger):
    list(recorder_of(jaeger).query(kind="tool.execute.end", agent_id='a "b"', **AT))
    (request,) = jaeger.requests
    assert request.path == "/api/v3/traces"
    assert request.parameters == {
        "query.serviceName": "shop",
        "query.startTimeMin": "2023-11-14T21:13:19.999000000Z",
        "query.startTimeMax": "2023-11-14T22:13:21.002000000Z",
        "query.searchDepth": "100",
        "query.attributes": '{"gen_ai.agent.name":"a \\"b\\"","actionspan.namespace":"tool"}',
        "query.rawTraces": "true",
    }


def test_nothing_found_is_404_of_its_own_form(jaeger: Jaeger):
    recorder = recorder_of(jaeger)
    assert list(recorder.query(**AT)) == []
    assert recorder.report.incomplete == []


def test_404_of_somebody_else_is_an_error(jaeger: Jaeger):
    jaeger.scripted.append(Reply("<h1>Not Found</h1>", 404, "text/html"))
    with pytest.raises(BackendError, match=r"/api/v3/traces answered 404: <h1>Not Found"):
        list(recorder_of(jaeger).query(**AT))


def test_another_service_has_nothing(jaeger: Jaeger, story: Story):
    story.tell(jaeger)
    assert list(JaegerRecorder(jaeger.url, service="other").query()) == []


def test_an_older_one_is_asked_in_its_own_words(story: Story):
    with OldJaeger() as jaeger:
        story.tell(jaeger)
        recorder = recorder_of(jaeger, page_traces=2)
        began = story.began / 1e9
        found = list(recorder.query(kind="tool.*", agent_id="agent 1", since=began, until=began + 600))
        assert [kept(event) for event in found] == story.ended(kind="tool.*", agent_id="agent 1")
        first, *others = [sorted(request.parameters) for request in jaeger.requests]
        assert "query.startTimeMin" in first
        assert all(
            "query.start_time_min" in names and "query.startTimeMin" not in names and "query.num_traces" in names
            for names in others
        )


def test_a_parameter_it_does_not_like_is_said_in_its_words(jaeger: Jaeger):
    jaeger.scripted += [jaeger.error(400, "malformed parameter query.searchDepth"), jaeger.error(400, "needs snakes")]
    with pytest.raises(BackendError, match=r"answered 400: .*malformed parameter query\.searchDepth"):
        list(recorder_of(jaeger).query(**AT))
    assert len(jaeger.requests) == 2


def test_windows_are_halved_until_the_answer_is_whole(jaeger: Jaeger, story: Story):
    story.tell(jaeger)
    recorder = recorder_of(jaeger, page_traces=2, longest_action_seconds=1)
    began = story.began / 1e9
    assert len(list(recorder.query(since=began, until=began + 600, kind="agent.*"))) == 5
    assert recorder.report.incomplete == []
    assert len(jaeger.requests) > 5


def test_a_millisecond_with_more_traces_than_the_limit_is_said_to_be_incomplete(
    jaeger: Jaeger, story: Story, caplog: pytest.LogCaptureFixture
):
    story.tell(jaeger)
    recorder = recorder_of(jaeger, page_traces=1, longest_action_seconds=1)
    with caplog.at_level(logging.WARNING):
        list(recorder.query(since=story.began / 1e9, until=story.began / 1e9 + 100, kind="model.*"))
    assert recorder.report.incomplete[0].startswith("one answer has no more than 1 traces, 20")
    assert "is incomplete: one answer has no more than 1 traces" in caplog.messages[0]


def test_an_answer_that_is_too_large_is_asked_for_in_halves(
    jaeger: Jaeger, story: Story, monkeypatch: pytest.MonkeyPatch
):
    story.tell(jaeger)
    whole = len(jaeger.reply_to_everything(SERVICE))
    monkeypatch.setattr(_http, "MAX_ANSWER", whole // 2)
    began = story.began / 1e9
    recorder = recorder_of(jaeger, longest_action_seconds=1)
    assert len(list(recorder.query(since=began, until=began + 600))) == 20
    assert recorder.report.incomplete == []


def test_an_answer_in_several_documents(jaeger: Jaeger, story: Story):
    story.tell(jaeger)
    whole = json.loads(jaeger.reply_to_everything(SERVICE))["result"]["resourceSpans"]
    jaeger.scripted.append(
        Reply("".join(json.dumps({"result": {"resourceSpans": [each]}}) + "\n" for each in whole), 200)
    )
    began = story.began / 1e9
    assert len(list(recorder_of(jaeger).query(since=began, until=began + 600))) == 20


def test_an_error_instead_of_an_answer_is_raised_whatever_the_status(jaeger: Jaeger):
    jaeger.scripted.append(Reply('{"error":{"httpCode":500,"message":"no storage"}}', 200))
    with pytest.raises(BackendError, match="no storage"):
        list(recorder_of(jaeger).query(**AT))


def test_an_error_after_a_part_of_the_answer_makes_it_incomplete(jaeger: Jaeger, story: Story):
    story.tell(jaeger)
    part = jaeger.reply_to_everything(SERVICE)
    jaeger.scripted.append(Reply(part + '\n{"error":{"httpCode":500,"message":"no storage"}}\n'))
    began = story.began / 1e9
    recorder = recorder_of(jaeger)
    assert len(list(recorder.query(since=began, until=began + 600))) == 20
    assert recorder.report.incomplete == ['Jaeger did not finish: {"httpCode":500,"message":"no storage"}']


@pytest.mark.parametrize("result", ["null", "{}", '{"resourceSpans":null}'])
def test_an_empty_result_is_nothing(jaeger: Jaeger, result: str):
    jaeger.scripted.append(Reply(f'{{"result":{result}}}'))
    recorder = recorder_of(jaeger)
    assert list(recorder.query(**AT)) == []
    assert recorder.report.incomplete == []


def test_what_somebody_in_front_of_it_refuses_says_nothing_about_its_spelling(story: Story):
    with OldJaeger() as jaeger:
        story.tell(jaeger)
        recorder = recorder_of(jaeger)
        jaeger.scripted.append(Reply("who are you?", 401, "text/plain"))
        with pytest.raises(BackendError, match="answered 401"):
            list(recorder.query(since=story.began / 1e9))
        assert len(list(recorder.query(since=story.began / 1e9))) == 20


def test_no_service():
    with pytest.raises(ValueError, match="service must name one service"):
        JaegerRecorder("http://localhost:16686", service="")

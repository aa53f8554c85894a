"""Messages, instructions and tool definitions are what OpenTelemetry's GenAI conventions say they are."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent
from pydantic_ai import messages as m
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart

from actionspan import ActionPolicy, NormalizationLimits
from actionspan.content import snapshot, to_json
from actionspan.pydantic_ai.messages import MessageView
from actionspan.redact import redact_keys, redact_patterns
from actionspan.testing import Capture, capture
from canary.genai_schemas import PARTS, VALIDATORS, parts_of_util_genai
from canary.playing import SCENARIOS, play
from scripted import calls, script


def check(seen: Capture) -> list[tuple[str, Any]]:
    """Every such attribute, decoded, each of them valid."""
    found: list[tuple[str, Any]] = []
    for span in seen.spans:
        for name, validator in VALIDATORS.items():
            if name in (span.attributes or {}):
                value = json.loads(str(span.attributes[name]))
                validator.validate(value)
                found.append((name, value))
    return found


def test_the_schemas_are_schemas_and_refuse_what_is_not():
    for validator in VALIDATORS.values():
        Draft7Validator.check_schema(validator.schema)
    messages = VALIDATORS["gen_ai.input.messages"]
    assert messages.is_valid([{"role": "user", "parts": [{"type": "text", "content": "x"}, {"type": "new", "a": 1}]}])
    for part in (
        {"type": "text", "content": ["x"]},
        {"type": "text"},
        {"content": "x"},
        {"type": "tool_call", "id": "1"},
        {"type": "uri", "uri": "x"},
    ):
        assert not messages.is_valid([{"role": "user", "parts": [part]}])


def test_the_schemas_name_the_parts_that_util_genai_has_with_their_fields():
    theirs = parts_of_util_genai(pytest.importorskip("opentelemetry.util.genai.types"))
    assert set(PARTS) == set(theirs)
    for name, part in theirs.items():
        assert {field.name for field in dataclasses.fields(part)} - {"type"} <= set(PARTS[name]["properties"])


@pytest.mark.parametrize(
    "policy",
    [
        ActionPolicy.everything(),
        ActionPolicy.everything(redactor=redact_patterns()),
        ActionPolicy.everything(redactor=redact_keys("content", "arguments", "response")),
        ActionPolicy.everything(limits=NormalizationLimits(max_total_bytes=900, max_string_characters=50)),
    ],
    ids=["whole", "redacted", "redacted to the bone", "tight"],
)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_leaves_is_valid(scenario: str, policy: ActionPolicy):
    gone, _ = play(scenario, mode="content", policy=policy)
    for name, validator in VALIDATORS.items():
        for text in gone.texts.get(("span", name), ()):
            validator.validate(json.loads(text))


NOW = datetime(2024, 1, 1)
ERRORS: Any = [{"type": "missing", "loc": ("a",), "msg": "Field required", "input": {"b": NOW}}]
EVERY_PART: list[ModelMessage] = [
    m.ModelRequest(
        [
            m.SystemPromptPart("be kind"),
            m.UserPromptPart(
                [
                    "text",
                    m.TextContent("more text"),
                    m.ImageUrl("https://host/a.png"),
                    m.AudioUrl("https://host/a"),
                    m.DocumentUrl("https://host/no-ending"),
                    m.VideoUrl("https://youtu.be/x"),
                    BinaryContent(b"x", media_type="application/x-odd"),
                    m.UploadedFile("file-1", provider_name="openai"),
                    m.CachePoint(),
                ]
            ),
            m.InstructionDeltaPart(id=None, content=None),
            m.InstructionDeltaPart(id=None, content="from now on"),
            m.InstructionBaselinePart(instructions=[]),
            m.RetryFeedbackPart(ERRORS, retry=m.RetryInfo("validation_error", attempt=1, max_retries=1)),
            m.RetryFeedbackPart("again", retry=m.RetryInfo("model_retry", attempt=1, max_retries=1)),
        ]
    ),
    m.ModelResponse(
        [
            m.ThinkingPart("hm", signature="s", provider_name="p"),
            m.TextPart("so"),
            m.ToolCallPart("f", '{"a": 1', "c1"),
            m.ToolCallPart("f", None, "c2"),
            m.NativeToolCallPart("web_search", {"q": "x"}, "n1", provider_name="p"),
            m.NativeToolReturnPart("web_search", {"hits": [1]}, "n1", provider_name="p"),
            m.FilePart(BinaryContent(b"x", media_type="image/png")),
            m.CompactionPart(None, provider_name="p"),
            m.CompactionPart("summary", provider_name="p"),
        ],
        finish_reason="tool_call",
    ),
    m.ModelRequest(
        [
            m.ToolReturnPart("f", {"when": NOW, "raw": b"x"}, "c1"),
            m.ToolReturnPart("f", ERRORS, "c2", outcome="retried"),
        ]
    ),
]


ANSWERED = [
    *("reasoning", "text", "tool_call", "tool_call", "server_tool_call", "server_tool_call_response", "omitted"),
    *("compaction", "compaction"),
]


@pytest.mark.parametrize("redactor", [None, redact_patterns()])
def test_every_part_the_library_has_is_a_valid_part(redactor: Any):
    agent = Agent(script("done"), name="a", instructions="kindly")
    agent.tool_plain(lambda: 1, name="f")
    with capture(mode="content", policy=ActionPolicy.everything(redactor=redactor)) as seen:
        agent.run_sync("go", message_history=EVERY_PART)
    sent = max((value for name, value in check(seen) if name == "gen_ai.input.messages"), key=len)
    assert [(message["role"], [part["type"] for part in message["parts"]]) for message in sent] == [
        ("system", ["text"]),
        ("user", ["text", "text", "uri", "uri", "uri", "uri", "omitted", "file", "text", "text"]),
        ("assistant", ANSWERED),
        ("tool", ["tool_call_response", "tool_call_response"]),
        ("user", ["text"]),
    ]


def test_parts_that_the_library_would_render_first_are_valid_as_they_are():
    sent = list(MessageView(EVERY_PART))
    VALIDATORS["gen_ai.input.messages"].validate(json.loads(to_json(snapshot(sent, NormalizationLimits(max_depth=20)))))
    assert [(message["role"], [part["type"] for part in message["parts"]]) for message in sent] == [
        ("system", ["text"]),
        ("user", ["text", "text", "uri", "uri", "uri", "uri", "omitted", "file"]),
        ("system", ["text", "omitted"]),
        ("user", ["text", "text"]),
        ("assistant", ANSWERED),
        ("tool", ["tool_call_response", "tool_call_response"]),
    ]


class Report(BaseModel):
    when: datetime
    items: list[int]


@pytest.mark.parametrize("redactor", [None, redact_patterns(), redact_keys("a")])
@pytest.mark.parametrize("output_type", [str, int, bool, Report, list[int], dict[str, int], datetime])
def test_any_output_is_a_valid_message(output_type: Any, redactor: Any):
    written: Any = {
        str: None, int: 5, bool: True, Report: {"when": NOW.isoformat(), "items": [1]},
        list[int]: [1], dict[str, int]: {"a": 1}, datetime: NOW.isoformat(),
    }[output_type]  # fmt: skip
    arguments = written if output_type is Report else {"response": written}
    model = script(ModelResponse([TextPart("said")]) if output_type is str else calls(("final_result", arguments, "c")))
    with capture(mode="content", policy=ActionPolicy.everything(redactor=redactor)) as seen:
        Agent(model, name="a", output_type=output_type).run_sync("go")
        assert len(check(seen)) >= 4

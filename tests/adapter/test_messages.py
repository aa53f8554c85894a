"""What was said, in the shapes of the GenAI conventions: every kind of part, as the model is sent it and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dirty_equals import IsStr
from inline_snapshot import snapshot
from pydantic_ai import Agent, direct
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    CompactionPart,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from actionspan import ActionPolicy
from actionspan.pydantic_ai.messages import MessageView
from actionspan.testing import capture
from scripted import script

pytestmark = pytest.mark.anyio


async def recorded(prompt: Any, history: list[ModelMessage] | None = None, answer: Any = "ok") -> dict[str, Any]:
    """The messages of a model request with this history and prompt, and of its answer."""
    agent = Agent(script(answer), name="a")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await agent.run(prompt, message_history=history)
    (request,) = seen.named("chat scripted")
    return {
        name: json.loads(request.attributes[f"gen_ai.{name}"])
        for name in ("system_instructions", "input.messages", "output.messages")
        if f"gen_ai.{name}" in request.attributes
    }


def parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"]]


async def test_what_a_user_may_send():
    prompt = [
        "look",
        TextContent("at this", metadata={"kept": "back"}),
        ImageUrl("https://example.com/a.png"),
        AudioUrl("https://example.com/unknown"),
        DocumentUrl("https://example.com/a.pdf"),
        BinaryContent(b"\x00", media_type="video/mp4"),
        UploadedFile(file_id="file-1", provider_name="openai", media_type="text/plain"),
        CachePoint(),
    ]
    assert parts((await recorded(prompt))["input.messages"]) == snapshot(
        [
            {"type": "text", "content": "look"},
            {"type": "text", "content": "at this"},
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://example.com/a.png"},
            {"type": "uri", "modality": "audio", "mime_type": None, "uri": "https://example.com/unknown"},
            {"type": "uri", "modality": "document", "mime_type": "application/pdf", "uri": "https://example.com/a.pdf"},
            {"type": "omitted", "modality": "video", "mime_type": "video/mp4"},
            {"type": "file", "modality": "text", "mime_type": "text/plain", "file_id": "file-1"},
        ]
    )


@pytest.mark.filterwarnings("ignore:`RetryPromptPart` is deprecated")  # old histories hold it
async def test_what_a_model_and_its_provider_may_say():
    history: list[ModelMessage] = [
        ModelRequest([SystemPromptPart("be brief"), UserPromptPart("first")]),
        ModelResponse(
            [
                ThinkingPart("hm"),
                NativeToolCallPart("web_search", {"q": "x"}, tool_call_id="n1", provider_name="p"),
                NativeToolReturnPart("web_search", {"found": 1}, tool_call_id="n1", provider_name="p"),
                FilePart(BinaryContent(b"\x00", media_type="image/png")),
                SpeechPart(transcript="spoken", speaker="assistant"),
                CompactionPart("so far", provider_name="p"),
                ToolCallPart("f", "{not json", tool_call_id="c1"),
            ]
        ),
        ModelRequest(
            [
                ToolReturnPart("f", {"a": 1}, tool_call_id="c1"),
                RetryPromptPart("once more", tool_name="f", tool_call_id="c1"),
                RetryPromptPart("say it otherwise"),
            ]
        ),
        ModelResponse([TextPart("done")]),
    ]
    assert (await recorded("second", history))["input.messages"] == snapshot(
        [
            {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
            {"role": "user", "parts": [{"type": "text", "content": "first"}]},
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "hm"},
                    {
                        "type": "server_tool_call",
                        "id": "n1",
                        "name": "web_search",
                        "server_tool_call": {"type": "web_search", "arguments": {"q": "x"}},
                    },
                    {
                        "type": "server_tool_call_response",
                        "id": "n1",
                        "server_tool_call_response": {"type": "web_search", "response": {"found": 1}},
                    },
                    {"type": "omitted", "modality": "image", "mime_type": "image/png"},
                    {"type": "text", "content": "spoken"},
                    {"type": "compaction", "content": "so far"},
                    {"type": "tool_call", "id": "c1", "name": "f", "arguments": "{not json"},
                ],
            },
            {
                "role": "tool",
                "parts": [
                    {"type": "tool_call_response", "id": "c1", "response": {"a": 1}},
                    {"type": "tool_call_response", "id": "c1", "response": "once more"},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "type": "text",
                        "content": IsStr(regex="(?s).*say it otherwise.*"),  # the library words it
                    }
                ],
            },
            {"role": "assistant", "parts": [{"type": "text", "content": "done"}]},
            {"role": "user", "parts": [{"type": "text", "content": "second"}]},
        ]
    )


async def test_instructions_stand_beside_the_messages():
    agent = Agent(script("ok"), name="a", instructions="Be brief.")
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await agent.run("hi")
    (request,) = seen.named("chat scripted")
    assert json.loads(request.attributes["gen_ai.system_instructions"]) == snapshot(
        [{"type": "text", "content": "Be brief."}]
    )
    assert "Be brief." not in request.attributes["gen_ai.input.messages"]


async def asked_directly(history: list[ModelMessage]) -> dict[str, Any]:
    """The messages of a request that no agent prepared."""
    with capture(mode="content", policy=ActionPolicy.everything()) as seen:
        await direct.model_request(script("ok"), history)
    (request,) = seen.named("chat scripted")
    return {
        name: json.loads(request.attributes[f"gen_ai.{name}"])
        for name in ("system_instructions", "input.messages")
        if f"gen_ai.{name}" in request.attributes
    }


async def test_speech_is_what_was_understood_and_that_there_was_a_sound():
    sound = BinaryContent(b"\x00", media_type="audio/wav")
    history: list[ModelMessage] = [
        ModelRequest([SpeechPart(transcript="hello", audio=sound, speaker="user")]),
        ModelResponse([SpeechPart(audio=sound, speaker="assistant")]),
        ModelRequest([SpeechPart(transcript="bye", speaker="user")]),
    ]
    assert (await asked_directly(history))["input.messages"] == snapshot(
        [
            {
                "role": "user",
                "parts": [
                    {"type": "text", "content": "hello"},
                    {"type": "omitted", "modality": "audio", "mime_type": "audio/wav"},
                ],
            },
            {"role": "assistant", "parts": [{"type": "omitted", "modality": "audio", "mime_type": "audio/wav"}]},
            {"role": "user", "parts": [{"type": "text", "content": "bye"}]},
        ]
    )


async def test_instructions_of_a_history_that_is_sent_as_it_is_are_those_of_its_last_request():
    first = ModelRequest([UserPromptPart("one")], instructions="Be brief.")
    answer = ModelResponse([TextPart("1")])
    last = ModelRequest([UserPromptPart("two")], instructions="Be kind.")
    brief, kind = ([{"type": "text", "content": text}] for text in ("Be brief.", "Be kind."))
    assert (await asked_directly([first, answer, last]))["system_instructions"] == kind
    assert (await asked_directly([first, answer]))["system_instructions"] == brief
    assert "system_instructions" not in await asked_directly([answer])


def test_a_history_can_be_sliced_as_any_sequence():
    view = MessageView([ModelRequest([SystemPromptPart("a"), UserPromptPart("b")]), ModelResponse([TextPart("c")])])
    assert [message["role"] for message in view[-2:]] == ["user", "assistant"]
    assert view[:1] == [view[0]]


def test_a_history_is_the_same_from_whichever_end_it_is_read():
    history = [
        ModelRequest([SystemPromptPart("a"), UserPromptPart("b"), UserPromptPart("c")]),
        ModelResponse([]),
        ModelRequest([]),
        ModelRequest([ToolReturnPart("t", "d", "1"), UserPromptPart("e")]),
        ModelResponse([TextPart("f"), TextPart("g")]),
        ModelRequest([UserPromptPart("h")]),
    ]
    forward, backward = MessageView(history), MessageView(history)
    messages = [forward[place] for place in range(len(forward))]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
    ]
    assert [backward[place] for place in range(-1, -8, -1)] == messages[::-1]
    assert MessageView(history)[2:5] == messages[2:5]
    assert MessageView(history)[5:2] == []
    with pytest.raises(IndexError):
        forward[7]

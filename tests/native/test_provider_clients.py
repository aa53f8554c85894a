"""An instrumented provider client inside our request: one `chat` span, and it is ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from inline_snapshot import snapshot
from openai import AsyncOpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from pydantic_ai import Agent, models
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from actionspan.testing import Capture, capture
from scripted import calls, script

pytestmark = pytest.mark.anyio


class ChatCompletions(BaseHTTPRequestHandler):
    """Answers every request with one word, streamed where that was asked for."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        common = {"id": "r1", "created": 1, "model": "gpt-x", "object": "chat.completion"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        if asked.get("stream"):
            delta = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}
            last = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [{**common, "object": "chat.completion.chunk", "choices": [part]} for part in (delta, last)]
            chunks.append({**common, "object": "chat.completion.chunk", "choices": [], "usage": usage})
            body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            self.answer("text/event-stream", body)
        else:
            message = {"role": "assistant", "content": "hi"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.answer("application/json", json.dumps({**common, "choices": [choice], "usage": usage}))

    def answer(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[str]:
    """The address of a provider on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ChatCompletions)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with models.override_allow_model_requests(True):
        yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def seen() -> Iterator[Capture]:
    """Both instrumentations on, sending to one place."""
    theirs = OpenAIInstrumentor()
    with capture() as seen:
        theirs.instrument(tracer_provider=seen.tracer_provider, meter_provider=seen.meter_provider)
        yield seen
        theirs.uninstrument()


ONE_REQUEST = snapshot("""\
invoke_agent a [success]
  chat gpt-x [success] gen_ai.usage.input_tokens=3 gen_ai.usage.output_tokens=2\
""")


async def test_a_request(seen: Capture, provider: str):
    async with AsyncOpenAI(base_url=provider, api_key="none") as client:
        agent = Agent(OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=client)), name="a")
        assert (await agent.run("go")).output == "hi"
    assert seen.tree("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens") == ONE_REQUEST
    tokens = seen.metrics()["gen_ai.client.token.usage"]
    assert sum(point.sum for point in tokens) == 5


async def test_a_stream(seen: Capture, provider: str):
    async with AsyncOpenAI(base_url=provider, api_key="none") as client:
        agent = Agent(OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=client)), name="a")
        async with agent.run_stream("go") as stream:
            assert await stream.get_output() == "hi"
    assert seen.tree("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens") == ONE_REQUEST


async def test_a_request_that_is_no_agents_keeps_its_own_span(seen: Capture, provider: str):
    async with AsyncOpenAI(base_url=provider, api_key="none") as client:
        await client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "go"}])
    assert [span.instrumentation_scope.name for span in seen.spans] == ["opentelemetry.instrumentation.genai.openai"]


async def test_a_tools_own_request_keeps_its_span(seen: Capture, provider: str):
    async with AsyncOpenAI(base_url=provider, api_key="none") as client:
        agent = Agent(script(calls(("ask", {}, "c1")), "done"), name="a")

        @agent.tool_plain
        async def ask() -> str:
            answer = await client.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "go"}])
            return answer.choices[0].message.content or ""

        await agent.run("go")
    assert seen.tree() == snapshot("""\
invoke_agent a [success]
  chat scripted [success]
  validate_tool ask [success]
  execute_tool ask [success]
    chat gpt-x
  chat scripted [success]\
""")

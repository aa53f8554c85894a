"""A web service with one agent: answering at once, streaming, and in the background.

`python examples/web_service/app.py` serves it and prints each request's trace as a tree. In production nothing here
is needed for tracing but `lifespan`: `opentelemetry-instrument uvicorn app:app`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import BackgroundTasks, FastAPI
from fastapi.responses import StreamingResponse
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

import actionspan
from actionspan.testing import tree


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands in for a model where there is no key: look the parcel up, then say where it is."""
    found = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if found:
        return ModelResponse(parts=[TextPart(f"Your parcel is {found[0].content}.")])
    return ModelResponse(parts=[ToolCallPart("locate", {"parcel": "NL42"})])


async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """The same, word by word."""
    for part in answer(messages, info).parts:
        if isinstance(part, ToolCallPart):
            yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str())}
        elif isinstance(part, TextPart):
            for word in part.content.split():
                yield word + " "


scripted = FunctionModel(answer, stream_function=stream, model_name="scripted")
agent = Agent(os.environ.get("MODEL") or scripted, name="parcels")


@agent.tool_plain
async def locate(parcel: str) -> str:
    """Where the parcel is now."""
    return "in Utrecht"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """After the last request, before the process ends: what a batch still holds is sent.

    Uvicorn ends a process that was told to stop by the very signal that told it, so nothing registered with `atexit`
    runs and the last seconds of spans would be lost.
    """
    yield
    await asyncio.to_thread(actionspan.flush, 5)


app = FastAPI(lifespan=lifespan)


@app.get("/ask")
async def ask(question: str = "Where is NL42?") -> dict[str, object]:
    """One run, one answer."""
    result = await agent.run(question)
    return {"answer": result.output, "worker": os.getpid(), "trace": current_trace()}


@app.get("/stream")
async def streamed(question: str = "Where is NL42?") -> StreamingResponse:
    """The run happens while the response is read, still within the request's trace."""

    async def words() -> AsyncGenerator[str]:
        async with agent.run_stream(question) as result:
            async for word in result.stream_text(delta=True):
                yield word

    return StreamingResponse(words(), media_type="text/plain", headers={"x-trace": current_trace()})


@app.post("/later")
async def later(tasks: BackgroundTasks, question: str = "Where is NL42?") -> dict[str, object]:
    """The run happens after the response was sent, still within the request's trace."""
    tasks.add_task(agent.run, question)
    return {"trace": current_trace()}


def current_trace() -> str:
    """The trace this request belongs to, for the caller to quote."""
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


class TreePrinter(SpanProcessor):
    """Prints a trace as a tree whenever nothing in it is under way."""

    def __init__(self) -> None:
        self._open: Counter[int] = Counter()
        self._ended: defaultdict[int, list[ReadableSpan]] = defaultdict(list)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._open[span.context.trace_id] += 1

    def on_end(self, span: ReadableSpan) -> None:
        trace_id = span.context.trace_id
        self._ended[trace_id].append(span)
        self._open[trace_id] -= 1
        if not self._open[trace_id]:
            print(f"trace {trace.format_trace_id(trace_id)}\n{tree(self._ended.pop(trace_id))}\n", flush=True)


def main() -> None:
    """Serve with tracing set up by hand, to the terminal."""
    provider = TracerProvider()
    provider.add_span_processor(TreePrinter())
    trace.set_tracer_provider(provider)
    actionspan.PydanticAIInstrumentor().instrument()
    FastAPIInstrumentor.instrument_app(app, exclude_spans=["receive", "send"])
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")), log_level="warning")


if __name__ == "__main__":
    main()

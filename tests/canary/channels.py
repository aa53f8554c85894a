"""The table: every way content enters a run, and everywhere it may leave when its category is on."""

from __future__ import annotations

import base64
from functools import cache
from importlib.util import find_spec
from typing import Final

INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
DEFINITIONS: Final = "gen_ai.tool.definitions"
DESCRIPTION: Final = "gen_ai.agent.description"
METADATA: Final = "actionspan.metadata"
INVENTED: Final = "actionspan.invented_tool_name"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
DENIAL: Final = "actionspan.denial_message"
MESSAGE: Final = "exception.message"
STACK: Final = "exception.stacktrace"
STATUS: Final = "status"
ENVELOPE_CODE: Final = "actionspan.envelope_error_code"
ENVELOPE_MESSAGE: Final = "actionspan.envelope_error_message"
URI: Final = "mcp.resource.uri"
REASON: Final = "actionspan.control_reason"
LABEL: Final = "actionspan.control_label"
DIRECTIVE: Final = "actionspan.control_directive"
REQUEST: Final = "actionspan.request"
RESPONSE: Final = "actionspan.response"

CATEGORY_OF: Final = {
    INPUT: "model_requests",
    INSTRUCTIONS: "model_requests",
    DEFINITIONS: "model_requests",
    DESCRIPTION: "model_requests",
    METADATA: "model_requests",
    OUTPUT: "model_responses",
    INVENTED: "model_responses",
    ENVELOPE_CODE: "model_responses",
    ENVELOPE_MESSAGE: "model_responses",
    ARGUMENTS: "tool_arguments",
    RESULT: "tool_results",
    DENIAL: "error_messages",
    MESSAGE: "error_messages",
    STACK: "error_messages",
    STATUS: "error_messages",
    URI: "mcp_requests",
    REASON: "custom_content",
    LABEL: "custom_content",
    DIRECTIVE: "model_requests",
}
"""The category that lets an attribute carry content. Of `REQUEST` and `RESPONSE` it depends on whose they are."""

ERROR: Final = {MESSAGE, STACK, STATUS}
NOWHERE: Final[set[str]] = set()

CHANNELS: Final[dict[str, set[str]]] = {
    # what is asked of a model
    "system prompt": {INPUT},
    "instructions": {INSTRUCTIONS},
    "user text": {INPUT},
    "URI userinfo": {INPUT},
    "URI path": {INPUT},
    "URI query": {INPUT},
    "image bytes": NOWHERE,
    "image data URI": NOWHERE,
    "data URI within text": NOWHERE,
    "tool description": {DEFINITIONS},
    "argument default": {DEFINITIONS, ARGUMENTS},
    "run metadata": {METADATA},
    "agent description": {DESCRIPTION},
    # what a model answers; an answer goes back with the next request
    "reasoning": {OUTPUT, INPUT},
    "completion": {OUTPUT, INPUT},
    "output object": {OUTPUT},
    "invented tool name": {OUTPUT, INPUT, INVENTED},
    "invented tool's argument": {OUTPUT, INPUT, ARGUMENTS},
    "envelope content": {OUTPUT},
    "envelope error code": {OUTPUT, ENVELOPE_CODE},
    "envelope error message": {OUTPUT, ENVELOPE_MESSAGE},
    "invalid envelope's field": ERROR | {OUTPUT, INPUT},
    # tools
    "argument": {OUTPUT, INPUT, ARGUMENTS},
    "secret argument": NOWHERE,
    "secret within an argument": NOWHERE,
    "result": {RESULT, INPUT},
    "dataclass result": {RESULT, INPUT},
    "hidden dataclass field": NOWHERE,
    "model result": {RESULT, INPUT},
    "excluded field": NOWHERE,
    "secret field": NOWHERE,
    "bytes result": NOWHERE,
    "media within a result": NOWHERE,
    "external result": {RESULT, INPUT},
    # what goes wrong
    "exception message": ERROR,
    "exception group member": {STACK},
    "cause": {STACK},
    "exception note": {STACK},
    "retry text": ERROR | {INPUT},
    "failure text": ERROR | {INPUT},
    "validation error text": ERROR | {INPUT},
    "output validation error text": ERROR | {INPUT},
    "output validator's retry text": ERROR | {INPUT},
    "model error message": ERROR,
    "model error body": ERROR,
    # approvals
    "argument awaiting approval": {OUTPUT, INPUT, ARGUMENTS},
    "denial reason": {DENIAL, INPUT},
    "deferral metadata": NOWHERE,
    # MCP
    "MCP argument": {OUTPUT, INPUT, ARGUMENTS, REQUEST},
    "MCP result": {RESULT, INPUT, RESPONSE},
    "MCP failure text": ERROR | {INPUT, RESPONSE},
    "MCP tool description": {DEFINITIONS, RESPONSE},
    "MCP image": NOWHERE,
    "resource userinfo": {URI, REQUEST, RESPONSE},
    "resource path": {URI, REQUEST, RESPONSE},
    "resource query": {URI, REQUEST, RESPONSE},
    "resource text": {RESPONSE},
    "resource bytes": NOWHERE,
    "invented prompt name": ERROR | {REQUEST},
    # the application's own actions, and requests without an agent
    "dispatched request": {REQUEST},
    "dispatched response": {RESPONSE},
    "custom request": {REQUEST},
    "custom response": {RESPONSE},
    "custom error": ERROR,
    "embedded text": {REQUEST},
    "direct prompt": {INPUT},
    # run control; a directive is put into the conversation
    "directive": {DIRECTIVE, INPUT},
    "checkpoint label": {LABEL},
    "reason of a pause": {REASON},
    "reason of an abort": {REASON},
    "reason of a verb that matched no run": {REASON},
    # what surrounds the run
    "inbound baggage": NOWHERE,
    "dependencies": NOWHERE,
}


OWNERS: Final = {
    "MCP": ("mcp_requests", "mcp_responses"),
    "resource": ("mcp_requests", "mcp_responses"),
    "invented prompt": ("mcp_requests", "mcp_responses"),
    "dispatched": ("dispatch_requests", "dispatch_responses"),
    "custom": ("custom_content", "custom_content"),
    "embedded": ("model_requests", "model_responses"),
}
"""The categories of `REQUEST` and `RESPONSE`, by how a channel's name begins."""


if not find_spec("fastmcp"):
    for channel in [name for name in CHANNELS if name.startswith(("MCP", "resource", "invented prompt"))]:
        del CHANNELS[channel]


def category_of(channel: str, place: str) -> str:
    """The category that lets `channel` be in `place`."""
    if place not in (REQUEST, RESPONSE):
        return CATEGORY_OF[place]
    (owner,) = (categories for beginning, categories in OWNERS.items() if channel.startswith(beginning))
    return owner[place == RESPONSE]


def canary(channel: str) -> str:
    """The string that stands for the content of `channel`; letters and digits only, and part of no other's."""
    return f"canary{list(CHANNELS).index(channel):02d}x{''.join(filter(str.isalnum, channel)).lower()}"


@cache
def traces_of(channel: str) -> frozenset[str]:
    """The canary, and what is left of it in base64, wherever in the encoded bytes it begins."""
    text = canary(channel).encode()
    shifted = {base64.b64encode(b"?" * shift + text).decode()[4:-4] for shift in range(3)}
    return frozenset({canary(channel), text.hex(), *shifted})


def expected(channel: str, categories: set[str]) -> set[str]:
    """Where the content of `channel` is to be found when `categories` are on."""
    return {place for place in CHANNELS[channel] if category_of(channel, place) in categories}
